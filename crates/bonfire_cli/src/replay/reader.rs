//! A recording as a mirror would follow it, with one difference: after a gap it goes on.

use std::collections::BTreeMap;
use std::sync::Arc;

use bonfire::engine::ComponentTable;
use bonfire::{Delta, Error, Limits, Result};
use bonfire_sync::{
    AnyMessageKind, Message, MessageHead, MessageKind, MessageLimits, RawRecord, Recording, StructuralLog,
};

use crate::exit::Exit;

/// One message of a recording.
pub(super) struct Entry {
    pub(super) offset: u64,
    pub(super) sent_bytes: usize,
    /// Nothing if the message is damaged, because nothing in it can be trusted then.
    pub(super) head: Option<MessageHead>,
    pub(super) continuity: Continuity,
    pub(super) content: MessageContent,
}

/// The position of a message in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Continuity {
    /// It follows, or nothing has to follow.
    Follows,
    /// Those from `have` to its beginning are missing.
    Gap { have: u64 },
    /// Its changes were in earlier messages.
    Again,
}

/// The content of a message.
pub(super) enum MessageContent {
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

/// Reads the messages of a recording in order, and counts them.
pub(super) struct RecordingReader {
    recording: Recording,
    file_bytes: u64,
    limits: Limits,
    message_limits: MessageLimits,
    pub(super) summary: Summary,
}

impl RecordingReader {
    pub(super) fn open(file: bytes::Bytes) -> Result<Self> {
        // A recording is a file of one's own: what is large was sent so.
        let limits = Limits::default();
        let message_limits = MessageLimits { payload_bytes_max: 256 << 20, ..MessageLimits::default() };
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

    fn look(&mut self, sent: &bytes::Bytes) -> Result<(MessageHead, Continuity, MessageContent)> {
        let head = MessageHead::read(sent, &self.message_limits)?;
        let stream = || self.summary.streams.get(&head.stream);
        let content = match head.kind {
            AnyMessageKind::Request => {
                let have = bonfire_sync::CatchUpRequest::decode(sent)?.have;
                return Ok((head, Continuity::Follows, MessageContent::Request { have }));
            }
            AnyMessageKind::StructuralLog => {
                let log = StructuralLog::decode(sent, usize::MAX, &self.message_limits, &self.limits);
                let steps = log.map(|log| log.steps().cloned().collect());
                return Ok((
                    head,
                    Continuity::Follows,
                    steps.map_or_else(MessageContent::Damaged, MessageContent::Deltas),
                ));
            }
            AnyMessageKind::Baseline | AnyMessageKind::Delta => {
                let message = Message::decode(sent, &self.message_limits)?;
                let table = stream().and_then(|stream| stream.table.as_ref());
                let table = table.filter(|table| table.fingerprint() == head.schema);
                let delta = match (message.kind, table) {
                    (MessageKind::Baseline, _) => Some(message.whole(&self.limits)),
                    (MessageKind::Delta, Some(table)) => Some(message.changes(table, &self.limits)),
                    (MessageKind::Delta, None) => None,
                };
                match delta {
                    Some(Ok(delta)) => MessageContent::Deltas(vec![delta]),
                    Some(Err(error)) => MessageContent::Damaged(error),
                    None => MessageContent::Unknown,
                }
            }
        };
        let continuity = self.continuity(&head, &content);
        Ok((head, continuity, content))
    }

    /// Takes note of where a message of a stream leads.
    fn continuity(&mut self, head: &MessageHead, content: &MessageContent) -> Continuity {
        let stream = self.summary.streams.entry(head.stream).or_default();
        // A mirror would refuse it, and stay where it was.
        if matches!(content, MessageContent::Damaged(_)) {
            return Continuity::Follows;
        }
        let is_baseline = head.kind == AnyMessageKind::Baseline;
        let continuity = match stream.ticks {
            Some((_, have)) if !is_baseline && head.tick <= have => Continuity::Again,
            Some((_, have)) if is_baseline && head.tick < have => Continuity::Again,
            Some((_, have)) if !is_baseline && head.since != have => Continuity::Gap { have },
            _ => Continuity::Follows,
        };
        if continuity != Continuity::Again {
            let start = if is_baseline { head.tick } else { head.since };
            stream.ticks = Some((stream.ticks.map_or(start, |(first, _)| first), head.tick));
            stream.gaps += usize::from(continuity != Continuity::Follows);
        }
        if let (true, MessageContent::Deltas(deltas)) = (is_baseline, content) {
            stream.table = deltas.first().map(|delta| Arc::clone(delta.table()));
        }
        continuity
    }

    fn count(&mut self, entry: &Entry) {
        let summary = &mut self.summary;
        summary.sent_bytes += entry.sent_bytes as u64;
        summary.payload_bytes += entry.head.map_or(0, |head| u64::from(head.payload_bytes));
        if let MessageContent::Damaged(error) = &entry.content {
            summary.damaged += 1;
            summary.exits.push(Exit::of(error));
            return;
        }
        summary.unknown += usize::from(matches!(entry.content, MessageContent::Unknown));
        match entry.head.map(|head| head.kind) {
            Some(AnyMessageKind::Baseline) => summary.baselines += 1,
            Some(AnyMessageKind::Delta) => summary.deltas += 1,
            Some(AnyMessageKind::StructuralLog) => summary.logs += 1,
            Some(AnyMessageKind::Request) => summary.requests += 1,
            None => {}
        }
    }
}

impl Iterator for RecordingReader {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        let RawRecord { offset, sent } = self.recording.next_raw()?;
        let sent_bytes = sent.len();
        let entry = match self.look(&sent) {
            Ok((head, continuity, content)) => {
                Entry { offset, sent_bytes, head: Some(head), continuity, content }
            }
            Err(error) => Entry {
                offset,
                sent_bytes,
                head: None,
                continuity: Continuity::Follows,
                content: MessageContent::Damaged(error),
            },
        };
        self.count(&entry);
        Some(entry)
    }
}
