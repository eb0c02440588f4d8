//! Bodies, and entities with stable ids, are in one chunk at a time: after saves of any kind, in any session, after losses, and the
//! index that finds them says so.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use bonfire::{EncodeOptions, Persist};
use bonfire_chunks::frames::{
    FrameChange, FrameKey, FrameKind, FrameStore, FrameTag, MemoryFrames, NewFrame,
};
use bonfire_chunks::{Body, BodyId, ChunkPos, ChunkRect, ChunkWorld, Durability, MemoryDisk, encode_bodies};
use bonfire_store::disk::{Access, Disk};
use bonfire_testkit::ModelWorld;
use bonfire_testkit::disk::Random;
use bonfire_testkit::scale;
use support::{SIZE, body, options};

const NAME: &str = "world.save";

fn in_memory(frames: &MemoryFrames) -> ChunkWorld {
    options().open_in(frames.clone()).expect("a store in memory")
}

fn on(disk: &MemoryDisk) -> ChunkWorld {
    options().open_on(disk.clone(), NAME, Access::Write).expect("a disk in memory")
}

/// A body in the middle of a chunk.
fn body_at(id: u64, pos: (i32, i32)) -> Body {
    let centre = |at: i32| (at * SIZE as i32) as f32 + 8.0;
    body(id, [centre(pos.0), centre(pos.1)])
}

fn put(world: &ChunkWorld, id: u64, pos: (i32, i32)) {
    world.edit().put_body(body_at(id, pos)).commit(Durability::Synced).unwrap();
}

/// Where each body is listed.
fn listed(world: &ChunkWorld) -> BTreeMap<u64, Vec<ChunkPos>> {
    let mut all: BTreeMap<u64, Vec<ChunkPos>> = BTreeMap::new();
    for pos in world.chunks_with_bodies(ChunkRect::ALL) {
        for body in world.read_bodies(pos).unwrap() {
            all.entry(body.id.0).or_default().push(pos);
        }
    }
    all
}

/// The data of a frame.
fn data(frames: &MemoryFrames, key: FrameKey) -> Vec<u8> {
    let mut found = Vec::new();
    frames
        .read(key, &mut |_, data| {
            found = data.to_vec();
            Ok(())
        })
        .unwrap();
    found
}

fn overwrite(frames: &MemoryFrames, key: FrameKey, data: Vec<u8>) {
    let tag = frames.tag(key).unwrap_or_default();
    let change = FrameChange { frames: vec![NewFrame { key, tag, data }], removed: Vec::new() };
    frames.commit(change, Durability::Synced).unwrap();
}

fn parts(frames: &MemoryFrames) -> Vec<FrameKey> {
    let all = frames.list(FrameKind::Ids, &ChunkRect::ALL);
    all.into_iter().map(|(pos, _)| FrameKey::new(FrameKind::Ids, pos)).collect()
}

fn remove_index(frames: &MemoryFrames) {
    let removed = parts(frames);
    assert!(!removed.is_empty());
    frames.commit(FrameChange { frames: Vec::new(), removed }, Durability::Synced).unwrap();
}

#[test]
fn a_body_is_taken_out_of_a_chunk_that_the_session_has_never_read() {
    let disk = MemoryDisk::new();
    let world = on(&disk);
    put(&world, 1, (0, 0));
    drop(world);
    let world = on(&disk);
    world.edit().put_bodies((3, 0), [body_at(1, (3, 0))]).commit(Durability::Synced).unwrap();
    assert_eq!(world.chunk_of_body(BodyId(1)).unwrap(), Some(ChunkPos::new(3, 0)));
    drop(world);
    let world = on(&disk);
    assert_eq!(listed(&world), [(1, vec![ChunkPos::new(3, 0)])].into());
    assert!(world.chunks_with_bodies(ChunkRect::ALL) == [ChunkPos::new(3, 0)], "the other list is gone");
    assert_eq!(world.chunk_of_body(BodyId(1)).unwrap(), Some(ChunkPos::new(3, 0)));
    assert_eq!(world.chunk_of_body(BodyId(2)).unwrap(), None);
    assert!(world.check(|_, _| {}).damaged.is_empty());
}

