//! A connection between two peers without a network: what is sent is lost, doubled, delayed and overtaken as a seed says.
//!
//! Time is ticks that the test counts, so a failure can be had again from its seed. The same calls with the same seed
//! deliver the same messages.

use std::collections::BTreeMap;

use crate::disk::Random;

/// What may happen to a message on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weather {
    /// How many of a hundred are lost.
    pub lost_percent: usize,
    /// How many of a hundred arrive twice, each at its own time.
    pub doubled_percent: usize,
    /// How many ticks a message may be on its way.
    pub delay_ticks_max: u64,
    /// How many of a hundred may be overtaken: the others arrive in the order in which they were sent.
    pub overtaken_percent: usize,
}

impl Weather {
    /// Everything arrives at once, once, and in order.
    pub const FINE: Self =
        Self { lost_percent: 0, doubled_percent: 0, delay_ticks_max: 0, overtaken_percent: 0 };
    /// Everything arrives, once and in order, some of it late: what a connection over TCP gives.
    pub const RELIABLE: Self = Self { delay_ticks_max: 5, ..Self::FINE };
    /// Everything that datagrams may do.
    pub const STORM: Self =
        Self { lost_percent: 15, doubled_percent: 15, delay_ticks_max: 6, overtaken_percent: 40 };
}

/// One direction.
#[derive(Clone, Debug)]
struct Line<T> {
    /// By when it arrives and how many were sent before.
    on_the_way: BTreeMap<(u64, u64), T>,
    sent: u64,
    /// When the last message that keeps its order arrives: none of those after it is earlier.
    last: u64,
}

impl<T: Clone> Line<T> {
    fn new() -> Self {
        Self { on_the_way: BTreeMap::new(), sent: 0, last: 0 }
    }

    fn send(&mut self, message: &T, now: u64, weather: Weather, random: &mut Random) {
        if random.chance(weather.lost_percent) {
            return;
        }
        let copies = if random.chance(weather.doubled_percent) { 2 } else { 1 };
        for _ in 0..copies {
            let mut arrives = now + random.number() % (weather.delay_ticks_max + 1);
            if !random.chance(weather.overtaken_percent) {
                arrives = arrives.max(self.last);
                self.last = arrives;
            }
            self.on_the_way.insert((arrives, self.sent), message.clone());
            self.sent += 1;
        }
    }

    fn arrived(&mut self, now: u64) -> Vec<T> {
        let later = self.on_the_way.split_off(&(now + 1, 0));
        std::mem::replace(&mut self.on_the_way, later).into_values().collect()
    }
}

/// A connection between a server and one client.
///
/// ```
/// use bonfire_testkit::{Link, Weather};
///
/// let mut link = Link::new(1, Weather::FINE);
/// link.to_client(&"baseline");
/// assert_eq!(link.at_client(), ["baseline"]);
/// link.to_server(&"more");
/// link.break_off();
/// assert!(link.at_server().is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct Link<T> {
    random: Random,
    weather: Weather,
    now: u64,
    down: Line<T>,
    up: Line<T>,
}

impl<T: Clone> Link<T> {
    /// A connection with nothing on its way.
    pub fn new(seed: u64, weather: Weather) -> Self {
        Self { random: Random::new(seed), weather, now: 0, down: Line::new(), up: Line::new() }
    }

    /// What happens to messages that are sent from now on.
    pub fn set_weather(&mut self, weather: Weather) {
        self.weather = weather;
    }

    /// Lets a tick pass.
    pub fn tick(&mut self) {
        self.now += 1;
    }

    /// Sends from the server.
    pub fn to_client(&mut self, message: &T) {
        self.down.send(message, self.now, self.weather, &mut self.random);
    }

    /// Sends from the client.
    pub fn to_server(&mut self, message: &T) {
        self.up.send(message, self.now, self.weather, &mut self.random);
    }

    /// What has arrived at the client by now, in the order of its arrival. Each is given once.
    pub fn at_client(&mut self) -> Vec<T> {
        self.down.arrived(self.now)
    }

    /// What has arrived at the server by now.
    pub fn at_server(&mut self) -> Vec<T> {
        self.up.arrived(self.now)
    }

    /// Loses everything that is on its way, as when a client goes and another one joins in its place.
    pub fn break_off(&mut self) {
        self.down = Line::new();
        self.up = Line::new();
    }

    /// How many messages are on their way, both directions together.
    pub fn on_the_way(&self) -> usize {
        self.down.on_the_way.len() + self.up.on_the_way.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What arrives of the numbers up to `count`, one sent per tick.
    fn arrivals(seed: u64, weather: Weather, count: u32) -> Vec<u32> {
        let mut link = Link::new(seed, weather);
        let mut arrived = Vec::new();
        for number in 0..count {
            link.to_client(&number);
            arrived.extend(link.at_client());
            link.tick();
        }
        for _ in 0..=weather.delay_ticks_max {
            arrived.extend(link.at_client());
            link.tick();
        }
        assert_eq!(link.on_the_way(), 0, "nothing is later than its delay");
        arrived
    }

    #[test]
    fn a_reliable_link_keeps_everything_in_order() {
        for seed in 0..50 {
            assert_eq!(arrivals(seed, Weather::RELIABLE, 100), (0..100).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_storm_loses_doubles_and_reorders_and_can_be_had_again() {
        let arrived = arrivals(7, Weather::STORM, 1000);
        assert_eq!(arrived, arrivals(7, Weather::STORM, 1000));
        assert_ne!(arrived, arrivals(8, Weather::STORM, 1000));
        let mut distinct = arrived.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert!(distinct.len() < 1000, "some are lost");
        assert!(distinct.len() < arrived.len(), "some are doubled");
        assert!(!arrived.is_sorted(), "some are overtaken");
    }

    #[test]
    fn what_is_on_its_way_is_lost_with_the_connection() {
        let mut link = Link::new(3, Weather { delay_ticks_max: 100, ..Weather::RELIABLE });
        (0..20).for_each(|number| link.to_client(&number));
        link.to_server(&0);
        assert!(link.on_the_way() > 0);
        link.break_off();
        (0..200).for_each(|_| link.tick());
        assert!(link.at_client().is_empty() && link.at_server().is_empty());
    }
}
