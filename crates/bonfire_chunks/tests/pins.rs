//! Pinned moments, as a game uses them.

mod support;

use std::path::Path;

use bonfire_chunks::{ChunkOptions, ChunkPos, ChunkRect, ChunkWorld, Durability, Layer, Layers, PinInfo};
use bonfire_store::disk::{Access, Disk, MemoryDisk};
use bonfire_testkit::disk::{CrashDisk, Operation, Random};
use support::{SIZE, body, noise, options, snapshot};

const NAME: &str = "world.save";

fn open(disk: &MemoryDisk) -> ChunkWorld {
    options().open_on(disk.clone(), NAME, Access::Write).unwrap()
}

fn put(world: &ChunkWorld, pos: (i32, i32), seed: u64) {
    world.edit().put(pos, noise(seed)).commit(Durability::Synced).unwrap();
}

fn names(world: &ChunkWorld) -> Vec<String> {
    world.pins().into_iter().map(|pin| pin.name).collect()
}

fn pin_of(world: &ChunkWorld, name: &str) -> PinInfo {
    world.pins().into_iter().find(|pin| pin.name == name).unwrap()
}

/// Cells, a body and entities of the first chunk are this old.
fn fill(world: &ChunkWorld, age: u64) {
    let mut list = body(1, [1.0, 1.0]);
    list.rotation = age as f32;
    let mut edit = world.edit();
    edit.put((0, 0), noise(age)).put_bodies((0, 0), vec![list]).put_entities((0, 0), snapshot(age as u32));
    edit.commit(Durability::Synced).unwrap();
}

#[track_caller]
fn assert_age(world: &ChunkWorld, age: u64) {
    assert_eq!(world.read((0, 0)).unwrap(), Some(noise(age)));
    assert_eq!(world.read_bodies((0, 0)).unwrap()[0].rotation, age as f32);
    assert_eq!(world.read_entities((0, 0)).unwrap(), Some(snapshot(age as u32)));
}

#[test]
fn a_pin_keeps_cells_bodies_and_entities_while_the_game_goes_on() {
    let disk = MemoryDisk::new();
    let world = open(&disk);
    fill(&world, 1);
    world.pin("before", b"chapter 1").unwrap();
    let before = world.at("before").unwrap();
    fill(&world, 2);
    put(&world, (1, 0), 5);
    assert_age(&before, 1);
    assert_eq!((before.len(), before.contains((1, 0)), world.len()), (1, false, 2));
    assert_eq!(before.chunks_with_bodies(ChunkRect::ALL), [ChunkPos::new(0, 0)]);

    world.edit().remove((0, 0)).commit(Durability::Synced).unwrap();
    assert_age(&before, 1);
    drop((before, world));
    let world = open(&disk);
    assert_eq!(world.report(), &bonfire_chunks::OpenReport::default());
    assert_age(&world.at("before").unwrap(), 1);
    assert_eq!(
        (world.read((0, 0)).unwrap(), pin_of(&world, "before").metadata),
        (None, b"chapter 1".to_vec())
    );
}

#[test]
fn a_world_goes_back_to_a_pin_and_other_pins_stay() {
    let disk = MemoryDisk::new();
    let world = open(&disk);
    for age in 1..4 {
        fill(&world, age);
        world.pin(format!("day {age}"), []).unwrap();
    }
    fill(&world, 4);
    put(&world, (7, 7), 9);
    world.return_to("day 1").unwrap();
    assert_age(&world, 1);
    assert_eq!(world.read((7, 7)).unwrap(), None);
    assert_age(&world.at("day 3").unwrap(), 3);
    // A life after that, and back to what was pinned in the other one.
    fill(&world, 11);
    world.pin("another day 2", []).unwrap();
    world.return_to("day 3").unwrap();
    assert_age(&world, 3);
    assert_age(&world.at("another day 2").unwrap(), 11);
    drop(world);
    let world = open(&disk);
    assert_age(&world, 3);
    assert_eq!(names(&world), ["day 1", "day 2", "day 3", "another day 2"]);
    for (name, age) in [("day 1", 1), ("day 2", 2), ("day 3", 3), ("another day 2", 11)] {
        assert_age(&world.at(name).unwrap(), age);
    }
}

