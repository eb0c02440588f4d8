//! What is remarked while a world is saved: losses that do not stop the save, and numbers that are none.

use std::collections::BTreeMap;

/// Something that a save remarked about a component.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Note {
    /// The component or resource.
    pub key: String,
    /// What about it.
    pub remark: String,
    /// How many values it is about.
    pub count: usize,
}

/// Remarks of columns, counted.
#[derive(Default)]
pub(crate) struct Notes(BTreeMap<(String, &'static str), usize>);

impl Notes {
    pub(crate) fn add(&mut self, key: &str, remarks: Vec<&'static str>) {
        for remark in remarks {
            self.count(key, remark, 1);
        }
    }

    pub(crate) fn count(&mut self, key: &str, remark: &'static str, count: usize) {
        *self.0.entry((key.to_owned(), remark)).or_default() += count;
    }

    pub(crate) fn finish(self) -> Vec<Note> {
        let note =
            |((key, remark), count): ((String, &str), usize)| Note { key, remark: remark.to_owned(), count };
        self.0.into_iter().map(note).collect()
    }
}
