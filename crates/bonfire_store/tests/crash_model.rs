//! The explorer of crash states finds what it is there for: a protocol without one of its syncs, with two steps swapped,
//! or none at all, is caught; the whole one is not. And the model of a crash is the documented one.

use std::collections::BTreeSet;

use bonfire_store::disk::{Access, Disk, DiskFile};
use bonfire_store::{DirStore, Store};
use bonfire_testkit::disk::{
    Blobs, Breakage, BrokenDisk, CrashDisk, Explorer, Promise, Random, Step, blobs_of,
};

/// How many of the states that these steps may leave are wrong, and what is wrong with one of them.
fn wrong_states(
    steps: &[Step],
    disk: &CrashDisk,
    run: impl Fn(&Step, &Blobs) -> bonfire::Result<()>,
) -> (usize, String) {
    let mut blobs = Blobs::new();
    let mut done = Vec::new();
    for step in steps {
        run(step, &blobs).expect("the disk says that all is well");
        let after = step.after(&blobs);
        done.push((step, std::mem::replace(&mut blobs, after), disk.operation_count()));
    }
    let mut explorer = Explorer::new(1);
    let (mut wrong, mut why) = (0, String::new());
    for point in disk.crash_points() {
        let promise = match done.iter().find(|(_, _, to)| point.after() < *to) {
            Some((step, before, _)) => Promise { acknowledged: before, in_flight: Some(step) },
            None => Promise { acknowledged: &blobs, in_flight: None },
        };
        for state in explorer.states(&point, 200) {
            let disk = state.disk();
            let store = DirStore::on(disk.clone()).expect("a disk in memory");
            if let Err(error) = blobs_of(&store, &disk).and_then(|found| promise.check(&found)) {
                wrong += 1;
                why = error;
            }
        }
    }
    (wrong, why)
}

/// Wrong states of steps on a [`DirStore`] whose disk is broken in this way.
fn wrong_when(breakage: Breakage, steps: &[Step]) -> (usize, String) {
    let disk = CrashDisk::new();
    let store = DirStore::on(BrokenDisk::new(disk.clone(), breakage)).expect("an empty disk");
    wrong_states(steps, &disk, |step, before| step.run(&store as &dyn Store, before))
}

fn put(name: &str, seed: u64, len: usize) -> Step {
    Step::Put { name: name.into(), bytes: Random::new(seed).bytes(len) }
}

fn put_new() -> Vec<Step> {
    vec![put("slot", 1, 700)]
}

fn put_over() -> Vec<Step> {
    vec![put("slot", 1, 700), put("slot", 2, 1300)]
}

fn rename() -> Vec<Step> {
    vec![put("slot", 1, 700), Step::Rename { from: "slot".into(), to: "kept".into() }]
}

fn remove() -> Vec<Step> {
    vec![put("slot", 1, 700), Step::Remove { name: "slot".into() }]
}

fn append() -> Vec<Step> {
    vec![put("log", 1, 700), Step::Append { name: "log".into(), bytes: vec![7; 600] }]
}

fn append_new() -> Vec<Step> {
    vec![Step::Append { name: "log".into(), bytes: vec![7; 600] }]
}

#[test]
fn the_whole_protocol_has_no_wrong_state() {
    for steps in [put_new(), put_over(), rename(), remove(), append(), append_new()] {
        assert_eq!(wrong_when(Breakage::None, &steps), (0, String::new()), "{steps:?}");
    }
}

#[test]
fn without_the_sync_of_the_file_it_is_caught() {
    for steps in [put_new(), put_over(), append(), append_new()] {
        let (wrong, why) = wrong_when(Breakage::NoFileSync, &steps);
        assert!(wrong > 0 && why.contains("neither old nor new"), "{steps:?}: {wrong} {why}");
    }
}

#[test]
fn without_the_sync_of_the_directory_it_is_caught() {
    for steps in [put_new(), put_over(), rename(), remove(), append_new()] {
        let (wrong, why) = wrong_when(Breakage::NoDirSync, &steps);
        assert!(wrong > 0 && why.contains("neither old nor new"), "{steps:?}: {wrong} {why}");
    }
}

