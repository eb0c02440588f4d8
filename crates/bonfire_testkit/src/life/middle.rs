//! Releases 5 to 7: things go, a component is split, a mod comes.

/// A field is gone, a component is no longer saved, one that went through serde has a derived type.
#[expect(missing_docs, reason = "the types of a game")]
pub mod v5 {
    use bonfire::{EntityId, Persist, Result};

    use crate::life::NAMES;
    pub use crate::life::v1::{Body, Follows, Mood, Tags};
    pub use crate::life::v2::{Facing, Job, Position};
    pub use crate::life::v4::{Banner, Clock, Inventory, Item, Settings};
    use crate::world::ModelWorld;

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.unit", removed = "nick")]
    pub struct Unit {
        #[persist(alias = "hp")]
        pub health: f32,
        #[persist(default = 100)]
        pub max_hp: u32,
        pub name: String,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.bio")]
    pub struct Bio {
        pub home: String,
        pub trade: String,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.selected", transient)]
    pub struct Selected;

    pub(super) fn register_others(world: &mut ModelWorld) -> Result<()> {
        world.register::<Position>()?;
        world.register::<Facing>()?;
        world.register::<Follows>()?;
        world.register::<Tags>()?;
        world.register::<Banner>()?;
        world.register::<Clock>()?;
        world.register::<Selected>()
    }

    pub(in crate::life) fn register(world: &mut ModelWorld) -> Result<()> {
        register_others(world)?;
        world.register::<Unit>()?;
        world.register::<Mood>()?;
        world.register::<Inventory>()?;
        world.register::<Body>()?;
        world.register::<Job>()?;
        world.register::<Bio>()?;
        world.registry_mut().track("game", 1)
    }

    pub(super) fn fill_others(world: &mut ModelWorld, ids: &[EntityId], release: u8) {
        crate::life::v1::fill_follows(world, ids);
        crate::life::v1::fill_tags(world, ids);
        crate::life::v2::fill_places(world, ids);
        crate::life::v4::fill_banners(world, ids);
        world.insert(ids[2], Selected);
        world.insert_resource(Clock(5_000_000_000 + u64::from(release), 1440 + u16::from(release)));
        world.hooks.on_save(move |_, save| {
            let settings = Settings { volume: 10 + release, speed: 1.5, language: "de".into() };
            save.attach("colony.settings", &settings)
        });
    }

    pub(super) fn fill_bios(world: &mut ModelWorld, ids: &[EntityId]) {
        for (i, trade) in ["smith", "baker", "smith", "healer", "scout"].into_iter().enumerate() {
            world.insert(ids[i], Bio { home: format!("house {i}"), trade: trade.into() });
        }
    }

    pub(super) fn fill_moods(world: &mut ModelWorld, ids: &[EntityId]) {
        for i in 0..NAMES.len() {
            world.insert(ids[i], [Mood::Calm, Mood::Angry, Mood::Afraid][i % 3].clone());
        }
    }

    pub(in crate::life) fn fill(world: &mut ModelWorld, ids: &[EntityId]) {
        fill_others(world, ids, 5);
        fill_bios(world, ids);
        fill_moods(world, ids);
        crate::life::v2::fill_jobs(world, ids);
        crate::life::v4::fill_items(world, ids);
        for (i, name) in NAMES.into_iter().enumerate() {
            let (health, max_hp) = (10.5 + 7.0 * i as f32, 70_000 + i as u32);
            world.insert(ids[i], Unit { health, max_hp, name: name.into() });
            let (strength, sight) = (3 + i as u8, 20 + i as u16);
            world.insert(ids[i], Body { strength, mass: 50.0 + 10.0 * i as f32, sight });
        }
    }
}

/// The body is split by a migration of worlds, and the unit has a second version.
#[expect(missing_docs, reason = "the types of a game")]
pub mod v6 {
    use bonfire::{EntityId, Keyed, Persist, Result, WorldEdit};

    pub use super::v5::{
        Banner, Bio, Body, Clock, Facing, Follows, Inventory, Item, Job, Mood, Position, Selected, Settings,
        Tags,
    };
    use crate::life::NAMES;
    use crate::world::ModelWorld;

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.unit", version = 2, from = super::v5::Unit)]
    pub struct Unit {
        pub name: String,
        pub health: f32,
        pub max: f32,
    }
    impl From<super::v5::Unit> for Unit {
        fn from(old: super::v5::Unit) -> Self {
            Self { name: old.name, health: old.health, max: old.max_hp as f32 }
        }
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.strength")]
    pub struct Strength(pub u8);

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.senses")]
    pub struct Senses {
        pub sight: u16,
        pub hearing: u16,
    }

    /// Heavy bodies are stronger; a body hears half as far as it sees.
    pub(in crate::life) fn split_bodies(world: &mut WorldEdit) -> Result<()> {
        for entity in world.with(Body::KEY)? {
            let Some(body) = world.take::<Body>(entity, Body::KEY)? else { continue };
            world.insert(entity, &Strength(body.strength + u8::from(body.mass > 100.0)))?;
            world.insert(entity, &Senses { sight: body.sight, hearing: body.sight / 2 })?;
        }
        Ok(())
    }

    pub(in crate::life) fn register(world: &mut ModelWorld) -> Result<()> {
        super::v5::register_others(world)?;
        world.register::<Unit>()?;
        world.register::<Mood>()?;
        world.register::<Inventory>()?;
        world.register::<Strength>()?;
        world.register::<Senses>()?;
        world.register::<Job>()?;
        world.register::<Bio>()?;
        world.registry_mut().track("game", 2)?;
        world.registry_mut().migration("game", 1, 2, split_bodies)
    }

