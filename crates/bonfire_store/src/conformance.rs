//! What every [`Store`] must do, as tests: for the backends of this crate, for decorators on top of them, and for yours.
//!
//! ```
//! # use bonfire_store::{MemoryStore, conformance};
//! conformance::check(|| MemoryStore::new());
//! ```

mod model;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;

use bonfire::Error;
use bonfire::engine::Rope;
use bytes::Bytes;

use crate::blocking::Wait;
use crate::store::{Batch, Payload, Precondition, Store, Version};

/// A test that a store is in the middle of.
type Running<'s> = Pin<Box<dyn Future<Output = ()> + 's>>;

/// What the test shows, and the test.
type Test = (&'static str, for<'s> fn(&'s dyn Store) -> Running<'s>);

const TESTS: [Test; 19] = [
    ("a blob is what was put", |store| Box::pin(round_trip(store))),
    ("blobs may be empty, large, or in many pieces", |store| Box::pin(sizes(store))),
    ("a put replaces all of a blob", |store| Box::pin(replace(store))),
    ("preconditions are kept", |store| Box::pin(preconditions(store))),
    ("versions tell states apart", |store| Box::pin(versions(store))),
    ("ranges end where the blob does", |store| Box::pin(ranges(store))),
    ("append extends what is expected, or says that it cannot", |store| Box::pin(append(store))),
    ("what is missing is not found", |store| Box::pin(missing(store))),
    ("lists are sorted and begin with the prefix", |store| Box::pin(list(store))),
    ("removed blobs are gone", |store| Box::pin(remove(store))),
    ("renamed blobs are the same", |store| Box::pin(rename(store))),
    ("copies are the same", |store| Box::pin(copy(store))),
    ("names that mean trouble touch nothing", |store| Box::pin(bad_names(store))),
    ("names differ in more than case", |store| Box::pin(case(store))),
    ("the open head of a payload is part of it", |store| Box::pin(open_head(store))),
    ("a batch makes all of its changes", |store| Box::pin(batch(store))),
    ("a batch that is refused changes nothing", |store| Box::pin(refused_batch(store))),
    ("a batch expects names", |store| Box::pin(expected_names(store))),
    ("random calls do what a model does", |store| Box::pin(model::random_calls(store))),
];

/// Runs every test, each on a store of its own that `open` makes; it must be empty.
///
/// # Panics
/// If the store does something else than the trait says. The message names the test.
pub fn check<S: Store>(open: impl Fn() -> S) {
    let checked = async {
        check_async(async || open()).await;
        Ok(())
    };
    if let Err(error) = checked.wait() {
        panic!("{error}");
    }
    #[cfg(not(target_arch = "wasm32"))]
    threads(&open());
}

/// [`check`] for stores that answer later and cannot be waited for, as those of browsers.
///
/// # Panics
/// If the store does something else than the trait says. The message names the test, except on wasm32.
pub async fn check_async<S: Store>(open: impl AsyncFn() -> S) {
    for (name, test) in TESTS {
        let store = open().await;
        let mut running = test(&store);
        std::future::poll_fn(|context| {
            catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(context))).unwrap_or_else(|panic| {
                eprintln!("the store does not keep this rule: {name}");
                resume_unwind(panic)
            })
        })
        .await;
    }
}

fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

async fn put(store: &dyn Store, name: &str, bytes: impl Into<Payload>) -> Version {
    store.put(name, bytes.into(), Precondition::None).await.unwrap()
}

async fn get(store: &dyn Store, name: &str) -> Vec<u8> {
    store.get(name).await.unwrap().to_vec()
}

async fn round_trip(store: &dyn Store) {
    put(store, "quick", bytes(1000, 1)).await;
    assert_eq!(get(store, "quick").await, bytes(1000, 1));
    let head = store.head("quick").await.unwrap().expect("it was just put");
    assert_eq!((head.len, head.readable), (1000, 1000));
    assert_eq!(store.list("").await.unwrap(), ["quick"]);
}

