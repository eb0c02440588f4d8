//! The side that follows: messages to a world.
//!
//! A message is applied as a whole or not at all, with one exception: a mirror that fails half-way. The receiver is poisoned
//! then, and takes nothing but a baseline. Everything that can be known without the world is checked before it is touched.
//!
//! | a delta comes, and | answer |
//! |---|---|
//! | nothing was applied yet | `NeedBaseline(Nothing)` |
//! | it is of another stream | `NeedBaseline(OtherStream)` |
//! | the last one failed half-way | `NeedBaseline(Poisoned)` |
//! | it ends at the tick that the mirror has, or before | `Skipped` |
//! | it starts at another tick than the mirror has | `NeedBaseline(Gap)` |
//! | else | `Delta` |
//!
//! A baseline is applied, unless the mirror is sound, follows the same stream, and has that tick or a later one.

use std::collections::HashSet;
use std::sync::Arc;

use bonfire::engine::{ComponentTable, DeltaScope, EntityMap};
use bonfire::{Delta, EntityId, Error, Limits, Result, Watch};
use bytes::Bytes;

use crate::limits::{MessageLimits, mirror_limits};
use crate::message::{Message, MessageKind};
use crate::request::CatchUpRequest;
use crate::world::MirrorWorld;

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The mirror is what the source was.
    Baseline,
    /// The mirror has followed.
    Delta,
    /// The mirror has this already.
    Skipped,
    /// Nothing was done: the mirror cannot follow from here. Send [`Receiver::request`], once, and go on.
    NeedBaseline(BaselineReason),
}

/// The reason why a mirror needs a baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaselineReason {
    /// It has nothing yet.
    Nothing,
    /// It follows another stream.
    OtherStream,
    /// It failed half-way through a message.
    Poisoned,
    /// Messages between these ticks are missing.
    Gap {
        /// Where the mirror is.
        have: u64,
        /// Where the message starts.
        since: u64,
    },
}

/// What is followed, and how far.
#[derive(Clone, Debug)]
struct FollowedStream {
    stream: u64,
    tick: u64,
    /// The source's components, with the layouts of its rows.
    table: Arc<ComponentTable>,
}

/// Applies the messages of a stream to a mirror, and knows which entity of the source is which of the mirror.
///
/// One receiver belongs to one mirror for as long as it lives, through any number of streams.
#[derive(Debug)]
pub struct Receiver {
    table: Arc<ComponentTable>,
    limits: Limits,
    message_limits: MessageLimits,
    following: Option<FollowedStream>,
    poisoned: bool,
    map: EntityMap,
    watch: Watch,
}

impl Receiver {
    /// For a mirror that knows these components and has nothing yet, with [`mirror_limits`].
    pub fn new(table: Arc<ComponentTable>) -> Self {
        Self::with_limits(table, mirror_limits(), MessageLimits::default())
    }

    /// As [`Receiver::new`], with limits on what messages may cost. [`entities_max`](Limits::entities_max) counts mirrored
    /// entities, message after message.
    pub fn with_limits(table: Arc<ComponentTable>, limits: Limits, message_limits: MessageLimits) -> Self {
        let (following, poisoned, map, watch) = (None, false, EntityMap::default(), Watch::new());
        Self { table, limits, message_limits, following, poisoned, map, watch }
    }

    /// Counts the work on messages, and stops it: a message is refused if the watch is cancelled before the mirror is touched.
    pub fn watch(mut self, watch: &Watch) -> Self {
        self.watch = watch.clone();
        self
    }

    /// Applies a message. An error means that it was refused and nothing has changed, unless
    /// [`is_poisoned`](Self::is_poisoned) says otherwise. Either way the next message may come.
    pub fn apply(&mut self, mirror: &mut impl MirrorWorld, bytes: &Bytes) -> Result<Applied> {
        self.watch.advance(bytes.len() as u64)?;
        let message = Message::decode(bytes, &self.message_limits)?;
        self.watch.step(message.payload.len() as u64)?;
        match message.kind {
            MessageKind::Baseline => self.apply_baseline(mirror, &message),
            MessageKind::Delta => self.apply_delta(mirror, message),
        }
    }

    fn apply_baseline(&mut self, mirror: &mut impl MirrorWorld, message: &Message) -> Result<Applied> {
        let &Message { stream, tick, .. } = message;
        let same = self.following.as_ref().filter(|following| following.stream == stream);
        if !self.poisoned && same.is_some_and(|following| tick <= following.tick) {
            return Ok(Applied::Skipped);
        }
        let (table, content) = message.table_and_content(&self.limits)?;
        self.check(&table)?;
        let delta = Delta::from_content(&table, 0, tick, DeltaScope::Whole, content, &self.limits)?;
        self.apply_to_mirror(mirror, &delta)?;
        self.following = Some(FollowedStream { stream, tick, table });
        Ok(Applied::Baseline)
    }

