//! The rows of deltas and replication.

use std::hint::black_box;

use bevy_app::{App, First, Last};
use bevy_bonfire::core::engine::EntityMap;
use bevy_bonfire::replication::Delta;
use bevy_bonfire::replication::{
    ClientId, DeltaCapture, ReplicateExt, Replicated, ReplicationClient, ReplicationClientPlugin,
    ReplicationServer, ReplicationServerPlugin, WorldDeltaExt,
};
use bevy_bonfire::store::{JournalBase, MemoryStore, Slots, Wait};
use bevy_bonfire::{Details, PersistExt, SaveOptions, WorldSaveExt};
use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;

use crate::bevy_plain;
use crate::live_rows::{Spread, by_row, change};
use crate::measure::{Row, note, rounds, seconds, turns};
use crate::plain::{self, Circle, Color, M1, M2, Transform};

/// Bytes of the three components of a row.
const ROW_BYTES: usize = 60;

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |key, target, measure: fn() -> (f64, String)| {
        rows.push(Row { key, target, measure: Box::new(measure) });
    };
    add("bevy_delta_idle_10k", Some(0.6), || delta(10_000, None));
    add("bevy_delta_idle_100k", Some(0.3), || delta(100_000, None));
    add("bevy_delta_idle_1m", Some(0.35), || delta(1_000_000, None));
    add("bevy_delta_1pct_10k", Some(0.8), || delta(10_000, Some(Spread::Run)));
    add("bevy_delta_1pct_100k", Some(0.4), || delta(100_000, Some(Spread::Run)));
    add("bevy_delta_1pct_1m", Some(0.5), || delta(1_000_000, Some(Spread::Run)));
    add("bevy_delta_1pct_scattered_100k", None, || delta(100_000, Some(Spread::Scattered)));
    add("bevy_delta_all_100k", None, || delta(100_000, Some(Spread::All)));
    add("delta_bytes_per_change", Some(1.25), || bytes_per_change(Spread::Run));
    add("delta_bytes_per_change_scattered", Some(1.25), || bytes_per_change(Spread::Scattered));
    add("delta_apply_1row_100k_over_1k", Some(1.5), one_row);
    add("delta_apply_1pct_100k", Some(2.0), || apply(100_000, Spread::Run));
    add("delta_apply_1pct_scattered_100k", None, || apply(100_000, Spread::Scattered));
    add("journal_autosave_1pct_100k", Some(1.3), journal);
    #[cfg(feature = "replicon")]
    {
        add("sync_tick_vs_replicon_1pct", Some(1.0), || {
            versus(Spread::Run, |turn| turn.0, |turn| turn.tick_seconds)
        });
        add("sync_tick_vs_replicon_all", Some(1.0), || {
            versus(Spread::All, |turn| turn.0, |turn| turn.tick_seconds)
        });
        add("sync_apply_vs_replicon_1pct", Some(1.0), || {
            versus(Spread::Run, |turn| turn.1, |turn| turn.apply_seconds)
        });
        add("sync_apply_vs_replicon_all", Some(1.0), || {
            versus(Spread::All, |turn| turn.1, |turn| turn.apply_seconds)
        });
    }
    rows
}

/// What has changed, found out, times a memcpy of everything.
fn delta(entities: usize, spread: Option<Spread>) -> (f64, String) {
    let mut world = bevy_plain::filled(entities);
    let all = by_row(&world);
    let mut memcpy = plain::World::new(entities).memcpy();
    let mut deltas = DeltaCapture::of_saves();
    deltas.changes(&mut world).expect("a world that can be saved");
    let (mut turn, mut bytes) = (0, 0);
    let work = || {
        if let Some(spread) = spread {
            change(&mut world, &all, spread, turn);
        }
        turn += 1;
        let mut delta = None;
        let time =
            seconds(&mut || delta = Some(deltas.changes(&mut world).expect("a world that can be saved")));
        bytes = delta.map_or(0, |delta| delta.stats().value_bytes);
        time
    };
    let (ours, theirs) = turns(rounds(entities), work, || seconds(&mut || memcpy.run()));
    (ours / theirs, note(ours, theirs, entities, bytes))
}

/// The bytes of a delta of one row in a hundred over those of the rows' values.
fn bytes_per_change(spread: Spread) -> (f64, String) {
    let mut world = bevy_plain::filled(100_000);
    let all = by_row(&world);
    let mut deltas = DeltaCapture::of_saves();
    deltas.changes(&mut world).expect("a world that can be saved");
    change(&mut world, &all, spread, 1);
    let delta = deltas.changes(&mut world).expect("a world that can be saved");
    let bytes = delta.to_bytes().expect("a delta that was just made").len();
    let rows = delta.stats().changed;
    (bytes as f64 / (rows * ROW_BYTES) as f64, format!("{bytes} bytes for {rows} rows of {ROW_BYTES}"))
}

