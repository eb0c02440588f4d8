//! What the derive makes of each kind of type: the schema, the column kind, and values that come back.
#![forbid(unsafe_code)] // a game that forbids unsafe code can still derive

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque};
use std::num::{NonZeroI64, NonZeroU8};
use std::ops::{Range, RangeInclusive};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bonfire::engine::*;
use bonfire::inspect::*;
use bonfire::schema::*;
use bonfire::*;

/// Encodes and decodes through the value codec, and checks that the schema describes the same bytes.
fn round_trip<T: Persist>(value: &T) -> T {
    let mut out = Writer::new();
    value.encode(&mut out);
    let bytes = out.finish().unwrap();
    let limits = Limits::default();
    let context = LoadContext::new(&limits);
    let mut input = Reader::new(&bytes, &context);
    let back = T::decode(&mut input).unwrap();
    input.finish().unwrap();

    let schema = Schema::of::<T>();
    assert_eq!(Schema::decode(&schema.to_bytes(), &limits).unwrap(), schema);
    let mut input = Reader::new(&bytes, &context);
    let untyped = decode_value(&schema, Node::ROOT, &mut input).unwrap();
    input.finish().unwrap();
    let mut out = Writer::new();
    encode_value(&schema, Node::ROOT, &untyped, &mut out).unwrap();
    assert_eq!(out.as_bytes(), bytes, "{schema}");
    back
}

fn assert_round_trip<T: Persist + PartialEq + std::fmt::Debug>(value: T) {
    assert_eq!(round_trip(&value), value);
}

fn kind<T: Persist>() -> ColumnKind {
    Descriptor::new::<T>("k").kind()
}

#[derive(Debug, PartialEq, Clone, Copy, Persist)]
struct Position {
    x: f32,
    y: f32,
}

#[derive(Debug, PartialEq, Persist)]
struct Marker;

#[derive(Debug, PartialEq, Clone, Copy, Persist)]
enum Team {
    Red,
    Green,
    Blue,
}

#[derive(Debug, PartialEq, Clone, Copy, Persist)]
struct Mixed {
    alive: bool,
    team: Team,
    level: u16,
    position: Position,
    letter: char,
    lives: NonZeroU8,
    grid: [u8; 7],
}

#[derive(Debug, PartialEq, Persist)]
struct Padded(u8, u64);

#[derive(Debug, PartialEq, Persist)]
struct Flashing {
    power: f32,
    #[persist(skip, default = 7)]
    frames: u32,
    #[persist(skip)]
    cache: Vec<u8>,
}

#[derive(Debug, PartialEq, Persist)]
enum Action {
    Idle,
    Walk(f32, f32),
    Say { text: String, to: Option<EntityId> },
    Both(Box<Action>, Box<Action>),
}

#[derive(Debug, PartialEq, Persist)]
struct Tree {
    value: i32,
    children: Vec<Tree>,
    next: Option<Box<Tree>>,
}

#[derive(Debug, PartialEq, Persist)]
struct Wrapper<T, const N: usize> {
    inner: [T; N],
    r#type: T,
}

#[derive(Debug, PartialEq, Persist)]
struct Foreign {
    #[persist(with = AsText)]
    address: std::net::Ipv4Addr,
    hp: f32,
}