#[test]
fn swapped_steps_are_caught() {
    for breakage in [Breakage::RenameBeforeFileSync, Breakage::DirSyncBeforeRename] {
        for steps in [put_new(), put_over()] {
            let (wrong, why) = wrong_when(breakage, &steps);
            assert!(wrong > 0, "{breakage:?} {steps:?}: {why}");
        }
    }
}

/// What most games do: cut the file, write, and even sync.
#[test]
fn a_save_that_is_written_in_place_is_caught() {
    let naive = |disk: &CrashDisk, step: &Step| {
        let Step::Put { name, bytes } = step else { unreachable!("puts only") };
        let file = match disk.open(name, Access::Write) {
            Ok(file) => file,
            Err(_) => disk.create_new(name).expect("a name that is free"),
        };
        let written = file.set_len(0).and_then(|()| file.write_all_at(bytes, 0));
        written.and_then(|()| file.sync()).and_then(|()| disk.sync_dir()).expect("a disk in memory");
    };
    let disk = CrashDisk::new();
    let (wrong, why) = wrong_states(&put_over(), &disk, |step, _| {
        naive(&disk, step);
        Ok(())
    });
    assert!(wrong > 10 && why.contains("neither old nor new"), "{wrong} {why}");
}

/// A sync that failed and is made again says that all is well, and the bytes are gone.
#[test]
fn a_sync_that_is_tried_again_is_caught() {
    let disk = CrashDisk::new();
    let (wrong, _) = wrong_states(&put_new(), &disk, |step, _| {
        let Step::Put { name, bytes } = step else { unreachable!("puts only") };
        let file = disk.create_new(name).expect("a name that is free");
        file.write_all_at(bytes, 0).expect("a disk in memory");
        disk.fail_syncs(1);
        file.sync().expect_err("the first one fails");
        file.sync().and_then(|()| disk.sync_dir()).expect("the second one does not");
        Ok(())
    });
    assert!(wrong > 0);
}

/// All states after the last operation, as text: names, and the first byte and the length of what they hold.
fn states(disk: &CrashDisk) -> BTreeSet<String> {
    let point = disk.crash_points().last().expect("at least the start");
    let describe = |(name, bytes): (String, Vec<u8>)| match bytes.first() {
        Some(first) => format!("{name}={}x{}", char::from(*first), bytes.len()),
        None => format!("{name}=empty"),
    };
    let of = |state: &bonfire_testkit::disk::CrashState| {
        let mut files: Vec<String> = state.files().map(describe).collect();
        files.sort_unstable();
        files.join(" ")
    };
    Explorer::new(1).states(&point, 10_000).iter().map(of).collect()
}

fn durable(names: &[(&str, &str)]) -> CrashDisk {
    CrashDisk::with_files(names.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.as_bytes().to_vec())))
}

fn set<const N: usize>(texts: [&str; N]) -> BTreeSet<String> {
    texts.into_iter().map(str::to_owned).collect()
}

fn create(disk: &CrashDisk, name: &str, bytes: &[u8]) -> Box<dyn DiskFile> {
    let file = disk.create_new(name).expect("a name that is free");
    file.write_all_at(bytes, 0).expect("a disk in memory");
    file
}

#[test]
fn names_are_old_or_new_until_the_directory_is_synced() {
    let disk = durable(&[("a", "A"), ("b", "B")]);
    disk.rename("a", "b").expect("it is there");
    // Both names may lead to the file that was renamed. That neither does is not possible.
    assert_eq!(states(&disk), set(["a=Ax1 b=Bx1", "a=Ax1 b=Ax1", "b=Ax1"]));
    disk.remove("b").expect("it is there");
    assert_eq!(states(&disk), set(["a=Ax1 b=Bx1", "a=Ax1 b=Ax1", "b=Ax1", "a=Ax1", ""]));
    disk.sync_dir().expect("a disk in memory");
    assert_eq!(states(&disk), set([""]));
}

