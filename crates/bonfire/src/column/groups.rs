//! Encoded rows, in groups that each fit a block.

use std::sync::OnceLock;

use bytes::Bytes;

use crate::context::LoadContext;
use crate::error::Result;
use crate::limits::Limits;
use crate::schema::{Node, Schema};
use crate::storage::BLOCK_BYTES;
use crate::value::decode_value;
use crate::wire::Reader;

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

/// Cuts encoded rows into groups that each fit a block, so that damage to a block costs the rows in it and no others.
pub(crate) fn group_rows(ends: &[usize]) -> Vec<Group> {
    let mut groups = GroupCutter::default();
    ends.iter().for_each(|&end| groups.row(end));
    groups.finish().1
}

#[derive(Default)]
pub(crate) struct GroupCutter {
    groups: Vec<Group>,
    rows: usize,
    /// Where the open group starts, how many rows it has, and where the last of them ends.
    start: usize,
    open: u32,
    end: usize,
}

impl GroupCutter {
    #[inline]
    pub(crate) fn row(&mut self, end: usize) {
        if end - self.start > BLOCK_BYTES && self.open > 0 {
            self.cut();
        }
        self.open += 1;
        self.end = end;
    }

    fn cut(&mut self) {
        self.groups.push(Group { rows: self.open, bytes: (self.end - self.start) as u64 });
        self.rows += self.open as usize;
        (self.start, self.open) = (self.end, 0);
    }

    /// How many rows there are, and their groups.
    pub(crate) fn finish(mut self) -> (usize, Vec<Group>) {
        if self.open > 0 {
            self.cut();
        }
        (self.rows, self.groups)
    }
}
