//! Registration: what a game says once about each of its types.

use bevy_app::{App, Last};
use bevy_ecs::component::Component;
use bevy_ecs::entity::{Entity, EntityMapper};
use bevy_ecs::relationship::Relationship;
use bevy_ecs::resource::Resource;
use bevy_ecs::schedule::IntoScheduleConfigs;
use bevy_ecs::system::ScheduleSystem;
use bevy_ecs::world::World;
use bonfire::engine::{DataHandler, Key};
use bonfire::{
    Adapter, Descriptor, Error, Keyed, LoadContext, NonFinite, Persist, Registry, Result, Unencodable,
    Upgrader, Value, WorldEdit,
};

use crate::capture::DataHandlers;
use crate::index::Index;
use crate::registry::{Layer, SaveRegistry, or_panic};

/// Registers what is saved, on an [`App`] or on a bare [`World`].
///
/// A mistake here would be a player's lost save later, so these calls panic: two types under one key, one type under
/// two keys, a key that is none.
///
/// ```
/// # use bevy_app::App;
/// # use bevy_ecs::prelude::*;
/// use bevy_bonfire::prelude::*;
///
/// #[derive(Component, Persist)]
/// #[require(Saved)]
/// #[persist(key = "game.health")]
/// struct Health(f32);
///
/// App::new().add_plugins(BonfirePlugin::default()).persist::<Health>();
/// ```
pub trait PersistExt: Sized {
    #[doc(hidden)]
    fn save_world(&mut self) -> &mut World;

    /// Runs a system at the end of every frame, where there are frames.
    #[doc(hidden)]
    fn every_frame<M>(&mut self, system: impl IntoScheduleConfigs<ScheduleSystem, M>);

    /// Saves a component under its derived key. References to entities in it are mapped on load, without a word more.
    #[track_caller]
    fn persist<T: Component + Keyed>(&mut self) -> &mut Self {
        self.persist_as::<T>(Descriptor::of::<T>())
    }

    /// Saves a component in the way that a descriptor says: types of other crates by an adapter, functions of the
    /// game's own, a policy for numbers that are none.
    ///
    /// ```
    /// # use bevy_app::App;
    /// # use bevy_ecs::prelude::*;
    /// # use bevy_bonfire::prelude::*;
    /// use bevy_bonfire::{Descriptor, NonFinite};
    ///
    /// #[derive(Component, Persist)]
    /// #[persist(key = "game.speed")]
    /// struct Speed(f32);
    ///
    /// App::new().persist_as::<Speed>(Descriptor::of::<Speed>().non_finite(NonFinite::Refuse));
    /// ```
    #[track_caller]
    fn persist_as<T: Component>(&mut self, descriptor: Descriptor) -> &mut Self {
        or_panic(SaveRegistry::edit(self.save_world(), |world, registry| {
            registry.add::<T>(world, descriptor)
        }));
        self
    }

