//! The rpg set: text, lists, options, enums, hierarchy, in 300 archetypes whose sizes follow Zipf's law.

use bevy_ecs::component::Component;
use bonfire::engine::{BufferPool, SnapshotWriter};
use bonfire::{EntityId, Persist, Registry, Snapshot};
use serde::{Deserialize, Serialize};

#[derive(Component, Clone, Persist, Serialize, Deserialize)]
#[persist(key = "rpg.name")]
pub(crate) struct Name(pub(crate) String);

#[derive(Component, Clone, Copy, Persist, Serialize, Deserialize)]
#[persist(key = "rpg.stats")]
pub(crate) struct Stats {
    health: f32,
    stamina: f32,
    pub(crate) level: u16,
    armor: u16,
}

#[derive(Clone, Copy, Persist, Serialize, Deserialize)]
pub(crate) enum Quality {
    Poor,
    Common,
    Rare,
    Epic,
}

#[derive(Clone, Persist, Serialize, Deserialize)]
pub(crate) struct Item {
    kind: u32,
    count: u16,
    quality: Quality,
    enchantment: Option<u32>,
}

#[derive(Component, Clone, Persist, Serialize, Deserialize)]
#[persist(key = "rpg.inventory")]
pub(crate) struct Inventory {
    pub(crate) gold: u32,
    pub(crate) items: Vec<Item>,
}

#[derive(Component, Clone, Persist, Serialize, Deserialize)]
#[persist(key = "rpg.mind")]
pub(crate) enum Mind {
    Idle,
    Patrol { path: Vec<[f32; 2]>, at: u32 },
    Flee { from: [f32; 2], panic: f32 },
    Talk(String),
}

#[derive(Component, Clone, Persist, Serialize, Deserialize)]
#[component(storage = "SparseSet")]
#[persist(key = "rpg.quest")]
pub(crate) struct Quest {
    title: String,
    stage: u8,
    reward: Option<Item>,
    pub(crate) notes: Vec<String>,
}

