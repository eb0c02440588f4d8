//! A snapshot that is encoded and opened in slices is the same, and no slice is much longer than it was asked to be.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bonfire::engine::{Slices, SnapshotWriter};
use bonfire::{Compression, EncodeOptions, EntityId, Persist, Registry, Snapshot};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

#[derive(Clone, Copy, Debug, PartialEq, Persist)]
#[persist(key = "test.place")]
struct Place {
    x: f32,
    y: f32,
}

/// About one megabyte in a column, and another one of data.
fn world() -> Snapshot {
    let registry = Registry::new().with::<Place>().unwrap();
    let mut writer = SnapshotWriter::new(&registry);
    let ids: Vec<EntityId> = (0..130_000).map(|id| EntityId::new(id, 1)).collect();
    let rows: Vec<Place> = (0..130_000).map(|row| Place { x: row as f32, y: (row % 7) as f32 }).collect();
    writer.archetype(&ids).unwrap().column(&rows).unwrap();
    writer.data("map", &vec![7_u64; 130_000]).unwrap();
    writer.finish().unwrap()
}

/// Polls a future until it is ready, and counts the polls.
fn polls<T>(future: impl Future<Output = T>) -> (T, usize) {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    let mut polls = 0;
    loop {
        polls += 1;
        if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
            return (result, polls);
        }
    }
}

#[test]
fn slices_change_no_byte() {
    let world = world();
    for compression in [Compression::None, Compression::Lz4] {
        for root_hash in [false, true] {
            let options = EncodeOptions { compression, root_hash, ..EncodeOptions::default() };
            let whole = world.encode(&options).unwrap().to_vec();
            for slice in [1, 64 << 10, 256 << 10] {
                let (sliced, encoding) = polls(world.encode_in_slices(&options, &mut Slices::of(slice)));
                assert!(sliced.unwrap().to_vec() == whole, "{compression:?} {slice}");
                let open = Snapshot::options();
                let (opened, opening) =
                    polls(open.open_in_slices(whole.clone().into(), &mut Slices::of(slice)));
                assert_eq!(opened.unwrap().to_bytes().unwrap(), world.to_bytes().unwrap());
                // A slice ends with a block.
                let least = 2 * 1_000_000 / slice.max(64 << 10) / 2;
                assert!(encoding > least && opening > least, "{encoding} {opening} {least}");
            }
        }
    }
}

#[test]
fn without_slices_a_future_is_ready_at_once() {
    let world = world();
    let (bytes, encoding) = polls(world.encode_in_slices(&EncodeOptions::default(), &mut Slices::whole()));
    let bytes = bytes.unwrap().to_vec();
    let (opened, opening) = polls(Snapshot::options().open_in_slices(bytes.into(), &mut Slices::whole()));
    assert_eq!((encoding, opening), (1, 1));
    assert_eq!(opened.unwrap().entity_count(), 130_000);
}
