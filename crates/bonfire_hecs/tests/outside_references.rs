//! References between entities of separate saves, such as chunks: kept by stable id, and right as soon as both are there, in
//! either order. Until then a stand-in holds the place.

use bonfire_hecs::{
    Bonfire, Checkpoints, Dangling, LoadMode, LoadOptions, Persist, SaveOptions, Selection, Snapshot,
    StableId, StandIn,
};
use hecs::{Entity, World};

#[derive(Persist, Clone, Debug, PartialEq)]
#[persist(key = "test.follows")]
struct Follows {
    leader: Entity,
    others: Vec<Entity>,
}

#[derive(Persist, Clone, Debug, PartialEq)]
#[persist(key = "test.name")]
struct Name(String);

struct Game {
    world: World,
    bonfire: Bonfire,
}

impl Game {
    fn new() -> Self {
        let mut bonfire = Bonfire::new();
        bonfire.persist::<Follows>().unwrap().persist::<Name>().unwrap();
        Self { world: World::new(), bonfire }
    }

    fn spawn(&mut self, bits: u64) -> Entity {
        self.world.spawn((id(bits), Name(bits.to_string())))
    }

    fn follow(&mut self, who: Entity, leader: Entity) {
        self.world.insert_one(who, Follows { leader, others: vec![leader] }).unwrap();
    }

    fn find(&mut self, bits: u64) -> Option<Entity> {
        self.bonfire.update_indexes(&self.world);
        self.bonfire.stable_ids().get(id(bits))
    }

    fn leader(&mut self, bits: u64) -> Entity {
        let entity = self.find(bits).unwrap();
        let follows = self.world.get::<&Follows>(entity).unwrap();
        assert_eq!(follows.others, [follows.leader]);
        follows.leader
    }

    /// The ids of the stand-ins.
    fn away(&self) -> Vec<u64> {
        let mut away: Vec<u64> =
            self.world.query::<&StandIn>().iter().map(|away| away.id().to_bits()).collect();
        away.sort_unstable();
        away
    }

    fn chunk(&self, entities: impl IntoIterator<Item = Entity>) -> Snapshot {
        let options = SaveOptions::new().entities(entities).outside_references();
        let snapshot = self.bonfire.capture(&self.world, &options).unwrap();
        // As a file, which does not know its world.
        Snapshot::open(&snapshot.to_bytes().unwrap()).unwrap()
    }

    fn merge(&mut self, snapshot: &Snapshot) {
        let loaded = self.bonfire.load(&mut self.world, snapshot, LoadMode::Merge).unwrap();
        assert_eq!((loaded.report.stale_references(), loaded.report.losses()), (0, vec![]));
    }
}

fn id(bits: u64) -> StableId {
    StableId::from_bits(bits)
}

/// Two chunks whose entities follow each other, and are the second of three.
fn two_chunks() -> [Snapshot; 2] {
    let mut game = Game::new();
    let [a, b] = [1, 2].map(|bits| {
        let before = game.spawn(bits * 10);
        [before, game.spawn(bits), game.spawn(bits * 10 + 1)]
    });
    game.follow(a[1], b[1]);
    game.follow(b[1], a[1]);
    [game.chunk(a), game.chunk(b)]
}

fn assert_linked(game: &mut Game) {
    let (first, second) = (game.leader(2), game.leader(1));
    assert_eq!((game.find(1), game.find(2)), (Some(first), Some(second)));
    assert_eq!((game.away(), game.world.len()), (vec![], 6));
    let names: Vec<(Entity, String)> =
        game.world.query::<(Entity, &Name)>().iter().map(|(entity, name)| (entity, name.0.clone())).collect();
    for (entity, name) in names {
        assert_eq!(game.find(name.parse().unwrap()), Some(entity));
    }
}

