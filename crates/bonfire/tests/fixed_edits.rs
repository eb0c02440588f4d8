//! Columns of fixed-size types that changed are converted as a whole. Each value must become what it becomes one by one, and
//! what the type says.

use bonfire::engine::*;
use bonfire::*;
use bonfire_testkit::scale;
use proptest::collection::vec;
use proptest::prelude::*;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases: cases * scale(), failure_persistence: None, ..ProptestConfig::default() }
}

mod old {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Persist)]
    pub(super) enum Team {
        Red,
        Blue,
        Grey,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    pub(super) struct Inner {
        pub(super) small: i8,
        pub(super) letter: char,
        pub(super) gone: u16,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "test.mixed")]
    pub(super) struct Mixed {
        pub(super) a: u8,
        pub(super) b: f32,
        pub(super) team: Team,
        pub(super) pair: [u16; 2],
        pub(super) inner: Inner,
        pub(super) open: bool,
        pub(super) tuple: (u8, i32),
    }

    /// Every byte is saved.
    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "test.plain")]
    pub(super) struct Plain(pub(super) u32, pub(super) f32);

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "test.mood")]
    pub(super) struct Mood(pub(super) Team);
}

mod new {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Persist)]
    pub(super) enum Team {
        Green,
        #[persist(alias = "Grey")]
        Gray,
        Blue,
        Red,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(removed = "gone")]
    pub(super) struct Inner {
        #[persist(default = 9)]
        pub(super) fresh: u64,
        pub(super) letter: char,
        #[persist(alias = "small")]
        pub(super) wide: i64,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "test.mixed")]
    pub(super) struct Mixed {
        pub(super) tuple: (u16, i32),
        pub(super) inner: Inner,
        #[persist(skip, default = 77)]
        pub(super) skipped: u32,
        pub(super) b: f64,
        pub(super) open: bool,
        #[persist(default = [1.5, -2.5])]
        pub(super) more: [f32; 2],
        pub(super) pair: [u16; 2],
        pub(super) team: Team,
        pub(super) a: f32,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "test.plain")]
    pub(super) struct Plain(pub(super) i64, pub(super) f32, #[persist(default = '!')] pub(super) char);

    /// Blue is not there any more.
    #[derive(Clone, Copy, Debug, PartialEq, Persist)]
    pub(super) enum Fewer {
        Grey,
        Red,
    }
    #[derive(Clone, Debug, PartialEq, Persist)]
    #[persist(key = "test.mood")]
    pub(super) struct Mood(pub(super) Fewer);
}

fn team() -> impl Strategy<Value = old::Team> {
    proptest::sample::select(vec![old::Team::Red, old::Team::Blue, old::Team::Grey])
}

prop_compose! {
    fn mixed()(
        a: u8, b: f32, team in team(), pair: [u16; 2], small: i8, letter: char, gone: u16, open: bool, tuple: (u8, i32),
    ) -> old::Mixed {
        old::Mixed { a, b, team, pair, inner: old::Inner { small, letter, gone }, open, tuple }
    }
}

/// Field by field, as the types say.
fn expected(old: &old::Mixed) -> new::Mixed {
    new::Mixed {
        tuple: (u16::from(old.tuple.0), old.tuple.1),
        inner: new::Inner { fresh: 9, letter: old.inner.letter, wide: i64::from(old.inner.small) },
        skipped: 77,
        b: f64::from(old.b),
        open: old.open,
        more: [1.5, -2.5],
        pair: old.pair,
        team: match old.team {
            old::Team::Red => new::Team::Red,
            old::Team::Blue => new::Team::Blue,
            old::Team::Grey => new::Team::Gray,
        },
        a: f32::from(old.a),
    }
}

/// A save with a value for every second entity, if `sparse`.
fn save<T: Keyed>(rows: &[T], sparse: bool) -> Snapshot {
    let registry = Registry::new().with::<T>().unwrap();
    let mut writer = SnapshotWriter::new(&registry);
    let rows: Vec<Option<&T>> = match sparse {
        true => rows.iter().flat_map(|row| [None, Some(row)]).collect(),
        false => rows.iter().map(Some).collect(),
    };
    let ids: Vec<EntityId> = (0..rows.len() as u32).map(|i| EntityId::new(i, 0)).collect();
    writer.archetype(&ids).unwrap().column_sparse(&rows).unwrap();
    Snapshot::open(&writer.finish().unwrap().to_bytes().unwrap()).unwrap()
}