#[test]
fn single_bodies_are_put_moved_and_removed() {
    let world = on(&MemoryDisk::new());
    put(&world, 1, (0, 0));
    put(&world, 2, (0, 0));
    assert_eq!(world.read_bodies((0, 0)).unwrap(), [body_at(1, (0, 0)), body_at(2, (0, 0))]);
    let to = [40.0, 8.0];
    world.edit().move_body(BodyId(1), to).commit(Durability::Synced).unwrap();
    let moved = Body { position: to, ..body_at(1, (0, 0)) };
    assert_eq!(world.read_body(BodyId(1)).unwrap(), Some(moved.clone()), "all else is as it was");
    assert_eq!(world.read_bodies((2, 0)).unwrap(), [moved]);
    assert_eq!(world.read_bodies((0, 0)).unwrap(), [body_at(2, (0, 0))]);

    let mut edit = world.edit();
    edit.remove_body(BodyId(1)).remove_body(BodyId(77)).put_body(body_at(3, (0, 0)));
    edit.commit(Durability::Synced).unwrap();
    assert_eq!(world.read_body(BodyId(1)).unwrap(), None);
    assert_eq!(world.read_bodies((0, 0)).unwrap(), [body_at(2, (0, 0)), body_at(3, (0, 0))]);
    assert_eq!(world.chunks_with_bodies(ChunkRect::ALL), [ChunkPos::new(0, 0)]);

    // Beside lists of the same edit, and in a chunk that is removed first.
    let mut edit = world.edit();
    edit.put_bodies((0, 0), [body_at(4, (0, 0)), body_at(5, (0, 0))]).move_body(BodyId(5), to);
    edit.commit(Durability::Synced).unwrap();
    assert_eq!(world.read_bodies((0, 0)).unwrap(), [body_at(4, (0, 0))]);
    assert_eq!(world.chunk_of_body(BodyId(5)).unwrap(), Some(ChunkPos::new(2, 0)));
    world.edit().remove((0, 0)).put_body(body_at(6, (0, 0))).commit(Durability::Synced).unwrap();
    assert_eq!(world.read_bodies((0, 0)).unwrap(), [body_at(6, (0, 0))]);
    assert_eq!(world.chunk_of_body(BodyId(4)).unwrap(), None, "it went with its chunk");

    let error = world.edit().move_body(BodyId(99), to).commit(Durability::Synced).unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains("99"), "{error}");
    let error = world.edit().move_body(BodyId(6), [f32::NAN, 0.0]).commit(Durability::Synced).unwrap_err();
    assert!(error.is_misuse(), "{error}");
    let empty = Body { mask: vec![0; body_at(6, (0, 0)).mask.len()], ..body_at(6, (0, 0)) };
    world.edit().put_body(empty).commit(Durability::Synced).unwrap();
    assert_eq!(world.chunk_of_body(BodyId(6)).unwrap(), None, "an empty body is gone");
}

#[test]
fn a_body_that_cannot_be_read_costs_itself_and_is_reported() {
    let frames = MemoryFrames::new();
    let world = in_memory(&frames);
    for id in 1..=3 {
        put(&world, id, (0, 0));
    }
    let key = FrameKey::new(FrameKind::Bodies, ChunkPos::new(0, 0));
    let mut list = data(&frames, key);
    let second = encode_bodies(&[body_at(1, (0, 0))], 4).unwrap().len();
    list[second + 64 + 4] ^= 0xFF; // in the cells of the second body, behind its header
    overwrite(&frames, key, list);
    let world = in_memory(&frames);
    let found = world.read_body_list((0, 0)).unwrap();
    assert_eq!(found.bodies, [body_at(1, (0, 0)), body_at(3, (0, 0))]);
    assert_eq!((found.lost.len(), found.lost[0].index, found.lost[0].count), (1, 1, 1));
    assert!(found.lost[0].error.to_string().contains("(0, 0)"), "{}", found.lost[0].error);
    assert_eq!(world.read_bodies((0, 0)).unwrap().len(), 2);
    let check = world.check(|_, _| {});
    assert_eq!(check.damaged.len(), 1, "{check:?}");
    let report = world.edit().put_body(body_at(4, (0, 0))).commit(Durability::Synced).unwrap();
    assert_eq!(report.bodies_lost, 1);
    assert_eq!(world.chunk_of_body(BodyId(2)).unwrap(), None);
    assert_eq!(listed(&world).keys().copied().collect::<Vec<_>>(), [1, 3, 4]);
    assert!(world.check(|_, _| {}).damaged.is_empty());
}

