//! One release after another.

use super::*;

#[test]
fn an_added_layer_has_its_default() {
    let old = Layers::new().with(material()).with(Layer::new("damage", 1));
    let new = Layers::new()
        .with(material())
        .with(Layer::new("color", 2).default_value(&[7, 8]))
        .with(Layer::new("damage", 1));
    assert_eq!(converted(&old, &[1, 2, 3, 4], &new).unwrap(), [1, 7, 8, 2, 3, 7, 8, 4]);
    let conversion = Conversion::new(&old.set(1, &[]).unwrap(), &new).unwrap();
    assert_eq!(conversion.changes().added, ["color"]);
}

#[test]
fn layers_may_change_places() {
    let old = Layers::new().with(material()).with(Layer::new("color", 2)).with(Layer::new("damage", 1));
    let new = Layers::new().with(Layer::new("damage", 1)).with(material()).with(Layer::new("color", 2));
    assert_eq!(converted(&old, &[1, 2, 3, 4, 5, 6, 7, 8], &new).unwrap(), [4, 1, 2, 3, 8, 5, 6, 7]);
}

#[test]
fn a_removed_layer_is_carried_through_the_next_save() {
    let old = Layers::new()
        .with(Layer::new("wind", 1))
        .with(material())
        .with(Layer::new("moss", 2).version(3).default_value(&[1, 1]));
    let new = Layers::new().with(material()).with(Layer::new("color", 1).default_value(&[5]));
    let old_set = old.set(1, &[]).unwrap();
    let conversion = Conversion::new(&old_set, &new).unwrap();
    assert_eq!(conversion.changes().carried, ["wind", "moss"]);
    let cells = [10, 1, 20, 21, 11, 2, 22, 23];
    let mut memory = [0; 4];
    conversion.to_memory(&cells, &mut memory).unwrap();
    assert_eq!(memory, [1, 5, 2, 5]);
    let mut carried = Vec::new();
    conversion.carried(&cells, &mut carried).unwrap();
    assert_eq!(carried, [10, 20, 21, 11, 22, 23]);

    let set = new.set(1, conversion.carried_layers()).unwrap();
    let names: Vec<_> = set.layers().iter().map(StoredLayer::name).collect();
    assert_eq!((names, set.stored_bytes()), (vec!["material", "color", "wind", "moss"], 5));
    let mut stored = Vec::new();
    new.to_stored(&[1, 6, 2, 7], Some(&carried), &mut stored).unwrap();
    assert_eq!(stored, [1, 6, 10, 20, 21, 2, 7, 11, 22, 23]);

    // And back to a release that has them.
    let back = Conversion::new(&set, &old).unwrap();
    let mut memory = [0; 8];
    back.to_memory(&stored, &mut memory).unwrap();
    assert_eq!(memory, cells);
}

#[test]
fn a_removed_layer_is_dropped_by_choice() {
    let old = Layers::new().with(material()).with(Layer::new("moss", 2));
    let new = Layers::new().with(material()).removed(RemovedLayers::Drop);
    let conversion = Conversion::new(&old.set(1, &[]).unwrap(), &new).unwrap();
    assert_eq!(conversion.changes().dropped, ["moss"]);
    assert!(conversion.carried_layers().is_empty() && !conversion.is_identity());
    let mut carried = Vec::new();
    conversion.carried(&[1, 2, 3], &mut carried).unwrap();
    assert!(carried.is_empty());
    assert_eq!(converted(&old, &[1, 2, 3], &new).unwrap(), [1]);
}

#[test]
fn carried_layers_have_to_fit() {
    let old = Layers::new().with(material()).with(Layer::new("moss", 60));
    let new = Layers::new().with(material()).with(Layer::new("color", 4));
    let conversion = Conversion::new(&old.set(1, &[]).unwrap(), &new).unwrap();
    assert!(new.set(1, conversion.carried_layers()).unwrap_err().to_string().contains("65 bytes"));
    let twice = [conversion.carried_layers(); 2].concat();
    assert!(Layers::new().with(material()).set(1, &twice).unwrap_err().is_misuse());
}

#[test]
fn a_layer_that_no_longer_persists_is_not_loaded() {
    let persistent = |persistence| {
        let heat = Layer::new("heat", 1).default_value(&[20]).persistence(persistence);
        Layers::new().with(material()).with(heat)
    };
    let (yes, no) = (persistent(Persistence::Yes), persistent(Persistence::No));
    assert_eq!(converted(&yes, &[1, 99], &no).unwrap(), [1, 20]);
    assert_eq!(converted(&no, &[1], &yes).unwrap(), [1, 20]);
    let conversion = Conversion::new(&yes.set(1, &[]).unwrap(), &no).unwrap();
    assert_eq!(conversion.changes().dropped, ["heat"]);
    assert!(conversion.carried_layers().is_empty());
}

