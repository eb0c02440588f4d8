//! The container: what is written is read, what is damaged is found and located, what is hostile is refused.

use std::collections::HashSet;

use bonfire::engine::*;
use bonfire::inspect::*;
use bonfire::*;
use bonfire_testkit::scale;

#[derive(Clone, Copy, Debug, PartialEq, Persist)]
#[persist(key = "game.position")]
struct Position {
    x: f32,
    y: f32,
}

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.name")]
struct Name(String);

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.kind")]
struct Kind(String);

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.mesh")]
struct Mesh(Vec<u16>);

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.frozen")]
struct Frozen;

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "game.score")]
struct Score(u64);

fn registry() -> Registry {
    let mut registry = Registry::new();
    registry.register::<Position>().unwrap();
    registry.register::<Name>().unwrap();
    registry.add(Descriptor::of::<Kind>().repeats(Repeats::Dictionary)).unwrap();
    registry.add(Descriptor::of::<Mesh>().repeats(Repeats::Shared)).unwrap();
    registry.register::<Frozen>().unwrap();
    registry.register::<Score>().unwrap();
    registry
}

/// Every encoding, sparse and not, in two archetypes, with resource, data and metadata.
fn sample(rows: usize) -> Snapshot {
    let registry = registry();
    let ids: Vec<EntityId> = (0..rows as u32).map(|index| EntityId::new(index, index % 3)).collect();
    let positions: Vec<Position> = (0..rows).map(|i| Position { x: i as f32, y: -1.0 }).collect();
    let names: Vec<Name> = (0..rows).map(|i| Name(format!("entity {i}"))).collect();
    let kinds: Vec<Kind> = (0..rows).map(|i| Kind(["orc", "elf", "human"][i % 3].into())).collect();
    let meshes: Vec<Mesh> = (0..rows).map(|i| Mesh(vec![i as u16 % 2; 9])).collect();
    let frozen = vec![Frozen; rows];
    let mut writer = SnapshotWriter::new(&registry);
    let mut archetype = writer.archetype(&ids).unwrap();
    archetype.column(&positions).unwrap();
    archetype.column(&names).unwrap();
    archetype.column(&kinds).unwrap();
    archetype.column(&meshes).unwrap();
    let more: Vec<EntityId> = (0..5).map(|index| EntityId::new(1_000_000 + index, 0)).collect();
    let mut archetype = writer.archetype(&more).unwrap();
    archetype.column_sparse(&[None, Some(&positions[0]), None, None, Some(&positions[0])]).unwrap();
    archetype.column(&frozen[..1].iter().cloned().cycle().take(5).collect::<Vec<_>>()).unwrap();
    writer.resource(&Score(77)).unwrap();
    writer.data("game.seed", &12345_u64).unwrap();
    writer.data("game.log", &vec![String::from("first"), String::from("second")]).unwrap();
    writer.metadata("name", "A small world");
    writer.metadata("minutes", 90_u32);
    writer.next_entity_id(4711);
    writer.finish().unwrap()
}

fn encode(snapshot: &Snapshot, compression: Compression) -> Vec<u8> {
    snapshot.encode(&EncodeOptions { compression, ..EncodeOptions::default() }).unwrap().to_vec()
}

/// Everything in a snapshot as text, for comparing what is left with what was there.
fn contents(snapshot: &Snapshot) -> Vec<String> {
    contents_of(snapshot, |_| true)
}

/// The same; entities that are not known are called `?`.
fn contents_of(snapshot: &Snapshot, known: impl Fn(EntityId) -> bool) -> Vec<String> {
    let limits = Limits::default();
    let name = |id: &EntityId| if known(*id) { id.to_string() } else { "?".to_owned() };
    let mut lines = Vec::new();
    for archetype in snapshot.archetypes() {
        let ids = archetype.ids();
        lines.extend(ids.iter().map(name));
        for column in archetype.columns() {
            for (id, value) in ids.iter().zip(column.values(&limits).unwrap()) {
                lines.extend(value.map(|value| format!("{} {} {value}", name(id), column.component().key)));
            }
        }
    }
    for column in snapshot.resources() {
        lines.push(format!("{} {:?}", column.component().key, column.values(&limits).unwrap()));
    }
    lines.extend(snapshot.data().iter().map(|e| format!("{} {}", e.key(), e.value(&limits).unwrap())));
    lines.extend(snapshot.metadata().iter().map(|(name, value)| format!("{name} {value}")));
    lines.sort();
    lines
}

/// What a whole snapshot holds.
struct Truth {
    ids: HashSet<EntityId>,
    lines: HashSet<String>,
}

