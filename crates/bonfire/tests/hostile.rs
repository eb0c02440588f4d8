//! Files with right checksums around wrong content: refused with a clear error, in bounded time and memory.

use bonfire::engine::*;
use bonfire::schema::*;
use bonfire::*;
use bonfire_testkit::raw::{RawSection, mend_header, raw_file, sections_of};
use bonfire_testkit::scale;

const METADATA: u16 = 1;
const PRELUDE: u16 = 2;
const SCHEMAS: u16 = 3;
const COLUMNS: u16 = 4;
const DATA: u16 = 5;

fn refused(sections: &[RawSection]) -> Error {
    let file = raw_file(sections);
    // Salvage looks at the same bytes and must end, too.
    let _ = Snapshot::options().salvage().open(&file);
    Snapshot::open(&file).expect_err("a hostile file")
}

/// A file with this prelude (after version, next id and entity count), schemas and columns.
fn refused_prelude(
    entities: u64,
    prelude: impl FnOnce(&mut Writer),
    schemas: &[u8],
    columns: &[u8],
) -> Error {
    let mut out = Writer::new();
    out.u16(1);
    out.u64(0);
    out.varint(entities);
    prelude(&mut out);
    refused(&[
        RawSection::new(METADATA, 0, &[0]),
        RawSection::new(PRELUDE, 1, out.as_bytes()),
        RawSection::new(SCHEMAS, 1, schemas),
        RawSection::new(COLUMNS, 1, columns),
    ])
}

/// A component `game.x` with this schema and no raw layout.
fn component(out: &mut Writer, schema: &Schema) -> Vec<u8> {
    out.varint(1);
    out.text("game.x");
    out.varint(1);
    out.u8(3);
    out.u8(1);
    out.raw(&schema.fingerprint().0);
    out.varint(0);
    let mut schemas = Writer::new();
    schemas.varint(1);
    schemas.raw(&schema.fingerprint().0);
    schemas.blob(&schema.to_bytes());
    schemas.finish().unwrap()
}

/// A file with one entity that has one encoded value of this schema.
fn file_with_value(schema: &Schema, value: &[u8]) -> Vec<u8> {
    let mut out = Writer::new();
    out.u16(1);
    out.u64(0);
    out.varint(1);
    let schemas = component(&mut out, schema);
    out.raw(&[0, 1, 1, 0, 8, 1, 0, 2, 1, 1]); // no shared tables; one archetype, one row, ids at 0; column 0, rows
    out.varint(value.len() as u64);
    out.varint(8);
    out.varint(value.len() as u64);
    out.raw(&[0, 0]); // no resources, no extensions
    raw_file(&[
        RawSection::new(METADATA, 0, &[0]),
        RawSection::new(PRELUDE, 1, out.as_bytes()),
        RawSection::new(SCHEMAS, 1, &schemas),
        RawSection::new(COLUMNS, 1, &[&[0; 8], value].concat()),
    ])
}

#[test]
fn a_file_put_together_by_hand_is_fine() {
    let file = file_with_value(&Schema::of::<String>(), b"\x02hi");
    let snapshot = Snapshot::open(&file).unwrap();
    let column = snapshot.archetypes().next().unwrap().column("game.x").unwrap();
    assert_eq!(column.values(&Limits::default()).unwrap(), [Some(Value::from("hi"))]);
}

#[test]
fn huge_counts_are_refused_before_they_cost_anything() {
    let huge = u64::from(u32::MAX) - 1;
    let error = refused_prelude(huge, |out| out.raw(&[0, 0, 0, 0]), &[0], &[]);
    assert!(error.to_string().contains("0 entities in archetypes"), "{error}");
    assert!(refused_prelude(0, |out| out.varint(1 << 40), &[0], &[]).is_limit());
    assert!(refused_prelude(0, |out| out.varint(huge), &[0], &[]).is_limit());
    // An archetype that claims a billion rows has the bytes of none.
    let claim = |out: &mut Writer| {
        out.raw(&[0, 0, 1]);
        out.varint(1 << 30);
        out.raw(&[0, 8, 0, 0]);
    };
    assert!(refused_prelude(1 << 30, claim, &[0], &[0; 8]).is_corrupt());
    assert!(
        refused_prelude(0, |out| out.raw(&[0, 0, 0, 0]), &[0xff, 0xff, 0xff, 0xff, 0x0f], &[]).is_limit()
    );
    // Lists inside values.
    let list = Schema::of::<Vec<u64>>();
    let snapshot = Snapshot::open(&file_with_value(&list, &[0xff, 0xff, 0xff, 0xff, 0x0f])).unwrap();
    let column = snapshot.archetypes().next().unwrap().column("game.x").unwrap();
    assert!(column.values(&Limits::default()).unwrap_err().is_corrupt());
}

