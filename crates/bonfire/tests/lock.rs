//! The schema lock: what a new build may not do to old saves.

use bonfire::{Keyed, Persist, Registry, SchemaLock, Snapshot, Upgrader, encode_one};

fn lock_of<T: Keyed>() -> SchemaLock {
    let mut lock = SchemaLock::default();
    lock.add(&Registry::new().with::<T>().unwrap()).unwrap();
    // Through its text, as every lock.
    SchemaLock::parse(&lock.to_string()).unwrap()
}

fn problems<T: Keyed>(lock: &SchemaLock) -> Vec<String> {
    let problems = lock.problems(&Registry::new().with::<T>().unwrap());
    problems.iter().filter(|problem| !problem.is_missing()).map(ToString::to_string).collect()
}

#[derive(Persist)]
#[persist(key = "game.health")]
struct Health {
    current: f32,
    #[persist(default = 100.0)]
    max: f32,
}

#[test]
fn a_lock_is_text_that_people_and_tools_read() {
    #[derive(Persist)]
    #[persist(key = "game.unit", alias = "game.\"u\"", version = 3)]
    struct Unit {
        #[persist(alias = "hp")]
        health: Health,
        state: State,
        pair: (u8, Twin),
        other: Twin2,
    }
    #[derive(Persist)]
    enum State {
        #[persist(alias = "Old", alias = "Older")]
        New,
        Held {
            by: String,
        },
    }
    #[derive(Default, Persist)]
    #[persist(removed = "gone")]
    struct Twin {
        #[persist(default = 1)]
        n: u8,
    }
    #[derive(Default, Persist)]
    struct Twin2 {
        #[persist(default = 2)]
        n: u8,
    }
    let lock = lock_of::<Unit>();
    let text = lock.to_string();
    assert_eq!(SchemaLock::parse(&text).unwrap().to_string(), text);
    assert!(
        text.contains(
            "\n[game.unit]\nalias \"game.\\\"u\\\"\"\nversion 3: {health: {current: f32, max: f32}, "
        ),
        "{text}"
    );
    assert!(text.contains(" 0000c842 # max\n") && text.contains("alias 0.0 hp # health\n"), "{text}");
    assert!(text.contains(" 01 # n\n") && text.contains(" 02 # n\n"), "{text}");
    lock.check(&Registry::new().with::<Unit>().unwrap()).unwrap();
    for bad in [
        "x",
        "[a]\nversion 1: u8",
        "[a]\nversion 1: u8\n  nodes zz",
        "[a]\n[a]",
        "version 1: u8",
        "[a]\n  nodes 0102",
    ] {
        assert!(SchemaLock::parse(bad).unwrap_err().is_corrupt(), "{bad}");
    }
}

#[test]
fn what_old_saves_can_follow_passes_and_what_is_new_must_be_added() {
    #[derive(Persist)]
    #[persist(key = "game.health")]
    struct Wider {
        #[persist(default = 100.0)]
        max: f64,
        current: f32,
        #[persist(default = 1)]
        regeneration: u8,
    }
    let mut lock = lock_of::<Health>();
    let registry = Registry::new().with::<Wider>().unwrap();
    let error = lock.check(&registry).unwrap_err();
    assert_eq!(
        error.to_string(),
        "one problem with the schemas:\n`game.health`: its schema is not locked yet\n    add it: `lock.add(&registry)`, or \
         run the test with BONFIRE_LOCK=write"
    );
    lock.add(&registry).unwrap();
    lock.check(&registry).unwrap();
    // Both releases are known from now on.
    assert_eq!(lock.to_string().matches("\nversion 1: ").count(), 2);
}

