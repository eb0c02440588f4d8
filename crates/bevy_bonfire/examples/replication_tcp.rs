//! A server and its clients, each in a process of its own, over TCP.
//!
//! Bonfire makes messages and applies them, and `replication_tcp/wire.rs` carries them. Copy it, or put another transport in its
//! place: it must keep messages apart, and need not be reliable.
//!
//! ```sh
//! cargo run -p bevy_bonfire --example replication_tcp                          # all processes, and a proof that they agree
//! cargo run -p bevy_bonfire --example replication_tcp -- --record stream.bnfr  # the same, for `bonfire replay stream.bnfr`
//! cargo run -p bevy_bonfire --example replication_tcp -- server 127.0.0.1:7777 # by hand: type `lose`, `finish`
//! cargo run -p bevy_bonfire --example replication_tcp -- client 127.0.0.1:7777
//! ```

#[path = "replication_tcp/proof.rs"]
mod proof;
#[path = "replication_tcp/wire.rs"]
mod wire;

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::{self, BufWriter};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use bevy_app::{App, AppExit, First, Last, ScheduleRunnerPlugin, Update};
use bevy_bonfire::prelude::*;
use bevy_bonfire::replication::{
    Answer, ClientId, MessageApplied, MessageRefused, ReplicateExt, Replicated, ReplicationClient,
    ReplicationClientPlugin, ReplicationServer, ReplicationServerPlugin, ReplicationSystems, RequestAnswered,
};
use bevy_bonfire::sync::{Applied, BaselineReason, Recorder};
use bevy_ecs::prelude::*;
use bytes::Bytes;

use crate::proof::prove;
use crate::wire::{Connection, MESSAGE_BYTES_MAX, PATIENCE, REQUEST_BYTES_MAX};

type AnyError = Box<dyn std::error::Error + Send + Sync>;

// ---- The game: what both sides know ------------------------------------------------------------------------------------

#[derive(Component, Persist)]
#[require(Replicated)] // clients see every ship
#[persist(key = "game.ship")]
struct Ship {
    number: u32,
    x: f32,
}

#[derive(Component, Persist)]
#[require(Replicated)]
#[persist(key = "game.turret")]
struct Turret(u32);

/// On some ships, for a while.
#[derive(Component, Persist)]
#[persist(key = "game.shield")]
struct Shield(u8);

/// A reference: on a client it leads to the client's own entity.
#[derive(Component, Persist)]
#[persist(key = "game.hunts")]
struct Hunts(Entity);

#[derive(Resource, Persist, Default)]
#[persist(key = "game.match")]
struct Match {
    frame: u32,
    /// Nothing moves any more, so whoever sees this has all there will ever be.
    over: bool,
}

/// What is registered must be the same on both sides. These components are not saved; for those that are, it is `replicate`.
fn shared(app: &mut App) {
    app.add_plugins(ScheduleRunnerPlugin::run_loop(Duration::from_millis(4)))
        .replicate_only::<Ship>()
        .replicate_only::<Turret>()
        .replicate_only::<Shield>()
        .replicate_only::<Hunts>()
        .replicate_only::<Match>()
        .replicate::<ChildOf>();
}

/// A world in which everything happens that can: what comes, goes, moves, gains, loses, hangs on and refers to something.
fn live(
    mut commands: Commands,
    mut game: ResMut<Match>,
    mut ships: Query<(Entity, &mut Ship, Has<Shield>)>,
    turrets: Query<Entity, With<Turret>>,
) {
    if game.over {
        return;
    }
    game.frame += 1;
    let frame = game.frame;
    if frame.is_multiple_of(100) {
        println!("frame {frame}: {} ships", ships.iter().len());
    }
    ships.iter_mut().filter(|(id, ..)| (id.index_u32() + frame).is_multiple_of(3)).for_each(
        |(_, mut ship, _)| {
            ship.x += 0.25;
        },
    );
    let mut all: Vec<(Entity, bool)> = ships.iter().map(|(id, _, shielded)| (id, shielded)).collect();
    all.sort();
    let some = |salt: u32| all.get(((frame * 31 + salt) as usize * 7919) % all.len().max(1)).copied();
    if frame.is_multiple_of(3) {
        let ship = commands.spawn(Ship { number: frame, x: 0.0 }).id();
        (0..3).for_each(|number| _ = commands.spawn((Turret(number), ChildOf(ship))));
        if let Some((prey, _)) = some(1) {
            commands.entity(ship).insert(Hunts(prey));
        }
    }
    match some(2) {
        Some((ship, true)) => drop(commands.entity(ship).remove::<Shield>()),
        Some((ship, false)) => drop(commands.entity(ship).insert(Shield(frame as u8))),
        None => {}
    }
    if let (Some((ship, _)), Some(turret)) = (some(4), turrets.iter().nth(frame as usize % 17)) {
        commands.entity(turret).insert(ChildOf(ship)); // the last of its turrets
    }
    if let Some((ship, _)) = some(3).filter(|_| all.len() > 12) {
        commands.entity(ship).despawn(); // with its turrets
    }
}