#[test]
fn a_million_empty_sections_are_refused() {
    let empty = vec![RawSection::new(999, 0, &[]); 50_000 * scale().min(20) as usize];
    let sections = [vec![RawSection::new(METADATA, 0, &[0])], empty].concat();
    assert!(refused(&sections).is_limit());
}

#[test]
fn deep_nesting_ends_at_the_limit() {
    // [[[[..]]]]: one byte per level.
    let mut types = SchemaBuilder::new();
    let node =
        types.define::<()>(|types| Type::List(types.define::<()>(|_| unreachable!("it is being defined"))));
    let recursive = types.finish(node);
    assert_eq!(recursive.to_string(), "[self]");
    let snapshot = Snapshot::open(&file_with_value(&recursive, &[1; 100_000])).unwrap();
    let column = snapshot.archetypes().next().unwrap().column("game.x").unwrap();
    assert!(column.values(&Limits::default()).unwrap_err().is_limit());
    assert!(snapshot.to_json().unwrap_err().is_limit());
    assert!(snapshot.canonical().unwrap_err().is_limit());
    // A chain of 60,000 nodes is a valid schema; describing and measuring it does not recurse that deep.
    let mut types = SchemaBuilder::new();
    let mut node = types.add(Type::U8);
    for _ in 0..60_000 {
        node = types.add(Type::Option(node));
    }
    let chain = types.finish(node);
    assert!(chain.to_string().len() < 1000);
    assert!(Snapshot::open(&file_with_value(&chain, &[0])).is_ok());
}

#[test]
fn values_without_bytes_cannot_be_endless_work() {
    // Each struct holds the next one twice: 2^60 units, no bytes.
    let mut types = SchemaBuilder::new();
    let mut node = types.add(Type::Unit);
    for _ in 0..60 {
        node = types.add(Type::tuple([node, node]));
    }
    let snapshot = Snapshot::open(&file_with_value(&types.finish(node), &[])).unwrap();
    let column = snapshot.archetypes().next().unwrap().column("game.x").unwrap();
    assert!(column.values(&Limits::default()).unwrap_err().is_limit());
    assert!(snapshot.to_json().unwrap_err().is_limit());
    let units = Schema::of::<Vec<Vec<()>>>();
    let many = [&[100][..], &[0xff, 0xff, 0x3f].repeat(100)].concat();
    let snapshot = Snapshot::open(&file_with_value(&units, &many)).unwrap();
    let column = snapshot.archetypes().next().unwrap().column("game.x").unwrap();
    assert!(column.values(&Limits::default()).is_err());
}

#[test]
fn compression_bombs_are_refused_by_what_they_claim() {
    // LZ4 of zeros: 64 KiB in under 300 bytes, times 10,000 is 640 MB: over the limit that the reader set.
    let block = lz4_flex::block::compress(&vec![0; 64 << 10]);
    assert!(block.len() < 300);
    let bomb =
        RawSection { kind: COLUMNS, flags: 1, codec: 1, blocks: vec![(64 << 10, block.clone()); 10_000] };
    let file = raw_file(&[RawSection::new(METADATA, 0, &[0]), bomb]);
    assert!(file.len() < 4 << 20);
    let limits = Limits { raw_bytes_max: 100 << 20, ..Limits::default() };
    assert!(Snapshot::options().limits(limits).open(&file).unwrap_err().is_limit());
    // A block that holds more than it says, or less.
    for claimed in [100, 65_535] {
        let section = RawSection {
            kind: COLUMNS,
            flags: 1,
            codec: 1,
            blocks: vec![(claimed, block[..50.min(claimed as usize)].to_vec())],
        };
        assert!(refused(&[RawSection::new(METADATA, 0, &[0]), section]).is_corrupt());
    }
    let section = RawSection { kind: COLUMNS, flags: 1, codec: 9, blocks: vec![(200, vec![0; 100])] };
    assert!(refused(&[RawSection::new(METADATA, 0, &[0]), section]).is_newer_format());
}

