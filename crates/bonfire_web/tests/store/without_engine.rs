//! A saver is polled by the page, stores answer later, and nothing is waited for.

use std::time::Duration;

use bonfire::{Compression, EncodeOptions, Snapshot};
use bonfire_chunks::{Access, ChunkOptions, ChunkPos, Durability, Layer, Layers, MemoryDisk, Persistence};
use bonfire_hecs::{Bonfire, LoadMode, Persist, SaveOptions, Saved};
use bonfire_store::{
    Details, MemoryStore, SaveHandle, Saver, SealKey, Sealed, Slots, Store, Wait, conformance,
};
use bonfire_testkit::later_store::LaterStore;
use wasm_bindgen_test::wasm_bindgen_test;

use crate::browser::{TimerStore, next_frame};

#[derive(Clone, Copy, Debug, PartialEq, Persist)]
#[persist(key = "test.place")]
struct Place {
    x: f32,
    y: f32,
}

/// A world of hecs, and what saves it.
fn game(entities: u32) -> (hecs::World, Bonfire) {
    let mut bonfire = Bonfire::new();
    bonfire.persist::<Place>().unwrap();
    let mut world = hecs::World::new();
    world.spawn_batch((0..entities).map(|row| (Place { x: row as f32, y: 1.0 }, Saved)));
    (world, bonfire)
}

fn sum(world: &hecs::World) -> f32 {
    world.query::<&Place>().iter().map(|place| place.x).sum()
}

/// Polls the saver once a frame until the handle is complete. Returns how many frames that took.
async fn frames<T: Clone>(saver: &Saver, handle: &bonfire_store::Handle<T>) -> usize {
    for frame in 0..10_000 {
        if handle.is_complete() {
            return frame;
        }
        saver.poll(Duration::ZERO);
        next_frame().await;
    }
    panic!("the job does not end");
}

#[wasm_bindgen_test]
fn a_store_in_memory_keeps_all_rules() {
    conformance::check(MemoryStore::new);
}

#[wasm_bindgen_test]
async fn a_store_that_answers_later_keeps_all_rules() {
    conformance::check_async(async || TimerStore::default()).await;
}

#[wasm_bindgen_test]
async fn a_saver_is_polled_by_frames() {
    for slots in [Slots::new(TimerStore::default()), Slots::new(MemoryStore::new())] {
        let (world, bonfire) = game(100_000);
        let snapshot = bonfire.capture(&world, &SaveOptions::new()).unwrap();
        let saver = Saver::new(slots);
        assert!(!saver.has_thread());
        let save: SaveHandle = saver.save("quick", snapshot, Details::new());
        assert!(frames(&saver, &save).await > 3, "800 KB are several slices");
        let report = save.result().unwrap().unwrap();
        assert_eq!((report.entities, report.generation), (100_000, Some(1)));
        let load = saver.load("quick");
        frames(&saver, &load).await;
        let (mut other, mut bonfire) = game(3);
        let loaded = load.await.unwrap();
        bonfire.load(&mut other, &loaded.snapshot, LoadMode::Replace).unwrap();
        assert_eq!(sum(&other), sum(&world));
        // There is a clock.
        let status = saver.status();
        assert!(status.last_durable.is_some() && status.bytes_per_second.is_some());
        assert!(loaded.info.saved_at.is_some_and(|time| time.as_secs() > 1_700_000_000));
    }
}

#[wasm_bindgen_test]
async fn a_handle_can_be_awaited_while_frames_go_on() {
    let saver = Saver::new(Slots::new(TimerStore::default()));
    let (world, bonfire) = game(10);
    let save = saver.save("quick", bonfire.capture(&world, &SaveOptions::new()).unwrap(), Details::new());
    let slots = saver.run_async(async |slots| slots.list().await);
    wasm_bindgen_futures::spawn_local(async move {
        while !saver.is_idle() {
            saver.poll(Duration::from_millis(2));
            next_frame().await;
        }
    });
    assert_eq!(save.await.unwrap().entities, 10);
    assert_eq!(slots.await.unwrap().len(), 1);
}

#[wasm_bindgen_test]
fn what_would_block_is_an_error() {
    let store = LaterStore::new();
    assert!(store.list("").wait().unwrap_err().is_unsupported());
    let saver = Saver::new(Slots::new(store));
    let (world, bonfire) = game(10);
    let save = saver.save("quick", bonfire.capture(&world, &SaveOptions::new()).unwrap(), Details::new());
    assert!(save.wait().unwrap_err().is_misuse());
    assert!(save.wait_timeout(Duration::MAX).is_none());
    assert!(!saver.finish(Duration::MAX));
}

#[wasm_bindgen_test]
fn what_needs_no_waiting_is_done_at_once() {
    let saver = Saver::new(Slots::new(MemoryStore::new()));
    let (world, bonfire) = game(10);
    let save = saver.save("quick", bonfire.capture(&world, &SaveOptions::new()).unwrap(), Details::new());
    assert_eq!(save.wait().unwrap().entities, 10);
    assert!(saver.finish(Duration::ZERO));
}

#[wasm_bindgen_test]
fn saves_of_other_systems_are_read_with_every_compression() {
    let packed = include_bytes!("places_zstd.bonfire");
    let snapshot = Snapshot::open(packed).unwrap();
    assert!(snapshot.sections().iter().any(|section| section.codec == "zstd"));
    let (mut world, mut bonfire) = game(3);
    bonfire.load(&mut world, &snapshot, LoadMode::Replace).unwrap();
    assert_eq!(sum(&world), (0..2_000).sum::<u32>() as f32);
    let options = EncodeOptions { compression: Compression::Zstd(3), ..EncodeOptions::default() };
    assert!(snapshot.encode(&options).unwrap_err().is_unsupported());
}

#[wasm_bindgen_test]
fn chunks_are_saved_in_memory() {
    let layers = || Layers::new().with(Layer::new("material", 1).persistence(Persistence::Always));
    let disk = MemoryDisk::new();
    let open =
        || ChunkOptions::new(layers()).chunk_size(16).open_on(disk.clone(), "world", Access::Write).unwrap();
    let world = open();
    let mut cells = vec![0; 16 * 16];
    cells[17] = 3;
    world.edit().put((4, -2), cells.clone()).commit(Durability::Synced).unwrap();
    world.close().unwrap();
    assert_eq!(open().read(ChunkPos::new(4, -2)).unwrap(), Some(cells));
}

#[wasm_bindgen_test]
fn seals_have_random_bytes() {
    let store = MemoryStore::new();
    let sealed = Slots::new(Sealed::new(store.clone(), SealKey::from_bytes([7; 32])));
    let (world, bonfire) = game(10);
    let snapshot = bonfire.capture(&world, &SaveOptions::new()).unwrap();
    for generation in 1..=2 {
        sealed.save("quick", &snapshot, &Details::new()).wait().unwrap();
        assert_eq!(sealed.load("quick").wait().unwrap().info.generation, generation);
    }
    let [one, other] =
        [1, 2].map(|generation| store.get(&format!("quick.0000000{generation}.bonfire")).wait().unwrap());
    assert_ne!(one, other, "each save has a nonce of its own");
}
