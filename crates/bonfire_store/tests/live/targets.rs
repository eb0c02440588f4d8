//! Slots, paths and blobs.

use std::time::Duration;

use bonfire::EncodeOptions;
use bonfire_store::engine::{CapturedSave, submit_save};
use bonfire_store::{Details, Keep, MemoryStore, SaveTarget, Saver, Slots, Wait, read, write};

use crate::common::{number, world};
use crate::gate::gated;

fn details() -> Details {
    Details::new().label("Before the dragon").play_time(Duration::from_secs(9)).custom("chapter", 7_u32)
}

#[test]
fn a_save_outside_of_the_slots_tells_of_itself_as_one_inside_does() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("world.save");
    let saver = Saver::new(Slots::new(MemoryStore::new()).clock(|| Some(Duration::from_secs(100))));
    let blob = SaveTarget::blob(MemoryStore::new(), "level-7");
    let targets = [
        (SaveTarget::from("quick"), Some(1), "quick.00000001.bonfire"),
        (SaveTarget::from(path.as_path()), None, path.to_str().unwrap()),
        (blob, None, "level-7"),
    ];
    for (target, generation, place) in targets {
        let report = saver.save(target.clone(), world(3), details()).wait().unwrap();
        assert_eq!((report.generation, &report.target, report.entities), (generation, &target, 20));
        let loaded = saver.load(target.clone()).wait().unwrap();
        assert_eq!(number(&loaded.snapshot), 3);
        let info = loaded.info;
        assert_eq!(
            (info.blob.as_str(), info.bytes, info.generation),
            (place, report.bytes, generation.unwrap_or(0))
        );
        assert_eq!(info.slot, if generation.is_some() { "quick" } else { "" });
        assert_eq!(info.label.as_deref(), Some("Before the dragon"), "{target}");
        assert_eq!(
            (info.saved_at, info.play_time),
            (Some(Duration::from_secs(100)), Some(Duration::from_secs(9)))
        );
        assert_eq!((info.entities, info.custom.len()), (Some(20), 1));
        assert!(info.problem.is_none() && loaded.skipped.is_empty());
        // Again, over what is there.
        saver.save(target.clone(), world(4), details()).wait().unwrap();
        assert_eq!(number(&saver.load(target).wait().unwrap().snapshot), 4);
    }
    assert_eq!(number(&read(&path, &bonfire::Limits::default()).unwrap()), 4, "a file like any other");
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn files_of_others_are_loaded_too_and_damage_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("world.save");
    write(&path, &world(1).encode(&EncodeOptions::default()).unwrap()).unwrap();
    let (saver, _) = gated();
    let loaded = saver.load(path.as_path()).wait().unwrap();
    assert_eq!((loaded.info.label, loaded.info.problem.map(drop)), (None, None));
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert!(saver.load(path.as_path()).wait().unwrap_err().is_corrupt());
}

#[test]
fn how_a_world_becomes_bytes_can_be_chosen_for_one_save() {
    let (saver, _) = gated();
    let plain = saver.save("quick", world(1), Details::new()).wait().unwrap().bytes;
    let encode = Some(EncodeOptions { copies: false, ..Default::default() });
    let (target, details) = ("quick".into(), Details::new());
    let save = submit_save(&saver, CapturedSave { target, snapshot: world(1), details, encode });
    assert!(save.wait().unwrap().bytes < plain);
}

#[test]
fn older_saves_of_a_slot_are_pruned_and_reported() {
    let saver = Saver::new(Slots::new(MemoryStore::new()).keep(Keep::newest(2)));
    let pruned: Vec<Vec<u64>> = (1..=4)
        .map(|number| saver.save("quick", world(number), Details::new()).wait().unwrap().pruned)
        .collect();
    assert_eq!(pruned, [vec![], vec![], vec![1], vec![2]]);
}

#[test]
fn a_removal_leaves_what_is_locked() {
    let saver = Saver::new(Slots::new(MemoryStore::new()).keep(Keep::all()));
    assert_eq!(saver.delete_saves("quick").wait().unwrap(), 0);
    for number in 1..=3 {
        saver.save("quick", world(number), Details::new()).wait().unwrap();
    }
    saver.run(|slots| slots.lock("quick", 2).wait()).wait().unwrap();
    assert_eq!(saver.delete_saves("quick").wait().unwrap(), 2);
    assert_eq!(saver.delete_saves("quick").wait().unwrap(), 0);
    assert_eq!(number(&saver.load("quick").wait().unwrap().snapshot), 2);
    assert!(saver.delete_saves("no / slot").wait().is_err());
}

#[test]
fn a_save_removes_the_one_for_after_a_crash() {
    let saver = Saver::new(Slots::new(MemoryStore::new()));
    saver.run(|slots| slots.save_recovery("quick", &world(1), &Details::new()).wait()).wait().unwrap();
    saver.save("quick", world(2), Details::new()).wait().unwrap();
    assert!(saver.slots().recovery("quick").wait().unwrap().is_none());
}

#[test]
fn the_slots_may_be_those_of_one_player() {
    let slots = Slots::new(MemoryStore::new());
    let saver = Saver::new(slots.profile("ann").unwrap());
    saver.save("quick", world(1), Details::new()).wait().unwrap();
    assert!(!slots.exists("quick").wait().unwrap());
    assert!(slots.profile("ann").unwrap().exists("quick").wait().unwrap());
}
