//! A mirror that follows a world by deltas, through random lives.

mod common;

use bevy_bonfire::Limits;
use bevy_bonfire::core::engine::{DeltaSchema, EntityMap, SentValues};
use bevy_bonfire::prelude::*;
use bevy_bonfire::replication::{Delta, Granularity};
use bevy_bonfire::replication::{DeltaCapture, Mirrored, ReplicateExt, Replicated, WorldDeltaExt};
use bevy_ecs::prelude::*;
use bonfire_testkit::scale;
use bonfire_testkit::script::{Life, ScriptWorld, Step, scripts};
use common::script::{self, BevyWorld};
use common::*;
use proptest::prelude::*;

/// Everything is replicated, also the mark of saves, so that both sides can be compared.
fn replicate(world: &mut World) {
    script::replicate(world);
    world.replicate::<Saved>();
}

type Server = BevyWorld<128>;

fn server() -> Server {
    let mut server = Server::fresh(false);
    replicate(&mut server.0);
    server
}

/// Registered in another order.
fn mirror() -> World {
    let mut mirror = BevyWorld::<2>::fresh(true).0;
    replicate(&mut mirror);
    mirror
}

/// All saved entities are replicated from now on.
fn mark(world: &mut World) {
    let saved: Vec<Entity> =
        world.query_filtered::<Entity, (With<Saved>, Without<Replicated>)>().iter(world).collect();
    saved.into_iter().for_each(|entity| _ = world.entity_mut(entity).insert(Replicated));
}

fn through_bytes(delta: &Delta, world: &mut World, deltas: &DeltaCapture) -> Delta {
    let table = deltas.schema(world).unwrap();
    let bytes = delta.to_bytes().unwrap().to_vec();
    Delta::open(&bytes.into(), table.table(), &Limits::default()).unwrap()
}

/// Where two worlds are not the same.
fn difference(mirror: &World, server: &World) -> Option<String> {
    let (mirror, server) = (canonical(mirror), canonical(server));
    let (mirror, server): (Vec<char>, Vec<char>) = (mirror.chars().collect(), server.chars().collect());
    let at = mirror.iter().zip(&server).position(|(a, b)| a != b);
    let at = at.or_else(|| (mirror.len() != server.len()).then_some(mirror.len().min(server.len())))?;
    let around = |text: &[char]| {
        text[at.saturating_sub(300).min(text.len())..text.len().min(at + 100)].iter().collect::<String>()
    };
    Some(format!("mirror: {}\nserver: {}", around(&mirror), around(&server)))
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Touched,
    Exact,
    Verified,
    Fields,
    /// Two ticks at a time.
    Composed,
}

