//! Chunked worlds: new, edited, closed, compacted, grown, with bodies and entities, sealed, with deltas from a generator, for
//! readers of the plain layout.
//!
//! A file is copied at each step. The header has the time at which it was written, and each commit a copy of the header.

use std::fs;
use std::path::{Path, PathBuf};

use bevy_bonfire::{SaveOptions, WorldSaveExt};
use bonfire_chunks::codec::{Choice, Codec, Delta};
use bonfire_chunks::{
    Body, ChunkOptions, ChunkPos, ChunkWorld, Durability, Layer, Layers, Persistence, StoredChunk, WorldShape,
};

use super::{Result, passphrase_key, seal_key};
use crate::bevy_plain;
use crate::chunk_data::{Numbers, layers, terrain};

/// Cells along an edge.
const SIZE: usize = 64;

pub(super) fn write(directory: &Path) -> Result {
    life(directory, "plain", &options())?;
    life(directory, "compat", &options().compat())?;
    life(directory, "eager", &options().eager())?;
    life(directory, "growing", &options().table_capacity(4))?;
    life(directory, "generated", &options().generator(generator))?;
    life(directory, "compat-generated", &options().compat().generator(generator))?;
    life(directory, "raw", &options().compression(Choice::none().with(Codec::Raw)))?;
    let sealed = options().sealed(seal_key());
    life(directory, "sealed", &sealed)?;
    opened(directory, "sealed", &sealed)?;
    let passphrase = options().sealed(passphrase_key());
    life(directory, "passphrase", &passphrase)?;
    opened(directory, "passphrase", &passphrase)?;
    ground_of_games(directory)?;
    releases(directory)?;
    others(directory)
}

fn options() -> ChunkOptions {
    ChunkOptions::new(layers()).chunk_size(SIZE as u16).seed(77).created(1_700_000_000).compact_above(None)
}

fn generator(_: &WorldShape<'_>, pos: ChunkPos, cells: &mut [u8]) {
    ground(pos, cells);
}

/// The ground of a world that nobody has changed.
fn ground(pos: ChunkPos, cells: &mut [u8]) {
    let mut numbers = Numbers::new((pos.x as u64) << 32 | u64::from(pos.y as u32));
    for (number, cell) in cells.chunks_exact_mut(4).enumerate() {
        let shade = (numbers.next() & 3) as u8;
        cell.copy_from_slice(&[if number / SIZE < 20 { 0 } else { 3 }, shade, 0, 2]);
    }
}

/// The ground with some cells that were dug out, or with all cells anew.
fn edited(pos: ChunkPos, turn: u64) -> Vec<u8> {
    let mut cells = vec![0; SIZE * SIZE * 4];
    ground(pos, &mut cells);
    let mut numbers = Numbers::new(turn * 1_000 + u64::from(pos.x.unsigned_abs()));
    match pos.x.rem_euclid(5) {
        0 => cells.fill(0),
        1 => (0..300).for_each(|_| cells[(numbers.next() % 16_384) as usize] = 9),
        2 => cells[4_000..6_000].fill(0),
        3 => cells.chunks_exact_mut(8).for_each(|two| two.copy_from_slice(&numbers.next().to_le_bytes())),
        _ => {}
    }
    cells
}

fn body(world: &ChunkWorld, pos: ChunkPos, id: bonfire_chunks::BodyId, number: u8) -> Body {
    let centre = |place: i32| (place * world.chunk_size() as i32 + 5) as f32;
    Body {
        id,
        position: [centre(pos.x), centre(pos.y)],
        rotation: 0.1,
        linear_velocity: [1.0, 2.0],
        angular_velocity: 0.5,
        width: 8,
        height: 8,
        origin: [-4, -4],
        cells: vec![number; 256],
        mask: vec![0xFF; 8],
        extension: vec![number; 3],
    }
}

/// One save: cells, and in some chunks bodies and entities.
fn save(world: &ChunkWorld, turn: u64, durability: Durability) -> Result {
    let mut ids = world.body_ids()?;
    let mut edit = world.edit();
    for number in 0..12 {
        let pos = ChunkPos::new(number + turn as i32 - 6, number % 3 - 1);
        edit.put(pos, edited(pos, turn));
        if number % 4 == 1 {
            let bodies: Vec<Body> =
                (0..3).map(|body_number| body(world, pos, ids.next_id(), body_number)).collect();
            edit.put_bodies(pos, bodies);
        }
        if number % 4 == 2 {
            let snapshot = bevy_plain::filled(20 + number as usize).capture(&SaveOptions::new())?;
            edit.put_entities(pos, snapshot.to_bytes()?);
        }
    }
    if turn > 1 {
        edit.remove(ChunkPos::new(-5, 0)).remove_entities(ChunkPos::new(-3, 1));
    }
    edit.commit(durability)?;
    Ok(())
}

fn copy(world: &Path, step: &str) -> Result {
    fs::copy(world, world.with_extension(step))?;
    Ok(())
}

fn path(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.world"))
}

