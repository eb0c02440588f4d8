//! The last messages of a stream, for mirrors that have missed a few.
//!
//! Invariant: each message starts where the one before it ends, or is a baseline.

use std::collections::VecDeque;

use bytes::Bytes;

#[derive(Debug)]
struct RecentMessage {
    /// `None` for a baseline: it can be applied whatever a mirror has.
    since: Option<u64>,
    /// Bytes of the stream before it.
    bytes_before: u64,
    message: Bytes,
}

/// A bounded queue of messages.
#[derive(Debug)]
pub(crate) struct RecentMessages {
    sent: VecDeque<RecentMessage>,
    bytes: usize,
    /// Bytes of all messages, forgotten ones too.
    total_bytes: u64,
    bytes_max: usize,
    messages_max: usize,
}

impl RecentMessages {
    pub(crate) fn new(bytes_max: usize, messages_max: usize) -> Self {
        Self { sent: VecDeque::new(), bytes: 0, total_bytes: 0, bytes_max, messages_max }
    }

    /// Adds the newest message, and forgets the oldest ones.
    pub(crate) fn push(&mut self, since: Option<u64>, message: Bytes) {
        // Nobody needs what is before a baseline.
        if since.is_none() {
            self.clear();
        }
        let bytes_before = self.total_bytes;
        self.bytes += message.len();
        self.total_bytes += message.len() as u64;
        self.sent.push_back(RecentMessage { since, bytes_before, message });
        while self.bytes > self.bytes_max || self.sent.len() > self.messages_max {
            let Some(oldest) = self.sent.pop_front() else { break };
            self.bytes -= oldest.message.len();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.sent.clear();
        self.bytes = 0;
    }

    /// Returns the bytes of all messages since the stream began.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Returns the bytes of the stream up to tick `have`, if the message that starts there is still known.
    pub(crate) fn bytes_up_to(&self, have: u64) -> Option<u64> {
        self.sent.iter().find(|sent| sent.since == Some(have)).map(|sent| sent.bytes_before)
    }

    /// What a mirror at tick `have` has missed: from the message that starts there, or from a baseline.
    pub(crate) fn after(&self, have: u64) -> Option<Vec<Bytes>> {
        let exact = self.sent.iter().position(|sent| sent.since == Some(have));
        // A baseline is the first, if there is one: it helps whoever is behind it, and would be wasted on the others.
        let start = exact.or_else(|| self.sent.front()?.since.is_none().then_some(0))?;
        Some(self.sent.range(start..).map(|sent| sent.message.clone()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(byte: u8) -> Bytes {
        vec![byte; 10].into()
    }

    fn first_bytes(messages: Option<Vec<Bytes>>) -> Option<Vec<u8>> {
        messages.map(|messages| messages.iter().map(|message| message[0]).collect())
    }

    #[test]
    fn it_is_bounded_by_count_and_by_bytes() {
        for (bytes_max, messages_max) in [(1000, 3), (39, 100)] {
            let mut ring = RecentMessages::new(bytes_max, messages_max);
            (0..10).for_each(|tick| ring.push(Some(tick), message(tick as u8)));
            assert_eq!(first_bytes(ring.after(7)), Some(vec![7, 8, 9]));
            assert_eq!(first_bytes(ring.after(9)), Some(vec![9]));
            assert_eq!(ring.after(6), None, "forgotten");
            assert_eq!(ring.after(10), None, "not sent yet");
            assert_eq!((ring.bytes_up_to(8), ring.bytes_up_to(6), ring.total_bytes()), (Some(80), None, 100));
        }
        let mut ring = RecentMessages::new(5, 100);
        ring.push(Some(0), message(0));
        assert_eq!((ring.after(0), ring.bytes), (None, 0), "one that is too large alone is not kept");
    }

    #[test]
    fn a_baseline_serves_whoever_is_behind_it() {
        let mut ring = RecentMessages::new(1000, 100);
        ring.push(Some(4), message(4));
        ring.push(None, message(5));
        ring.push(Some(6), message(6));
        assert_eq!(first_bytes(ring.after(2)), Some(vec![5, 6]));
        assert_eq!(first_bytes(ring.after(6)), Some(vec![6]), "it has the baseline already");
        assert_eq!(ring.bytes, 20, "what is before a baseline is not kept");
    }
}
