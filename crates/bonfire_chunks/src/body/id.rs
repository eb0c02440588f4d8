//! Who bodies are.

use std::fmt;

/// The identity of a body, the same in every session: the number of the session that made it, and a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BodyId(pub u64);

impl BodyId {
    /// The session that made it.
    pub fn session(self) -> u32 {
        // A shift by half of the bits leaves a number that fits.
        u32::try_from(self.0 >> 32).unwrap_or_default()
    }

    /// Which one of its session it is.
    pub fn counter(self) -> u32 {
        u32::try_from(self.0 & u64::from(u32::MAX)).unwrap_or_default()
    }
}

impl fmt::Display for BodyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Gives out ids that no body of this world has yet, also to the fragments of a body that breaks.
///
/// A session needs a number that no earlier one had: remember [`BodyIds::session`] and begin the next one after it.
///
/// ```
/// use bonfire_chunks::BodyIds;
///
/// let mut ids = BodyIds::new(3);
/// let (first, second) = (ids.next_id(), ids.next_id());
/// assert_eq!((first.session(), second.session()), (3, 3));
/// assert_ne!(first, second);
/// ```
#[derive(Clone, Debug)]
pub struct BodyIds {
    session: u32,
    /// The counter of the next id; `None` when this session has used all.
    counter: Option<u32>,
}

impl BodyIds {
    /// Ids of one session. Id 0 is nobody's, so session 0 begins with 1.
    pub fn new(session: u32) -> Self {
        Self { session, counter: Some(u32::from(session == 0)) }
    }

    /// The next id. When the counter is used up, the next session number is taken, and [`BodyIds::session`] says so. After
    /// the last id of the last session it begins again with those of session 0.
    pub fn next_id(&mut self) -> BodyId {
        let counter = self.counter.unwrap_or_else(|| {
            self.session = self.session.wrapping_add(1);
            u32::from(self.session == 0)
        });
        self.counter = counter.checked_add(1);
        BodyId(u64::from(self.session) << 32 | u64::from(counter))
    }

    /// The highest session number that ids were given out for: what a file has to remember.
    pub fn session(&self) -> u32 {
        self.session
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_session_and_a_counter() {
        let mut ids = BodyIds::new(5);
        assert_eq!((ids.next_id(), ids.next_id()), (BodyId(5 << 32), BodyId(5 << 32 | 1)));
        assert_eq!((BodyId(5 << 32 | 1).session(), BodyId(5 << 32 | 1).counter()), (5, 1));
        assert_eq!(BodyId(u64::MAX).to_string(), "18446744073709551615");
    }

    #[test]
    fn nobody_has_id_0() {
        assert_eq!(BodyIds::new(0).next_id(), BodyId(1));
        let mut last = BodyIds { session: u32::MAX, counter: Some(u32::MAX) };
        assert_eq!((last.next_id(), last.next_id()), (BodyId(u64::MAX), BodyId(1)));
    }

    #[test]
    fn a_used_up_counter_moves_on_to_the_next_session() {
        let mut ids = BodyIds { session: 5, counter: Some(u32::MAX) };
        assert_eq!(ids.next_id(), BodyId((6 << 32) - 1));
        assert_eq!(ids.session(), 5);
        assert_eq!((ids.next_id(), ids.session()), (BodyId(6 << 32), 6));
    }
}
