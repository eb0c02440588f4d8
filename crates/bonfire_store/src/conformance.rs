//! What every [`Store`] must do, as tests: for the backends of this crate, for decorators on top of them, and for yours.
//!
//! ```
//! # use bonfire_store::{MemoryStore, conformance};
//! conformance::check(|| MemoryStore::new());
//! ```

mod model;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use bonfire::Error;
use bonfire::engine::Rope;
use bytes::Bytes;

use crate::blocking::Wait;
use crate::store::{Batch, Payload, Precondition, Store, Version};

/// What the test shows, and the test.
type Test = (&'static str, fn(&dyn Store));

/// Runs every test, each on a store of its own that `open` makes; it must be empty.
///
/// # Panics
/// If the store does something else than the trait says. The message names the test.
pub fn check<S: Store>(open: impl Fn() -> S) {
    let tests: [Test; 19] = [
        ("a blob is what was put", round_trip),
        ("blobs may be empty, large, or in many pieces", sizes),
        ("a put replaces all of a blob", replace),
        ("preconditions are kept", preconditions),
        ("versions tell states apart", versions),
        ("ranges end where the blob does", ranges),
        ("append extends what is expected, or says that it cannot", append),
        ("what is missing is not found", missing),
        ("lists are sorted and begin with the prefix", list),
        ("removed blobs are gone", remove),
        ("renamed blobs are the same", rename),
        ("copies are the same", copy),
        ("names that mean trouble touch nothing", bad_names),
        ("names differ in more than case", case),
        ("the open head of a payload is part of it", open_head),
        ("a batch makes all of its changes", batch),
        ("a batch that is refused changes nothing", refused_batch),
        ("a batch expects names", expected_names),
        ("random calls do what a model does", model::random_calls),
    ];
    for (name, test) in tests {
        let store = open();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| test(&store))) {
            eprintln!("the store does not keep this rule: {name}");
            resume_unwind(panic);
        }
    }
    #[cfg(not(target_arch = "wasm32"))]
    threads(&open());
}

fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn put(store: &dyn Store, name: &str, bytes: impl Into<Payload>) -> Version {
    store.put(name, bytes.into(), Precondition::None).wait().unwrap()
}

fn get(store: &dyn Store, name: &str) -> Vec<u8> {
    store.get(name).wait().unwrap().to_vec()
}

fn round_trip(store: &dyn Store) {
    put(store, "quick", bytes(1000, 1));
    assert_eq!(get(store, "quick"), bytes(1000, 1));
    let head = store.head("quick").wait().unwrap().expect("it was just put");
    assert_eq!((head.len, head.readable), (1000, 1000));
    assert_eq!(store.list("").wait().unwrap(), ["quick"]);
}

fn sizes(store: &dyn Store) {
    for len in [0, 1, 63, 64, 65, 4095, 65_535, 65_536, 65_537, 131_072, 1_000_003] {
        let contents = bytes(len, len as u64);
        put(store, "blob", contents.clone());
        assert_eq!(get(store, "blob"), contents, "{len} bytes");
        assert_eq!(store.head("blob").wait().unwrap().unwrap().len, len as u64);
    }
    let contents = bytes(700_000, 3);
    let mut rope = Rope::default();
    // Pieces of all sizes, also empty ones.
    let mut rest = Bytes::from(contents.clone());
    for step in 0.. {
        if rest.is_empty() {
            break;
        }
        rope.push(rest.split_to(rest.len().min([0, 1, 100, 70_000, 300_000][step % 5])));
    }
    put(store, "blob", rope);
    assert_eq!(get(store, "blob"), contents);
}

fn replace(store: &dyn Store) {
    put(store, "a", bytes(5000, 1));
    put(store, "b", bytes(100, 2));
    put(store, "a", bytes(10, 3));
    assert_eq!((get(store, "a"), get(store, "b")), (bytes(10, 3), bytes(100, 2)));
}

fn refused<T>(result: Result<T, Error>, kind: fn(&Error) -> bool, what: &str) {
    match result {
        Ok(_) => panic!("{what}: it was allowed"),
        Err(error) => assert!(kind(&error), "{what}: {error}"),
    }
}

