//! The world of the demo: a battle of squads, and what becomes of it before it is loaded back.
//!
//! A squad is a leader whose children are its soldiers. Leaders have a rival, soldiers have somebody in their sights,
//! and some of them aim at each other: references go in circles and to entities that come later. Every entity has a
//! name of its own, so that two worlds can be compared without knowing ids.

use bevy_app::App;
use bevy_bonfire::prelude::*;
use bevy_ecs::prelude::*;
use bevy_transform::components::Transform;

/// A leader and its soldiers.
pub(super) const SQUAD: usize = 8;

#[derive(Persist, Clone, Copy, Debug)]
pub(super) enum Rank {
    Leader,
    Soldier,
    Quartermaster,
}

/// Whoever has one is part of the save.
#[derive(Component, Persist, Clone, Copy, Debug)]
#[require(Saved)]
#[persist(key = "battle.fighter")]
pub(super) struct Fighter {
    pub(super) rank: Rank,
    pub(super) health: f32,
    pub(super) stamina: f32,
    pub(super) kills: u16,
}

#[derive(Component, Persist, Clone, Copy, Debug)]
#[persist(key = "battle.velocity")]
pub(super) struct Velocity {
    pub(super) x: f32,
    pub(super) y: f32,
    pub(super) z: f32,
}

/// Somebody else, of another squad.
#[derive(Component, Persist, Clone, Copy, Debug)]
#[persist(key = "battle.aim")]
pub(super) struct Aim {
    pub(super) at: Entity,
    pub(super) since: u32,
}

/// What a leader carries.
#[derive(Component, Persist, Clone, Debug)]
#[persist(key = "battle.banner")]
pub(super) struct Banner {
    pub(super) motto: String,
    pub(super) rival: Option<Entity>,
}

/// What a quartermaster carries.
#[derive(Component, Persist, Clone, Debug)]
#[persist(key = "battle.pack")]
pub(super) struct Pack {
    pub(super) items: Vec<String>,
    pub(super) coins: u32,
}

#[derive(Resource, Persist, Clone, Debug)]
#[persist(key = "battle.state")]
pub(super) struct Battle {
    pub(super) turn: u64,
    pub(super) weather: String,
    pub(super) hero: Option<Entity>,
}

const TREES: [&str; 8] = ["Alder", "Birch", "Cedar", "Elm", "Hazel", "Larch", "Oak", "Rowan"];
const ITEMS: [&str; 6] = ["rope", "bread", "lantern", "bandages", "a map of the north", "arrows"];

/// An app that knows what to save, with a battle of so many entities in its world.
pub(super) fn app(entities: usize) -> App {
    let mut app = empty_app();
    fill(app.world_mut(), entities);
    app
}

/// An app that knows what to save.
pub(super) fn empty_app() -> App {
    let mut app = App::new();
    app.add_plugins(BonfirePlugin::new());
    app.persist::<Fighter>().persist::<Velocity>().persist::<Aim>().persist::<Banner>().persist::<Pack>();
    app.persist_resource::<Battle>();
    app
}

/// Numbers that look random and are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }

    fn float(&mut self, end: f32) -> f32 {
        self.below(1 << 20) as f32 / (1 << 20) as f32 * end
    }
}

