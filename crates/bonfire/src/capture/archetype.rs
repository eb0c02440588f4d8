//! The columns of one archetype, or of the resources.

use std::borrow::Cow;

use bytes::Bytes;

use super::repeat::{dictionary, numbers};
use super::{CaptureFailure, ColumnMemory, Pending, PendingBody, PendingColumn, SnapshotWriter};
use crate::bulk::{CopyPath, RawRows};
use crate::column::{Body, Column, Groups};
use crate::descriptor::{EncodedBody, Encoding, Repeats, RowEnds, StagedColumn};
use crate::error::{Error, Result};
use crate::snapshot::Snapshot;
use crate::storage::{Bitmap, DirtyRows, EarlierColumn, in_pages};

pub(super) enum Target {
    Archetype(usize),
    Resources,
}

/// Takes the columns of one archetype.
pub struct ArchetypeWriter<'w, 'r> {
    pub(super) writer: &'w mut SnapshotWriter<'r>,
    pub(super) target: Target,
}

impl<'r> ArchetypeWriter<'_, 'r> {
    fn pending(&mut self) -> &mut Pending {
        match self.target {
            Target::Archetype(index) => &mut self.writer.archetypes[index],
            Target::Resources => &mut self.writer.resources,
        }
    }

    /// A column with one value per entity.
    pub fn column<T: 'static>(&mut self, rows: &[T]) -> Result<()> {
        let component = self.writer.registry.require::<T>()?;
        self.column_slice(component, rows)
    }

    /// A column with one value per entity, wherever they lie.
    #[expect(unsafe_code, reason = "references to the registered type are what `column_raw` asks for")]
    pub fn column_refs<T: 'static>(&mut self, rows: &[&T]) -> Result<()> {
        let component = self.writer.registry.require::<T>()?;
        let pointers: Vec<*const u8> = rows.iter().map(|&row| std::ptr::from_ref(row).cast()).collect();
        // SAFETY: the registry has `T` as the component's type; the references are borrowed for the call.
        unsafe { self.column_raw(component, RawRows::Pointers(&pointers)) }
    }

    /// A column of the component with this key, whose type must be `T`. For components that are found by key only,
    /// `T` is [`Value`](crate::Value).
    pub fn column_by_key<T: 'static>(&mut self, key: &str, rows: &[T]) -> Result<()> {
        let component = self.writer.registry.require_key::<T>(key)?;
        self.column_slice(component, rows)
    }

    /// A column that only some of the entities have.
    pub fn column_sparse<T: 'static>(&mut self, rows: &[Option<&T>]) -> Result<()> {
        let component = self.writer.registry.require::<T>()?;
        self.column_options(component, rows)
    }

    /// A column of the component with this key that only some of the entities have.
    pub fn column_sparse_by_key<T: 'static>(&mut self, key: &str, rows: &[Option<&T>]) -> Result<()> {
        let component = self.writer.registry.require_key::<T>(key)?;
        self.column_options(component, rows)
    }

    #[expect(unsafe_code, reason = "a slice of the registered type is what `column_raw` asks for")]
    fn column_slice<T: 'static>(&mut self, component: usize, rows: &[T]) -> Result<()> {
        debug_assert_eq!(self.writer.registry.descriptors()[component].type_id, std::any::TypeId::of::<T>());
        // SAFETY: the registry has `T` as the component's type; the slice is borrowed for the call.
        unsafe { self.column_raw(component, RawRows::Slice { base: rows.as_ptr().cast(), len: rows.len() }) }
    }

    #[expect(unsafe_code, reason = "references to the registered type are what `encode` asks for")]
    fn column_options<T: 'static>(&mut self, component: usize, rows: &[Option<&T>]) -> Result<()> {
        debug_assert_eq!(self.writer.registry.descriptors()[component].type_id, std::any::TypeId::of::<T>());
        let pointers: Vec<*const u8> =
            rows.iter().flatten().map(|&row| std::ptr::from_ref(row).cast()).collect();
        let present = Bitmap::from_rows(rows.iter().map(Option::is_some));
        self.check_rows(component, rows.len())?;
        // SAFETY: the registry has `T` as the component's type; the references are borrowed for the call.
        unsafe { self.encode(component, RawRows::Pointers(&pointers), present) }
    }

    /// A column by the number of its component and by pointers. Transient components are passed over.
    ///
    /// # Safety
    /// The rows must be live values of the component's Rust type, and nobody may write to them during the call.
    #[expect(unsafe_code, reason = "rows without their type")]
    pub unsafe fn column_raw(&mut self, component: usize, rows: RawRows<'_>) -> Result<()> {
        // SAFETY: the caller vouches for the rows.
        unsafe { self.column_over(component, rows, None) }
    }

    /// As [`ArchetypeWriter::column_raw`], for a capture that is made [over](SnapshotWriter::over) another: `dirty` says which
    /// rows may have other values than those in the same place there. Rows of another entity have, also where only the
    /// entity is another. If nothing is known, what is written is compared.
    ///
    /// # Safety
    /// As [`ArchetypeWriter::column_raw`].
    #[expect(unsafe_code, reason = "rows without their type")]
    pub unsafe fn column_over(
        &mut self,
        component: usize,
        rows: RawRows<'_>,
        dirty: Option<&DirtyRows>,
    ) -> Result<()> {
        self.check_rows(component, rows.len())?;
        let descriptor = &self.writer.registry.descriptors()[component];
        if descriptor.transient || self.pending().rows == 0 {
            return Ok(());
        }
        let len = rows.len();
        let bulk = self.writer.paged && self.writer.arena.copies == CopyPath::Bulk;
        let Some(stride) = descriptor.column.raw_stride().filter(|_| bulk) else {
            if dirty.is_some_and(|dirty| !dirty.any())
                && let Some(shared) = self.unchanged(component, &descriptor.key)
            {
                self.pending().columns.push(shared);
                return Ok(());
            }
            // SAFETY: the caller vouches for the rows.
            return unsafe { self.encode(component, rows, None) };
        };
        let place = self.pending().earlier;
        let pool = self.writer.arena.pool.clone();
        let earlier = self.earlier(place, &descriptor.key).and_then(|earlier| match &mut earlier.body {
            Body::Raw(rope) if earlier.present.is_none() => Some(EarlierColumn { rope, dirty }),
            _ => None,
        });
        let rope = in_pages(&pool, len, stride, earlier, |range, memory| {
            // SAFETY: the caller vouches for the rows.
            unsafe { descriptor.column.gather(rows, range, memory) };
        });
        let body = PendingBody::Raw(ColumnMemory::Pages(rope));
        self.pending().columns.push(PendingColumn { component, present: None, rows: len, body });
        Ok(())
    }

    /// The column of a component in the earlier capture.
    fn earlier(&mut self, place: Option<usize>, key: &str) -> Option<&mut Column> {
        let Snapshot { resources, archetypes, components, .. } = self.writer.earlier.as_mut()?;
        let columns = match self.target {
            Target::Resources => resources,
            Target::Archetype(_) => &mut archetypes.get_mut(place?)?.columns,
        };
        columns.iter_mut().find(|column| components[column.component as usize].key == key)
    }

    /// The encoded rows of a component in the earlier capture.
    fn known_rows(&mut self, key: &str) -> Option<Bytes> {
        let place = self.pending().earlier;
        match &self.earlier(place, key)?.body {
            Body::Rows(groups) => Some(groups.bytes.clone()),
            _ => None,
        }
    }

    /// A column that is not raw as it is in the earlier capture. One whose values are shared by all archetypes is not to be
    /// had, nor one that has remarks: they are counted again.
    fn unchanged(&mut self, component: usize, key: &str) -> Option<PendingColumn> {
        let (place, rows) = (self.pending().earlier, self.pending().rows);
        let snapshot = self.writer.earlier.as_ref()?;
        let same_length = match self.target {
            Target::Resources => true,
            Target::Archetype(_) => snapshot.archetypes.get(place?)?.rows == rows,
        };
        if !same_length || snapshot.notes.iter().any(|note| note.key == key) {
            return None;
        }
        let column = self.earlier(place, key)?;
        if matches!(column.body, Body::Shared { .. }) {
            return None;
        }
        let body = PendingBody::Ready(column.body.clone());
        Some(PendingColumn { component, present: column.present.clone(), rows: column.rows, body })
    }

    /// Decoded rows as a column again: for each entity the column and the row that its value lies in.
    #[expect(unsafe_code, reason = "staged rows are what `encode` asks for")]
    pub(crate) fn staged(
        &mut self,
        component: usize,
        rows: &[Option<(&StagedColumn<'_>, usize)>],
    ) -> Result<()> {
        self.check_rows(component, rows.len())?;
        let type_id = self.writer.registry.descriptors()[component].type_id;
        let pointer = |&(column, row): &(&StagedColumn<'_>, usize)| {
            assert!(column.row_type() == type_id && row < column.len());
            // SAFETY: there are more rows than `row`.
            unsafe { column.as_ptr().add(row * column.stride()) }
        };
        let pointers: Vec<*const u8> = rows.iter().flatten().map(pointer).collect();
        let present = Bitmap::from_rows(rows.iter().map(Option::is_some));
        // SAFETY: these are values of the component's type, borrowed for the call.
        unsafe { self.encode(component, RawRows::Pointers(&pointers), present) }
    }

    fn check_rows(&mut self, component: usize, rows: usize) -> Result<()> {
        let key: Cow<'static, str> = match self.writer.registry.descriptors().get(component) {
            Some(descriptor) => descriptor.key.clone(),
            None => return Err(Error::misuse(format!("component {component} is not registered"))),
        };
        let pending = self.pending();
        if pending.rows != rows {
            let expected = pending.rows;
            return Err(Error::misuse(format!("{rows} rows for {expected} entities")).in_key(&key));
        }
        if pending.columns.iter().any(|column| column.component == component) {
            return Err(Error::misuse("the archetype has this column already").in_key(&key));
        }
        Ok(())
    }

    /// # Safety
    /// As [`ArchetypeWriter::column_raw`]; `present` has one bit per entity and as many ones as there are rows.
    #[expect(unsafe_code, reason = "rows without their type")]
    unsafe fn encode(&mut self, component: usize, rows: RawRows<'_>, present: Option<Bitmap>) -> Result<()> {
        let descriptor = &self.writer.registry.descriptors()[component];
        if descriptor.transient || self.pending().rows == 0 {
            return Ok(());
        }
        let known = self.known_rows(&descriptor.key);
        let writer = &mut *self.writer;
        let ends = if descriptor.repeats == Repeats::Plain { RowEnds::Forget } else { RowEnds::Keep };
        let unencodable = descriptor.unencodable.unwrap_or(writer.unencodable);
        let encoding = Encoding { row_ends: ends, unencodable, context: &writer.context };
        // SAFETY: the caller vouches for the rows.
        let encoded = unsafe { descriptor.column.encode(rows, &mut writer.arena, encoding) };
        let encoded = encoded.map_err(|error| error.in_key(&descriptor.key))?;
        writer.notes.add(&descriptor.key, encoded.notes);
        for failure in encoded.failures {
            let row = match &present {
                Some(present) => (0..).filter(|&row| present.get(row)).nth(failure.first_row),
                None => Some(failure.first_row),
            };
            let place = match self.target {
                Target::Archetype(archetype) => row.map(|row| (archetype, row)),
                Target::Resources => None,
            };
            writer.failures.push(CaptureFailure { component, place, failure });
        }
        let present = match (present, encoded.present) {
            (None, skipped) => skipped,
            (Some(present), None) => Some(present),
            (Some(present), Some(kept)) => {
                let lost: Vec<usize> = (0..rows.len()).filter(|&row| !kept.get(row)).collect();
                Bitmap::without(Some(&present), rows.len(), &lost)
            }
        };
        if encoded.rows == 0 {
            return Ok(()); // Nobody has it after all.
        }
        let body = match encoded.body {
            EncodedBody::Tag => PendingBody::Tag,
            EncodedBody::Raw(slot) => PendingBody::Raw(ColumnMemory::Arena(slot)),
            EncodedBody::Rows { bytes, groups, ends } => {
                let repeated = match descriptor.repeats {
                    Repeats::Plain => None,
                    Repeats::Dictionary => dictionary(bytes.as_bytes(), &ends).map(PendingBody::Ready),
                    Repeats::Shared => {
                        let values = writer.shared.entry(component).or_default();
                        Some(PendingBody::Shared(numbers(bytes.as_bytes(), &ends, values)))
                    }
                };
                let body = repeated.unwrap_or_else(|| match writer.paged {
                    true => {
                        let known = known.filter(|known| **known == *bytes.as_bytes());
                        let bytes = known.unwrap_or_else(|| Bytes::copy_from_slice(bytes.as_bytes()));
                        PendingBody::Ready(Body::Rows(Groups::new(bytes, groups)))
                    }
                    false => PendingBody::Rows(writer.arena.store(bytes.as_bytes()), groups),
                });
                writer.arena.recycle(bytes);
                body
            }
        };
        let rows = encoded.rows;
        self.pending().columns.push(PendingColumn { component, present, rows, body });
        Ok(())
    }
}
