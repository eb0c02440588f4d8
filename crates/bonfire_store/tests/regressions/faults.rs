//! Five ways in which real faults lost or split saves (V1 to V5), and the answers that callers get.

use bonfire::Error;
use bonfire_store::disk::{Disk, OsDisk};
use bonfire_store::{Details, DirStore, JournalBase, Keep, SealKey, Sealed, Slots, Store, Wait};
use bonfire_testkit::disk::{Call, CrashDisk, Explorer, Fault, FaultyDisk, Plan, Repeat};

use super::common::{delta, number, world};

fn save(slots: &Slots, slot: &str, number: u64) -> u64 {
    slots.save(slot, &world(number), &Details::new()).wait().unwrap().generation
}

fn loads(slots: &Slots, slot: &str) -> u64 {
    number(&slots.load(slot).wait().unwrap().snapshot)
}

fn faulty() -> (FaultyDisk<CrashDisk>, Slots) {
    let disk = FaultyDisk::new(CrashDisk::new());
    let slots = Slots::new(DirStore::on(disk.clone()).unwrap()).keep(Keep::newest(2));
    (disk, slots)
}

fn fail(disk: &FaultyDisk<CrashDisk>, call: Call, nth: usize, repeat: Repeat) {
    disk.fail(Plan { fault: Fault::Io, nth, of: Some(call), repeat });
}

#[test]
fn v1_a_journal_that_cannot_be_read_fails_the_load_and_the_merge() {
    for call in [Call::Open, Call::Read, Call::Len] {
        for nth in 1..40 {
            let (disk, slots) = faulty();
            let base = JournalBase::new("auto", save(&slots, "auto", 1), 1);
            slots.append(&base, &delta(1, 2)).wait().unwrap();
            for repeat in [Repeat::Once, Repeat::Forever] {
                fail(&disk, call, nth, repeat);
                let loaded = slots.load("auto").wait();
                disk.heal();
                match loaded {
                    Ok(loaded) => assert_eq!(number(&loaded.snapshot), 2, "{call:?} {nth} {repeat:?}"),
                    Err(error) => assert!(error.is_io() && !error.is_corrupt(), "{error:?}"),
                }
            }
            fail(&disk, call, nth, Repeat::Once);
            let merged = slots.merge_journal("auto").wait();
            disk.heal();
            if let Err(error) = merged {
                assert!(error.is_io(), "{call:?} {nth}: {error:?}");
                assert_eq!(slots.count("auto").wait().unwrap(), 1, "{call:?} {nth}: nothing has changed");
            }
            assert_eq!(loads(&slots, "auto"), 2, "{call:?} {nth}");
        }
    }
}

#[test]
fn v2_a_rename_that_fails_can_be_repeated_and_splits_nothing() {
    for call in [Call::SyncDir, Call::Sync, Call::Rename, Call::List, Call::Lock, Call::Create, Call::Remove]
    {
        for nth in 1..8 {
            let (disk, slots) = faulty();
            for number in [1, 2] {
                let base = JournalBase::new("auto", save(&slots, "auto", number * 10), number * 10);
                slots.append(&base, &delta(number * 10, number * 10 + 1)).wait().unwrap();
            }
            fail(&disk, call, nth, Repeat::Once);
            let renamed = slots.rename("auto", "old").wait();
            disk.heal();
            let counts = || ["auto", "old"].map(|slot| slots.count(slot).wait().unwrap());
            let what = format!("{call:?} {nth}: {renamed:?}, {:?}", counts());
            assert!([[2, 0], [0, 2]].contains(&counts()), "{what}");
            match slots.rename("auto", "old").wait() {
                Ok(()) => assert!(renamed.is_err(), "{what}"),
                Err(error) => assert!(error.is_not_found(), "{what}: {error}"),
            }
            assert_eq!(counts(), [0, 2], "{what}");
            assert_eq!(loads(&slots, "old"), 21, "{what}");
        }
    }
}

#[test]
fn v3_and_v4_a_stopped_rename_of_bound_slots_is_finished_and_never_merges() {
    let key = || SealKey::from_bytes([7; 32]);
    let open = |disk: CrashDisk| {
        Slots::new(Sealed::new(DirStore::on(disk).unwrap(), key()).bind_name()).keep(Keep::newest(3))
    };
    let disk = CrashDisk::new();
    let slots = open(disk.clone());
    for number in [1, 2] {
        save(&slots, "auto", number);
    }
    let from = disk.operation_count();
    slots.rename("auto", "old").wait().unwrap();
    let mut explorer = Explorer::new(3);
    for point in disk.crash_points().skip(from) {
        for state in explorer.states(&point, 40) {
            let slots = open(state.crash_disk());
            let count = |slot: &str| slots.count(slot).wait().unwrap();
            let is_done = count("auto") == 0;
            assert_eq!((count("auto"), count("old")), if is_done { (0, 2) } else { (2, 0) });
            // The player saves under the new name. A rename must not put other saves below that one.
            save(&slots, "old", 50);
            let error = slots.rename("auto", "old").wait().unwrap_err();
            assert!(if is_done { error.is_not_found() } else { error.is_conflict() }, "{error}");
            assert_eq!(loads(&slots, "old"), 50);
            assert_eq!((count("auto"), count("old")), if is_done { (0, 3) } else { (2, 1) });
            if !is_done {
                slots.rename("auto", "other").wait().unwrap();
                assert_eq!((loads(&slots, "other"), count("auto")), (2, 0));
            }
        }
    }
}

