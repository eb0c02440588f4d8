//! What came and went, and nothing else: a log of structure from which a world can be built.
//!
//! It has entities that were spawned, with their components; components that were added, with the values they came with;
//! components that were removed, and entities that were despawned. Values that changed later are not in it, and neither are
//! resources: a world that is built from it has the structure of the source, and values as they were when they came.
//!
//! It is bounded: beyond a number of steps the oldest ones become one, in which what came and went is not told at all. So a log
//! that begins with a baseline never tells of more than the world has.
//!
//! As bytes it is a message of its own kind. The payload: the length of the table and the table, the number of steps, and per
//! step whether it is a whole world, its first and its last tick, its length and its content; numbers are varints.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use bonfire::engine::{ComponentTable, DeltaScope, EntityMap};
use bonfire::{Delta, EntityId, Error, Limits, LoadContext, Reader, Result, Writer};
use bytes::Bytes;

use crate::compression::MessageCompression;
use crate::envelope::{Head, WireKind};
use crate::limits::MessageLimits;
use crate::world::MirrorWorld;

/// Whole or not, two ticks, and a length.
const STEP_BYTES_MIN: usize = 4;

/// Structural operations in their order.
///
/// ```
/// # use bonfire::Limits;
/// # use bonfire_sync::{MessageCompression, MessageLimits, StructuralLog};
/// # let world = bonfire_testkit::ModelWorld::new();
/// # let mut followed = bonfire_testkit::Followed::new(world)?;
/// let mut log = StructuralLog::new(100);
/// log.record(&followed.changes()?)?;
/// let bytes = log.encode(1, &MessageCompression::None)?;
/// let log = StructuralLog::decode(&bytes, 100, &MessageLimits::default(), &Limits::default())?;
/// assert_eq!(log.ticks(), Some((0, 1)));
/// # Ok::<(), bonfire::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct StructuralLog {
    /// Each starts where the one before it ends.
    steps: VecDeque<Delta>,
    steps_max: usize,
}

impl StructuralLog {
    /// An empty log that keeps at least one step, and at most so many.
    pub fn new(steps_max: usize) -> Self {
        Self { steps: VecDeque::new(), steps_max: steps_max.max(1) }
    }

    /// Adds what is structure in a delta, which must follow the last one. With a whole delta the log starts again.
    pub fn record(&mut self, delta: &Delta) -> Result<()> {
        let structure = delta.structure_only()?;
        if delta.is_whole() {
            self.steps.clear();
        } else if let Some(last) = self.steps.back() {
            if last.now() != delta.since() {
                let (last, since) = (last.now(), delta.since());
                return Err(Error::misuse(format!(
                    "the log ends at tick {last}, the delta starts at {since}"
                )));
            }
            if last.table().fingerprint() != delta.table().fingerprint() {
                return Err(Error::schema("the log is about other components"));
            }
        }
        self.steps.push_back(structure);
        if self.steps.len() > self.steps_max
            && let (Some(first), Some(second)) = (self.steps.pop_front(), self.steps.pop_front())
        {
            self.steps.push_front(first.compose(&second)?);
        }
        Ok(())
    }

    /// The steps, oldest first.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = &Delta> {
        self.steps.iter()
    }

    /// From which tick to which it tells; `None` if it is empty.
    pub fn ticks(&self) -> Option<(u64, u64)> {
        Some((self.steps.front()?.since(), self.steps.back()?.now()))
    }

    /// Whether a world can be built from nothing but this: it begins with a whole world, or before the first tick.
    pub fn is_complete(&self) -> bool {
        self.steps.front().is_some_and(|first| first.is_whole() || first.since() == 0)
    }

    /// Applies all steps in their order. If one fails, those before it were applied.
    pub fn apply(&self, mirror: &mut impl MirrorWorld, map: &mut EntityMap) -> Result<()> {
        self.steps.iter().try_for_each(|step| mirror.apply(step, map))
    }

    /// The log as one message of a stream.
    pub fn encode(&self, stream: u64, compression: &MessageCompression) -> Result<Bytes> {
        let Some(first) = self.steps.front() else {
            return Err(Error::misuse("an empty log has nothing to tell"));
        };
        let (since, tick) = self.ticks().unwrap_or_default();
        let mut out = Writer::new();
        out.blob(&first.table().encode());
        out.varint(self.steps.len() as u64);
        for step in &self.steps {
            let content = step.content()?;
            out.u8(u8::from(step.is_whole()));
            out.varint(step.since());
            out.varint(step.now());
            out.varint(content.len() as u64);
            content.parts().iter().for_each(|part| out.raw(part));
        }
        let schema = first.table().fingerprint();
        let head = Head { kind: WireKind::StructuralLog, stream, since, tick, schema, sequence: 0 };
        head.encode(&[&out.finish()?], compression)
    }

    /// The log that these bytes are, all of them. A log that makes more entities than
    /// [`entities_max`](Limits::entities_max) at any step is refused.
    pub fn decode(
        bytes: &Bytes,
        steps_max: usize,
        message_limits: &MessageLimits,
        limits: &Limits,
    ) -> Result<Self> {
        let (head, payload) = Head::decode(bytes, message_limits)?;
        if head.kind != WireKind::StructuralLog {
            return Err(Error::corrupt("another message came where a structural log is expected"));
        }
        let context = LoadContext::new(limits);
        let mut input = Reader::new(&payload, &context);
        let table = ComponentTable::decode(input.blob()?, limits)?;
        if table.fingerprint() != head.schema {
            return Err(Error::corrupt("a structural log brings other components than it says"));
        }
        let count = input.varint()?;
        if count > (input.remaining() / STEP_BYTES_MIN) as u64 {
            return Err(input.corrupt(format!("{count} steps, {} bytes are left", input.remaining())));
        }
        let mut log = Self::new(steps_max.max(count as usize));
        let mut alive: HashSet<EntityId> = HashSet::new();
        for _ in 0..count {
            let step = read_step(&mut input, &payload, &table, limits)?;
            step.despawned().iter().for_each(|id| _ = alive.remove(id));
            alive.extend(step.spawned());
            if alive.len() as u64 > u64::from(limits.entities_max) {
                let (entities, entities_max) = (alive.len(), limits.entities_max);
                let text = format!("a log of {entities} entities, at most {entities_max} are allowed");
                return Err(Error::limit(text));
            }
            let follows = log.steps.back().is_none_or(|last| last.now() == step.since() && !step.is_whole());
            if !follows || (step.since() >= step.now() && !step.is_whole()) {
                return Err(input.corrupt("steps do not follow each other"));
            }
            log.steps.push_back(step);
        }
        input.finish()?;
        if log.ticks() != Some((head.since, head.tick)) || head.sequence != 0 {
            return Err(Error::corrupt("a structural log has other ticks than it says"));
        }
        log.steps_max = steps_max.max(1);
        Ok(log)
    }
}

fn read_step(
    input: &mut Reader<'_>,
    payload: &Bytes,
    table: &Arc<ComponentTable>,
    limits: &Limits,
) -> Result<Delta> {
    let scope = match input.u8()? {
        0 => DeltaScope::Changes,
        1 => DeltaScope::Whole,
        flag => return Err(input.corrupt(format!("flag {flag} is not one of this version"))),
    };
    let (since, now) = (input.varint()?, input.varint()?);
    let content = input.blob()?.len();
    let content = payload.slice(input.offset() - content..input.offset());
    Delta::from_content(table, since, now, scope, content, limits)
}