impl Truth {
    fn of(whole: &Snapshot) -> Self {
        let mut lines: HashSet<String> = contents(whole).into_iter().collect();
        lines.extend(contents_of(whole, |_| false));
        Self { ids: whole.entities().into_iter().collect(), lines }
    }

    /// Checks that nothing in what is left was not there before; entities that lost their ids may have new ones.
    /// Returns how much is left.
    fn assert_covers(&self, left: &Snapshot) -> usize {
        let lines = contents_of(left, |id| self.ids.contains(&id));
        lines.iter().for_each(|line| assert!(self.lines.contains(line), "wrong data: {line}"));
        EntityMap::identity(&left.entities()).unwrap();
        lines.len()
    }
}

#[test]
fn every_encoding_is_written_and_read() {
    let snapshot = sample(100);
    let opened = Snapshot::open(&encode(&snapshot, Compression::None)).unwrap();
    assert_eq!(contents(&opened), contents(&snapshot));
    assert_eq!(contents(&opened).len(), 105 + 400 + 7 + 1 + 2 + 2);
    let mut encodings: Vec<_> =
        (opened.archetypes().flat_map(|archetype| archetype.columns().collect::<Vec<_>>()))
            .map(|column| (column.component().key.clone(), column.encoding(), column.is_sparse()))
            .collect();
    encodings.sort();
    let expected = [
        ("game.frozen", "tag", false),
        ("game.kind", "dictionary", false),
        ("game.mesh", "shared", false),
        ("game.name", "rows", false),
        ("game.position", "raw", false),
        ("game.position", "raw", true),
    ];
    assert_eq!(encodings, expected.map(|(key, encoding, sparse)| (key.to_owned(), encoding, sparse)));
    assert_eq!(opened.prelude().next_entity_id, 4711);
    assert_eq!(opened.metadata()[1], ("minutes".to_owned(), Value::U64(90)));
}

#[test]
fn raw_columns_are_read_where_they_lie() {
    let bytes = encode(&sample(100), Compression::None);
    let opened = Snapshot::open(&bytes).unwrap();
    let archetype = opened.archetypes().next().unwrap();
    let column = archetype.column("game.position").unwrap();
    let positions = column.as_slice::<Position>().expect("borrowed");
    assert_eq!(positions[99], Position { x: 99.0, y: -1.0 });
    assert!(positions.as_ptr().addr().is_multiple_of(COLUMN_ALIGN));
    assert!(column.as_slice::<[f32; 2]>().is_none(), "another schema");
    assert!(archetype.column("game.name").unwrap().as_slice::<Name>().is_none());

    // Loading borrows too: no copy until the front end moves the rows.
    let registry = registry();
    let plan = LoadPlan::new(&opened, &registry, LoadOptions::default()).unwrap();
    let map = EntityMap::identity(&plan.entities()).unwrap();
    let staged = plan.stage(&map, None).unwrap();
    let position = registry.index_of::<Position>().unwrap();
    let (_, column) = staged.archetypes[0].columns.iter().find(|(index, _)| *index == position).unwrap();
    assert!(column.is_borrowed());
    assert_eq!(column.as_slice::<Position>().unwrap()[1].x, 1.0);
    assert_eq!(column.as_ptr(), positions.as_ptr().cast());

    // Bytes that are not aligned are opened all the same, with a copy at the end.
    let mut shifted = vec![0; bytes.len() + 64];
    let base = shifted.as_ptr().addr();
    let start = (1..64).find(|offset| (base + offset) % 64 == 1).unwrap();
    shifted[start..start + bytes.len()].copy_from_slice(&bytes);
    let unaligned = bytes::Bytes::from(shifted).slice(start..start + bytes.len());
    let opened = Snapshot::options().open_shared(unaligned).unwrap();
    assert_eq!(contents(&opened), contents(&sample(100)));
    let plan = LoadPlan::new(&opened, &registry, LoadOptions::default()).unwrap();
    plan.stage(&map, None).unwrap();
}

#[test]
fn encoding_shares_the_columns_and_copies_none() {
    let snapshot = sample(20_000);
    let archetype = snapshot.archetypes().next().unwrap();
    let positions = archetype.column("game.position").unwrap().as_slice::<Position>().unwrap();
    let (start, end) = (positions.as_ptr().addr(), positions.as_ptr_range().end.addr());
    let rope = snapshot.encode(&EncodeOptions::default()).unwrap();
    let shared: usize = (rope.parts().iter())
        .filter(|part| part.as_ptr().addr() >= start && part.as_ptr_range().end.addr() <= end)
        .map(bytes::Bytes::len)
        .sum();
    assert_eq!(shared, size_of_val(positions));
}