#[test]
fn a_lost_or_damaged_index_is_made_again() {
    type Loss = fn(&MemoryFrames);
    let losses: [(&str, Loss); 4] = [
        ("all of it", remove_index),
        ("a part", |frames| {
            let removed = vec![parts(frames)[1]];
            frames.commit(FrameChange { frames: Vec::new(), removed }, Durability::Synced).unwrap();
        }),
        ("damage in a part", |frames| {
            for key in parts(frames) {
                overwrite(frames, key, vec![1, 2, 3]);
            }
        }),
        ("an empty part", |frames| {
            parts(frames).into_iter().for_each(|key| overwrite(frames, key, Vec::new()));
        }),
    ];
    for (what, lose) in losses {
        let frames = MemoryFrames::new();
        let world = in_memory(&frames);
        let home = |id: u64| (id as i32 % 7, 0);
        let mut edit = world.edit();
        (1..=200).for_each(|id| _ = edit.put_body(body_at(id, home(id))));
        edit.commit(Durability::Synced).unwrap();
        assert!(parts(&frames).len() > 3);
        lose(&frames);
        let world = in_memory(&frames);
        for id in 1..=200 {
            let expected = ChunkPos::from(home(id));
            assert_eq!(world.chunk_of_body(BodyId(id)).unwrap(), Some(expected), "{what}: {id}");
        }
        put(&world, 5, (9, 9));
        let world = in_memory(&frames);
        for id in 1..=200 {
            let expected = ChunkPos::from(if id == 5 { (9, 9) } else { home(id) });
            assert_eq!(world.chunk_of_body(BodyId(id)).unwrap(), Some(expected), "{what}: {id}");
        }
        let check = world.check(|_, _| {});
        assert!(check.damaged.is_empty(), "{what}: the next save has written it: {check:?}");
        assert_eq!(listed(&world).len(), 200);
    }
}

#[test]
fn a_body_that_two_chunks_list_is_in_one_of_them() {
    let frames = MemoryFrames::new();
    let world = in_memory(&frames);
    put(&world, 1, (0, 0));
    put(&world, 2, (1, 0));
    // As a program without an index would leave it.
    let twice = encode_bodies(&[body_at(1, (1, 0)), body_at(2, (1, 0))], 4).unwrap();
    overwrite(&frames, FrameKey::new(FrameKind::Bodies, ChunkPos::new(1, 0)), twice);
    remove_index(&frames);
    let world = in_memory(&frames);
    assert_eq!(listed(&world), [(1, vec![ChunkPos::new(0, 0)]), (2, vec![ChunkPos::new(1, 0)])].into());
    put(&world, 3, (5, 5));
    let stored = data(&frames, FrameKey::new(FrameKind::Bodies, ChunkPos::new(1, 0)));
    assert_eq!(stored, encode_bodies(&[body_at(2, (1, 0))], 4).unwrap(), "the next save takes it out");
}

#[test]
fn a_wrong_index_is_found_by_a_check() {
    let frames = MemoryFrames::new();
    let world = in_memory(&frames);
    put(&world, 1, (0, 0));
    let removed = vec![FrameKey::new(FrameKind::Bodies, ChunkPos::new(0, 0))];
    frames.commit(FrameChange { frames: Vec::new(), removed }, Durability::Synced).unwrap();
    let check = in_memory(&frames).check(|_, _| {});
    assert!(check.damaged.len() == 1 && check.damaged[0].0.kind_name() == "index of ids", "{check:?}");
}

#[test]
fn a_move_writes_a_part_of_a_large_index() {
    let world = on(&MemoryDisk::new());
    for first in (0..4000).step_by(500) {
        let mut edit = world.edit();
        (first..first + 500).for_each(|id| _ = edit.put_body(body_at(id + 1, ((id / 20) as i32, 0))));
        edit.commit(Durability::Synced).unwrap();
    }
    let moved = world.edit().move_body(BodyId(7), [8.0, 5000.0]).commit(Durability::Synced).unwrap();
    let lists = 20 * encode_bodies(&[body_at(7, (0, 0))], 4).unwrap().len() as u64;
    assert!(moved.bytes < lists + 65 * 17 + 1000, "{} bytes, of which lists are {lists}", moved.bytes);
}