#[test]
fn what_old_saves_cannot_follow_fails_with_the_line_to_add() {
    #[derive(Persist)]
    #[persist(key = "game.health")]
    struct Narrow {
        current: u8,
        max: f32,
    }
    // Before `max` came, there was a release without it.
    #[derive(Persist)]
    #[persist(key = "game.health")]
    struct Early {
        current: f32,
    }
    let mut lock = lock_of::<Early>();
    lock.add(&Registry::new().with::<Health>().unwrap()).unwrap();
    let found = problems::<Narrow>(&lock);
    assert_eq!(found.len(), 3, "{found:#?}");
    let refused = "saves of version 1 ({current: f32, max: f32}) can no longer be read";
    assert!(found[1].contains(refused), "{}", found[1]);
    assert!(found[2].contains("the default of `max` was 100 and is 0: old saves would mean"), "{}", found[2]);

    let lock = lock_of::<Health>();
    #[derive(Persist)]
    #[persist(key = "game.health")]
    struct Renamed {
        #[persist(default = 0.0)]
        now: f32,
        #[persist(default = 100.0)]
        max: f32,
    }
    let found = problems::<Renamed>(&lock);
    assert_eq!(
        found,
        [
            "`game.health`: saves of version 1 have `current`, which every save would carry along for ever\n    if it was renamed, \
          say so: `alias = \"current\"`; if it is gone, on its type: `#[persist(removed = \"current\")]`"
        ]
    );

    #[derive(Persist)]
    #[persist(key = "game.mood")]
    enum Mood {
        Calm,
        Angry,
    }
    #[derive(Persist)]
    #[persist(key = "game.mood")]
    enum Calmer {
        Calm,
    }
    let _ = (Mood::Calm, Mood::Angry, Calmer::Calm);
    let found = problems::<Calmer>(&lock_of::<Mood>());
    assert!(found[0].contains("may have a `Angry`, which would be refused"), "{}", found[0]);

    #[derive(Persist)]
    #[persist(key = "game.health", version = 2)]
    struct Raised(u8);
    let found = problems::<Raised>(&lock);
    assert!(found[0].contains("version 1 needs a migration to version 2"), "{}", found[0]);
    let mut registry = Registry::new().with::<Raised>().unwrap();
    registry.upgrade("game.health", Upgrader::values(1, 2, Ok)).unwrap();
    assert!(lock.problems(&registry).iter().all(bonfire::LockProblem::is_missing));
}

#[test]
fn removed_keys_and_names_are_remembered() {
    #[derive(Persist)]
    #[persist(key = "game.other")]
    struct Other;
    let lock = lock_of::<Health>();
    let found = problems::<Other>(&lock);
    assert_eq!(
        found,
        [
            "`game.health`: it is no longer registered: old saves carry it along, unless a world migration takes it\n    if that is meant, write \
          below `[game.health]`: removed"
        ]
    );
    let removed = lock.to_string().replace("[game.health]\n", "[game.health]\nremoved\n");
    let lock = SchemaLock::parse(&removed).unwrap();
    assert!(problems::<Other>(&lock).is_empty());
    assert!(problems::<Health>(&lock)[0].contains("it was removed once and is back"));

    // A field that goes and comes back, whatever its type is.
    #[derive(Persist)]
    #[persist(key = "game.health", removed = "max")]
    struct Without {
        current: f32,
    }
    let mut lock = lock_of::<Health>();
    lock.add(&Registry::new().with::<Without>().unwrap()).unwrap();
    #[derive(Persist)]
    #[persist(key = "game.health")]
    struct Back {
        current: f32,
        #[persist(default = 100.0)]
        max: f32,
        #[persist(default = 0)]
        extra: u8,
    }
    let found = problems::<Back>(&lock);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(
        found[0].contains("`max` was removed once and is back") && found[0].contains("returned max"),
        "{}",
        found[0]
    );
    let meant = lock.to_string().replace("[game.health]\n", "[game.health]\nreturned max\n");
    assert!(problems::<Back>(&SchemaLock::parse(&meant).unwrap()).is_empty());
}

#[test]
fn differences_are_said_in_words() {
    #[derive(Persist)]
    #[persist(key = "game.life", alias = "game.health", version = 2)]
    struct Life {
        #[persist(alias = "current")]
        now: f64,
    }
    #[derive(Persist)]
    #[persist(key = "game.new")]
    struct New(u8);
    let old = lock_of::<Health>();
    let mut new = SchemaLock::default();
    new.add(&Registry::new().with::<Life>().unwrap().with::<New>().unwrap()).unwrap();
    assert_eq!(
        old.diff(&new),
        [
            "~ `game.health` is `game.life` now",
            "~ `game.life`: version 1 is version 2 now",
            "~ `game.life`: `current` is `now` now",
            "~ `game.life`: `max` is not known to this build",
            "~ `game.life`: `now` was f32 and is f64",
            "+ `game.new` version 1: (u8)",
        ]
    );
    assert_eq!(new.diff(&old).last().unwrap(), "- `game.new` is gone");
    assert!(old.diff(&old).is_empty());
}

