//! A server that is also a client: three apps in a row.

mod common;

use bevy_app::App;
use bevy_bonfire::replication::{
    ClientId, Mirrored, ReplicateExt, Replicated, ReplicationClient, ReplicationClientPlugin,
    ReplicationServer, ReplicationServerPlugin,
};
use bevy_ecs::prelude::*;
use common::*;

struct Chain {
    server: App,
    relay: App,
    client: App,
}

fn setup(app: &mut App) {
    register(app.world_mut(), false);
    app.replicate::<Position>().replicate::<Follows>().replicate::<ChildOf>().replicate::<Score>();
}

impl Chain {
    fn new(plugin: fn() -> ReplicationServerPlugin) -> Self {
        let (mut server, mut relay, mut client) = (App::new(), App::new(), App::new());
        server.add_plugins(plugin());
        relay.add_plugins((plugin().relay(), ReplicationClientPlugin::new()));
        client.add_plugins(ReplicationClientPlugin::new());
        [&mut server, &mut relay, &mut client].into_iter().for_each(setup);
        server.world_mut().resource_mut::<ReplicationServer>().connect(ClientId(1));
        // So that ids are others on each side.
        relay.world_mut().spawn_batch((0..5).map(|_| ()));
        client.world_mut().spawn_batch((0..11).map(|_| ()));
        Self { server, relay, client }
    }

    /// Clients may join late.
    fn join(&mut self) {
        self.relay.world_mut().resource_mut::<ReplicationServer>().connect(ClientId(2));
    }

    fn update(&mut self) {
        carry(&mut self.server, &mut self.relay, ClientId(1));
        carry(&mut self.relay, &mut self.client, ClientId(2));
        self.client.update();
        answer(&mut self.relay, &mut self.server, ClientId(1));
        answer(&mut self.client, &mut self.relay, ClientId(2));
    }

    fn at_relay(&self, entity: Entity) -> Entity {
        self.relay.world().resource::<ReplicationClient>().entity(entity).unwrap()
    }

    fn at_client(&self, entity: Entity) -> Entity {
        self.client.world().resource::<ReplicationClient>().entity(self.at_relay(entity)).unwrap()
    }
}

fn carry(from: &mut App, to: &mut App, client: ClientId) {
    from.update();
    for (receiver, message) in from.world_mut().resource_mut::<ReplicationServer>().take_messages() {
        assert_eq!(receiver, client);
        to.world_mut().resource_mut::<ReplicationClient>().receive(message).unwrap();
    }
}

fn answer(from: &mut App, to: &mut App, client: ClientId) {
    for message in from.world_mut().resource_mut::<ReplicationClient>().take_messages() {
        to.world_mut().resource_mut::<ReplicationServer>().receive(client, &message).unwrap();
    }
}

fn at(x: f32) -> Position {
    Position { x, y: 0.0 }
}

#[test]
fn a_relay_passes_on_what_it_mirrors_and_what_is_its_own() {
    for plugin in [ReplicationServerPlugin::new, || ReplicationServerPlugin::new().exact()] {
        let mut chain = Chain::new(plugin);
        let ship = chain.server.world_mut().spawn((at(1.0), Replicated)).id();
        let cannon = chain.server.world_mut().spawn((at(2.0), Replicated, ChildOf(ship))).id();
        let follows = Follows { leader: cannon, others: vec![ship], last: None };
        let scout = chain.server.world_mut().spawn((follows, Replicated)).id();
        chain.server.world_mut().insert_resource(Score { points: 3, best: None });
        chain.update();
        chain.join();
        let own = chain.relay.world_mut().spawn((at(50.0), Replicated)).id();
        chain.update();
        for turn in 3..6_u64 {
            chain.server.world_mut().get_mut::<Position>(cannon).unwrap().x = turn as f32;
            chain.server.world_mut().resource_mut::<Score>().points = turn;
            chain.update();
            let client = chain.client.world();
            assert_eq!(client.get::<Position>(chain.at_client(cannon)), Some(&at(turn as f32)));
            assert_eq!(client.resource::<Score>().points, turn);
        }
        let [ship_here, cannon_here, scout_here] =
            [ship, cannon, scout].map(|entity| chain.at_client(entity));
        let client = chain.client.world();
        assert_eq!(client.get::<ChildOf>(cannon_here).unwrap().parent(), ship_here);
        let follows = client.get::<Follows>(scout_here).unwrap();
        assert_eq!((follows.leader, &follows.others), (cannon_here, &vec![ship_here]));
        let own_here = client.resource::<ReplicationClient>().entity(own).unwrap();
        assert_eq!(client.get::<Position>(own_here), Some(&at(50.0)));
        // Nothing comes back to the first one.
        let world = chain.server.world_mut();
        assert_eq!(world.query::<&Mirrored>().iter(world).count(), 0);
        assert_eq!(world.query::<&Position>().iter(world).count(), 2);

        chain.server.world_mut().entity_mut(ship).remove::<Position>();
        chain.server.world_mut().despawn(scout);
        chain.relay.world_mut().despawn(own);
        chain.update();
        let client = chain.client.world();
        assert!(client.get::<Position>(ship_here).is_none());
        assert!(client.get_entity(scout_here).is_err() && client.get_entity(own_here).is_err());
    }
}
