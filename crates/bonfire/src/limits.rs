//! What bytes from outside may make this crate allocate or do.
//!
//! Every count that a decoder reads is checked against one of these before it is acted on. The defaults are far above
//! what games need and far below what hurts a machine.

use crate::error::Result;
use crate::watch::Watch;

/// Bounds on what is read from bytes of unknown origin. Exceeding one is an error with
/// [`is_limit`](crate::Error::is_limit).
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of all sections of one file together, after decompression. Default: 4 GiB.
    pub raw_bytes_max: u64,
    /// Bytes of decoded values of one load, on top of the file itself. Default: 8 GiB.
    pub memory_bytes_max: u64,
    /// Sections of one file. Default: 1024.
    pub sections_max: u32,
    /// Components of one snapshot. Default: 65,536.
    pub components_max: u32,
    /// Archetypes of one snapshot. Default: 1,048,576.
    pub archetypes_max: u32,
    /// Entities of one snapshot. Default: 2^32 - 1.
    pub entities_max: u32,
    /// Entries of the data section. Default: 1,048,576.
    pub data_entries_max: u32,
    /// Nodes of one schema. Default: 65,536.
    pub schema_nodes_max: u32,
    /// How deeply values and schemas may nest; also kept when saving, so that nothing is saved that cannot be loaded.
    /// Default: 128.
    pub depth_max: u32,
    /// Elements that take no bytes (`Vec<()>`), in one load together; a few per row are free. Default: 1,048,576.
    pub empty_elements_max: u64,
    /// Counts the work and can stop it, wherever these limits go. Default: none.
    pub watch: Option<Watch>,
}

impl Limits {
    /// Counts work in the [`watch`](Self::watch), if there is one. Fails if the work was cancelled.
    ///
    /// Decoders call it once per list, column or archetype that they look at, with the number of its items.
    #[inline]
    pub fn step(&self, steps: usize) -> Result<()> {
        match &self.watch {
            Some(watch) => watch.step(steps as u64),
            None => Ok(()),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            raw_bytes_max: 4 << 30,
            memory_bytes_max: 8 << 30,
            sections_max: 1024,
            components_max: 1 << 16,
            archetypes_max: 1 << 20,
            entities_max: u32::MAX,
            data_entries_max: 1 << 20,
            schema_nodes_max: 1 << 16,
            depth_max: 128,
            empty_elements_max: 1 << 20,
            watch: None,
        }
    }
}