    pub(in crate::life) fn fill_senses(world: &mut ModelWorld, ids: &[EntityId]) {
        for (i, &id) in ids.iter().enumerate().take(NAMES.len()) {
            world.insert(id, Strength(30 + i as u8));
            world.insert(id, Senses { sight: 40 + i as u16, hearing: 7 });
        }
    }

    pub(in crate::life) fn fill(world: &mut ModelWorld, ids: &[EntityId]) {
        super::v5::fill_others(world, ids, 6);
        super::v5::fill_bios(world, ids);
        super::v5::fill_moods(world, ids);
        crate::life::v2::fill_jobs(world, ids);
        crate::life::v4::fill_items(world, ids);
        fill_senses(world, ids);
        for (i, name) in NAMES.into_iter().enumerate() {
            world.insert(ids[i], Unit { name: name.into(), health: 10.5 + i as f32, max: 60.5 });
        }
    }
}

/// Structs inside lists and maps change, an enum without data gets a variant with some, a mod has its own versions.
#[expect(missing_docs, reason = "the types of a game")]
pub mod v7 {
    use std::collections::BTreeMap;

    use bonfire::{EntityId, Persist, Result};

    pub use super::v6::{
        Banner, Clock, Facing, Follows, Position, Selected, Senses, Settings, Strength, Tags,
    };
    use crate::life::NAMES;
    use crate::world::ModelWorld;

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.unit", version = 2, from = super::v5::Unit)]
    pub struct Unit {
        pub name: String,
        pub health: f32,
        pub max: f32,
        pub title: Option<String>,
    }
    impl From<super::v5::Unit> for Unit {
        fn from(old: super::v5::Unit) -> Self {
            Self { name: old.name, health: old.health, max: old.max_hp as f32, title: None }
        }
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.mood")]
    pub enum Mood {
        Calm,
        Angry,
        Afraid,
        Tired { hours: u8 },
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.inventory", alias = "colony.bag")]
    pub struct Inventory {
        pub items: Vec<Item>,
        pub worn: BTreeMap<Slot, Item>,
    }

    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Persist)]
    pub enum Slot {
        Head,
        Hand,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    pub struct Item {
        #[persist(default = 50)]
        pub quality: u8,
        #[persist(alias = "kind")]
        pub what: String,
        pub count: u32,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.job", dictionary)]
    pub struct Job {
        pub title: String,
        #[persist(default = 1)]
        pub level: u8,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.bio")]
    pub struct Bio {
        pub home: String,
        #[persist(default = 30)]
        pub age: u8,
        pub trade: String,
    }

    /// Of the mod: from 0 to 1.
    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "weather.wet")]
    pub struct Wet(pub f32);

    /// Of the mod.
    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "weather.sky")]
    pub struct Sky {
        pub rain: f32,
    }

    pub(in crate::life) fn register(world: &mut ModelWorld) -> Result<()> {
        super::v5::register_others(world)?;
        world.register::<Unit>()?;
        world.register::<Mood>()?;
        world.register::<Inventory>()?;
        world.register::<Strength>()?;
        world.register::<Senses>()?;
        world.register::<Job>()?;
        world.register::<Bio>()?;
        world.registry_mut().track("game", 2)?;
        world.registry_mut().migration("game", 1, 2, super::v6::split_bodies)?;
        world.register::<Wet>()?;
        world.register::<Sky>()?;
        world.registry_mut().track("mod.weather", 1)
    }

    pub(in crate::life) fn fill_units(world: &mut ModelWorld, ids: &[EntityId]) {
        for (i, name) in NAMES.into_iter().enumerate() {
            let title = (i % 5 == 0).then(|| format!("Elder {name}"));
            world.insert(ids[i], Unit { name: name.into(), health: 10.5 + i as f32, max: 60.5, title });
        }
    }

    pub(in crate::life) fn fill_jobs_and_bios(world: &mut ModelWorld, ids: &[EntityId]) {
        for (i, &id) in ids.iter().enumerate().take(8) {
            world
                .insert(id, Job { title: ["farmer", "miner", "cook"][i % 3].into(), level: 1 + i as u8 % 2 });
        }
        for (i, trade) in ["smith", "baker", "smith", "healer", "scout"].into_iter().enumerate() {
            let (home, age) = (format!("house {i}"), 20 + i as u8);
            world.insert(ids[i], Bio { home, age, trade: trade.into() });
        }
    }

    pub(in crate::life) fn fill_items(world: &mut ModelWorld, ids: &[EntityId]) {
        for (i, &id) in ids.iter().enumerate().skip(1).step_by(2) {
            let item = |what: &str, count| Item { quality: i as u8, what: what.into(), count };
            let items = vec![item("bread", 300 + i as u32), item("rope", 1)];
            let mut worn = BTreeMap::new();
            if i % 4 == 1 {
                worn.extend([(Slot::Head, item("hat", 1)), (Slot::Hand, item("axe", 2))]);
            }
            world.insert(id, Inventory { items, worn });
        }
    }

    pub(in crate::life) fn fill(world: &mut ModelWorld, ids: &[EntityId]) {
        super::v5::fill_others(world, ids, 7);
        super::v6::fill_senses(world, ids);
        fill_units(world, ids);
        fill_jobs_and_bios(world, ids);
        fill_items(world, ids);
        for i in 0..NAMES.len() {
            world.insert(ids[i], [Mood::Calm, Mood::Angry, Mood::Afraid][i % 3].clone());
        }
        (0..3).for_each(|i| world.insert(ids[i], Wet(0.25 * i as f32)));
        world.insert_resource(Sky { rain: 0.5 });
    }
}