#[test]
fn compressed_files_hold_the_same() {
    let snapshot = sample(20_000);
    let plain = encode(&snapshot, Compression::None);
    let packed = encode(&snapshot, Compression::Lz4);
    assert!(packed.len() < plain.len() / 2, "{} of {}", packed.len(), plain.len());
    let opened = Snapshot::open(&packed).unwrap();
    assert_eq!(encode(&opened, Compression::None), plain);
    let columns = opened.sections().iter().find(|section| section.name == "columns").unwrap();
    assert_eq!(columns.codec, "lz4");
    assert!(columns.blocks > 5);
}

#[cfg(not(feature = "zstd"))]
#[test]
fn a_codec_that_this_build_lacks_is_named() {
    let options = EncodeOptions { compression: Compression::Zstd(3), ..EncodeOptions::default() };
    let error = sample(10).encode(&options).unwrap_err();
    assert!(error.is_unsupported());
    assert!(error.to_string().contains("feature `zstd`"), "{error}");
}

#[cfg(feature = "zstd")]
#[test]
fn zstd_files_hold_the_same() {
    let snapshot = sample(20_000);
    let packed = encode(&snapshot, Compression::Zstd(3));
    assert!(packed.len() < encode(&snapshot, Compression::Lz4).len());
    assert_eq!(contents(&Snapshot::open(&packed).unwrap()), contents(&snapshot));
}

#[test]
fn schemas_can_be_named_by_hash() {
    let snapshot = sample(10);
    let options = EncodeOptions { inline_schemas: false, ..EncodeOptions::default() };
    let bytes = snapshot.encode(&options).unwrap().to_vec();
    assert!(bytes.len() < encode(&snapshot, Compression::None).len());
    let registry = registry();
    let opened = Snapshot::options().registry(&registry).open(&bytes).unwrap();
    assert_eq!(contents(&opened), contents(&snapshot));
    // Without the registry the structure is there, and asking for a schema says why there is none.
    let opened = Snapshot::open(&bytes).unwrap();
    assert_eq!(opened.entity_count(), 15);
    let error = opened.components()[0].schema().unwrap_err();
    assert!(error.is_unknown());
    assert!(error.to_string().contains("by hash only"), "{error}");
    // A load resolves them by itself.
    let plan = LoadPlan::new(&opened, &registry, LoadOptions::default()).unwrap();
    plan.stage(&EntityMap::identity(&plan.entities()).unwrap(), None).unwrap();
}

#[test]
fn the_root_hash_covers_everything_before_the_footer() {
    let options = EncodeOptions { root_hash: true, ..EncodeOptions::default() };
    let bytes = sample(10).encode(&options).unwrap().to_vec();
    Snapshot::open(&bytes).unwrap();
    // Change a value and mend its checksums: only the root notices.
    let mut forged = bytes.clone();
    let footer = u64::from_le_bytes(forged[24..32].try_into().unwrap()) as usize;
    forged[40] = 1; // reserved bytes of the header
    let crc = crc32c::crc32c(&forged[..60]);
    forged[60..64].copy_from_slice(&crc.to_le_bytes());
    let error = Snapshot::open(&forged).unwrap_err();
    assert!(error.to_string().contains("root hash"), "{error}");
    assert!(footer < forged.len());
}

#[test]
fn metadata_is_read_from_the_head_alone() {
    let bytes = encode(&sample(50_000), Compression::None);
    assert!(bytes.len() > 1 << 20);
    let head = &bytes[..64 << 10];
    let metadata = Snapshot::options().head(head).unwrap().metadata;
    assert_eq!(metadata[0], ("name".to_owned(), Value::from("A small world")));

    let registry = registry();
    let mut writer = SnapshotWriter::new(&registry);
    writer.metadata("thumbnail", Value::Bytes(vec![0; 64 << 10]));
    let error = writer.finish().unwrap().encode(&EncodeOptions::default()).unwrap_err();
    assert!(error.is_limit());
    assert!(error.to_string().contains("data section"), "{error}");
}

#[test]
fn reserved_sections_are_passed_over_unless_they_are_critical() {
    let good = encode(&sample(10), Compression::None);
    let with_section = |kind, flags| bonfire_testkit::fixture::with_section(&good, kind, flags);
    for (kind, name) in [(8, "delta"), (9, "journal link"), (10, "tracks"), (11, "seal"), (999, "unknown")] {
        let opened = Snapshot::open(&with_section(kind, 0)).unwrap();
        assert!(opened.sections().iter().any(|section| section.name == name), "{name}");
        assert_eq!(contents(&opened), contents(&sample(10)));
        let error = Snapshot::open(&with_section(kind, 1)).unwrap_err();
        assert!(error.is_newer_format(), "{error}");
    }
}