fn load<T: Keyed>(snapshot: &Snapshot, portable: bool) -> Result<Vec<T>> {
    let registry = Registry::new().with::<T>()?;
    let plan = LoadPlan::new(snapshot, &registry, LoadOptions { portable, ..LoadOptions::default() })?;
    let map = plan.same_entities()?;
    let values = plan.stage(&map, None)?.take_all::<T>(&map);
    Ok(values.into_iter().map(|(_, value)| value).collect())
}

/// The same columns, saved row by row: nothing in them lies where a Rust type would have it.
fn as_rows(snapshot: &Snapshot) -> Snapshot {
    let component = &snapshot.components()[0];
    let mut registry = Registry::new();
    registry
        .add(Descriptor::dynamic(component.key.clone(), (**component.schema().unwrap()).clone()))
        .unwrap();
    let (rows, _) = snapshot.rewritten(&registry, LoadOptions::default()).unwrap();
    let encoding = |snapshot: &Snapshot| {
        let archetype = snapshot.archetypes().next().unwrap();
        archetype.columns().next().unwrap().encoding().to_owned()
    };
    assert_eq!((encoding(snapshot), encoding(&rows)), ("raw".to_owned(), "rows".to_owned()));
    rows
}

fn text<T: std::fmt::Debug>(values: &[T]) -> String {
    format!("{values:?}")
}

proptest! {
    #![proptest_config(config(64))]

    /// Fields move, widen, come, go and get other names; enums are numbered anew.
    #[test]
    fn whole_columns_become_what_single_rows_become(rows in vec(mixed(), 1..60), sparse: bool) {
        let snapshot = save(&rows, sparse);
        let expected: Vec<new::Mixed> = rows.iter().map(expected).collect();
        for snapshot in [&as_rows(&snapshot), &snapshot] {
            for portable in [false, true] {
                // As text, so that all NaNs are equal.
                prop_assert_eq!(text(&load::<new::Mixed>(snapshot, portable).unwrap()), text(&expected));
            }
        }
    }

    #[test]
    fn plain_tuples_grow(rows in vec(any::<(u32, f32)>(), 1..60), sparse: bool) {
        let rows: Vec<old::Plain> = rows.into_iter().map(|(a, b)| old::Plain(a, b)).collect();
        let snapshot = save(&rows, sparse);
        let expected: Vec<new::Plain> = rows.iter().map(|row| new::Plain(i64::from(row.0), row.1, '!')).collect();
        for snapshot in [&as_rows(&snapshot), &snapshot] {
            for portable in [false, true] {
                let loaded = load::<new::Plain>(snapshot, portable).unwrap();
                prop_assert!(loaded.iter().zip(&expected).all(|(a, b)| (a.0, a.1.to_bits(), a.2) == (b.0, b.1.to_bits(), b.2)));
                prop_assert_eq!(loaded.len(), expected.len());
            }
        }
    }

    /// A variant that is gone is refused where it is met, in whole columns too.
    #[test]
    fn gone_variants_are_refused_by_name(teams in vec(team(), 1..20)) {
        let snapshot = save(&teams.iter().map(|team| old::Mood(*team)).collect::<Vec<_>>(), false);
        let expected: Option<Vec<new::Mood>> = (teams.iter())
            .map(|team| match team {
                old::Team::Red => Some(new::Mood(new::Fewer::Red)),
                old::Team::Grey => Some(new::Mood(new::Fewer::Grey)),
                old::Team::Blue => None,
            })
            .collect();
        for snapshot in [&as_rows(&snapshot), &snapshot] {
            for portable in [false, true] {
                match (load::<new::Mood>(snapshot, portable), &expected) {
                    (Ok(loaded), Some(expected)) => prop_assert_eq!(&loaded, expected),
                    (Err(error), None) => {
                        let message = error.to_string();
                        prop_assert!(error.is_schema() && message.contains("test.mood") && message.contains("`Blue`"), "{}", message);
                    }
                    (loaded, _) => prop_assert!(false, "{:?} from {:?}", loaded, teams),
                }
            }
        }
    }
}