fn preconditions(store: &dyn Store) {
    let attempt = |text: &'static [u8], when| store.put("a", Payload::from(text), when).wait();
    refused(
        attempt(b"x", Precondition::Version(Version::new("none"))),
        Error::is_conflict,
        "a version of nothing",
    );
    let first = attempt(b"one", Precondition::Absent).unwrap();
    refused(attempt(b"x", Precondition::Absent), Error::is_conflict, "absent, but there");
    let second = attempt(b"two", Precondition::Version(first.clone())).unwrap();
    refused(attempt(b"x", Precondition::Version(first)), Error::is_conflict, "a version that is over");
    assert_eq!(get(store, "a"), b"two");
    attempt(b"three", Precondition::Version(second)).unwrap();
    store.remove("a").wait().unwrap();
    attempt(b"four", Precondition::Absent).unwrap();
    assert_eq!(get(store, "a"), b"four");
}

fn versions(store: &dyn Store) {
    let mut seen = vec![put(store, "a", bytes(10, 1))];
    for _ in 0..5 {
        let head = store.head("a").wait().unwrap().unwrap();
        assert_eq!(head.version, *seen.last().unwrap(), "head and put agree");
        let next = put(store, "a", bytes(10, 1));
        assert!(!seen.contains(&next), "equal bytes are another state all the same");
        seen.push(next);
    }
}

fn ranges(store: &dyn Store) {
    let contents = bytes(200_000, 9);
    put(store, "a", contents.clone());
    for (start, end) in [
        (0, 0),
        (0, 1),
        (0, 200_000),
        (65_535, 65_537),
        (65_536, 131_072),
        (199_999, 200_000),
        (70_000, 190_000),
    ] {
        let found = store.get_range("a", start as u64..end as u64).wait().unwrap();
        assert!(found == contents[start..end], "{start}..{end}");
    }
    assert_eq!(store.get_range("a", 199_990..u64::MAX).wait().unwrap(), contents[199_990..]);
    assert!(store.get_range("a", 200_000..300_000).wait().unwrap().is_empty());
    assert!(store.get_range("a", u64::MAX - 1..u64::MAX).wait().unwrap().is_empty());
    #[expect(clippy::reversed_empty_ranges, reason = "what a wrong calculation of the caller gives")]
    let backwards = 100..10;
    assert!(store.get_range("a", backwards).wait().unwrap().is_empty());
}

fn append(store: &dyn Store) {
    match store.append("log", 0, Payload::from(b"one".to_vec())).wait() {
        Err(error) => {
            assert!(error.is_unsupported(), "a store that cannot append says so: {error}");
            assert!(store.list("").wait().unwrap().is_empty(), "and leaves nothing");
            return;
        }
        Ok(len) => assert_eq!(len, 3),
    }
    assert_eq!(store.append("log", 3, Payload::from(b", two".to_vec())).wait().unwrap(), 8);
    for wrong in [0, 3, 7, 9, u64::MAX] {
        let result = store.append("log", wrong, Payload::from(b"x".to_vec())).wait();
        refused(result, Error::is_conflict, "append where the blob does not end");
    }
    refused(
        store.append("new", 1, Payload::from(b"x".to_vec())).wait(),
        Error::is_conflict,
        "append to nothing",
    );
    assert_eq!(get(store, "log"), b"one, two");
    assert_eq!(store.append("log", 8, Payload::default()).wait().unwrap(), 8);
    put(store, "log", b"over".to_vec());
    assert_eq!(store.append("log", 4, Payload::from(b"!".to_vec())).wait().unwrap(), 5);
    assert_eq!(get(store, "log"), b"over!");
}

fn missing(store: &dyn Store) {
    refused(store.get("a").wait(), Error::is_not_found, "get");
    refused(store.get_range("a", 0..1).wait(), Error::is_not_found, "get_range");
    refused(store.rename("a", "b").wait(), Error::is_not_found, "rename");
    assert_eq!(store.head("a").wait().unwrap(), None);
    assert!(!store.remove("a").wait().unwrap());
    assert!(store.list("").wait().unwrap().is_empty());
}

fn list(store: &dyn Store) {
    for name in ["b", "a.x", "a", "ab", "Z9", "a.x.y", "_-"] {
        put(store, name, bytes(3, 0));
    }
    assert_eq!(store.list("").wait().unwrap(), ["Z9", "_-", "a", "a.x", "a.x.y", "ab", "b"]);
    assert_eq!(store.list("a").wait().unwrap(), ["a", "a.x", "a.x.y", "ab"]);
    assert_eq!(store.list("a.").wait().unwrap(), ["a.x", "a.x.y"]);
    assert!(store.list("c").wait().unwrap().is_empty());
}

