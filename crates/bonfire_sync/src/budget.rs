//! The budget of one client: how many bytes its requests may cost.
//!
//! Invariant: the answers that a client has been charged for are never more than the bytes it began with and
//! [`BYTES_PER_ACKNOWLEDGED`] times the bytes of the stream that it has acknowledged. Answers themselves earn nothing, so
//! no client can ask for one after the other.

/// Bytes of answers that a client earns with each byte of the stream that it acknowledges.
const BYTES_PER_ACKNOWLEDGED: u64 = 3;

/// Bytes and ticks of one client.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Bytes that answers may still cost.
    left: u64,
    /// The bytes of the stream, counted from its beginning, up to which the client has acknowledged them.
    acknowledged: u64,
    /// The tick of the last baseline, or of the last answer that cost nothing.
    last_free: u64,
}

impl Budget {
    /// A client that joins at this tick, when the stream has this many bytes.
    pub(crate) fn new(left: u64, stream_bytes: u64, tick: u64) -> Self {
        Self { left, acknowledged: stream_bytes, last_free: tick }
    }

    /// Earns the bytes of the stream up to `stream_bytes`. Those that were acknowledged before earn nothing.
    pub(crate) fn acknowledge(&mut self, stream_bytes: u64) {
        let new = stream_bytes.saturating_sub(self.acknowledged);
        self.left = self.left.saturating_add(new.saturating_mul(BYTES_PER_ACKNOWLEDGED));
        self.skip(stream_bytes);
    }

    /// Gives back bytes that were made for the client and not sent. They may pay for a baseline in their place.
    pub(crate) fn refund(&mut self, bytes: u64) {
        self.left = self.left.saturating_add(bytes);
    }

    /// Passes over bytes of the stream that the client was not sent.
    pub(crate) fn skip(&mut self, stream_bytes: u64) {
        self.acknowledged = self.acknowledged.max(stream_bytes);
    }

    /// Returns how many bytes an answer may cost.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Returns how many ticks it takes until an answer costs nothing.
    pub(crate) fn ticks_until_free(&self, tick: u64, ticks_min: u64) -> u64 {
        ticks_min.saturating_sub(tick.saturating_sub(self.last_free))
    }

    /// Charges for an answer. One that is over the budget was due: it costs nothing, and the wait begins again.
    pub(crate) fn charge(&mut self, bytes: u64, tick: u64) {
        match self.left.checked_sub(bytes) {
            Some(left) => self.left = left,
            None => self.begin_wait(tick),
        }
    }

    /// Begins the wait for an answer that costs nothing: after every baseline.
    pub(crate) fn begin_wait(&mut self, tick: u64) {
        self.last_free = tick;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_earned_once_and_threefold() {
        let mut budget = Budget::new(10, 1000, 5);
        budget.acknowledge(1000);
        assert_eq!(budget.left(), 10, "what was sent before it joined earns nothing");
        budget.acknowledge(1100);
        budget.acknowledge(1100);
        budget.acknowledge(1050);
        assert_eq!(budget.left(), 310);
        budget.skip(2000);
        budget.acknowledge(2001);
        assert_eq!(budget.left(), 313);
        budget.charge(300, 6);
        assert_eq!((budget.left(), budget.ticks_until_free(6, 100)), (13, 99));
        budget.refund(7);
        assert_eq!(budget.left(), 20);
    }

    #[test]
    fn an_answer_that_is_due_costs_nothing_and_is_not_due_again() {
        let mut budget = Budget::new(10, 0, 5);
        assert_eq!(budget.ticks_until_free(105, 100), 0);
        budget.charge(11, 105);
        assert_eq!((budget.left(), budget.ticks_until_free(105, 100)), (10, 100));
        budget.charge(4, 150);
        assert_eq!((budget.left(), budget.ticks_until_free(150, 100)), (6, 55));
        budget.begin_wait(150);
        assert_eq!(budget.ticks_until_free(150, 100), 100);
    }
}
