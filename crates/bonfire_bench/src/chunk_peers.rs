//! The same chunks in databases that games use for them: a save of 100 of 10,000 in one durable transaction, and reads.

use std::path::Path;

use bonfire_chunks::ChunkWorld;
use redb::{Database, TableDefinition};
use rusqlite::Connection;

use crate::chunk_data::{Numbers, cells, options, raw_cells, raw_options};
use crate::chunk_rows::{CHUNKS, COMPRESSED, DIRTY, RAW, pos, save_dirty, wall};
use crate::measure::{Row, turns};

const ROUNDS: usize = 30;
const READS: usize = 500;

pub(crate) fn rows() -> Vec<Row> {
    let row = |key, target, measure: fn() -> (f64, String)| Row {
        key,
        target: Some(target),
        measure: Box::new(measure),
    };
    vec![
        row("chunks_vs_sqlite_save", 1.0, sqlite_save),
        row("chunks_vs_sqlite_read", 1.0, sqlite_read),
        row("chunks_vs_redb_save", 1.5, redb_save),
    ]
}

fn sqlite(path: &Path) -> Connection {
    let connection = Connection::open(path).expect("a new database");
    connection
        .execute_batch(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-65536;
             CREATE TABLE chunks (id INTEGER PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID;",
        )
        .or_else(|_| {
            connection.execute_batch("CREATE TABLE chunks (id INTEGER PRIMARY KEY, data BLOB NOT NULL);")
        })
        .expect("a table");
    connection
}

fn sqlite_put(connection: &mut Connection, blobs: &[(i64, Vec<u8>)]) {
    let transaction = connection.transaction().expect("nobody else is there");
    {
        let mut put =
            transaction.prepare_cached("INSERT OR REPLACE INTO chunks VALUES (?1, ?2)").expect("a table");
        for (id, data) in blobs {
            put.execute((id, data)).expect("room on the disk");
        }
    }
    transaction.commit().expect("a disk that works");
}

fn filled_sqlite(path: &Path) -> Connection {
    let mut connection = sqlite(path);
    let mut numbers = Numbers::new(9);
    let all: Vec<(i64, Vec<u8>)> = (0..i64::from(CHUNKS)).map(|id| (id, raw_cells(numbers.next()))).collect();
    sqlite_put(&mut connection, &all);
    connection
}

fn dirty_blobs(numbers: &mut Numbers) -> Vec<(i64, Vec<u8>)> {
    (0..DIRTY).map(|_| ((numbers.next() % CHUNKS as u64).cast_signed(), raw_cells(numbers.next()))).collect()
}

fn save(world: &ChunkWorld, numbers: &mut Numbers) -> f64 {
    let dirty = RAW.dirty(numbers);
    wall(|| {
        save_dirty(world, dirty);
    })
}

fn note(ours: f64, theirs: f64) -> String {
    format!("{:.2} ms, they take {:.2} ms", ours * 1e3, theirs * 1e3)
}

fn sqlite_save() -> (f64, String) {
    let home = tempfile::tempdir().expect("a directory for temporary files");
    RAW.copy_to(home.path());
    let world = raw_options().compact_above(None).open(home.path().join("world")).expect("it was just made");
    let mut connection = filled_sqlite(&home.path().join("sqlite"));
    let (mut numbers, mut others) = (Numbers::new(5), Numbers::new(6));
    let (ours, theirs) = turns(
        ROUNDS,
        || save(&world, &mut numbers),
        || {
            let blobs = dirty_blobs(&mut others);
            wall(|| sqlite_put(&mut connection, &blobs))
        },
    );
    (theirs / ours, note(ours, theirs))
}

/// Both to cells in memory: they hand out the payload, which is decompressed in the same way.
fn sqlite_read() -> (f64, String) {
    let home = tempfile::tempdir().expect("a directory for temporary files");
    COMPRESSED.copy_to(home.path());
    let world = options().open_read_only(home.path().join("world")).expect("it was just made");
    let mut connection = sqlite(&home.path().join("sqlite"));
    let encoded: Vec<(i64, Vec<u8>)> = (0..i64::from(CHUNKS))
        .map(|id| {
            let mut out = Vec::new();
            bonfire_chunks::codec::encode_full(
                &cells(id.cast_unsigned()),
                4,
                bonfire_chunks::codec::Choice::default(),
                &mut out,
            );
            (id, out)
        })
        .collect();
    sqlite_put(&mut connection, &encoded);
    let mut probe = Vec::new();
    let codec = bonfire_chunks::codec::encode_full(
        &cells(0),
        4,
        bonfire_chunks::codec::Choice::default(),
        &mut probe,
    );
    let mut memory = vec![0; world.chunk_bytes()];
    let mut their_memory = memory.clone();
    let (mut numbers, mut others) = (Numbers::new(7), Numbers::new(7));
    let mut get = connection.prepare("SELECT data FROM chunks WHERE id = ?1").expect("a table");
    let (ours, theirs) = turns(
        ROUNDS,
        || {
            wall(|| {
                for _ in 0..READS {
                    let pos = pos((numbers.next() % CHUNKS as u64) as i32);
                    assert!(world.read_into(pos, &mut memory).expect("it is whole"));
                }
            })
        },
        || {
            wall(|| {
                for _ in 0..READS {
                    let id = (others.next() % CHUNKS as u64).cast_signed();
                    let decode = |row: &rusqlite::Row<'_>| {
                        let data = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
                        bonfire_chunks::codec::decode_full(codec, data, 4, &mut their_memory)
                            .expect("it is whole");
                        Ok(())
                    };
                    get.query_row([id], decode).expect("it is there");
                }
            })
        },
    );
    let each = |seconds: f64| seconds * 1e6 / READS as f64;
    (theirs / ours, format!("{:.1} us, they take {:.1} us", each(ours), each(theirs)))
}