#[test]
fn invalid_text_is_refused() {
    let bad = |out: &mut Writer| {
        out.varint(1);
        out.blob(&[0xff, 0xfe]);
    };
    let error = refused_prelude(0, bad, &[0], &[]);
    assert!(error.is_corrupt() && error.to_string().contains("UTF-8"), "{error}");
    let snapshot = Snapshot::open(&file_with_value(&Schema::of::<String>(), &[2, 0xc3, 0x28])).unwrap();
    let column = snapshot.archetypes().next().unwrap().column("game.x").unwrap();
    assert!(column.values(&Limits::default()).unwrap_err().to_string().contains("UTF-8"));
}

#[test]
fn overlapping_columns_and_sections_are_refused() {
    // Two archetypes whose ids lie at the same place.
    let twice = |out: &mut Writer| out.raw(&[0, 0, 2, 1, 0, 8, 0, 1, 0, 8, 0, 0]);
    let error = refused_prelude(2, twice, &[0], &[0; 8]);
    assert!(error.to_string().contains("overlaps"), "{error}");
    let outside = |out: &mut Writer| out.raw(&[0, 0, 1, 1, 8, 8, 0, 0]);
    let error = refused_prelude(1, outside, &[0], &[0; 8]);
    assert!(error.to_string().contains("outside"), "{error}");

    // A footer that describes sections in another way than they lie.
    let good = raw_file(&sections_of(&encoded()));
    assert!(Snapshot::open(&good).is_ok());
    let footer = u64::from_le_bytes(good[24..32].try_into().unwrap()) as usize;
    let mut bytes = good.clone();
    let entry = footer + 64 + 4 + 8; // the offset of the first section
    bytes[entry..entry + 8].copy_from_slice(&128_u64.to_le_bytes());
    let content_len = u64::from_le_bytes(bytes[footer + 8..footer + 16].try_into().unwrap()) as usize;
    let content = bytes[footer + 64..footer + 64 + content_len].to_vec();
    bytes.truncate(footer);
    let sections = sections_of(&good);
    assert!(!sections.is_empty());
    let mut file = raw_file(&sections)[..footer].to_vec();
    let tail = raw_file(&[RawSection::new(7, 1, &content)]);
    file.extend_from_slice(&tail[64..64 + 64 + content_len.next_multiple_of(64)]);
    mend_header(&mut file, footer as u64);
    assert!(Snapshot::open(&file).unwrap_err().is_corrupt());
    // The same section twice, and a copy that says something else.
    let doubled = [sections.clone(), sections[1..2].to_vec()].concat();
    assert!(refused(&doubled).to_string().contains("twice"));
    let mut forged = sections;
    let copy = forged.iter_mut().rfind(|section| section.kind == PRELUDE && section.flags & 2 != 0).unwrap();
    copy.blocks[0].1[3] ^= 1;
    assert!(refused(&forged).to_string().contains("differs"));
}

fn encoded() -> Vec<u8> {
    let registry = Registry::new();
    let mut writer = SnapshotWriter::new(&registry);
    writer.archetype(&[EntityId::new(1, 0)]).unwrap();
    writer.data("some.data", &5_u8).unwrap();
    writer.finish().unwrap().encode(&EncodeOptions::default()).unwrap().to_vec()
}