/// A server with the set and a client that has it too.
struct Pair {
    server: App,
    client: App,
    entities: Vec<Entity>,
    turn: usize,
}

fn register(app: &mut App) {
    app.persist::<Transform>().persist::<Circle>().persist::<Color>().persist::<M1>().persist::<M2>();
    app.replicate::<Transform>()
        .replicate::<Circle>()
        .replicate::<Color>()
        .replicate::<M1>()
        .replicate::<M2>();
}

impl Pair {
    fn new(entities: usize) -> Self {
        let (mut server, mut client) = (App::new(), App::new());
        server.add_plugins(ReplicationServerPlugin::new());
        client.add_plugins(ReplicationClientPlugin::new());
        register(&mut server);
        register(&mut client);
        bevy_plain::fill(server.world_mut(), entities);
        let entities = by_row(server.world());
        entities.iter().for_each(|&entity| _ = server.world_mut().entity_mut(entity).insert(Replicated));
        let entities = by_row(server.world());
        server.world_mut().resource_mut::<ReplicationServer>().connect(ClientId(1));
        let mut pair = Self { server, client, entities, turn: 0 };
        pair.follow();
        pair.follow();
        pair
    }

    /// A tick of the server and what the client does with it: seconds of both, and bytes.
    fn follow(&mut self) -> (f64, f64, usize) {
        let tick = seconds(&mut || self.server.world_mut().run_schedule(Last));
        let messages = self.server.world_mut().resource_mut::<ReplicationServer>().take_messages();
        let bytes = messages.iter().map(|(_, message)| message.len()).sum();
        for (_, message) in messages {
            self.client
                .world_mut()
                .resource_mut::<ReplicationClient>()
                .receive(message)
                .expect("room for it");
        }
        let apply = seconds(&mut || self.client.world_mut().run_schedule(First));
        self.server.world_mut().clear_trackers();
        self.client.world_mut().clear_trackers();
        (tick, apply, bytes)
    }

    fn change(&mut self, spread: Spread) {
        change(self.server.world_mut(), &self.entities, spread, self.turn);
        self.turn += 1;
    }

    fn delta(&mut self, deltas: &mut DeltaCapture, edit: impl FnOnce(&mut Self)) -> Delta {
        edit(self);
        deltas.changes(self.server.world_mut()).expect("a world that can be saved")
    }
}

/// A mirror of so many entities and a way to change one row or some of them.
struct Mirror {
    pair: Pair,
    deltas: DeltaCapture,
    mirror: World,
    map: EntityMap,
}

impl Mirror {
    fn new(entities: usize) -> Self {
        let mut pair = Pair::new(entities);
        let mut app = App::new();
        register(&mut app);
        let mut mirror = std::mem::take(app.world_mut());
        let (mut deltas, mut map) = (DeltaCapture::of_replication(), EntityMap::default());
        let whole = deltas.changes(pair.server.world_mut()).expect("a world that can be saved");
        mirror.apply_delta(&whole, &mut map).expect("it was just captured");
        Self { pair, deltas, mirror, map }
    }

    fn apply(&mut self, delta: &Delta) -> f64 {
        seconds(&mut || self.mirror.apply_delta(delta, &mut self.map).expect("it was just captured"))
    }
}

/// One row into a large mirror, times the same into a small one. What a source does to find the row is not part of it, nor of
/// what is in the caches: mirrors are not where their sources are.
fn one_row() -> (f64, String) {
    const TURNS: usize = 200;
    let prepared = |entities| {
        let mut mirror = Mirror::new(entities);
        let one = |mirror: &mut Mirror| {
            let delta = mirror.pair.delta(&mut mirror.deltas, |pair| {
                let entity = pair.entities[pair.turn * 7919 % pair.entities.len()];
                pair.turn += 1;
                if let Some(mut color) = pair.server.world_mut().get_mut::<Color>(entity) {
                    color.r += 1.0;
                }
            });
            assert_eq!(delta.stats().changed, 1);
            delta
        };
        // Turns that are not measured need some, too.
        let deltas: Vec<Delta> = (0..2 * TURNS).map(|_| one(&mut mirror)).collect();
        (mirror, deltas.into_iter().cycle())
    };
    let ((mut large, mut to_large), (mut small, mut to_small)) = (prepared(100_000), prepared(1_000));
    let (ours, theirs) = turns(
        TURNS,
        || to_large.next().map_or(0.0, |delta| large.apply(&delta)),
        || to_small.next().map_or(0.0, |delta| small.apply(&delta)),
    );
    (ours / theirs, format!("{:.1} us, {:.1} us into a thousand", ours * 1e6, theirs * 1e6))
}

