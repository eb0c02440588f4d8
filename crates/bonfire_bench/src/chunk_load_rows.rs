//! Chunked worlds under load: many threads that read, and saves while the file is compacted.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use bonfire_chunks::codec::{Codec, decode_full};

use crate::chunk_data::{Numbers, options, raw_options};
use crate::chunk_rows::{COMPRESSED, RAW, StoredAt, save_dirty, stored_chunks, wall};
use crate::measure::{Row, turns};

pub(crate) fn rows() -> Vec<Row> {
    let row = |key, target, measure: fn() -> (f64, String)| Row {
        key,
        target: Some(target),
        measure: Box::new(measure),
    };
    vec![
        row("chunks_read_4_threads_x", 0.9, read_with_threads),
        row("chunks_save_during_compaction_p99", 3.0, save_during_compaction),
    ]
}

const THREADS: u64 = 4;

/// How many chunks four threads read through the world in the time in which they read and decode the same payloads
/// themselves, over the number of those.
fn read_with_threads() -> (f64, String) {
    const READS: usize = 400;
    let home = tempfile::tempdir().expect("a directory for temporary files");
    COMPRESSED.copy_to(home.path());
    let path = home.path().join("world");
    let world = options().open_read_only(&path).expect("it was just made");
    let file = File::open(&path).expect("it was just made");
    let table = stored_chunks(&file);
    let some = |seed: u64| {
        let (mut numbers, table) = (Numbers::new(seed), &table);
        (0..READS).map(move |_| &table[(numbers.next() % table.len() as u64) as usize])
    };
    let (ours, theirs) = turns(
        15,
        || {
            in_threads(|seed| {
                let mut memory = vec![0; world.chunk_bytes()];
                for stored in some(seed) {
                    assert!(world.read_into(stored.pos, &mut memory).expect("it is whole"));
                    black_box(&memory);
                }
            })
        },
        || {
            in_threads(|seed| {
                let (mut memory, mut payload) = (vec![0; world.chunk_bytes()], Vec::new());
                for &StoredAt { offset, len, codec, .. } in some(seed) {
                    payload.resize(len, 0);
                    file.read_exact_at(&mut payload, offset).expect("it is whole");
                    let codec = Codec::from_number(codec).expect("a known codec");
                    decode_full(codec, &payload, 4, &mut memory).expect("it is whole");
                    black_box(&memory);
                }
            })
        },
    );
    let per_second = |seconds: f64| READS as f64 * THREADS as f64 / seconds;
    let note = format!("{:.0} chunks per second, by hand {:.0}", per_second(ours), per_second(theirs));
    (theirs / ours, note)
}

fn in_threads(work: impl Fn(u64) + Sync) -> f64 {
    wall(|| {
        std::thread::scope(|scope| {
            for seed in 0..THREADS {
                let work = &work;
                scope.spawn(move || work(seed));
            }
        });
    })
}

/// The slowest of a hundred saves while another thread compacts the file all the time, over that without.
fn save_during_compaction() -> (f64, String) {
    const SAVES: usize = 300;
    let home = tempfile::tempdir().expect("a directory for temporary files");
    RAW.copy_to(home.path());
    let world = raw_options().compact_above(None).open(home.path().join("world")).expect("it was just made");
    let mut numbers = Numbers::new(12);
    let mut save = || {
        // As many as a game saves at a time while it runs.
        let dirty = RAW.dirty(&mut numbers).into_iter().take(16).collect();
        wall(|| _ = black_box(save_dirty(&world, dirty)))
    };
    let mut rounds = Vec::new();
    for _ in 0..5 {
        let mut alone: Vec<f64> = (0..SAVES).map(|_| save()).collect();
        let is_over = AtomicBool::new(false);
        let mut beside: Vec<f64> = std::thread::scope(|scope| {
            let compacting = scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    world.compact(|_, _| {}).expect("a disk that works");
                }
            });
            let beside = (0..SAVES).map(|_| save()).collect();
            is_over.store(true, Ordering::Release);
            compacting.join().expect("it does not panic");
            beside
        });
        rounds.push((p99(&mut beside), p99(&mut alone)));
    }
    rounds.sort_by(|one, other| (one.0 / one.1).total_cmp(&(other.0 / other.1)));
    let (beside, alone) = rounds[rounds.len() / 2];
    let status = world.compaction();
    let note = format!(
        "{:.2} ms, without {:.2} ms; {} compactions, a save waited for {} bytes at most",
        beside * 1e3,
        alone * 1e3,
        status.completed,
        status.save_waited_bytes_max
    );
    (beside / alone, note)
}

fn p99(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() * 99 / 100]
}
