//! The life of a game: the saves of ten releases, each read by the newest one and by the one before it. The files in
//! `fixtures/life` are never rewritten.

#[path = "life/expected.rs"]
mod expected;

use std::collections::BTreeSet;
use std::path::PathBuf;

use bonfire::{LoadOptions, Outcome, SchemaChange, SchemaLock, Snapshot, preflight};
use bonfire_testkit::life::{NAMES, Release, releases, v1, v2, v4, v6, v9, v10};
use bonfire_testkit::{Loaded, Mode, ModelWorld};

use self::expected::{Colony, id, settings};

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/life").join(name)
}

fn bytes(release: &Release) -> Vec<u8> {
    let name = release.file();
    std::fs::read(path(&name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn newest() -> Release {
    releases()[9]
}

fn load(release: &Release, bytes: &[u8]) -> bonfire::Result<(ModelWorld, Loaded)> {
    let mut world = release.world()?;
    let loaded = world.load_with(&Snapshot::open(bytes)?, Mode::SameIds, LoadOptions::default())?;
    Ok((world, loaded))
}

fn canonical(world: &mut ModelWorld) -> Vec<u8> {
    world.save().unwrap().canonical().unwrap().to_bytes().unwrap()
}

fn assert_colony(world: &ModelWorld, expected: &Colony, what: &str) {
    let colony = Colony::of(world);
    assert_eq!(colony.members.len(), expected.members.len(), "{what}");
    for (found, expected) in colony.members.iter().zip(&expected.members) {
        assert_eq!(found, expected, "{what}");
    }
    assert_eq!(colony, *expected, "{what}");
}

fn assert_settings(bytes: &[u8], release: u32) {
    let (snapshot, newest) = (Snapshot::open(bytes).unwrap(), newest().world().unwrap());
    let migrated = snapshot.migrated(newest.registry()).unwrap();
    let [entry] = migrated.data() else { panic!("{} data entries", migrated.data().len()) };
    assert_eq!(entry.key(), "colony.settings");
    assert_eq!(entry.get::<v10::Settings>().unwrap(), settings(release), "release {release}");
}

#[test]
fn the_files_are_those_that_were_written_once() {
    let sums: Vec<u32> = releases().iter().map(|release| crc32c::crc32c(&bytes(release))).collect();
    assert_eq!(sums, SUMS, "a file of a release is never rewritten");
    for release in releases() {
        let (file, now) = (Snapshot::open(&bytes(&release)).unwrap(), release.save().unwrap());
        let number = release.number;
        assert_eq!(file.entity_count(), 12, "release {number}");
        assert_eq!(
            file.content_hash().unwrap(),
            now.content_hash().unwrap(),
            "types of release {number} are frozen"
        );
        let tracks = file.tracks();
        let of = |name: &str| tracks.get(name).copied();
        assert_eq!(of("game"), Some(1 + u32::from(number > 5) + u32::from(number > 8)));
        assert_eq!(of("mod.weather"), (number > 6).then_some(1 + u32::from(number > 7)));
    }
    let columns = |release: usize| {
        let snapshot = Snapshot::open(&bytes(&releases()[release - 1])).unwrap();
        let encodings =
            snapshot.archetypes().flat_map(|a| a.columns().map(|c| c.encoding()).collect::<Vec<_>>());
        encodings.collect::<BTreeSet<_>>()
    };
    assert_eq!(columns(2), ["dictionary", "raw", "rows", "shared", "tag"].into());
    assert_eq!(columns(10), ["dictionary", "raw", "rows"].into());
}

#[test]
fn every_release_loads_into_the_newest_one() {
    for release in releases() {
        let number = release.number;
        let (world, loaded) =
            load(&newest(), &bytes(&release)).unwrap_or_else(|error| panic!("{number}: {error}"));
        assert_colony(&world, &Colony::expected(number), &format!("release {number}"));
        assert_settings(&bytes(&release), number);
        // All of it is in the world, but for what is knowingly no more, and the one who is gone.
        assert!(world.carry().component_rows().is_empty(), "{:?}", world.carry().component_rows());
        for line in &loaded.report.components {
            let gone = line.outcome == Outcome::Transient && line.key == "colony.selected" && number < 5;
            assert!(gone || line.outcome.is_loaded(), "release {number}: {line:?}");
            assert_eq!(line.dangling, u64::from(line.key == "colony.follows"), "release {number}: {line:?}");
            let lost: Vec<&SchemaChange> = line.changes.iter().filter(|change| change.is_loss()).collect();
            let nick = [&SchemaChange::Dropped { field: "nick".into() }];
            let expected: &[&SchemaChange] =
                if line.key == "colony.unit" && (2..5).contains(&number) { &nick } else { &[] };
            assert_eq!(lost, expected, "release {number}: {line:?}");
        }
    }
}

#[test]
fn a_rewritten_save_is_the_one_that_the_newest_release_would_have_made() {
    let registry = newest().world().unwrap();
    for release in releases() {
        let number = release.number;
        let old = Snapshot::open(&bytes(&release)).unwrap();
        let (rewritten, report) = old.rewritten(registry.registry(), LoadOptions::default()).unwrap();
        assert_eq!(report.entities, 12);
        let (mut direct, _) = load(&newest(), &bytes(&release)).unwrap();
        let direct = canonical(&mut direct);
        assert_eq!(rewritten.canonical().unwrap().to_bytes().unwrap(), direct, "release {number}");
        let rewritten = rewritten.to_bytes().unwrap();
        let (mut again, loaded) = load(&newest(), &rewritten).unwrap();
        assert_eq!(canonical(&mut again), direct, "release {number}");
        assert!(
            loaded.report.components.iter().all(|line| line.outcome == Outcome::Loaded),
            "{}",
            loaded.report
        );
        assert_settings(&rewritten, number);
    }
}

/// What the release before makes of a save.
enum Before {
    /// It loads, and this many values of components and fields are carried for it, by key.
    Loads(&'static [(&'static str, usize)]),
    /// It is newer, and says so.
    Newer(&'static str),
    /// A type of it cannot become what it was, and the key is named.
    Schema(&'static str),
}

const BEFORE: [(usize, Before); 9] = [
    (
        2,
        Before::Loads(&[
            ("colony.facing", 4),
            ("colony.job", 8),
            ("colony.position", 12),
            ("colony.unit", 10),
        ]),
    ),
    (3, Before::Loads(&[("colony.inventory", 6), ("colony.unit", 10)])),
    (4, Before::Schema("colony.")),
    (5, Before::Loads(&[])),
    (6, Before::Newer("the save has version 2 of `game`, which is newer than this build (1)")),
    (
        7,
        Before::Loads(&[
            ("colony.bio", 5),
            ("colony.inventory", 6),
            ("colony.job", 8),
            ("colony.unit", 10),
            ("weather.sky", 1),
            ("weather.wet", 3),
        ]),
    ),
    (8, Before::Newer("the save has version 2 of `mod.weather`, which is newer than this build (1)")),
    (9, Before::Newer("the save has version 3 of `game`, which is newer than this build (2)")),
    (10, Before::Loads(&[("colony.banner", 6), ("colony.unit", 10)])),
];

#[test]
fn the_release_before_loads_what_it_can_and_refuses_the_rest() {
    for (number, before) in BEFORE {
        let (release, older) = (releases()[number - 1], releases()[number - 2]);
        let result = load(&older, &bytes(&release));
        let report = preflight(&bytes(&release), older.world().unwrap().registry()).unwrap();
        assert_eq!(report.is_loadable(), matches!(before, Before::Loads(_)), "release {number}: {report}");
        match before {
            Before::Loads(carried) => {
                let (world, _) = result.unwrap_or_else(|error| panic!("release {number}: {error}"));
                let rows = world.carry().component_rows();
                assert_eq!(rows.into_iter().collect::<Vec<_>>(), carried, "release {number}");
                check_older(number, &world);
            }
            Before::Newer(message) => {
                let error = result.map(drop).unwrap_err();
                assert!(
                    error.is_newer_format() && error.to_string().contains(message),
                    "release {number}: {error}"
                );
            }
            Before::Schema(key) => {
                let error = result.map(drop).unwrap_err();
                assert!(error.is_schema() && error.to_string().contains(key), "release {number}: {error}");
            }
        }
    }
}

/// What the older release sees of the save of the newer one.
fn check_older(number: usize, world: &ModelWorld) {
    for (i, name) in (0..).zip(NAMES) {
        let (id, name) = (id(i), name.to_owned());
        match number {
            2 => {
                let unit = v1::Unit { name, hp: 10 + 7 * i as u16 };
                assert_eq!(world.get(id), Some(&unit));
                assert_eq!(world.get(id), Some(&v1::Position { x: i as f32 * 0.5, y: -(i as f32) }));
            }
            // The field has a name that this release does not know yet.
            3 => {
                let nick = (i % 4 == 0).then(|| format!("{name} the {i}th"));
                assert_eq!(world.get(id), Some(&v2::Unit { hp: 0, max_hp: 100 + i as u16, name, nick }));
                assert_eq!(world.get::<v2::Inventory>(id), None);
            }
            5 => {
                let (health, max_hp) = (10.5 + 7.0 * i as f32, 70_000 + i);
                assert_eq!(world.get(id), Some(&v4::Unit { health, max_hp, name, nick: None }));
                let home = world.get::<v4::Bio>(id).map(|bio| bio["home"].clone());
                assert_eq!(home, (i < 5).then(|| format!("house {i}")));
            }
            7 => {
                assert_eq!(world.get(id), Some(&v6::Unit { name, health: 10.5 + i as f32, max: 60.5 }));
                let item = |what: &str, count| v6::Item { what: what.into(), count };
                let inventory = v6::Inventory { items: vec![item("bread", 300 + i), item("rope", 1)] };
                assert_eq!(world.get(id), (i % 2 == 1).then_some(&inventory));
            }
            _ => {
                let vitals = v9::Vitals { health: 9.5 + i as f32, max: 99.0 };
                assert_eq!(world.get(id), Some(&v9::Unit { name, vitals, title: None }));
            }
        }
    }
}

#[test]
fn what_the_release_before_did_not_know_is_back_in_the_newest_one() {
    for (number, _) in BEFORE.iter().filter(|(_, before)| matches!(before, Before::Loads(_))) {
        let (release, older) = (releases()[number - 1], releases()[number - 2]);
        let (mut world, _) = load(&older, &bytes(&release)).unwrap();
        let saved = world.save().unwrap().to_bytes().unwrap();
        // And once more: what is carried is carried again.
        let (mut world, _) = load(&older, &saved).unwrap();
        let saved = world.save().unwrap().to_bytes().unwrap();
        let (world, _) = load(&newest(), &saved).unwrap();
        let mut expected = Colony::expected(*number as u32);
        if *number == 7 {
            // Fields inside lists have no place where they could be carried.
            let items = expected.members.iter_mut().filter_map(|(_, member)| member.inventory.as_mut());
            items.flat_map(|inventory| &mut inventory.items).for_each(|item| item.quality = 50);
        }
        // The older release has seen that the one in slot 5 is gone.
        assert_colony(&world, &expected, &format!("release {number} through the one before"));
        assert_settings(&saved, *number as u32);
    }
}

#[test]
fn a_lock_follows_the_game_through_its_life() {
    let mut lock = SchemaLock::default();
    let gone = [(6, "colony.body"), (8, "weather.wet"), (9, "colony.position"), (9, "colony.facing")];
    for release in releases() {
        let world = release.world().unwrap();
        for (_, key) in gone.iter().filter(|(number, _)| *number == release.number) {
            let error = lock.clone().add(world.registry()).unwrap_err();
            assert!(error.to_string().contains(&format!("`{key}`: it is no longer registered")), "{error}");
            let text = lock.to_string().replace(&format!("[{key}]\n"), &format!("[{key}]\nremoved\n"));
            lock = SchemaLock::parse(&text).unwrap();
        }
        assert!(lock.check(world.registry()).unwrap_err().is_schema(), "release {} is new", release.number);
        lock.add(world.registry()).unwrap_or_else(|error| panic!("release {}: {error}", release.number));
        lock.check(world.registry()).unwrap();
        lock = SchemaLock::parse(&lock.to_string()).unwrap();
        // The file knows no schema that the lock does not.
        let mut whole = lock.clone();
        whole.add_older(&SchemaLock::of_snapshot(&Snapshot::open(&bytes(&release)).unwrap()).unwrap());
        assert_eq!(whole.to_string(), lock.to_string(), "release {}", release.number);
    }
    if std::env::var("BONFIRE_LOCK").is_ok_and(|mode| mode == "write") {
        std::fs::write(path("schemas.lock"), lock.to_string()).unwrap();
    }
    let saved = std::fs::read_to_string(path("schemas.lock")).unwrap();
    assert_eq!(saved, lock.to_string());
}

/// CRC-32C of each file.
const SUMS: [u32; 10] = [
    1758412673, 3112184429, 1077373403, 930424388, 3192360517, 2380737065, 2320376574, 1087647915,
    3589520257, 3169530351,
];
