//! The numbers of a stream as diagnostics of Bevy.

use bevy_app::{App, Last, Plugin};
use bevy_diagnostic::{Diagnostic, DiagnosticPath, Diagnostics, RegisterDiagnostic};
use bevy_ecs::schedule::IntoScheduleConfigs;
use bevy_ecs::system::Res;

use super::plugin::ChunkSystems;
use super::resource::Chunks;
use super::state::StreamState;

/// Measures the stream of chunks in each frame, for overlays and logs that show diagnostics of Bevy.
///
/// ```
/// # use bevy_app::App;
/// # use bevy_diagnostic::DiagnosticsStore;
/// # use bevy_transform::components::Transform;
/// use bevy_bonfire::chunks::{ChunkDiagnosticsPlugin, ChunkFocus, ChunkStreamPlugin};
/// # use bevy_bonfire::chunks::{ChunkOptions, Layer, Layers, Persistence};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("world.save");
/// # let layers = Layers::new().with(Layer::new("material", 1).persistence(Persistence::Always));
/// # let world = ChunkOptions::new(layers).open(&path)?;
/// let mut app = App::new();
/// app.add_plugins((ChunkStreamPlugin::new(world), ChunkDiagnosticsPlugin));
/// app.world_mut().spawn((ChunkFocus::new(1), Transform::default()));
/// app.update();
///
/// let measured = app.world().resource::<DiagnosticsStore>();
/// let loading = measured.get(&ChunkDiagnosticsPlugin::LOADING).and_then(|chunks| chunks.value());
/// # assert!(loading.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ChunkDiagnosticsPlugin;

impl ChunkDiagnosticsPlugin {
    /// The number of chunks that wait for their turn.
    pub const QUEUED: DiagnosticPath = DiagnosticPath::const_new("bonfire/chunks/queued");
    /// The number of chunks that are read or generated.
    pub const LOADING: DiagnosticPath = DiagnosticPath::const_new("bonfire/chunks/loading");
    /// The number of chunks that wait for votes, or for time in a frame.
    pub const STAGED: DiagnosticPath = DiagnosticPath::const_new("bonfire/chunks/staged");
    /// The number of chunks that are part of the game.
    pub const ACTIVE: DiagnosticPath = DiagnosticPath::const_new("bonfire/chunks/active");
    /// The number of chunks that are about to leave.
    pub const LEAVING: DiagnosticPath = DiagnosticPath::const_new("bonfire/chunks/leaving");
    /// The number of chunks that have left and are not durable.
    pub const SAVING: DiagnosticPath = DiagnosticPath::const_new("bonfire/chunks/saving");
    /// The number of chunks that could not be loaded.
    pub const FAILED: DiagnosticPath = DiagnosticPath::const_new("bonfire/chunks/failed");
    /// The memory of chunks that have left and are not durable, in bytes.
    pub const SAVING_BYTES: DiagnosticPath = DiagnosticPath::const_new("bonfire/chunks/saving_bytes");
    /// The number of entities that wait for a chunk that they walk into.
    pub const ENTITIES_WAITING: DiagnosticPath = DiagnosticPath::const_new("bonfire/chunks/entities_waiting");
    /// The number of loads that the worker has not done.
    pub const WORKER_LOADS: DiagnosticPath = DiagnosticPath::const_new("bonfire/chunks/worker_loads");
    /// The number of saves that the worker has not done.
    pub const WORKER_SAVES: DiagnosticPath = DiagnosticPath::const_new("bonfire/chunks/worker_saves");
    /// The bytes that the worker has appended to the file since it was started.
    pub const BYTES_WRITTEN: DiagnosticPath = DiagnosticPath::const_new("bonfire/chunks/bytes_written");
    /// The time of the last frame for the look at what has moved, in milliseconds.
    pub const MEMBERSHIP_TIME: DiagnosticPath = DiagnosticPath::const_new("bonfire/chunks/membership_time");
    /// The time of the last frame for chunks that come and go, in milliseconds.
    pub const UPDATE_TIME: DiagnosticPath = DiagnosticPath::const_new("bonfire/chunks/update_time");

    fn all() -> [(DiagnosticPath, &'static str); 14] {
        [
            (Self::QUEUED, ""),
            (Self::LOADING, ""),
            (Self::STAGED, ""),
            (Self::ACTIVE, ""),
            (Self::LEAVING, ""),
            (Self::SAVING, ""),
            (Self::FAILED, ""),
            (Self::SAVING_BYTES, " B"),
            (Self::ENTITIES_WAITING, ""),
            (Self::WORKER_LOADS, ""),
            (Self::WORKER_SAVES, ""),
            (Self::BYTES_WRITTEN, " B"),
            (Self::MEMBERSHIP_TIME, " ms"),
            (Self::UPDATE_TIME, " ms"),
        ]
    }
}

impl Plugin for ChunkDiagnosticsPlugin {
    fn build(&self, app: &mut App) {
        for (path, suffix) in Self::all() {
            app.register_diagnostic(Diagnostic::new(path).with_suffix(suffix));
        }
        app.add_systems(Last, measure.after(ChunkSystems));
    }
}

/// Adds a measurement of this frame to each diagnostic.
fn measure(
    chunks: Option<Res<'_, Chunks>>,
    state: Option<Res<'_, StreamState>>,
    mut diagnostics: Diagnostics<'_, '_>,
) {
    type Paths = ChunkDiagnosticsPlugin;
    let (Some(chunks), Some(state)) = (chunks, state) else { return };
    let (status, times) = (chunks.status(), chunks.times());
    let counts = [
        (&Paths::QUEUED, status.queued),
        (&Paths::LOADING, status.loading),
        (&Paths::STAGED, status.staged),
        (&Paths::ACTIVE, status.active),
        (&Paths::LEAVING, status.leaving),
        (&Paths::SAVING, status.saving),
        (&Paths::FAILED, status.failed),
        (&Paths::ENTITIES_WAITING, chunks.waiting()),
    ];
    for (path, count) in counts {
        diagnostics.add_measurement(path, || count as f64);
    }
    let work = state.stream.worker().statistics();
    let (loads, saves) = (work.loads(), work.saves());
    diagnostics.add_measurement(&Paths::WORKER_LOADS, || (loads.waiting + loads.under_way) as f64);
    diagnostics.add_measurement(&Paths::WORKER_SAVES, || (saves.waiting + saves.under_way) as f64);
    diagnostics.add_measurement(&Paths::BYTES_WRITTEN, || work.bytes_written() as f64);
    diagnostics.add_measurement(&Paths::SAVING_BYTES, || status.saving_bytes as f64);
    diagnostics.add_measurement(&Paths::MEMBERSHIP_TIME, || times.membership.as_secs_f64() * 1000.0);
    diagnostics.add_measurement(&Paths::UPDATE_TIME, || times.update.as_secs_f64() * 1000.0);
}
