//! Releases 8 to 10: upgraders, components that merge, and one that only adds.

/// Variants have other names, places and content, a reference may be missing, tags are a list, the mod has a second version.
#[expect(missing_docs, reason = "the types of a game")]
pub mod v8 {
    use bonfire::{EntityId, Keyed, Persist, Result, Upgrader, WorldEdit};

    use crate::life::v5;
    pub use crate::life::v7::{
        Banner, Bio, Clock, Facing, Inventory, Item, Job, Position, Selected, Senses, Settings, Slot,
        Strength, Unit,
    };
    use crate::life::{GONE, NAMES, v1, v6, v7};
    use crate::world::ModelWorld;

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.mood")]
    pub enum Mood {
        #[persist(alias = "Afraid")]
        Scared,
        Calm,
        Tired {
            by: Option<EntityId>,
            #[persist(alias = "hours")]
            since: u16,
        },
        Angry,
    }

    /// Whom, and how closely.
    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.follows")]
    pub struct Follows(pub Option<EntityId>, #[persist(default = 2.5)] pub f32);

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.tags", version = 2)]
    pub struct Tags(pub Vec<String>);

    /// Of the mod: in percent.
    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "weather.damp")]
    pub struct Damp {
        pub percent: f32,
    }

    /// Of the mod.
    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "weather.sky")]
    pub struct Sky {
        pub rain: f32,
        #[persist(default = 3.0)]
        pub wind: f32,
    }

    /// One text with commas becomes a list of texts, on bytes.
    pub(super) fn split_tags() -> Upgrader {
        Upgrader::bytes::<v1::Tags, Tags>(1, 2, |source, target| {
            let text = source.text()?;
            let tags: Vec<&str> = text.split(',').filter(|tag| !tag.is_empty()).collect();
            target.varint(tags.len() as u64);
            tags.into_iter().for_each(|tag| target.text(tag));
            Ok(())
        })
    }

    /// Parts become percents under another key.
    fn damp(world: &mut WorldEdit) -> Result<()> {
        for entity in world.with(v7::Wet::KEY)? {
            let Some(wet) = world.take::<v7::Wet>(entity, v7::Wet::KEY)? else { continue };
            world.insert(entity, &Damp { percent: wet.0 * 100.0 })?;
        }
        Ok(())
    }

    pub(super) fn register_others(world: &mut ModelWorld) -> Result<()> {
        world.register::<Mood>()?;
        world.register::<Follows>()?;
        world.register::<Strength>()?;
        world.register::<Senses>()?;
        world.register::<Job>()?;
        world.register::<Bio>()?;
        world.register::<Clock>()?;
        world.register::<Selected>()?;
        world.registry_mut().upgrade(Tags::KEY, split_tags())?;
        world.register::<Damp>()?;
        world.register::<Sky>()?;
        world.registry_mut().track("mod.weather", 2)?;
        world.registry_mut().migration("mod.weather", 1, 2, damp)
    }

    pub(in crate::life) fn register(world: &mut ModelWorld) -> Result<()> {
        register_others(world)?;
        world.register::<Unit>()?;
        world.register::<Position>()?;
        world.register::<Facing>()?;
        world.register::<Inventory>()?;
        world.register::<Banner>()?;
        world.register::<Tags>()?;
        world.registry_mut().track("game", 2)?;
        world.registry_mut().migration("game", 1, 2, v6::split_bodies)
    }

    pub(super) fn fill_others(world: &mut ModelWorld, ids: &[EntityId], release: u8) {
        v6::fill_senses(world, ids);
        v7::fill_jobs_and_bios(world, ids);
        for i in 0..NAMES.len() - 1 {
            world.insert(ids[i], [Mood::Calm, Mood::Angry, Mood::Scared][i % 3].clone());
        }
        world.insert(ids[9], Mood::Tired { by: Some(ids[8]), since: 700 });
        world.insert(ids[1], Follows(Some(ids[0]), 1.0));
        world.insert(ids[2], Follows(None, 2.0));
        world.insert(ids[7], Follows(Some(GONE), 3.0));
        world.insert_resource(Clock(5_000_000_000 + u64::from(release), 1440 + u16::from(release)));
        (0..3).for_each(|i| world.insert(ids[i], Damp { percent: 10.0 * i as f32 }));
        world.insert_resource(Sky { rain: 0.25, wind: f32::from(release) });
    }

    pub(in crate::life) fn fill(world: &mut ModelWorld, ids: &[EntityId]) {
        fill_others(world, ids, 8);
        crate::life::v2::fill_places(world, ids);
        crate::life::v4::fill_banners(world, ids);
        v7::fill_units(world, ids);
        v7::fill_items(world, ids);
        for (i, tags) in [(0, vec!["brave"]), (3, vec!["brave", "young"]), (6, vec![])] {
            world.insert(ids[i], Tags(tags.into_iter().map(str::to_owned).collect()));
        }
        world.hooks.on_save(|_, save| {
            let settings = v5::Settings { volume: 18, speed: 1.5, language: "de".into() };
            save.attach("colony.settings", &settings)
        });
    }
}

