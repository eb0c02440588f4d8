//! Releases 2 to 4: more fields, better names, larger numbers.

/// New fields with defaults, fields in another order, new components.
#[expect(missing_docs, reason = "the types of a game")]
pub mod v2 {
    use bonfire::{EntityId, Persist, Result};

    use crate::life::NAMES;
    pub use crate::life::v1::{
        Banner, Bio, Body, Clock, Follows, Inventory, Item, Mood, Selected, Settings, Tags,
    };
    use crate::world::ModelWorld;

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.unit")]
    pub struct Unit {
        pub hp: u16,
        #[persist(default = 100)]
        pub max_hp: u16,
        pub name: String,
        pub nick: Option<String>,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.position")]
    pub struct Position {
        pub y: f32,
        pub x: f32,
        #[persist(default = 1.5)]
        pub z: f32,
    }

    /// In degrees.
    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.facing")]
    pub struct Facing(pub u16);

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.job", dictionary)]
    pub struct Job {
        pub title: String,
    }

    pub(in crate::life) fn register(world: &mut ModelWorld) -> Result<()> {
        crate::life::v1::register_others(world)?;
        world.register::<Unit>()?;
        world.register::<Position>()?;
        world.register::<Facing>()?;
        world.register::<Job>()?;
        world.register::<Inventory>()?;
        world.register::<Banner>()?;
        world.register::<Clock>()
    }

    pub(in crate::life) fn fill_places(world: &mut ModelWorld, ids: &[EntityId]) {
        for (i, &id) in ids.iter().enumerate() {
            world.insert(id, Position { y: -(i as f32), x: i as f32 * 0.5, z: i as f32 * 0.25 });
            if i % 3 == 0 {
                world.insert(id, Facing(45 * i as u16));
            }
        }
    }

    pub(in crate::life) fn fill_jobs(world: &mut ModelWorld, ids: &[EntityId]) {
        for (i, &id) in ids.iter().enumerate().take(8) {
            world.insert(id, Job { title: ["farmer", "miner", "cook"][i % 3].into() });
        }
    }

    pub(in crate::life) fn fill(world: &mut ModelWorld, ids: &[EntityId]) {
        crate::life::v1::fill_others(world, ids);
        crate::life::v1::fill_banners(world, ids);
        crate::life::v1::fill_items(world, ids);
        for (i, name) in NAMES.into_iter().enumerate() {
            let nick = (i % 4 == 0).then(|| format!("{name} the {i}th"));
            let unit = Unit { hp: 10 + 7 * i as u16, max_hp: 100 + i as u16, name: name.into(), nick };
            world.insert(ids[i], unit);
        }
        fill_places(world, ids);
        fill_jobs(world, ids);
        world.insert_resource(Clock(86_402));
        world.hooks.on_save(|_, save| save.attach("colony.settings", &Settings { volume: 12, speed: 2 }));
    }
}

/// A field, a key and a field inside a list have other names.
#[expect(missing_docs, reason = "the types of a game")]
pub mod v3 {
    use bonfire::{EntityId, Persist, Result};

    pub use super::v2::{Facing, Job, Position};
    use crate::life::NAMES;
    pub use crate::life::v1::{Banner, Bio, Body, Clock, Follows, Mood, Selected, Settings, Tags};
    use crate::world::ModelWorld;

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.unit")]
    pub struct Unit {
        #[persist(alias = "hp")]
        pub health: u16,
        #[persist(default = 100)]
        pub max_hp: u16,
        pub name: String,
        pub nick: Option<String>,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.inventory", alias = "colony.bag")]
    pub struct Inventory {
        pub items: Vec<Item>,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    pub struct Item {
        #[persist(alias = "kind")]
        pub what: String,
        pub count: u8,
    }

    pub(in crate::life) fn register(world: &mut ModelWorld) -> Result<()> {
        crate::life::v1::register_others(world)?;
        world.register::<Unit>()?;
        world.register::<Position>()?;
        world.register::<Facing>()?;
        world.register::<Job>()?;
        world.register::<Inventory>()?;
        world.register::<Banner>()?;
        world.register::<Clock>()
    }

