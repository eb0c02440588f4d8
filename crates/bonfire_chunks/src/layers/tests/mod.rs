//! Cells of earlier and later releases.

mod conversions;
mod sets;

use proptest::prelude::*;

use super::*;

/// The layers of the existing game.
fn game() -> Layers {
    Layers::new()
        .with(Layer::new("material", 1).persistence(Persistence::Always))
        .with(Layer::new("color", 1))
        .with(Layer::new("damage", 1))
        .with(Layer::new("flags", 1).default_value(&[0b100]).persistence(Persistence::Partial(vec![0b10])))
        .with(Layer::new("heat", 1).default_value(&[20]).persistence(Persistence::No))
}

fn material() -> Layer {
    Layer::new("material", 1).persistence(Persistence::Always)
}

fn stored(layers: &Layers, memory: &[u8]) -> Vec<u8> {
    let mut stored = Vec::new();
    layers.to_stored(memory, None, &mut stored).unwrap();
    stored
}

/// The cells in memory of a release, from cells of another.
fn converted(from: &Layers, stored: &[u8], to: &Layers) -> bonfire::Result<Vec<u8>> {
    let conversion = Conversion::new(&from.set(1, &[])?, to)?;
    let mut memory = vec![0xEE; stored.len() / from.stored_bytes() * to.cell_bytes()];
    conversion.to_memory(stored, &mut memory)?;
    Ok(memory)
}

/// Any layers that can be, with up to 64 bytes that persist.
fn layers() -> impl Strategy<Value = Layers> {
    let persistence = |bytes| {
        prop_oneof![
            Just(Persistence::Yes),
            Just(Persistence::No),
            prop::collection::vec(any::<u8>(), bytes).prop_map(Persistence::Partial),
            Just(Persistence::Partial(vec![0xFF; bytes])),
        ]
    };
    let layer = (1..=9_usize)
        .prop_flat_map(move |bytes| (prop::collection::vec(any::<u8>(), bytes), persistence(bytes)))
        .prop_map(|(default, persistence)| (default, persistence));
    (1..=4_usize, prop::collection::vec(layer, 0..6)).prop_map(|(bytes, rest)| {
        let first = Layer::new("first", bytes).persistence(Persistence::Always);
        rest.into_iter().enumerate().fold(
            Layers::new().with(first),
            |layers, (at, (default, persistence))| {
                let layer = Layer::new(format!("layer {at}"), default.len());
                layers.with(layer.default_value(&default).persistence(persistence))
            },
        )
    })
}

proptest! {
    #[test]
    fn what_was_stored_comes_back_normalised(layers in layers(), seed in any::<u64>(), count in 0..40_usize) {
        layers.check()?;
        let mut noise = seed;
        let mut memory: Vec<u8> = (0..count * layers.cell_bytes())
            .map(|_| {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (noise >> 56) as u8
            })
            .collect();
        let bytes = stored(&layers, &memory);
        prop_assert_eq!(bytes.len(), count * layers.stored_bytes());
        let back = converted(&layers, &bytes, &layers)?;
        let before = memory.clone();
        layers.normalise(&mut memory);
        prop_assert_eq!(&back, &memory);
        prop_assert_eq!(stored(&layers, &back), bytes.clone());

        let conversion = Conversion::new(&layers.set(1, &[])?, &layers)?;
        prop_assert_eq!(conversion.is_identity(), layers.is_plain());
        prop_assert_eq!(conversion.changes(), &LayerChanges::default());
        if layers.is_plain() {
            prop_assert_eq!(&before, &bytes);
            prop_assert_eq!(&before, &memory);
        }
    }
}

#[test]
fn bits_that_do_not_persist_are_neither_stored_nor_loaded() {
    let layers = game();
    let cells = stored(&layers, &[1, 2, 3, 0xFF, 99, 4, 5, 6, 0, 98]);
    assert_eq!(cells, [1, 2, 3, 0b10, 4, 5, 6, 0]);
    // Whatever a file has in them.
    let memory = converted(&layers, &[1, 2, 3, 0xFF, 4, 5, 6, 0], &layers).unwrap();
    assert_eq!(memory, [1, 2, 3, 0b110, 20, 4, 5, 6, 0b100, 20]);
}

#[test]
fn stored_cells_are_appended() {
    let mut out = vec![7];
    game().to_stored(&[1, 2, 3, 2, 9], None, &mut out).unwrap();
    assert_eq!(out, [7, 1, 2, 3, 2]);
}

#[test]
fn cells_of_four_bytes_that_all_persist_are_stored_as_they_are() {
    let layers = Layers::new().with(material()).with(Layer::new("rest", 3));
    assert!(layers.is_plain());
    let conversion = Conversion::new(&layers.set(1, &[]).unwrap(), &layers).unwrap();
    assert!(conversion.is_identity());
    assert!(!game().is_plain());
}

#[test]
fn cells_of_another_size_are_misuse() {
    let layers = game();
    assert!(layers.to_stored(&[0; 6], None, &mut Vec::new()).unwrap_err().is_misuse());
    assert!(layers.to_stored(&[0; 10], Some(&[0; 3]), &mut Vec::new()).unwrap_err().is_misuse());
    let conversion = Conversion::new(&layers.set(1, &[]).unwrap(), &layers).unwrap();
    assert!(conversion.to_memory(&[0; 7], &mut [0; 10]).unwrap_err().is_misuse());
    assert!(conversion.to_memory(&[0; 8], &mut [0; 9]).unwrap_err().is_misuse());
    assert!(conversion.carried(&[0; 7], &mut Vec::new()).unwrap_err().is_misuse());
}

#[test]
fn layers_that_cannot_be_are_misuse() {
    let good = || Layers::new().with(material());
    good().check().unwrap();
    for (layers, message) in [
        (Layers::new(), "no layer"),
        (Layers::new().with(Layer::new("color", 1)), "no layer is one that persists always"),
        (good().with(Layer::new("material", 2)), "two layers are called `material`"),
        (good().with(Layer::new("", 2)), "the name of a layer"),
        (good().with(Layer::new("x".repeat(256), 2)), "the name of a layer"),
        (good().with(Layer::new("empty", 0)), "0 bytes"),
        (good().with(Layer::new("color", 2).default_value(&[1])), "a default of 1"),
        (good().with(Layer::new("color", 2).persistence(Persistence::Partial(vec![1]))), "a mask of 1"),
        (good().with(Layer::new("large", 64)), "more than 64"),
        (good().with(Layer::new("heat", 256).persistence(Persistence::No)), "more than 256"),
        (good().materials("metal", [(0, "air")]), "no layer `metal`"),
        (good().materials("material", [(256, "air")]), "id 256"),
        (good().materials("material", [(0, "air"), (0, "stone")]), "share"),
        (good().materials("material", [(0, "air"), (1, "air")]), "two materials are called `air`"),
        (good().with(Layer::new("wide", 3)).materials("wide", [(0, "air")]), "1, 2 or 4 bytes"),
        (good().materials("material", [(0, "air")]).missing_material(256), "missing material 256"),
        (good().missing_material(0), "missing material 0"),
        (good().upgrade("material", 1, <[u8]>::to_vec), "version above 1"),
        (good().upgrade("metal", 0, <[u8]>::to_vec), "no layer `metal`"),
        (
            good().upgrade("material", 0, <[u8]>::to_vec).upgrade("material", 0, <[u8]>::to_vec),
            "two upgrades",
        ),
    ] {
        let error = layers.check().unwrap_err();
        assert!(error.is_misuse() && error.to_string().contains(message), "{error} / {message}");
    }
}
