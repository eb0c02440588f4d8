//! The fields of structs and tuples, and what a build knows of their past.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::Node;
use crate::wire::Writer;

/// A field of a struct or tuple.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name in the save; empty in a tuple.
    pub name: Cow<'static, str>,
    /// Its type.
    pub node: Node,
    /// How this build reads saves that have the field under another name, or not at all. Not saved, not compared.
    pub rules: FieldRules,
}

/// What a build knows about the past of a field.
#[derive(Clone, Debug, Default)]
pub struct FieldRules {
    /// Names the field had before.
    pub aliases: Vec<Cow<'static, str>>,
    /// The value for saves that are older than the field.
    pub default: Option<FieldDefault>,
}

/// The value of a field for saves that do not have it.
#[derive(Clone, Debug)]
pub enum FieldDefault {
    /// Writes it. Called once per load, so that all values get the same.
    Computed(fn(&mut Writer)),
    /// Its encoded bytes.
    Bytes(Arc<[u8]>),
}

impl FieldDefault {
    /// Writes the value.
    pub fn write(&self, out: &mut Writer) {
        match self {
            Self::Computed(write) => write(out),
            Self::Bytes(bytes) => out.raw(bytes),
        }
    }
}

impl Field {
    /// A field without a past.
    pub fn new(name: impl Into<Cow<'static, str>>, node: Node) -> Self {
        Self { name: name.into(), node, rules: FieldRules::default() }
    }
    /// Adds a name that the field had before.
    pub fn alias(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.rules.aliases.push(name.into());
        self
    }
    /// Sets the value for saves that are older than the field.
    pub fn default(mut self, write: fn(&mut Writer)) -> Self {
        self.rules.default = Some(FieldDefault::Computed(write));
        self
    }
    /// As [`Field::default`], if there is one.
    #[doc(hidden)]
    pub fn default_if(self, write: Option<fn(&mut Writer)>) -> Self {
        match write {
            Some(write) => self.default(write),
            None => self,
        }
    }
}

impl PartialEq for Field {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.node) == (&other.name, other.node)
    }
}
impl Eq for Field {}
impl std::hash::Hash for Field {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (&self.name, self.node).hash(state);
    }
}

/// The fields of a struct or tuple, in order.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    list: Vec<Field>,
    removed: Vec<Cow<'static, str>>,
}

impl Fields {
    /// Names a field that there was once: saves that have it lose it. Not saved, not compared.
    pub fn removed(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.removed.push(name.into());
        self
    }
    /// Whether there was a field of this name once, and knowingly is no more.
    pub fn is_removed(&self, name: &str) -> bool {
        self.removed.iter().any(|removed| removed == name)
    }
    /// The names of fields that knowingly are no more.
    pub fn removed_names(&self) -> &[Cow<'static, str>] {
        &self.removed
    }

    pub(super) fn has_rules(&self) -> bool {
        let ruled = |field: &Field| !field.rules.aliases.is_empty() || field.rules.default.is_some();
        !self.removed.is_empty() || self.list.iter().any(ruled)
    }
    pub(super) fn forget_rules(&mut self) {
        self.removed.clear();
        self.list.iter_mut().for_each(|field| field.rules = FieldRules::default());
    }
}

impl Deref for Fields {
    type Target = [Field];

    fn deref(&self) -> &[Field] {
        &self.list
    }
}
impl DerefMut for Fields {
    fn deref_mut(&mut self) -> &mut [Field] {
        &mut self.list
    }
}
impl From<Vec<Field>> for Fields {
    fn from(list: Vec<Field>) -> Self {
        Self { list, removed: Vec::new() }
    }
}
impl FromIterator<Field> for Fields {
    fn from_iter<I: IntoIterator<Item = Field>>(fields: I) -> Self {
        Vec::from_iter(fields).into()
    }
}
impl<'a> IntoIterator for &'a Fields {
    type Item = &'a Field;
    type IntoIter = std::slice::Iter<'a, Field>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}
impl PartialEq for Fields {
    fn eq(&self, other: &Self) -> bool {
        self.list == other.list
    }
}
impl Eq for Fields {}
impl std::hash::Hash for Fields {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.list.hash(state);
    }
}