#[test]
fn kinds_are_chosen_by_the_type() {
    assert_eq!(kind::<Marker>(), ColumnKind::Tag);
    assert_eq!(kind::<()>(), ColumnKind::Tag);
    assert_eq!(kind::<Position>(), ColumnKind::Plain);
    assert_eq!(kind::<Team>(), ColumnKind::Plain);
    assert_eq!(kind::<(u32, f32)>(), ColumnKind::Plain);
    assert_eq!(kind::<[Position; 4]>(), ColumnKind::Plain);
    assert_eq!(kind::<Padded>(), ColumnKind::Strided);
    assert_eq!(kind::<Mixed>(), ColumnKind::Plain, "{:?}", Descriptor::new::<Mixed>("k").row_layout());
    assert_eq!(kind::<Flashing>(), ColumnKind::Strided);
    assert_eq!(kind::<Action>(), ColumnKind::Rows);
    assert_eq!(kind::<Tree>(), ColumnKind::Rows);
    assert_eq!(kind::<Option<f32>>(), ColumnKind::Rows);
    assert_eq!(kind::<EntityId>(), ColumnKind::Rows);
    assert_eq!(kind::<[f32; 40]>(), ColumnKind::Plain);
    assert_eq!(
        Descriptor::custom("k", |p: &Position, _| Ok(Some(p.x)), |_, _| Ok(None)).kind(),
        ColumnKind::Custom
    );
    assert_eq!(Descriptor::serde::<String>("k").kind(), ColumnKind::Value);
}

#[test]
fn schemas_say_what_is_saved() {
    assert_eq!(Schema::of::<Flashing>().to_string(), "{power: f32}");
    assert_eq!(Schema::of::<Tree>().to_string(), "{value: i32, children: [self], next: self?}");
    assert_eq!(Schema::of::<Team>().to_string(), "Red | Green | Blue");
    assert_eq!(
        Schema::of::<Action>().to_string(),
        "Idle | Walk(f32, f32) | Say{text: text, to: entity?} | Both(self, self)"
    );
    assert_eq!(Schema::of::<Wrapper<u8, 2>>().to_string(), "{inner: [u8; 2], type: u8}");
    assert_eq!(Schema::of::<Foreign>().to_string(), "{address: text, hp: f32}");
    assert_eq!(Schema::of::<HashMap<u8, Duration>>().to_string(), "map[u8 -> {secs: u64, nanos: u32}]");
}

