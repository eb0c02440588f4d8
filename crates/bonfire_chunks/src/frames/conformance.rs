//! What every [`FrameStore`] must do, as tests: for the stores of this crate, and for yours.
//!
//! ```
//! # use bonfire_chunks::frames::{MemoryFrames, conformance};
//! conformance::check(|| {
//!     let frames = MemoryFrames::new();
//!     move || frames.clone()
//! });
//! ```

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use bonfire::Error;

use super::{FrameChange, FrameKey, FrameKind, FrameStore, FrameTag, NewFrame};
use crate::{ChunkPos, ChunkRect, Durability};

/// A rule, and its test. The test is given a function that opens one store, again and again.
type Test<'t> = (&'static str, fn(&dyn Fn() -> Box<dyn FrameStore>));

/// Runs every test on a store of its own. `create` makes an empty store, and returns a function that opens it: once it is closed,
/// or dropped, the test opens it again, and finds what was durable.
///
/// # Panics
/// If the store does something else than the trait says. The message names the rule.
pub fn check<O, S>(create: impl Fn() -> O)
where
    O: Fn() -> S,
    S: FrameStore + 'static,
{
    let tests: [Test<'_>; 12] = [
        ("a frame is what was written, with its tag", round_trip),
        ("frames may be empty or large", sizes),
        ("kinds and positions are apart, also at the ends of the world", keys),
        ("the last frame of a key counts", replace),
        ("what is removed is not there, and may come again", remove),
        ("a change that is refused changes nothing", refused),
        ("lists are in order and within their rectangle", lists),
        ("numbers of saves rise", generations),
        ("an error of the caller is returned as it is", errors_of_the_caller),
        ("what was durable is there after the store was opened again", reopened),
        ("a closed store refuses changes", closed),
        ("random changes do what a map does", random_changes),
    ];
    for (rule, test) in tests {
        let open = create();
        let open = move || -> Box<dyn FrameStore> { Box::new(open()) };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| test(&open))) {
            eprintln!("the store does not keep this rule: {rule}");
            resume_unwind(panic);
        }
    }
    #[cfg(not(target_arch = "wasm32"))]
    threads(&create()());
}

fn key(kind: FrameKind, x: i32, y: i32) -> FrameKey {
    FrameKey::new(kind, ChunkPos::new(x, y))
}

fn frame(key: FrameKey, data: &[u8]) -> NewFrame {
    NewFrame { key, tag: FrameTag { storage: 2, codec: 1, layers: 7 }, data: data.to_vec() }
}

fn put(store: &dyn FrameStore, key: FrameKey, data: &[u8]) -> u64 {
    commit(store, vec![frame(key, data)], Vec::new())
}

fn commit(store: &dyn FrameStore, frames: Vec<NewFrame>, removed: Vec<FrameKey>) -> u64 {
    store.commit(FrameChange { frames, removed }, Durability::Synced).expect("a change").generation
}

fn get(store: &dyn FrameStore, key: FrameKey) -> Option<(FrameTag, Vec<u8>)> {
    let mut found = None;
    let is_there = store.read(key, &mut |tag, data| {
        assert!(found.replace((tag, data.to_vec())).is_none(), "{key:?} is given twice");
        Ok(())
    });
    assert_eq!(is_there.expect("a read"), found.is_some(), "{key:?}");
    assert_eq!(store.tag(key), found.as_ref().map(|(tag, _)| *tag), "{key:?}");
    found
}

fn data(store: &dyn FrameStore, key: FrameKey) -> Option<Vec<u8>> {
    get(store, key).map(|(_, data)| data)
}

/// Bytes that are different for each seed.
fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    (0..len).map(|_| (random.next() >> 24) as u8).collect()
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 16
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

fn round_trip(open: &dyn Fn() -> Box<dyn FrameStore>) {
    let store = open();
    let key = key(FrameKind::Chunk, 3, -4);
    assert_eq!(get(&*store, key), None);
    let tag = FrameTag { storage: 1, codec: 9, layers: 255 };
    commit(&*store, vec![NewFrame { key, tag, data: bytes(1000, 1) }], Vec::new());
    assert_eq!(get(&*store, key), Some((tag, bytes(1000, 1))));
}

