//! How far a save or a load is, as seen from the game's thread.

use std::sync::mpsc::channel;

use bonfire_store::disk::MemoryDisk;
use bonfire_store::engine::submit_load;
use bonfire_store::{
    Details, DirStore, MemoryStore, Payload, Phase, Precondition, Progress, Rotating, Store, Wait,
};

use crate::common::{number, sized_world, world};
use crate::gate::{At, gated, held};

#[test]
fn bytes_that_are_written_are_counted_while_they_are() {
    let (saver, gate) = gated();
    // Longer than what is written at once.
    let snapshot = sized_world(1, 2_500_000);
    gate.close_after(At::Write, 1);
    let handle = saver.save("large", snapshot, Details::new());
    gate.reached();
    let Progress { phase, done, total } = handle.progress();
    assert_eq!(phase, Phase::Writing);
    assert!(done > 0 && done < total, "{done} of {total}");
    let middle = handle.progress().fraction();
    gate.close(At::Sync);
    gate.reached();
    let late = handle.progress();
    assert_eq!(late, Progress::new(Phase::Writing, total, total), "written, and not durable");
    assert!(late.fraction() > middle, "{late:?}");
    gate.open();
    assert_eq!(handle.clone().wait().unwrap().bytes, total);
    assert_eq!((handle.progress().phase, handle.progress().fraction()), (Phase::Done, 1.0));
}

#[test]
fn a_save_whose_place_was_taken_is_as_far_as_the_other() {
    let (saver, gate, _) = held();
    let old = saver.save("quick", world(1), Details::new());
    let new = saver.save("quick", world(2), Details::new());
    assert_eq!((old.progress().phase, new.progress().phase), (Phase::Waiting, Phase::Waiting));
    // From the sync of the first save to that of the second.
    gate.close(At::SyncDir);
    gate.reached();
    gate.close(At::Sync);
    gate.reached();
    assert_eq!(old.progress().phase, Phase::Writing);
    assert_eq!(old.progress(), new.progress());
    gate.open();
    old.wait().unwrap();
}

#[test]
fn a_load_is_checked_and_then_as_far_as_the_game_says() {
    let (saver, _) = gated();
    let bytes = saver.save("quick", sized_world(4, 10_000), Details::new()).wait().unwrap().bytes;
    let ((at, here), (on, go)) = (channel(), channel::<()>());
    let handle = submit_load(&saver, "quick".into(), bonfire::Snapshot::options(), move |loaded, watch| {
        let checked = watch.get();
        watch.set(Progress::new(Phase::Migrating, 1, 2));
        at.send(checked).unwrap();
        go.recv().unwrap();
        Ok(number(&loaded.snapshot))
    });
    let Progress { phase, done, total } = here.recv().unwrap();
    assert_eq!((phase, total), (Phase::Checking, bytes));
    assert!(done > bytes / 2 && done <= bytes, "all blocks, of {bytes} bytes: {done}");
    assert_eq!(handle.progress(), Progress::new(Phase::Migrating, 1, 2));
    assert!(!handle.is_complete());
    on.send(()).unwrap();
    assert_eq!(handle.wait().unwrap(), 4);
}

#[test]
fn every_store_counts_what_it_writes() {
    fn written(store: &dyn Store, len: usize) -> u64 {
        let watch = bonfire::Watch::new();
        let payload = Payload::from(vec![7; len]).watched(&watch);
        store.put("blob", payload, Precondition::None).wait().unwrap();
        watch.done()
    }
    let dir = || DirStore::on(MemoryDisk::new()).unwrap();
    for len in [0, 1, 100_000, (1 << 20) + 1, 20 << 20] {
        assert_eq!(written(&MemoryStore::new(), len), len as u64);
        assert_eq!(written(&dir(), len), len as u64);
        assert_eq!(written(&Rotating::new(dir(), 2), len), len as u64);
    }
    #[cfg(feature = "seal")]
    {
        let key = bonfire_store::SealKey::from_bytes([7; 32]);
        let sealed = bonfire_store::Sealed::new(dir(), key);
        assert!(written(&sealed, 100_000) > 100_000, "the seal is written too");
    }
    let watch = bonfire::Watch::new();
    for (store, offset) in [(&dir() as &dyn Store, 0), (&MemoryStore::new(), 0)] {
        let payload = Payload::from(vec![7; 10]).watched(&watch);
        store.append("log", offset, payload).wait().unwrap();
    }
    assert_eq!(watch.done(), 20);
}
