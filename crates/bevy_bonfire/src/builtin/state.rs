//! States. What is saved is the current state; a load asks for it, so that Bevy runs the transition as always.

use bevy_ecs::change_detection::Res;
use bevy_ecs::resource::Resource;
use bevy_ecs::schedule::{IntoScheduleConfigs, Schedules};
use bevy_ecs::system::Commands;
use bevy_ecs::world::World;
use bevy_state::prelude::{DespawnOnEnter, DespawnOnExit};
use bevy_state::state::{
    FreelyMutableState, NextState, State, StateTransition, StateTransitionSystems, States,
};
use bonfire::{Adapter, Descriptor, Error, Keyed, LoadContext, Result};

use crate::registry::{SaveRegistry, load_resource_with};

struct Current;

impl<S: FreelyMutableState + Keyed> Adapter<State<S>> for Current {
    type Saved = S;

    fn save(state: &State<S>) -> Result<S> {
        Ok(state.get().clone())
    }
    fn load(saved: S, _: &LoadContext<'_>) -> Result<State<S>> {
        Ok(State::new(saved))
    }
}

/// Components that end with a state.
struct Scoped;

macro_rules! scoped {
    ($($component:ident),*) => {$(
        impl<S: FreelyMutableState + Keyed> Adapter<$component<S>> for Scoped {
            type Saved = S;

            fn save(scoped: &$component<S>) -> Result<S> {
                Ok(scoped.0.clone())
            }
            fn load(saved: S, _: &LoadContext<'_>) -> Result<$component<S>> {
                Ok($component(saved))
            }
        }
    )*};
}
scoped!(DespawnOnExit, DespawnOnEnter);

/// Registers the resource that holds a state, and the components of Bevy that end entities with it.
pub(crate) fn register<S: FreelyMutableState + Keyed>(world: &mut World) -> Result<()> {
    SaveRegistry::edit(world, |world, registry| {
        let descriptor = Descriptor::adapted::<State<S>, Current>(S::KEY).with_version(S::VERSION);
        let number = registry.add::<State<S>>(world, descriptor)?;
        registry.entries[number].load_resource = Some(load_resource_with(ask_for::<S>));
        let key = |name: &str| format!("{}.{name}", S::KEY);
        let exit = Descriptor::adapted::<DespawnOnExit<S>, Scoped>(key("despawn_on_exit"));
        let enter = Descriptor::adapted::<DespawnOnEnter<S>, Scoped>(key("despawn_on_enter"));
        for number in [
            registry.add::<DespawnOnExit<S>>(world, exit.with_version(S::VERSION))?,
            registry.add::<DespawnOnEnter<S>>(world, enter.with_version(S::VERSION))?,
        ] {
            registry.entries[number].incidental = true;
        }
        Ok::<(), Error>(())
    })?;
    let mut schedules = world.get_resource_or_init::<Schedules>();
    let forget = forget_load::<S>.after(StateTransitionSystems::EnterSchedules);
    schedules.add_systems(StateTransition, forget);
    Ok(())
}

/// A state that a load asked for. Gone when its transition is over.
#[derive(Resource)]
pub struct AskedByLoad<S: States>(S);

fn ask_for<S: FreelyMutableState>(world: &mut World, state: State<S>) -> Result<()> {
    let name = std::any::type_name::<S>();
    let missing =
        || Error::misuse(format!("the app does not have this state: call `app.init_state::<{name}>()`"));
    let is_entered = world.get_resource::<State<S>>().is_none_or(|current| current.get() != state.get());
    let mut next = world.get_resource_mut::<NextState<S>>().ok_or_else(missing)?;
    next.set_if_different(state.get().clone());
    if is_entered {
        world.insert_resource(AskedByLoad(state.get().clone()));
    }
    Ok(())
}

fn forget_load<S: States>(asked: Option<Res<'_, AskedByLoad<S>>>, mut commands: Commands<'_, '_>) {
    if asked.is_some() {
        commands.remove_resource::<AskedByLoad<S>>();
    }
}

/// Returns true while a state is entered because a load asked for it: the run condition of systems in `OnEnter` that must not
/// spawn what the load has brought.
///
/// ```
/// # use bevy_app::App;
/// # use bevy_ecs::prelude::*;
/// # use bevy_state::prelude::*;
/// # use bevy_state::app::{AppExtStates, StatesPlugin};
/// use bevy_bonfire::prelude::*;
/// use bevy_bonfire::entered_by_load;
/// # #[derive(States, Persist, Clone, PartialEq, Eq, Hash, Debug, Default)]
/// # #[persist(key = "game.phase")]
/// # enum Phase {
/// #     #[default]
/// #     Menu,
/// #     Playing,
/// # }
/// # fn spawn_level() {}
/// # let mut app = App::new();
/// # app.add_plugins((StatesPlugin, BonfirePlugin::default())).init_state::<Phase>().persist_state::<Phase>();
/// app.add_systems(OnEnter(Phase::Playing), spawn_level.run_if(not(entered_by_load::<Phase>)));
/// ```
pub fn entered_by_load<S: States>(
    asked: Option<Res<'_, AskedByLoad<S>>>,
    current: Option<Res<'_, State<S>>>,
) -> bool {
    asked.zip(current).is_some_and(|(asked, current)| asked.0 == *current.get())
}
