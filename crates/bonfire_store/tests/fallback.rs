//! A damaged save costs the player as little as possible, and is never silent.

mod common;

use bonfire::Snapshot;
use bonfire_store::{Details, Keep, MemoryStore, Payload, Precondition, Rotating, Slots, Store, Wait};
use common::{Random, number, sized_world, world};

fn put(store: &MemoryStore, name: &str, bytes: Vec<u8>) {
    store.put(name, Payload::from(bytes), Precondition::None).wait().unwrap();
}

/// Does to the bytes of a file what disks, memory and people do. Returns what it did.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) -> String {
    let at = random.below(bytes.len());
    let len = 1 + random.below(bytes.len() - at);
    match random.below(7) {
        0 => {
            bytes[at] ^= 1 << random.below(8);
            format!("flipped a bit at {at}")
        }
        1 => {
            bytes[at..at + len].fill(0);
            format!("zeroed {len} bytes at {at}")
        }
        2 => {
            bytes.truncate(at);
            format!("cut at {at}")
        }
        3 => {
            bytes.drain(at..at + len);
            format!("removed {len} bytes at {at}")
        }
        4 => {
            bytes[at..at + len].iter_mut().for_each(|byte| *byte = random.below(256) as u8);
            format!("noise in {len} bytes at {at}")
        }
        5 => {
            let from = random.below(bytes.len() - len + 1);
            bytes.copy_within(from..from + len, at);
            format!("{len} bytes of {from} at {at}")
        }
        _ => {
            bytes.extend(vec![0; len]);
            format!("{len} bytes more")
        }
    }
}

#[test]
fn random_damage_never_loads_something_else() {
    let rounds = 1000 * u64::from(bonfire_testkit::scale().min(20));
    let mut random = Random(2026);
    let (mut fell_back, mut all_lost) = (0, 0);
    for round in 0..rounds {
        let store = MemoryStore::new();
        let slots = Slots::new(store.clone()).keep(Keep::newest(3));
        for number in 1..=3 {
            slots.save("quick", &sized_world(number, 40), &Details::new()).wait().unwrap();
        }
        let mut whole = [true; 3];
        let mut done = Vec::new();
        // Mostly the newest, now and then others too.
        for generation in [3, 2, 1] {
            if generation == 3 || random.below(4) == 0 {
                let name = format!("quick.{generation:08}.bonfire");
                let before = store.get(&name).wait().unwrap();
                let mut bytes = before.to_vec();
                done.push((generation, damage(&mut bytes, &mut random)));
                whole[generation - 1] = bytes == before;
                put(&store, &name, bytes);
            }
        }
        let expected = (1..=3).rev().find(|generation| whole[generation - 1]);
        match (slots.load("quick").wait(), expected) {
            (Ok(loaded), Some(expected)) => {
                assert_eq!(number(&loaded.snapshot), expected as u64, "round {round}: {done:?}");
                assert_eq!(loaded.info.generation, expected as u64);
                let skipped: Vec<_> = loaded.skipped.iter().map(|skipped| skipped.generation).collect();
                let damaged: Vec<_> = (expected as u64 + 1..=3).rev().collect();
                assert_eq!(skipped, damaged, "round {round}: {done:?}");
                fell_back += usize::from(expected < 3);
            }
            (Err(error), None) => {
                assert!(error.is_corrupt(), "round {round}: {done:?}: {error}");
                all_lost += 1;
            }
            (Ok(loaded), None) => panic!("round {round}: {done:?}: loaded {}", loaded.info.generation),
            (Err(error), Some(_)) => panic!("round {round}: {done:?}: {error}"),
        }
    }
    assert!(fell_back > rounds as usize / 2 && all_lost > 0, "{fell_back} fell back, {all_lost} lost all");
}

fn three_saves() -> (Slots, MemoryStore) {
    let store = MemoryStore::new();
    let slots = Slots::new(store.clone()).keep(Keep::all());
    for number in 1..=3 {
        slots.save("quick", &world(number), &Details::new()).wait().unwrap();
    }
    (slots, store)
}

fn flip(store: &MemoryStore, name: &str, at: usize) {
    let mut bytes = store.get(name).wait().unwrap().to_vec();
    let at = at.min(bytes.len() - 1);
    bytes[at] ^= 0x40;
    put(store, name, bytes);
}

#[test]
fn the_report_says_which_and_why() {
    let (slots, store) = three_saves();
    flip(&store, "quick.00000003.bonfire", 300);
    put(&store, "quick.00000002.bonfire", vec![]);
    let loaded = slots.load("quick").wait().unwrap();
    assert_eq!((number(&loaded.snapshot), loaded.info.generation), (1, 1));
    let report: Vec<_> = loaded.skipped.iter().map(ToString::to_string).collect();
    assert!(report[0].starts_with("save 3 of `quick` was passed over: "), "{report:?}");
    assert!(report[1].contains("save 2") && report[1].contains("not a Bonfire file"), "{report:?}");
    put(&store, "quick.00000001.bonfire", vec![1, 2, 3]);
    let error = slots.load("quick").wait().unwrap_err();
    assert!(error.is_corrupt() && error.to_string().contains("all 3 saves"), "{error}");
}

