//! How the persisted fields of a type lie in memory, known at compile time.
//!
//! A type is *bulk* if all its persisted data is a handful of fixed-size leaves at fixed offsets. If the leaves cover
//! the type, its column is one copy (*plain*); if there are gaps from padding or skipped fields, it is gathered and
//! scattered (*strided*); everything else goes through encoded *rows*. The derive computes a [`Layout`] in a `const`
//! from `offset_of!` and the fields' own layouts, so users never write `repr(C)`.
//!
//! The order of leaves is the order of the schema, whatever order the compiler chose in memory.

/// More leaves than this and a type is stored as rows.
pub const LEAVES_MAX: usize = 32;

/// Which bit patterns of a leaf are values of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeafCheck {
    /// All of them.
    Any,
    /// Bytes 0 and 1.
    Bool,
    /// Unicode scalar values, as 32 bits.
    Char,
    /// Bytes below this number: an enum without data.
    Below(u8),
    /// Everything but zero.
    NonZero,
}

/// A run of bytes that holds one number, or an array of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Where it starts in the type, in bytes.
    pub offset: u32,
    /// How many bytes it has.
    pub size: u32,
    /// How many bytes one element has; `size` is a multiple of it.
    pub unit: u32,
    /// What each element must satisfy.
    pub check: LeafCheck,
}

/// The leaves of a type, in the order of its schema, or the fact that it has none ([`Layout::ROWS`]).
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    size: u32,
    bulk: bool,
    /// Some fields are not leaves and must be written by the type's filler, even if they have no bytes.
    filled: bool,
    count: u8,
    leaves: [Leaf; LEAVES_MAX],
}

impl Layout {
    const NONE: Leaf = Leaf { offset: 0, size: 0, unit: 1, check: LeafCheck::Any };

    /// The layout of everything that is encoded row by row.
    pub const ROWS: Self =
        Self { size: 0, bulk: false, filled: false, count: 0, leaves: [Self::NONE; LEAVES_MAX] };

    /// A type without data, such as a unit struct.
    pub const UNIT: Self =
        Self { size: 0, bulk: true, filled: false, count: 0, leaves: [Self::NONE; LEAVES_MAX] };

    /// A single number of `size` bytes.
    pub const fn leaf(size: usize, check: LeafCheck) -> Self {
        let mut layout = Self::UNIT;
        layout.size = size as u32;
        layout.count = 1;
        layout.leaves[0] = Leaf { offset: 0, size: size as u32, unit: size as u32, check };
        layout
    }

    /// A struct or tuple of `size` bytes with persisted `fields` (offset and layout), in the order of the schema.
    /// Bytes outside of them are padding, or [skipped fields](Self::with_skipped_fields).
    pub const fn aggregate(size: usize, fields: &[(usize, Self)]) -> Self {
        let mut layout = Self::UNIT;
        layout.size = size as u32;
        if size > u32::MAX as usize {
            return Self::ROWS;
        }
        let mut field = 0;
        while field < fields.len() {
            let (offset, inner) = &fields[field];
            if !inner.bulk || layout.count as usize + inner.count as usize > LEAVES_MAX {
                return Self::ROWS;
            }
            layout.filled |= inner.filled;
            let mut leaf = 0;
            while leaf < inner.count as usize {
                let mut moved = inner.leaves[leaf];
                moved.offset += *offset as u32;
                layout.leaves[layout.count as usize] = moved;
                layout.count += 1;
                leaf += 1;
            }
            field += 1;
        }
        layout
    }

    /// The same layout of a type that also has fields which are not persisted, even if they have no bytes.
    pub const fn with_skipped_fields(mut self) -> Self {
        self.filled = true;
        self
    }

    /// An array of `len` elements. It is one leaf if the elements are dense and uniform, otherwise rows.
    pub const fn array(element: Self, len: usize) -> Self {
        let Some(size) = (element.size as usize).checked_mul(len) else { return Self::ROWS };
        if !element.is_dense() || size > u32::MAX as usize {
            return Self::ROWS;
        }
        if size == 0 {
            return Self::UNIT;
        }
        let mut unit = element.size;
        let mut check = LeafCheck::Any;
        let mut leaf = 0;
        while leaf < element.count as usize {
            if !matches!(element.leaves[leaf].check, LeafCheck::Any) {
                if element.count > 1 {
                    return Self::ROWS;
                }
                check = element.leaves[leaf].check;
                unit = element.leaves[leaf].unit;
            }
            leaf += 1;
        }
        let mut layout = Self::UNIT;
        layout.size = size as u32;
        layout.count = 1;
        layout.leaves[0] = Leaf { offset: 0, size: size as u32, unit, check };
        layout
    }

