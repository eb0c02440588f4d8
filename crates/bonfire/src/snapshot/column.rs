//! A column of a snapshot: whose rows they are, which entities have one, and how the rows are stored.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::bitmap::Bitmap;
use super::page::Checksums;
use crate::buffer::AlignedBuf;
use crate::context::LoadContext;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::schema::{Node, Schema};
use crate::value::decode_value;
use crate::wire::Reader;

/// Bytes in several pieces of memory, some of them shared with other snapshots.
#[derive(Clone, Debug, Default)]
pub struct Rope {
    /// A column of a million rows has thousands of them, and captures hand it on.
    parts: Arc<Parts>,
    len: usize,
    /// Of each part, or of each block of the only part.
    checksums: Option<Arc<Checksums>>,
}

#[derive(Clone, Debug, Default)]
struct Parts {
    list: Vec<Bytes>,
    /// All of them in one piece, if somebody has asked for that again and again.
    joined: OnceLock<Bytes>,
}

impl Rope {
    /// Appends a piece.
    pub fn push(&mut self, bytes: Bytes) {
        self.len += bytes.len();
        self.checksums = None;
        if !bytes.is_empty() {
            let parts = Arc::make_mut(&mut self.parts);
            parts.list.push(bytes);
            parts.joined = OnceLock::new();
        }
    }
    /// One piece, with the checksum of each of its blocks if they are known.
    pub(crate) fn checked(bytes: Bytes, checksums: Option<Arc<Checksums>>) -> Self {
        let mut rope = Self::from(bytes);
        rope.checksums = checksums;
        rope
    }
    /// Pieces that are not empty, with what is known of the checksum of each.
    pub(crate) fn in_units(parts: Vec<Bytes>, checksums: Arc<Checksums>) -> Self {
        Self { len: parts.iter().map(Bytes::len).sum(), parts: Parts::of(parts), checksums: Some(checksums) }
    }
    pub(crate) fn checksums(&self) -> Option<&Arc<Checksums>> {
        self.checksums.as_ref()
    }
    /// The pieces in order.
    pub fn parts(&self) -> &[Bytes] {
        &self.parts.list
    }
    /// Lets go of a piece, if nobody else has this rope. What is left is no longer the rope.
    pub(super) fn release(&mut self, part: usize) {
        if let Some(parts) = Arc::get_mut(&mut self.parts) {
            parts.list[part] = Bytes::new();
        }
    }
    /// All bytes in one piece, kept for whoever asks next.
    pub(crate) fn joined(&self) -> &Bytes {
        match &*self.parts.list {
            [part] => part,
            _ => self.parts.joined.get_or_init(|| AlignedBuf::copy_from(&self.to_vec()).share()),
        }
    }
    /// What [`Rope::joined`] has made.
    pub(super) fn made(&self) -> Option<&Bytes> {
        self.parts.joined.get()
    }
    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// All bytes in one piece: borrowed if they lie in one, else copied.
    pub fn contiguous(&self) -> Cow<'_, [u8]> {
        match &*self.parts.list {
            [] => Cow::Borrowed(&[]),
            [part] => Cow::Borrowed(part),
            _ => Cow::Owned(self.to_vec()),
        }
    }
    /// All bytes in one piece: shared if they lie in one, else copied.
    pub(crate) fn shared(&self) -> Bytes {
        match &*self.parts.list {
            [] => Bytes::new(),
            [part] => part.clone(),
            _ => self.to_vec().into(),
        }
    }
    /// A copy of all bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len);
        self.parts().iter().for_each(|part| bytes.extend_from_slice(part));
        bytes
    }
}

impl Parts {
    fn of(list: Vec<Bytes>) -> Arc<Self> {
        Arc::new(Self { list, joined: OnceLock::new() })
    }
}

impl From<Bytes> for Rope {
    fn from(bytes: Bytes) -> Self {
        let mut rope = Self::default();
        rope.push(bytes);
        rope
    }
}

/// The rows of one component in one archetype.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) component: u32,
    /// Which of the archetype's rows have a value; `None` if all have.
    pub(crate) present: Option<Bitmap>,
    /// How many have one.
    pub(crate) rows: usize,
    pub(crate) body: Body,
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// No bytes.
    Tag,
    /// `rows` times the component's stride.
    Raw(Rope),
    /// Encoded values one after the other.
    Rows(Groups),
    /// Each distinct value once, and per row which one.
    Dictionary { values: Groups, indices: Indices },
    /// Per row which value of a table that all archetypes share.
    Shared { table: u32, indices: Indices },
}

