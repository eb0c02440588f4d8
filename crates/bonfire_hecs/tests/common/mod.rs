//! Components of every kind, under the keys of the Bevy front end's tests, and a world that has them.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use bonfire_hecs::{
    Bonfire, Descriptor, LoadContext, LoadMode, Persist, Result, SaveOptions, SaveScope, Saved, Snapshot,
};
use bonfire_testkit::script::{Part, ScriptWorld};
use hecs::{Entity, World};

/// Plain: one copy per column.
#[derive(Persist, Clone, Copy, Debug, PartialEq, Default)]
#[persist(key = "test.position")]
pub struct Position {
    pub x: f32,
    pub y: f32,
}

/// Strided: a gap between the fields, and one that is not saved.
#[derive(Persist, Clone, Copy, Debug, PartialEq, Default)]
#[persist(key = "test.health")]
pub struct Health {
    pub current: u8,
    pub max: u32,
    #[persist(skip)]
    pub flash: u16,
}

/// Rows: text and lists, with a drop.
#[derive(Persist, Clone, Debug, PartialEq, Default)]
#[persist(key = "test.inventory")]
pub struct Inventory {
    pub items: Vec<String>,
    pub gold: Option<u64>,
}

/// A tag.
#[derive(Persist, Clone, Copy, Debug, PartialEq, Default)]
#[persist(key = "test.enemy")]
pub struct Enemy;

#[derive(Persist, Clone, Debug, PartialEq, Default)]
#[persist(key = "test.burning")]
pub struct Burning(pub String);

/// References.
#[derive(Persist, Clone, Debug, PartialEq)]
#[persist(key = "test.follows")]
pub struct Follows {
    pub leader: Entity,
    pub others: Vec<Entity>,
    pub last: Option<Entity>,
}

/// An enum with data.
#[derive(Persist, Clone, Debug, PartialEq, Default)]
#[persist(key = "test.mood")]
pub enum Mood {
    #[default]
    Calm,
    Angry {
        at: Option<Entity>,
        level: u8,
    },
    Singing(String),
}

/// Never saved.
#[derive(Persist, Clone, Copy, Debug, PartialEq, Default)]
#[persist(key = "test.hover", transient)]
pub struct Hover(pub u32);

#[derive(Persist, Clone, Copy, Debug, PartialEq, Default)]
#[persist(key = "test.team")]
pub struct Team(pub u8);

#[derive(Persist, Clone, Debug, PartialEq)]
#[persist(key = "test.docked_at")]
pub struct DockedAt {
    pub station: Entity,
    pub berth: String,
}

/// Only has serde.
#[derive(serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq)]
pub struct Quest {
    pub title: String,
    pub stages: std::collections::BTreeMap<String, u32>,
}

/// Something that exists once.
#[derive(Persist, Clone, Debug, PartialEq, Default)]
#[persist(key = "test.score")]
pub struct Score {
    pub points: u64,
    pub best: Option<Entity>,
}

/// Its codec leaves odd numbers out, so that columns have holes.
#[derive(Clone, Debug)]
pub struct Even(pub u8);

/// What Bevy saves as `Name`.
#[derive(Clone, Debug, PartialEq)]
pub struct Name(pub String);

/// What Bevy saves as `ChildOf`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChildOf(pub Entity);