#[test]
fn a_body_is_where_it_was_when_the_world_returns() {
    let world = open(&MemoryDisk::new());
    world.edit().put_bodies((0, 0), vec![body(1, [1.0, 1.0])]).commit(Durability::Synced).unwrap();
    world.pin("here", []).unwrap();
    let id = body(1, [0.0; 2]).id;
    let mut there = body(1, [SIZE as f32 * 3.0 + 1.0, 1.0]);
    there.rotation = 3.0;
    world
        .edit()
        .put_bodies((0, 0), vec![])
        .put_bodies((3, 0), vec![there])
        .commit(Durability::Synced)
        .unwrap();
    assert_eq!(world.chunk_of_body(id).unwrap(), Some(ChunkPos::new(3, 0)));
    world.return_to("here").unwrap();
    assert_eq!(world.chunk_of_body(id).unwrap(), Some(ChunkPos::new(0, 0)));
    assert_eq!(world.read_bodies((3, 0)).unwrap(), []);
}

/// Cells of a chunk, however many, are no part of a pin or of a return.
#[test]
fn a_pin_and_a_return_copy_no_cells_and_sync_as_a_save_does() {
    let disk = CrashDisk::with_files([(format!("{NAME}.lock"), Vec::new())]);
    let world =
        options().compact_above(None).table_capacity(200).open_on(disk.clone(), NAME, Access::Write).unwrap();
    let mut edit = world.edit();
    (0..100).for_each(|x| _ = edit.put((x, 0), noise(x as u64)));
    edit.commit(Durability::Synced).unwrap();
    world.pin("first", []).unwrap();
    let counted = |work: &dyn Fn()| {
        let before = disk.operation_count();
        work();
        let (mut bytes, mut syncs) = (0, 0);
        for operation in &disk.operations()[before..] {
            match operation {
                Operation::Write { bytes: written, .. } => bytes += written.len(),
                Operation::Sync { .. } => syncs += 1,
                other => panic!("{other:?}"),
            }
        }
        (bytes, syncs)
    };
    let (bytes, syncs) = counted(&|| _ = world.pin("second", b"eight by").unwrap());
    assert!(bytes < 500, "{bytes} bytes for a pin");
    assert_eq!(syncs, 1);

    let mut edit = world.edit();
    (0..100).for_each(|x| _ = edit.put((x, 0), noise(1000 + x as u64)));
    edit.commit(Durability::Synced).unwrap();
    let (bytes, syncs) = counted(&|| world.return_to("second").unwrap());
    assert!(bytes < 100 * SIZE * SIZE * 4 / 8, "{bytes} bytes for a return");
    assert_eq!(syncs, 1);
    assert_eq!(world.read((55, 0)).unwrap(), Some(noise(55)));
    let (bytes, _) = counted(&|| world.return_to("second").unwrap());
    assert_eq!(bytes, 0, "it is there already");
}

#[test]
fn a_save_and_its_pin_are_one_step() {
    let disk = MemoryDisk::new();
    let world = open(&disk);
    world.edit().put((0, 0), noise(1)).pin("slot 1", b"day 1").commit(Durability::Synced).unwrap();
    let pin = pin_of(&world, "slot 1");
    assert_eq!((pin.generation, pin.metadata.as_slice()), (world.info().generation, &b"day 1"[..]));
    put(&world, (0, 0), 2);
    assert_eq!(world.at("slot 1").unwrap().read((0, 0)).unwrap(), Some(noise(1)));
}

