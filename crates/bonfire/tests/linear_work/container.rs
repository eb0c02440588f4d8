//! Files: opened, and salvaged when they are damaged.

use bonfire::engine::RowLayout;
use bonfire::schema::{Fingerprint, Schema};
use bonfire::{Limits, LoadOptions, Persist, Registry, Snapshot, Writer};
use bonfire_testkit::raw::{RawSection, raw_file};

use super::assert_linear;

const METADATA: u16 = 1;
const PRELUDE: u16 = 2;
const SCHEMAS: u16 = 3;
const COLUMNS: u16 = 4;

/// The start of a prelude: version, next id, entities, components.
fn prelude(entities: usize, components: usize) -> Writer {
    let mut out = Writer::new();
    out.u16(1);
    out.u64(0);
    out.varint(entities as u64);
    out.varint(components as u64);
    out
}

/// A component whose schema is in the file.
fn component(out: &mut Writer, key: &str, schema: Fingerprint, row: &RowLayout) {
    out.text(key);
    out.varint(1);
    out.raw(&[0, 1]);
    out.raw(&schema.0);
    out.varint(u64::from(row.stride));
    if row.stride > 0 {
        out.varint(row.offsets.len() as u64);
        row.offsets.iter().for_each(|offset| out.varint(u64::from(*offset)));
        out.raw(&row.fingerprint(schema).0);
    }
}

fn schemas(all: &[&Schema]) -> Vec<u8> {
    let mut out = Writer::new();
    out.varint(all.len() as u64);
    for schema in all {
        out.raw(&schema.fingerprint().0);
        out.blob(&schema.to_bytes());
    }
    out.finish().unwrap()
}

fn file(prelude: Writer, schemas: &[u8], columns: RawSection) -> Vec<u8> {
    raw_file(&[
        RawSection::new(METADATA, 0, &[0]),
        RawSection::new(PRELUDE, 1, &prelude.finish().unwrap()),
        RawSection::new(SCHEMAS, 1, schemas),
        columns,
    ])
}

fn open(bytes: &[u8], limits: &Limits) -> Snapshot {
    Snapshot::options().limits(limits.clone()).open(bytes).unwrap()
}

#[test]
fn many_components_with_one_large_schema() {
    assert_linear(4000, |n, limits| {
        // A number, and many nodes that nothing refers to.
        let mut nodes = Writer::new();
        nodes.varint(n as u64);
        nodes.u8(2);
        (1..n).for_each(|_| nodes.u8(0));
        let schema = Schema::decode(&nodes.finish().unwrap(), limits).unwrap();
        let row = RowLayout { stride: 1, offsets: vec![0] };
        let mut out = prelude(0, n);
        (0..n).for_each(|number| component(&mut out, &format!("c{number}"), schema.fingerprint(), &row));
        out.raw(&[0, 0, 0, 0]); // no shared tables, archetypes, resources, extensions
        let bytes = file(out, &schemas(&[&schema]), RawSection::new(COLUMNS, 1, &[]));
        assert_eq!(open(&bytes, limits).components().len(), n);
    });
}

#[test]
fn a_component_that_is_there_again_and_again_is_refused() {
    let schema = Schema::of::<u8>();
    for (times, is_fine) in [(4, true), (5, false)] {
        let mut out = prelude(0, times);
        (0..times).for_each(|_| component(&mut out, "c", schema.fingerprint(), &RowLayout::default()));
        out.raw(&[0, 0, 0, 0]);
        let bytes = file(out, &schemas(&[&schema]), RawSection::new(COLUMNS, 1, &[]));
        assert_eq!(Snapshot::open(&bytes).is_ok(), is_fine);
    }
}

/// Many archetypes of one entity each, whose ids are blocks of their own.
fn archetypes(count: usize) -> Vec<u8> {
    let mut out = prelude(count, 0);
    out.varint(0);
    out.varint(count as u64);
    for number in 0..count as u64 {
        out.varint(1);
        out.varint(8 * number);
        out.varint(8);
        out.varint(0);
    }
    out.raw(&[0, 0]);
    let blocks = (0..count as u64).map(|number| (8, (number + 1).to_le_bytes().to_vec())).collect();
    file(out, &[0], RawSection { kind: COLUMNS, flags: 1, codec: 0, blocks })
}

#[test]
fn many_archetypes() {
    assert_linear(4000, |n, limits| {
        assert_eq!(open(&archetypes(n), limits).entity_count(), n);
    });
}

#[test]
fn many_damaged_places() {
    assert_linear(4000, |n, limits| {
        let mut bytes = archetypes(n);
        // The ids are the last bytes before the footer.
        let footer = u64::from_le_bytes(bytes[24..32].try_into().unwrap()) as usize;
        let last = bytes[..footer].iter().rposition(|byte| *byte != 0).unwrap();
        let end = last / 8 * 8 + 8;
        (0..n).step_by(2).for_each(|number| bytes[end - 8 * (number + 1)] ^= 0x55);
        let salvaged = Snapshot::options().salvage().limits(limits.clone()).open(&bytes).unwrap();
        assert_eq!(salvaged.entity_count(), n);
        assert_eq!(salvaged.damage().blocks.len(), n / 2);
    });
}