#[test]
fn forged_schemas_and_layouts_are_refused() {
    // A fingerprint that is not that of the schema.
    let forged = |out: &mut Writer| {
        component(out, &Schema::of::<u32>());
        out.raw(&[0, 0, 0]);
    };
    let mut schemas = Writer::new();
    schemas.varint(1);
    schemas.raw(&Schema::of::<u32>().fingerprint().0);
    schemas.blob(&Schema::of::<u64>().to_bytes());
    let error = refused_prelude(0, forged, schemas.as_bytes(), &[]);
    assert!(error.to_string().contains("fingerprint"), "{error}");
    // Raw rows of a type that has none, and leaves outside of their row.
    for (schema, stride, offsets) in [
        (Schema::of::<String>(), 8, vec![0]),
        (Schema::of::<(u32, u32)>(), 8, vec![0, 5]),
        (Schema::of::<(u32, u32)>(), 8, vec![0]),
        (Schema::of::<EntityId>(), 8, vec![0]),
        (Schema::of::<()>(), 4, vec![]),
        (Schema::of::<([u8; 64], [u8; 64])>(), 64, vec![0, 0]),
    ] {
        let row = RowLayout { stride, offsets };
        let mut schemas = Writer::new();
        schemas.varint(1);
        schemas.raw(&schema.fingerprint().0);
        schemas.blob(&schema.to_bytes());
        let prelude = |out: &mut Writer| {
            out.varint(1);
            out.text("game.x");
            out.raw(&[1, 1, 1]);
            out.raw(&schema.fingerprint().0);
            out.varint(u64::from(row.stride));
            out.varint(row.offsets.len() as u64);
            row.offsets.iter().for_each(|offset| out.varint(u64::from(*offset)));
            out.raw(&row.fingerprint(schema.fingerprint()).0);
            out.raw(&[0, 0, 0]);
        };
        let error = refused_prelude(0, prelude, schemas.as_bytes(), &[]);
        assert!(error.is_corrupt() && error.key() == Some("game.x"), "{error}");
    }
}

#[test]
fn raw_values_that_a_type_does_not_have_never_reach_it() {
    #[derive(Clone, Copy, Persist)]
    #[persist(key = "game.flag")]
    struct Flag(bool);
    let mut registry = Registry::new();
    registry.register::<Flag>().unwrap();
    let mut writer = SnapshotWriter::new(&registry);
    writer.archetype(&[EntityId::new(0, 0)]).unwrap().column(&[Flag(true)]).unwrap();
    let good = writer.finish().unwrap().encode(&EncodeOptions::default()).unwrap().to_vec();
    let mut sections = sections_of(&good);
    let columns = sections.iter_mut().find(|section| section.kind == COLUMNS).unwrap();
    let last = columns.blocks[0].1.len() - 1;
    assert_eq!(columns.blocks[0].1[last], 1);
    columns.blocks[0].1[last] = 2;
    let snapshot = Snapshot::open(&raw_file(&sections)).unwrap();
    assert!(snapshot.archetypes().next().unwrap().column("game.flag").unwrap().as_slice::<Flag>().is_none());
    for portable in [false, true] {
        let options = LoadOptions { portable, ..LoadOptions::default() };
        let plan = LoadPlan::new(&snapshot, &registry, options).unwrap();
        let error = plan.stage(&EntityMap::identity(&plan.entities()).unwrap(), None).err().unwrap();
        assert!(error.is_corrupt() && error.key() == Some("game.flag"), "{error}");
    }
}

#[test]
fn bad_data_sections_are_refused() {
    let good = sections_of(&encoded());
    let replaced = |content: &[u8]| {
        let mut sections: Vec<RawSection> =
            good.iter().filter(|section| section.kind != DATA).cloned().collect();
        sections.insert(4, RawSection::new(DATA, 0, content));
        refused(&sections)
    };
    assert!(replaced(&u64::MAX.to_le_bytes()).is_corrupt());
    assert!(replaced(&[1, 0, 0, 0, 0, 0, 0, 0, 200]).is_corrupt());
    assert!(replaced(&[0, 0, 0, 0, 0, 0, 0, 0]).is_corrupt());
    assert!(replaced(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 7]).is_corrupt());
}

#[test]
fn room_for_later_is_passed_over_unless_it_must_not_be() {
    let good = sections_of(&encoded());
    let with_extension = |kind: u16| {
        let mut sections = good.clone();
        for section in sections.iter_mut().filter(|section| section.kind == PRELUDE) {
            let content = &mut section.blocks[0].1;
            content.pop();
            content.push(1);
            content.extend(kind.to_le_bytes());
            content.extend([3, 1, 2, 3]);
            section.blocks[0].0 = content.len() as u32;
        }
        Snapshot::open(&raw_file(&sections))
    };
    assert_eq!(with_extension(5).unwrap().entity_count(), 1);
    assert!(with_extension(0x8005).unwrap_err().is_newer_format());
    // Flags that this version does not know may change what follows.
    let flagged = |out: &mut Writer| {
        out.varint(1);
        out.text("game.x");
        out.raw(&[1, 3, 2]);
    };
    assert!(refused_prelude(0, flagged, &[0], &[]).is_newer_format());
}