impl Body {
    pub(crate) fn encoding(&self) -> &'static str {
        match self {
            Self::Tag => "tag",
            Self::Raw(_) => "raw",
            Self::Rows(_) => "rows",
            Self::Dictionary { .. } => "dictionary",
            Self::Shared { .. } => "shared",
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Tag => 0,
            Self::Raw(rope) => rope.len(),
            Self::Rows(groups) => groups.bytes.len(),
            Self::Dictionary { values, indices } => values.bytes.len() + indices.bytes.len(),
            Self::Shared { indices, .. } => indices.bytes.len(),
        }
    }
}

/// Encoded rows in groups that each fit a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    pub(crate) bytes: Bytes,
    pub(crate) groups: Vec<Group>,
    /// Where each value lies, once somebody asked: many columns may share one table.
    spans: OnceLock<Vec<(usize, usize)>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) rows: u32,
    pub(crate) bytes: u64,
}

impl Groups {
    pub(crate) fn rows(&self) -> u64 {
        self.groups.iter().map(|group| u64::from(group.rows)).sum()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Group, &[u8])> + '_ {
        let mut at = 0;
        self.groups.iter().map(move |&group| {
            let start = at;
            at += group.bytes as usize;
            (group, &self.bytes[start..at])
        })
    }

    pub(crate) fn new(bytes: Bytes, groups: Vec<Group>) -> Self {
        Self { bytes, groups, spans: OnceLock::new() }
    }

    /// Where each value starts and ends, found by walking the schema.
    pub(crate) fn spans(&self, schema: &Schema, limits: &Limits) -> Result<&[(usize, usize)]> {
        if let Some(spans) = self.spans.get() {
            return Ok(spans);
        }
        let spans = row_spans(self, schema, limits, &|_| false)?;
        Ok(self.spans.get_or_init(|| spans))
    }
}

/// Where each row of some groups starts and ends. Groups whose rows are lost are passed over unread.
pub(crate) fn row_spans(
    groups: &Groups,
    schema: &Schema,
    limits: &Limits,
    lost: &dyn Fn(usize) -> bool,
) -> Result<Vec<(usize, usize)>> {
    let context = LoadContext::new(limits);
    let rows = groups.rows() as usize;
    context.claim_memory(rows, size_of::<(usize, usize)>())?;
    context.grant_rows(rows);
    let mut spans = Vec::new();
    let mut base = 0;
    for (group, bytes) in groups.iter() {
        if group.rows > 0 && lost(spans.len()) {
            spans.extend((0..group.rows).map(|_| (base, base)));
        } else {
            let mut input = Reader::new(bytes, &context);
            for _ in 0..group.rows {
                let start = base + input.offset();
                decode_value(schema, Node::ROOT, &mut input)
                    .map_err(|error| error.in_field(format_args!("row {}", spans.len())))?;
                spans.push((start, base + input.offset()));
            }
            input.finish()?;
        }
        base += bytes.len();
    }
    Ok(spans)
}

/// Small numbers, one per row, with as few bytes as the largest needs.
#[derive(Clone, Debug)]
pub(crate) struct Indices {
    pub(crate) width: u8,
    pub(crate) bytes: Bytes,
}

impl Indices {
    /// Bytes per number when the largest is below `count`.
    pub(crate) fn width_for(count: usize) -> u8 {
        match count {
            0..=0x100 => 1,
            0x101..=0x1_0000 => 2,
            _ => 4,
        }
    }

    pub(crate) fn encode(numbers: &[u32], width: u8) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes().into_iter().take(usize::from(width))).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.bytes.chunks_exact(usize::from(self.width)).map(|bytes| {
            let mut number = [0; 4];
            number[..bytes.len()].copy_from_slice(bytes);
            u32::from_le_bytes(number)
        })
    }

    pub(crate) fn check(&self, rows: usize) -> Result<()> {
        if !matches!(self.width, 1 | 2 | 4) || self.bytes.len() != rows * usize::from(self.width) {
            let (bytes, width) = (self.bytes.len(), self.width);
            return Err(Error::corrupt(format!("{bytes} bytes are not {rows} numbers of {width} bytes")));
        }
        Ok(())
    }
}