    /// An enum without data, given all its variants in order. It is one byte if the compiler stores the variant's
    /// number, otherwise rows.
    ///
    /// # Safety
    /// `E` must be an enum without fields and `variants` must be all of its variants.
    #[expect(unsafe_code, reason = "looks at the bytes of an enum")]
    pub const unsafe fn unit_enum<E>(variants: &[E]) -> Self {
        if size_of::<E>() != 1 || variants.len() > 128 {
            return Self::ROWS;
        }
        let mut i = 0;
        while i < variants.len() {
            // SAFETY: `E` has one byte, and an enum without fields that has one byte initialises it.
            let byte = unsafe { *variants.as_ptr().add(i).cast::<u8>() };
            if byte as usize != i {
                return Self::ROWS;
            }
            i += 1;
        }
        // `encode` writes the number as one byte too, because there are at most 128.
        Self::leaf(1, LeafCheck::Below(variants.len() as u8))
    }

    /// Whether columns of the type can be copied without looking at rows one by one.
    pub const fn is_bulk(&self) -> bool {
        self.bulk
    }

    /// The leaves, in the order of the schema.
    pub fn leaves(&self) -> &[Leaf] {
        &self.leaves[..self.count as usize]
    }

    /// The bytes of one value in memory.
    pub const fn size(&self) -> usize {
        self.size as usize
    }

    /// The bytes of all leaves.
    pub const fn data_size(&self) -> usize {
        let mut sum = 0;
        let mut leaf = 0;
        while leaf < self.count as usize {
            sum += self.leaves[leaf].size as usize;
            leaf += 1;
        }
        sum
    }

    /// Whether a value is its leaves and nothing else.
    pub const fn is_plain(&self) -> bool {
        self.bulk && !self.filled && self.data_size() == self.size as usize
    }

    /// Whether the bytes in memory are exactly the bytes of an encoded row: plain, and in the order of the schema.
    pub const fn is_dense(&self) -> bool {
        let mut at = 0;
        let mut leaf = 0;
        while leaf < self.count as usize {
            if self.leaves[leaf].offset != at {
                return false;
            }
            at += self.leaves[leaf].size;
            leaf += 1;
        }
        self.bulk && !self.filled && at == self.size
    }

    /// Whether some bit patterns are not values.
    pub const fn is_checked(&self) -> bool {
        let mut leaf = 0;
        while leaf < self.count as usize {
            if !matches!(self.leaves[leaf].check, LeafCheck::Any) {
                return true;
            }
            leaf += 1;
        }
        false
    }
}

/// The layout of the type `T`: a [`Layout`] with the promise that it is true, and the function that completes a value
/// whose leaves were written.
pub struct LayoutOf<T> {
    layout: Layout,
    fill: Fill<T>,
}

/// Writes the fields of a value that are not saved.
type Fill<T> = unsafe fn(*mut T);

#[expect(unsafe_code, reason = "completes rows that were copied in bulk")]
impl<T> LayoutOf<T> {
    /// Nothing is promised: values are encoded row by row. Always right.
    pub const ROWS: Self = Self { layout: Layout::ROWS, fill: |_| {} };

    /// Promises a layout of a type that has no fields but its leaves.
    ///
    /// # Safety
    /// As [`LayoutOf::with_fill`], without anything to fill.
    pub const unsafe fn new(layout: Layout) -> Self {
        Self { layout, fill: |_| {} }
    }

    /// Promises a layout, and that `fill` completes a value.
    ///
    /// # Safety
    /// The size must be that of `T`. Every leaf must be initialised in every value of `T` and have no interior
    /// mutability. Bytes that pass the leaves' checks, put into all leaves of a `T` on which `fill` is then called,
    /// must make a value, and on a little-endian host the bytes of the leaves in order must be what `encode` writes.
    /// `fill` may rely on the leaves being written. If it has anything to do, the layout must say so.
    pub const unsafe fn with_fill(layout: Layout, fill: unsafe fn(*mut T)) -> Self {
        Self { layout, fill }
    }

    /// The layout without its type.
    pub const fn get(&self) -> Layout {
        self.layout
    }

    /// Completes a value.
    ///
    /// # Safety
    /// `row` must be valid for writes, and all leaves of the value must be written and checked.
    #[inline]
    pub unsafe fn fill(&self, row: *mut T) {
        // SAFETY: the caller vouches for the row.
        unsafe { (self.fill)(row) }
    }
}