#[test]
fn schemas_that_make_no_sense_are_refused() {
    let decode = |bytes: &[u8]| Schema::decode(bytes, &Limits::default());
    let structure = |names: [&str; 2], node: u8| {
        let mut out = Writer::new();
        out.raw(&[2, 38, 2]);
        for name in names {
            out.text(name);
            out.u8(node);
        }
        out.u8(2);
        out.finish().unwrap()
    };
    assert_eq!(decode(&structure(["a", "b"], 1)).unwrap().to_string(), "{a: u8, b: u8}");
    assert!(decode(&structure(["a", "a"], 1)).unwrap_err().to_string().contains("there twice"));
    assert!(decode(&structure(["a", ""], 1)).unwrap_err().to_string().contains("empty"));
    assert!(decode(&structure(["a", "b"], 2)).unwrap_err().to_string().contains("schema node 2 of 2"));
    assert!(decode(&[0]).unwrap_err().is_corrupt());
    assert!(decode(&[1, 39, 0]).unwrap_err().to_string().contains("no variants"));
    assert!(decode(&[1, 2, 2]).unwrap_err().to_string().contains("left over"));
    assert!(decode(&[1, 200]).unwrap_err().is_newer_format());
}

#[test]
fn a_dictionary_has_no_more_values_than_bytes() {
    let prelude = |out: &mut Writer| {
        component(out, &Schema::of::<()>());
        out.raw(&[0, 1, 1, 0, 8, 1, 0, 3]); // one archetype of one row; its column is a dictionary
        out.varint(1);
        out.varint(100_000_000);
        out.raw(&[0, 8, 0, 1, 8, 1, 0, 0]);
    };
    let mut schemas = Writer::new();
    let mut ignored = Writer::new();
    schemas.raw(&component(&mut ignored, &Schema::of::<()>()));
    let error = refused_prelude(1, prelude, schemas.as_bytes(), &[0; 9]);
    assert!(error.to_string().contains("distinct values"), "{error}");
}

#[test]
fn many_archetypes_and_components_take_linear_time() {
    // Quadratic work would make these take minutes.
    let mut registry = Registry::new();
    registry.add(Descriptor::new::<String>("game.name").repeats(Repeats::Shared)).unwrap();
    let mut writer = SnapshotWriter::new(&registry);
    for index in 0..30_000 {
        let mut archetype = writer.archetype(&[EntityId::new(index, 0)]).unwrap();
        archetype.column(&[format!("name {index}")]).unwrap();
    }
    let snapshot = writer.finish().unwrap();
    let plan = LoadPlan::new(&snapshot, &registry, LoadOptions::default()).unwrap();
    plan.stage(&EntityMap::identity(&plan.entities()).unwrap(), None).unwrap();

    let mut registry = Registry::new();
    for number in 0..10_000 {
        registry.add(Descriptor::dynamic(format!("mod.{number}"), Schema::of::<u8>())).unwrap();
    }
    let mut writer = SnapshotWriter::new(&registry);
    let mut archetype = writer.archetype(&[EntityId::new(0, 0)]).unwrap();
    for number in 0..2_000 {
        archetype.column_by_key(&format!("mod.{number}"), &[Value::U64(1)]).unwrap();
    }
    let snapshot = writer.finish().unwrap();
    let nothing = Registry::new();
    let plan = LoadPlan::new(&snapshot, &nothing, LoadOptions::default()).unwrap();
    let staged = plan.stage(&EntityMap::identity(&plan.entities()).unwrap(), None).unwrap();
    assert_eq!(staged.carry.component_rows().len(), 2_000);
}

