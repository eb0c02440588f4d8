//! Release 1.

/// The first release.
#[expect(missing_docs, reason = "the types of a game")]
pub mod v1 {
    use std::collections::BTreeMap;

    use bonfire::{Descriptor, EntityId, Persist, Result};

    use crate::life::{GONE, NAMES};
    use crate::world::ModelWorld;

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.unit")]
    pub struct Unit {
        pub name: String,
        pub hp: u16,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.position")]
    pub struct Position {
        pub x: f32,
        pub y: f32,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.mood")]
    pub enum Mood {
        Calm,
        Angry,
        Afraid,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.bag")]
    pub struct Inventory {
        pub items: Vec<Item>,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    pub struct Item {
        pub kind: String,
        pub count: u8,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.follows")]
    pub struct Follows(pub EntityId);

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.body")]
    pub struct Body {
        pub strength: u8,
        pub mass: f32,
        pub sight: u16,
    }

    /// A list with commas.
    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.tags")]
    pub struct Tags(pub String);

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.banner", shared)]
    pub struct Banner {
        pub text: String,
        pub color: [u8; 3],
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.selected")]
    pub struct Selected;

    /// Seconds.
    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.clock")]
    pub struct Clock(pub u32);

    /// Saved as data.
    #[derive(Clone, Debug, PartialEq, Persist)]
    pub struct Settings {
        pub volume: u8,
        pub speed: u8,
    }

    /// Saved through serde.
    pub type Bio = BTreeMap<String, String>;

    pub(in crate::life) fn register_others(world: &mut ModelWorld) -> Result<()> {
        world.register::<Mood>()?;
        world.register::<Follows>()?;
        world.register::<Body>()?;
        world.register::<Tags>()?;
        world.register::<Selected>()?;
        world.add::<Bio>(Descriptor::serde::<Bio>("colony.bio"))?;
        world.registry_mut().track("game", 1)
    }

    pub(in crate::life) fn register(world: &mut ModelWorld) -> Result<()> {
        register_others(world)?;
        world.register::<Unit>()?;
        world.register::<Position>()?;
        world.register::<Inventory>()?;
        world.register::<Banner>()?;
        world.register::<Clock>()
    }

    pub(in crate::life) fn fill_others(world: &mut ModelWorld, ids: &[EntityId]) {
        for (i, &id) in ids.iter().enumerate().take(NAMES.len()) {
            let mood = [Mood::Calm, Mood::Angry, Mood::Afraid][i % 3].clone();
            world.insert(id, mood);
            world.insert(
                id,
                Body { strength: 3 + i as u8, mass: 50.0 + 10.0 * i as f32, sight: 20 + i as u16 },
            );
        }
        fill_follows(world, ids);
        fill_tags(world, ids);
        world.insert(ids[2], Selected);
        for (i, trade) in ["smith", "baker", "smith", "healer", "scout"].into_iter().enumerate() {
            let home = format!("house {i}");
            let bio = [("home".to_owned(), home), ("trade".to_owned(), trade.to_owned())];
            world.insert(ids[i], Bio::from(bio));
        }
    }

    /// A chain, a circle of one, and somebody who is gone.
    pub(in crate::life) fn fill_follows(world: &mut ModelWorld, ids: &[EntityId]) {
        (1..5).for_each(|i| world.insert(ids[i], Follows(ids[i - 1])));
        world.insert(ids[6], Follows(ids[6]));
        world.insert(ids[7], Follows(GONE));
        world.insert(ids[8], Follows(ids[5]));
    }

    pub(in crate::life) fn fill_tags(world: &mut ModelWorld, ids: &[EntityId]) {
        for (i, tags) in [(0, "brave"), (3, "brave,young"), (6, ""), (9, "old,wise,tall")] {
            world.insert(ids[i], Tags(tags.into()));
        }
    }

    pub(in crate::life) fn fill_banners(world: &mut ModelWorld, ids: &[EntityId]) {
        for (i, &id) in ids.iter().enumerate().step_by(2) {
            let (text, color) = [("Red Hand", [200, 0, 0]), ("Blue Fist", [0, 0, 255])][i / 2 % 2];
            world.insert(id, Banner { text: text.into(), color });
        }
    }

    pub(in crate::life) fn fill_items(world: &mut ModelWorld, ids: &[EntityId]) {
        for (i, &id) in ids.iter().enumerate().skip(1).step_by(2) {
            let item = |kind: &str, count| Item { kind: kind.into(), count };
            world.insert(id, Inventory { items: vec![item("bread", i as u8), item("rope", 1)] });
        }
    }

    pub(in crate::life) fn fill(world: &mut ModelWorld, ids: &[EntityId]) {
        fill_others(world, ids);
        fill_banners(world, ids);
        fill_items(world, ids);
        for (i, name) in NAMES.into_iter().enumerate() {
            world.insert(ids[i], Unit { name: name.into(), hp: 10 + 7 * i as u16 });
        }
        for (i, &id) in ids.iter().enumerate() {
            world.insert(id, Position { x: i as f32 * 0.5, y: -(i as f32) });
        }
        world.insert_resource(Clock(86_401));
        world.hooks.on_save(|_, save| save.attach("colony.settings", &Settings { volume: 11, speed: 2 }));
    }
}
