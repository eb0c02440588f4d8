//! Identity that outlives processes, loads and the ids of hecs.
//!
//! hecs does not tell when a component comes or goes, so the index is brought up to date at known moments: see [`StableIds`].

use std::collections::HashMap;

use bonfire::Persist;
use bonfire::engine::StableIdIndex;
use hecs::{Archetype, Entity, Without, World};

/// An id of an entity that never changes and is never given out twice. Every [`Bonfire`](crate::Bonfire) saves it, on
/// entities that are saved. [`StableId::new`] makes new ones.
///
/// ```
/// use bonfire_hecs::{Bonfire, Persist, StableId, StableRef};
///
/// #[derive(Persist)]
/// #[persist(key = "game.key")]
/// struct Key {
///     opens: StableRef,
/// }
///
/// let (mut world, mut bonfire) = (hecs::World::new(), Bonfire::new());
/// bonfire.persist::<Key>()?;
/// let door = StableId::new();
/// let key = Key { opens: door.into() };
/// assert!(key.opens.resolve(bonfire.stable_ids()).is_err()); // not loaded yet
/// let entity = world.spawn(());
/// bonfire.insert_stable_id(&mut world, entity, door)?;
/// assert_eq!(key.opens.resolve(bonfire.stable_ids()), Ok(entity));
/// # Ok::<(), bonfire_hecs::Error>(())
/// ```
#[derive(Persist, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[persist(crate = bonfire, key = "bonfire.stable_id")]
pub struct StableId(u64);

/// The holders of the [`StableId`]s of a world, as they were when the index was last brought up to date: after a load, by
/// [`Bonfire::update_indexes`](crate::Bonfire::update_indexes), and for one entity by
/// [`Bonfire::insert_stable_id`](crate::Bonfire::insert_stable_id). An entity that is despawned in between is still found,
/// and hecs says that it is gone.
///
/// If several entities have an id, it leads to the one that was found last. After a load that is the loaded one.
#[derive(Default, Debug)]
pub struct StableIds {
    index: StableIdIndex<Entity>,
}

impl StableIds {
    /// Finds all ids of the world.
    pub(crate) fn update(&mut self, world: &World) {
        let holds = |entity: Entity, id: u64| world.get::<&StableId>(entity).is_ok_and(|held| held.0 == id);
        self.index.retain(|id, entity| holds(entity, id));
        for (entity, id) in world.query::<(Entity, &StableId)>().iter() {
            self.index.insert(id.0, entity);
        }
    }

    /// Adds the id of one entity, which may have had another.
    pub(crate) fn insert(&mut self, id: StableId, before: Option<StableId>, entity: Entity) {
        if let Some(before) = before {
            self.index.remove(before.0, entity);
        }
        self.index.insert(id.0, entity);
    }

    /// Removes the id of one entity.
    pub(crate) fn remove(&mut self, id: StableId, entity: Entity) {
        self.index.remove(id.0, entity);
    }

    /// Lets the ids of these entities lead to them, and returns the bits of those that other entities have, too.
    pub(crate) fn prefer(&mut self, entities: impl Iterator<Item = Entity>) -> Vec<u64> {
        self.index.prefer(entities)
    }
}

/// Marks a stand-in: an entity that holds the place of another one, which is not loaded. References to that one lead here. When
/// it is loaded, it takes over this entity, with its id.
///
/// A stand-in has no other component. It is part of no save and of no replication, and [`StableIds::get`] does not return it.
/// hecs has no disabled entities: queries that ask for no component of the game find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandIn(StableId);

impl StandIn {
    pub(crate) fn new(id: StableId) -> Self {
        Self(id)
    }

    /// Returns the id of the entity that is away.
    pub fn id(self) -> StableId {
        self.0
    }

    /// The stand-ins of a world, by the bits of the id.
    pub(crate) fn all(world: &World) -> HashMap<u64, Entity> {
        let mut found = world.query::<Without<(Entity, &Self), &StableId>>();
        found.iter().map(|(entity, stand_in)| (stand_in.0.0, entity)).collect()
    }

    /// Returns true if the entities of an archetype are stand-ins.
    pub(crate) fn is_in(archetype: &Archetype) -> bool {
        archetype.has::<Self>() && !archetype.has::<StableId>()
    }
}

/// A reference to an entity by its [`StableId`]. Unlike an `Entity`, it keeps its meaning when the target is not loaded.
#[derive(Persist, Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[persist(crate = bonfire)]
pub struct StableRef(StableId);

bonfire::engine::stable_id_methods!(Entity);