#[test]
fn every_flipped_byte_is_found() {
    let good = encode(&sample(8), Compression::None);
    let whole = Snapshot::open(&good).unwrap();
    let (expected, truth) = (contents(&whole), Truth::of(&whole));
    let mut bytes = good.clone();
    for at in 0..good.len() {
        for mask in [0x01, 0x80, 0xff] {
            bytes[at] = good[at] ^ mask;
            match Snapshot::open(&bytes) {
                Err(error) => assert!(error.is_corrupt(), "byte {at}: {error}"),
                Ok(_) => panic!("byte {at} ^ {mask:#x} was not noticed"),
            }
            // What salvage gives is true: nothing in it was not there before.
            if let Ok(left) = Snapshot::options().salvage().open(&bytes) {
                truth.assert_covers(&left);
                if contents(&left) != expected {
                    assert!(!left.damage().is_empty(), "byte {at}: lost something without saying so");
                }
            }
        }
        bytes[at] = good[at];
    }
}

#[test]
fn every_truncation_is_found() {
    for compression in [Compression::None, Compression::Lz4] {
        let good = encode(&sample(8), compression);
        let truth = Truth::of(&Snapshot::open(&good).unwrap());
        for len in 0..good.len() {
            let error = Snapshot::open(&good[..len]).unwrap_err();
            assert!(error.is_corrupt(), "{len}: {error}");
            if let Ok(left) = Snapshot::options().salvage().open(&good[..len]) {
                truth.assert_covers(&left);
            }
        }
        let error = Snapshot::open(&good[..good.len() - 1]).unwrap_err();
        assert!(error.to_string().contains("truncated"), "{error}");
        let longer = [&good[..], &[0]].concat();
        assert!(Snapshot::open(&longer).unwrap_err().is_corrupt());
    }
}

#[test]
fn damage_costs_a_block_of_rows_and_not_a_column() {
    let rows = 12_000;
    let snapshot = sample(rows);
    for compression in [Compression::None, Compression::Lz4] {
        let good = encode(&snapshot, compression);
        let opened = Snapshot::open(&good).unwrap();
        let section = opened.sections().iter().find(|section| section.name == "columns").unwrap();
        let start = section.offset as usize + 32 + section.blocks as usize * 12;
        let (all, truth) = (contents(&snapshot).len(), Truth::of(&snapshot));
        let mut seed = 7_u64;
        for _ in 0..2 * scale() {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let at = start.next_multiple_of(64) + (seed >> 33) as usize % section.stored_bytes as usize;
            let mut bytes = good.clone();
            bytes[at] ^= 0x10;
            let error = Snapshot::open(&bytes).unwrap_err();
            assert_eq!(error.section(), Some("columns"));
            assert!(
                error.offset().unwrap() as usize <= at && at < error.offset().unwrap() as usize + BLOCK_BYTES
            );
            let left = Snapshot::options().salvage().open(&bytes).unwrap();
            assert_eq!(left.damage().blocks.len(), 1);
            let lines = contents(&left);
            truth.assert_covers(&left);
            // A block has at most 65,536 bytes: 8,192 ids or positions, fewer names; but numbers of a dictionary have
            // one byte per row, so a block of them is all of these columns.
            assert!(!left.damage().losses.is_empty());
            for loss in &left.damage().losses {
                match loss {
                    DamagedPart::Ids(count) => assert!(*count <= 8192, "{loss}"),
                    DamagedPart::Component { key, rows } if key == "game.kind" || key == "game.mesh" => {
                        assert!(*rows <= 65_536, "{loss}");
                    }
                    DamagedPart::Component { rows, .. } => assert!(*rows <= 8192, "{loss}"),
                    other => panic!("{other}"),
                }
            }
            assert!(lines.len() >= all - 3 * rows, "{} of {all}", lines.len());
            // What is left can be saved and loaded again.
            let again = Snapshot::open(&encode(&left, Compression::None)).unwrap();
            assert_eq!(contents(&again), lines);
            let registry = registry();
            let plan = LoadPlan::new(&left, &registry, LoadOptions::default()).unwrap();
            let staged = plan.stage(&EntityMap::identity(&plan.entities()).unwrap(), None).unwrap();
            assert!(!staged.report.is_complete());
        }
    }
}