#[test]
fn chunks_that_refer_to_each_other_load_in_either_order() {
    for order in [[0, 1], [1, 0]] {
        let (chunks, mut game) = (two_chunks(), Game::new());
        game.merge(&chunks[order[0]]);
        let away = if order[0] == 0 { 2 } else { 1 };
        assert_eq!((game.away(), game.find(away)), (vec![away], None));
        game.merge(&chunks[order[1]]);
        assert_linked(&mut game);
        // The next ids are sound.
        let new: std::collections::HashSet<Entity> = (0..100).map(|_| game.world.spawn(())).collect();
        assert_eq!((new.len(), game.world.len()), (100, 106));
    }
}

#[test]
fn a_circle_over_three_chunks_closes_in_every_order() {
    let mut source = Game::new();
    let members: Vec<Entity> = (0..3).map(|bits| source.spawn(bits)).collect();
    (0..3).for_each(|number| source.follow(members[number], members[(number + 1) % 3]));
    let chunks: Vec<Snapshot> = members.iter().map(|&member| source.chunk([member])).collect();
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut game = Game::new();
        order.into_iter().for_each(|number: usize| game.merge(&chunks[number]));
        for bits in 0..3 {
            assert_eq!(Some(game.leader(bits)), game.find((bits + 1) % 3));
        }
        assert!(game.away().is_empty());
    }
}

#[test]
fn a_target_that_never_comes_is_written_again_and_again() {
    let [mut saved, second] = two_chunks();
    for _ in 0..4 {
        let mut game = Game::new();
        game.merge(&saved);
        assert_eq!((game.away(), game.world.len()), (vec![2], 4));
        let everything = game.bonfire.capture(&game.world, &SaveOptions::new()).unwrap();
        assert_eq!(everything.entity_count(), 3, "stand-ins are not saved");
        let members = [10, 1, 11].map(|bits| game.find(bits).unwrap());
        saved = game.chunk(members);
    }
    let mut game = Game::new();
    game.merge(&saved);
    game.merge(&second);
    assert_linked(&mut game);
}

#[test]
fn references_outlive_an_unload_of_their_target() {
    let (chunks, mut game) = (two_chunks(), Game::new());
    chunks.iter().for_each(|chunk| game.merge(chunk));
    for round in 0..4 {
        let away = game.find(2).unwrap();
        let members: Vec<Entity> = [20, 2, 21].map(|bits| game.find(bits).unwrap()).into();
        let saved = game.chunk(members.clone());
        game.bonfire.unload(&mut game.world, members.iter().copied().chain(members.clone()));
        assert_eq!((game.away(), game.leader(1), game.find(2)), (vec![2, 20, 21], away, None));
        game.bonfire.unload(&mut game.world, members);
        if round % 2 == 0 {
            // The neighbours are referred to by nothing.
            assert_eq!(game.bonfire.sweep_stand_ins(&mut game.world).unwrap(), 2);
            assert_eq!(game.bonfire.sweep_stand_ins(&mut game.world).unwrap(), 0);
        }
        game.merge(&saved);
        assert_eq!(game.find(2), Some(away));
        assert_linked(&mut game);
    }
}

#[test]
fn entities_without_a_stable_id_unload_for_good() {
    let mut game = Game::new();
    let nameless = game.world.spawn((Name("nobody".into()),));
    let holder = game.spawn(1);
    game.follow(holder, nameless);
    let options = SaveOptions::new().entities([holder]).outside_references();
    let snapshot = game.bonfire.capture(&game.world, &options).unwrap();
    let note = &snapshot.notes()[0];
    assert_eq!(
        (note.key.as_str(), note.count, note.remark.contains("`StableId`")),
        ("test.follows", 2, true)
    );
    let mut other = Game::new();
    let loaded = other.bonfire.load(&mut other.world, &snapshot, LoadMode::Merge).unwrap();
    assert_eq!((loaded.report.stale_references(), other.away()), (2, vec![]));
    let refused = LoadOptions::new().mode(LoadMode::Merge).dangling(Dangling::Refuse);
    assert!(other.bonfire.load(&mut other.world, &snapshot, refused).unwrap_err().is_dangling());
    game.bonfire.unload(&mut game.world, [nameless]);
    assert!(!game.world.contains(nameless) && game.away().is_empty());
}

