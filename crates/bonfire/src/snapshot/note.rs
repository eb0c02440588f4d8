//! What is remarked while a world is saved: losses that do not stop the save, and numbers that are none.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// Something that a save remarked: values that it changed or left out, and components that it does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Note {
    /// The key of the component or resource, or the name of a type that is not registered.
    pub key: String,
    /// What about it.
    pub remark: String,
    /// How many values or entities it is about.
    pub count: usize,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` ({}): {}", self.key, self.count, self.remark)
    }
}

/// Remarks of columns, counted.
#[derive(Default)]
pub(crate) struct Notes(BTreeMap<(String, Cow<'static, str>), usize>);

impl Notes {
    pub(crate) fn add(&mut self, key: &str, remarks: Vec<&'static str>) {
        for remark in remarks {
            self.count(key, remark, 1);
        }
    }

    pub(crate) fn count(&mut self, key: &str, remark: impl Into<Cow<'static, str>>, count: usize) {
        *self.0.entry((key.to_owned(), remark.into())).or_default() += count;
    }

    pub(crate) fn finish(self) -> Vec<Note> {
        let notes = self.0.into_iter();
        notes.map(|((key, remark), count)| Note { key, remark: remark.into_owned(), count }).collect()
    }
}