#[test]
fn a_session_that_gives_out_ids_and_saves_nothing_keeps_its_number() {
    let disk = MemoryDisk::new();
    let mut seen = BTreeSet::new();
    let world = on(&disk);
    let mut ids = world.body_ids().unwrap();
    assert!((0..5).all(|_| seen.insert(ids.next_id().0)), "{seen:?}");
    // The process ends without a word: the file is what the next one finds.
    std::mem::forget(world);
    let file = disk.open(NAME, Access::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let next = MemoryDisk::new();
    next.create_new(NAME).unwrap().write_all_at(&bytes, 0).unwrap();
    assert!(seen.insert(on(&next).body_ids().unwrap().next_id().0), "{seen:?}");
}

#[derive(Clone, Persist)]
#[persist(key = "bonfire.stable_id")]
struct Stable(u64);

/// A snapshot of entities, some of which have stable ids.
fn entities(ids: &[u64], others: usize) -> Vec<u8> {
    let mut world = ModelWorld::new();
    world.register::<Stable>().expect("a fresh registry");
    for id in ids {
        let entity = world.spawn();
        world.insert(entity, Stable(*id));
    }
    (0..others).for_each(|_| _ = world.spawn());
    world.save().and_then(|all| all.encode(&EncodeOptions::default())).expect("a small world").to_vec()
}

#[test]
fn entities_are_found_by_their_stable_ids() {
    let disk = MemoryDisk::new();
    let world = on(&disk);
    let mut edit = world.edit();
    edit.put_entities((0, 0), entities(&[1, 2], 3)).put_entities((1, 0), entities(&[], 2));
    edit.commit(Durability::Synced).unwrap();
    let home = |world: &ChunkWorld, id| world.chunk_of_entity(id).unwrap().map(|pos| (pos.x, pos.y));
    assert_eq!([1, 2, 3].map(|id| home(&world, id)), [Some((0, 0)), Some((0, 0)), None]);
    // One moves, in one edit of both chunks.
    edit.put_entities((0, 0), entities(&[1], 3)).put_entities((1, 0), entities(&[2, 3], 0));
    edit.commit(Durability::Synced).unwrap();
    drop((edit, world));
    let world = on(&disk);
    assert_eq!([1, 2, 3].map(|id| home(&world, id)), [Some((0, 0)), Some((1, 0)), Some((1, 0))]);
    assert_eq!(world.chunk_of_body(BodyId(1)).unwrap(), None, "bodies and entities are apart");
    world.edit().remove_entities((1, 0)).commit(Durability::Synced).unwrap();
    assert_eq!([1, 2, 3].map(|id| home(&world, id)), [Some((0, 0)), None, None]);
    world.edit().remove((0, 0)).commit(Durability::Synced).unwrap();
    assert_eq!(home(&world, 1), None);
    assert!(world.check(|_, _| {}).damaged.is_empty());
}

/// Header, table, both or single frames are lost, and the repair that follows leaves each body in one chunk at most.
#[test]
fn after_a_repair_a_body_is_in_one_chunk_at_most() {
    let mut random = Random::new(3);
    for round in 0..u64::from(scale().min(50)) * 60 {
        let disk = MemoryDisk::new();
        let world = on(&disk);
        for step in 0..30 {
            let mut edit = world.edit();
            for _ in 0..3 {
                let pos = (random.below(4) as i32, random.below(2) as i32);
                edit.put_body(body_at(1 + random.below(12) as u64, pos));
            }
            edit.commit(Durability::Synced).unwrap();
            if step == 15 {
                world.flush().unwrap();
            }
        }
        world.close().unwrap();
        drop(world);
        let file = disk.open(NAME, Access::Write).unwrap();
        let len = file.len().unwrap();
        match round % 4 {
            0 => file.write_all_at(&[0; 64], 0).unwrap(),
            1 => file.write_all_at(&[0; 2000], 0).unwrap(),
            2 => file.write_all_at(&[0; 500], 2000 + random.below(len as usize - 3000) as u64).unwrap(),
            _ => {
                let at = 64 + random.below(len as usize - 64) as u64;
                file.write_all_at(&[0xA5], at).unwrap();
            }
        }
        drop(file);
        // What is lost entirely is an error, and nothing to look at.
        let Ok(world) = options().open_on(disk.clone(), NAME, Access::Write) else { continue };
        let homes = |world: &ChunkWorld| {
            let mut all: BTreeMap<u64, Vec<ChunkPos>> = BTreeMap::new();
            for pos in world.chunks_with_bodies(ChunkRect::ALL) {
                for body in world.read_bodies(pos).unwrap_or_default() {
                    all.entry(body.id.0).or_default().push(pos);
                }
            }
            all
        };
        for (id, homes) in homes(&world) {
            assert_eq!(homes.len(), 1, "round {round}: body {id} is in {homes:?}");
            assert_eq!(world.chunk_of_body(BodyId(id)).unwrap(), Some(homes[0]), "round {round}: {id}");
        }
        // And so it stays, after saves too.
        for id in 1..=12 {
            put(&world, id, (id as i32 % 3, 5));
        }
        drop(world);
        let world = on(&disk);
        let found = homes(&world);
        assert!(
            found.len() == 12 && found.values().all(|homes| homes.len() == 1),
            "round {round}: {found:?}"
        );
    }
}

/// Random saves in several sessions, against a map from ids to chunks.
#[test]
fn everybody_is_where_a_map_says() {
    for seed in 0..u64::from(scale().min(50)) * 6 {
        let mut random = Random::new(seed);
        let disk = MemoryDisk::new();
        let mut world = on(&disk);
        let (mut bodies, mut stable) = (BTreeMap::new(), BTreeMap::new());
        for step in 0..120 {
            let mut edit = world.edit();
            let pos = (random.below(4) as i32, random.below(2) as i32);
            let id = 1 + random.below(90) as u64;
            match random.below(8) {
                0 => {
                    edit.remove(pos);
                    bodies.retain(|_, home| *home != pos);
                    stable.retain(|_, home| *home != pos);
                }
                1 => {
                    edit.remove_body(BodyId(id));
                    bodies.remove(&id);
                }
                2 if bodies.contains_key(&id) => {
                    let to = body_at(id, pos).position;
                    edit.move_body(BodyId(id), to);
                    bodies.insert(id, pos);
                }
                3 => {
                    let list: BTreeSet<u64> =
                        (0..random.below(6)).map(|_| 1 + random.below(90) as u64).collect();
                    edit.put_bodies(pos, list.iter().map(|id| body_at(*id, pos)).collect::<Vec<_>>());
                    bodies.retain(|_, home| *home != pos);
                    bodies.extend(list.into_iter().map(|id| (id, pos)));
                }
                4 => {
                    let is_free = |id: &u64| stable.get(id).is_none_or(|home| *home == pos);
                    let list = (0..random.below(5)).map(|_| 1 + random.below(40) as u64).filter(is_free);
                    let list: BTreeSet<u64> = list.collect();
                    edit.put_entities(pos, entities(&list.iter().copied().collect::<Vec<_>>(), 1));
                    stable.retain(|_, home| *home != pos);
                    stable.extend(list.into_iter().map(|id| (id, pos)));
                }
                _ => {
                    edit.put_body(body_at(id, pos));
                    bodies.insert(id, pos);
                }
            }
            edit.commit(Durability::Buffered).unwrap();
            if random.chance(5) {
                drop((edit, world));
                world = on(&disk);
            }
            if step % 10 == 9 {
                let found: BTreeMap<u64, (i32, i32)> = listed(&world)
                    .into_iter()
                    .map(|(id, homes)| {
                        assert_eq!(homes.len(), 1, "seed {seed}, step {step}: body {id} is in {homes:?}");
                        (id, (homes[0].x, homes[0].y))
                    })
                    .collect();
                assert_eq!(found, bodies, "seed {seed}, step {step}");
                for id in 1..=90 {
                    let home = world.chunk_of_body(BodyId(id)).unwrap().map(|pos| (pos.x, pos.y));
                    assert_eq!(home, bodies.get(&id).copied(), "seed {seed}, step {step}: body {id}");
                    let home = world.chunk_of_entity(id).unwrap().map(|pos| (pos.x, pos.y));
                    assert_eq!(home, stable.get(&id).copied(), "seed {seed}, step {step}: entity {id}");
                }
            }
        }
        assert!(world.check(|_, _| {}).damaged.is_empty(), "seed {seed}");
    }
}

/// A tag that no frame of bodies has is no reason to lose the index.
#[test]
fn tags_of_other_kinds_do_not_matter() {
    let frames = MemoryFrames::new();
    let world = in_memory(&frames);
    put(&world, 1, (0, 0));
    assert!(parts(&frames).iter().all(|key| frames.tag(*key) == Some(FrameTag::default())));
}
