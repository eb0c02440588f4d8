//! States. What is saved is the current state; a load asks for it, so that Bevy runs the transition as always.

use bevy_ecs::world::World;
use bevy_state::state::{FreelyMutableState, NextState, State};
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

/// Registers the resource that holds a state.
pub(crate) fn register<S: FreelyMutableState + Keyed>(world: &mut World) -> Result<()> {
    SaveRegistry::edit(world, |world, registry| {
        let descriptor = Descriptor::adapted::<State<S>, Current>(S::KEY).with_version(S::VERSION);
        let number = registry.add::<State<S>>(world, descriptor)?;
        registry.entries[number].load_resource = Some(load_resource_with(ask_for::<S>));
        Ok(())
    })
}

fn ask_for<S: FreelyMutableState>(world: &mut World, state: State<S>) -> Result<()> {
    let name = std::any::type_name::<S>();
    let missing =
        || Error::misuse(format!("the app does not have this state: call `app.init_state::<{name}>()`"));
    let mut next = world.get_resource_mut::<NextState<S>>().ok_or_else(missing)?;
    next.set_if_different(state.get().clone());
    Ok(())
}