#[test]
fn in_need_the_newest_good_one_may_be_a_locked_one() {
    let (slots, store) = three_saves();
    slots.lock("quick", 2).wait().unwrap();
    assert_eq!(number(&slots.load("quick").wait().unwrap().snapshot), 3);
    flip(&store, "quick.00000003.bonfire", 300);
    let loaded = slots.load("quick").wait().unwrap();
    assert_eq!((number(&loaded.snapshot), loaded.info.locked, loaded.skipped.len()), (2, true, 1));
    flip(&store, "quick.00000002.locked", 300);
    assert_eq!(number(&slots.load("quick").wait().unwrap().snapshot), 1);
}

#[test]
fn a_save_of_a_newer_build_is_not_damage() {
    let (slots, store) = three_saves();
    let name = "quick.00000003.bonfire";
    let mut bytes = store.get(name).wait().unwrap().to_vec();
    bytes[8] = 99;
    let crc = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    put(&store, name, bytes);
    let error = slots.load("quick").wait().unwrap_err();
    assert!(error.is_newer_format(), "the player has progress there that an older save lacks: {error}");
}

#[test]
fn salvage_is_the_callers_choice() {
    let (slots, store) = three_saves();
    let len = store.get("quick.00000003.bonfire").wait().unwrap().len();
    // Somewhere in the columns: the small sections are there twice.
    let spoilt = (0..len).rev().step_by(7).find(|&at| {
        flip(&store, "quick.00000003.bonfire", at);
        let salvage = Snapshot::options().salvage();
        let found = slots.load_generation("quick", 3, &salvage).wait();
        let fits = found.is_ok_and(|loaded| !loaded.snapshot.damage().is_empty());
        if !fits {
            flip(&store, "quick.00000003.bonfire", at);
        }
        fits
    });
    assert!(spoilt.is_some(), "one of these bytes belongs to the columns");
    assert_eq!(slots.load("quick").wait().unwrap().info.generation, 2);
    let salvaged = slots.load_with("quick", &Snapshot::options().salvage()).wait().unwrap();
    assert_eq!(salvaged.info.generation, 3);
    assert!(!salvaged.snapshot.damage().is_empty() && salvaged.skipped.is_empty());
}

#[test]
fn a_damaged_recovery_is_refused_and_stays() {
    let (slots, store) = three_saves();
    slots.save_recovery("quick", &world(4), &Details::new()).wait().unwrap();
    flip(&store, "quick.00000004.recovery", 300);
    assert!(slots.accept_recovery("quick").wait().unwrap_err().is_corrupt());
    assert!(slots.recovery("quick").wait().unwrap().is_some());
    assert_eq!(number(&slots.load("quick").wait().unwrap().snapshot), 3);
}

#[test]
fn copies_are_made_of_whole_saves_only() {
    let (slots, store) = three_saves();
    flip(&store, "quick.00000003.bonfire", 300);
    assert!(slots.restore("quick", 3).wait().unwrap_err().is_corrupt());
    assert!(slots.copy("quick", "other").wait().unwrap_err().is_corrupt());
    assert!(!slots.exists("other").wait().unwrap());
    slots.copy_generation("quick", 2, "other").wait().unwrap();
    assert_eq!(number(&slots.load("other").wait().unwrap().snapshot), 2);
}

#[test]
fn rotating_blobs_fall_back_too() {
    let inside = MemoryStore::new();
    let store = Rotating::new(inside.clone(), 3).only_saves();
    for number in 1..=4 {
        let bytes = world(number).to_bytes().unwrap();
        store.put("world", Payload::from(bytes), Precondition::None).wait().unwrap();
    }
    assert_eq!(store.generations("world").wait().unwrap(), [4, 3, 2]);
    flip(&inside, "world.00000004", 300);
    let found = store.get_intact("world").wait().unwrap();
    assert_eq!((found.generation, found.skipped.len(), found.skipped[0].0), (3, 1, 4));
    assert_eq!(number(&Snapshot::open(&store.get("world").wait().unwrap()).unwrap()), 3);
    flip(&inside, "world.00000003", 300);
    flip(&inside, "world.00000002", 300);
    assert!(store.get("world").wait().unwrap_err().is_corrupt());
    let unchecked = Rotating::new(inside, 3);
    assert_eq!(unchecked.get_intact("world").wait().unwrap().generation, 4, "it believes what it reads");
}