#[test]
fn values_come_back() {
    assert_round_trip(Marker);
    assert_round_trip(Position { x: -0.0, y: f32::MAX });
    assert_round_trip([Team::Red, Team::Green, Team::Blue]);
    assert_round_trip(Mixed {
        alive: true,
        team: Team::Blue,
        level: 9,
        position: Position { x: 1.0, y: 2.0 },
        letter: '\u{1f525}',
        lives: NonZeroU8::new(3).unwrap(),
        grid: [1, 2, 3, 4, 5, 6, 7],
    });
    assert_round_trip(Padded(1, 2));
    assert_round_trip(Action::Both(
        Box::new(Action::Walk(1.0, 2.0)),
        Box::new(Action::Say { text: "hi \0".into(), to: Some(EntityId::new(3, 1)) }),
    ));
    assert_round_trip(Action::Idle);
    let leaf = |value| Tree { value, children: vec![], next: None };
    assert_round_trip(Tree { value: 1, children: vec![leaf(2), leaf(3)], next: Some(Box::new(leaf(4))) });
    assert_round_trip(Wrapper { inner: ["a".to_owned(), "b".to_owned()], r#type: "c".to_owned() });
    assert_round_trip(Foreign { address: [127, 0, 0, 1].into(), hp: 3.0 });
    let back = round_trip(&Flashing { power: 2.0, frames: 1, cache: vec![1] });
    assert_eq!(back, Flashing { power: 2.0, frames: 7, cache: vec![] });
}

#[test]
fn the_standard_library_comes_back() {
    assert_round_trip((u8::MAX, u16::MAX, u32::MAX, u64::MAX, u128::MAX, usize::MAX));
    assert_round_trip((i8::MIN, i16::MIN, i32::MIN, i64::MIN, i128::MIN, isize::MIN));
    assert_round_trip((f32::MIN_POSITIVE, f64::MAX, true, 'x', NonZeroI64::new(-1)));
    assert_round_trip((
        String::from("text"),
        Box::<str>::from("b"),
        Arc::<str>::from("a"),
        Rc::<str>::from("r"),
    ));
    assert_round_trip((Cow::Borrowed("cow"), Cow::<[u16]>::Borrowed(&[1, 2])));
    assert_round_trip((vec![1_u8, 2], VecDeque::from([1_u32, 2]), LinkedList::from([true, false])));
    assert_round_trip((
        Box::<[f32]>::from([1.0]),
        Arc::<[Team]>::from([Team::Red]),
        [String::from("x"), String::new()],
    ));
    assert_round_trip((BTreeMap::from([(3, 'c'), (1, 'a')]), HashMap::from([(String::from("k"), vec![()])])));
    assert_round_trip((BTreeSet::from([-1_i8, 1]), HashSet::<u64>::from_iter(0..100)));
    assert_round_trip((Some(Some(3)), None::<u8>, Ok::<u8, String>(1), Err::<u8, String>("no".into())));
    assert_round_trip((Duration::new(5, 999_999_999), 1..5, 2..=6_u8));
    assert_round_trip::<(Range<i64>, RangeInclusive<char>)>((-1..1, 'a'..='z'));
    assert_round_trip((std::num::Wrapping(3_u8), std::cmp::Reverse(4), std::cmp::Ordering::Less));
    assert_round_trip((
        Box::new(1),
        Rc::new(2),
        Arc::new(3),
        std::cell::RefCell::new(4),
        std::cell::Cell::new(5),
    ));
    assert_round_trip((std::marker::PhantomData::<String>, ()));
    assert_eq!(round_trip(&BinaryHeap::from([3, 1, 2])).into_sorted_vec(), [1, 2, 3]);
    assert!(round_trip(&f64::from_bits(0x7ff8_dead_beef_0001)).to_bits() == 0x7ff8_dead_beef_0001);
}

#[test]
fn maps_are_written_in_one_order_whatever_their_history() {
    let bytes = |map: &HashMap<u32, u8>| {
        let mut out = Writer::new();
        map.encode(&mut out);
        out.finish().unwrap()
    };
    let forward: HashMap<u32, u8> = (0..1000).map(|i| (i, i as u8)).collect();
    let backward: HashMap<u32, u8> = (0..1000).rev().map(|i| (i, i as u8)).collect();
    assert_eq!(bytes(&forward), bytes(&backward));
}

#[test]
fn values_that_a_type_does_not_have_are_refused() {
    let limits = Limits::default();
    let context = LoadContext::new(&limits);
    fn decode<T: Persist>(bytes: &[u8], context: &LoadContext<'_>) -> Error {
        T::decode(&mut Reader::new(bytes, context)).err().expect("refused")
    }
    assert!(decode::<bool>(&[2], &context).is_corrupt());
    assert!(decode::<char>(&[0, 0xd8, 0, 0], &context).is_corrupt());
    assert!(decode::<NonZeroU8>(&[0], &context).is_corrupt());
    assert!(decode::<Team>(&[3], &context).is_corrupt());
    assert!(decode::<Vec<bool>>(&[2, 0, 2], &context).is_corrupt());
    assert!(decode::<Vec<Team>>(&[1, 9], &context).is_corrupt());
    assert!(decode::<String>(&[2, 0xff, 0xfe], &context).is_corrupt());
    assert!(decode::<BTreeSet<u8>>(&[2, 5, 5], &context).is_corrupt());
    assert!(decode::<Duration>(&[0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], &context).is_corrupt());
    assert!(decode::<Vec<u64>>(&[0xff, 0xff, 0xff, 0xff, 0x0f], &context).is_corrupt());
    let error = decode::<Vec<Action>>(&[1, 1, 0, 0], &context);
    assert_eq!(error.to_string(), "`0.Walk.0`: 4 bytes expected, 2 left (byte 2)");
}

#[test]
fn recursion_is_bounded_when_saving() {
    let mut tree = Tree { value: 0, children: vec![], next: None };
    for value in 0..200 {
        tree = Tree { value, children: vec![], next: Some(Box::new(tree)) };
    }
    let mut out = Writer::new();
    tree.encode(&mut out);
    assert!(out.finish().unwrap_err().is_limit());
}

#[test]
fn aliases_and_defaults_are_in_the_rules() {
    #[derive(Persist)]
    struct Health {
        #[persist(alias = "hp", alias = "life")]
        current: f32,
        #[persist(default = 100.0)]
        max: f32,
        #[persist(default)]
        name: String,
        armour: NoDefault,
    }
    #[derive(Persist)]
    struct NoDefault(u8);
    let schema = Schema::of::<Health>();
    let Type::Struct(fields) = schema.root() else { panic!("a struct") };
    assert!(fields[0].rules.aliases.is_empty(), "rules are not part of what is saved");
    let Type::Struct(fields) = &schema.ruled_nodes()[0] else { panic!("a struct") };
    assert_eq!(fields[0].rules.aliases, ["hp", "life"]);
    // A type that has a default need not say so; one that has none cannot.
    let mut zero = Writer::new();
    fields[0].rules.default.as_ref().unwrap().write(&mut zero);
    assert_eq!(zero.as_bytes(), [0; 4]);
    assert!(fields[3].rules.default.is_none());
    let mut out = Writer::new();
    fields[1].rules.default.as_ref().unwrap().write(&mut out);
    fields[2].rules.default.as_ref().unwrap().write(&mut out);
    assert_eq!(out.as_bytes(), [&100.0_f32.to_le_bytes()[..], &[0]].concat());
}

#[test]
fn fingerprints_depend_on_fields_and_not_on_names_of_types() {
    #[derive(Persist)]
    struct Other {
        x: f32,
        y: f32,
    }
    #[derive(Persist)]
    struct Swapped {
        y: f32,
        x: f32,
    }
    let of = |schema: Schema| schema.fingerprint();
    assert_eq!(of(Schema::of::<Position>()), of(Schema::of::<Other>()));
    assert_ne!(of(Schema::of::<Position>()), of(Schema::of::<Swapped>()));
    assert_eq!(of(Schema::of::<(Position, Other)>()), of(Schema::of::<(Other, Position)>()));
    let difference = Schema::of::<Position>().difference(&Schema::of::<Padded>()).unwrap();
    assert_eq!(difference, "the save has {x: f32, y: f32}, this build has (u8, u64)");
}

/// A type that can be counted, without bytes of its own.
#[derive(Debug, PartialEq)]
struct Counted;

static ALIVE: std::sync::atomic::AtomicI64 = std::sync::atomic::AtomicI64::new(0);

impl Default for Counted {
    fn default() -> Self {
        ALIVE.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Self
    }
}
impl Drop for Counted {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[derive(Debug, PartialEq, Persist)]
#[persist(key = "counting")]
struct Counting {
    number: u32,
    #[persist(skip)]
    counted: Counted,
}

/// Loads one entity's component through the bulk path.
fn through_a_column<T: Keyed>(value: T, portable: bool) -> T {
    let mut registry = Registry::new();
    registry.register::<T>().unwrap();
    let mut writer = SnapshotWriter::new(&registry);
    writer.archetype(&[EntityId::new(0, 0)]).unwrap().column(&[value]).unwrap();
    let bytes = writer.finish().unwrap().encode(&EncodeOptions::default()).unwrap().to_vec();
    let snapshot = Snapshot::open(&bytes).unwrap();
    let options = LoadOptions { portable, ..LoadOptions::default() };
    let plan = LoadPlan::new(&snapshot, &registry, options).unwrap();
    let mut staged = plan.stage(&EntityMap::identity(&plan.entities()).unwrap(), None).unwrap();
    staged.archetypes[0].take::<T>().unwrap().into_rows::<T>().unwrap().remove(0)
}

#[test]
fn skipped_fields_without_bytes_are_made_too() {
    for portable in [false, true] {
        let loaded = through_a_column(Counting { number: 7, counted: Default::default() }, portable);
        assert_eq!(loaded.number, 7);
        drop(loaded);
        assert_eq!(ALIVE.load(std::sync::atomic::Ordering::Relaxed), 0);
    }
}

/// Saves a whole type as itself, with its layout.
struct AsItself;

impl Adapter<Inner> for AsItself {
    type Saved = u32;
    const LAYOUT: LayoutOf<Inner> = <Inner as Persist>::LAYOUT;
    fn save(value: &Inner) -> Result<u32> {
        Ok(value.number)
    }
    fn load(saved: u32, _: &LoadContext<'_>) -> Result<Inner> {
        Ok(Inner { number: saved, text: Inner::text() })
    }
}

#[derive(Debug, PartialEq, Persist)]
struct Inner {
    number: u32,
    #[persist(skip, default = Inner::text())]
    text: String,
}

impl Inner {
    fn text() -> String {
        "made anew".to_owned()
    }
}

#[derive(Debug, PartialEq, Persist)]
#[persist(key = "outer")]
struct Outer {
    #[persist(with = AsItself)]
    inner: Inner,
    nested: (u8, Inner),
}

#[test]
fn a_layout_brings_along_what_completes_it() {
    let inner = |text: &str| Inner { number: 3, text: text.to_owned() };
    for portable in [false, true] {
        let loaded = through_a_column(Outer { inner: inner("a"), nested: (1, inner("b")) }, portable);
        assert_eq!(loaded, Outer { inner: inner("made anew"), nested: (1, inner("made anew")) });
    }
}

#[test]
fn bounds_can_be_given() {
    struct NotSaved;
    #[derive(Persist)]
    #[persist(key = "handle", bound = "A: 'static")]
    struct Handle<A> {
        id: u32,
        of: std::marker::PhantomData<A>,
    }
    let handle = Handle::<NotSaved> { id: 3, of: std::marker::PhantomData };
    assert_eq!(through_a_column(handle, false).id, 3);
}

#[test]
fn default_expressions_cannot_leave_or_capture() {
    fn input() -> f32 {
        2.5
    }
    fn row() -> f32 {
        input()
    }
    #[derive(Debug, PartialEq, Persist)]
    #[persist(key = "careful")]
    struct Careful {
        number: u16,
        #[persist(skip, default = input())]
        a: f32,
        #[persist(skip, default = row())]
        b: f32,
        #[persist(skip, default = { if input() > 0.0 { return Vec::new() } vec![7] })]
        c: Vec<u8>,
    }
    let loaded = through_a_column(Careful { number: 1, a: 0.0, b: 0.0, c: vec![1] }, false);
    assert_eq!(loaded, Careful { number: 1, a: 2.5, b: 2.5, c: vec![] });
}

#[test]
fn whatever_can_be_saved_can_be_loaded_however_deep() {
    #[derive(Debug, PartialEq, Persist)]
    enum Chain {
        Nil,
        Cons(Box<Chain>),
    }
    #[derive(Debug, PartialEq, Persist)]
    struct Link {
        dense: [f32; 3],
        list: Vec<u16>,
        teams: Vec<Team>,
        next: Option<Box<Link>>,
    }
    for depth in 0..140 {
        let chain = (0..depth).fold(Chain::Nil, |chain, _| Chain::Cons(Box::new(chain)));
        let link = |next| Link { dense: [1.0; 3], list: vec![1], teams: vec![Team::Red], next };
        let links = (0..depth).fold(link(None), |next, _| link(Some(Box::new(next))));
        let mut out = Writer::new();
        chain.encode(&mut out);
        if out.finish().is_ok() {
            assert_round_trip(chain);
        }
        let mut out = Writer::new();
        links.encode(&mut out);
        if out.finish().is_ok() {
            assert_round_trip(links);
        }
    }
}