#[test]
fn a_pin_takes_the_name_of_an_older_one() {
    let disk = MemoryDisk::new();
    let world = open(&disk);
    for age in 1..5 {
        fill(&world, age);
        world.pin("quick", [age as u8]).unwrap();
    }
    fill(&world, 9);
    let pins = world.pins();
    assert_eq!((pins.len(), pins[0].metadata.as_slice()), (1, &[4][..]));
    assert_age(&world.at("quick").unwrap(), 4);
    assert!(world.unpin("quick").unwrap());
    assert!(!world.unpin("quick").unwrap());
    assert!(world.pins().is_empty() && open_again(&disk, world).pins().is_empty());
}

fn open_again(disk: &MemoryDisk, world: ChunkWorld) -> ChunkWorld {
    drop(world);
    open(disk)
}

#[test]
fn pins_say_what_they_hold_and_give_it_back() {
    let disk = MemoryDisk::new();
    let world = options().compact_above(None).open_on(disk.clone(), NAME, Access::Write).unwrap();
    let mut random = Random::new(1);
    let chunks: Vec<(i32, i32)> = (0..40).map(|x| (x, 0)).collect();
    let save = |random: &mut Random| {
        let mut edit = world.edit();
        chunks.iter().for_each(|pos| _ = edit.put(*pos, random.bytes(SIZE * SIZE * 4)));
        edit.commit(Durability::Synced).unwrap();
    };
    save(&mut random);
    world.pin("old", []).unwrap();
    assert_eq!(pin_of(&world, "old").own_bytes, 0, "the present has all of it");
    save(&mut random);
    world.pin("new", []).unwrap();
    put(&world, (0, 0), 3);
    let cells = 40 * (SIZE * SIZE * 4) as u64;
    let (old, new) = (pin_of(&world, "old").own_bytes, pin_of(&world, "new").own_bytes);
    assert!((cells..cells + 40 * 64).contains(&old), "{old}");
    assert!((cells / 40..cells / 40 + 64).contains(&new), "{new}");

    world.compact(|_, _| {}).unwrap();
    let with_pins = world.info();
    assert_eq!((with_pins.pins, with_pins.pinned_bytes), (2, old + new));
    assert!(with_pins.dead_bytes < 1000, "{with_pins:?}");
    world.unpin("old").unwrap();
    assert!(world.info().dead_bytes >= old, "{:?}", world.info());
    world.compact(|_, _| {}).unwrap();
    let freed = with_pins.file_bytes - world.info().file_bytes;
    assert!((old..old + 2000).contains(&freed), "{freed} of {old}");
    assert_eq!(world.at("new").unwrap().read((5, 0)).unwrap(), world.read((5, 0)).unwrap());
}

/// The file of a world that has no pins any more is one that every version reads.
#[test]
fn the_header_tells_of_pins_as_long_as_there_are_some() {
    let disk = MemoryDisk::new();
    let world = open(&disk);
    let is_flagged = || {
        let mut header = [0; 64];
        disk.open(NAME, Access::Read).unwrap().read_exact_at(&mut header, 0).unwrap();
        header[6] & 16 != 0
    };
    put(&world, (0, 0), 1);
    let world = open_again(&disk, world);
    assert!(!is_flagged());
    world.pin("once", []).unwrap();
    assert!(is_flagged());
    put(&world, (0, 0), 2);
    world.return_to("once").unwrap();
    world.unpin("once").unwrap();
    world.compact(|_, _| {}).unwrap();
    assert!(!is_flagged());
    assert_eq!(world.read((0, 0)).unwrap(), Some(noise(1)));
}

#[test]
fn names_and_metadata_have_limits() {
    let world = open(&MemoryDisk::new());
    assert!(world.pin("", []).unwrap_err().is_misuse());
    assert!(world.pin("n".repeat(256), []).unwrap_err().is_misuse());
    assert!(world.pin("much", vec![0; (60 << 10) + 1]).unwrap_err().is_limit());
    assert!(world.pins().is_empty());
    let metadata = Random::new(3).bytes(60 << 10);
    world.pin("much", metadata.clone()).unwrap();
    assert_eq!(pin_of(&world, "much").metadata, metadata);
}

