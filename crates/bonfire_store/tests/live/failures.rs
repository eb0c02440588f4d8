//! Errors and panics are those of one request, and what is said to be durable is.

use bonfire::{Error, Result};
use bonfire_store::disk::Disk;
use bonfire_store::engine::{CapturedSave, submit_load, submit_save};
use bonfire_store::{Details, DirStore, MemoryStore, Phase, SaveTarget, Saver, Slots, Store, Wait};
use bonfire_testkit::disk::{
    Breakage, BrokenDisk, Call, CrashDisk, Explorer, Fault, FaultyDisk, Plan, Repeat,
};

use crate::common::{number, sized_world, world};
use crate::gate::{At, gated};

fn on(disk: impl Disk + 'static) -> Saver {
    Saver::new(Slots::new(DirStore::on(disk).expect("a healthy disk")))
}

fn loaded(saver: &Saver, slot: &str) -> u64 {
    number(&saver.load(slot).wait().unwrap().snapshot)
}

#[test]
fn a_handle_is_complete_when_the_bytes_and_the_name_are_durable() {
    for at in [At::Write, At::Sync, At::SyncDir] {
        let (saver, gate) = gated();
        gate.close(at);
        let handle = saver.save("quick", world(1), Details::new());
        gate.reached();
        assert!(!handle.is_complete() && handle.result().is_none(), "{at:?}");
        assert!(handle.wait_timeout(std::time::Duration::from_millis(1)).is_none());
        assert_eq!(handle.progress().phase, Phase::Writing);
        let status = saver.status();
        assert_eq!((status.saves, status.bytes, status.last_durable), (0, 0, None));
        gate.open();
        let report = handle.wait().unwrap();
        let status = saver.status();
        assert_eq!((status.saves, status.bytes), (1, report.bytes), "counted before anybody sees it");
        assert!(saver.is_idle() && status.running.is_none(), "and the thread is free");
    }
}

/// How many of the states that a crash may leave after a complete save have lost it, or have lost another.
fn lost(breakage: Breakage) -> usize {
    let crash = CrashDisk::new();
    let saver = on(BrokenDisk::new(crash.clone(), breakage));
    let mut explorer = Explorer::new(3);
    let mut lost = 0;
    for wanted in 1..=3 {
        saver.save("quick", world(wanted), Details::new()).wait().unwrap();
        let point = crash.crash_points().last().expect("at least the start");
        for state in explorer.states(&point, 50) {
            let slots = Slots::new(DirStore::on(state.disk()).expect("a disk in memory"));
            let found = slots.load("quick").wait().map(|loaded| number(&loaded.snapshot));
            lost += usize::from(!found.is_ok_and(|found| found == wanted));
        }
    }
    lost
}

#[test]
fn a_crash_after_completion_loses_nothing() {
    assert_eq!(lost(Breakage::None), 0);
    for breakage in [Breakage::NoFileSync, Breakage::NoDirSync] {
        assert!(lost(breakage) > 0, "{breakage:?} is not seen: this test would see nothing");
    }
}

#[test]
fn a_save_that_fails_says_so_and_later_ones_work() {
    let mut failed = 0;
    for nth in 1.. {
        let disk = FaultyDisk::new(CrashDisk::new());
        let saver = on(disk.clone());
        saver.save("quick", world(1), Details::new()).wait().unwrap();
        disk.fail(Plan { fault: Fault::Full, nth, of: None, repeat: Repeat::Once });
        let result = saver.save("quick", world(2), Details::new()).wait();
        let made = disk.calls().len();
        disk.heal();
        let status = saver.status();
        match result {
            Ok(_) => assert_eq!((status.saves, status.failures), (2, 0)),
            Err(error) => {
                failed += 1;
                assert_eq!((status.saves, status.failures), (1, 1), "call {nth}: {error}");
                assert_eq!(status.last_error.unwrap().to_string(), error.to_string());
                assert!([1, 2].contains(&loaded(&saver, "quick")), "call {nth}");
            }
        }
        saver.save("quick", world(3), Details::new()).wait().unwrap();
        assert_eq!(loaded(&saver, "quick"), 3, "call {nth}");
        if nth > made {
            break;
        }
    }
    assert!(failed > 5, "{failed}");
}

