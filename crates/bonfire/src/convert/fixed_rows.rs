//! Raw rows by name, without looking at values one by one: fields move to their new places, new ones come from a template.

use super::Conversion;
use super::conversion::{FieldStep, Step, VariantStep};
use super::number::widen;
use crate::bulk::move_rows;
use crate::context::LoadContext;
use crate::error::{Error, Result};
use crate::row::{Move, RowLayout, merged};
use crate::schema::{Node, Schema, Type, fixed_sizes};
use crate::storage::AlignedBuf;
use crate::wire::{Reader, Writer};

const LEAVES_MAX: usize = 64;

/// How raw rows of one layout become raw rows of another.
#[derive(Debug)]
pub(crate) struct FixedRows {
    /// A row of new fields, if there are any.
    template: Option<Vec<u8>>,
    moves: Vec<Move>,
    numbers: Vec<WidenedLeaf>,
    variants: Vec<Variants>,
    from_stride: usize,
    to_stride: usize,
}

#[derive(Debug)]
struct WidenedLeaf {
    types: (Type, Type),
    from: usize,
    to: usize,
    sizes: (usize, usize),
}

/// An enum without data whose variants have other numbers now.
#[derive(Debug)]
struct Variants {
    from: usize,
    to: usize,
    numbers: Vec<Option<u8>>,
    names: Vec<String>,
}

impl FixedRows {
    /// Nothing if rows must be converted one by one.
    pub(crate) fn new(conversion: &Conversion, from: &RowLayout, to: &RowLayout) -> Option<Self> {
        if from.stride == 0 || to.stride == 0 {
            return None;
        }
        let source = LeafOffsets::new(&conversion.source, from)?;
        let target = LeafOffsets::new(&conversion.target, to)?;
        let mut plan = Plan {
            conversion,
            source,
            target,
            // In the nodes that the steps speak of.
            target_sizes: fixed_sizes(conversion.target.ruled_nodes(), None),
            moves: Vec::new(),
            template: vec![0; to.stride as usize],
            is_new: false,
            numbers: Vec::new(),
            variants: Vec::new(),
        };
        plan.step(0, 0, 0)?;
        let Plan { moves, template, is_new, numbers, variants, .. } = plan;
        Some(Self {
            template: is_new.then_some(template),
            moves: merged(moves.into_iter()),
            numbers,
            variants,
            from_stride: from.stride as usize,
            to_stride: to.stride as usize,
        })
    }

    /// Converts all rows.
    pub(crate) fn run(&self, rows: &[u8], context: &LoadContext<'_>) -> Result<AlignedBuf> {
        let count = rows.len() / self.from_stride;
        context.claim_memory(count, self.to_stride)?;
        let mut out = AlignedBuf::zeroed(count * self.to_stride);
        let memory = out.as_mut();
        if let Some(template) = &self.template {
            memory.chunks_exact_mut(self.to_stride).for_each(|row| row.copy_from_slice(template));
        }
        move_rows(rows, self.from_stride, memory, self.to_stride, &self.moves);
        let mut scratch = Writer::new();
        for step in &self.numbers {
            for (from, to) in rows.chunks_exact(self.from_stride).zip(memory.chunks_exact_mut(self.to_stride))
            {
                scratch.clear();
                let number = &from[step.from..step.from + step.sizes.0];
                widen(&step.types.0, &step.types.1, &mut Reader::new(number, context), &mut scratch)?;
                to[step.to..step.to + step.sizes.1].copy_from_slice(scratch.as_bytes());
            }
        }
        for step in &self.variants {
            let pairs = rows.chunks_exact(self.from_stride).zip(memory.chunks_exact_mut(self.to_stride));
            for (row, (from, to)) in pairs.enumerate() {
                let saved = usize::from(from[step.from]);
                match step.numbers.get(saved) {
                    Some(Some(number)) => to[step.to] = *number,
                    Some(None) => {
                        let name = step.names[saved].escape_debug();
                        return Err(Error::schema(format!(
                            "the save has a `{name}`, which is no variant of this build. If it was renamed, say so: \
                             `#[persist(alias = \"{name}\")]`"
                        ))
                        .in_field(format_args!("row {row}")));
                    }
                    None => {
                        return Err(Error::corrupt(format!("variant {saved} of {}", step.numbers.len()))
                            .in_field(format_args!("row {row}")));
                    }
                }
            }
        }
        Ok(out)
    }
}