fn remove(store: &dyn Store) {
    put(store, "a", bytes(10, 1));
    put(store, "a", bytes(10, 2));
    put(store, "b", bytes(10, 3));
    assert!(store.remove("a").wait().unwrap());
    assert!(!store.remove("a").wait().unwrap());
    refused(store.get("a").wait(), Error::is_not_found, "get after remove");
    assert_eq!(store.list("").wait().unwrap(), ["b"]);
}

fn copy(store: &dyn Store) {
    put(store, "a", Payload::from(bytes(100_000, 1)).leave_open(500));
    put(store, "b", bytes(10, 2));
    refused(store.copy("a", "b").wait(), Error::is_conflict, "copy over another");
    refused(store.copy("c", "d").wait(), Error::is_not_found, "copy of nothing");
    refused(store.copy("a", "../c").wait(), Error::is_misuse, "copy to a bad name");
    refused(store.copy("../c", "c").wait(), Error::is_misuse, "copy of a bad name");
    refused(store.copy("a", "B").wait(), Error::is_misuse, "copy to other case");
    store.copy("a", "c").wait().unwrap();
    put(store, "a", bytes(5, 3));
    assert_eq!(
        (get(store, "a"), get(store, "b"), get(store, "c")),
        (bytes(5, 3), bytes(10, 2), bytes(100_000, 1))
    );
}

fn rename(store: &dyn Store) {
    put(store, "a", bytes(100_000, 1));
    put(store, "b", bytes(10, 2));
    refused(store.rename("a", "b").wait(), Error::is_conflict, "rename over another");
    store.rename("a", "c").wait().unwrap();
    assert_eq!((get(store, "c"), get(store, "b")), (bytes(100_000, 1), bytes(10, 2)));
    assert_eq!(store.list("").wait().unwrap(), ["b", "c"]);
    // Some systems take both names for the same file.
    refused(store.rename("c", "C").wait(), Error::is_misuse, "rename to other case");
    assert_eq!(get(store, "c"), bytes(100_000, 1));
}

fn bad_names(store: &dyn Store) {
    let long = "a".repeat(65);
    let longer = ["a".repeat(60), "b".repeat(60), "c".repeat(60), "d".repeat(60)].join(".");
    put(store, "good", bytes(10, 1));
    for name in [
        "", ".", "..", "a/b", "a\\b", "/a", "../a", "a..b", ".a", "a.", "a b", "a:b", "ä", "a\0", "a\n",
        "CON", "con", "nul.txt", "a.com1", "LPT9", "aux", "a*", "~a", "a%2f", &long, &longer,
    ] {
        refused(store.put(name, Payload::default(), Precondition::None).wait(), Error::is_misuse, name);
        refused(store.get(name).wait(), Error::is_misuse, name);
        refused(store.get_range(name, 0..1).wait(), Error::is_misuse, name);
        refused(store.head(name).wait(), Error::is_misuse, name);
        refused(store.remove(name).wait(), Error::is_misuse, name);
        refused(store.rename("good", name).wait(), Error::is_misuse, name);
        refused(store.rename(name, "fine").wait(), Error::is_misuse, name);
        let appended = store.append(name, 0, Payload::default()).wait();
        refused(appended, |error| error.is_misuse() || error.is_unsupported(), name);
    }
    assert_eq!(store.list("").wait().unwrap(), ["good"]);
}

fn case(store: &dyn Store) {
    put(store, "Quick", bytes(10, 1));
    refused(
        store.put("quick", Payload::default(), Precondition::None).wait(),
        Error::is_misuse,
        "other case",
    );
    put(store, "slow", bytes(10, 2));
    refused(store.rename("slow", "QUICK").wait(), Error::is_misuse, "rename to other case");
    put(store, "Quick", bytes(10, 3));
    assert_eq!(get(store, "Quick"), bytes(10, 3));
    assert_eq!(store.list("").wait().unwrap(), ["Quick", "slow"]);
}

/// Four blobs for batches.
fn four(store: &dyn Store) {
    for (name, seed) in [("a", 1), ("b", 2), ("c", 3), ("d", 4)] {
        put(store, name, bytes(1000, seed));
    }
}

fn batch(store: &dyn Store) {
    four(store);
    let batch = Batch::new()
        .put("a", Payload::from(bytes(10, 5)))
        .put("new", Payload::from(bytes(20, 6)))
        .copy("b", "copied")
        .rename("c", "renamed")
        .remove("d")
        .remove("none");
    let versions = store.change(batch).wait().unwrap();
    let made: Vec<bool> = versions.iter().map(Option::is_some).collect();
    assert_eq!(made, [true, true, true, true, true, false]);
    assert_eq!(store.list("").wait().unwrap(), ["a", "b", "copied", "new", "renamed"]);
    let contents = ["a", "b", "copied", "new", "renamed"].map(|name| get(store, name));
    assert_eq!(contents, [bytes(10, 5), bytes(1000, 2), bytes(1000, 2), bytes(20, 6), bytes(1000, 3)]);
    for (name, version) in [("a", &versions[0]), ("new", &versions[1])] {
        let head = store.head(name).wait().unwrap().unwrap();
        assert_eq!(Some(head.version), *version, "head and batch agree about {name}");
    }
    assert!(store.change(Batch::new()).wait().unwrap().is_empty());
}