#[test]
fn a_lock_reads_saves_without_the_game() {
    #[derive(Persist)]
    #[persist(key = "game.health")]
    struct Early {
        current: f32,
    }
    let saved = Snapshot::open(&encode_one(&Early { current: 3.0 }).unwrap()).unwrap();
    let lock = lock_of::<Health>();
    let (new, report) = saved.rewritten(&lock.registry().unwrap(), Default::default()).unwrap();
    assert!(report.to_string().contains("`max` is new and gets its default"), "{report}");
    let loaded: Health = bonfire::decode_one(&new.to_bytes().unwrap()).unwrap();
    assert_eq!((loaded.current, loaded.max), (3.0, 100.0));
    let mut whole = lock.clone();
    whole.add_older(&SchemaLock::of_snapshot(&saved).unwrap());
    whole.check(&Registry::new().with::<Health>().unwrap()).unwrap();
    assert_eq!(whole.keys().collect::<Vec<_>>(), ["game.health"]);
    assert_eq!(whole.to_string().matches("\nversion 1: ").count(), 2);
}

#[test]
fn a_lock_follows_a_key_that_was_renamed_and_a_schema_that_came_back() {
    #[derive(Persist)]
    #[persist(key = "game.life", alias = "game.health")]
    struct Life {
        #[persist(alias = "current # ", alias = "current")]
        now: f32,
        #[persist(default = 100.0)]
        max: f32,
    }
    let mut lock = lock_of::<Health>();
    let registry = Registry::new().with::<Life>().unwrap();
    lock.add(&registry).unwrap();
    let text = lock.to_string();
    let lock = SchemaLock::parse(&text).unwrap();
    assert_eq!(lock.to_string(), text);
    lock.check(&registry).unwrap();
    let known = lock.registry().unwrap();
    assert_eq!(known.index_of_saved("game.health"), known.index_of_key("game.life"));
    assert!(known.index_of_key("game.health").is_none());

    // What a build says about the past is locked too.
    #[derive(Persist)]
    #[persist(key = "game.life", alias = "game.health")]
    struct LifeToo {
        #[persist(alias = "current", alias = "hp")]
        now: f32,
        #[persist(default = 100.0)]
        max: f32,
    }
    let problems = lock.problems(&Registry::new().with::<LifeToo>().unwrap());
    assert!(problems.len() == 1 && problems[0].is_missing(), "{problems:#?}");

    // Back to what was once: it is the newest again.
    #[derive(Persist)]
    #[persist(key = "game.health")]
    struct Grown {
        current: f32,
        #[persist(default = 100.0)]
        max: f32,
        extra: u8,
    }
    #[derive(Persist)]
    #[persist(key = "game.health", removed = "extra")]
    struct Back {
        current: f32,
        #[persist(default = 100.0)]
        max: f32,
    }
    let mut lock = lock_of::<Health>();
    lock.add(&Registry::new().with::<Grown>().unwrap()).unwrap();
    let back = Registry::new().with::<Back>().unwrap();
    assert!(lock.check(&back).is_err());
    lock.add(&back).unwrap();
    lock.check(&back).unwrap();
    let newest = lock.registry().unwrap().by_key("game.health").unwrap().schema().to_string();
    assert_eq!(newest, "{current: f32, max: f32}");
}

#[test]
fn tracks_are_locked_with_what_their_worlds_need() {
    let mut registry = Registry::new().with::<Health>().unwrap();
    registry.track("game", 7).unwrap();
    registry.track("a mod", 2).unwrap();
    registry.migration("game", 3, 4, |_| Ok(())).unwrap();
    let mut lock = lock_of::<Health>();
    assert_eq!(lock.problems(&registry).len(), 2);
    lock.add(&registry).unwrap();
    let text = lock.to_string();
    assert!(text.contains("\ntrack 2 0 \"a mod\"\ntrack 7 4 game\n\n[game.health]\n"), "{text}");
    let lock = SchemaLock::parse(&text).unwrap();
    assert_eq!(lock.to_string(), text);
    lock.check(&registry).unwrap();
    let saved = |version: u32| {
        let mut registry = Registry::new();
        registry.track("game", version).unwrap();
        bonfire::engine::SnapshotWriter::new(&registry).finish().unwrap()
    };
    assert_eq!(lock.pending_migrations(&saved(3)), [("game".to_owned(), 3, 4)]);
    assert!(lock.pending_migrations(&saved(4)).is_empty());
    assert!(saved(8).rewritten(&lock.registry().unwrap(), Default::default()).unwrap_err().is_newer_format());
}
