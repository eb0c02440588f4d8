//! The plain set followed by bevy_replicon: a server and one client, two apps on one thread, messages handed over.
//!
//! What is inside the figures. The server's tick is its `PostUpdate` schedule, which has nothing but the systems that count
//! the tick, collect what changed and put it into messages for the client. The client's part is its `PreUpdate`, which has
//! nothing but the systems that receive messages and apply them. Handing messages over, and what comes back (a mutation is
//! sent again until it is acknowledged, so the client's `PostUpdate` and the server's `PreUpdate` run too), take none of
//! the time. There are no checksums and no compression. Packets are 1200 bytes, as its own tests have them.

use bevy_app::{App, PluginGroup, PostUpdate, PreUpdate};
use bevy_ecs::entity::Entity;
use bevy_ecs::schedule::ScheduleLabel;
use bevy_ecs::world::World;
use bevy_replicon::prelude::*;
use bevy_replicon::test_app::ServerTestAppExt;

use crate::live_rows::{Spread, by_row, change};
use crate::measure::{Row, rounds, seconds, turns};
use crate::plain::{self, Circle, Color, M1, M2, Transform};

const ENTITIES: usize = 10_000;

/// What replicon takes, as times of a memcpy of the set. Rows of ours divide by its seconds.
pub(crate) fn rows() -> Vec<Row> {
    let row = |key, spread, part: Part| Row {
        key,
        target: None,
        measure: Box::new(move || against_memcpy(ENTITIES, spread, part)),
    };
    vec![
        row("replicon_tick_1pct_10k", Spread::Run, Part::Tick),
        row("replicon_tick_all_10k", Spread::All, Part::Tick),
        row("replicon_apply_1pct_10k", Spread::Run, Part::Apply),
        row("replicon_apply_all_10k", Spread::All, Part::Apply),
    ]
}

/// What a turn took.
#[derive(Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) tick_seconds: f64,
    pub(crate) apply_seconds: f64,
    pub(crate) bytes: usize,
}

/// A server with the set and a client that has it too.
pub(crate) struct Replicon {
    server: App,
    client: App,
    /// The entities of the server, archetype by archetype.
    entities: Vec<Entity>,
    turn: usize,
}

impl Replicon {
    pub(crate) fn new(entities: usize) -> Self {
        let mut server = app();
        let group = RepliconPlugins.set(ServerPlugin::new(PostUpdate));
        server.add_plugins(group.disable::<ClientPlugin>().disable::<ClientMessagePlugin>());
        let mut client = app();
        let group = RepliconPlugins.build();
        client.add_plugins(group.disable::<ServerPlugin>().disable::<ServerMessagePlugin>());
        for app in [&mut server, &mut client] {
            app.replicate::<Transform>().replicate::<Circle>().replicate::<Color>();
            app.replicate::<M1>().replicate::<M2>();
            app.finish();
        }
        server.connect_client(&mut client);
        let world = server.world_mut();
        for i in 0..entities as u32 {
            let row = (Replicated, Transform::number(i), Circle::number(i), Color::number(i));
            match i % 4 {
                0 => world.spawn(row),
                1 => world.spawn((row, M1)),
                2 => world.spawn((row, M2)),
                _ => world.spawn((row, M1, M2)),
            };
        }
        let entities = by_row(world);
        let mut this = Self { server, client, entities, turn: 0 };
        // The spawns, and their acknowledgement.
        this.follow();
        this.follow();
        this.check();
        this
    }

    /// Changes some rows of the server, all three components of each.
    pub(crate) fn change(&mut self, spread: Spread) {
        change(self.server.world_mut(), &self.entities, spread, self.turn);
        self.turn += 1;
    }

    /// A tick of the server and what the client does with it.
    pub(crate) fn follow(&mut self) -> Turn {
        let tick_seconds = run(&mut self.server, PostUpdate);
        let sent = self.server.world().resource::<ServerMessages>().iter_sent();
        let bytes = sent.map(|(_, _, message)| message.len()).sum();
        self.server.exchange_with_client(&mut self.client);
        let apply_seconds = run(&mut self.client, PreUpdate);
        run(&mut self.client, PostUpdate);
        self.server.exchange_with_client(&mut self.client);
        run(&mut self.server, PreUpdate);
        // As the end of a frame does.
        self.server.world_mut().clear_trackers();
        self.client.world_mut().clear_trackers();
        Turn { tick_seconds, apply_seconds, bytes }
    }

    /// Panics unless the client has what the server has.
    pub(crate) fn check(&mut self) {
        let (server, client) = (values(self.server.world_mut()), values(self.client.world_mut()));
        assert_eq!(server.len(), self.entities.len());
        assert!(server == client, "the client has what the server has");
    }
}

fn app() -> App {
    let mut app = App::new();
    app.add_plugins((
        bevy_app::TaskPoolPlugin::default(),
        bevy_time::TimePlugin,
        bevy_state::app::StatesPlugin,
    ));
    app
}

fn run(app: &mut App, schedule: impl ScheduleLabel + Clone) -> f64 {
    seconds(&mut || app.world_mut().run_schedule(schedule.clone()))
}

/// The bytes of all rows, in an order that does not depend on ids.
fn values(world: &mut World) -> Vec<Vec<u8>> {
    let mut rows = world.query::<(&Transform, &Circle, &Color, Option<&M1>, Option<&M2>)>();
    let bytes = |row: (&Transform, &Circle, &Color, Option<&M1>, Option<&M2>)| {
        postcard::to_allocvec(&row).expect("rows are plain")
    };
    let mut values: Vec<Vec<u8>> = rows.iter(world).map(bytes).collect();
    values.sort_unstable();
    values
}

/// Which part of a turn a row is about.
#[derive(Clone, Copy)]
enum Part {
    Tick,
    Apply,
}

fn against_memcpy(entities: usize, spread: Spread, part: Part) -> (f64, String) {
    let mut replicon = Replicon::new(entities);
    let mut memcpy = plain::World::new(entities).memcpy();
    let mut bytes = 0;
    let work = || {
        replicon.change(spread);
        let turn = replicon.follow();
        bytes = turn.bytes;
        match part {
            Part::Tick => turn.tick_seconds,
            Part::Apply => turn.apply_seconds,
        }
    };
    let (theirs, copy) = turns(rounds(entities), work, || seconds(&mut || memcpy.run()));
    replicon.check();
    (theirs / copy, format!("{:.0} us, {bytes} bytes", theirs * 1e6))
}