#[test]
fn a_damaged_prelude_is_replaced_by_its_copy() {
    let good = encode(&sample(8), Compression::None);
    let opened = Snapshot::open(&good).unwrap();
    for section in
        opened.sections().iter().filter(|section| section.name != "columns" && section.name != "data")
    {
        let mut bytes = good.clone();
        let payload = section.offset as usize + 64;
        bytes[payload] ^= 1; // its content
        let left = Snapshot::options().salvage().open(&bytes).unwrap();
        assert_eq!(contents(&left), contents(&opened), "{}", section.name);
        bytes[section.offset as usize + 5] ^= 1; // its header too
        let left = Snapshot::options().salvage().open(&bytes).unwrap();
        assert_eq!(contents(&left), contents(&opened), "{}", section.name);
        assert!(!left.damage().is_empty());
    }
    // Without the file's own header as well.
    let mut bytes = good.clone();
    bytes[..64].fill(0);
    assert_eq!(contents(&Snapshot::options().salvage().open(&bytes).unwrap()), contents(&opened));
}

#[test]
fn a_damaged_block_table_costs_nothing() {
    let good = encode(&sample(12_000), Compression::Lz4);
    let opened = Snapshot::open(&good).unwrap();
    let columns = opened.sections().iter().find(|section| section.name == "columns").unwrap();
    for at in [0, 4, 8, 12 * (columns.blocks as usize - 1)] {
        let mut bytes = good.clone();
        bytes[columns.offset as usize + 32 + at] ^= 0x40;
        assert!(Snapshot::open(&bytes).unwrap_err().is_corrupt());
        let left = Snapshot::options().salvage().open(&bytes).unwrap();
        assert!(!left.damage().is_empty());
        assert_eq!(contents(&left), contents(&opened), "{at}");
    }
}

#[test]
fn damage_to_a_small_save_does_not_cost_all_of_it() {
    let good = encode(&sample(60), Compression::None);
    let opened = Snapshot::open(&good).unwrap();
    let columns = opened.sections().iter().find(|section| section.name == "columns").unwrap();
    assert!(columns.blocks >= 4, "{columns:?}");
    let (all, truth) = (contents(&opened).len(), Truth::of(&opened));
    let start = (columns.offset as usize + 32 + columns.blocks as usize * 12).next_multiple_of(64);
    for at in (start..start + columns.stored_bytes as usize).step_by(50) {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        let left = Snapshot::options().salvage().open(&bytes).unwrap();
        let left = truth.assert_covers(&left);
        assert!(left >= all / 3, "byte {at}: {left} of {all}");
    }
}

#[test]
fn references_to_entities_that_lost_their_ids_find_nothing() {
    #[derive(Clone, Persist)]
    #[persist(key = "game.self")]
    struct Myself(EntityId);
    let mut registry = Registry::new();
    registry.register::<Myself>().unwrap();
    let ids: Vec<EntityId> = (0..20_000).map(|index| EntityId::new(index, 0)).collect();
    let mut writer = SnapshotWriter::new(&registry);
    let rows: Vec<Myself> = ids.iter().map(|id| Myself(*id)).collect();
    writer.archetype(&ids).unwrap().column(&rows).unwrap();
    let good = writer.finish().unwrap().encode(&EncodeOptions::default()).unwrap().to_vec();
    let opened = Snapshot::open(&good).unwrap();
    let columns = opened.sections().iter().find(|section| section.name == "columns").unwrap();
    let start = (columns.offset as usize + 32 + columns.blocks as usize * 12).next_multiple_of(64);
    let mut bytes = good.clone();
    bytes[start + 8 * 19_000] ^= 1; // in the last block of ids
    let left = Snapshot::options().salvage().open(&bytes).unwrap();
    assert_eq!(left.entity_count(), 20_000);
    let plan = LoadPlan::new(&left, &registry, LoadOptions::default()).unwrap();
    let saved = plan.entities();
    let mut staged = plan.stage(&EntityMap::identity(&saved).unwrap(), None).unwrap();
    let lost = saved.iter().zip(&ids).filter(|(now, before)| now != before).count();
    assert_eq!(left.damage().losses, [DamagedPart::Ids(lost)]);
    assert!(lost > 0);
    let rows = staged.archetypes[0].take::<Myself>().unwrap().into_rows::<Myself>().unwrap();
    for ((row, now), before) in rows.iter().zip(&saved).zip(&ids) {
        assert_eq!(row.0, if now == before { *before } else { EntityId::NULL });
    }
}