#[test]
fn what_cannot_be_is_said() {
    let disk = MemoryDisk::new();
    let world = open(&disk);
    put(&world, (0, 0), 1);
    let error = world.at("nothing").err().unwrap();
    assert!(error.is_not_found() && error.to_string().contains("`nothing`"), "{error}");
    assert!(world.return_to("nothing").unwrap_err().is_not_found());
    world.pin("here", []).unwrap();
    let here = world.at("here").unwrap();
    assert!(here.pin("again", []).unwrap_err().is_misuse());
    assert!(here.at("here").err().unwrap().is_misuse());
    assert!(here.edit().put((0, 0), noise(2)).commit(Durability::Synced).unwrap_err().is_misuse());
    world.unpin("here").unwrap();
    assert!(here.read((0, 0)).unwrap_err().is_not_found());

    let reader = options().open_on(disk, NAME, Access::Read).unwrap();
    assert!(
        reader.pin("mine", []).is_err() && reader.return_to("here").is_err() && reader.unpin("here").is_err()
    );
    let memory = options().open_in(bonfire_chunks::frames::MemoryFrames::new()).unwrap();
    let error = memory.pin("here", []).unwrap_err();
    assert!(error.is_unsupported(), "{error}");
}

#[test]
fn compaction_and_copies_keep_pins_and_a_copy_of_a_pin_has_none() {
    let directory = tempfile::tempdir().unwrap();
    let [path, copy, of_pin] = ["world", "copy", "of_pin"].map(|name| directory.path().join(name));
    let world = options().open(&path).unwrap();
    for age in 1..4 {
        fill(&world, age);
        put(&world, (age as i32, 5), age);
        world.pin(format!("day {age}"), [age as u8]).unwrap();
    }
    fill(&world, 4);
    let check = |world: &ChunkWorld| {
        assert_age(world, 4);
        (1..4).for_each(|age| assert_age(&world.at(&format!("day {age}")).unwrap(), age));
        assert_eq!(world.at("day 2").unwrap().len(), 3);
        assert!(world.check(|_, _| {}).damaged.is_empty());
    };
    let at_two = world.at("day 2").unwrap();
    world.compact(|_, _| {}).unwrap();
    check(&world);
    assert_age(&at_two, 2);
    world.save_to(&copy, &mut world.edit()).unwrap();
    check(&options().open(&copy).unwrap());
    at_two.save_to(&of_pin, &mut at_two.edit()).unwrap();
    let alone = options().open(&of_pin).unwrap();
    assert_age(&alone, 2);
    assert_eq!((alone.len(), alone.pins().len(), std::fs::read(&of_pin).unwrap()[6] & 16), (3, 0, 0));
}

/// A generator's chunks are stored as what differs from them; a pin of another age has its own difference.
#[test]
fn a_pin_of_a_generated_world_has_the_cells_of_its_time() {
    let disk = MemoryDisk::new();
    let generated = || {
        options().generator(support::Hills { version: 1 }).open_on(disk.clone(), NAME, Access::Write).unwrap()
    };
    let world = generated();
    let mut cells = vec![0; SIZE * SIZE * 4];
    support::Hills { version: 1 }.fill(ChunkPos::new(0, 0), &mut cells);
    let changed = |at: usize| {
        let mut cells = cells.clone();
        cells[at] ^= 1;
        cells
    };
    world.edit().put((0, 0), changed(9)).pin("dug", []).commit(Durability::Synced).unwrap();
    world.edit().put((0, 0), changed(20)).commit(Durability::Synced).unwrap();
    assert_eq!(world.load((0, 0)).unwrap().cells(), changed(20));
    assert_eq!(world.at("dug").unwrap().load((0, 0)).unwrap().cells(), changed(9));
    drop(world);
    assert_eq!(generated().at("dug").unwrap().load((0, 0)).unwrap().cells(), changed(9));
}