    /// Saves a component that only has serde. References to entities in it are mapped if the component says where they
    /// are (`#[entities]`).
    #[track_caller]
    fn persist_serde<T>(&mut self, key: &'static str) -> &mut Self
    where
        T: Component + serde::Serialize + serde::de::DeserializeOwned,
    {
        self.persist_as::<T>(Descriptor::adapted::<T, SerdeComponent>(key))
    }

    /// Saves a relationship of the game's own, at its source. The target's list is not saved: Bevy makes it again, and
    /// its order is kept.
    ///
    /// ```
    /// # use bevy_app::App;
    /// # use bevy_ecs::prelude::*;
    /// # use bevy_bonfire::prelude::*;
    /// #[derive(Component, Persist)]
    /// #[relationship(relationship_target = Followers)]
    /// #[persist(key = "game.follows")]
    /// struct Follows(Entity);
    ///
    /// #[derive(Component)]
    /// #[relationship_target(relationship = Follows)]
    /// struct Followers(Vec<Entity>);
    ///
    /// App::new().persist_relationship::<Follows>();
    /// ```
    #[track_caller]
    fn persist_relationship<R: Relationship + Keyed>(&mut self) -> &mut Self {
        or_panic(SaveRegistry::edit(self.save_world(), |world, registry| {
            registry.add_relationship::<R>(world, Descriptor::of::<R>())
        }));
        self
    }

    /// Saves a resource under its derived key. A resource that a save lacks, because the save is older, keeps its value:
    /// [`LoadReport::resources_not_saved`](crate::LoadReport::resources_not_saved) names it.
    #[track_caller]
    fn persist_resource<R: Resource + Keyed>(&mut self) -> &mut Self {
        self.persist::<R>()
    }

    /// Saves the current state. A load sets the next one, unless it is the current one already: `OnExit` and `OnEnter`
    /// run when Bevy next applies transitions, with the loaded world in place. Systems that spawn a level in `OnEnter` ask
    /// [`entered_by_load`](crate::entered_by_load). `DespawnOnExit` and `DespawnOnEnter` of the state are saved with their
    /// entities.
    ///
    /// ```
    /// # use bevy_app::App;
    /// # use bevy_state::prelude::*;
    /// # use bevy_state::app::{AppExtStates, StatesPlugin};
    /// use bevy_bonfire::prelude::*;
    ///
    /// #[derive(States, Persist, Clone, PartialEq, Eq, Hash, Debug, Default)]
    /// #[persist(key = "game.phase")]
    /// enum Phase {
    ///     #[default]
    ///     Menu,
    ///     Playing,
    /// }
    ///
    /// App::new().add_plugins((StatesPlugin, BonfirePlugin::default())).init_state::<Phase>().persist_state::<Phase>();
    /// ```
    #[cfg(feature = "state")]
    #[track_caller]
    fn persist_state<S: bevy_state::state::FreelyMutableState + Keyed>(&mut self) -> &mut Self {
        or_panic(crate::builtin::state::register::<S>(self.save_world()));
        self
    }

    /// Saves the game's clocks: `Time<Virtual>` (elapsed time, speed, pause) and `Time<Fixed>` (elapsed time, what is
    /// left of a step).
    #[cfg(feature = "time")]
    #[track_caller]
    fn persist_time(&mut self) -> &mut Self {
        or_panic(crate::builtin::time::register(self.save_world()));
        self
    }

    /// Saves a component of which only its reflection is known. References to entities in it are mapped like all
    /// others. It is the slowest way: prefer the derive.
    #[cfg(feature = "reflect")]
    #[track_caller]
    fn persist_reflect<T>(&mut self, key: &'static str) -> &mut Self
    where
        T: Component + bevy_reflect::FromReflect + bevy_reflect::TypePath + bevy_reflect::GetTypeRegistration,
    {
        let descriptor = crate::builtin::reflect::descriptor::<T>(self.save_world(), key);
        self.persist_as::<T>(descriptor)
    }

    /// Lets handles to this kind of asset be saved inside components that are saved by reflection. Derived components
    /// say `#[persist(with = AssetRef)]` at the field and need nothing more: see [`AssetRef`](crate::AssetRef).
    #[cfg(feature = "asset")]
    fn persist_handle<A: bevy_asset::Asset>(&mut self) -> &mut Self {
        let world = self.save_world();
        let types = world.get_resource_or_init::<bevy_ecs::reflect::AppTypeRegistry>().clone();
        types.write().register::<bevy_asset::Handle<A>>();
        self
    }

    /// Saves a component that is a handle and nothing else, such as `Mesh3d`.
    #[cfg(feature = "asset")]
    #[track_caller]
    fn persist_handle_component<C>(&mut self, key: &'static str) -> &mut Self
    where
        C: bevy_asset::AsAssetId
            + std::ops::Deref<Target = bevy_asset::Handle<C::Asset>>
            + From<bevy_asset::Handle<C::Asset>>,
    {
        self.persist_as::<C>(Descriptor::adapted::<C, crate::builtin::asset::AssetComponent>(key))
    }

    /// Keeps an [`Index`] of entities by a key of this component, such as a name or a number. It is complete whenever
    /// data callbacks and observers of a load run. A bare [`World`] has no frames, so there the index sees components
    /// that come and go, but not what is changed in place.
    fn index_by<C: Component, K: Key>(
        &mut self,
        read: impl Fn(&C) -> K + Send + Sync + 'static,
    ) -> &mut Self {
        Index::install(self.save_world(), read);
        SaveRegistry::edit(self.save_world(), |world, registry| {
            registry.indexed.insert(world.register_component::<C>());
        });
        self.every_frame(Index::<C, K>::refresh);
        self
    }

    /// Inserts this component after everything else of a load, when all entities are complete: for components whose
    /// hooks or observers look at other entities. (All other components may find entities that exist but have no
    /// components yet.)
    #[track_caller]
    fn load_late<T: Component>(&mut self) -> &mut Self {
        or_panic(SaveRegistry::edit(self.save_world(), |_, registry| {
            let number = registry.require::<T>()?;
            registry.entries[number].late = true;
            Ok(())
        }));
        self
    }

    /// Says that values of a registered component or resource change without Bevy's change detection, behind a `Mutex`, a `Cell`
    /// or an atomic, or by `bypass_change_detection`: captures that share memory with earlier ones copy it whole each time.
    #[track_caller]
    fn changes_unseen<T: Component>(&mut self) -> &mut Self {
        or_panic(SaveRegistry::edit(self.save_world(), |_, registry| {
            let number = registry.require::<T>()?;
            registry.entries[number].unseen = true;
            Ok(())
        }));
        self
    }

    /// Chooses what a save does with values of a registered component that hold NaN or infinity, also of Bevy's own
    /// such as `Transform`: keep them (the default), report them, or fail.
    #[track_caller]
    fn persist_non_finite<T: Component>(&mut self, policy: NonFinite) -> &mut Self {
        or_panic(SaveRegistry::edit(self.save_world(), |_, registry| {
            let number = registry.require::<T>()?;
            registry.core.set_non_finite(number, policy);
            Ok(())
        }));
        self
    }

    /// Chooses what a save does with values of a registered component that cannot be encoded: leave them out and note it
    /// (the default), or fail. [`Descriptor::replace_unencodable`] replaces them.
    #[track_caller]
    fn persist_unencodable<T: Component>(&mut self, policy: Unencodable) -> &mut Self {
        or_panic(SaveRegistry::edit(self.save_world(), |_, registry| {
            let number = registry.require::<T>()?;
            registry.core.set_unencodable(number, policy);
            Ok(())
        }));
        self
    }

    /// Keeps the state of a plugin under a key: see [`DataHandler`]. Handlers run in the order of their registration, before
    /// observers of [`SaveStarting`](crate::SaveStarting) and [`LoadStarting`](crate::LoadStarting).
    ///
    /// ```
    /// # use bevy_app::App;
    /// # use bevy_ecs::prelude::*;
    /// # use bevy_bonfire::prelude::*;
    /// # #[derive(Resource)] struct Weather { wind: f32 }
    /// # let mut app = App::new();
    /// # app.add_plugins(BonfirePlugin::new());
    /// app.persist_data(
    ///     "weather.wind",
    ///     DataHandler::new()
    ///         .save(|world: &World| world.get_resource::<Weather>().map(|weather| weather.wind))
    ///         .load(|world: &mut World, wind| {
    ///             world.insert_resource(Weather { wind });
    ///             Ok(())
    ///         }),
    /// );
    /// ```
    #[track_caller]
    fn persist_data<T: Persist>(&mut self, key: &str, handler: DataHandler<World, T>) -> &mut Self {
        or_panic(DataHandlers::add(self.save_world(), key, handler));
        self
    }

    /// Says that a component is knowingly not saved, so that a save does not name it as missing. The same holds for entities
    /// that have it and are not part of saves.
    fn persist_ignore<T: Component>(&mut self) -> &mut Self {
        SaveRegistry::edit(self.save_world(), |world, registry| {
            let id = world.register_component::<T>();
            registry.ignore(id);
        });
        self
    }

    /// Adds a step between two versions of the component with this key, for changes that no pair of types expresses.
    #[track_caller]
    fn save_upgrader(&mut self, key: &str, upgrader: Upgrader) -> &mut Self {
        or_panic(self.edit_registry(|registry| registry.upgrade(key, upgrader)));
        self
    }

    /// Names a version line of the game, or of a plugin that saves state of its own: every save lists it.
    #[track_caller]
    fn save_track(&mut self, name: &str, version: u32) -> &mut Self {
        or_panic(self.edit_registry(|registry| registry.track(name, version)));
        self
    }

    /// Adds a function that brings saved worlds from one version of a track to a later one, before anything is loaded.
    #[track_caller]
    fn save_migration(
        &mut self,
        track: &str,
        from: u32,
        to: u32,
        migrate: impl Fn(&mut WorldEdit) -> Result<()> + Send + Sync + 'static,
    ) -> &mut Self {
        or_panic(self.edit_registry(|registry| registry.migration(track, from, to, migrate)));
        self
    }

    #[doc(hidden)]
    fn edit_registry<T>(&mut self, edit: impl FnOnce(&mut Registry) -> T) -> T {
        SaveRegistry::edit(self.save_world(), |_, registered| edit(&mut registered.core))
    }

    /// Reads an entity's layer (0 to 31) from one of its components, for saves that choose by layer. Entities without
    /// the component are on no layer and are always chosen.
    fn save_layer<T: Component>(&mut self, layer: impl Fn(&T) -> u8 + Send + Sync + 'static) -> &mut Self {
        SaveRegistry::edit(self.save_world(), |world, registry| {
            registry.layer = Some(Layer::of::<T>(world, layer));
        });
        self
    }
}

impl PersistExt for App {
    fn save_world(&mut self) -> &mut World {
        self.world_mut()
    }
    fn every_frame<M>(&mut self, system: impl IntoScheduleConfigs<ScheduleSystem, M>) {
        self.add_systems(Last, system);
    }
}

impl PersistExt for World {
    fn save_world(&mut self) -> &mut World {
        self
    }
    fn every_frame<M>(&mut self, _: impl IntoScheduleConfigs<ScheduleSystem, M>) {}
}

/// A component through serde, with its references mapped by the component itself.
pub(crate) struct SerdeComponent;

impl<T> Adapter<T> for SerdeComponent
where
    T: Component + serde::Serialize + serde::de::DeserializeOwned,
{
    type Saved = Value;

    fn save(value: &T) -> Result<Value> {
        bonfire::to_value(value)
    }
    fn load(saved: Value, context: &LoadContext<'_>) -> Result<T> {
        map_entities(bonfire::from_value(saved)?, context)
    }
}

/// Maps the references that a component says it has.
pub(crate) fn map_entities<T: Component>(mut value: T, context: &LoadContext<'_>) -> Result<T> {
    let mut mapper = Mapper { context, error: None };
    T::map_entities(&mut value, &mut mapper);
    mapper.error.map_or(Ok(value), Err)
}

struct Mapper<'a> {
    context: &'a LoadContext<'a>,
    error: Option<Error>,
}

impl EntityMapper for Mapper<'_> {
    fn get_mapped(&mut self, source: Entity) -> Entity {
        match self.context.resolve(source.into()) {
            Ok(id) => id.into(),
            Err(error) => {
                self.error.get_or_insert(error);
                Entity::PLACEHOLDER
            }
        }
    }
    fn set_mapped(&mut self, _: Entity, _: Entity) {}
}