#[test]
fn values_are_taken_from_wherever_they_lie() {
    let registry = registry();
    let ids = [EntityId::new(0, 0), EntityId::new(1, 0)];
    let rows = [Position { x: 1.0, y: 2.0 }, Position { x: 3.0, y: 4.0 }];
    let bytes = |write: &dyn Fn(&mut ArchetypeWriter<'_, '_>)| {
        let mut writer = SnapshotWriter::new(&registry);
        write(&mut writer.archetype(&ids).unwrap());
        encode(&writer.finish().unwrap(), Compression::None)
    };
    let slice = bytes(&|archetype| archetype.column(&rows).unwrap());
    assert_eq!(bytes(&|archetype| archetype.column_refs(&[&rows[0], &rows[1]]).unwrap()), slice);
    assert_eq!(
        bytes(&|archetype| archetype.column_sparse(&[Some(&rows[0]), Some(&rows[1])]).unwrap()),
        slice
    );
    let mut writer = SnapshotWriter::new(&registry);
    let mut archetype = writer.archetype_with(2, |memory| memory.copy_from_slice(&ids)).unwrap();
    archetype.column(&rows).unwrap();
    assert_eq!(encode(&writer.finish().unwrap(), Compression::None), slice);
}

#[test]
fn settings_of_the_writer_come_in_any_order() {
    let (registry, pool) = (registry(), BufferPool::default());
    let mut writer = SnapshotWriter::new(&registry).portable().reserve(1 << 16).pool(&pool);
    writer.archetype(&[EntityId::new(0, 0)]).unwrap().column(&[Position { x: 1.0, y: 2.0 }]).unwrap();
    let mut writer = writer.reserve(1 << 18);
    writer.archetype(&[EntityId::new(1, 0)]).unwrap().column(&[Position { x: 3.0, y: 4.0 }]).unwrap();
    let snapshot = writer.finish().unwrap();
    assert_eq!(contents(&snapshot).len(), 4);
    drop(snapshot);
    assert!(pool.idle_bytes() >= 1 << 16);
}

#[test]
fn a_file_that_was_cut_off_keeps_what_is_before_the_cut() {
    let rows = 12_000;
    let options = EncodeOptions { root_hash: true, ..EncodeOptions::default() };
    let good = sample(rows).encode(&options).unwrap().to_vec();
    let opened = Snapshot::open(&good).unwrap();
    let columns = opened.sections().iter().find(|section| section.name == "columns").unwrap();
    let data = opened.sections().iter().find(|section| section.name == "data").unwrap();
    let all = contents(&opened).len();
    let cut = columns.offset as usize + columns.stored_bytes as usize / 2;
    let left = Snapshot::options().salvage().open(&good[..cut]).unwrap();
    let lines = Truth::of(&opened).assert_covers(&left);
    assert!(lines > all / 4, "{lines} of {all}");
    assert_eq!(left.damage().losses[0], DamagedPart::Tail((good.len() - cut) as u64));
    // A data section that is lost is missed, with a root hash that does not match as well.
    let mut bytes = good.clone();
    bytes[data.offset as usize] ^= 1;
    bytes[data.offset as usize + 33] ^= 1;
    let tables = opened.sections().iter().find(|section| section.name == "block tables").unwrap();
    bytes[tables.offset as usize + 64] ^= 1; // the copy of its block table as well
    let left = Snapshot::options().salvage().open(&bytes).unwrap();
    assert_eq!(left.entity_count(), opened.entity_count());
    assert!(left.data().is_empty());
    assert_eq!(left.damage().losses, [DamagedPart::Section("data")]);
}

#[test]
fn a_snapshot_that_readers_would_refuse_is_not_written() {
    let limits = Limits { entities_max: 50, ..Limits::default() };
    let options = EncodeOptions { limits, ..EncodeOptions::default() };
    let error = sample(100).encode(&options).unwrap_err();
    assert!(error.is_limit() && error.to_string().contains("105 entities"), "{error}");
    let limits = Limits { raw_bytes_max: 1 << 20, ..Limits::default() };
    let options = EncodeOptions { limits, ..EncodeOptions::default() };
    assert!(sample(100).encode(&options).unwrap_err().is_limit());
}

#[test]
fn copies_can_be_left_out() {
    let snapshot = sample(10);
    let options = EncodeOptions { copies: false, ..EncodeOptions::default() };
    let bytes = snapshot.encode(&options).unwrap().to_vec();
    assert!(bytes.len() < encode(&snapshot, Compression::None).len() * 3 / 4);
    assert_eq!(contents(&Snapshot::open(&bytes).unwrap()), contents(&snapshot));
}