/// Layers that only a pin's chunks are stored with are not forgotten.
#[test]
fn a_pin_is_read_with_the_layers_of_today() {
    let disk = MemoryDisk::new();
    let open = |layers: Layers| {
        let options = ChunkOptions::new(layers).chunk_size(SIZE as u16).tile_size(4);
        options.open_on(disk.clone(), NAME, Access::Write).unwrap()
    };
    let world = open(support::layers());
    let old = vec![7; SIZE * SIZE * 4];
    world.edit().put((0, 0), old).pin("old", []).commit(Durability::Synced).unwrap();
    drop(world);
    let world = open(support::layers().with(Layer::new("heat", 2)));
    world.edit().put((0, 0), vec![9; SIZE * SIZE * 6]).commit(Durability::Synced).unwrap();
    // A compaction forgets sets of layers that nothing is stored with.
    world.compact(|_, _| {}).unwrap();
    drop(world);
    let world = open(support::layers().with(Layer::new("heat", 2)));
    let converted = [7, 7, 7, 7, 0, 0].repeat(SIZE * SIZE);
    assert_eq!(world.at("old").unwrap().read((0, 0)).unwrap(), Some(converted.clone()));
    world.return_to("old").unwrap();
    assert_eq!(world.read((0, 0)).unwrap(), Some(converted));
}

/// A chunk that three pins have in common, and the present has not any more.
#[test]
fn a_damaged_chunk_of_pins_costs_itself_and_stays_an_error() {
    let disk = MemoryDisk::new();
    let world = options().compact_above(None).open_on(disk.clone(), NAME, Access::Write).unwrap();
    world.edit().put((0, 0), noise(1)).put((1, 0), noise(2)).commit(Durability::Synced).unwrap();
    for name in ["one", "two", "three"] {
        put(&world, (2, 0), name.len() as u64);
        world.pin(name, []).unwrap();
    }
    put(&world, (0, 0), 3);
    world.pin("four", []).unwrap();
    drop(world);
    let file = disk.open(NAME, Access::Write).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let wanted = noise(1);
    let at =
        bytes.windows(64).position(|window| window == &wanted[100..164]).expect("noise is stored as it is");
    file.write_all_at(&[!bytes[at]], at as u64).unwrap();
    drop(file);
    let check = |world: &ChunkWorld| {
        for name in ["one", "two", "three"] {
            let at = world.at(name).unwrap();
            assert!(at.read((0, 0)).unwrap_err().is_corrupt(), "{name}");
            assert_eq!(at.read((1, 0)).unwrap(), Some(noise(2)), "{name}");
        }
        assert_eq!(world.at("four").unwrap().read((0, 0)).unwrap(), Some(noise(3)));
        assert_eq!(world.read((0, 0)).unwrap(), Some(noise(3)));
        let found = world.check(|_, _| {});
        let in_pins = found.damaged_in_pins.iter().map(|part| (part.frame.to_string(), &*part.pins));
        let three = ["one", "two", "three"].map(str::to_owned);
        assert_eq!(in_pins.collect::<Vec<_>>(), [("chunk at (0, 0)".to_owned(), &three[..])]);
        assert!(found.damaged.is_empty());
    };
    let world = open(&disk);
    check(&world);
    world.compact(|_, _| {}).unwrap();
    check(&world);
    let world = open_again(&disk, world);
    check(&world);
    // The world can go there; what is lost is lost there, too.
    world.return_to("one").unwrap();
    assert!(world.read((0, 0)).unwrap_err().is_corrupt());
    assert_eq!(world.read((2, 0)).unwrap(), Some(noise(3)));
    // A check names all pins that have it, also those with another moment between them.
    world.pin("five", []).unwrap();
    put(&world, (0, 0), 9);
    let found = world.check(|_, _| {}).damaged_in_pins;
    assert_eq!(
        (found.len(), &found[0].pins[..]),
        (1, &["one", "two", "three", "five"].map(str::to_owned)[..])
    );
}