pub fn bonfire(reversed: bool) -> Bonfire {
    let mut bonfire = Bonfire::new().scope(SaveScope::Marked);
    let name = || {
        let load = |name: String, _: &LoadContext<'_>| Ok(Some(Name(name)));
        Descriptor::custom("bevy.name", |name: &Name, _| Ok(Some(name.0.clone())), load)
    };
    let child_of = || {
        let load = |parent: Entity, _: &LoadContext<'_>| Ok(Some(ChildOf(parent)));
        Descriptor::custom("bevy.child_of", |child: &ChildOf, _| Ok(Some(child.0)), load)
    };
    let even = || {
        let save =
            |even: &Even, _: &bonfire_hecs::SaveContext<'_>| Ok(even.0.is_multiple_of(2).then_some(even.0));
        Descriptor::custom("test.even", save, |saved: u8, _: &LoadContext<'_>| Ok(Some(Even(saved))))
    };
    type Register<'a> = Box<dyn Fn(&mut Bonfire) -> Result<()> + 'a>;
    let mut steps: Vec<Register<'_>> = vec![
        Box::new(|bonfire| bonfire.persist::<Position>().map(|_| ())),
        Box::new(|bonfire| bonfire.persist::<Health>().map(|_| ())),
        Box::new(|bonfire| bonfire.persist::<Inventory>().map(|_| ())),
        Box::new(|bonfire| bonfire.persist::<Enemy>().map(|_| ())),
        Box::new(|bonfire| bonfire.persist::<Burning>().map(|_| ())),
        Box::new(|bonfire| bonfire.persist::<Follows>().map(|_| ())),
        Box::new(|bonfire| bonfire.persist::<Mood>().map(|_| ())),
        Box::new(|bonfire| bonfire.persist::<Hover>().map(|_| ())),
        Box::new(|bonfire| bonfire.persist::<Team>().map(|_| ())),
        Box::new(|bonfire| bonfire.persist::<DockedAt>().map(|_| ())),
        Box::new(|bonfire| bonfire.persist_serde::<Quest>("test.quest").map(|_| ())),
        Box::new(|bonfire| bonfire.persist::<Score>().map(|_| ())),
        Box::new(move |bonfire| bonfire.persist_as::<Even>(even()).map(|_| ())),
        Box::new(move |bonfire| bonfire.persist_as::<Name>(name()).map(|_| ())),
        Box::new(move |bonfire| bonfire.persist_as::<ChildOf>(child_of()).map(|_| ())),
    ];
    if reversed {
        steps.reverse();
    }
    steps.iter().for_each(|step| step(&mut bonfire).unwrap());
    bonfire
}

/// Replicates what the tests of Bevy replicate.
pub fn replicate(bonfire: &mut Bonfire) -> Result<()> {
    bonfire.replicate::<Name>()?.replicate::<ChildOf>()?.replicate::<Position>()?.replicate::<Health>()?;
    bonfire.replicate::<Inventory>()?.replicate::<Enemy>()?.replicate::<Burning>()?.replicate::<Follows>()?;
    bonfire.replicate::<Mood>()?.replicate::<Hover>()?.replicate::<Team>()?.replicate::<DockedAt>()?;
    bonfire.replicate::<Quest>()?.replicate::<Score>()?;
    // A mirror keeps values that their codec leaves out, so for it none is.
    let load = |saved: u8, _: &LoadContext<'_>| Ok(Some(Even(saved)));
    bonfire.replicate_as::<Even>(Descriptor::custom("test.even", |even: &Even, _| Ok(Some(even.0)), load))?;
    Ok(())
}

pub fn save(bonfire: &Bonfire, world: &World) -> Snapshot {
    bonfire.capture(world, &SaveOptions::new()).unwrap()
}

/// Everything that is saved, without the accidents of ids and of the order of rows.
pub fn canonical(snapshot: &Snapshot) -> String {
    snapshot.canonical_sorted().unwrap().to_json().unwrap()
}

/// A world with what is saved of it.
pub struct HecsWorld {
    pub world: World,
    pub bonfire: Bonfire,
}

impl HecsWorld {
    pub fn load(&mut self, snapshot: &Snapshot, mode: LoadMode) {
        self.bonfire.load(&mut self.world, snapshot, mode).unwrap();
    }

    fn parent(&self, entity: Entity) -> Option<Entity> {
        self.world.get::<&ChildOf>(entity).ok().map(|child| child.0)
    }
}

impl ScriptWorld for HecsWorld {
    type Entity = Entity;

