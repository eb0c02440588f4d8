//! Deltas that no engine makes, with right checksums, into worlds of hecs: applied or refused as a whole.

mod common;

use bonfire_hecs::core::engine::{DeltaScope, EntityMap};
use bonfire_hecs::replication::Delta;
use bonfire_hecs::replication::{DeltaCapture, Mirrored};
use bonfire_hecs::{Bonfire, EntityId, Limits, SaveOptions, SaveScope, Snapshot};
use bonfire_testkit::{Dice, hostile_content, scale};
use bytes::Bytes;
use common::{Burning, Enemy, Inventory, Position, Score, Team};
use hecs::{Entity, World};

fn bonfire() -> Bonfire {
    let mut bonfire = Bonfire::new().scope(SaveScope::Persisted);
    bonfire.persist::<Position>().unwrap();
    bonfire.persist::<Inventory>().unwrap();
    bonfire.persist::<Enemy>().unwrap();
    bonfire.persist::<Burning>().unwrap();
    bonfire.persist::<Team>().unwrap();
    bonfire.persist::<Score>().unwrap();
    bonfire.replicate_persisted().unwrap();
    bonfire
}

/// What a mirror has, and under which ids.
fn state(bonfire: &Bonfire, world: &World, map: &EntityMap) -> ([u8; 16], Vec<(EntityId, EntityId)>) {
    let whole = DeltaCapture::of_mirror().baseline(bonfire, world, &SaveOptions::new()).unwrap();
    let snapshot = Snapshot::default().with_delta(&whole.for_mirrors()).unwrap();
    let mut pairs: Vec<_> = map.iter().collect();
    pairs.sort();
    (snapshot.canonical_by(|id| id).unwrap().content_hash().unwrap().0, pairs)
}

#[test]
fn what_a_hostile_peer_seals_is_applied_or_refused_whole() {
    let bonfire = bonfire();
    let schema = bonfire.replication_schema();
    let (mut applied, mut refused) = (0, 0);
    for seed in 0..400 * u64::from(scale()) {
        let mut dice = Dice::new(seed);
        let (mut world, mut map) = (World::new(), EntityMap::default());
        for tick in 0..6 {
            let content = Bytes::from(hostile_content(&mut dice, schema.table()));
            let whole = dice.below(4) == 0;
            let delta = Delta::from_content(
                schema.table(),
                tick,
                tick + 1,
                scope(whole),
                content,
                &Limits::default(),
            );
            let Ok(delta) = delta else {
                refused += 1;
                continue;
            };
            let before = state(&bonfire, &world, &map);
            match bonfire.apply_delta(&mut world, &delta, &mut map) {
                Ok(_) => applied += 1,
                Err(error) => {
                    refused += 1;
                    assert!(before == state(&bonfire, &world, &map), "seed {seed}, tick {tick}: {error}");
                }
            }
            for (remote, local) in map.iter() {
                let there = world.get::<&Mirrored>(Entity::from(local)).is_ok();
                assert!(there, "seed {seed}, tick {tick}: {remote} leads nowhere");
            }
            let mirrored = world.query::<&Mirrored>().iter().count();
            assert_eq!(mirrored, map.iter().count(), "seed {seed}, tick {tick}");
        }
    }
    assert!(applied > 500 && refused > 100, "{applied} applied, {refused} refused");
}

fn scope(whole: bool) -> DeltaScope {
    if whole { DeltaScope::Whole } else { DeltaScope::Changes }
}