/// A file that an earlier build has written: three days, a return to the first, and a life after that. To write it anew:
/// `BONFIRE_WRITE_FIXTURES=1 cargo test -p bonfire_chunks --test pins`.
#[test]
fn a_golden_file_with_pins_is_read_and_goes_on() {
    let path = format!("{}/../../fixtures/chunks/pins.world", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("BONFIRE_WRITE_FIXTURES").is_some() {
        let disk = MemoryDisk::new();
        let world = open(&disk);
        for age in 1..4 {
            fill(&world, age);
            put(&world, (age as i32, 1), age);
            world.pin(format!("day {age}"), [age as u8]).unwrap();
        }
        world.return_to("day 1").unwrap();
        fill(&world, 11);
        world.unpin("day 2").unwrap();
        world.close().unwrap();
        let file = disk.open(NAME, Access::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        std::fs::write(&path, bytes).unwrap();
    }
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!((bytes[4], bytes[6]), (1, 1 | 16), "version and flags");
    let disk = MemoryDisk::with_files([(NAME.to_owned(), bytes)]);
    let check = |world: &ChunkWorld| {
        assert_eq!(world.report(), &bonfire_chunks::OpenReport::default());
        assert_eq!(
            (names(world), pin_of(world, "day 3").metadata),
            (vec!["day 1".to_owned(), "day 3".to_owned()], vec![3])
        );
        assert_age(world, 11);
        assert_eq!((world.contains((1, 1)), world.contains((2, 1))), (true, false));
        for (name, age, chunks) in [("day 1", 1, 2), ("day 3", 3, 4)] {
            let at = world.at(name).unwrap();
            assert_age(&at, age);
            assert_eq!(at.len(), chunks);
        }
    };
    check(&options().open_on(disk.clone(), NAME, Access::Read).unwrap());
    let world = open(&disk);
    check(&world);
    world.compact(|_, _| {}).unwrap();
    check(&open_again(&disk, world));
}

/// The child of [`another_process_reads_a_pin_while_the_world_is_saved_compacted_and_unpinned`].
#[test]
fn reading_process() {
    let Ok(path) = std::env::var("BONFIRE_PIN_TEST_PATH") else { return };
    let world = ChunkOptions::open_read_only(&options(), Path::new(&path)).unwrap();
    let at = world.at("here").unwrap();
    assert_age(&at, 1);
    println!("\nread");
    let mut line = String::new();
    for expected in [Ok(1), Ok(1), Err(())] {
        std::io::stdin().read_line(&mut line).unwrap();
        let refreshed = at.refresh();
        match expected {
            Ok(age) => {
                refreshed.unwrap();
                assert_age(&at, age);
            }
            Err(()) => {
                assert!(refreshed.unwrap_err().is_not_found());
                assert!(at.read((0, 0)).unwrap_err().is_not_found());
            }
        }
        println!("\nread");
    }
}

#[test]
fn another_process_reads_a_pin_while_the_world_is_saved_compacted_and_unpinned() {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Command, Stdio};
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("world");
    let world = options().open(&path).unwrap();
    fill(&world, 1);
    world.pin("here", []).unwrap();
    fill(&world, 2);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "reading_process", "--nocapture"])
        .env("BONFIRE_PIN_TEST_PATH", &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut ask, mut lines) =
        (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()).lines());
    let mut wait = || assert!(lines.any(|line| line.unwrap() == "read"), "the other process stopped");
    wait();
    let steps: [&dyn Fn(); 3] = [&|| fill(&world, 3), &|| world.compact(|_, _| {}).unwrap(), &|| {
        assert!(world.unpin("here").unwrap());
    }];
    for step in steps {
        step();
        writeln!(ask).unwrap();
        wait();
    }
    assert!(child.wait().unwrap().success());
}
