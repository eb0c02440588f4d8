//! The primitives of the format: fixed little-endian numbers, varints, text, and who reads and writes them.
//!
//! The reader never panics and never trusts a count: every length is compared with the bytes that are left, and every
//! allocation is claimed from the load's budget. Nesting is counted on both sides with the same limit, so a value too
//! deep to be read back is refused when it is saved.

use crate::context::LoadContext;
use crate::entity::EntityId;
use crate::error::{Error, Result};
use crate::limits::Limits;

/// Takes the bytes of values. It cannot fail while it is used: an error is kept and reported at the end of the column.
#[derive(Debug)]
pub struct Writer {
    bytes: Vec<u8>,
    depth: u32,
    depth_max: u32,
    error: Option<Error>,
    notes: Vec<&'static str>,
}

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

impl Writer {
    /// An empty writer.
    pub fn new() -> Self {
        Self {
            bytes: Vec::new(),
            depth: 0,
            depth_max: Limits::default().depth_max,
            error: None,
            notes: Vec::new(),
        }
    }

    /// The bytes so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
    /// The number of bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
    /// The bytes, or the first error that a value reported.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        match self.error.take() {
            Some(error) => Err(error),
            None => Ok(self.bytes),
        }
    }
    /// Reports that the value being written cannot be saved.
    #[cold]
    pub fn fail(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }
    /// Remarks that the value being written is saved with a loss, such as a handle to an asset that no name leads to.
    /// The save goes on; [`Snapshot::notes`](crate::Snapshot::notes) lists what was remarked.
    #[cold]
    pub fn note(&mut self, remark: &'static str) {
        self.notes.push(remark);
    }
    pub(crate) fn take_notes(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.notes)
    }
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.error.is_some()
    }
    pub(crate) fn take_error(&mut self) -> Result<()> {
        self.error.take().map_or(Ok(()), Err)
    }
    pub(crate) fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }
    /// A writer that reuses memory.
    pub(crate) fn with_memory(mut memory: Vec<u8>) -> Self {
        memory.clear();
        Self { bytes: memory, ..Self::new() }
    }
    pub(crate) fn into_memory(self) -> Vec<u8> {
        self.bytes
    }
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Writes bytes as they are.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
    /// Writes one byte.
    #[inline]
    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }
    /// Writes a fixed 16-bit number.
    #[inline]
    pub fn u16(&mut self, value: u16) {
        self.raw(&value.to_le_bytes());
    }
    /// Writes a fixed 32-bit number.
    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.raw(&value.to_le_bytes());
    }
    /// Writes a fixed 64-bit number.
    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.raw(&value.to_le_bytes());
    }
    /// Writes a length, a count or an index: 7 bits a byte, low ones first.
    #[inline]
    pub fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
    /// Writes text: its length in bytes, then UTF-8.
    #[inline]
    pub fn text(&mut self, text: &str) {
        self.blob(text.as_bytes());
    }
    /// Writes bytes with their length in front.
    #[inline]
    pub fn blob(&mut self, bytes: &[u8]) {
        self.varint(bytes.len() as u64);
        self.raw(bytes);
    }
    /// Writes a reference to an entity.
    #[inline]
    pub fn entity(&mut self, entity: EntityId) {
        self.u64(entity.to_bits());
    }
    /// An empty writer one level deeper than this one.
    pub(crate) fn nested_apart(&self) -> Result<Self> {
        let mut inner = Self::new();
        inner.depth = self.depth;
        inner.depth_max = self.depth_max;
        inner.nested(|_| {});
        inner.take_error()?;
        inner.depth += 1;
        Ok(inner)
    }
    /// Writes something that may contain itself. Too deep is an error, found while saving and not while loading.
    #[inline]
    pub fn nested(&mut self, write: impl FnOnce(&mut Self)) {
        if self.depth == self.depth_max {
            let depth_max = self.depth_max;
            return self.fail(Error::limit(format!("a value nests deeper than {depth_max} levels")));
        }
        self.depth += 1;
        write(self);
        self.depth -= 1;
    }
}

