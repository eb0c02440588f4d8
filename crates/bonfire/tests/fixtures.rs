//! Golden files: what any version-1 build ever wrote, every later build reads. They are never rewritten.

use std::path::PathBuf;

use bonfire::*;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/v1").join(name)
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn expected_json() -> String {
    String::from_utf8(bytes("everything.json")).unwrap()
}

#[test]
fn one_of_everything_is_read_by_the_version_1_reader() {
    let snapshot = Snapshot::open(&bytes("everything.bonfire")).unwrap();
    assert_eq!(snapshot.to_json().unwrap(), expected_json());
    // Every kind of column and every encoding is in it.
    let mut kinds: Vec<&str> = snapshot.components().iter().map(|component| component.kind.name()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds, ["custom", "plain", "rows", "strided", "tag", "value"]);
    let columns = || snapshot.archetypes().flat_map(|archetype| archetype.columns().collect::<Vec<_>>());
    let mut encodings: Vec<&str> = columns().map(|column| column.encoding()).collect();
    encodings.sort_unstable();
    encodings.dedup();
    assert_eq!(encodings, ["dictionary", "raw", "rows", "shared", "tag"]);
    assert!(columns().any(|column| column.is_sparse()));
    assert_eq!(snapshot.carried().len(), 2);
    assert_eq!(snapshot.resources().len(), 1);
    assert_eq!(snapshot.data().iter().map(DataEntry::key).collect::<Vec<_>>(), ["bonfire.first", "game.log"]);
}

#[test]
fn the_same_world_in_other_wrappings() {
    for name in ["everything_lz4.bonfire", "everything_root.bonfire", "everything_reserved.bonfire"] {
        let snapshot = Snapshot::open(&bytes(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(snapshot.to_json().unwrap(), expected_json(), "{name}");
    }
    let reserved = Snapshot::open(&bytes("everything_reserved.bonfire")).unwrap();
    for name in ["delta", "journal link", "tracks", "seal", "unknown"] {
        assert!(reserved.sections().iter().any(|section| section.name == name), "{name}");
    }
    let by_hash = Snapshot::open(&bytes("everything_by_hash.bonfire")).unwrap();
    assert_eq!(by_hash.entity_count(), 12);
    assert!(by_hash.components()[0].schema().unwrap_err().is_unknown());
}

#[test]
fn the_json_table_is_the_same_world() {
    let imported = Snapshot::from_json(&expected_json(), &Registry::new()).unwrap();
    assert_eq!(imported.to_json().unwrap(), expected_json());
    let opened = Snapshot::open(&bytes("everything.bonfire")).unwrap();
    assert_eq!(imported.content_hash().unwrap(), opened.content_hash().unwrap());
}

#[test]
fn damaged_files_are_refused_and_salvaged() {
    for (name, section) in [
        ("damaged_columns.bonfire", Some("columns")),
        ("damaged_prelude.bonfire", Some("prelude")),
        ("damaged_header.bonfire", None),
        ("damaged_truncated.bonfire", None),
    ] {
        let error = Snapshot::open(&bytes(name)).unwrap_err();
        assert!(error.is_corrupt(), "{name}: {error}");
        assert_eq!(error.section(), section, "{name}: {error}");
        let left = Snapshot::options().salvage().open(&bytes(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(!left.damage().is_empty(), "{name}");
    }
    let left = Snapshot::options().salvage().open(&bytes("damaged_prelude.bonfire")).unwrap();
    assert_eq!(left.to_json().unwrap(), expected_json());
}

#[test]
fn newer_files_say_so() {
    for name in ["newer_version.bonfire", "newer_critical.bonfire"] {
        let error = Snapshot::open(&bytes(name)).unwrap_err();
        assert!(error.is_newer_format(), "{name}: {error}");
        assert!(error.to_string().contains("update the game"), "{error}");
    }
}
