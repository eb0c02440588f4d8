//! The plugin.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bevy_app::{App, Last, Plugin};
use bevy_ecs::entity::EntityHashMap;
use bevy_ecs::schedule::{IntoScheduleConfigs, SystemSet};
use bevy_ecs::system::Res;
use bonfire_chunks::stream::{ChunkStream, ChunkVote, SlotPins, StreamOptions};
use bonfire_chunks::{ChunkRect, ChunkWorker, ChunkWorld};

use super::body::{BodyChanged, BodyKey, BodyWaits};
use super::components::{AnchoredTo, InDimension, Roaming, Streamed, WaitsForChunk};
use super::event::{ChunkChanged, ChunkProblem};
use super::keeper::ChunkMoments;
use super::resource::Chunks;
use super::state::{ChunkGrid, GridDimension, LiveChunks, StreamState, StreamTimes};
use super::tickets::NamedTickets;
use super::{membership, step};
use crate::PersistExt;
use crate::live::{SaveSystems, Saves};
use crate::registry::SaveRegistry;

/// The behaviour of a streamed entity that walks into a chunk that is not active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtEdge {
    /// It stops, is disabled, and enters the chunk as soon as that can be loaded. A chunk that no focus wants is saved with the
    /// entity at once, and leaves again.
    #[default]
    Enter,
    /// As [`AtEdge::Enter`], but the chunk stays loaded for as long as the entity is in it.
    Load,
    /// Nothing: it goes on, and belongs to the chunk that it came from. [`ChunkProblem::Stopped`] tells the game.
    Stop,
}

/// The systems that load chunks and let go of them: in [`Last`], before [`SaveSystems`].
#[derive(SystemSet, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkSystems;

/// Streams a world of chunks around every [`ChunkFocus`](super::ChunkFocus), with the entities that are [`Streamed`].
///
/// Add it after [`BonfirePlugin`](crate::BonfirePlugin), if the game has slots: then a save in a slot and the chunks are of one
/// moment.
///
/// ```
/// # use bevy_app::App;
/// # use bevy_ecs::prelude::*;
/// # use bevy_transform::components::Transform;
/// use bevy_bonfire::chunks::{ChunkFocus, ChunkOptions, ChunkStreamPlugin, Layer, Layers, Persistence, Streamed};
/// use bevy_bonfire::prelude::*;
/// use bevy_bonfire::store::{MemoryStore, Slots};
///
/// #[derive(Component, Persist)]
/// #[require(Streamed)] // every creature belongs to the chunk that it is in
/// #[persist(key = "game.creature")]
/// struct Creature(u32);
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("world.save");
/// let layers = Layers::new().with(Layer::new("material", 1).persistence(Persistence::Always));
/// let world = ChunkOptions::new(layers).chunk_size(32).open(&path)?;
/// let mut app = App::new();
/// app.add_plugins(BonfirePlugin::new().slots(Slots::new(MemoryStore::new())));
/// app.add_plugins(ChunkStreamPlugin::new(world)).persist::<Creature>();
/// app.world_mut().spawn((ChunkFocus::new(3), Transform::default()));
/// app.update();
///
/// let save = app.world_mut().resource_mut::<Saves>().save("quick"); // chunks included
/// # app.update();
/// # save.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ChunkStreamPlugin {
    world: ChunkWorld,
    cell_size: f32,
    budget: Duration,
    at_edge: AtEdge,
    populates: bool,
    autosave: Option<Duration>,
    options: StreamOptions,
    votes: Vec<String>,
}

impl ChunkStreamPlugin {
    /// Streams a world.
    pub fn new(world: ChunkWorld) -> Self {
        Self {
            world,
            cell_size: 1.0,
            budget: Duration::from_millis(2),
            at_edge: AtEdge::default(),
            populates: false,
            autosave: Some(Duration::from_secs(60)),
            options: StreamOptions::default(),
            votes: Vec::new(),
        }
    }

    /// Sets the units of the world along an edge of a cell. Default: 1.
    pub fn cell_size(mut self, units: f32) -> Self {
        self.cell_size = units;
        self
    }

    /// Sets the time that each frame may take for chunks that come and go. Default: 2 milliseconds. One comes and one leaves
    /// in each frame, however short it is.
    pub fn budget(mut self, time: Duration) -> Self {
        self.budget = time;
        self
    }

    /// Sets what happens to an entity that walks into a chunk that is not active. Default: it enters it.
    pub fn at_edge(mut self, at_edge: AtEdge) -> Self {
        self.at_edge = at_edge;
        self
    }

    /// Triggers [`PopulateChunk`](super::PopulateChunk) for chunks in which entities were never saved. Default: no.
    pub fn populate(mut self) -> Self {
        self.populates = true;
        self
    }

    /// Sets the time from the end of a save to the next one, or that there is none. Default: a minute. It counts in games
    /// without slots; where there are slots, [`Autosave`](crate::Autosave) saves chunks, too.
    pub fn autosave(mut self, interval: impl Into<Option<Duration>>) -> Self {
        self.autosave = interval.into();
        self
    }

