//! Random lives of a world over random connections: whatever is lost, doubled, late or overtaken, and whoever joins, a mirror
//! is what the server was at the tick that it says, and catches up when the weather is fine again.

mod common;

use std::collections::BTreeMap;

use bonfire::Granularity;
use bonfire_sync::{Applied, CatchUpRequest, MessageCompression, StreamOptions};
use bonfire_testkit::disk::Random;
use bonfire_testkit::{Link, Weather};
use bytes::Bytes;
use common::{Client, Server, State, edit};
use proptest::prelude::*;

const TICKS: usize = 30;

/// A client and its connection.
struct Peer {
    client: Client,
    link: Link<Bytes>,
}

impl Peer {
    fn new(seed: u64, weather: Weather) -> Self {
        Self { client: Client::new(), link: Link::new(seed, weather) }
    }

    /// Applies what has arrived, and asks for what is missing.
    fn follow(&mut self, states: &BTreeMap<u64, State>) -> Result<(), TestCaseError> {
        let mut missing = self.client.receiver.tick().is_none();
        for message in self.link.at_client() {
            match self.client.try_apply(&message) {
                Ok(Applied::NeedBaseline(_)) => missing = true,
                Ok(_) => missing = false,
                Err(error) => return Err(TestCaseError::fail(error.to_string())),
            }
            if let Some(tick) = self.client.receiver.tick() {
                prop_assert_eq!(&self.client.state(), &states[&tick], "at tick {}", tick);
                prop_assert_eq!(self.client.receiver.map().len(), states[&tick].len());
            }
        }
        if missing {
            self.link.to_server(&self.client.receiver.request().encode().expect("a request"));
        }
        Ok(())
    }
}

/// One schedule. What a server was at each of its ticks is remembered, and every mirror compared with it.
fn run(seed: u64, weather: Weather, options: StreamOptions) -> Result<(), TestCaseError> {
    let mut random = Random::new(seed);
    let mut server = Server::with(options);
    let mut peers = vec![Peer::new(seed ^ 1, weather)];
    let mut states = BTreeMap::new();
    let mut calm = false;
    for tick in 0.. {
        calm |= tick == TICKS;
        if !calm {
            edit(server.world(), &mut random);
            if random.chance(10) {
                let mut peer = Peer::new(random.number(), weather);
                let baseline = server.baseline();
                peer.link.to_client(&baseline);
                peers.push(peer);
                // A tick of its own, unless the baseline is the one of the tick before.
                let tick = server.stream.current_tick();
                states.entry(tick).or_insert_with(|| State::of_server(server.world()));
                // Changes between a baseline and the tick after it.
                edit(server.world(), &mut random);
            }
            if random.chance(5) {
                peers[0].link.break_off();
                peers[0].client = Client::new();
            }
            server.trouble.cannot_tell = random.chance(3);
        } else {
            peers.iter_mut().for_each(|peer| peer.link.set_weather(Weather::FINE));
        }
        let messages = server.ticks();
        states.insert(server.stream.current_tick(), State::of_server(server.world()));
        for peer in &mut peers {
            messages.iter().for_each(|message| peer.link.to_client(message));
            peer.follow(&states)?;
            for request in peer.link.at_server() {
                let request = CatchUpRequest::decode(&request).expect("links damage nothing");
                for message in server.answer(&request) {
                    peer.link.to_client(&message);
                }
            }
            peer.link.tick();
        }
        if tick > TICKS + 20 {
            break;
        }
    }
    let now = Some(server.stream.current_tick());
    for peer in &mut peers {
        peer.follow(&states)?;
        prop_assert_eq!(peer.client.receiver.tick(), now, "everybody is there in the end");
        prop_assert_eq!(peer.client.state(), State::of_server(server.world()));
    }
    Ok(())
}

fn cases() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(30 * bonfire_testkit::scale()) }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn over_a_reliable_connection(seed in any::<u64>()) {
        run(seed, Weather::RELIABLE, StreamOptions::new(seed))?;
    }

    #[test]
    fn through_a_storm(seed in any::<u64>()) {
        run(seed, Weather::STORM, StreamOptions::new(seed))?;
    }

    #[test]
    fn with_single_fields(seed in any::<u64>()) {
        let options = StreamOptions { granularity: Granularity::Field, ..StreamOptions::new(seed) };
        run(seed, Weather::STORM, options)?;
    }

    /// A joiner gets what the others were sent: with an epsilon of nothing, that is what there is.
    #[test]
    fn with_an_epsilon_of_nothing(seed in any::<u64>()) {
        run(seed, Weather::STORM, StreamOptions { epsilon: Some(0.0), ..StreamOptions::new(seed) })?;
    }

    #[test]
    fn with_little_room_and_compression(seed in any::<u64>()) {
        let options = StreamOptions {
            compression: MessageCompression::Lz4,
            delta_bytes_max: 120,
            recent_messages_max: 2,
            ..StreamOptions::new(seed)
        };
        run(seed, Weather::STORM, options)?;
    }
}