async fn sizes(store: &dyn Store) {
    for len in [0, 1, 63, 64, 65, 4095, 65_535, 65_536, 65_537, 131_072, 1_000_003] {
        let contents = bytes(len, len as u64);
        put(store, "blob", contents.clone()).await;
        assert_eq!(get(store, "blob").await, contents, "{len} bytes");
        assert_eq!(store.head("blob").await.unwrap().unwrap().len, len as u64);
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
    put(store, "blob", rope).await;
    assert_eq!(get(store, "blob").await, contents);
}

async fn replace(store: &dyn Store) {
    put(store, "a", bytes(5000, 1)).await;
    put(store, "b", bytes(100, 2)).await;
    put(store, "a", bytes(10, 3)).await;
    assert_eq!((get(store, "a").await, get(store, "b").await), (bytes(10, 3), bytes(100, 2)));
}

fn refused<T>(result: Result<T, Error>, kind: fn(&Error) -> bool, what: &str) {
    match result {
        Ok(_) => panic!("{what}: it was allowed"),
        Err(error) => assert!(kind(&error), "{what}: {error}"),
    }
}

async fn preconditions(store: &dyn Store) {
    let attempt = async |text: &'static [u8], when| store.put("a", Payload::from(text), when).await;
    refused(
        attempt(b"x", Precondition::Version(Version::new("none"))).await,
        Error::is_conflict,
        "a version of nothing",
    );
    let first = attempt(b"one", Precondition::Absent).await.unwrap();
    refused(attempt(b"x", Precondition::Absent).await, Error::is_conflict, "absent, but there");
    let second = attempt(b"two", Precondition::Version(first.clone())).await.unwrap();
    refused(attempt(b"x", Precondition::Version(first)).await, Error::is_conflict, "a version that is over");
    assert_eq!(get(store, "a").await, b"two");
    attempt(b"three", Precondition::Version(second)).await.unwrap();
    store.remove("a").await.unwrap();
    attempt(b"four", Precondition::Absent).await.unwrap();
    assert_eq!(get(store, "a").await, b"four");
}

async fn versions(store: &dyn Store) {
    let mut seen = vec![put(store, "a", bytes(10, 1)).await];
    for _ in 0..5 {
        let head = store.head("a").await.unwrap().unwrap();
        assert_eq!(head.version, *seen.last().unwrap(), "head and put agree");
        let next = put(store, "a", bytes(10, 1)).await;
        assert!(!seen.contains(&next), "equal bytes are another state all the same");
        seen.push(next);
    }
}

async fn ranges(store: &dyn Store) {
    let contents = bytes(200_000, 9);
    put(store, "a", contents.clone()).await;
    for (start, end) in [
        (0, 0),
        (0, 1),
        (0, 200_000),
        (65_535, 65_537),
        (65_536, 131_072),
        (199_999, 200_000),
        (70_000, 190_000),
    ] {
        let found = store.get_range("a", start as u64..end as u64).await.unwrap();
        assert!(found == contents[start..end], "{start}..{end}");
    }
    assert_eq!(store.get_range("a", 199_990..u64::MAX).await.unwrap(), contents[199_990..]);
    assert!(store.get_range("a", 200_000..300_000).await.unwrap().is_empty());
    assert!(store.get_range("a", u64::MAX - 1..u64::MAX).await.unwrap().is_empty());
    #[expect(clippy::reversed_empty_ranges, reason = "what a wrong calculation of the caller gives")]
    let backwards = 100..10;
    assert!(store.get_range("a", backwards).await.unwrap().is_empty());
}

async fn append(store: &dyn Store) {
    match store.append("log", 0, Payload::from(b"one".to_vec())).await {
        Err(error) => {
            assert!(error.is_unsupported(), "a store that cannot append says so: {error}");
            assert!(store.list("").await.unwrap().is_empty(), "and leaves nothing");
            return;
        }
        Ok(len) => assert_eq!(len, 3),
    }
    assert_eq!(store.append("log", 3, Payload::from(b", two".to_vec())).await.unwrap(), 8);
    for wrong in [0, 3, 7, 9, u64::MAX] {
        let result = store.append("log", wrong, Payload::from(b"x".to_vec())).await;
        refused(result, Error::is_conflict, "append where the blob does not end");
    }
    refused(
        store.append("new", 1, Payload::from(b"x".to_vec())).await,
        Error::is_conflict,
        "append to nothing",
    );
    assert_eq!(get(store, "log").await, b"one, two");
    assert_eq!(store.append("log", 8, Payload::default()).await.unwrap(), 8);
    put(store, "log", b"over".to_vec()).await;
    assert_eq!(store.append("log", 4, Payload::from(b"!".to_vec())).await.unwrap(), 5);
    assert_eq!(get(store, "log").await, b"over!");
}

async fn missing(store: &dyn Store) {
    refused(store.get("a").await, Error::is_not_found, "get");
    refused(store.get_range("a", 0..1).await, Error::is_not_found, "get_range");
    refused(store.rename("a", "b").await, Error::is_not_found, "rename");
    assert_eq!(store.head("a").await.unwrap(), None);
    assert!(!store.remove("a").await.unwrap());
    assert!(store.list("").await.unwrap().is_empty());
}

async fn list(store: &dyn Store) {
    for name in ["b", "a.x", "a", "ab", "Z9", "a.x.y", "_-"] {
        put(store, name, bytes(3, 0)).await;
    }
    assert_eq!(store.list("").await.unwrap(), ["Z9", "_-", "a", "a.x", "a.x.y", "ab", "b"]);
    assert_eq!(store.list("a").await.unwrap(), ["a", "a.x", "a.x.y", "ab"]);
    assert_eq!(store.list("a.").await.unwrap(), ["a.x", "a.x.y"]);
    assert!(store.list("c").await.unwrap().is_empty());
}

async fn remove(store: &dyn Store) {
    put(store, "a", bytes(10, 1)).await;
    put(store, "a", bytes(10, 2)).await;
    put(store, "b", bytes(10, 3)).await;
    assert!(store.remove("a").await.unwrap());
    assert!(!store.remove("a").await.unwrap());
    refused(store.get("a").await, Error::is_not_found, "get after remove");
    assert_eq!(store.list("").await.unwrap(), ["b"]);
}

async fn copy(store: &dyn Store) {
    put(store, "a", Payload::from(bytes(100_000, 1)).leave_open(500)).await;
    put(store, "b", bytes(10, 2)).await;
    refused(store.copy("a", "b").await, Error::is_conflict, "copy over another");
    refused(store.copy("c", "d").await, Error::is_not_found, "copy of nothing");
    refused(store.copy("a", "../c").await, Error::is_misuse, "copy to a bad name");
    refused(store.copy("../c", "c").await, Error::is_misuse, "copy of a bad name");
    refused(store.copy("a", "B").await, Error::is_misuse, "copy to other case");
    store.copy("a", "c").await.unwrap();
    put(store, "a", bytes(5, 3)).await;
    assert_eq!(
        (get(store, "a").await, get(store, "b").await, get(store, "c").await),
        (bytes(5, 3), bytes(10, 2), bytes(100_000, 1))
    );
}

async fn rename(store: &dyn Store) {
    put(store, "a", bytes(100_000, 1)).await;
    put(store, "b", bytes(10, 2)).await;
    refused(store.rename("a", "b").await, Error::is_conflict, "rename over another");
    store.rename("a", "c").await.unwrap();
    assert_eq!((get(store, "c").await, get(store, "b").await), (bytes(100_000, 1), bytes(10, 2)));
    assert_eq!(store.list("").await.unwrap(), ["b", "c"]);
    // Some systems take both names for the same file.
    refused(store.rename("c", "C").await, Error::is_misuse, "rename to other case");
    assert_eq!(get(store, "c").await, bytes(100_000, 1));
}

async fn bad_names(store: &dyn Store) {
    let long = "a".repeat(65);
    let longer = ["a".repeat(60), "b".repeat(60), "c".repeat(60), "d".repeat(60)].join(".");
    put(store, "good", bytes(10, 1)).await;
    for name in [
        "", ".", "..", "a/b", "a\\b", "/a", "../a", "a..b", ".a", "a.", "a b", "a:b", "ä", "a\0", "a\n",
        "CON", "con", "nul.txt", "a.com1", "LPT9", "aux", "a*", "~a", "a%2f", &long, &longer,
    ] {
        refused(store.put(name, Payload::default(), Precondition::None).await, Error::is_misuse, name);
        refused(store.get(name).await, Error::is_misuse, name);
        refused(store.get_range(name, 0..1).await, Error::is_misuse, name);
        refused(store.head(name).await, Error::is_misuse, name);
        refused(store.remove(name).await, Error::is_misuse, name);
        refused(store.rename("good", name).await, Error::is_misuse, name);
        refused(store.rename(name, "fine").await, Error::is_misuse, name);
        let appended = store.append(name, 0, Payload::default()).await;
        refused(appended, |error| error.is_misuse() || error.is_unsupported(), name);
    }
    assert_eq!(store.list("").await.unwrap(), ["good"]);
}

async fn case(store: &dyn Store) {
    put(store, "Quick", bytes(10, 1)).await;
    refused(store.put("quick", Payload::default(), Precondition::None).await, Error::is_misuse, "other case");
    put(store, "slow", bytes(10, 2)).await;
    refused(store.rename("slow", "QUICK").await, Error::is_misuse, "rename to other case");
    put(store, "Quick", bytes(10, 3)).await;
    assert_eq!(get(store, "Quick").await, bytes(10, 3));
    assert_eq!(store.list("").await.unwrap(), ["Quick", "slow"]);
}

/// Four blobs for batches.
async fn four(store: &dyn Store) {
    for (name, seed) in [("a", 1), ("b", 2), ("c", 3), ("d", 4)] {
        put(store, name, bytes(1000, seed)).await;
    }
}

async fn batch(store: &dyn Store) {
    four(store).await;
    let batch = Batch::new()
        .put("a", Payload::from(bytes(10, 5)))
        .put("new", Payload::from(bytes(20, 6)))
        .copy("b", "copied")
        .rename("c", "renamed")
        .remove("d")
        .remove("none");
    let versions = store.change(batch).await.unwrap();
    let made: Vec<bool> = versions.iter().map(Option::is_some).collect();
    assert_eq!(made, [true, true, true, true, true, false]);
    assert_eq!(store.list("").await.unwrap(), ["a", "b", "copied", "new", "renamed"]);
    let contents = [bytes(10, 5), bytes(1000, 2), bytes(1000, 2), bytes(20, 6), bytes(1000, 3)];
    for (name, expected) in ["a", "b", "copied", "new", "renamed"].into_iter().zip(contents) {
        assert_eq!(get(store, name).await, expected, "{name}");
    }
    for (name, version) in [("a", &versions[0]), ("new", &versions[1])] {
        let head = store.head(name).await.unwrap().unwrap();
        assert_eq!(Some(head.version), *version, "head and batch agree about {name}");
    }
    assert!(store.change(Batch::new()).await.unwrap().is_empty());
}

async fn refused_batch(store: &dyn Store) {
    four(store).await;
    let change = || Batch::new().put("a", Payload::from(bytes(10, 5))).remove("d");
    let version = store.head("a").await.unwrap().unwrap().version;
    put(store, "a", bytes(1000, 1)).await;
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
        refused(store.change(batch).await, kind, what);
        assert_eq!(store.list("").await.unwrap(), ["a", "b", "c", "d"], "{what}");
        assert_eq!(
            (get(store, "a").await, get(store, "d").await),
            (bytes(1000, 1), bytes(1000, 4)),
            "{what}"
        );
    }
}