/// Gives back what a [`Writer`] took.
#[derive(Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    total: usize,
    depth: u32,
    inside: u32,
    context: &'a LoadContext<'a>,
}

impl<'a> Reader<'a> {
    /// Reads `bytes` with the policies of `context`.
    pub fn new(bytes: &'a [u8], context: &'a LoadContext<'a>) -> Self {
        Self { bytes, total: bytes.len(), depth: 0, inside: 0, context }
    }

    /// The load that this value is part of.
    pub fn context(&self) -> &'a LoadContext<'a> {
        self.context
    }
    /// How many bytes were read.
    pub fn offset(&self) -> usize {
        self.total - self.bytes.len()
    }
    /// How many bytes are left.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }
    /// The bytes that are left.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes
    }
    /// Fails if bytes are left over.
    pub fn finish(self) -> Result<()> {
        match self.bytes.len() {
            0 => Ok(()),
            left => Err(self.corrupt(format!("{left} bytes are left over"))),
        }
    }
    /// An error about the bytes at this place.
    #[cold]
    pub fn corrupt(&self, message: impl std::fmt::Display) -> Error {
        Error::corrupt(message).at(self.offset())
    }

    /// Reads `len` bytes as they are.
    #[inline]
    pub fn raw(&mut self, len: usize) -> Result<&'a [u8]> {
        match self.bytes.split_at_checked(len) {
            Some((taken, rest)) => {
                self.bytes = rest;
                Ok(taken)
            }
            None => Err(self.short(len)),
        }
    }
    #[cold]
    fn short(&self, wanted: usize) -> Error {
        self.corrupt(format!("{wanted} bytes expected, {} left", self.remaining()))
    }
    /// Reads `N` bytes as they are.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.bytes.split_first_chunk::<N>() {
            Some((taken, rest)) => {
                self.bytes = rest;
                Ok(*taken)
            }
            None => Err(self.short(N)),
        }
    }
    /// Reads one byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }
    /// Reads a fixed 16-bit number.
    #[inline]
    pub fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }
    /// Reads a fixed 32-bit number.
    #[inline]
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }
    /// Reads a fixed 64-bit number.
    #[inline]
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }
    /// Reads a length, a count or an index.
    #[inline]
    pub fn varint(&mut self) -> Result<u64> {
        if let Some((&byte, rest)) = self.bytes.split_first()
            && byte < 0x80
        {
            self.bytes = rest;
            return Ok(u64::from(byte));
        }
        self.long_varint()
    }
    fn long_varint(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                // One number has one form: no trailing zero byte, nothing beyond 64 bits.
                if (byte == 0 && shift > 0) || (shift == 63 && byte > 1) {
                    return Err(self.corrupt("a varint is not in its shortest form"));
                }
                return Ok(value);
            }
        }
        Err(self.corrupt("a varint is longer than 64 bits"))
    }
    /// Reads a varint that must be at most `max`; `what` names it in the error.
    pub(crate) fn bounded(&mut self, max: u64, what: &str) -> Result<u64> {
        let value = self.varint()?;
        if value > max {
            return Err(Error::limit(format!("{value} {what}, at most {max} are allowed")).at(self.offset()));
        }
        Ok(value)
    }
    /// Reads the count of a list whose elements take `bytes_each` bytes of memory, and claims them. A count that
    /// exceeds the bytes left can only be true for elements without bytes, which have a budget of their own.
    #[inline]
    pub fn count(&mut self, bytes_each: usize) -> Result<usize> {
        let count = self.varint()?;
        if count > self.remaining() as u64 {
            self.context.claim_empty(count).map_err(|_| {
                self.corrupt(format!("a list claims {count} elements, {} bytes are left", self.remaining()))
            })?;
        }
        let count = usize::try_from(count).map_err(|_| self.corrupt("a list is longer than memory"))?;
        self.context.limits.step(count)?;
        self.context.claim_memory(count, bytes_each)?;
        Ok(count)
    }
    /// Reads bytes with their length in front.
    #[inline]
    pub fn blob(&mut self) -> Result<&'a [u8]> {
        let len = self.varint()?;
        match usize::try_from(len) {
            Ok(len) => self.raw(len),
            Err(_) => Err(self.short(usize::MAX)),
        }
    }
    /// Reads text.
    #[inline]
    pub fn text(&mut self) -> Result<&'a str> {
        let bytes = self.blob()?;
        std::str::from_utf8(bytes).map_err(|error| {
            let bad = bytes.len() - error.valid_up_to();
            self.corrupt(format!("text is not UTF-8, {bad} bytes before its end"))
        })
    }
    /// Reads a reference to an entity, as the load resolves it.
    #[inline]
    pub fn entity(&mut self) -> Result<EntityId> {
        let saved = EntityId::from_bits(self.u64()?);
        self.context.resolve(saved)
    }
    /// Reads something that may contain itself.
    #[inline]
    pub fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == self.context.limits.depth_max {
            return Err(self.too_deep());
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }
    /// As [`Reader::nested`], for values that are read by their schema: typed values do not count lists and arrays that
    /// are one copy, which can only be the innermost.
    pub(crate) fn nested_untyped<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= self.context.limits.depth_max.saturating_add(2) {
            return Err(self.too_deep());
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }
    /// Reads a field by its schema. Rust's types nest structs as they like without counting, so this has room for
    /// several of them per level; it ends where a schema from a file turns in circles.
    pub(crate) fn inside<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.inside == self.context.limits.depth_max.saturating_mul(STRUCTS_PER_LEVEL) {
            return Err(self.too_deep());
        }
        self.inside += 1;
        let value = read(self);
        self.inside -= 1;
        value
    }
    #[cold]
    fn too_deep(&self) -> Error {
        let depth_max = self.context.limits.depth_max;
        Error::limit(format!("a value nests deeper than {depth_max} levels")).at(self.offset())
    }
}