#[test]
fn v5_no_number_comes_again_and_no_save_gets_a_foreign_journal() {
    let disk = CrashDisk::new();
    let open = || Slots::new(DirStore::on(disk.clone()).unwrap()).keep(Keep::newest(1));
    let (one, other) = (open(), open());
    let first = save(&one, "auto", 1);
    let base = JournalBase::new("auto", first, 1);
    one.append(&base, &delta(1, 2)).wait().unwrap();
    let second = save(&other, "auto", 10);
    assert!(one.append(&base, &delta(2, 3)).wait().unwrap_err().is_conflict());
    other.delete_slot("auto").wait().unwrap();
    let third = save(&one, "auto", 20);
    assert!(first < second && second < third, "{first} {second} {third}");
    let stale = JournalBase::new("auto", second, 10);
    assert!(other.append(&stale, &delta(10, 11)).wait().unwrap_err().is_conflict());
    let loaded = one.load("auto").wait().unwrap();
    assert_eq!((number(&loaded.snapshot), loaded.journal.is_none()), (20, true));
}

#[test]
fn continue_goes_by_the_order_of_saves_and_appends_and_not_by_the_clock() {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    static SECONDS: AtomicU64 = AtomicU64::new(1_000_000);
    let slots = Slots::new(DirStore::on(CrashDisk::new()).unwrap());
    // Every look at the clock finds it an hour earlier.
    let slots = slots.clock(|| Some(Duration::from_secs(SECONDS.fetch_sub(3600, Ordering::Relaxed))));
    let newest = || slots.newest().wait().unwrap().unwrap().name;
    let base = JournalBase::new("auto", save(&slots, "auto", 1), 1);
    save(&slots, "quick", 5);
    assert_eq!(newest(), "quick");
    slots.append(&base, &delta(1, 2)).wait().unwrap();
    assert_eq!(newest(), "auto");
    let other = JournalBase::new("quick", slots.saves("quick").wait().unwrap()[0].generation, 5);
    slots.append(&other, &delta(5, 6)).wait().unwrap();
    assert_eq!(newest(), "quick");
    slots.append(&base, &delta(2, 3)).wait().unwrap();
    assert_eq!(newest(), "auto");
    slots.rename("quick", "renamed").wait().unwrap();
    assert_eq!(newest(), "auto");
    slots.delete_slot("auto").wait().unwrap();
    assert_eq!(newest(), "renamed");
}

#[test]
fn an_unreadable_save_is_no_damaged_one_and_no_older_one_takes_its_place() {
    let (disk, slots) = faulty();
    save(&slots, "quick", 1);
    save(&slots, "quick", 2);
    fail(&disk, Call::Read, 1, Repeat::Forever);
    let error = slots.load("quick").wait().unwrap_err();
    assert!(error.is_io() && !error.is_corrupt() && !error.is_not_found(), "{error:?}");
    disk.heal();
    assert_eq!(loads(&slots, "quick"), 2);
}

#[cfg(unix)]
#[test]
fn answers_about_directories_name_them_and_say_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("saves");
    let slots = Slots::new(DirStore::open(&path).unwrap());
    save(&slots, "quick", 1);
    std::fs::rename(&path, home.path().join("away")).unwrap();
    let errors: [Error; 2] = [
        slots.load("quick").wait().unwrap_err(),
        slots.save("quick", &world(2), &Details::new()).wait().unwrap_err(),
    ];
    for error in errors {
        assert!(error.is_io() && !error.is_not_found(), "a directory that is gone is no new game: {error:?}");
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn saves_are_private_and_the_mode_of_a_file_is_kept() {
    use std::os::unix::fs::PermissionsExt;

    let home = tempfile::tempdir().unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let path = home.path().join("new/saves");
    let store = DirStore::open(&path).unwrap();
    let put = || store.put("a", vec![1].into(), bonfire_store::Precondition::None).wait().unwrap();
    put();
    assert_eq!((mode(&home.path().join("new")), mode(&path)), (0o700, 0o700));
    assert_eq!((mode(&path.join("a")), mode(&path.join(".bonfire-lock"))), (0o600, 0o600));
    std::fs::set_permissions(path.join("a"), PermissionsExt::from_mode(0o644)).unwrap();
    put();
    assert_eq!(mode(&path.join("a")), 0o644);
    store.rename("a", "b").wait().unwrap();
    assert_eq!(mode(&path.join("b")), 0o644);

    let save = path.join("world.bonfire");
    let rope = world(1).encode(&Default::default()).unwrap();
    bonfire_store::write(&save, &rope).unwrap();
    assert_eq!(mode(&save), 0o600);
    std::fs::set_permissions(&save, PermissionsExt::from_mode(0o664)).unwrap();
    bonfire_store::write(&save, &rope).unwrap();
    assert_eq!(mode(&save), 0o664);
}

/// A killed program leaves a temporary file that is not locked. One that is being written stays.
#[cfg(unix)]
#[test]
fn temporary_files_of_killed_programs_are_removed_by_the_next_save_or_load_of_a_path() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("world.bonfire");
    let rope = world(1).encode(&Default::default()).unwrap();
    let crc = crc32c::crc32c(b"world.bonfire");
    let part = |number: u32| home.path().join(format!(".{crc:08x}-{number}.bonfire-part"));
    let left = || OsDisk::at(home.path()).list().unwrap().len();
    std::fs::write(part(0), "half").unwrap();
    std::fs::write(part(2), "half").unwrap();
    bonfire_store::write(&path, &rope).unwrap();
    assert_eq!(left(), 1);
    std::fs::write(part(1), "half").unwrap();
    bonfire_store::read(&path, &Default::default()).unwrap();
    assert_eq!(left(), 1);
    // Another program is writing.
    std::fs::write(part(0), "half").unwrap();
    let held = std::fs::File::open(part(0)).unwrap();
    held.lock().unwrap();
    bonfire_store::write(&path, &rope).unwrap();
    assert_eq!(left(), 2, "a file that is being written stays");
}
