//! A recording as a mirror would follow it, with one difference: after a gap it goes on.

use std::collections::BTreeMap;
use std::sync::Arc;

use bonfire::engine::ComponentTable;
use bonfire::{Delta, Error, Limits, Result};
use bonfire_sync::{AnyKind, Kind, Message, MessageLimits, Peek, RawRecord, Recording, StructuralLog};

use crate::exit::Exit;

/// One message, and what it has to say.
pub(super) struct Entry {
    pub(super) offset: u64,
    pub(super) sent_bytes: usize,
    /// Nothing if the message is damaged, because nothing in it can be trusted then.
    pub(super) head: Option<Peek>,
    pub(super) place: Place,
    pub(super) told: Told,
}

/// How a message goes with those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It follows, or nothing has to follow.
    Follows,
    /// Those from `have` to its beginning are missing.
    Gap { have: u64 },
    /// It tells what was told before.
    Again,
}

pub(super) enum Told {
    /// One delta; several for a structural log.
    Deltas(Vec<Delta>),
    /// A mirror has this tick and asks for what follows, or for everything.
    Request {
        have: Option<u64>,
    },
    /// It is sound, but no baseline came before that says what its components are.
    Unknown,
    Damaged(Error),
}

/// What is known of a stream so far.
#[derive(Default)]
pub(super) struct Stream {
    /// The first tick that a mirror could have been at, and the last.
    pub(super) ticks: Option<(u64, u64)>,
    pub(super) gaps: usize,
    table: Option<Arc<ComponentTable>>,
}

/// What all messages together are.
#[derive(Default)]
pub(super) struct Summary {
    pub(super) baselines: usize,
    pub(super) deltas: usize,
    pub(super) logs: usize,
    pub(super) requests: usize,
    pub(super) damaged: usize,
    /// Deltas whose components are not known.
    pub(super) unknown: usize,
    pub(super) sent_bytes: u64,
    pub(super) payload_bytes: u64,
    pub(super) streams: BTreeMap<u64, Stream>,
    exits: Vec<Exit>,
}

impl Summary {
    pub(super) fn messages(&self) -> usize {
        self.baselines + self.deltas + self.logs + self.requests + self.damaged
    }

    pub(super) fn gaps(&self) -> usize {
        self.streams.values().map(|stream| stream.gaps).sum()
    }

    pub(super) fn exit(&self) -> Exit {
        Exit::worst(self.exits.iter().copied())
    }
}

pub(super) struct Follow {
    recording: Recording,
    file_bytes: u64,
    limits: Limits,
    message_limits: MessageLimits,
    pub(super) summary: Summary,
}

impl Follow {
    pub(super) fn open(file: bytes::Bytes) -> Result<Self> {
        let (limits, message_limits) = (Limits::default(), MessageLimits::default());
        let file_bytes = file.len() as u64;
        let recording = Recording::open(file, &message_limits)?;
        Ok(Self { recording, file_bytes, limits, message_limits, summary: Summary::default() })
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Where reading has ended before the end of the file, and how much is left there: a message that was cut off, or what
    /// lies behind a length that no message has. Known after the last message.
    pub(super) fn unread(&self) -> Option<(u64, u64)> {
        let offset = self.recording.offset();
        (offset < self.file_bytes).then(|| (offset, self.file_bytes - offset))
    }

    /// Whether the end is a message that was cut off.
    pub(super) fn is_torn(&self) -> bool {
        self.recording.torn().is_some()
    }

    pub(super) fn exit(&self) -> Exit {
        let end = if self.unread().is_some() { Exit::Damaged } else { Exit::Fine };
        Exit::worst([self.summary.exit(), end])
    }

    fn look(&mut self, sent: &bytes::Bytes) -> Result<(Peek, Place, Told)> {
        let head = Peek::of(sent, &self.message_limits)?;
        let stream = || self.summary.streams.get(&head.stream);
        let told = match head.kind {
            AnyKind::Request => {
                let have = bonfire_sync::Request::decode(sent)?.have;
                return Ok((head, Place::Follows, Told::Request { have }));
            }
            AnyKind::StructuralLog => {
                let log = StructuralLog::decode(sent, usize::MAX, &self.message_limits, &self.limits);
                let steps = log.map(|log| log.steps().cloned().collect());
                return Ok((head, Place::Follows, steps.map_or_else(Told::Damaged, Told::Deltas)));
            }
            AnyKind::Baseline | AnyKind::Delta => {
                let message = Message::decode(sent, &self.message_limits)?;
                let table = stream().and_then(|stream| stream.table.as_ref());
                let table = table.filter(|table| table.fingerprint() == head.schema);
                let delta = match (message.kind, table) {
                    (Kind::Baseline, _) => Some(message.whole(&self.limits)),
                    (Kind::Delta, Some(table)) => Some(message.changes(table, &self.limits)),
                    (Kind::Delta, None) => None,
                };
                match delta {
                    Some(Ok(delta)) => Told::Deltas(vec![delta]),
                    Some(Err(error)) => Told::Damaged(error),
                    None => Told::Unknown,
                }
            }
        };
        let place = self.place(&head, &told);
        Ok((head, place, told))
    }

    /// Takes note of where a message of a stream leads.
    fn place(&mut self, head: &Peek, told: &Told) -> Place {
        let stream = self.summary.streams.entry(head.stream).or_default();
        // A mirror would refuse it, and stay where it was.
        if matches!(told, Told::Damaged(_)) {
            return Place::Follows;
        }
        let is_baseline = head.kind == AnyKind::Baseline;
        let place = match stream.ticks {
            Some((_, have)) if !is_baseline && head.tick <= have => Place::Again,
            Some((_, have)) if is_baseline && head.tick < have => Place::Again,
            Some((_, have)) if !is_baseline && head.since != have => Place::Gap { have },
            _ => Place::Follows,
        };
        if place != Place::Again {
            let start = if is_baseline { head.tick } else { head.since };
            stream.ticks = Some((stream.ticks.map_or(start, |(first, _)| first), head.tick));
            stream.gaps += usize::from(place != Place::Follows);
        }
        if let (true, Told::Deltas(deltas)) = (is_baseline, told) {
            stream.table = deltas.first().map(|delta| Arc::clone(delta.table()));
        }
        place
    }

    fn count(&mut self, entry: &Entry) {
        let summary = &mut self.summary;
        summary.sent_bytes += entry.sent_bytes as u64;
        summary.payload_bytes += entry.head.map_or(0, |head| u64::from(head.payload_bytes));
        if let Told::Damaged(error) = &entry.told {
            summary.damaged += 1;
            summary.exits.push(Exit::of(error));
            return;
        }
        summary.unknown += usize::from(matches!(entry.told, Told::Unknown));
        match entry.head.map(|head| head.kind) {
            Some(AnyKind::Baseline) => summary.baselines += 1,
            Some(AnyKind::Delta) => summary.deltas += 1,
            Some(AnyKind::StructuralLog) => summary.logs += 1,
            Some(AnyKind::Request) => summary.requests += 1,
            None => {}
        }
    }
}

impl Iterator for Follow {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        let RawRecord { offset, sent } = self.recording.next_raw()?;
        let sent_bytes = sent.len();
        let entry = match self.look(&sent) {
            Ok((head, place, told)) => Entry { offset, sent_bytes, head: Some(head), place, told },
            Err(error) => {
                Entry { offset, sent_bytes, head: None, place: Place::Follows, told: Told::Damaged(error) }
            }
        };
        self.count(&entry);
        Some(entry)
    }
}