    fn apply_delta(&mut self, mirror: &mut impl MirrorWorld, message: Message) -> Result<Applied> {
        let Message { stream, since, tick, schema, payload, .. } = message;
        if schema != self.table.fingerprint() {
            let own = self.table.fingerprint();
            return Err(Error::schema(format!(
                "a delta about other components ({schema}, here {own}): a baseline says which"
            )));
        }
        let Some(following) = &self.following else {
            return Ok(Applied::NeedBaseline(if self.poisoned {
                BaselineReason::Poisoned
            } else {
                BaselineReason::Nothing
            }));
        };
        let have = following.tick;
        if following.stream != stream {
            return Ok(Applied::NeedBaseline(BaselineReason::OtherStream));
        }
        if self.poisoned {
            return Ok(Applied::NeedBaseline(BaselineReason::Poisoned));
        }
        if tick <= have {
            return Ok(Applied::Skipped);
        }
        if since != have {
            return Ok(Applied::NeedBaseline(BaselineReason::Gap { have, since }));
        }
        let table = Arc::clone(&following.table);
        let delta = Delta::from_content(&table, since, tick, DeltaScope::Changes, payload, &self.limits)?;
        self.apply_to_mirror(mirror, &delta)?;
        self.following = Some(FollowedStream { stream, tick, table });
        Ok(Applied::Delta)
    }

    /// Components of a server that differ from the mirror's are an error that names them.
    fn check(&self, table: &ComponentTable) -> Result<()> {
        if table.fingerprint() == self.table.fingerprint() {
            return Ok(());
        }
        let mut differences = self.table.differences(table);
        let more = differences.len().saturating_sub(DIFFERENCES_SHOWN);
        differences.truncate(DIFFERENCES_SHOWN);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        Err(Error::schema(format!("other components: {}{more}", differences.join(", "))))
    }

    /// Fails if the mirror would have more entities than the limits allow.
    fn check_entities(&self, delta: &Delta) -> Result<()> {
        let despawned: HashSet<EntityId> = delta.despawned().iter().copied().collect();
        let is_new =
            |id: &EntityId| delta.is_whole() || despawned.contains(id) || self.map.get(*id).is_none();
        let mut counted = 0;
        let spawned = delta.spawned().inspect(|_| counted += 1).filter(is_new).count();
        let kept = match delta.is_whole() {
            true => 0,
            false => self.map.len() - despawned.iter().filter(|id| self.map.get(**id).is_some()).count(),
        };
        self.watch.step(counted + delta.despawned().len() as u64)?;
        let (entities, entities_max) = (kept + spawned, self.limits.entities_max);
        if entities as u64 > u64::from(entities_max) {
            let text = format!("a mirror of {entities} entities, at most {entities_max} are allowed");
            return Err(Error::limit(text));
        }
        Ok(())
    }

    /// Applies a delta to the mirror. A failure, or a panic, leaves the receiver poisoned.
    fn apply_to_mirror(&mut self, mirror: &mut impl MirrorWorld, delta: &Delta) -> Result<()> {
        self.check_entities(delta)?;
        self.poisoned = true;
        mirror.apply(delta, &mut self.map)?;
        self.poisoned = false;
        Ok(())
    }

    /// The components that the mirror knows.
    pub fn table(&self) -> &Arc<ComponentTable> {
        &self.table
    }

    /// The mirror knows other components now: it needs a baseline, and keeps its entities.
    pub fn set_table(&mut self, table: Arc<ComponentTable>) {
        (self.table, self.following) = (table, None);
    }

    /// The tick that the mirror is at; `None` if it is at none.
    pub fn tick(&self) -> Option<u64> {
        self.following.as_ref().filter(|_| !self.poisoned).map(|following| following.tick)
    }

    /// The stream that the mirror follows.
    pub fn stream(&self) -> Option<u64> {
        self.following.as_ref().map(|following| following.stream)
    }

    /// Whether a message failed half-way, so that the mirror waits for a baseline.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// What to ask the server for: all that is missing.
    pub fn request(&self) -> CatchUpRequest {
        let stream = self.stream().unwrap_or(0);
        CatchUpRequest { stream, have: self.tick(), schema: self.table.fingerprint() }
    }

    /// The mirror's entity for one of the source.
    pub fn entity(&self, remote: EntityId) -> Option<EntityId> {
        self.map.get(remote)
    }

    /// The source's entity for one of the mirror. Looks at all of them.
    pub fn remote(&self, local: EntityId) -> Option<EntityId> {
        self.map.iter().find(|(_, mirrored)| *mirrored == local).map(|(remote, _)| remote)
    }

    /// Entities of the source and what they are in the mirror.
    pub fn map(&self) -> &EntityMap {
        &self.map
    }
}

/// Differences between components that an error names.
const DIFFERENCES_SHOWN: usize = 3;