/// The world in words of the game, as one number: the same on both sides, whatever the ids are, or something is wrong.
fn describe(world: &mut World) -> String {
    let mut turrets = world.query::<&Turret>();
    let mut query = world.query::<(&Ship, Option<&Shield>, Option<&Hunts>, Option<&Children>)>();
    let mut lines: Vec<String> = Vec::new();
    for (ship, shield, hunts, children) in query.iter(world) {
        // One that is gone is an entity that is no more here, and none at all there.
        let prey = hunts.map(|hunts| world.get::<Ship>(hunts.0).map(|prey| prey.number));
        let turrets: Vec<u32> = children
            .into_iter()
            .flatten()
            .flat_map(|child| turrets.get(world, *child))
            .map(|turret| turret.0)
            .collect();
        let shield = shield.map(|shield| shield.0);
        lines.push(format!("{:6} at {}, {shield:?}, hunts {prey:?}, {turrets:?}", ship.number, ship.x));
    }
    lines.sort();
    let frame = world.resource::<Match>().frame;
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one((&lines, frame));
    format!("frame {frame}, {} ships, hash {hash:016x}", lines.len())
}

// ---- The server --------------------------------------------------------------------------------------------------------

const CONNECTIONS_MAX: usize = 64;

enum Event {
    Came(TcpStream),
    Heard(ClientId, io::Result<Bytes>),
    /// Nothing when the console is closed.
    Typed(Option<String>),
}

#[derive(Resource)]
struct Network {
    events: Mutex<Receiver<Event>>,
    heard: Sender<Event>,
    connections: BTreeMap<ClientId, Connection>,
    last: ClientId,
    /// The next message to this client gets lost, to show what happens then.
    loses: Option<ClientId>,
}

impl Network {
    fn open(address: &str) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        println!("listening on {}", listener.local_addr()?);
        let (heard, events) = channel();
        let (came, typed) = (heard.clone(), heard.clone());
        std::thread::spawn(move || {
            listener.incoming().map_while(Result::ok).for_each(|socket| drop(came.send(Event::Came(socket))));
        });
        std::thread::spawn(move || {
            let lines = io::stdin().lines().map_while(Result::ok).map(Some);
            lines.chain([None]).for_each(|line| drop(typed.send(Event::Typed(line))));
        });
        let (connections, last) = (BTreeMap::new(), ClientId(0));
        Ok(Self { events: Mutex::new(events), heard, connections, last, loses: None })
    }

    fn connect(&mut self, socket: TcpStream) -> io::Result<ClientId> {
        if self.connections.len() >= CONNECTIONS_MAX {
            return Err(io::Error::other("too many connections"));
        }
        let (client, heard) = (ClientId(self.last.0 + 1), self.heard.clone());
        let heard = move |message| drop(heard.send(Event::Heard(client, message)));
        self.connections.insert(client, Connection::start(socket, REQUEST_BYTES_MAX, heard)?);
        self.last = client;
        Ok(client)
    }
}

/// Before a frame: who has come and gone, and what clients ask for.
fn listen(
    mut network: ResMut<Network>,
    mut server: ResMut<ReplicationServer>,
    mut game: ResMut<Match>,
    mut exit: MessageWriter<AppExit>,
) {
    let network = &mut *network;
    let events: Vec<Event> =
        network.events.get_mut().map_or_else(|_| Vec::new(), |events| events.try_iter().collect());
    for event in events {
        match event {
            Event::Came(socket) => match network.connect(socket) {
                Ok(client) => server.connect(client),
                Err(error) => println!("somebody was turned away: {error}"),
            },
            Event::Heard(client, message) => {
                // A peer that is gone, or talks nonsense, ends its own connection and nobody else's.
                let heard =
                    message.map_err(AnyError::from).and_then(|message| Ok(server.receive(client, &message)?));
                if let Err(error) = heard
                    && network.connections.remove(&client).is_some()
                {
                    server.disconnect(client);
                    println!("client {} is gone: {error}", client.0);
                }
            }
            Event::Typed(Some(line)) => match line.trim() {
                "lose" => network.loses = network.connections.keys().next_back().copied(),
                "finish" => game.over = true,
                other => println!("`{other}` is neither `lose` nor `finish`"),
            },
            // Whoever has started this is gone.
            Event::Typed(None) => drop(exit.write(AppExit::error())),
        }
    }
}

/// After a frame: what it has changed, to everybody.
fn tell(mut network: ResMut<Network>, mut server: ResMut<ReplicationServer>) {
    for (client, message) in server.take_messages() {
        if network.loses == Some(client) {
            network.loses = None;
            println!("lost a message to client {}", client.0);
            continue;
        }
        if !network.connections.get(&client).is_some_and(|connection| connection.send(message)) {
            network.connections.remove(&client);
            server.disconnect(client);
        }
    }
}