#[test]
fn an_entity_that_the_game_spawns_takes_over_the_stand_in_if_it_asks_for_it() {
    let mut game = Game::new();
    let [a, b] = [1, 2].map(|bits| game.spawn(bits));
    game.follow(a, b);
    game.bonfire.unload(&mut game.world, [b]);
    let spawned = game.bonfire.spawn_stable(&mut game.world, id(2), (Name("2".into()),));
    assert_eq!((spawned, game.bonfire.stable_ids().get(id(2)), game.away()), (b, Some(b), vec![]));
    let other = game.bonfire.spawn_stable(&mut game.world, id(3), ());
    assert_eq!(game.find(3), Some(other));
    // A plain spawn is found when what refers to it is loaded again.
    game.bonfire.unload(&mut game.world, [b]);
    let plain = game.spawn(2);
    let saved = game.chunk([a]);
    game.bonfire.unload(&mut game.world, [a]);
    game.merge(&saved);
    assert_eq!((game.find(1), game.leader(1)), (Some(a), plain));
    assert_eq!(game.bonfire.sweep_stand_ins(&mut game.world).unwrap(), 1);
}

#[test]
fn a_replacement_keeps_what_it_refers_to_as_a_stand_in() {
    let ([first, second], mut game) = (two_chunks(), Game::new());
    game.merge(&first);
    game.merge(&second);
    let away = game.find(2).unwrap();
    game.bonfire.load(&mut game.world, &first, LoadMode::Replace).unwrap();
    assert_eq!((game.away(), game.leader(1), game.world.len()), (vec![2], away, 4));
    game.merge(&second);
    assert_linked(&mut game);
    // A part of the world.
    let members = [10, 1, 11].map(|bits| game.find(bits).unwrap());
    let selection = Selection::new().entities(members);
    game.bonfire.load(&mut game.world, &first, LoadMode::ReplaceSelected(selection)).unwrap();
    assert_eq!(game.find(2), Some(game.leader(1)));
}

#[test]
fn loads_that_keep_ids_keep_those_of_stand_ins() {
    let mut source = Game::new();
    let ids: Vec<Entity> = (1..=4).map(|bits| source.spawn(bits)).collect();
    source.follow(ids[0], ids[1]);
    source.follow(ids[2], ids[3]);
    let saved = source.chunk([ids[0], ids[2]]);
    let second = source.chunk([ids[1]]);
    let next = source.world.spawn(());
    let mut game = Game::new();
    // Stand-ins and entities of another life are in the way of nothing.
    let old = [7, 8, 9].map(|bits| game.spawn(bits));
    game.bonfire.unload(&mut game.world, [old[1]]);
    for _ in 0..2 {
        game.bonfire.load(&mut game.world, &saved, LoadMode::SameIds).unwrap();
        assert_eq!((game.find(1), game.find(3)), (Some(ids[0]), Some(ids[2])));
        assert_eq!((game.leader(1), game.leader(3), game.away()), (ids[1], ids[3], vec![2, 4]));
        assert_eq!(game.world.len(), 4);
    }
    assert_eq!(game.world.spawn(()), next, "the next id is that of the saved world");
    game.merge(&second);
    assert_eq!((game.find(2), game.away()), (Some(ids[1]), vec![4]));
}

#[test]
fn a_restore_brings_targets_and_stand_ins_back() {
    let ([first, second], mut game) = (two_chunks(), Game::new());
    game.merge(&first);
    let options = SaveOptions::new().outside_references();
    let before = game.bonfire.capture(&game.world, &options).unwrap();
    let away = game.leader(1);
    game.merge(&second);
    let both = game.bonfire.capture(&game.world, &options).unwrap();
    for _ in 0..2 {
        game.bonfire.load(&mut game.world, &before, LoadMode::Restore).unwrap();
        assert_eq!((game.away(), game.leader(1), game.world.len()), (vec![2], away, 4));
        game.bonfire.load(&mut game.world, &both, LoadMode::Restore).unwrap();
        assert_linked(&mut game);
        assert_eq!(game.find(2), Some(away));
    }
    // From a file, which does not know its world.
    let both = Snapshot::open(&both.to_bytes().unwrap()).unwrap();
    let members = [20, 2, 21].map(|bits| game.find(bits).unwrap());
    game.bonfire.unload(&mut game.world, members);
    game.bonfire.load(&mut game.world, &both, LoadMode::Restore).unwrap();
    assert_linked(&mut game);
    assert_eq!(game.find(2), Some(away));
}