/// Two components merge, the unit has a third version, tags change as values, settings are split.
#[expect(missing_docs, reason = "the types of a game")]
pub mod v9 {
    use std::collections::BTreeMap;

    use bonfire::{EntityId, Keyed, Persist, Result, Upgrader, Value, WorldEdit};

    pub use super::v8::{
        Banner, Bio, Clock, Damp, Follows, Job, Mood, Selected, Senses, Sky, Slot, Strength,
    };
    use crate::life::{NAMES, v2, v4, v6, v7};
    use crate::world::ModelWorld;

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.unit", version = 3, from = v7::Unit)]
    pub struct Unit {
        pub name: String,
        pub vitals: Vitals,
        pub title: Option<String>,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    pub struct Vitals {
        pub health: f32,
        pub max: f32,
    }
    impl From<v7::Unit> for Unit {
        fn from(old: v7::Unit) -> Self {
            Self { name: old.name, vitals: Vitals { health: old.health, max: old.max }, title: old.title }
        }
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.place")]
    pub struct Place {
        pub at: [f32; 3],
        pub facing: Option<u16>,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.inventory", alias = "colony.bag")]
    pub struct Inventory {
        pub items: Vec<Item>,
        pub worn: BTreeMap<Slot, Item>,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    pub struct Item {
        #[persist(alias = "kind")]
        pub what: String,
        pub count: u32,
        #[persist(default = 50)]
        pub quality: u16,
        pub enchants: Vec<Enchant>,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    pub struct Enchant {
        pub name: String,
        pub power: i8,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.tags", version = 3)]
    pub struct Tags {
        pub list: Vec<String>,
        pub first: Option<String>,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    pub struct Settings {
        pub music: u8,
        pub effects: u8,
        pub speed: f32,
        pub language: String,
    }

    pub(super) fn name_tags() -> Upgrader {
        Upgrader::values(2, 3, |value| {
            let list = match value {
                Value::Tuple(mut parts) if parts.len() == 1 => parts.remove(0),
                other => other,
            };
            let first = match &list {
                Value::List(tags) => tags.first().cloned().unwrap_or(Value::None),
                _ => Value::None,
            };
            Ok(Value::Struct(vec![("first".into(), first), ("list".into(), list)]))
        })
    }

    /// A place is a position and where one looks; the volume was one for everything.
    pub(super) fn merge_places(world: &mut WorldEdit) -> Result<()> {
        for entity in world.with(v2::Position::KEY)? {
            let Some(v2::Position { x, y, z }) = world.take(entity, v2::Position::KEY)? else { continue };
            let facing = world.take::<v2::Facing>(entity, v2::Facing::KEY)?.map(|facing| facing.0);
            world.insert(entity, &Place { at: [x, y, z], facing })?;
        }
        if let Some(v4::Settings { volume, speed, language }) = world.get_data("colony.settings")? {
            world
                .set_data("colony.settings", &Settings { music: volume, effects: volume, speed, language })?;
        }
        Ok(())
    }

    pub(super) fn register_others(world: &mut ModelWorld) -> Result<()> {
        super::v8::register_others(world)?;
        world.register::<Place>()?;
        world.register::<Inventory>()?;
        world.registry_mut().upgrade(Tags::KEY, name_tags())?;
        world.register::<Tags>()?;
        world.registry_mut().track("game", 3)?;
        world.registry_mut().migration("game", 1, 2, v6::split_bodies)?;
        world.registry_mut().migration("game", 2, 3, merge_places)
    }

    pub(in crate::life) fn register(world: &mut ModelWorld) -> Result<()> {
        register_others(world)?;
        world.register::<Unit>()?;
        world.register::<Banner>()
    }

    pub(super) fn fill_others(world: &mut ModelWorld, ids: &[EntityId], release: u8) {
        super::v8::fill_others(world, ids, release);
        for (i, &id) in ids.iter().enumerate() {
            let facing = (i % 3 == 0).then_some(30 * i as u16);
            world.insert(id, Place { at: [i as f32, 2.0, -0.5], facing });
        }
        let enchants = vec![Enchant { name: "light".into(), power: -3 }];
        let axe = Item { what: "axe".into(), count: 1, quality: 1000, enchants };
        let rope = Item { what: "rope".into(), count: 70_000, quality: 51, enchants: vec![] };
        world.insert(ids[1], Inventory { items: vec![rope], worn: BTreeMap::from([(Slot::Hand, axe)]) });
        world.insert(ids[4], Tags { list: vec!["late".into()], first: Some("never".into()) });
        world.hooks.on_save(move |_, save| {
            let settings = Settings { music: release, effects: 70, speed: 0.5, language: "fr".into() };
            save.attach("colony.settings", &settings)
        });
    }

    pub(in crate::life) fn fill(world: &mut ModelWorld, ids: &[EntityId]) {
        fill_others(world, ids, 9);
        crate::life::v4::fill_banners(world, ids);
        for (i, name) in NAMES.into_iter().enumerate() {
            let title = (i % 5 == 0).then(|| format!("Elder {name}"));
            let vitals = Vitals { health: 9.5 + i as f32, max: 99.0 };
            world.insert(ids[i], Unit { name: name.into(), vitals, title });
        }
    }
}

/// Only additions, one of them inside a nested struct; banners are stored in another way.
#[expect(missing_docs, reason = "the types of a game")]
pub mod v10 {
    use bonfire::{EntityId, Persist, Result};

    pub use super::v9::{
        Bio, Clock, Damp, Enchant, Follows, Inventory, Item, Job, Mood, Place, Selected, Senses, Settings,
        Sky, Slot, Strength, Tags,
    };
    use crate::life::{NAMES, v7};
    use crate::world::ModelWorld;

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.unit", version = 3, from = v7::Unit)]
    pub struct Unit {
        pub name: String,
        pub vitals: Vitals,
        pub title: Option<String>,
        #[persist(default = EntityId::NULL)]
        pub rival: EntityId,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    pub struct Vitals {
        #[persist(default = 5.0)]
        pub armor: f32,
        pub health: f32,
        pub max: f32,
    }
    impl From<v7::Unit> for Unit {
        fn from(old: v7::Unit) -> Self {
            let vitals = Vitals { armor: 5.0, health: old.health, max: old.max };
            Self { name: old.name, vitals, title: old.title, rival: EntityId::NULL }
        }
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "colony.banner", dictionary)]
    pub struct Banner {
        pub text: String,
        #[persist(default = 3)]
        pub height: u8,
        pub color: Vec<u8>,
    }

    pub(in crate::life) fn register(world: &mut ModelWorld) -> Result<()> {
        super::v9::register_others(world)?;
        world.register::<Unit>()?;
        world.register::<Banner>()
    }

    pub(in crate::life) fn fill(world: &mut ModelWorld, ids: &[EntityId]) {
        super::v9::fill_others(world, ids, 10);
        for (i, name) in NAMES.into_iter().enumerate() {
            let vitals = Vitals { armor: i as f32, health: 9.5 + i as f32, max: 99.0 };
            let unit = Unit { name: name.into(), vitals, title: None, rival: ids[(i + 1) % NAMES.len()] };
            world.insert(ids[i], unit);
        }
        for (i, &id) in ids.iter().enumerate().step_by(2) {
            world.insert(id, Banner { text: "One".into(), height: 4 + i as u8 % 4, color: vec![1, 2] });
        }
    }
}