#[test]
fn sections_that_lie_over_each_other_are_refused() {
    let good = archetypes(3);
    let footer = u64::from_le_bytes(good[24..32].try_into().unwrap()) as usize;
    let mut bytes = good;
    // The second section begins inside of the first.
    let entry = footer + 64 + 4 + 32 + 8;
    bytes[entry..entry + 8].copy_from_slice(&96_u64.to_le_bytes());
    let len = u64::from_le_bytes(bytes[footer + 8..footer + 16].try_into().unwrap()) as usize;
    let crc = crc32c::crc32c(&bytes[footer + 64..footer + 64 + len]);
    bytes[footer + 40..footer + 44].copy_from_slice(&crc.to_le_bytes());
    let head = [&bytes[footer..footer + 28], &bytes[footer + 32..footer + 44]].concat();
    bytes[footer + 28..footer + 32].copy_from_slice(&crc32c::crc32c(&head).to_le_bytes());
    let error = Snapshot::open(&bytes).unwrap_err();
    assert!(error.to_string().contains("over each other"), "{error}");
}

#[derive(Persist)]
#[persist(key = "game.known")]
struct Known {
    #[persist(default)]
    field: u8,
}

fn rewrite(bytes: &[u8], limits: &Limits) -> (Snapshot, bonfire::LoadReport) {
    let registry = Registry::new().with::<Known>().unwrap();
    let options = LoadOptions::new().limits(limits.clone());
    open(bytes, limits).rewritten(&registry, options).unwrap()
}

#[test]
fn many_fields_that_this_build_does_not_have() {
    assert_linear(2000, |n, limits| {
        let mut nodes = Writer::new();
        nodes.varint(2);
        nodes.u8(38);
        nodes.varint(n as u64);
        for number in 0..n {
            nodes.text(&format!("f{number}"));
            nodes.varint(1);
        }
        nodes.u8(2);
        let schema = Schema::decode(&nodes.finish().unwrap(), limits).unwrap();
        let mut out = prelude(1, 1);
        component(&mut out, "game.known", schema.fingerprint(), &RowLayout::default());
        out.varint(0);
        out.raw(&[1, 1, 0, 8, 1]); // an archetype of one row, its id, one column
        out.raw(&[0, 2, 1, 1]); // of the component, as rows, in a group of one row
        out.varint(n as u64);
        out.varint(8);
        out.varint(n as u64);
        out.raw(&[0, 0]);
        let columns = [vec![1, 0, 0, 0, 0, 0, 0, 0], vec![7; n]].concat();
        let bytes = file(out, &schemas(&[&schema]), RawSection::new(COLUMNS, 1, &columns));
        let (_, report) = rewrite(&bytes, limits);
        assert_eq!(report.components[0].changes.len(), n + 1);
    });
}

#[test]
fn many_components_that_this_build_does_not_have() {
    assert_linear(2000, |n, limits| {
        let schema = Schema::of::<()>();
        let mut out = prelude(1, n);
        let row = RowLayout::default();
        (0..n).for_each(|number| component(&mut out, &format!("c{number:06}"), schema.fingerprint(), &row));
        out.varint(0);
        out.raw(&[1, 1, 0, 8]);
        out.varint(n as u64);
        for number in 0..n {
            out.varint(number as u64);
            out.u8(0);
        }
        out.raw(&[0, 0]);
        let columns = RawSection::new(COLUMNS, 1, &[1, 0, 0, 0, 0, 0, 0, 0]);
        let bytes = file(out, &schemas(&[&schema]), columns);
        let (rewritten, report) = rewrite(&bytes, limits);
        assert_eq!((rewritten.components().len(), report.components.len()), (n, n));
    });
}

#[test]
fn rows_without_bytes_that_are_carried_are_charged() {
    let schema = Schema::of::<()>();
    let (rows, columns) = (2000_usize, 200);
    let mut out = prelude(rows, columns);
    let row = RowLayout::default();
    (0..columns).for_each(|number| component(&mut out, &format!("c{number:06}"), schema.fingerprint(), &row));
    out.varint(0);
    out.varint(1);
    out.varint(rows as u64);
    out.varint(0);
    out.varint(8 * rows as u64);
    out.varint(columns as u64);
    for number in 0..columns {
        out.varint(number as u64);
        out.u8(0);
    }
    out.raw(&[0, 0]);
    let ids: Vec<u8> = (1..=rows as u64).flat_map(u64::to_le_bytes).collect();
    let bytes = file(out, &schemas(&[&schema]), RawSection::new(COLUMNS, 1, &ids));
    let limits = Limits { memory_bytes_max: 1 << 20, ..Limits::default() };
    let options = LoadOptions::new().limits(limits.clone());
    let registry = Registry::new().with::<Known>().unwrap();
    let loaded = open(&bytes, &limits).rewritten(&registry, options);
    assert!(loaded.unwrap_err().is_limit());
}