fn follow(kind: Kind, lives: &[Vec<Step>]) -> Result<(), TestCaseError> {
    let (mut server, mut mirror) = (server(), mirror());
    let mut life = Life::default();
    let mut map = EntityMap::default();
    let mut deltas = DeltaCapture::of_replication();
    deltas = match kind {
        Kind::Exact => deltas.exact(),
        Kind::Verified => deltas.verified(),
        _ => deltas,
    };
    let mut sent = SentValues::new(Granularity::Field);
    let mut held: Option<Delta> = None;
    for (tick, script) in lives.iter().enumerate() {
        life.go_on(&mut server, script);
        mark(&mut server.0);
        let best = life.entities.iter().find(|(entity, saved)| *saved && server.is_alive(*entity));
        server.0.insert_resource(Score { points: tick as u64 / 2, best: best.map(|(entity, _)| *entity) });
        let mut delta = deltas.changes(&mut server.0).unwrap();
        prop_assert!(deltas.unseen().is_empty(), "{:?}", deltas.unseen());
        match kind {
            Kind::Fields => delta = sent.filter(&delta).unwrap(),
            Kind::Composed => match held.take() {
                None if tick + 1 < lives.len() => {
                    held = Some(delta);
                    continue;
                }
                None => {}
                Some(first) => delta = first.compose(&delta).unwrap(),
            },
            _ => {}
        }
        let delta = through_bytes(&delta, &mut server.0, &deltas);
        mirror.apply_delta(&delta, &mut map).unwrap();
        prop_assert_eq!(difference(&mirror, &server.0), None, "{:?} tick {}", kind, tick);
        let mirrored = mirror.query_filtered::<(), With<Mirrored>>().iter(&mirror).count();
        let replicated = server.0.query_filtered::<(), With<Replicated>>().iter(&server.0).count();
        prop_assert_eq!((mirrored, map.len()), (replicated, replicated));
        // What was applied is not told by a stream of the mirror.
        let echo = DeltaCapture::of_replication().changes(&mut mirror).unwrap();
        prop_assert_eq!((echo.stats().spawned, echo.stats().resources), (0, 0));
        // A joiner gets the same.
        if tick % 3 == 0 {
            let mut joiner = self::mirror();
            let mut its_map = EntityMap::default();
            let baseline = deltas.baseline(&mut server.0).unwrap();
            joiner.apply_delta(&baseline, &mut its_map).unwrap();
            prop_assert_eq!(difference(&joiner, &server.0), None, "a joiner");
            // And so does somebody who has all of it, or something else.
            mirror.apply_delta(&baseline, &mut map).unwrap();
            prop_assert_eq!(difference(&mirror, &server.0), None, "told again");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24 * scale(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_mirror_follows_what_was_touched(lives in proptest::collection::vec(scripts(14), 2..6)) {
        follow(Kind::Touched, &lives)?;
    }

    #[test]
    fn a_mirror_follows_what_is_different(lives in proptest::collection::vec(scripts(14), 2..6)) {
        follow(Kind::Exact, &lives)?;
    }

    #[test]
    fn change_detection_misses_nothing(lives in proptest::collection::vec(scripts(14), 2..6)) {
        follow(Kind::Verified, &lives)?;
    }

    #[test]
    fn a_mirror_follows_fields(lives in proptest::collection::vec(scripts(14), 2..6)) {
        follow(Kind::Fields, &lives)?;
    }

    #[test]
    fn a_mirror_follows_composed_deltas(lives in proptest::collection::vec(scripts(14), 2..6)) {
        follow(Kind::Composed, &lives)?;
    }

    /// Both sources lead to the same, and what was only touched is what the exact one leaves out.
    #[test]
    fn exact_deltas_are_those_of_comparison(lives in proptest::collection::vec(scripts(14), 2..5)) {
        let mut server = server();
        let mut life = Life::default();
        let mut exact = DeltaCapture::of_saves().exact();
        let mut before: Option<bevy_bonfire::Snapshot> = None;
        for script in &lives {
            life.go_on(&mut server, script);
            let delta = exact.changes(&mut server.0).unwrap();
            let after = save(&server.0);
            if let Some(before) = before {
                let schema: std::sync::Arc<DeltaSchema> = exact.schema(&mut server.0).unwrap();
                let compared = Delta::between(&schema, &before, &after, delta.since(), delta.now()).unwrap();
                prop_assert_eq!(delta.to_bytes().unwrap().to_vec(), compared.to_bytes().unwrap().to_vec());
            }
            before = Some(after);
        }
    }

    /// A save and its deltas are the save that would have been made last.
    #[test]
    fn saves_can_be_followed_too(lives in proptest::collection::vec(scripts(14), 2..6)) {
        let mut server = server();
        let mut life = Life::default();
        let mut deltas = DeltaCapture::of_saves();
        let mut folded: Option<bevy_bonfire::Snapshot> = None;
        for script in &lives {
            life.go_on(&mut server, script);
            let delta = deltas.changes(&mut server.0).unwrap();
            let delta = through_bytes(&delta, &mut server.0, &deltas);
            folded = Some(folded.unwrap_or_default().with_delta(&delta).unwrap());
            let mut loaded = Server::fresh(true);
            loaded.replace(folded.as_ref().unwrap());
            prop_assert_eq!(loaded.describe(), server.describe());
        }
    }
}