/// When the match is over, clients leave when they have seen it, and the server after them.
fn end(world: &mut World, mut told: Local<bool>) {
    if !world.resource::<Match>().over {
        return;
    }
    if !std::mem::replace(&mut *told, true) {
        println!("over: {}", describe(world));
    }
    if world.resource::<Network>().connections.is_empty() {
        world.write_message(AppExit::Success);
    }
}

fn server(address: &str) -> Result<AppExit, AnyError> {
    let mut app = App::new();
    app.add_plugins(ReplicationServerPlugin::new());
    shared(&mut app);
    app.insert_resource(Network::open(address)?)
        .init_resource::<Match>()
        .add_systems(First, listen)
        .add_systems(Update, live)
        .add_systems(Last, (tell, end).chain().after(ReplicationSystems::Send))
        .add_observer(|answered: On<RequestAnswered>| {
            if let Answer::Later { bytes, ticks } = answered.answer {
                println!("client {} is over its budget: {bytes} bytes, or {ticks} ticks", answered.client.0);
            }
        });
    Ok(app.run())
}

// ---- The client --------------------------------------------------------------------------------------------------------

#[derive(Resource)]
struct ToServer {
    connection: Connection,
    messages: Mutex<Receiver<io::Result<Bytes>>>,
    recorder: Option<Recorder<BufWriter<File>>>,
}

/// Before a frame: what has arrived. It is applied right after this.
fn hear(
    mut server: ResMut<ToServer>,
    mut client: ResMut<ReplicationClient>,
    mut exit: MessageWriter<AppExit>,
) -> Result<(), BevyError> {
    let ToServer { messages, recorder, .. } = &mut *server;
    let Ok(messages) = messages.get_mut() else { return Ok(()) };
    for message in messages.try_iter() {
        match message {
            Ok(message) => {
                if let Some(recorder) = recorder {
                    recorder.write(&message)?;
                }
                if let Err(error) = client.receive(message) {
                    println!("dropped, and asked for later: {error}");
                }
            }
            Err(error) => {
                println!("the server is gone: {error}");
                exit.write(AppExit::error());
            }
        }
    }
    Ok(())
}

/// After a frame: what was missed is asked for. The client knows by itself when.
fn ask(server: Res<ToServer>, mut client: ResMut<ReplicationClient>) {
    for request in client.take_messages() {
        server.connection.send(request);
    }
}

/// Nothing of this is necessary: it tells what happens.
fn comment(applied: On<MessageApplied>, mut has_missed: Local<bool>) {
    let tick = applied.tick.unwrap_or_default();
    match applied.applied {
        Applied::Baseline => println!("joined at tick {tick}"),
        Applied::NeedBaseline(BaselineReason::Gap { have, since }) if !*has_missed => {
            println!("has missed ticks {have} to {since}, and asks");
            *has_missed = true;
        }
        Applied::Delta if std::mem::take(&mut *has_missed) => println!("caught up to tick {tick}"),
        _ => {}
    }
}

fn leave(world: &mut World) -> Result<(), BevyError> {
    if world.get_resource::<Match>().is_some_and(|game| game.over) {
        println!("over: {}", describe(world));
        if let Some(recorder) = &mut world.resource_mut::<ToServer>().recorder {
            recorder.flush()?;
        }
        world.write_message(AppExit::Success);
    }
    Ok(())
}

fn client(address: &str, record: Option<&str>) -> Result<AppExit, AnyError> {
    let socket = TcpStream::connect(address)?;
    // The server says something in every frame. One that does not is gone.
    socket.set_read_timeout(Some(PATIENCE))?;
    let (heard, messages) = channel();
    let connection = Connection::start(socket, MESSAGE_BYTES_MAX, move |message| drop(heard.send(message)))?;
    let recorder = record.map(|path| Ok::<_, AnyError>(Recorder::new(BufWriter::new(File::create(path)?))?));
    let recorder = recorder.transpose()?;
    let mut app = App::new();
    app.add_plugins(ReplicationClientPlugin::new());
    shared(&mut app);
    app.insert_resource(ToServer { connection, messages: Mutex::new(messages), recorder })
        .add_systems(First, hear.before(ReplicationSystems::Receive))
        .add_systems(Last, (ask, leave).chain())
        .add_observer(comment)
        .add_observer(|refused: On<MessageRefused>, mut exit: MessageWriter<AppExit>| {
            println!("refused: {}", refused.error); // a server with other components
            exit.write(AppExit::error());
        });
    Ok(app.run())
}

fn main() -> Result<AppExit, AnyError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["server"] => server("127.0.0.1:0"),
        ["server", address] => server(address),
        ["client", address] => client(address, None),
        ["client", address, "--record", path] => client(address, Some(path)),
        [] => prove(None),
        ["--record", path] => prove(Some(path)),
        _ => Err("arguments: [--record FILE] | server [ADDRESS] | client ADDRESS [--record FILE]".into()),
    }
}