/// Where the leaves of a type lie in its raw rows, by where they lie in the encoded form.
struct LeafOffsets {
    sizes: Vec<Option<u64>>,
    /// Encoded place, raw place, size; in the order of the schema.
    leaves: Vec<(usize, usize, usize)>,
}

impl LeafOffsets {
    fn new(schema: &Schema, row: &RowLayout) -> Option<Self> {
        let leaves = schema.fixed_leaves(LEAVES_MAX)?;
        if leaves.len() != row.offsets.len() {
            return None;
        }
        let mut at = 0;
        let place = |(leaf, &offset): (&crate::schema::FixedLeaf, &u32)| {
            let start = at;
            at += leaf.size as usize;
            (start, offset as usize, leaf.size as usize)
        };
        let leaves = leaves.iter().zip(&row.offsets).map(place).collect();
        Some(Self { sizes: schema.fixed_sizes(), leaves })
    }

    /// The raw place of an encoded byte, and how many bytes from it on lie together.
    fn raw(&self, at: usize) -> Option<(usize, usize)> {
        let next = self.leaves.partition_point(|(start, ..)| *start <= at);
        let (start, raw, size) = *self.leaves.get(next.checked_sub(1)?)?;
        let inside = at - start;
        (inside < size).then(|| (raw + inside, size - inside))
    }
}

struct Plan<'a> {
    conversion: &'a Conversion,
    source: LeafOffsets,
    target: LeafOffsets,
    target_sizes: Vec<Option<u64>>,
    moves: Vec<Move>,
    template: Vec<u8>,
    is_new: bool,
    numbers: Vec<WidenedLeaf>,
    variants: Vec<Variants>,
}

impl Plan<'_> {
    /// A step between encoded places.
    fn step(&mut self, number: usize, from: usize, to: usize) -> Option<()> {
        let conversion = self.conversion;
        match &conversion.steps[number] {
            Step::Bytes(len) => self.bytes(from, to, *len),
            Step::Number(a, b) => {
                let ((from, size), (to, wide)) = (self.source.raw(from)?, self.target.raw(to)?);
                self.numbers.push(WidenedLeaf {
                    types: (a.clone(), b.clone()),
                    from,
                    to,
                    sizes: (size, wide),
                });
                Some(())
            }
            Step::Enum(variants) => {
                let ((from, _), (to, _)) = (self.source.raw(from)?, self.target.raw(to)?);
                let number = |variant: &VariantStep| match variant {
                    VariantStep::To(number, _) => u8::try_from(*number).ok(),
                    VariantStep::Gone(_) => None,
                };
                let name = |variant: &VariantStep| match variant {
                    VariantStep::To(..) => String::new(),
                    VariantStep::Gone(name) => name.clone(),
                };
                let numbers = variants.iter().map(number).collect();
                self.variants.push(Variants {
                    from,
                    to,
                    numbers,
                    names: variants.iter().map(name).collect(),
                });
                Some(())
            }
            Step::Fields(fields) => {
                let starts: Vec<usize> = (fields.source.iter())
                    .scan(from, |at, node| {
                        let start = *at;
                        *at += self.source.sizes[node.index()]? as usize;
                        Some(start)
                    })
                    .collect();
                let nodes: Vec<Node> =
                    conversion.target.ruled_nodes()[conversion.nodes[number].1.index()].children().collect();
                let mut to = to;
                for (field, node) in fields.target.iter().zip(nodes) {
                    match field {
                        FieldStep::Saved(number, step) => self.step(*step, *starts.get(*number)?, to)?,
                        FieldStep::Default(bytes) => self.default(bytes, to)?,
                    }
                    to += self.target_sizes[node.index()]? as usize;
                }
                Some(())
            }
            _ => None,
        }
    }

    fn bytes(&mut self, mut from: usize, mut to: usize, mut len: usize) -> Option<()> {
        while len > 0 {
            let ((source, together), (target, room)) = (self.source.raw(from)?, self.target.raw(to)?);
            let part = len.min(together).min(room);
            self.moves.push(Move { from: source, to: target, len: part });
            (from, to, len) = (from + part, to + part, len - part);
        }
        Some(())
    }

    fn default(&mut self, bytes: &[u8], mut to: usize) -> Option<()> {
        self.is_new = true;
        let mut rest = bytes;
        while !rest.is_empty() {
            let (target, room) = self.target.raw(to)?;
            let (part, left) = rest.split_at(rest.len().min(room));
            self.template[target..target + part.len()].copy_from_slice(part);
            (rest, to) = (left, to + part.len());
        }
        Some(())
    }
}
