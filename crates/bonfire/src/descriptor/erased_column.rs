//! What a column of one component can do, without its type: one indirect call per column.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use super::Unencodable;
use super::staged::StagedColumn;
use crate::bulk::{CopyPath, RawRows};
use crate::column::{Arena, Column, Component, Group, Groups, Slot};
use crate::context::{LoadContext, SaveContext, Sessions};
use crate::entity::EntityId;
use crate::error::{Error, Result};
use crate::storage::Bitmap;
use crate::wire::Writer;

/// A column that was just encoded.
pub(crate) struct Encoded {
    pub(crate) present: Option<Bitmap>,
    pub(crate) rows: usize,
    pub(crate) body: EncodedBody,
    /// What values remarked about themselves.
    pub(crate) notes: Vec<&'static str>,
    /// Values that could not be encoded.
    pub(crate) failures: Vec<EncodeFailure>,
}

/// Rows whose values could not be encoded and that were treated alike.
pub(crate) struct EncodeFailure {
    pub(crate) treatment: Treatment,
    /// The error of the first.
    pub(crate) error: Error,
    pub(crate) first_row: usize,
    pub(crate) rows: usize,
}

/// The fate of a value that could not be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    Skipped,
    Replaced,
}

impl EncodeFailure {
    /// The remark of a save about these rows. `entity` has the first of them.
    pub(crate) fn remark(&self, entity: Option<EntityId>) -> String {
        let treatment = match self.treatment {
            Treatment::Skipped => "left out",
            Treatment::Replaced => "replaced",
        };
        let place = entity.map(|entity| format!(" (first: entity {entity})")).unwrap_or_default();
        format!("cannot be encoded and is {treatment}{place}: {}", self.error)
    }
}

/// Whether an encoding remembers where each row ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowEnds {
    /// Rows that repeat are found by their ends.
    Keep,
    Forget,
}

/// How a column is encoded.
#[derive(Clone, Copy)]
pub(crate) struct Encoding<'a> {
    pub(crate) row_ends: RowEnds,
    pub(crate) unencodable: Unencodable,
    pub(crate) context: &'a SaveContext<'a>,
}

pub(crate) enum EncodedBody {
    Tag,
    Raw(Slot),
    /// Encoded rows, and where each one ends if that was asked for.
    Rows {
        bytes: Writer,
        groups: Vec<Group>,
        ends: Vec<usize>,
    },
}

/// The functions of one component.
pub(crate) trait ErasedColumn: Send + Sync {
    /// Encodes rows.
    ///
    /// # Safety
    /// The rows must be live values of the component's type that nobody writes to meanwhile.
    #[expect(unsafe_code, reason = "rows without their type")]
    unsafe fn encode(&self, rows: RawRows<'_>, arena: &mut Arena, encoding: Encoding<'_>) -> Result<Encoded>;

    /// Ends the session of a save, if there is one.
    fn end_save(&self, sessions: &Sessions) -> Result<()>;

    /// Ends the session of a load, if there is one.
    fn end_load(&self, sessions: &Sessions) -> Result<()>;

    /// Bytes of a row, if columns are copied as they are.
    fn raw_stride(&self) -> Option<usize>;

    /// Copies some rows of a column that has a [`raw_stride`](ErasedColumn::raw_stride).
    ///
    /// # Safety
    /// As [`ErasedColumn::encode`].
    #[expect(unsafe_code, reason = "rows without their type")]
    unsafe fn gather(&self, rows: RawRows<'_>, range: Range<usize>, out: &mut [u8]);

    /// Decodes a column of equal schema.
    fn decode<'s>(
        &self,
        column: &'s Column,
        component: &Component,
        shared: Option<&'s Groups>,
        context: &LoadContext<'_>,
        copies: CopyPath,
    ) -> Result<StagedColumn<'s>>;

    /// Decodes rows that come one by one: `next` writes the bytes of each.
    fn decode_each<'s>(
        &self,
        count: usize,
        present: Option<&Bitmap>,
        context: &LoadContext<'_>,
        next: &mut dyn FnMut(&mut Writer) -> Result<()>,
    ) -> Result<StagedColumn<'s>>;

    /// Calls `found` with the rows whose saved part is not the same on both sides.
    ///
    /// # Safety
    /// On either side there are `len` live values of the component's type that nobody writes to meanwhile.
    #[expect(unsafe_code, reason = "rows without their type")]
    unsafe fn differing(&self, a: *const u8, b: *const u8, len: usize, found: &mut dyn FnMut(usize));

    /// The same functions, leaving out rows for which `skip`, a `SkipIf<T>`, is true.
    fn with_skip(&self, skip: Arc<dyn Any + Send + Sync>) -> Arc<dyn ErasedColumn>;

    /// The same functions, encoding what `replace`, a `Replace<T>`, returns in the place of values that cannot be encoded.
    fn with_replacement(&self, replace: Arc<dyn Any + Send + Sync>) -> Arc<dyn ErasedColumn>;

    /// The same functions, making rows that were stored as one value with `share`, a `ShareValue<T>`, of one value.
    fn with_share(&self, share: Arc<dyn Any + Send + Sync>) -> Arc<dyn ErasedColumn>;
}
