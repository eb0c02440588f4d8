//! Worlds that stream in Bevy: chunks that come and go with their entities, and saves of all of them.

use std::time::{Duration, Instant};

use bevy_app::App;
use bevy_bonfire::chunks::{
    ChunkCells, ChunkFocus, ChunkOptions, ChunkPos, ChunkRect, ChunkStreamPlugin, ChunkWorld, Chunks, Layer,
    Layers, Persistence, PopulateChunk, Streamed,
};
use bevy_bonfire::prelude::*;
use bevy_bonfire::{LoadMode, Snapshot};
use bevy_ecs::prelude::*;
use bevy_transform::components::Transform;

use crate::chunk_rows::wall;
use crate::measure::{Row, seconds};

pub(crate) fn rows() -> Vec<Row> {
    let row = |key, target, measure: fn() -> (f64, String)| Row { key, target, measure: Box::new(measure) };
    vec![
        row("stream_chunks_per_s_x", Some(1.5), chunks_per_second),
        row("stream_frame_worst_x_budget", Some(1.3), worst_frame),
        row("stream_idle_frame_us_20", Some(50.0), || idle_frame(20)),
        row("stream_idle_frame_us_200", Some(150.0), || idle_frame(200)),
        row("stream_save_1pct_x_changed", Some(1.3), save_of_changed),
        row("stream_save_frame_us", None, save_frame),
    ]
}

/// Cells along an edge of a chunk, which are units of the world.
const SIZE: u16 = 32;
const EDGE: f32 = SIZE as f32;
/// Two bytes each.
const CELL_BYTES: usize = 2;

#[derive(Component, Persist, Clone, Copy)]
#[require(Streamed)]
#[persist(key = "bench.creature")]
struct Creature {
    id: u64,
    health: f32,
    speed: [f32; 2],
}

#[derive(Component, Persist, Clone, Copy)]
#[persist(key = "bench.hunger")]
struct Hunger(f32);

/// How many creatures each chunk gets.
#[derive(Resource, Clone, Copy)]
struct Population(u32);

fn open(path: &std::path::Path) -> ChunkWorld {
    let layers = Layers::new().with(Layer::new("material", CELL_BYTES).persistence(Persistence::Always));
    ChunkOptions::new(layers).chunk_size(SIZE).compact_above(None).open(path).expect("a new world")
}

fn populate(
    chunk: On<'_, '_, PopulateChunk>,
    population: Res<'_, Population>,
    mut commands: Commands<'_, '_>,
) {
    let corner = chunk.corner;
    let place = move |number: u32| {
        let (x, y) = ((number % 14) as f32 * 2.0 + 1.0, (number / 14) as f32 * 2.0 + 1.0);
        Transform::from_xyz(corner[0] + x, corner[1] + y, 0.0)
    };
    let creature = |number: u32| Creature { id: u64::from(number), health: 1.0, speed: [0.5, -0.5] };
    let all = (0..population.0).map(move |number| (creature(number), Hunger(number as f32), place(number)));
    commands.spawn_batch(all);
}

/// An app whose chunks have so many creatures.
fn app(path: &std::path::Path, creatures: u32) -> App {
    let mut app = App::new();
    app.insert_resource(Population(creatures));
    app.add_plugins(ChunkStreamPlugin::new(open(path)).populate());
    app.persist::<Creature>().persist::<Hunger>().add_observer(populate);
    app
}