/// One row in a hundred into a mirror, times writing the rows through `World::get_mut`.
fn apply(entities: usize, spread: Spread) -> (f64, String) {
    let mut mirror = Mirror::new(entities);
    let mut by_hand = bevy_plain::filled(entities);
    let all = by_row(&by_hand);
    let (mut turn, mut changed) = (0, 0);
    let work = || {
        let delta = mirror.pair.delta(&mut mirror.deltas, |pair| pair.change(spread));
        changed = delta.stats().changed;
        mirror.apply(&delta)
    };
    let hand = || {
        turn += 1;
        let count = entities / 100;
        let start = (turn * 7919) % (entities - count);
        let chosen: Vec<(Entity, (Transform, Circle, Color))> = (0..count)
            .map(|i| {
                let entity = match spread {
                    Spread::Scattered => all[(i * 7919 * 13 + turn * 31) % all.len()],
                    _ => all[start + i],
                };
                let i = i as u32;
                (entity, (Transform::number(i), Circle::number(i), Color::number(i)))
            })
            .collect();
        seconds(&mut || {
            for (entity, (transform, circle, color)) in black_box(&chosen) {
                if let Some(mut live) = by_hand.get_mut::<Transform>(*entity) {
                    *live = *transform;
                }
                if let Some(mut live) = by_hand.get_mut::<Circle>(*entity) {
                    *live = *circle;
                }
                if let Some(mut live) = by_hand.get_mut::<Color>(*entity) {
                    *live = *color;
                }
            }
        })
    };
    let (ours, theirs) = turns(100, work, hand);
    let per_row = |seconds: f64| seconds * 1e9 / changed as f64;
    (ours / theirs, format!("{:.0} ns per row, by hand {:.0}", per_row(ours), per_row(theirs)))
}

/// The bytes that an autosave by journal writes, over those of the values that changed.
fn journal() -> (f64, String) {
    let mut world = bevy_plain::filled(100_000);
    let all = by_row(&world);
    let slots = Slots::new(MemoryStore::new());
    let snapshot = world.capture(&SaveOptions::new()).expect("a world that can be saved");
    let saved = slots.save("auto", &snapshot, &Details::new()).wait().expect("a store in memory");
    let mut deltas = DeltaCapture::of_saves();
    deltas.changes(&mut world).expect("a world that can be saved");
    let (mut bytes, mut changed) = (0, 0);
    for turn in 0..20 {
        change(&mut world, &all, Spread::Run, turn);
        let delta = deltas.changes(&mut world).expect("a world that can be saved");
        changed += delta.stats().changed * ROW_BYTES;
        let base = JournalBase::new("auto", saved.generation, 1);
        let appended = slots.append(&base, &delta).wait().expect("a store in memory");
        bytes += appended.bytes as usize;
    }
    (bytes as f64 / changed as f64, format!("{bytes} bytes in 20 autosaves for {changed} that changed"))
}

/// The time of bevy_replicon over ours: more is better.
#[cfg(feature = "replicon")]
fn versus(
    spread: Spread,
    ours: fn((f64, f64, usize)) -> f64,
    theirs: fn(crate::sync_peers::Turn) -> f64,
) -> (f64, String) {
    const ENTITIES: usize = 10_000;
    let mut pair = Pair::new(ENTITIES);
    let mut replicon = crate::sync_peers::Replicon::new(ENTITIES);
    let (mut our_bytes, mut their_bytes) = (0, 0);
    let our_turn = || {
        pair.change(spread);
        let turn = pair.follow();
        our_bytes = turn.2;
        ours(turn)
    };
    let their_turn = || {
        replicon.change(spread);
        let turn = replicon.follow();
        their_bytes = turn.bytes;
        theirs(turn)
    };
    let (ours, theirs) = turns(rounds(ENTITIES), our_turn, their_turn);
    replicon.check();
    let note = format!(
        "{:.0} us, {our_bytes} bytes; replicon {:.0} us, {their_bytes} bytes",
        ours * 1e6,
        theirs * 1e6
    );
    (theirs / ours, note)
}
