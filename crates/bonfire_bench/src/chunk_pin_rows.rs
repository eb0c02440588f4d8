//! Chunked worlds with pinned moments, and with three coordinates.

use std::collections::BTreeSet;
use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use bonfire_chunks::{ChunkOptions, ChunkPos, ChunkWorld, Durability};

use crate::chunk_data::{Numbers, layers, raw_options};
use crate::chunk_rows::{CHUNKS, COMPRESSED, DIRTY, Kind, RAW, pos, save_dirty, wall};
use crate::measure::{Row, against, turns};

pub(crate) fn rows() -> Vec<Row> {
    let row = |key, target, measure: fn() -> (f64, String)| Row {
        key,
        target: Some(target),
        measure: Box::new(measure),
    };
    vec![
        row("pin_bytes_per_changed_entry", 32.0, bytes_per_changed_entry),
        row("pin_make_x_save", 1.1, make),
        row("read_pinned_x_plain", 1.1, read_pinned),
        row("return_to_x_write", 1.3, return_to),
        row("chunks_3d_read_x_2d", 1.05, read_cubes),
    ]
}

fn open(kind: &Kind, path: &Path) -> ChunkWorld {
    (kind.options)().compact_above(None).open(path).expect("it was just made")
}

/// Bytes that a compacted file has more with pins than without, over the number of frames that have changed between pins. The
/// cells that only pins have are not counted.
fn bytes_per_changed_entry() -> (f64, String) {
    const PINS: i32 = 8;
    const CHANGED: i32 = 1000;
    const CELLS: usize = 16 * 16 * 4;
    let home = tempfile::tempdir().expect("a directory for temporary files");
    let file_bytes = |has_pins: bool| {
        let world = raw_options().chunk_size(16).compact_above(None).open(home.path().join("world"));
        let (world, mut numbers) = (world.expect("a new world"), Numbers::new(21));
        let mut save = |chunks: std::ops::Range<i32>| {
            let mut edit = world.edit();
            for number in chunks {
                let cells: Vec<u8> = (0..CELLS / 8).flat_map(|_| numbers.next().to_le_bytes()).collect();
                edit.put(pos(number), cells);
            }
            edit.commit(Durability::Synced).expect("room on the disk");
        };
        save(0..CHUNKS);
        for pin in 0..PINS {
            if has_pins {
                world.pin(format!("day {pin}"), b"a line of text").expect("room on the disk");
            }
            save(pin * CHANGED..(pin + 1) * CHANGED);
        }
        world.compact(|_, _| {}).expect("room on the disk");
        let bytes = world.info().file_bytes;
        drop(world);
        ChunkWorld::delete(home.path().join("world")).expect("nobody writes to it");
        bytes
    };
    let changed = (PINS * CHANGED) as u64;
    let frames = changed * (CELLS as u64 + 36);
    let more = file_bytes(true) - file_bytes(false) - frames;
    let note = format!("{more} bytes beside {frames} of cells, {PINS} pins, {changed} frames changed");
    (more as f64 / changed as f64, note)
}

/// A save of 100 chunks with a pin, over the same save without.
fn make() -> (f64, String) {
    const ROUNDS: usize = 60;
    let homes = [0, 1].map(|_| tempfile::tempdir().expect("a directory for temporary files"));
    let [pinned, plain] = homes.each_ref().map(|home| {
        RAW.copy_to(home.path());
        open(&RAW, &home.path().join("world"))
    });
    let (mut numbers, mut others) = (Numbers::new(31), Numbers::new(31));
    let mut number = 0;
    let (ours, theirs) = turns(
        ROUNDS,
        || {
            let dirty = RAW.dirty(&mut numbers);
            number += 1;
            wall(|| {
                let mut edit = pinned.edit();
                for (pos, cells) in dirty {
                    edit.put(pos, cells);
                }
                edit.pin(format!("autosave {}", number % 8), b"a line of text");
                black_box(edit.commit(Durability::Synced).expect("a disk that works"));
            })
        },
        || {
            let dirty = RAW.dirty(&mut others);
            wall(|| _ = black_box(save_dirty(&plain, dirty)))
        },
    );
    (
        ours / theirs,
        format!("{:.2} ms, without {:.2} ms; {} pins", ours * 1e3, theirs * 1e3, pinned.pins().len()),
    )
}

/// A random chunk of a pinned moment, over the same chunk of the present.
fn read_pinned() -> (f64, String) {
    const READS: usize = 500;
    let home = tempfile::tempdir().expect("a directory for temporary files");
    COMPRESSED.copy_to(home.path());
    let world = open(&COMPRESSED, &home.path().join("world"));
    let mut numbers = Numbers::new(41);
    for number in 0..5 {
        world.pin(format!("day {number}"), []).expect("a disk that works");
        save_dirty(&world, COMPRESSED.dirty(&mut numbers));
    }
    let at = world.at("day 1").expect("it was pinned");
    let (ours, theirs) = compare_reads(READS, [&at, &world], [pos, pos]);
    (ours / theirs, reads_note(READS, ours, theirs, "of the present"))
}