#[test]
fn errors_say_what_and_where() {
    let good = encode(&sample(8), Compression::None);
    let message = |bytes: &[u8]| Snapshot::open(bytes).unwrap_err().to_string();
    assert_eq!(message(b""), "not a Bonfire file: 0 bytes, and they do not begin as one");
    assert_eq!(message(&[0; 100]), "not a Bonfire file: it does not begin with the magic bytes (byte 0)");
    assert_eq!(message(&good[..20]), "the file ends after 20 bytes, inside its header");
    let len = good.len();
    assert_eq!(message(&good[..500]), format!("the file is truncated: 500 bytes of {len} (byte 500)"));
    let error = Snapshot::open(&bonfire_testkit::fixture::with_version(&good, 2)).unwrap_err();
    assert!(error.is_newer_format());
    assert_eq!(
        error.to_string(),
        "format version 2 is newer than this build, which reads up to 1: update the game"
    );
    let mut damaged = good.clone();
    damaged[30] ^= 1;
    assert_eq!(message(&damaged), "the header is damaged: its checksum does not match (byte 0)");
}

#[test]
fn limits_are_kept() {
    let good = encode(&sample(100), Compression::Lz4);
    let open = |limits: Limits| Snapshot::options().limits(limits).open(&good);
    let none = Limits::default();
    assert!(open(none.clone()).is_ok());
    assert!(open(Limits { raw_bytes_max: 1000, ..none.clone() }).unwrap_err().is_limit());
    assert!(open(Limits { sections_max: 3, ..none.clone() }).unwrap_err().is_limit());
    assert!(open(Limits { components_max: 2, ..none.clone() }).unwrap_err().is_limit());
    assert!(open(Limits { archetypes_max: 1, ..none.clone() }).unwrap_err().is_limit());
    assert!(open(Limits { entities_max: 50, ..none.clone() }).unwrap_err().is_limit());
    assert!(open(Limits { data_entries_max: 1, ..none.clone() }).unwrap_err().is_limit());
    assert!(open(Limits { schema_nodes_max: 1, ..none.clone() }).unwrap_err().is_limit());
    let snapshot = open(none.clone()).unwrap();
    let registry = registry();
    let limits = Limits { memory_bytes_max: 2000, ..none };
    let plan = LoadPlan::new(&snapshot, &registry, LoadOptions::new().limits(limits)).unwrap();
    assert!(plan.stage(&EntityMap::default(), None).err().unwrap().is_limit());
}

#[test]
fn entities_that_are_there_twice_are_refused() {
    let registry = registry();
    let mut writer = SnapshotWriter::new(&registry);
    writer.archetype(&[EntityId::new(1, 1)]).unwrap();
    writer.archetype(&[EntityId::new(1, 1)]).unwrap();
    let error = writer.finish().unwrap_err();
    assert!(error.is_misuse());
    assert!(
        error.to_string().starts_with("entity 1v1 is there twice: ids are shared by all archetypes"),
        "{error}"
    );
    // A file may have them all the same.
    let error = EntityMap::identity(&[EntityId::new(1, 1), EntityId::new(1, 1)]).unwrap_err();
    assert_eq!(error.to_string(), "entity 1v1 is there twice");
}

#[test]
fn misuse_of_the_writer_is_an_error_that_names_the_key() {
    let registry = registry();
    let mut writer = SnapshotWriter::new(&registry);
    let mut archetype = writer.archetype(&[EntityId::new(0, 0)]).unwrap();
    let error = archetype.column(&[Position { x: 0.0, y: 0.0 }; 2]).unwrap_err();
    assert_eq!(error.to_string(), "`game.position`: 2 rows for 1 entities");
    archetype.column(&[Frozen]).unwrap();
    assert!(archetype.column(&[Frozen]).unwrap_err().is_misuse());
    let error = archetype.column(&[1_u8]).unwrap_err();
    assert_eq!(error.to_string(), "`u8` is not registered: call `registry.register::<u8>()` first");
    assert!(archetype.column_by_key("game.frozen", &[1_u8]).unwrap_err().to_string().contains("not `u8`"));
}

