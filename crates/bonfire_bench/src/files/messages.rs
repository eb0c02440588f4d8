//! Messages of replication streams: baselines, ticks, requests, answers, structural logs, recordings.

use std::fs;
use std::path::Path;

use bevy_app::{App, First, Last};
use bevy_bonfire::replication::{
    ClientId, DeltaCapture, ReplicationClient, ReplicationClientPlugin, ReplicationServer,
    ReplicationServerPlugin, WorldMirror, WorldSource,
};
use bevy_bonfire::sync::{
    CatchUpRequest, MessageCompression, Receiver, Recorder, ReplicationStream, SourceWorld, StreamOptions,
    StructuralLog,
};
use bonfire::Granularity;
use bytes::Bytes;

use super::{Result, worlds};
use crate::live_rows::{Spread, by_row, change};

/// The number of all streams whose names do not begin with `random`.
const STREAM: u64 = 0x1122_3344_5566_7788;
const ENTITIES: usize = 2_000;

pub(super) fn write(directory: &Path) -> Result {
    let default = StreamOptions::new(STREAM);
    bevy(directory, "bevy", default.clone())?;
    bevy(directory, "lz4", StreamOptions { compression: MessageCompression::Lz4, ..default.clone() })?;
    let fields =
        StreamOptions { granularity: Granularity::Field, epsilon: Some(0.5), ..StreamOptions::new(STREAM) };
    bevy(directory, "fields", fields)?;
    hecs(directory, default)?;
    structural_log(directory)?;
    random_stream(directory)
}

fn put(directory: &Path, name: &str, messages: &[Bytes]) -> Result {
    for (number, message) in messages.iter().enumerate() {
        fs::write(directory.join(format!("{name}-{number}.message")), message)?;
    }
    Ok(())
}

/// The next tick of a stream, written and recorded.
fn tick(
    directory: &Path,
    name: &str,
    stream: &mut ReplicationStream,
    source: &mut impl SourceWorld,
    recorder: &mut Recorder<Vec<u8>>,
) -> Result<Vec<Bytes>> {
    let messages = stream.tick(source)?;
    put(directory, name, &messages)?;
    messages.iter().try_for_each(|message| recorder.write(message))?;
    Ok(messages)
}

/// A stream of a Bevy world, a mirror that misses a message and asks for it, and a recording of it all.
fn bevy(directory: &Path, name: &str, options: StreamOptions) -> Result {
    let mut world = worlds::bevy_replicated(ENTITIES);
    let entities = by_row(&world);
    let mut deltas = DeltaCapture::of_replication();
    let mut stream = ReplicationStream::new(options);
    let mut recorder = Recorder::new(Vec::new())?;
    let mut app = App::new();
    worlds::replicate_plain(&mut app);
    let mut mirror = WorldMirror::new(app.world_mut());
    let mut receiver = Receiver::new(mirror.table().clone());
    let request = receiver.request();
    put(directory, &format!("{name}-request-all"), &[request.encode()?])?;
    for turn in 0..5 {
        let spread = if turn % 2 == 0 { Spread::Run } else { Spread::Scattered };
        change(&mut world, &entities, spread, turn / 2);
        let mut source = WorldSource { world: &mut world, deltas: &mut deltas };
        let messages = tick(directory, &format!("{name}-{turn}"), &mut stream, &mut source, &mut recorder)?;
        // The mirror misses the third tick.
        if turn != 2 {
            messages.iter().try_for_each(|message| receiver.apply(&mut mirror, message).map(drop))?;
        }
    }
    let request: CatchUpRequest = receiver.request();
    put(directory, &format!("{name}-request-since"), &[request.encode()?])?;
    let mut source = WorldSource { world: &mut world, deltas: &mut deltas };
    put(directory, &format!("{name}-answer"), &stream.answer_unlimited(&request, &mut source)?)?;
    change(source.world, &entities, Spread::All, 1);
    put(directory, &format!("{name}-baseline"), &[stream.baseline(&mut source)?])?;
    tick(directory, &format!("{name}-last"), &mut stream, &mut source, &mut recorder)?;
    fs::write(directory.join(format!("{name}.recording")), recorder.into_inner())?;
    Ok(())
}

/// A stream of a hecs world.
fn hecs(directory: &Path, options: StreamOptions) -> Result {
    let (bonfire, mut world) = worlds::hecs_rpg()?;
    let options_of_saves = bonfire_hecs::SaveOptions::new();
    let mut deltas = bonfire_hecs::replication::DeltaCapture::of_replication();
    let mut stream = ReplicationStream::new(options);
    let mut recorder = Recorder::new(Vec::new())?;
    for turn in 0..3 {
        let mut source = bonfire_hecs::replication::WorldSource {
            bonfire: &bonfire,
            world: &world,
            options: &options_of_saves,
            deltas: &mut deltas,
        };
        tick(directory, &format!("hecs-{turn}"), &mut stream, &mut source, &mut recorder)?;
        worlds::change_hecs_rpg(&mut world, turn)?;
    }
    fs::write(directory.join("hecs.recording"), recorder.into_inner())?;
    Ok(())
}

/// Logs of what came and went in the rpg set.
fn structural_log(directory: &Path) -> Result {
    let mut world = worlds::bevy_rpg();
    let mut deltas = DeltaCapture::of_saves();
    let (mut log, mut short) = (StructuralLog::new(10), StructuralLog::new(2));
    for turn in 0..4 {
        let delta = deltas.changes(&mut world)?;
        log.record(&delta)?;
        short.record(&delta)?;
        worlds::change_bevy_rpg(&mut world, turn);
    }
    put(directory, "structural", &[log.encode(STREAM, &MessageCompression::None)?])?;
    put(directory, "structural-lz4", &[log.encode(STREAM, &MessageCompression::Lz4)?])?;
    put(directory, "structural-short", &[short.encode(STREAM, &MessageCompression::None)?])
}

/// The plugins of Bevy: a server chooses the number of its stream at random.
fn random_stream(directory: &Path) -> Result {
    let (mut server, mut client) = (App::new(), App::new());
    server.add_plugins(ReplicationServerPlugin::new());
    client.add_plugins(ReplicationClientPlugin::new());
    worlds::replicate_plain(&mut server);
    worlds::replicate_plain(&mut client);
    crate::bevy_plain::fill(server.world_mut(), ENTITIES);
    let entities = by_row(server.world());
    for &entity in &entities {
        server.world_mut().entity_mut(entity).insert(bevy_bonfire::replication::Replicated);
    }
    server.world_mut().resource_mut::<ReplicationServer>().connect(ClientId(1));
    for turn in 0..5 {
        change(server.world_mut(), &entities, Spread::Run, turn);
        server.world_mut().run_schedule(Last);
        let messages = server.world_mut().resource_mut::<ReplicationServer>().take_messages();
        let messages: Vec<Bytes> = messages.into_iter().map(|(_, message)| message).collect();
        put(directory, &format!("random-server-{turn}"), &messages)?;
        // The client misses the third tick.
        for message in messages.into_iter().filter(|_| turn != 2) {
            client.world_mut().resource_mut::<ReplicationClient>().receive(message)?;
        }
        client.world_mut().run_schedule(First);
        let requests = client.world_mut().resource_mut::<ReplicationClient>().take_messages();
        put(directory, &format!("random-client-{turn}"), &requests)?;
        for request in requests {
            server.world_mut().resource_mut::<ReplicationServer>().receive(ClientId(1), &request)?;
        }
        server.world_mut().clear_trackers();
        client.world_mut().clear_trackers();
    }
    Ok(())
}
