//! A world on any store of frames is the same world.

mod script;
mod support;

use bonfire_chunks::frames::MemoryFrames;
use bonfire_chunks::{ChunkWorld, Durability, MemoryDisk};
use bonfire_store::disk::Access;
use bonfire_testkit::disk::Random;
use script::{Model, NAME, Shape, random_edit};
use support::{noise, options};

/// The same script on a file and in memory, opened again now and then.
#[test]
fn a_world_in_memory_is_the_world_of_a_file() {
    for seed in 0..20 {
        let shape = Shape { generated: seed % 2 == 0, ..Shape::PLAIN };
        let (disk, frames) = (MemoryDisk::new(), MemoryFrames::new());
        let mut worlds =
            [shape.open(disk.clone()).unwrap(), shape.options().open_in(frames.clone()).unwrap()];
        let mut models = [Model::default(), Model::default()];
        for step in 0..30 {
            for (world, model) in worlds.iter().zip(&mut models) {
                let mut random = Random::new(seed * 100 + step);
                random_edit(&mut random, world, shape, model).commit(Durability::Synced).unwrap();
                assert!(Model::of(world).unwrap() == *model, "seed {seed}, step {step}");
            }
            assert!(models[0] == models[1]);
            if step % 7 == 6 {
                for world in &worlds {
                    world.close().unwrap();
                }
                drop(worlds);
                worlds =
                    [shape.open(disk.clone()).unwrap(), shape.options().open_in(frames.clone()).unwrap()];
            }
        }
        let [file, memory] = worlds.each_ref().map(ChunkWorld::info);
        assert_eq!((file.chunks, file.layers), (memory.chunks, memory.layers));
        assert_eq!(
            (file.seed, file.created, file.chunk_size),
            (memory.seed, memory.created, memory.chunk_size)
        );
        assert!(worlds[1].check(|_, _| {}).damaged.is_empty());
    }
}

#[test]
fn a_world_in_memory_is_written_to_a_file() {
    let frames = MemoryFrames::new();
    let world = options().open_in(frames.clone()).unwrap();
    let mut edit = world.edit();
    for x in 0..20 {
        edit.put((x, -x), noise(x as u64));
    }
    edit.commit(Durability::Synced).unwrap();
    let disk = MemoryDisk::new();
    let mut last = (0, 0);
    world.backup_on(&disk, NAME, |done, total| last = (done, total)).unwrap();
    assert!(last.0 == last.1 && last.0 >= 22, "{last:?}");
    let mut edit = world.edit();
    edit.put((0, 0), noise(100)).remove((1, -1));
    world.save_on(&disk, "other.save", &mut edit).unwrap();
    assert_eq!(world.read((0, 0)).unwrap(), Some(noise(0)), "the world stays as it is");
    for (name, zero, one) in [(NAME, noise(0), Some(noise(1))), ("other.save", noise(100), None)] {
        let copy = options().open_on(disk.clone(), name, Access::Write).unwrap();
        assert_eq!(copy.report(), &bonfire_chunks::OpenReport::default());
        assert_eq!((copy.read((0, 0)).unwrap(), copy.read((1, -1)).unwrap()), (Some(zero), one));
        assert_eq!(copy.read((19, -19)).unwrap(), Some(noise(19)));
        assert_eq!(copy.info().created, world.info().created);
    }
}

#[test]
fn a_store_that_is_no_file_has_no_seal_and_needs_no_compaction() {
    let world = options().open_in(MemoryFrames::new()).unwrap();
    world.edit().put((0, 0), noise(1)).commit(Durability::Synced).unwrap();
    world.compact(|_, _| {}).unwrap();
    assert!(!world.step_compaction().unwrap());
    let error = options().compat().open_in(MemoryFrames::new()).unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains("plain layout"), "{error}");
    #[cfg(feature = "seal")]
    {
        let key = bonfire_store::SealKey::from_bytes([1; 32]);
        assert!(options().sealed(key).open_in(MemoryFrames::new()).unwrap_err().is_misuse());
    }
    let frames = MemoryFrames::new();
    drop(options().open_in(frames.clone()).unwrap());
    let error = options().chunk_size(32).open_in(frames.clone()).unwrap_err();
    assert!(error.to_string().contains("16") && error.to_string().contains("32"), "{error}");
    let as_is = bonfire_chunks::ChunkOptions::as_is().open_in(frames).unwrap();
    assert_eq!(as_is.chunk_size(), 16);
    let error = bonfire_chunks::ChunkOptions::as_is().open_in(MemoryFrames::new()).unwrap_err();
    assert!(error.is_corrupt(), "{error}");
}