#[test]
fn a_rewind_brings_unloaded_entities_back_under_their_ids() {
    let (chunks, mut game) = (two_chunks(), Game::new());
    chunks.iter().for_each(|chunk| game.merge(chunk));
    let mut checkpoints = Checkpoints::new(4).options(SaveOptions::new().outside_references());
    checkpoints.take(&mut game.bonfire, &game.world, 1).unwrap();
    let members = [20, 2, 21].map(|bits| game.find(bits).unwrap());
    game.bonfire.unload(&mut game.world, members);
    checkpoints.take(&mut game.bonfire, &game.world, 2).unwrap();
    checkpoints.rewind(&mut game.bonfire, &mut game.world, 1).unwrap();
    assert_linked(&mut game);
    assert_eq!([20, 2, 21].map(|bits| game.find(bits).unwrap()), members);
}

#[test]
fn a_load_that_fails_changes_no_stand_in() {
    #[derive(Persist)]
    #[persist(key = "test.broken")]
    struct Broken(u32);
    let mut source = Game::new();
    source.bonfire.persist::<Broken>().unwrap();
    let [a, b] = [1, 2].map(|bits| source.spawn(bits));
    source.follow(a, b);
    source.world.insert_one(a, Broken(7)).unwrap();
    let saved = source.chunk([a]);
    let mut game = Game::new();
    let target = game.spawn(5);
    let holder = game.spawn(1);
    game.follow(holder, target);
    game.bonfire.unload(&mut game.world, [target, holder]);
    let options = LoadOptions::new().mode(LoadMode::Merge).unknown(bonfire_hecs::Unknown::Refuse);
    assert!(game.bonfire.load(&mut game.world, &saved, options).is_err());
    assert_eq!((game.away(), game.world.len()), (vec![1, 5], 2));
    let limits = bonfire_hecs::Limits { entities_max: 1, ..bonfire_hecs::Limits::default() };
    let options = LoadOptions::new().mode(LoadMode::Merge).limits(limits);
    assert!(game.bonfire.load(&mut game.world, &saved, options).unwrap_err().is_limit());
    assert_eq!((game.away(), game.world.len()), (vec![1, 5], 2));
}

#[test]
fn the_entities_of_a_chunk_carry_no_resources() {
    #[derive(Persist)]
    #[persist(key = "test.score")]
    struct Score(u32);
    let mut source = Game::new();
    source.bonfire.persist::<Score>().unwrap();
    let entity = source.spawn(1);
    let chunk = source.chunk([entity]);
    assert_eq!(chunk.resources().len(), 0);
    let mut loaded = source.bonfire.load(&mut source.world, &chunk, LoadMode::Merge).unwrap();
    assert!(loaded.take_resource::<Score>().is_none());
}

#[test]
fn stand_ins_are_not_replicated() {
    use bonfire_hecs::replication::DeltaCapture;
    let mut game = Game::new();
    game.bonfire.replicate_persisted().unwrap();
    let [a, b] = [1, 2].map(|bits| game.spawn(bits));
    game.follow(a, b);
    let mut deltas = DeltaCapture::of_replication();
    let options = SaveOptions::new();
    assert_eq!(deltas.changes(&game.bonfire, &game.world, &options).unwrap().stats().spawned, 2);
    let saved = game.chunk([b]);
    game.bonfire.unload(&mut game.world, [b]);
    let gone = deltas.changes(&game.bonfire, &game.world, &options).unwrap().stats();
    assert_eq!((gone.spawned, gone.despawned), (0, 1));
    game.merge(&saved);
    let back = deltas.changes(&game.bonfire, &game.world, &options).unwrap().stats();
    assert_eq!((back.spawned, back.despawned), (1, 0));
}