async fn expected_names(store: &dyn Store) {
    put(store, "a.1", bytes(10, 1)).await;
    put(store, "b.1", bytes(10, 2)).await;
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let attempt = async |prefix: &str, expected: &[&str]| {
        let batch = Batch::new().expect_names(prefix, names(expected));
        store.change(batch.put("c.1", Payload::from(bytes(10, 3)))).await
    };
    for (prefix, expected) in
        [("", &["a.1"][..]), ("a.", &[]), ("c.", &["c.1"]), ("", &["a.1", "b.1", "c.1"])]
    {
        refused(attempt(prefix, expected).await, Error::is_conflict, "other names");
    }
    assert_eq!(store.list("").await.unwrap(), ["a.1", "b.1"]);
    attempt("a.", &["a.1"]).await.unwrap();
    attempt("", &["a.1", "b.1", "c.1"]).await.unwrap();
    attempt("d.", &[]).await.unwrap();
}

async fn open_head(store: &dyn Store) {
    let contents = bytes(150_000, 4);
    for open in [0, 1, 1000, 65_536, 150_000, u64::MAX] {
        put(store, "a", Payload::from(contents.clone()).leave_open(open)).await;
        assert_eq!(get(store, "a").await, contents, "{open} open bytes");
        let range = store.get_range("a", 900..66_000).await.unwrap();
        assert_eq!(range, contents[900..66_000], "{open} open bytes");
    }
}

/// Eight threads put, get, list and remove at the same time: every get is one of the puts, whole.
#[cfg(not(target_arch = "wasm32"))]
fn threads(store: &dyn Store) {
    let put = |name: &str, bytes: Vec<u8>| {
        store.put(name, bytes.into(), Precondition::None).wait().unwrap();
    };
    let get = |name: &str| store.get(name).wait().unwrap();
    put("shared", vec![0; 5000]);
    std::thread::scope(|scope| {
        for thread in 1..=8_u8 {
            scope.spawn(move || {
                let own = format!("own{thread}");
                for round in 0..6 {
                    put("shared", vec![thread; 5000 + usize::from(thread)]);
                    let found = get("shared");
                    let writer = found[0];
                    assert!(found.iter().all(|&byte| byte == writer), "a mix of two puts");
                    assert!(found.len() == 5000 + usize::from(writer), "bytes of one put, length of another");
                    put(&own, vec![round; 100]);
                    assert_eq!(get(&own), vec![round; 100], "nobody else writes this one");
                    assert!(store.list("own").wait().unwrap().contains(&own));
                    assert!(store.remove(&own).wait().unwrap());
                }
            });
        }
    });
    assert_eq!(store.list("").wait().unwrap(), ["shared"]);
}