fn sizes(open: &dyn Fn() -> Box<dyn FrameStore>) {
    let store = open();
    for (x, len) in [0, 1, 31, 4096, 70_000, 3 << 20].into_iter().enumerate() {
        let key = key(FrameKind::Snapshot, x as i32, 0);
        put(&*store, key, &bytes(len, x as u64));
        assert!(data(&*store, key) == Some(bytes(len, x as u64)), "{len} bytes");
    }
}

fn keys(open: &dyn Fn() -> Box<dyn FrameStore>) {
    let store = open();
    let ends = [i32::MIN, -1, 0, i32::MAX];
    let all = || {
        let positions = ends.iter().flat_map(|x| ends.iter().map(move |y| (*x, *y)));
        FrameKind::CONTENT
            .into_iter()
            .flat_map(move |kind| positions.clone().map(move |(x, y)| key(kind, x, y)))
    };
    commit(
        &*store,
        all().enumerate().map(|(at, key)| frame(key, &bytes(20, at as u64))).collect(),
        Vec::new(),
    );
    for (at, key) in all().enumerate() {
        assert_eq!(data(&*store, key), Some(bytes(20, at as u64)), "{key:?}");
    }
    for kind in FrameKind::CONTENT {
        assert_eq!(store.count(kind), 16, "{kind:?}");
    }
}

fn replace(open: &dyn Fn() -> Box<dyn FrameStore>) {
    let store = open();
    let key = key(FrameKind::Bodies, 0, 0);
    for seed in 0..3 {
        put(&*store, key, &bytes(500 - 100 * seed as usize, seed));
        assert_eq!(data(&*store, key), Some(bytes(500 - 100 * seed as usize, seed)));
    }
    assert_eq!(store.count(FrameKind::Bodies), 1);
}

fn remove(open: &dyn Fn() -> Box<dyn FrameStore>) {
    let store = open();
    let [one, other] = [key(FrameKind::Chunk, 0, 0), key(FrameKind::Chunk, 1, 0)];
    put(&*store, one, b"one");
    commit(&*store, vec![frame(other, b"other")], vec![one, key(FrameKind::Chunk, 9, 9)]);
    assert_eq!((data(&*store, one), data(&*store, other)), (None, Some(b"other".to_vec())));
    assert_eq!(store.count(FrameKind::Chunk), 1);
    put(&*store, one, b"again");
    assert_eq!(data(&*store, one), Some(b"again".to_vec()));
}

fn refused(open: &dyn Fn() -> Box<dyn FrameStore>) {
    let store = open();
    let [one, other] = [key(FrameKind::Chunk, 0, 0), key(FrameKind::Chunk, 1, 0)];
    put(&*store, one, b"one");
    store.close().expect("a close");
    let change = FrameChange { frames: vec![frame(other, b"other")], removed: vec![one] };
    assert!(store.commit(change, Durability::Synced).is_err());
    drop(store);
    let store = open();
    assert_eq!((data(&*store, one), data(&*store, other)), (Some(b"one".to_vec()), None));
}

fn lists(open: &dyn Fn() -> Box<dyn FrameStore>) {
    let store = open();
    let mut positions: Vec<ChunkPos> =
        (0..60).map(|n| ChunkPos::new((n * 7) % 11 - 5, (n * 5) % 13 - 6)).collect();
    for pos in &positions {
        put(&*store, FrameKey::new(FrameKind::Chunk, *pos), b"x");
    }
    positions.sort_unstable();
    positions.dedup();
    for rect in [ChunkRect::ALL, ChunkRect::new((-3, -2), (4, 5)), ChunkRect::new((2, 2), (2, 2))] {
        let found: Vec<ChunkPos> =
            store.list(FrameKind::Chunk, &rect).into_iter().map(|(pos, _)| pos).collect();
        let expected: Vec<ChunkPos> = positions.iter().copied().filter(|pos| rect.contains(*pos)).collect();
        assert_eq!(found, expected, "{rect:?}");
    }
    assert!(store.list(FrameKind::Bodies, &ChunkRect::ALL).is_empty());
}

fn generations(open: &dyn Fn() -> Box<dyn FrameStore>) {
    let mut last = open().stats().generation;
    for session in 0..3 {
        let store = open();
        for at in 0..3 {
            let next = put(&*store, key(FrameKind::Chunk, at, session), b"x");
            assert!(next > last, "{next} comes after {last}");
            last = store.stats().generation;
            assert!(last >= next, "{last} is the last one, and {next} was made");
        }
        store.close().expect("a close");
    }
}

