//! Tests of games that stream, without a window: walk here, wait until ready, look.

use std::time::{Duration, Instant};

use bevy_app::App;
use bevy_ecs::entity::Entity;
use bevy_transform::components::Transform;
use bonfire_chunks::ChunkRect;

use super::Chunks;

/// Runs an app frame by frame until something holds. Each call panics with the state of the stream if it takes too long.
///
/// ```
/// # use bevy_app::App;
/// # use bevy_transform::components::Transform;
/// use bevy_bonfire::chunks::{ChunkFocus, ChunkStreamPlugin, StreamHarness};
/// # use bevy_bonfire::chunks::{ChunkOptions, Layer, Layers, Persistence};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("world.save");
/// # let layers = Layers::new().with(Layer::new("material", 1).persistence(Persistence::Always));
/// # let world = ChunkOptions::new(layers).chunk_size(16).open(&path)?;
/// let mut app = App::new();
/// app.add_plugins(ChunkStreamPlugin::new(world));
/// let player = app.world_mut().spawn((ChunkFocus::new(1), Transform::default())).id();
///
/// let mut game = StreamHarness::new(app);
/// game.settle();
/// game.walk(player, [100.0, 0.0, 0.0], 10.0);
/// game.settle();
/// assert!(game.chunks().is_active((6, 0)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct StreamHarness {
    /// The app.
    pub app: App,
    /// The longest that a call waits. Default: a minute.
    pub patience: Duration,
}

impl StreamHarness {
    /// Takes an app that has [`ChunkStreamPlugin`](super::ChunkStreamPlugin).
    pub fn new(app: App) -> Self {
        Self { app, patience: Duration::from_secs(60) }
    }

    /// Returns the chunks of the app.
    #[track_caller]
    pub fn chunks(&self) -> &Chunks {
        self.app.world().resource::<Chunks>()
    }

    /// Runs frames until something holds.
    #[track_caller]
    pub fn until(&mut self, mut holds: impl FnMut(&mut App) -> bool) {
        let begin = Instant::now();
        while !holds(&mut self.app) {
            self.app.update();
            let status = self.chunks().status().clone();
            assert!(begin.elapsed() < self.patience, "the game waited for {:?}: {status:?}", self.patience);
            std::thread::yield_now();
        }
    }

    /// Runs frames until everything that is wanted is active or has failed, everything else has left and is durable, and no
    /// entity waits for a chunk.
    #[track_caller]
    pub fn settle(&mut self) {
        self.app.update();
        // What has come in one frame may move on in the next one.
        let mut quiet_frames = 0;
        self.until(|app| {
            let chunks = app.world().resource::<Chunks>();
            let is_quiet = chunks.is_settled() && chunks.is_saved();
            quiet_frames = if is_quiet { quiet_frames + 1 } else { 0 };
            quiet_frames > 2
        });
    }

    /// Runs frames until every chunk of an area is active.
    #[track_caller]
    pub fn until_ready(&mut self, area: ChunkRect) {
        self.until(|app| app.world().resource::<Chunks>().is_ready(area));
    }

    /// Moves an entity in a straight line, one step of this length in each frame.
    #[track_caller]
    pub fn walk(&mut self, entity: Entity, to: [f32; 3], step: f32) {
        self.until(|app| {
            let mut transform = app.world_mut().get_mut::<Transform>(entity).expect("it has a place");
            let way = Transform::from_xyz(to[0], to[1], to[2]).translation - transform.translation;
            let length = way.length();
            transform.translation += if length <= step { way } else { way * (step / length) };
            length <= step
        });
    }
}