/// The life of a world, with a copy of the file after each step.
fn life(directory: &Path, name: &str, options: &ChunkOptions) -> Result {
    let path = path(directory, name);
    let world = options.open(&path)?;
    copy(&path, "1-new")?;
    save(&world, 1, Durability::Synced)?;
    copy(&path, "2-saved")?;
    save(&world, 2, Durability::Buffered)?;
    world.flush()?;
    copy(&path, "3-buffered")?;
    world.close()?;
    copy(&path, "4-closed")?;
    let world = options.open(&path)?;
    save(&world, 3, Durability::Synced)?;
    copy(&path, "5-reopened")?;
    world.backup_to(path.with_extension("6-backup"))?;
    let mut edit = world.edit();
    edit.put(ChunkPos::new(50, 50), edited(ChunkPos::new(50, 50), 4));
    world.save_to(path.with_extension("7-saved-as"), &mut edit)?;
    world.compact(|_, _| {})?;
    copy(&path, "8-compacted")?;
    save(&world, 5, Durability::Synced)?;
    world.close()?;
    Ok(())
}

/// The cells, bodies and entities of a world that others cannot read.
fn opened(directory: &Path, name: &str, options: &ChunkOptions) -> Result {
    let path = path(directory, name);
    let world = options.open_read_only(&path)?;
    let mut content = Vec::new();
    for pos in world.iter() {
        content.extend(format!("{pos}\n").bytes());
        content.extend(world.read(pos)?.unwrap_or_default());
        let bodies = world.read_bodies(pos)?;
        content.extend(format!("{bodies:?}\n").bytes());
        content.extend(world.read_entities(pos)?.unwrap_or_default());
    }
    fs::write(path.with_extension("opened"), content)?;
    Ok(())
}

/// Ground as games have it, in the fast and in the small codecs, whole and as a delta.
fn ground_of_games(directory: &Path) -> Result {
    for (name, choice) in [("terrain-fast", Choice::fast()), ("terrain-compat", Choice::compat())] {
        let options = ChunkOptions::new(layers())
            .seed(5)
            .created(1_700_000_000)
            .compact_above(None)
            .compression(choice);
        let world = options.open(path(directory, name))?;
        let chunks = terrain();
        let mut edit = world.edit();
        for (x, cells) in chunks.iter().enumerate() {
            edit.put_stored(ChunkPos::new(x as i32, 0), StoredChunk::Full(cells.clone()));
            let mut dug = cells.clone();
            dug[100_000..140_000].fill(0);
            let delta = Delta::between(cells, &dug, 4);
            edit.put_stored(ChunkPos::new(x as i32, 1), StoredChunk::Delta(delta));
        }
        edit.put_stored(ChunkPos::new(0, 2), StoredChunk::Empty);
        edit.commit(Durability::Synced)?;
        world.close()?;
    }
    Ok(())
}

/// A world that a later release opens with other layers, materials and another generator.
fn releases(directory: &Path) -> Result {
    let path = path(directory, "releases");
    let first = Layers::new()
        .with(Layer::new("material", 1).persistence(Persistence::Always))
        .with(Layer::new("heat", 2).default_value(&[1, 0]))
        .with(Layer::new("flags", 1).persistence(Persistence::Partial(vec![0x0F])))
        .with(Layer::new("light", 1).persistence(Persistence::No))
        .materials("material", [(0, "air"), (1, "stone"), (2, "sand")]);
    let second = Layers::new()
        .with(Layer::new("material", 1).persistence(Persistence::Always))
        .with(Layer::new("flags", 1).persistence(Persistence::Partial(vec![0x0F])))
        .with(Layer::new("damage", 2))
        .materials("material", [(0, "air"), (1, "sand"), (2, "stone"), (3, "gold")]);
    for (turn, layers) in [first, second].into_iter().enumerate() {
        let cell_bytes = layers.cell_bytes();
        let options = ChunkOptions::new(layers).chunk_size(16).created(1_700_000_000).compact_above(None);
        let world = options.generator_version(turn as u32).open(&path)?;
        let mut edit = world.edit();
        for x in 0..4_i32 {
            let cell = |number: usize| (number as u8 * 7 + x as u8) % 3;
            let cells: Vec<u8> = (0..256 * cell_bytes).map(cell).collect();
            edit.put(ChunkPos::new(x * (turn as i32 + 1), turn as i32), cells);
        }
        edit.commit(Durability::Synced)?;
        copy(&path, &format!("{}-saved", turn + 1))?;
        if turn == 1 {
            world.upgrade_all(|_, _| {})?;
            copy(&path, "3-upgraded")?;
        }
        world.close()?;
    }
    Ok(())
}

/// A file that compacts by itself, and one with a thousand saves and chunks.
fn others(directory: &Path) -> Result {
    let options = options().compact_above(Some(0.25)).compact_at_least(0);
    let world = options.open(path(directory, "by-itself"))?;
    for turn in 1..8 {
        save(&world, turn % 2 + 1, Durability::Synced)?;
    }
    world.close()?;
    let small = ChunkOptions::new(layers()).chunk_size(8).created(1_700_000_000).table_capacity(64);
    let world = small.open(path(directory, "many"))?;
    for turn in 0..1_000 {
        let mut edit = world.edit();
        edit.put(ChunkPos::new(turn % 40, turn / 40), vec![turn as u8; 256]);
        edit.commit(Durability::Buffered)?;
    }
    world.close()?;
    Ok(())
}
