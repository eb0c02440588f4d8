//! The plain set: 60 bytes in three components, four archetypes by two tags, 8-byte ids.

use bevy_ecs::component::Component;
use bonfire::engine::{BufferPool, SnapshotWriter};
use bonfire::{EntityId, Persist, Registry, Snapshot};
#[cfg(feature = "peers")]
use {bevy_ecs::reflect::ReflectComponent, bevy_reflect::Reflect};

#[derive(Component, Clone, Copy, PartialEq, Persist)]
#[cfg_attr(feature = "peers", derive(Reflect), reflect(Component))]
#[cfg_attr(any(feature = "peers", feature = "replicon"), derive(serde::Serialize, serde::Deserialize))]
#[persist(key = "bench.transform")]
pub(crate) struct Transform {
    pub(crate) translation: [f32; 3],
    rotation: [f32; 4],
    scale: [f32; 3],
}

#[derive(Component, Clone, Copy, PartialEq, Persist)]
#[cfg_attr(feature = "peers", derive(Reflect), reflect(Component))]
#[cfg_attr(any(feature = "peers", feature = "replicon"), derive(serde::Serialize, serde::Deserialize))]
#[persist(key = "bench.circle")]
pub(crate) struct Circle {
    radius: f32,
    width: f32,
}

#[derive(Component, Clone, Copy, PartialEq, Persist)]
#[cfg_attr(feature = "peers", derive(Reflect), reflect(Component))]
#[cfg_attr(any(feature = "peers", feature = "replicon"), derive(serde::Serialize, serde::Deserialize))]
#[persist(key = "bench.color")]
pub(crate) struct Color {
    pub(crate) r: f32,
    g: f32,
    b: f32,
}

#[derive(Component, Clone, Copy, PartialEq, Persist)]
#[cfg_attr(feature = "peers", derive(Reflect), reflect(Component))]
#[cfg_attr(any(feature = "peers", feature = "replicon"), derive(serde::Serialize, serde::Deserialize))]
#[persist(key = "bench.m1")]
pub(crate) struct M1;

#[derive(Component, Clone, Copy, PartialEq, Persist)]
#[cfg_attr(feature = "peers", derive(Reflect), reflect(Component))]
#[cfg_attr(any(feature = "peers", feature = "replicon"), derive(serde::Serialize, serde::Deserialize))]
#[persist(key = "bench.m2")]
pub(crate) struct M2;

/// A component with a gap and a skipped field.
#[derive(Clone, Copy, Persist)]
#[persist(key = "bench.strided")]
pub(crate) struct Strided {
    pub(crate) position: [f32; 3],
    pub(crate) team: u8,
    #[persist(skip)]
    pub(crate) flash: f32,
    pub(crate) health: f32,
}

impl Transform {
    pub(crate) fn number(i: u32) -> Self {
        Self { translation: [i as f32; 3], rotation: [0.5; 4], scale: [1.0; 3] }
    }
}

impl Circle {
    pub(crate) fn number(_: u32) -> Self {
        Self { radius: 1.0, width: 2.0 }
    }
    pub(crate) fn grow(&mut self) {
        self.radius += 1.0;
    }
}

impl Color {
    pub(crate) fn number(i: u32) -> Self {
        Self { r: i as f32, g: 0.5, b: 0.25 }
    }
}

pub(crate) fn registry() -> Registry {
    let mut registry = Registry::new();
    registry.register::<Transform>().expect("a fresh key");
    registry.register::<Circle>().expect("a fresh key");
    registry.register::<Color>().expect("a fresh key");
    registry.register::<M1>().expect("a fresh key");
    registry.register::<M2>().expect("a fresh key");
    registry.register::<Strided>().expect("a fresh key");
    registry
}

struct Archetype {
    ids: Vec<EntityId>,
    transforms: Vec<Transform>,
    circles: Vec<Circle>,
    colors: Vec<Color>,
    m1: Vec<M1>,
    m2: Vec<M2>,
}

/// The set as columns in memory, as an ECS holds them.
pub(crate) struct World {
    archetypes: Vec<Archetype>,
}

impl World {
    pub(crate) fn new(entities: usize) -> Self {
        let archetype = |tags: usize| {
            let numbers: Vec<u32> = (0..entities as u32).filter(|i| *i as usize % 4 == tags).collect();
            let count = numbers.len();
            Archetype {
                ids: numbers.iter().map(|i| EntityId::new(*i, 0)).collect(),
                transforms: numbers.iter().map(|&i| Transform::number(i)).collect(),
                circles: numbers.iter().map(|&i| Circle::number(i)).collect(),
                colors: numbers.iter().map(|&i| Color::number(i)).collect(),
                m1: vec![M1; if tags & 1 == 1 { count } else { 0 }],
                m2: vec![M2; if tags & 2 == 2 { count } else { 0 }],
            }
        };
        Self { archetypes: (0..4).map(archetype).collect() }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.archetypes.iter().map(|archetype| archetype.ids.len() * 68).sum()
    }

    pub(crate) fn capture(&self, registry: &Registry, pool: &BufferPool) -> Snapshot {
        let mut writer = SnapshotWriter::new(registry).pool(pool).reserve(self.bytes() + 4096);
        for source in &self.archetypes {
            let mut archetype = writer.archetype(&source.ids).expect("few entities");
            archetype.column(&source.transforms).expect("a registered column");
            archetype.column(&source.circles).expect("a registered column");
            archetype.column(&source.colors).expect("a registered column");
            if !source.m1.is_empty() {
                archetype.column(&source.m1).expect("a registered column");
            }
            if !source.m2.is_empty() {
                archetype.column(&source.m2).expect("a registered column");
            }
        }
        writer.finish().expect("columns that fit")
    }

    /// What everything is compared with: columns of the same sizes, to be copied into a warm buffer.
    pub(crate) fn memcpy(&self) -> Memcpy {
        let columns = |archetype: &Archetype| [8, 40, 8, 12].map(|size| vec![7; archetype.ids.len() * size]);
        Memcpy { columns: self.archetypes.iter().flat_map(columns).collect(), buffer: vec![0; self.bytes()] }
    }
}

/// Columns of bytes, and a warm buffer for them.
pub(crate) struct Memcpy {
    columns: Vec<Vec<u8>>,
    buffer: Vec<u8>,
}

impl Memcpy {
    pub(crate) fn of(bytes: usize) -> Self {
        Self { columns: vec![vec![7; bytes]], buffer: vec![0; bytes] }
    }

    pub(crate) fn run(&mut self) {
        let mut rest = &mut *self.buffer;
        for column in &self.columns {
            let (to, next) = rest.split_at_mut(column.len());
            to.copy_from_slice(std::hint::black_box(column));
            rest = next;
        }
        std::hint::black_box(&mut self.buffer);
    }
}