#[test]
fn a_chain_of_renames_never_loses_the_file() {
    let disk = durable(&[("a", "A")]);
    disk.rename("a", "b").and_then(|()| disk.rename("b", "c")).expect("it is there");
    let states = states(&disk);
    assert_eq!(
        states,
        set(["a=Ax1", "a=Ax1 b=Ax1", "a=Ax1 c=Ax1", "a=Ax1 b=Ax1 c=Ax1", "b=Ax1", "b=Ax1 c=Ax1", "c=Ax1"])
    );
}

#[test]
fn a_synced_file_without_a_synced_name_may_vanish() {
    let disk = CrashDisk::new();
    create(&disk, "a", b"A").sync().expect("a disk in memory");
    assert_eq!(states(&disk), set(["", "a=Ax1"]));
    disk.sync_dir().expect("a disk in memory");
    assert_eq!(states(&disk), set(["a=Ax1"]));
}

#[test]
fn a_name_without_a_synced_file_holds_anything() {
    let disk = CrashDisk::new();
    create(&disk, "a", b"A");
    disk.sync_dir().expect("a disk in memory");
    // Missing, empty, the length without the bytes, what was on the disk before, or the byte.
    let stale = char::from(0xA5);
    assert_eq!(states(&disk), set(["", "a=empty", "a=\0x1", &format!("a={stale}x1"), "a=Ax1"]));
}

#[test]
fn sectors_are_lost_torn_and_reordered() {
    let disk = durable(&[("a", &"o".repeat(1536))]);
    let file = disk.open("a", Access::Write).expect("it is there");
    file.write_all_at(&[b'1'; 1024], 0)
        .and_then(|()| file.write_all_at(&[b'2'; 512], 512))
        .expect("in memory");
    let point = disk.crash_points().last().expect("at least the start");
    let states: Vec<Vec<u8>> = Explorer::new(1)
        .states(&point, 1000)
        .iter()
        .map(|state| state.files().next().expect("one").1)
        .collect();
    let has = |start: &[u8], second: &[u8]| {
        states.iter().any(|bytes| bytes.starts_with(start) && bytes[512..].starts_with(second))
    };
    assert!(states.iter().all(|bytes| bytes.len() == 1536 && bytes[1024..] == [b'o'; 512]));
    assert!(has(b"o", &[b'2'; 512]), "the first write is lost and the second is not");
    assert!(has(&[b'1'; 512], &[b'o'; 512]), "half of the first write");
    assert!(has(b"1", &[b'1'; 512]), "the first without the second");
    let torn = |bytes: &[u8], first, second| bytes[0] == first && bytes[511] == second;
    assert!(
        states.iter().any(|bytes| torn(bytes, b'o', b'1'))
            && states.iter().any(|bytes| torn(bytes, b'1', b'o'))
    );
    file.sync().expect("a disk in memory");
    let after = disk.crash_points().last().expect("at least the start");
    assert_eq!(Explorer::new(1).states(&after, 1000).len(), 1);
}

#[test]
fn lengths_are_old_or_new_until_the_file_is_synced() {
    let disk = durable(&[("a", "old")]);
    let file = disk.open("a", Access::Write).expect("it is there");
    file.set_len(0).and_then(|()| file.write_all_at(b"newer", 0)).expect("a disk in memory");
    let states = states(&disk);
    for expected in ["a=ox3", "a=empty", "a=nx5", "a=nx3", "a=ox5"] {
        assert!(states.contains(expected), "{expected} is not in {states:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_states() {
    let fingerprints = |seed| {
        let disk = CrashDisk::new();
        create(&disk, "a", &Random::new(1).bytes(5000));
        let point = disk.crash_points().last().expect("at least the start");
        let states = Explorer::new(seed).states(&point, 50);
        states.iter().map(|state| state.files().collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    assert_eq!(fingerprints(1), fingerprints(1));
    assert_ne!(fingerprints(1), fingerprints(2));
}