#[test]
fn bits_that_one_side_does_not_persist_have_the_games_default() {
    let masked = |mask: u8, default: u8| {
        let flags = Layer::new("flags", 1).default_value(&[default]);
        Layers::new().with(material()).with(flags.persistence(Persistence::Partial(vec![mask])))
    };
    let (old, new) = (masked(0b0011, 0), masked(0b0110, 0b1111));
    assert_eq!(converted(&old, &[1, 0b0000], &new).unwrap(), [1, 0b1101]);
    assert_eq!(converted(&old, &[1, 0b1111], &new).unwrap(), [1, 0b1111]);
}

#[test]
fn versions_go_up_step_by_step() {
    let old = Layers::new().with(material()).with(Layer::new("damage", 1));
    let new = Layers::new()
        .with(material())
        .with(Layer::new("damage", 2).version(3))
        .upgrade("damage", 2, |old| (u16::from(old[0]) + 1000).to_le_bytes())
        .upgrade("damage", 1, |old| [old[0] * 2]);
    let memory = converted(&old, &[1, 5, 2, 5, 3, 6], &new).unwrap();
    assert_eq!(memory, [1, 0xF2, 3, 2, 0xF2, 3, 3, 0xF4, 3]);
    let conversion = Conversion::new(&old.set(1, &[]).unwrap(), &new).unwrap();
    assert_eq!(conversion.changes().upgraded, ["damage"]);
    assert!(!conversion.is_identity());
}

#[test]
fn each_value_is_upgraded_once() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    for bytes in [1, 3] {
        let calls = Arc::new(AtomicU32::new(0));
        let old = Layers::new().with(material()).with(Layer::new("wide", bytes));
        let counted = Arc::clone(&calls);
        let new = Layers::new().with(material()).with(Layer::new("wide", 1).version(2)).upgrade(
            "wide",
            1,
            move |old| {
                counted.fetch_add(1, Ordering::Relaxed);
                [old.iter().sum::<u8>()]
            },
        );
        let cells: Vec<u8> =
            [2, 3, 2, 2, 3].iter().flat_map(|value| [vec![9], vec![*value; bytes]].concat()).collect();
        let times = u8::try_from(bytes).unwrap();
        let expected = [2, 3, 2, 2, 3].map(|value| [9, value * times]).concat();
        assert_eq!(converted(&old, &cells, &new).unwrap(), expected);
        assert_eq!(calls.load(Ordering::Relaxed), 2);
    }
}

#[test]
fn an_upgrade_sees_the_old_default_and_its_result_is_masked_anew() {
    let flags = Layer::new("flags", 1);
    let old = flags.clone().default_value(&[0xF0]).persistence(Persistence::Partial(vec![0x0F]));
    let new = flags.version(2).default_value(&[0]).persistence(Persistence::Partial(vec![0x3F]));
    let old = Layers::new().with(material()).with(old);
    let new = Layers::new().with(material()).with(new).upgrade("flags", 1, <[u8]>::to_vec);
    assert_eq!(converted(&old, &[1, 0x05], &new).unwrap(), [1, 0x35]);
}

#[test]
fn a_missing_upgrade_names_layer_and_versions() {
    let old = Layers::new().with(material()).with(Layer::new("damage", 1));
    let new = Layers::new().with(material()).with(Layer::new("damage", 1).version(3)).upgrade(
        "damage",
        1,
        <[u8]>::to_vec,
    );
    let error = converted(&old, &[1, 2], &new).unwrap_err();
    assert!(error.is_unsupported());
    let message = error.to_string();
    assert!(message.contains("`damage` is of version 1 in the file and 3 in the game"), "{message}");
    assert!(message.contains("from version 2"), "{message}");
}

#[test]
fn a_newer_layer_is_a_newer_format() {
    let error = converted(&Layers::new().with(material().version(2)), &[1], &Layers::new().with(material()))
        .unwrap_err();
    assert!(error.is_newer_format() && error.to_string().contains("`material` is of version 2"), "{error}");
}

#[test]
fn another_width_needs_an_upgrade() {
    let wide = |bytes| Layers::new().with(material()).with(Layer::new("damage", bytes));
    let error = converted(&wide(1), &[1, 2], &wide(2)).unwrap_err();
    assert!(
        error.is_unsupported() && error.to_string().contains("1 bytes in the file and 2 in the game"),
        "{error}"
    );

    let new = Layers::new().with(material()).with(Layer::new("damage", 2).version(2));
    let error = converted(&wide(1), &[1, 2], &new.upgrade("damage", 1, |_| [1, 2, 3])).unwrap_err();
    assert!(
        error.is_misuse() && error.to_string().contains("`damage` from version 1 gives 3 bytes"),
        "{error}"
    );
}