    pub(in crate::life) fn fill(world: &mut ModelWorld, ids: &[EntityId]) {
        crate::life::v1::fill_others(world, ids);
        super::v2::fill_places(world, ids);
        super::v2::fill_jobs(world, ids);
        for (i, name) in NAMES.into_iter().enumerate() {
            let nick = (i % 4 == 0).then(|| format!("{name} the {i}th"));
            let unit = Unit { health: 10 + 7 * i as u16, max_hp: 100 + i as u16, name: name.into(), nick };
            world.insert(ids[i], unit);
        }
        crate::life::v1::fill_banners(world, ids);
        for (i, &id) in ids.iter().enumerate().skip(1).step_by(2) {
            let item = |what: &str, count| Item { what: what.into(), count };
            world.insert(id, Inventory { items: vec![item("bread", i as u8), item("rope", 1)] });
        }
        world.insert_resource(Clock(86_403));
        world.hooks.on_save(|_, save| save.attach("colony.settings", &Settings { volume: 13, speed: 2 }));
    }
}

/// Larger numbers, a tuple that grew, an array that became a list.
#[expect(missing_docs, reason = "the types of a game")]
pub mod v4 {
    use bonfire::{EntityId, Persist, Result};

    pub use super::v2::{Facing, Job, Position};
    use crate::life::NAMES;
    pub use crate::life::v1::{Bio, Body, Follows, Mood, Selected, Tags};
    use crate::world::ModelWorld;

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.unit")]
    pub struct Unit {
        #[persist(alias = "hp")]
        pub health: f32,
        #[persist(default = 100)]
        pub max_hp: u32,
        pub name: String,
        pub nick: Option<String>,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.inventory", alias = "colony.bag")]
    pub struct Inventory {
        pub items: Vec<Item>,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    pub struct Item {
        #[persist(alias = "kind")]
        pub what: String,
        pub count: u32,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.banner", shared)]
    pub struct Banner {
        pub text: String,
        pub color: Vec<u8>,
    }

    /// Seconds, and how many minutes a day has.
    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.clock")]
    pub struct Clock(pub u64, #[persist(default = 1440)] pub u16);

    #[derive(Clone, Debug, PartialEq, Persist)]
    pub struct Settings {
        pub volume: u8,
        pub speed: f32,
        #[persist(default = "en".to_owned())]
        pub language: String,
    }

    pub(in crate::life) fn register(world: &mut ModelWorld) -> Result<()> {
        crate::life::v1::register_others(world)?;
        world.register::<Unit>()?;
        world.register::<Position>()?;
        world.register::<Facing>()?;
        world.register::<Job>()?;
        world.register::<Inventory>()?;
        world.register::<Banner>()?;
        world.register::<Clock>()
    }

    pub(in crate::life) fn fill_banners(world: &mut ModelWorld, ids: &[EntityId]) {
        for (i, &id) in ids.iter().enumerate().step_by(2) {
            let (text, color) =
                [("Red Hand", vec![200, 0, 0]), ("Blue Fist", vec![0, 0, 255, 128])][i / 2 % 2].clone();
            world.insert(id, Banner { text: text.into(), color });
        }
    }

    pub(in crate::life) fn fill_items(world: &mut ModelWorld, ids: &[EntityId]) {
        for (i, &id) in ids.iter().enumerate().skip(1).step_by(2) {
            let item = |what: &str, count| Item { what: what.into(), count };
            world.insert(id, Inventory { items: vec![item("bread", 300 + i as u32), item("rope", 1)] });
        }
    }

    pub(in crate::life) fn fill(world: &mut ModelWorld, ids: &[EntityId]) {
        crate::life::v1::fill_others(world, ids);
        super::v2::fill_places(world, ids);
        super::v2::fill_jobs(world, ids);
        for (i, name) in NAMES.into_iter().enumerate() {
            let nick = (i % 4 == 0).then(|| format!("{name} the {i}th"));
            let unit =
                Unit { health: 10.5 + 7.0 * i as f32, max_hp: 70_000 + i as u32, name: name.into(), nick };
            world.insert(ids[i], unit);
        }
        fill_banners(world, ids);
        fill_items(world, ids);
        world.insert_resource(Clock(5_000_000_004, 1444));
        world.hooks.on_save(|_, save| {
            save.attach("colony.settings", &Settings { volume: 14, speed: 1.5, language: "de".into() })
        });
    }
}