    /// Sets bounds of loads and saves.
    pub fn options(mut self, options: StreamOptions) -> Self {
        self.options = options;
        self
    }

    /// Adds a vote on each chunk, such as one of collision. A chunk stays staged until [`Chunks::agree`] was called for it with
    /// every vote. [`chunk_vote`] returns the vote by its name.
    pub fn vote(mut self, name: impl Into<String>) -> Self {
        self.votes.push(name.into());
        self
    }
}

/// Returns the vote with a name that was added to the plugin.
pub fn chunk_vote(app: &mut App, name: &str) -> bonfire::Result<ChunkVote> {
    let state = app.world_mut().get_resource_mut::<StreamState>();
    let state =
        state.ok_or_else(|| bonfire::Error::misuse("add `ChunkStreamPlugin` before votes are asked for"));
    state?.stream.add_vote(name)
}

impl Plugin for ChunkStreamPlugin {
    fn build(&self, app: &mut App) {
        app.persist::<Streamed>().persist::<Roaming>().persist::<AnchoredTo>().persist::<InDimension>();
        app.persist_resource::<NamedTickets>().init_resource::<NamedTickets>();
        app.persist::<WaitsForChunk>().persist::<BodyKey>().persist::<BodyWaits>();
        incidental(app);
        membership::register(app.world_mut());
        let pins = Arc::new(SlotPins::new(self.world.clone()));
        if let Err(error) = pins.forget_interrupted_return() {
            log::debug!("the chunk world keeps what an interrupted load has left: {error}");
        }
        let mut stream =
            ChunkStream::with_options(ChunkWorker::new(self.world.clone()), self.options.clone());
        for vote in &self.votes {
            if let Err(error) = stream.add_vote(vote) {
                log::error!("{error}");
            }
        }
        let live = LiveChunks {
            chunks: Default::default(),
            waiting: EntityHashMap::default(),
            kept_for: Default::default(),
            ended_visits: Vec::new(),
            news: Vec::new(),
            bodies: Default::default(),
            grid: ChunkGrid { cell_size: self.cell_size, dimensions: dimensions(&self.world) },
            at_edge: self.at_edge,
            populates: self.populates,
            has_adopted: false,
            remains: Default::default(),
            looked: None,
        };
        app.insert_resource(Chunks::new(self.world.clone())).insert_resource(StreamState {
            stream,
            budget: self.budget,
            focuses: EntityHashMap::default(),
            live,
            pins: pins.clone(),
            undoing: None,
            is_starting_over: false,
            tickets: NamedTickets::default(),
            autosave: self.autosave,
            times: StreamTimes::default(),
        });
        app.add_message::<ChunkChanged>().add_message::<ChunkProblem>().add_message::<BodyChanged>();
        app.configure_sets(Last, ChunkSystems.before(SaveSystems));
        app.add_systems(Last, step::run.in_set(ChunkSystems));
        match app.world_mut().get_resource_mut::<Saves>() {
            Some(mut saves) => {
                saves.keep_moments(Arc::new(ChunkMoments { pins }));
                if saves.slots().is_some() {
                    app.world_mut().resource_mut::<StreamState>().autosave = None;
                }
            }
            None => log::info!(
                "without `BonfirePlugin` before it, `ChunkStreamPlugin` saves chunks apart from slots"
            ),
        }
    }
}

/// These components are no reason to save an entity.
fn incidental(app: &mut App) {
    SaveRegistry::edit(app.world_mut(), |world, registry| {
        let marks = [
            world.register_component::<Streamed>(),
            world.register_component::<Roaming>(),
            world.register_component::<AnchoredTo>(),
            world.register_component::<InDimension>(),
            world.register_component::<WaitsForChunk>(),
            world.register_component::<BodyKey>(),
            world.register_component::<BodyWaits>(),
        ];
        for number in marks.into_iter().filter_map(|id| registry.number(id)).collect::<Vec<_>>() {
            registry.entries[number].incidental = true;
        }
    });
}

fn dimensions(world: &ChunkWorld) -> BTreeMap<u32, GridDimension> {
    let sizes = |number| {
        let shape = world.shape(number)?;
        let (chunk_size, seed) = (shape.chunk_size, shape.seed);
        let sizes = GridDimension { chunk_size, is_three_dimensional: shape.is_three_dimensional, seed };
        Some((number, sizes))
    };
    world.dimensions().filter_map(sizes).collect()
}

/// Returns a run condition that is true while every chunk of an area is active.
///
/// ```
/// # use bevy_app::{App, Update};
/// # use bevy_ecs::prelude::*;
/// use bevy_bonfire::chunks::{ChunkRect, area_ready};
///
/// # fn start_fight() {}
/// # let mut app = App::new();
/// app.add_systems(Update, start_fight.run_if(area_ready(ChunkRect::around((4, 0), 1))));
/// ```
pub fn area_ready(area: ChunkRect) -> impl Fn(Option<Res<'_, Chunks>>) -> bool + Clone {
    move |chunks: Option<Res<'_, Chunks>>| chunks.is_some_and(|chunks| chunks.is_ready(area))
}