/// A layer of materials of so many bytes, between two others.
fn world(bytes: usize, names: &[(u32, &str)]) -> Layers {
    Layers::new()
        .with(Layer::new("color", 1))
        .with(Layer::new("material", bytes).persistence(Persistence::Always))
        .with(Layer::new("damage", 2))
        .materials("material", names.iter().copied())
}

/// Cells with these materials.
fn cells(bytes: usize, ids: &[u32]) -> Vec<u8> {
    ids.iter().flat_map(|id| [&[9][..], &id.to_le_bytes()[..bytes], &[8, 7]].concat()).collect()
}

#[test]
fn materials_are_matched_by_name() {
    for bytes in [1, 2, 4] {
        let old = world(bytes, &[(0, "air"), (1, "stone"), (2, "sand"), (200, "gold")]);
        let new = world(bytes, &[(0, "air"), (1, "sand"), (2, "gold"), (3, "water"), (4, "stone")]);
        let memory = converted(&old, &cells(bytes, &[0, 1, 1, 2, 200, 77]), &new).unwrap();
        // 77 has no name in either.
        assert_eq!(memory, cells(bytes, &[0, 4, 4, 1, 2, 77]), "{bytes}");
        let conversion = Conversion::new(&old.set(1, &[]).unwrap(), &new).unwrap();
        assert!(!conversion.is_identity() && conversion.changes() == &LayerChanges::default());
        assert!(Conversion::new(&old.set(1, &[]).unwrap(), &old).unwrap().is_identity());
    }
}

#[test]
fn large_ids_are_matched_too() {
    let old = world(4, &[(1, "air"), (4_000_000_000, "gold")]);
    let new = world(4, &[(70_000, "air"), (1, "gold")]);
    let memory = converted(&old, &cells(4, &[4_000_000_000, 1]), &new).unwrap();
    assert_eq!(memory, cells(4, &[1, 70_000]));
}

#[test]
fn a_material_that_is_gone_becomes_the_missing_one_or_an_error() {
    for bytes in [1, 2, 4] {
        let old = world(bytes, &[(0, "air"), (1, "ice"), (2, "mud")]);
        let new = world(bytes, &[(0, "air"), (5, "mud"), (9, "missing")]);
        let error = converted(&old, &cells(bytes, &[0]), &new).unwrap_err();
        assert!(error.is_unsupported() && error.to_string().contains("`ice`"), "{error}");
        assert!(!error.to_string().contains("mud"), "{error}");

        let new = new.missing_material(9);
        assert_eq!(converted(&old, &cells(bytes, &[0, 1, 2]), &new).unwrap(), cells(bytes, &[0, 9, 5]));
        let conversion = Conversion::new(&old.set(1, &[]).unwrap(), &new).unwrap();
        assert_eq!(conversion.changes().missing_materials, ["ice"]);
    }
}

#[test]
fn an_id_without_a_name_does_not_become_a_new_material() {
    for bytes in [1, 2, 4] {
        let old = world(bytes, &[(0, "air")]);
        let new = world(bytes, &[(0, "air"), (1, "lava")]);
        let error = converted(&old, &cells(bytes, &[0, 1]), &new).unwrap_err();
        assert!(error.is_unsupported() && error.to_string().contains("material 1 had no name"), "{error}");
        assert_eq!(converted(&old, &cells(bytes, &[0, 2]), &new).unwrap(), cells(bytes, &[0, 2]));
        let memory = converted(&old, &cells(bytes, &[1]), &new.missing_material(0)).unwrap();
        assert_eq!(memory, cells(bytes, &[0]));
    }
}

#[test]
fn ids_stay_if_one_side_has_no_names() {
    let named = world(1, &[(0, "air"), (1, "stone")]);
    let mut unnamed = named.clone();
    unnamed.materials = None;
    for (from, to) in [(&named, &unnamed), (&unnamed, &named)] {
        assert_eq!(converted(from, &cells(1, &[1, 3]), to).unwrap(), cells(1, &[1, 3]));
    }
}

#[test]
fn a_wider_layer_of_materials_is_upgraded_and_then_matched() {
    let old = Layers::new().with(material()).materials("material", [(1, "stone"), (2, "sand")]);
    let wide = Layer::new("material", 2).version(2).persistence(Persistence::Always);
    let new = Layers::new().with(wide).materials("material", [(1, "sand"), (700, "stone")]).upgrade(
        "material",
        1,
        |old| [old[0], 0],
    );
    assert_eq!(converted(&old, &[1, 2], &new).unwrap(), [0xBC, 2, 1, 0]);
}