fn refused_batch(store: &dyn Store) {
    four(store);
    let change = || Batch::new().put("a", Payload::from(bytes(10, 5))).remove("d");
    let version = store.head("a").wait().unwrap().unwrap().version;
    put(store, "a", bytes(1000, 1));
    type Refusal = (Batch, fn(&Error) -> bool, &'static str);
    let refusals: [Refusal; 9] = [
        (change().rename("none", "new"), Error::is_not_found, "rename of nothing"),
        (change().copy("none", "new"), Error::is_not_found, "copy of nothing"),
        (change().rename("b", "c"), Error::is_conflict, "rename over another"),
        (change().copy("b", "c"), Error::is_conflict, "copy over another"),
        (change().expect("b", Precondition::Absent), Error::is_conflict, "absent, but there"),
        (change().expect("a", Precondition::Version(version)), Error::is_conflict, "a version that is over"),
        (change().put("B", Payload::default()), Error::is_misuse, "other case"),
        (change().put("../x", Payload::default()), Error::is_misuse, "a bad name"),
        (change().remove("a"), Error::is_misuse, "a name that is changed twice"),
    ];
    for (batch, kind, what) in refusals {
        refused(store.change(batch).wait(), kind, what);
        assert_eq!(store.list("").wait().unwrap(), ["a", "b", "c", "d"], "{what}");
        assert_eq!((get(store, "a"), get(store, "d")), (bytes(1000, 1), bytes(1000, 4)), "{what}");
    }
}

fn expected_names(store: &dyn Store) {
    put(store, "a.1", bytes(10, 1));
    put(store, "b.1", bytes(10, 2));
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let attempt = |prefix: &str, expected: &[&str]| {
        let batch = Batch::new().expect_names(prefix, names(expected));
        store.change(batch.put("c.1", Payload::from(bytes(10, 3)))).wait()
    };
    for (prefix, expected) in
        [("", &["a.1"][..]), ("a.", &[]), ("c.", &["c.1"]), ("", &["a.1", "b.1", "c.1"])]
    {
        refused(attempt(prefix, expected), Error::is_conflict, "other names");
    }
    assert_eq!(store.list("").wait().unwrap(), ["a.1", "b.1"]);
    attempt("a.", &["a.1"]).unwrap();
    attempt("", &["a.1", "b.1", "c.1"]).unwrap();
    attempt("d.", &[]).unwrap();
}

fn open_head(store: &dyn Store) {
    let contents = bytes(150_000, 4);
    for open in [0, 1, 1000, 65_536, 150_000, u64::MAX] {
        put(store, "a", Payload::from(contents.clone()).leave_open(open));
        assert_eq!(get(store, "a"), contents, "{open} open bytes");
        let range = store.get_range("a", 900..66_000).wait().unwrap();
        assert_eq!(range, contents[900..66_000], "{open} open bytes");
    }
}

/// Eight threads put, get, list and remove at the same time: every get is one of the puts, whole.
#[cfg(not(target_arch = "wasm32"))]
fn threads(store: &dyn Store) {
    put(store, "shared", vec![0; 5000]);
    std::thread::scope(|scope| {
        for thread in 1..=8_u8 {
            scope.spawn(move || {
                let own = format!("own{thread}");
                for round in 0..6 {
                    put(store, "shared", vec![thread; 5000 + usize::from(thread)]);
                    let found = get(store, "shared");
                    let writer = found[0];
                    assert!(found.iter().all(|&byte| byte == writer), "a mix of two puts");
                    assert!(found.len() == 5000 + usize::from(writer), "bytes of one put, length of another");
                    put(store, &own, vec![round; 100]);
                    assert_eq!(get(store, &own), vec![round; 100], "nobody else writes this one");
                    assert!(store.list("own").wait().unwrap().contains(&own));
                    assert!(store.remove(&own).wait().unwrap());
                }
            });
        }
    });
    assert_eq!(store.list("").wait().unwrap(), ["shared"]);
}