/// Bonfire maps these on load; postcard just stores the number.
#[derive(Clone, Copy, Persist, Serialize, Deserialize)]
#[persist(key = "rpg.child_of")]
pub(crate) struct ChildOf(#[serde(with = "as_bits")] EntityId);

mod as_bits {
    use bonfire::EntityId;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(id: &EntityId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(id.to_bits())
    }
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<EntityId, D::Error> {
        u64::deserialize(deserializer).map(EntityId::from_bits)
    }
}

pub(crate) fn registry() -> Registry {
    let mut registry = Registry::new();
    registry.register::<Name>().expect("a fresh key");
    registry.register::<Stats>().expect("a fresh key");
    registry.register::<Inventory>().expect("a fresh key");
    registry.register::<Mind>().expect("a fresh key");
    registry.register::<Quest>().expect("a fresh key");
    registry.register::<ChildOf>().expect("a fresh key");
    registry
}

#[derive(Default)]
struct Archetype {
    ids: Vec<EntityId>,
    names: Vec<Name>,
    stats: Vec<Stats>,
    inventories: Vec<Inventory>,
    minds: Vec<Mind>,
    quests: Vec<Quest>,
    parents: Vec<ChildOf>,
}

pub(crate) struct World {
    archetypes: Vec<Archetype>,
}

/// How many entities each of 300 archetypes has.
pub(crate) fn zipf(entities: usize) -> Vec<usize> {
    let weights: Vec<f64> = (1..=300).map(|rank| 1.0 / f64::from(rank)).collect();
    let sum: f64 = weights.iter().sum();
    let mut counts: Vec<usize> =
        weights.iter().map(|weight| ((weight / sum * entities as f64) as usize).max(1)).collect();
    counts[0] += entities - counts.iter().sum::<usize>();
    counts
}

/// Small, fast and the same everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

impl World {
    pub(crate) fn new(entities: usize) -> Self {
        let mut random = Random(1);
        let mut next = 0_u32;
        let archetypes = (zipf(entities).into_iter().enumerate())
            .map(|(number, count)| {
                let mut archetype = Archetype::default();
                for _ in 0..count {
                    archetype.ids.push(EntityId::new(next, 0));
                    next += 1;
                }
                archetype.fill(number as u64 % 62 + 1, entities as u64, &mut random);
                archetype
            })
            .collect();
        Self { archetypes }
    }

    pub(crate) fn capture(&self, registry: &Registry, pool: &BufferPool) -> Snapshot {
        let mut writer = SnapshotWriter::new(registry).pool(pool);
        for source in &self.archetypes {
            let mut archetype = writer.archetype(&source.ids).expect("few entities");
            macro_rules! column {
                ($($column:ident),*) => {$(
                    if !source.$column.is_empty() {
                        archetype.column(&source.$column).expect("a registered column");
                    }
                )*};
            }
            column!(names, stats, inventories, minds, quests, parents);
        }
        writer.finish().expect("columns that fit")
    }

    /// What a careful person writes by hand: the same columns, one after the other, with serde and postcard.
    pub(crate) fn postcard(&self, mut out: Vec<u8>) -> (Vec<u8>, Vec<[usize; 7]>) {
        out.clear();
        let mut ends = Vec::with_capacity(self.archetypes.len());
        for source in &self.archetypes {
            let ids: Vec<u64> = source.ids.iter().map(|id| id.to_bits()).collect();
            let mut end = [0; 7];
            macro_rules! column {
                ($number:literal, $column:expr) => {
                    out = postcard::to_extend($column, out).expect("it serializes");
                    end[$number] = out.len();
                };
            }
            column!(0, &ids);
            column!(1, &source.names);
            column!(2, &source.stats);
            column!(3, &source.inventories);
            column!(4, &source.minds);
            column!(5, &source.quests);
            column!(6, &source.parents);
            ends.push(end);
        }
        (out, ends)
    }

    pub(crate) fn from_postcard(bytes: &[u8], ends: &[[usize; 7]]) -> usize {
        let mut start = 0;
        let mut entities = 0;
        for end in ends {
            macro_rules! column {
                ($number:literal, $type:ty) => {{
                    let column: Vec<$type> =
                        postcard::from_bytes(&bytes[start..end[$number]]).expect("it was written");
                    start = end[$number];
                    std::hint::black_box(&column);
                    column.len()
                }};
            }
            entities += column!(0, u64);
            column!(1, Name);
            column!(2, Stats);
            column!(3, Inventory);
            column!(4, Mind);
            column!(5, Quest);
            column!(6, ChildOf);
        }
        entities
    }
}

impl Archetype {
    /// Each bit of `components` is a column.
    fn fill(&mut self, components: u64, entities: u64, random: &mut Random) {
        let has = |bit: u64| components >> bit & 1 == 1;
        for _ in 0..self.ids.len() {
            if has(0) {
                self.names.push(Name::random(random));
            }
            if has(1) {
                self.stats.push(Stats::random(random));
            }
            if has(2) {
                self.inventories.push(Inventory::random(random));
            }
            if has(3) {
                self.minds.push(Mind::random(random));
            }
            if has(4) {
                self.quests.push(Quest::random(random));
            }
            if has(5) {
                self.parents.push(ChildOf(EntityId::new(random.below(entities / 2) as u32, 0)));
            }
        }
    }
}

impl Name {
    pub(crate) fn random(random: &mut Random) -> Self {
        Self(format!("Villager {}", random.below(100_000)))
    }
}

impl Stats {
    pub(crate) fn random(random: &mut Random) -> Self {
        let level = random.below(60) as u16;
        Self { health: 0.5, stamina: random.below(100) as f32, level, armor: 3 }
    }
}

impl Inventory {
    pub(crate) fn random(random: &mut Random) -> Self {
        let items = (0..random.below(6)).map(|_| Item::random(random)).collect();
        Self { gold: random.below(5000) as u32, items }
    }
}

impl Item {
    fn random(random: &mut Random) -> Self {
        let quality =
            [Quality::Poor, Quality::Common, Quality::Rare, Quality::Epic][random.below(4) as usize];
        let enchantment = (random.below(4) == 0).then(|| random.below(1 << 20) as u32);
        Self { kind: random.below(1000) as u32, count: random.below(64) as u16, quality, enchantment }
    }
}

impl Mind {
    pub(crate) fn random(random: &mut Random) -> Self {
        match random.below(4) {
            0 => Self::Idle,
            1 => Self::Patrol { path: vec![[1.0, 2.0]; random.below(8) as usize], at: 1 },
            2 => Self::Flee { from: [0.5, 0.25], panic: 1.0 },
            _ => Self::Talk("Have you heard of the high elves?".into()),
        }
    }
}

impl Quest {
    pub(crate) fn random(random: &mut Random) -> Self {
        let notes = (0..random.below(3)).map(|i| format!("note number {i}")).collect();
        let reward = (random.below(2) == 0).then(|| Item::random(random));
        Self { title: "The lost anvil".into(), stage: 3, reward, notes }
    }
}
