//! Identity that outlives processes, loads and Bevy's own ids.
//!
//! A [`StableId`] is 64 bits: the seed of the session that made it, and a counter. The index knows where each one is
//! now. A [`StableRef`] refers to one whether or not it is loaded: while it is not, the reference is unresolved, and it
//! resolves when its target comes back, in this save or in another.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use bevy_ecs::component::Component;
use bevy_ecs::entity::{Entity, EntityHashMap, EntityHashSet};
use bevy_ecs::lifecycle::HookContext;
use bevy_ecs::resource::Resource;
use bevy_ecs::world::DeferredWorld;
use bonfire::Persist;

use crate::pending::Pending;

/// An id of an entity that never changes and is never given out twice. New ones are made by [`StableId::new`], which is
/// also the default, so that `#[require(StableId)]` gives one to every entity of a kind.
///
/// ```
/// # use bevy_ecs::prelude::*;
/// use bevy_bonfire::prelude::*;
/// use bevy_bonfire::{StableId, StableIds, StableRef};
///
/// #[derive(Component, Persist)]
/// #[persist(key = "game.key")]
/// struct Key {
///     opens: StableRef,
/// }
///
/// let mut world = World::new();
/// world.persist::<Key>();
/// let door = StableId::new();
/// let key = Key { opens: door.into() };
/// assert!(key.opens.resolve(world.resource::<StableIds>()).is_err()); // not loaded yet
/// let entity = world.spawn(door).id();
/// assert_eq!(key.opens.resolve(world.resource::<StableIds>()), Ok(entity));
/// ```
#[derive(Component, Persist, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[component(immutable, on_insert = inserted, on_discard = discarded)]
#[persist(key = "bonfire.stable_id")]
pub struct StableId(u64);

/// What this process puts in front of its counter.
fn session() -> u32 {
    static SESSION: OnceLock<u32> = OnceLock::new();
    // The standard library's source of randomness: no two processes have the same, for all that matters.
    *SESSION.get_or_init(|| RandomState::new().hash_one(std::process::id()) as u32)
}

static NEXT: AtomicU32 = AtomicU32::new(1);

impl StableId {
    /// A new id.
    pub fn new() -> Self {
        let counter = NEXT.fetch_add(1, Relaxed);
        assert_ne!(counter, u32::MAX, "a session can make four billion stable ids");
        Self(u64::from(session()) << 32 | u64::from(counter))
    }
    /// An id with these bits, for games that number their entities themselves.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
    /// All 64 bits.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Another session may have had the same seed: what it made is not made again.
    fn pass(self) {
        if (self.0 >> 32) as u32 == session() {
            NEXT.fetch_max((self.0 as u32).saturating_add(1), Relaxed);
        }
    }
}

/// A new id.
impl Default for StableId {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for StableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}-{}", self.0 >> 32, self.0 as u32)
    }
}

impl fmt::Display for StableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Where every [`StableId`] of the world is. If several entities have one, it leads to the one that got it last.
#[derive(Resource, Default, Debug)]
pub struct StableIds {
    holders: HashMap<StableId, Holders>,
    /// How many entities have one.
    held: usize,
    /// A load puts new entities beside those that they replace: no reason to warn.
    loading: bool,
    /// The ids of pending entities.
    pending: EntityHashMap<StableId>,
}

#[derive(Debug)]
struct Holders {
    last: Entity,
    earlier: Vec<Entity>,
}

impl StableIds {
    /// The entity that has this id, if it is in the world.
    pub fn get(&self, id: StableId) -> Option<Entity> {
        self.holders.get(&id).map(|holders| holders.last)
    }
    /// How many there are.
    pub fn len(&self) -> usize {
        self.holders.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }

    /// The ids of these entities that other entities have, too.
    pub(crate) fn duplicates(&self, entities: impl Iterator<Item = Entity>) -> Vec<StableId> {
        if self.holders.len() == self.held {
            return Vec::new();
        }
        let loaded: EntityHashSet = entities.collect();
        let shared = self.holders.iter().filter(|(_, holders)| !holders.earlier.is_empty());
        let mut ids: Vec<StableId> =
            shared.filter(|(_, holders)| loaded.contains(&holders.last)).map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }

    pub(crate) fn begin_load(&mut self) {
        self.loading = true;
    }

    pub(crate) fn end_load(&mut self) {
        self.loading = false;
    }

    pub(crate) fn insert(&mut self, id: StableId, entity: Entity) {
        id.pass();
        self.held += 1;
        match self.holders.entry(id) {
            Entry::Vacant(free) => {
                free.insert(Holders { last: entity, earlier: Vec::new() });
            }
            Entry::Occupied(mut taken) => {
                let holders = taken.get_mut();
                let other = std::mem::replace(&mut holders.last, entity);
                holders.earlier.push(other);
                if !self.loading {
                    log::warn!(
                        "stable id {id} is on entity {other} and on {entity}: references lead to the latter"
                    );
                }
            }
        }
    }

    /// Lets the ids of entities that were pending lead to them.
    pub(crate) fn activate(&mut self, entities: &[Entity]) {
        if self.pending.is_empty() {
            return;
        }
        let loading = std::mem::replace(&mut self.loading, true);
        for &entity in entities {
            if let Some(id) = self.pending.remove(&entity) {
                self.insert(id, entity);
            }
        }
        self.loading = loading;
    }

    fn remove(&mut self, id: StableId, entity: Entity) {
        if self.pending.remove(&entity).is_some() {
            return;
        }
        let Entry::Occupied(mut taken) = self.holders.entry(id) else { return };
        let holders = taken.get_mut();
        if holders.last != entity {
            let before = holders.earlier.len();
            holders.earlier.retain(|&other| other != entity);
            self.held -= before - holders.earlier.len();
            return;
        }
        self.held -= 1;
        if let Some(other) = holders.earlier.pop() {
            holders.last = other;
        } else {
            taken.remove();
        }
    }
}

fn inserted(mut world: DeferredWorld<'_>, context: HookContext) {
    let is_pending = world.get::<Pending>(context.entity).is_some();
    if let Some(id) = world.get::<StableId>(context.entity).copied()
        && let Some(mut ids) = world.get_resource_mut::<StableIds>()
    {
        match is_pending {
            true => _ = ids.pending.insert(context.entity, id),
            false => ids.insert(id, context.entity),
        }
    }
}

fn discarded(mut world: DeferredWorld<'_>, context: HookContext) {
    if let Some(id) = world.get::<StableId>(context.entity).copied()
        && let Some(mut ids) = world.get_resource_mut::<StableIds>()
    {
        ids.remove(id, context.entity);
    }
}

/// A reference to an entity by its [`StableId`]. Unlike an `Entity`, it keeps its meaning when the target is not loaded.
#[derive(Persist, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StableRef(StableId);

impl StableRef {
    /// The target's id.
    pub fn id(self) -> StableId {
        self.0
    }

    /// The target, or the fact that it is not in the world now.
    pub fn resolve(self, ids: &StableIds) -> Result<Entity, Unresolved> {
        ids.get(self.0).ok_or(Unresolved(self.0))
    }
}

impl From<StableId> for StableRef {
    fn from(id: StableId) -> Self {
        Self(id)
    }
}

/// The target of a [`StableRef`] is not in the world. That is not an error of the save: it may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unresolved(pub StableId);

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the entity with stable id {} is not loaded", self.0)
    }
}

impl std::error::Error for Unresolved {}
