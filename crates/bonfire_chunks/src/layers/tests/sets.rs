//! What files keep about layers.

use super::*;

fn bytes_of(set: &LayerSet) -> Vec<u8> {
    let mut bytes = Vec::new();
    set.encode(&mut bytes);
    bytes
}

fn example() -> LayerSet {
    game().materials("material", [(1, "stone"), (0, "air")]).set(7, &[]).unwrap()
}

proptest! {
    #[test]
    fn sets_come_back(layers in layers(), generator in any::<u32>(), names in prop::collection::btree_map(0..250_u32, "[a-z]{1,9}", 0..9)) {
        let mut seen = std::collections::BTreeSet::new();
        let names = names.into_iter().filter(|(_, name)| seen.insert(name.clone()));
        let mut layers = layers;
        if [1, 2, 4].contains(&layers.layers[0].bytes) {
            layers = layers.materials("first", names);
        }
        let set = layers.set(generator, &[])?;
        prop_assert_eq!(&LayerSet::decode(&bytes_of(&set))?, &set);
    }

    #[test]
    fn bytes_of_anybody_are_a_set_or_an_error(bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0..3_u8], 0..60)) {
        if let Ok(set) = LayerSet::decode(&bytes) {
            prop_assert_eq!(bytes_of(&set), bytes);
        }
    }
}

#[test]
fn the_bytes_of_a_set_are_as_documented() {
    let layers = Layers::new()
        .with(material())
        .with(
            Layer::new("fl", 2)
                .version(2)
                .default_value(&[4, 5])
                .persistence(Persistence::Partial(vec![2, 0])),
        )
        .with(Layer::new("heat", 1).persistence(Persistence::No))
        .materials("material", [(1, "ore")]);
    let bytes = [
        &[7, 0, 0, 0, 2, 0, 8][..],
        b"material",
        &[1, 1, 0, 0, 0, 0, 0],
        &[2],
        b"fl",
        &[2, 2, 0, 0, 0, 2, 4, 5, 2, 0],
        &[1, 0, 0, 0, 1, 0, 0, 0, 3],
        b"ore",
    ]
    .concat();
    let set = layers.set(7, &[]).unwrap();
    assert_eq!(bytes_of(&set), bytes);
    assert_eq!(set.generator_version(), 7);
    assert_eq!(set.stored_bytes(), 3);
    assert_eq!(set.materials().unwrap().1, [(1, "ore".to_owned())]);
}

#[test]
fn sets_are_equal_if_their_content_is() {
    let set = example();
    assert_eq!(set, game().materials("material", [(0, "air"), (1, "stone")]).set(7, &[]).unwrap());
    assert_ne!(set, game().materials("material", [(0, "air"), (2, "stone")]).set(7, &[]).unwrap());
    assert_ne!(set, game().materials("material", [(0, "air"), (1, "stone")]).set(8, &[]).unwrap());
    // A layer that does not persist is none of a file's business.
    let cold = Layer::new("cold", 1).persistence(Persistence::No);
    assert_eq!(game().with(cold).set(7, &[]).unwrap(), game().set(7, &[]).unwrap());
}

#[test]
fn a_set_that_is_cut_short_or_damaged_is_refused_or_another_set() {
    let bytes = bytes_of(&example());
    for len in 0..bytes.len() {
        assert!(LayerSet::decode(&bytes[..len]).unwrap_err().is_corrupt(), "{len}");
    }
    assert!(LayerSet::decode(&[&bytes[..], &[0]].concat()).unwrap_err().is_corrupt());
    for at in 0..bytes.len() {
        for flip in [1, 2, 0x80, 0xFF] {
            let mut bad = bytes.clone();
            bad[at] ^= flip;
            match LayerSet::decode(&bad) {
                Ok(set) => assert_eq!(bytes_of(&set), bad),
                Err(error) => assert!(error.is_corrupt(), "{error}"),
            }
        }
    }
}

#[test]
fn a_set_that_breaks_a_rule_is_corrupt() {
    let layer = |name: &str, bytes: u8| {
        [
            &[u8::try_from(name.len()).unwrap()][..],
            name.as_bytes(),
            &[bytes, 1, 0, 0, 0, 0],
            &vec![0; bytes.into()],
        ]
        .concat()
    };
    let set = |count: u8, material: u8, layers: &[Vec<u8>], materials: &[u8]| {
        LayerSet::decode(&[&[0, 0, 0, 0, count, material][..], &layers.concat(), materials].concat())
    };
    assert!(set(1, 255, &[layer("a", 64)], &[]).is_ok());
    assert!(set(1, 0, &[layer("a", 1)], &[1, 0, 0, 0, 255, 0, 0, 0, 1, b'x']).is_ok());
    let many = |count: u8| (0..count).map(|at| layer(&at.to_string(), 1)).collect::<Vec<_>>();
    assert!(set(64, 255, &many(64), &[]).is_ok());
    for (result, message) in [
        (set(0, 255, &[], &[]), "1 to 64 layers"),
        (set(65, 255, &many(65), &[]), "65 layers"),
        (set(2, 255, &[layer("a", 1), layer("a", 1)], &[]), "two layers are called `a`"),
        (set(1, 255, &[layer("a", 65)], &[]), "65 bytes"),
        (set(1, 255, &[layer("a", 0)], &[]), "0 bytes"),
        (set(1, 255, &[layer("", 1)], &[]), "the name of a layer"),
        (set(1, 1, &[layer("a", 1)], &[0, 0, 0, 0]), "layer 1 of 1"),
        (set(1, 0, &[layer("a", 3)], &[0, 0, 0, 0]), "1, 2 or 4 bytes"),
        (set(1, 0, &[layer("a", 1)], &[1, 0, 0, 0, 0, 1, 0, 0, 1, b'x']), "id 256"),
        (set(1, 0, &[layer("a", 1)], &[1, 0, 0, 0, 0, 0, 0, 0, 0]), "the name of a material"),
        (set(1, 0, &[layer("a", 1)], &[1, 0, 0, 0, 0, 0, 0, 0, 1, 0xFF]), "a name in a set"),
        (set(1, 0, &[layer("a", 1)], &[1, 0, 1, 0]), "65537 materials"),
        (set(1, 0, &[layer("a", 1)], &[0xFF; 4]), "materials are more"),
        (
            set(1, 0, &[layer("a", 1)], &[2, 0, 0, 0, 1, 0, 0, 0, 1, b'x', 0, 0, 0, 0, 1, b'y']),
            "share or swap",
        ),
        (
            set(1, 0, &[layer("a", 1)], &[2, 0, 0, 0, 0, 0, 0, 0, 1, b'x', 1, 0, 0, 0, 1, b'x']),
            "two materials are called `x`",
        ),
    ] {
        let error = result.unwrap_err();
        assert!(error.is_corrupt() && error.to_string().contains(message), "{error} / {message}");
    }
}