#[test]
fn a_disk_that_is_full_fails_all_that_wait_each_by_itself() {
    let disk = FaultyDisk::new(CrashDisk::new());
    let saver = on(disk.clone());
    disk.fail(Plan { fault: Fault::Full, nth: 1, of: Some(Call::Write), repeat: Repeat::Forever });
    let handles = ["a", "b", "c"].map(|slot| saver.save(slot, world(1), Details::new()));
    for handle in handles {
        assert!(handle.wait().unwrap_err().is_io());
    }
    disk.heal();
    saver.save("a", world(2), Details::new()).wait().unwrap();
    assert_eq!((saver.status().saves, saver.status().failures), (1, 3));
}

#[test]
fn a_load_that_fails_is_no_failed_save() {
    let (saver, _) = gated();
    assert!(saver.load("none").wait().unwrap_err().is_not_found());
    assert!(saver.load(SaveTarget::blob(MemoryStore::new(), "none")).wait().unwrap_err().is_not_found());
    assert!(saver.load(std::path::Path::new("no/such/file")).wait().unwrap_err().is_not_found());
    assert_eq!((saver.status().failures, saver.status().last_error.map(drop)), (0, None));
}

#[test]
fn panics_are_errors_and_the_thread_goes_on() {
    let (saver, _) = gated();
    let panics = saver.run(|_| -> Result<u32> { panic!("the dragon {}", "woke") });
    assert!(panics.wait().unwrap_err().to_string().contains("the dragon woke"));
    saver.save("quick", world(1), Details::new()).wait().unwrap();
    let options = bonfire::Snapshot::options();
    let load =
        submit_load(&saver, "quick".into(), options, |_, _| -> Result<u32> { panic!("in the migration") });
    assert!(load.wait().unwrap_err().to_string().contains("in the migration"));
    let save = saver.save(SaveTarget::blob(Panicking, "a"), world(1), Details::new());
    assert!(save.wait().unwrap_err().to_string().contains("no change"));
    assert_eq!(saver.status().failures, 1);
    assert_eq!(loaded(&saver, "quick"), 1);
}

#[test]
fn a_world_that_is_too_large_is_refused_when_its_turn_comes() {
    let limits = bonfire::Limits { raw_bytes_max: 1000, ..Default::default() };
    let encode = bonfire::EncodeOptions { limits, ..Default::default() };
    let saver = Saver::new(Slots::new(MemoryStore::new()).encode_options(encode.clone()));
    assert!(saver.save("quick", sized_world(1, 1000), Details::new()).wait().unwrap_err().is_limit());
    let target = SaveTarget::blob(MemoryStore::new(), "a");
    let larger = Some(bonfire::EncodeOptions::default());
    let (snapshot, details) = (sized_world(1, 1000), Details::new());
    let save = CapturedSave { target: target.clone(), snapshot, details, encode: larger };
    submit_save(&saver, save).wait().unwrap();
    assert!(saver.load(target.clone()).wait().unwrap_err().is_limit(), "the limits of the slots");
    let load = submit_load(&saver, target.into(), bonfire::Snapshot::options(), |loaded, _| {
        Ok(number(&loaded.snapshot))
    });
    assert_eq!(load.wait().unwrap(), 1);
}

/// A store with a bug.
struct Panicking;

impl Store for Panicking {
    fn change(
        &self,
        _: bonfire_store::Batch,
    ) -> bonfire_store::backend::StoreFuture<'_, Vec<Option<bonfire_store::Version>>> {
        panic!("no change")
    }
    fn get<'a>(&'a self, _: &'a str) -> bonfire_store::backend::StoreFuture<'a, bytes::Bytes> {
        unsupported()
    }
    fn get_range<'a>(
        &'a self,
        _: &'a str,
        _: std::ops::Range<u64>,
    ) -> bonfire_store::backend::StoreFuture<'a, bytes::Bytes> {
        unsupported()
    }
    fn head<'a>(
        &'a self,
        _: &'a str,
    ) -> bonfire_store::backend::StoreFuture<'a, Option<bonfire_store::BlobHead>> {
        unsupported()
    }
    fn list<'a>(&'a self, _: &'a str) -> bonfire_store::backend::StoreFuture<'a, Vec<String>> {
        unsupported()
    }
}

fn unsupported<'a, T: Send + 'a>() -> bonfire_store::backend::StoreFuture<'a, T> {
    Box::pin(async { Err(Error::unsupported("nothing but a change")) })
}