const TABLE: TableDefinition<'_, i64, &[u8]> = TableDefinition::new("chunks");

fn redb_put(database: &Database, blobs: &[(i64, Vec<u8>)]) {
    let transaction = database.begin_write().expect("nobody else is there");
    {
        let mut table = transaction.open_table(TABLE).expect("a table");
        for (id, data) in blobs {
            table.insert(id, data.as_slice()).expect("room on the disk");
        }
    }
    transaction.commit().expect("a disk that works");
}

/// The median of several pairs of files: where the system puts a file matters, too.
fn redb_save() -> (f64, String) {
    let mut pairs: Vec<(f64, f64)> = (0..5).map(|_| redb_save_once()).collect();
    pairs.sort_by(|one, other| (one.1 / one.0).total_cmp(&(other.1 / other.0)));
    let ratio = |(ours, theirs): (f64, f64)| theirs / ours;
    let (least, most) = (ratio(pairs[0]), ratio(pairs[pairs.len() - 1]));
    let (ours, theirs) = pairs[pairs.len() / 2];
    let range = format!("{least:.2} to {most:.2} in {} pairs", pairs.len());
    (theirs / ours, format!("{}; {range}", note(ours, theirs)))
}

/// The time of a save, and of redb for the same.
fn redb_save_once() -> (f64, f64) {
    let home = tempfile::tempdir().expect("a directory for temporary files");
    RAW.copy_to(home.path());
    let world = raw_options().compact_above(None).open(home.path().join("world")).expect("it was just made");
    let database = Database::create(home.path().join("redb")).expect("a new database");
    let (mut numbers, mut others) = (Numbers::new(8), Numbers::new(9));
    let all: Vec<(i64, Vec<u8>)> = (0..i64::from(CHUNKS)).map(|id| (id, raw_cells(others.next()))).collect();
    redb_put(&database, &all);
    turns(
        ROUNDS,
        || save(&world, &mut numbers),
        || {
            let blobs = dirty_blobs(&mut others);
            wall(|| redb_put(&database, &blobs))
        },
    )
}