fn settle(app: &mut App) {
    app.update();
    app.update();
    while {
        let chunks = app.world().resource::<Chunks>();
        !chunks.is_settled() || !chunks.is_saved()
    } {
        app.update();
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn focus(app: &mut App, reach: u32) -> Entity {
    app.world_mut().spawn((ChunkFocus::new(reach), Transform::default())).id()
}

fn move_to(app: &mut App, focus: Entity, chunk: f32) {
    let mut place = app.world_mut().get_mut::<Transform>(focus).expect("it has a place");
    place.translation.x = (chunk + 0.5) * EDGE;
}

/// Fills the cells of all active chunks, so that they are stored.
fn dig_everywhere(app: &mut App) {
    let mut chunks = app.world_mut().query::<&mut ChunkCells>();
    for (mut chunk, seed) in chunks.iter_mut(app.world_mut()).zip(1_u64..) {
        let mut state = seed;
        chunk.update(|cells| {
            for cell in cells.chunks_exact_mut(CELL_BYTES) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                cell.copy_from_slice(&[(state >> 60) as u8, (state >> 40) as u8 & 7]);
            }
        });
    }
}

/// A world on disk with all chunks of an area dug and populated, 200 creatures in each.
fn prepared(path: &std::path::Path, reach: u32, creatures: u32) -> App {
    let mut app = app(path, creatures);
    focus(&mut app, reach);
    settle(&mut app);
    dig_everywhere(&mut app);
    save(&mut app);
    settle(&mut app);
    app
}

fn save(app: &mut App) {
    let saved = app.world_mut().resource_mut::<Chunks>().save();
    app.update();
    saved.wait().expect("it is saved");
}

/// Chunks made active per second, against decoding and loading the same ones by hand on one thread.
fn chunks_per_second() -> (f64, String) {
    const REACH: u32 = 7;
    let home = tempfile::tempdir().expect("a directory for temporary files");
    let path = home.path().join("world");
    drop(prepared(&path, REACH, 200));
    let area = ChunkRect::around((0, 0), REACH);
    let count = area.area() as f64;
    let (mut ours, mut theirs, mut main_thread) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..15 {
        let mut app = app(&path, 200);
        // The budget of a loading screen.
        app.world_mut().flush();
        focus(&mut app, REACH);
        ours.push(wall(|| {
            main_thread.push(seconds(&mut || {
                while app.world().resource::<Chunks>().status().active < count as usize {
                    app.update();
                }
            }));
        }));
        drop(app);
        let world = open(&path);
        let mut target = World::new();
        target.persist::<Creature>().persist::<Hunger>().persist::<Streamed>();
        theirs.push(wall(|| {
            for pos in area.iter() {
                let chunk = world.load(pos).expect("it is whole");
                let entities = world.read_entities(pos).expect("they are whole").expect("it has some");
                let snapshot = Snapshot::open(&entities).expect("they are whole");
                target.load(&snapshot, LoadMode::Merge).expect("they are known");
                target.spawn(Held(chunk));
            }
        }));
        assert_eq!(target.query::<&Creature>().iter(&target).count(), count as usize * 200);
    }
    let (ours, theirs, main_thread) = (median(ours), median(theirs), median(main_thread));
    let note = format!(
        "{:.0} chunks per second, {:.0} us of the main thread each; by hand {:.0}, {:.0} us",
        count / ours,
        main_thread / count * 1e6,
        count / theirs,
        theirs / count * 1e6
    );
    (ours / theirs, note)
}

/// A chunk in memory, as the plugin keeps it.
#[derive(Component)]
#[expect(dead_code, reason = "it is held")]
struct Held(bevy_bonfire::chunks::Chunk);

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The longest CPU time of the main thread in a frame, over the budget of 2 ms, while a player walks 10 chunks a second.
fn worst_frame() -> (f64, String) {
    const FRAMES: u32 = 600;
    let home = tempfile::tempdir().expect("a directory for temporary files");
    let path = home.path().join("world");
    let mut app = app(&path, 200);
    let player = focus(&mut app, 3);
    settle(&mut app);
    let mut times = Vec::new();
    for frame in 0..FRAMES {
        let begin = Instant::now();
        // Back and forth over 40 chunks, so that half of the chunks are loaded and the others are new.
        let way = frame as f32 / 6.0;
        move_to(&mut app, player, if way < 50.0 { way } else { 100.0 - way });
        times.push(seconds(&mut || app.update()));
        std::thread::sleep(Duration::from_micros(16_600).saturating_sub(begin.elapsed()));
    }
    times.sort_by(f64::total_cmp);
    let worst = times[times.len() - 1];
    let p99 = times[times.len() * 99 / 100];
    let typical = times[times.len() / 2];
    let note = format!(
        "worst {:.2} ms, 99 of 100 frames {:.2} ms, median {:.2} ms",
        worst * 1e3,
        p99 * 1e3,
        typical * 1e3
    );
    (worst / 2e-3, note)
}

/// A frame in which nothing changes, with a thousand active chunks.
fn idle_frame(creatures: u32) -> (f64, String) {
    let home = tempfile::tempdir().expect("a directory for temporary files");
    let mut app = app(&home.path().join("world"), creatures);
    focus(&mut app, 16);
    settle(&mut app);
    save(&mut app);
    settle(&mut app);
    let chunks = app.world().resource::<Chunks>().status().active;
    let mut empty = App::new();
    let frame = |app: &mut App| median((0..200).map(|_| seconds(&mut || app.update())).collect());
    let (ours, bare) = (frame(&mut app), frame(&mut empty));
    let note = format!("{chunks} chunks, {creatures} creatures each; an empty app {:.1} us", bare * 1e6);
    ((ours - bare) * 1e6, note)
}

/// Bytes of a save over the bytes that have changed: one chunk in a hundred, cells and creatures.
fn save_of_changed() -> (f64, String) {
    let home = tempfile::tempdir().expect("a directory for temporary files");
    let path = home.path().join("world");
    let mut app = prepared(&path, 15, 200);
    let chunks: Vec<ChunkPos> = ChunkRect::around((0, 0), 15).iter().step_by(100).collect();
    let mut changed = 0;
    for pos in &chunks {
        let entity = app.world().resource::<Chunks>().entity(*pos).expect("it is active");
        let mut cells = app.world_mut().get_mut::<ChunkCells>(entity).expect("it is active");
        cells.set(1, 1, &[200, 200]).expect("it is a cell");
        let residents =
            app.world().get::<bevy_bonfire::chunks::ChunkResidents>(entity).expect("it has creatures");
        let one = residents.iter().next().expect("it has creatures");
        app.world_mut().get_mut::<Hunger>(one).expect("it is hungry").0 += 1.0;
        // A chunk is the unit of a save: what has changed are its cells and its creatures, as they are stored.
        let world = app.world().resource::<Chunks>().world().clone();
        changed += world.read_entities(*pos).expect("they are whole").map_or(0, |bytes| bytes.len());
    }
    let saved = app.world_mut().resource_mut::<Chunks>().save();
    app.update();
    let report = saved.wait().expect("it is saved");
    let note = format!("{} bytes for {} chunks, entities before {changed}", report.bytes, chunks.len());
    (report.bytes as f64 / (changed as f64 + chunks.len() as f64 * f64::from(SIZE).powi(2)), note)
}

/// The cost of a save for the frame, if all of a thousand chunks have changed.
fn save_frame() -> (f64, String) {
    let home = tempfile::tempdir().expect("a directory for temporary files");
    let mut app = prepared(&home.path().join("world"), 15, 200);
    let mut times = Vec::new();
    for _ in 0..5 {
        let mut chunks = app.world_mut().query::<&mut ChunkCells>();
        for mut chunk in chunks.iter_mut(app.world_mut()) {
            let cell = [chunk.get(0, 0).expect("a cell")[0].wrapping_add(1), 0];
            chunk.set(0, 0, &cell).expect("a cell");
        }
        for mut hunger in app.world_mut().query::<&mut Hunger>().iter_mut(app.world_mut()) {
            hunger.0 += 1.0;
        }
        let saved = app.world_mut().resource_mut::<Chunks>().save();
        times.push(seconds(&mut || app.update()));
        saved.wait().expect("it is saved");
        settle(&mut app);
    }
    let frame = median(times);
    let count = app.world().resource::<Chunks>().status().active;
    (frame * 1e6, format!("{count} chunks with 200 creatures each, all changed"))
}
