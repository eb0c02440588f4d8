//! The rpg set: text, lists, options, enums, hierarchy, in 300 archetypes whose sizes follow Zipf's law.

use bonfire::{BufferPool, EntityId, Persist, Registry, Snapshot, SnapshotWriter};
use serde::{Deserialize, Serialize};

#[derive(Clone, Persist, Serialize, Deserialize)]
#[persist(key = "rpg.name")]
pub(crate) struct Name(String);

#[derive(Clone, Copy, Persist, Serialize, Deserialize)]
#[persist(key = "rpg.stats")]
pub(crate) struct Stats {
    health: f32,
    stamina: f32,
    level: u16,
    armor: u16,
}

#[derive(Clone, Copy, Persist, Serialize, Deserialize)]
enum Quality {
    Poor,
    Common,
    Rare,
    Epic,
}

#[derive(Clone, Persist, Serialize, Deserialize)]
struct Item {
    kind: u32,
    count: u16,
    quality: Quality,
    enchantment: Option<u32>,
}

#[derive(Clone, Persist, Serialize, Deserialize)]
#[persist(key = "rpg.inventory")]
pub(crate) struct Inventory {
    gold: u32,
    items: Vec<Item>,
}

#[derive(Clone, Persist, Serialize, Deserialize)]
#[persist(key = "rpg.mind")]
pub(crate) enum Mind {
    Idle,
    Patrol { path: Vec<[f32; 2]>, at: u32 },
    Flee { from: [f32; 2], panic: f32 },
    Talk(String),
}

#[derive(Clone, Persist, Serialize, Deserialize)]
#[persist(key = "rpg.quest")]
pub(crate) struct Quest {
    title: String,
    stage: u8,
    reward: Option<Item>,
    notes: Vec<String>,
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

/// Small, fast and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

impl World {
    pub(crate) fn new(entities: usize) -> Self {
        let mut random = Random(1);
        let weights: Vec<f64> = (1..=300).map(|rank| 1.0 / f64::from(rank)).collect();
        let sum: f64 = weights.iter().sum();
        let mut next = 0_u32;
        let archetypes = (weights.iter().enumerate())
            .map(|(number, weight)| {
                let count = ((weight / sum * entities as f64) as usize).max(1);
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
                self.names.push(Name(format!("Villager {}", random.below(100_000))));
            }
            if has(1) {
                let level = random.below(60) as u16;
                self.stats.push(Stats { health: 0.5, stamina: random.below(100) as f32, level, armor: 3 });
            }
            if has(2) {
                let items = (0..random.below(6)).map(|_| item(random)).collect();
                self.inventories.push(Inventory { gold: random.below(5000) as u32, items });
            }
            if has(3) {
                self.minds.push(match random.below(4) {
                    0 => Mind::Idle,
                    1 => Mind::Patrol { path: vec![[1.0, 2.0]; random.below(8) as usize], at: 1 },
                    2 => Mind::Flee { from: [0.5, 0.25], panic: 1.0 },
                    _ => Mind::Talk("Have you heard of the high elves?".into()),
                });
            }
            if has(4) {
                let notes = (0..random.below(3)).map(|i| format!("note number {i}")).collect();
                let reward = (random.below(2) == 0).then(|| item(random));
                self.quests.push(Quest { title: "The lost anvil".into(), stage: 3, reward, notes });
            }
            if has(5) {
                self.parents.push(ChildOf(EntityId::new(random.below(entities / 2) as u32, 0)));
            }
        }
    }
}

fn item(random: &mut Random) -> Item {
    let quality = [Quality::Poor, Quality::Common, Quality::Rare, Quality::Epic][random.below(4) as usize];
    let enchantment = (random.below(4) == 0).then(|| random.below(1 << 20) as u32);
    Item { kind: random.below(1000) as u32, count: random.below(64) as u16, quality, enchantment }
}