fn fill(world: &mut World, entities: usize) {
    let mut random = Random(7);
    let mut all = Vec::with_capacity(entities);
    let mut leader = Entity::PLACEHOLDER;
    for number in 0..entities {
        let (squad, place) = (number / SQUAD, number % SQUAD);
        let tree = TREES[squad % TREES.len()];
        let name = match place {
            0 => format!("{tree} {squad}"),
            _ => format!("{tree} {squad}, soldier {place}"),
        };
        let rank = match place {
            0 => Rank::Leader,
            3 if squad % 4 == 0 => Rank::Quartermaster,
            _ => Rank::Soldier,
        };
        let mut transform =
            Transform::from_xyz(random.float(4096.0), random.float(64.0), random.float(4096.0));
        transform.rotate_y(random.float(6.0));
        let velocity = Velocity { x: random.float(2.0), y: 0.0, z: random.float(2.0) };
        let kills = random.below(40) as u16;
        let fighter = Fighter { rank, health: random.float(100.0), stamina: random.float(1.0), kills };
        let mut entity = world.spawn((Name::new(name), fighter, transform, velocity));
        match rank {
            Rank::Leader => {
                leader = entity.id();
                let motto = format!("{} and {tree} forever", ITEMS[random.below(ITEMS.len())]);
                entity.insert(Banner { motto, rival: None });
            }
            Rank::Soldier => {
                entity.insert((Aim { at: leader, since: 0 }, ChildOf(leader)));
            }
            Rank::Quartermaster => {
                let items = (0..1 + random.below(4)).map(|_| ITEMS[random.below(ITEMS.len())].to_owned());
                let pack = Pack { items: items.collect(), coins: random.below(1000) as u32 };
                entity.insert((Aim { at: leader, since: 0 }, ChildOf(leader), pack));
            }
        }
        all.push(entity.id());
    }
    let mut everyone = world.query::<(Option<&mut Aim>, Option<&mut Banner>)>();
    for (aim, banner) in everyone.iter_mut(world) {
        if let Some(mut aim) = aim {
            *aim = Aim { at: all[random.below(entities)], since: random.below(1 << 16) as u32 };
        }
        if let Some(mut banner) = banner {
            banner.rival = (random.below(3) > 0).then(|| all[random.below(entities.div_ceil(SQUAD)) * SQUAD]);
        }
    }
    // In some squads the last soldier was moved to the front: siblings have an order, and it is part of the world.
    for leader in all.iter().step_by(SQUAD * 10) {
        if let Some(mut soldiers) = world.get_mut::<Children>(*leader) {
            let last = soldiers.len() - 1;
            soldiers.swap(0, last);
        }
    }
    world.insert_resource(Battle {
        turn: 1_000_000_007,
        weather: "snow from the east".to_owned(),
        hero: all.get(entities / 2).copied(),
    });
}

/// What happened to the world after it was saved.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wreck {
    pub(super) despawned: usize,
    pub(super) changed: usize,
    pub(super) strangers: usize,
}

/// Despawns every third squad, changes every component and every list of children of the others, lets strangers in.
pub(super) fn wreck(world: &mut World) -> Wreck {
    let count = world.query_filtered::<(), With<Fighter>>().iter(world).count();
    let leaders: Vec<Entity> = world.query_filtered::<Entity, With<Banner>>().iter(world).collect();
    for &leader in leaders.iter().step_by(3) {
        world.despawn(leader);
    }
    let mut everyone = world.query::<(
        Entity,
        &mut Name,
        &mut Fighter,
        &mut Velocity,
        &mut Transform,
        Option<&mut Aim>,
        Option<&mut Banner>,
        Option<&mut Pack>,
    )>();
    let mut changed = 0;
    for (entity, mut name, mut fighter, mut velocity, mut transform, aim, banner, pack) in
        everyone.iter_mut(world)
    {
        changed += 1;
        let ghost = format!("ghost of {}", name.as_str());
        name.set(ghost);
        *fighter = Fighter { rank: Rank::Soldier, health: 0.0, stamina: 0.0, kills: 0 };
        *velocity = Velocity { x: 0.0, y: -9.8, z: 0.0 };
        *transform = Transform::IDENTITY;
        if let Some(mut aim) = aim {
            *aim = Aim { at: entity, since: 0 };
        }
        if let Some(mut banner) = banner {
            *banner = Banner { motto: String::new(), rival: Some(entity) };
        }
        if let Some(mut pack) = pack {
            pack.items.clear();
        }
    }
    for leader in leaders {
        if let Some(mut soldiers) = world.get_mut::<Children>(leader) {
            let last = soldiers.len() - 1;
            soldiers.swap(0, last);
        }
    }
    let strangers = count / 100 + 1;
    for number in 0..strangers {
        let fighter = Fighter { rank: Rank::Leader, health: 1.0, stamina: 1.0, kills: 0 };
        world.spawn((Name::new(format!("stranger {number}")), fighter));
    }
    world.insert_resource(Battle { turn: 0, weather: "none".to_owned(), hero: None });
    Wreck { despawned: count - changed, changed, strangers }
}