    fn fresh(reversed: bool) -> Self {
        Self { world: World::new(), bonfire: bonfire(reversed) }
    }
    fn spawn(&mut self, saved: bool) -> Entity {
        if saved { self.world.spawn((Saved,)) } else { self.world.spawn(()) }
    }
    fn is_alive(&self, entity: Entity) -> bool {
        self.world.contains(entity)
    }
    fn insert(&mut self, entity: Entity, part: &Part, targets: &[Entity]) {
        let (world, at) = (&mut self.world, |number: &usize| targets[*number]);
        match part {
            Part::Name(name) => world.insert_one(entity, Name(name.clone())),
            Part::Position(x, y) => world.insert_one(entity, Position { x: *x, y: *y }),
            Part::Health(current, max) => {
                world.insert_one(entity, Health { current: *current, max: *max, flash: 3 })
            }
            Part::Inventory(items, gold) => {
                world.insert_one(entity, Inventory { items: items.clone(), gold: *gold })
            }
            Part::Enemy => world.insert_one(entity, Enemy),
            Part::Burning(how) => world.insert_one(entity, Burning(how.clone())),
            Part::Follows { leader, others, last } => {
                let others = others.iter().map(at).collect();
                world.insert_one(entity, Follows { leader: at(leader), others, last: last.as_ref().map(at) })
            }
            Part::Mood(None) => world.insert_one(entity, Mood::Calm),
            Part::Mood(Some((who, level))) => {
                world.insert_one(entity, Mood::Angry { at: Some(at(who)), level: *level })
            }
            Part::Hover(since) => world.insert_one(entity, Hover(*since)),
            Part::Team(team) => world.insert_one(entity, Team(*team)),
            Part::DockedAt(station, _) if at(station) == entity => {
                // Nobody docks at itself.
                let _ = world.remove_one::<DockedAt>(entity);
                Ok(())
            }
            Part::DockedAt(station, berth) => {
                world.insert_one(entity, DockedAt { station: at(station), berth: berth.clone() })
            }
            Part::Quest(title, stage) => {
                let stages = [(title.clone(), *stage)].into();
                world.insert_one(entity, Quest { title: title.clone(), stages })
            }
            Part::Even(number) => world.insert_one(entity, Even(*number)),
        }
        .unwrap();
    }
    fn remove(&mut self, entity: Entity, kind: usize) {
        let world = &mut self.world;
        match kind {
            0 => drop(world.remove_one::<Name>(entity)),
            1 => drop(world.remove_one::<Position>(entity)),
            2 => drop(world.remove_one::<Health>(entity)),
            3 => drop(world.remove_one::<Inventory>(entity)),
            4 => drop(world.remove_one::<Enemy>(entity)),
            5 => drop(world.remove_one::<Burning>(entity)),
            6 => drop(world.remove_one::<Follows>(entity)),
            7 => drop(world.remove_one::<Mood>(entity)),
            8 => drop(world.remove_one::<Hover>(entity)),
            9 => drop(world.remove_one::<Team>(entity)),
            10 => drop(world.remove_one::<DockedAt>(entity)),
            11 => drop(world.remove_one::<Quest>(entity)),
            _ => drop(world.remove_one::<Even>(entity)),
        }
    }
    fn adopt(&mut self, child: Entity, parent: Entity) {
        let mut above = Some(parent);
        while let Some(entity) = above {
            if entity == child {
                return;
            }
            above = self.parent(entity);
        }
        self.world.insert_one(child, ChildOf(parent)).unwrap();
    }
    fn orphan(&mut self, child: Entity) {
        let _ = self.world.remove_one::<ChildOf>(child);
    }
    fn despawn(&mut self, entity: Entity) {
        let children: Vec<Entity> = (self.world.query::<(Entity, &ChildOf)>().iter())
            .filter(|(_, child)| child.0 == entity)
            .map(|(child, _)| child)
            .collect();
        children.into_iter().for_each(|child| self.despawn(child));
        self.world.despawn(entity).unwrap();
    }
    fn save(&self) -> Snapshot {
        save(&self.bonfire, &self.world)
    }
    fn replace(&mut self, snapshot: &Snapshot) {
        self.load(snapshot, LoadMode::Replace);
    }
    fn restore(&mut self, snapshot: &Snapshot) {
        self.load(snapshot, LoadMode::Restore);
    }
    fn describe(&self) -> String {
        canonical(&self.save())
    }
}