#[test]
fn registration_finds_mistakes_and_names_both_sides() {
    #[derive(Persist)]
    #[persist(key = "game.position")]
    struct Other(u8);
    let mut registry = registry();
    registry.register::<Position>().unwrap(); // again is fine
    let error = registry.register::<Other>().unwrap_err();
    assert!(error.is_misuse());
    let text = error.to_string();
    assert!(
        text.contains("Position") && text.contains("Other") && text.contains("`game.position`"),
        "{text}"
    );
    let error = registry.add(Descriptor::new::<Position>("game.place")).unwrap_err().to_string();
    assert!(error.contains("`game.position`") && error.contains("`game.place`"), "{error}");
    let custom =
        Descriptor::custom("game.u8", |v: &u8, _| Ok(Some(*v)), |v: u8, _: &LoadContext<'_>| Ok(Some(v)));
    let error = registry.add(custom.transient()).unwrap_err().to_string();
    assert!(error.contains("`u8`") && error.contains("transient") && error.contains("custom"), "{error}");
    assert!(registry.add(Descriptor::new::<u16>("")).unwrap_err().is_misuse());
    assert!(registry.add(Descriptor::new::<u16>("a\nb")).unwrap_err().is_misuse());
    let error = Descriptor::new::<u16>("n").skip_if(|_: &u8| true).unwrap_err().to_string();
    assert!(error.contains("`u16`") && error.contains("`u8`"), "{error}");
}

#[test]
fn registries_with_the_same_components_have_the_same_fingerprint() {
    let mut a = Registry::new();
    a.register::<Position>().unwrap();
    a.register::<Name>().unwrap();
    let mut b = Registry::new();
    b.register::<Name>().unwrap();
    b.register::<Position>().unwrap();
    assert_eq!(a.fingerprint(), b.fingerprint());
    b.register::<Score>().unwrap();
    assert_ne!(a.fingerprint(), b.fingerprint());
}

#[test]
fn a_pool_gives_the_same_memory_again() {
    let pool = BufferPool::default();
    let registry = registry();
    let save = || {
        let mut writer = SnapshotWriter::new(&registry).pool(&pool).reserve(1 << 20);
        let ids: Vec<EntityId> = (0..1000).map(|index| EntityId::new(index, 0)).collect();
        let mut archetype = writer.archetype(&ids).unwrap();
        archetype.column(&vec![Position { x: 1.0, y: 2.0 }; 1000]).unwrap();
        archetype.column(&vec![Name("some name".into()); 1000]).unwrap();
        writer.finish().unwrap()
    };
    let first = save();
    let address = first.archetypes().next().unwrap().ids().as_ptr();
    let rope = first.encode(&EncodeOptions::default()).unwrap();
    drop(first);
    assert_eq!(pool.idle_bytes(), 0, "the encoded bytes still use it");
    drop(rope);
    assert!(pool.idle_bytes() >= 1 << 20);
    let second = save();
    assert_eq!(second.archetypes().next().unwrap().ids().as_ptr(), address);
}

#[test]
fn checksums_computed_with_the_columns_are_the_same() {
    #[derive(Persist, Clone)]
    #[persist(key = "test.wide")]
    struct Wide(u64, u32, [u8; 27], bool);
    #[derive(Persist, Clone)]
    #[persist(key = "test.plain")]
    struct Plain(u32, u32, u32);
    let mut registry = Registry::new();
    registry.register::<Wide>().unwrap();
    registry.register::<Plain>().unwrap();
    for rows in [0_u32, 1, 3, 50, 700, 5461, 5462, 20_000] {
        let encode = |checked: bool, compression: Compression| {
            let mut writer = SnapshotWriter::new(&registry);
            writer = if checked { writer.checksums() } else { writer };
            for part in 0..2 {
                let ids: Vec<EntityId> = (0..rows).map(|row| EntityId::new(row * 2 + part, row)).collect();
                let wide: Vec<Wide> =
                    (0..rows).map(|row| Wide(u64::from(row) << 20, row, [3; 27], true)).collect();
                let plain: Vec<Plain> = (0..rows).map(|row| Plain(row, !row, row / 3)).collect();
                let mut archetype = writer.archetype(&ids).unwrap();
                archetype.column(&wide).unwrap();
                let plain: Vec<&Plain> = plain.iter().rev().collect();
                archetype.column_refs(&plain).unwrap();
            }
            let options = EncodeOptions { compression, ..EncodeOptions::default() };
            writer.finish().unwrap().encode(&options).unwrap().to_vec()
        };
        for compression in [Compression::None, Compression::Lz4] {
            let checked = encode(true, compression);
            assert!(checked == encode(false, compression), "{rows} rows");
            Snapshot::open(&checked).unwrap();
        }
    }
}

#[test]
fn the_prelude_has_the_version_and_the_components_of_the_file() {
    let bytes = encode(&sample(10), Compression::None);
    let prelude = Snapshot::open(&bytes).unwrap().prelude();
    assert_eq!(prelude.version, u16::from_le_bytes([bytes[8], bytes[9]]));
    let keys: Vec<&str> = prelude.components.iter().map(|component| &*component.key).collect();
    assert_eq!(keys, ["game.frozen", "game.kind", "game.mesh", "game.name", "game.position", "game.score"]);
    assert!(prelude.components.iter().all(|component| component.version == 1));
}