fn errors_of_the_caller(open: &dyn Fn() -> Box<dyn FrameStore>) {
    let store = open();
    let key = key(FrameKind::Chunk, 0, 0);
    put(&*store, key, b"one");
    let error = store.read(key, &mut |_, _| Err(Error::cancelled("enough"))).unwrap_err();
    assert!(error.is_cancelled() && error.to_string().contains("enough"), "{error}");
}

fn reopened(open: &dyn Fn() -> Box<dyn FrameStore>) {
    let key = key(FrameKind::Chunk, 0, 0);
    for session in 0..4 {
        let store = open();
        let before = (session > 0).then(|| bytes(300, session - 1));
        assert_eq!(data(&*store, key), before, "session {session}");
        let change = FrameChange { frames: vec![frame(key, &bytes(300, session))], removed: Vec::new() };
        if session % 2 == 0 {
            store.commit(change, Durability::Synced).expect("a change");
            // Dropped, as a program that ends does it.
        } else {
            store.commit(change, Durability::Buffered).expect("a change");
            store.commit(FrameChange::default(), Durability::Synced).expect("an empty change");
            store.close().expect("a close");
        }
    }
}

fn closed(open: &dyn Fn() -> Box<dyn FrameStore>) {
    let store = open();
    assert!(store.is_writable());
    let key = key(FrameKind::Chunk, 0, 0);
    put(&*store, key, b"one");
    store.close().expect("a close");
    assert!(!store.is_writable());
    let change = FrameChange { frames: vec![frame(key, b"two")], removed: Vec::new() };
    store.commit(change, Durability::Synced).expect_err("it is closed");
    store.close().expect("closing twice is no error");
    assert_eq!(data(&*open(), key), Some(b"one".to_vec()));
}

fn random_changes(open: &dyn Fn() -> Box<dyn FrameStore>) {
    let mut random = Random(11);
    let mut model: BTreeMap<FrameKey, Vec<u8>> = BTreeMap::new();
    let mut store = open();
    for step in 0..300 {
        let mut change = FrameChange::default();
        for _ in 0..1 + random.below(6) {
            let kind = FrameKind::CONTENT[random.below(FrameKind::CONTENT.len() as u64) as usize];
            let key = key(kind, random.below(4) as i32 - 2, random.below(4) as i32 - 2);
            if change.frames.iter().any(|frame| frame.key == key) || change.removed.contains(&key) {
                continue;
            }
            if random.below(3) == 0 {
                model.remove(&key);
                change.removed.push(key);
            } else {
                let data = bytes(random.below(900) as usize, random.next());
                model.insert(key, data.clone());
                change.frames.push(frame(key, &data));
            }
        }
        let durability = if random.below(3) == 0 { Durability::Buffered } else { Durability::Synced };
        store.commit(change, durability).expect("a change");
        if step % 50 == 49 {
            store.close().expect("a close");
            drop(store);
            store = open();
        }
        for kind in FrameKind::CONTENT {
            let found = store.list(kind, &ChunkRect::ALL).into_iter();
            let found: Vec<FrameKey> = found.map(|(pos, _)| FrameKey::new(kind, pos)).collect();
            let expected: Vec<FrameKey> = model.keys().copied().filter(|key| key.kind == kind).collect();
            assert_eq!(found, expected, "step {step}");
        }
        for (key, expected) in &model {
            assert_eq!(data(&*store, *key).as_ref(), Some(expected), "step {step}, {key:?}");
        }
    }
}

/// Several threads read while one writes: a frame is never half of one and half of another.
#[cfg(not(target_arch = "wasm32"))]
fn threads(store: &dyn FrameStore) {
    use std::sync::atomic::{AtomicU64, Ordering};
    let (done, last) = (AtomicU64::new(0), 200);
    let frames =
        |seed: u64| (0..4).map(move |x| frame(key(FrameKind::Chunk, x, 0), &bytes(400, seed))).collect();
    commit(store, frames(0), Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while done.load(Ordering::Acquire) < last {
                    let oldest = done.load(Ordering::Acquire);
                    let found = data(store, key(FrameKind::Chunk, 2, 0)).expect("it is always there");
                    let newest = last;
                    assert!(
                        (oldest..=newest).any(|seed| found == bytes(400, seed)),
                        "a read that began after save {oldest} finds none of the later ones"
                    );
                }
            });
        }
        for seed in 1..=last {
            commit(store, frames(seed), Vec::new());
            done.store(seed, Ordering::Release);
        }
    });
}