const STRUCTS_PER_LEVEL: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_varint_has_one_form() {
        let limits = Limits::default();
        let context = LoadContext::new(&limits);
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut writer = Writer::new();
            writer.varint(value);
            let mut reader = Reader::new(writer.as_bytes(), &context);
            assert_eq!(reader.varint().unwrap(), value);
            reader.finish().unwrap();
        }
        for bad in
            [&[0x80, 0][..], &[0xff; 11], &[0x80], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]]
        {
            assert!(Reader::new(bad, &context).varint().unwrap_err().is_corrupt(), "{bad:?}");
        }
    }

    #[test]
    fn nesting_has_the_same_limit_on_both_sides() {
        fn write(writer: &mut Writer, levels: u32) {
            if levels > 0 {
                writer.nested(|writer| write(writer, levels - 1));
            }
        }
        let depth_max = Limits::default().depth_max;
        let mut writer = Writer::new();
        write(&mut writer, depth_max);
        assert!(writer.take_error().is_ok());
        write(&mut writer, depth_max + 1);
        assert!(writer.take_error().unwrap_err().is_limit());
    }

    #[test]
    fn a_huge_count_is_refused_before_anything_is_allocated() {
        let limits = Limits { memory_bytes_max: 100, ..Limits::default() };
        let context = LoadContext::new(&limits);
        let mut writer = Writer::new();
        writer.varint(1 << 60);
        assert!(Reader::new(writer.as_bytes(), &context).count(1).unwrap_err().is_corrupt());
        let mut writer = Writer::new();
        writer.varint(50);
        writer.raw(&[0; 50]);
        assert!(Reader::new(writer.as_bytes(), &context).count(3).unwrap_err().is_limit());
        assert_eq!(Reader::new(writer.as_bytes(), &context).count(2).unwrap(), 50);
    }
}