/// CPU time of random reads of two worlds, in turns.
fn compare_reads(reads: usize, worlds: [&ChunkWorld; 2], places: [fn(i32) -> ChunkPos; 2]) -> (f64, f64) {
    let [mut ours, mut theirs] = [0, 1].map(|which: usize| {
        let (world, place) = (worlds[which], places[which]);
        let (mut numbers, mut memory) = (Numbers::new(42), vec![0; world.chunk_bytes()]);
        move || {
            for _ in 0..reads {
                let pos = place((numbers.next() % CHUNKS as u64) as i32);
                assert!(world.read_into(pos, &mut memory).expect("it is whole"));
                black_box(&memory);
            }
        }
    });
    against(40, &mut ours, &mut theirs)
}

fn reads_note(reads: usize, ours: f64, theirs: f64, what: &str) -> String {
    let each = |seconds: f64| seconds * 1e6 / reads as f64;
    format!("{:.2} us, {what} {:.2} us", each(ours), each(theirs))
}

/// A return to a pin from which 1,000 chunks differ, over an append and a sync of the bytes that it writes.
fn return_to() -> (f64, String) {
    const ROUNDS: usize = 60;
    let home = tempfile::tempdir().expect("a directory for temporary files");
    RAW.copy_to(home.path());
    let world = open(&RAW, &home.path().join("world"));
    let mut numbers = Numbers::new(51);
    world.pin("before", []).expect("a disk that works");
    let mut changed = BTreeSet::new();
    for _ in 0..1000 / DIRTY {
        let dirty = RAW.dirty(&mut numbers);
        changed.extend(dirty.iter().map(|(pos, _)| *pos));
        save_dirty(&world, dirty);
    }
    world.pin("after", []).expect("a disk that works");
    let plain = File::create_new(home.path().join("plain")).expect("a new file");
    let end = world.info().file_bytes;
    world.return_to("before").expect("it was pinned");
    let bytes = world.info().file_bytes - end;
    let (mut number, mut end) = (0, 0);
    let (ours, theirs) = turns(
        ROUNDS,
        || {
            number += 1;
            let name = if number % 2 == 0 { "before" } else { "after" };
            wall(|| world.return_to(name).expect("it was pinned"))
        },
        || {
            let same: Vec<u8> = (0..bytes.div_ceil(8)).flat_map(|_| numbers.next().to_le_bytes()).collect();
            wall(|| {
                plain.write_all_at(&same, end).and_then(|()| plain.sync_data()).expect("a disk that works");
                end += same.len() as u64;
            })
        },
    );
    let note = format!(
        "{:.2} ms, append {:.2} ms; {bytes} bytes for {} chunks",
        ours * 1e3,
        theirs * 1e3,
        changed.len()
    );
    (ours / theirs, note)
}

/// A random chunk of 16 by 16 by 16 cells, over one of 64 by 64 cells with the same bytes.
fn read_cubes() -> (f64, String) {
    const READS: usize = 2000;
    let home = tempfile::tempdir().expect("a directory for temporary files");
    let make = |options: fn() -> ChunkOptions, name: &str, place: fn(i32) -> ChunkPos| {
        let world = options().open(home.path().join(name)).expect("a new world");
        for numbers in (0..CHUNKS).collect::<Vec<_>>().chunks(500) {
            let mut edit = world.edit();
            for &number in numbers {
                edit.put(place(number), small_cells(number as u64));
            }
            edit.commit(Durability::Buffered).expect("room on the disk");
        }
        world.close().expect("a disk that works");
        drop(world);
        options().open_read_only(home.path().join(name)).expect("it was just made")
    };
    let squares = make(|| ChunkOptions::new(layers()).chunk_size(64), "squares", pos);
    let cubes = make(|| ChunkOptions::new(layers()).chunk_size(16).three_dimensional(), "cubes", pos_3d);
    let (ours, theirs) = compare_reads(READS, [&cubes, &squares], [pos_3d, pos]);
    (ours / theirs, reads_note(READS, ours, theirs, "with two coordinates"))
}

/// The places of cubes, as many as there are squares.
fn pos_3d(number: i32) -> ChunkPos {
    ChunkPos::new_3d(number % 20 - 10, number / 20 % 25 - 12, number / 500 - 10)
}

/// 16 KiB of cells, of which a third does not compress.
fn small_cells(seed: u64) -> Vec<u8> {
    let mut numbers = Numbers::new(seed);
    let mut cells = vec![0; 64 * 64 * 4];
    for row in cells.chunks_exact_mut(256) {
        row[..80].chunks_exact_mut(8).for_each(|two| two.copy_from_slice(&numbers.next().to_le_bytes()));
    }
    cells
}