#[test]
fn a_schema_that_doubles_is_no_endless_conversion() {
    #[derive(Default, Persist)]
    #[persist(key = "game.x")]
    struct Tree {
        left: Option<Box<Tree>>,
        right: Option<Box<Tree>>,
    }
    // Each struct holds the next one twice, and nothing has any bytes. Of each, a game's tree would have two branches.
    let mut types = SchemaBuilder::new();
    let mut node = types.add(Type::Struct(Fields::default()));
    for _ in 0..60 {
        node = types.add(Type::Struct(vec![Field::new("left", node), Field::new("right", node)].into()));
    }
    let snapshot = Snapshot::open(&file_with_value(&types.finish(node), &[])).unwrap();
    let registry = Registry::new().with::<Tree>().unwrap();
    let limits = Limits { empty_elements_max: 1000, ..Limits::default() };
    let options = LoadOptions { limits: Some(limits), ..LoadOptions::default() };
    let plan = LoadPlan::new(&snapshot, &registry, options).unwrap();
    let map = plan.same_entities().unwrap();
    assert!(plan.stage(&map, None).map(drop).unwrap_err().is_limit());
    let _ = (Tree::default().left.is_some(), Tree::default().right.is_some());
}

#[test]
fn differences_in_very_many_places_are_not_all_listed() {
    // Structs with a thousand fields that nobody knows, each used twice by the one around it.
    let mut types = SchemaBuilder::new();
    let byte = types.add(Type::U8);
    let unknown = || (0..1000).map(|i| Field::new(format!("unknown_{i}"), byte));
    let mut node = types.add(Type::Struct(unknown().collect()));
    for _ in 0..12 {
        let sides = [Field::new("left", node), Field::new("right", node)];
        node = types.add(Type::Struct(unknown().chain(sides).collect()));
    }
    let mut other = SchemaBuilder::new();
    let mut target = other.add(Type::Struct(Fields::default()));
    for _ in 0..12 {
        target =
            other.add(Type::Struct(vec![Field::new("left", target), Field::new("right", target)].into()));
    }
    let snapshot = Snapshot::open(&file_with_value(&types.finish(node), &[])).unwrap();
    let mut registry = Registry::new();
    registry.add(Descriptor::dynamic("game.x", other.finish(target))).unwrap();
    let plan = LoadPlan::new(&snapshot, &registry, LoadOptions::default()).unwrap();
    let changes = plan.resolutions()[0].changes();
    assert!(changes.len() < 10_000, "{} changes", changes.len());
    assert!(changes.iter().any(|change| change.to_string().contains("..")), "that there are more is said");
}

#[test]
fn a_large_schema_is_compared_in_linear_time() {
    // A chain of many structs, each with a field that got wider: the last one decides about all.
    let chain = |number: Type| {
        let mut types = SchemaBuilder::new();
        let mut node = types.add(number);
        for _ in 0..100 {
            let fields = (0..200).map(|i| Field::new(format!("field_{i}"), node)).collect();
            node = types.add(Type::Struct(fields));
            node = types.add(Type::Option(node));
        }
        types.finish(node)
    };
    let snapshot = Snapshot::open(&file_with_value(&chain(Type::U8), &[0])).unwrap();
    let mut registry = Registry::new();
    registry.add(Descriptor::dynamic("game.x", chain(Type::U16))).unwrap();
    let plan = LoadPlan::new(&snapshot, &registry, LoadOptions::default()).unwrap();
    let map = plan.same_entities().unwrap();
    assert_eq!(plan.stage(&map, None).unwrap().report.components[0].rows, 1);
}

#[test]
fn a_head_does_not_become_large() {
    // A list of saves reads the heads of many files, and each could say that it is gigabytes.
    let content = [&[1, 1, b'x', 15][..], &[0xF0, 0xFF, 0x03], &vec![0; 65_520]].concat();
    let mut bytes = raw_file(&[RawSection::new(1, 0, &content)]);
    let error = Snapshot::options().head(&bytes).unwrap_err();
    assert!(error.is_corrupt() && error.to_string().contains("metadata"), "{error}");
    // What a block claims to be is refused before it is decompressed.
    let mut packed = RawSection::new(1, 0, &[0; 16]);
    packed.codec = 1;
    packed.blocks = vec![(65_536, vec![0; 16]); 1000];
    bytes = raw_file(&[packed]);
    assert!(Snapshot::options().head(&bytes).unwrap_err().to_string().contains("61440"));
}
