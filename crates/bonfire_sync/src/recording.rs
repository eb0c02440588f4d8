//! Streams as files: every message with its length in front, as it was sent.
//!
//! A recording is appended to and never changed, so a process that dies leaves whole messages and at most one that is
//! torn; a reader says so and gives all others. Messages have their own checksums: one that is damaged does not hide those
//! after it.
//!
//! | at | bytes | |
//! |---|---|---|
//! | 0 | 4 | magic `BNFR` |
//! | 4 | 2 | version |
//! | 6 | 2 | zero |
//! | 8 | | messages: 4 bytes of length, then the message |

use std::io::Write;

use bonfire::{Error, Result, Watch};
use bytes::{Buf, Bytes};

use crate::envelope::HEAD_BYTES;
use crate::limits::MessageLimits;
use crate::message::Message;

const MAGIC: [u8; 4] = *b"BNFR";
const VERSION: u16 = 1;
const FILE_HEAD_BYTES: usize = 8;
const LENGTH_BYTES: usize = 4;

/// Writes the messages of a stream one after the other.
///
/// ```
/// # use bonfire::schema::Fingerprint;
/// # use bonfire_sync::{MessageCompression, MessageKind, Message, MessageLimits, Recorder, Recording};
/// # let schema = Fingerprint([0; 16]);
/// # let payload = bytes::Bytes::new();
/// # let message = Message { kind: MessageKind::Baseline, stream: 1, sequence: 0, since: 0, tick: 1, schema, payload };
/// let mut recorder = Recorder::new(Vec::new())?;
/// recorder.write(&message.encode(&MessageCompression::None)?)?;
/// let file = recorder.into_inner();
///
/// let mut recording = Recording::open(file.into(), &MessageLimits::default())?;
/// assert_eq!(recording.next().expect("one was written")?.message, message);
/// assert!(recording.next().is_none() && recording.torn().is_none());
/// # Ok::<(), bonfire::Error>(())
/// ```
#[derive(Debug)]
pub struct Recorder<W> {
    out: W,
}

impl<W: Write> Recorder<W> {
    /// Starts a recording.
    pub fn new(mut out: W) -> Result<Self> {
        let mut head = [0; FILE_HEAD_BYTES];
        head[0..4].copy_from_slice(&MAGIC);
        head[4..6].copy_from_slice(&VERSION.to_le_bytes());
        out.write_all(&head).map_err(|error| Error::io("cannot start a recording", error))?;
        Ok(Self { out })
    }

    /// Appends a message as it was sent.
    pub fn write(&mut self, message: &[u8]) -> Result<()> {
        let Ok(length) = u32::try_from(message.len()) else {
            return Err(Error::limit(format!("{} bytes are too many for one message", message.len())));
        };
        let length = length.to_le_bytes();
        let written = self.out.write_all(&length).and_then(|()| self.out.write_all(message));
        written.map_err(|error| Error::io("cannot record a message", error))
    }

    /// Hands what is buffered to the system.
    pub fn flush(&mut self) -> Result<()> {
        self.out.flush().map_err(|error| Error::io("cannot record a message", error))
    }

    /// Where the messages were written to.
    pub fn into_inner(self) -> W {
        self.out
    }
}

/// One message of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it starts in the file.
    pub offset: u64,
    /// How many bytes it was sent as.
    pub sent_bytes: u32,
    /// The message.
    pub message: Message,
}

/// The bytes of one message of a recording, of whatever kind, with nothing checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawRecord {
    /// Where it starts in the file.
    pub offset: u64,
    /// The message as it was sent.
    pub sent: Bytes,
}

/// The end of a recording that was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// Where whole messages end.
    pub offset: u64,
    /// How many bytes there are after them.
    pub bytes: u64,
}

/// Gives back what a [`Recorder`] took. A message that is damaged is an error, and the next one follows.
#[derive(Clone, Debug)]
pub struct Recording {
    rest: Bytes,
    offset: u64,
    torn: Option<TornTail>,
    limits: MessageLimits,
    watch: Watch,
}

impl Recording {
    /// Reads the contents of a file.
    pub fn open(file: Bytes, limits: &MessageLimits) -> Result<Self> {
        let Some(head) = file.first_chunk::<FILE_HEAD_BYTES>() else {
            return Err(Error::corrupt(format!("{} bytes are no recording", file.len())));
        };
        let [m0, m1, m2, m3, v0, v1, zeros @ ..] = *head;
        if [m0, m1, m2, m3] != MAGIC {
            return Err(Error::corrupt("not a recorded stream"));
        }
        match u16::from_le_bytes([v0, v1]) {
            VERSION => {}
            0 => return Err(Error::corrupt("a recording has version 0, which never was")),
            version => {
                let text = format!("a recording has version {version}, this build knows up to {VERSION}");
                return Err(Error::newer_format(text));
            }
        }
        if zeros != [0; 2] {
            return Err(Error::corrupt("bytes of a recording that must be zero are not"));
        }
        let rest = file.slice(FILE_HEAD_BYTES..);
        let (offset, limits) = (FILE_HEAD_BYTES as u64, limits.clone());
        Ok(Self { rest, offset, torn: None, limits, watch: Watch::new() })
    }

    /// Follows the reading of messages, and stops it: once the watch is cancelled, the next message is an error that
    /// [`is_cancelled`](Error::is_cancelled), and the last one.
    pub fn watch(mut self, watch: &Watch) -> Self {
        watch.expect(self.rest.len() as u64);
        self.watch = watch.clone();
        self
    }

    /// The message at the end that is not whole, if there is one. Known when all others were read.
    pub fn torn(&self) -> Option<TornTail> {
        self.torn
    }

    /// Where the next message starts, or where reading has ended.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The bytes of the next message, for tools that also look at what is damaged, and at requests and structural logs.
    ///
    /// If they are too few for a message, they are the last: lengths cannot be trusted from there on.
    pub fn next_raw(&mut self) -> Option<RawRecord> {
        if self.rest.is_empty() {
            return None;
        }
        let (offset, left) = (self.offset, self.rest.len());
        let length = self.rest.first_chunk().map(|length| u32::from_le_bytes(*length) as usize);
        let Some(length) = length.filter(|length| *length <= left - LENGTH_BYTES) else {
            self.torn = Some(TornTail { offset, bytes: left as u64 });
            self.rest.clear();
            return None;
        };
        self.rest.advance(LENGTH_BYTES);
        let sent = self.rest.split_to(length);
        self.offset += (LENGTH_BYTES + length) as u64;
        if length < HEAD_BYTES {
            self.rest.clear();
        }
        Some(RawRecord { offset, sent })
    }
}

impl Iterator for Recording {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        let RawRecord { offset, sent } = self.next_raw()?;
        if let Err(error) = self.watch.advance((LENGTH_BYTES + sent.len()) as u64) {
            self.rest.clear();
            return Some(Err(error));
        }
        let sent_bytes = sent.len() as u32;
        if sent.len() < HEAD_BYTES {
            return Some(Err(Error::corrupt(format!("{sent_bytes} bytes at byte {offset} are no message"))));
        }
        let message = Message::decode(&sent, &self.limits);
        // Cancelled or not, this one is read.
        let _ = self.watch.step(message.as_ref().map_or(0, |message| message.payload.len() as u64));
        Some(message.map(|message| Record { offset, sent_bytes, message }))
    }
}
