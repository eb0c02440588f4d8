//! The fields of a schema by the paths to them, with their frozen defaults: what a lock compares over releases.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::context::LoadContext;
use crate::convert::{Conversion, ConversionScratch};
use crate::limits::Limits;
use crate::schema::{Field, Node, Schema, Type};
use crate::value::decode_value;
use crate::wire::{Reader, Writer};

/// The value of a field for saves that do not have it.
pub(super) struct FrozenDefault {
    pub(super) schema: Arc<Schema>,
    pub(super) bytes: Vec<u8>,
}

impl FrozenDefault {
    /// The same value as another type, if it can become one.
    pub(super) fn became(&self, schema: &Arc<Schema>) -> Option<Vec<u8>> {
        let limits = Limits::default();
        let context = LoadContext::new(&limits);
        let conversion = Conversion::new(Arc::clone(&self.schema), Arc::clone(schema)).ok()?;
        let mut out = Writer::new();
        conversion
            .run(&mut Reader::new(&self.bytes, &context), &mut out, &mut ConversionScratch::default())
            .ok()?;
        out.finish().ok()
    }
}

impl fmt::Display for FrozenDefault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = Limits::default();
        match decode_value(
            &self.schema,
            Node::ROOT,
            &mut Reader::new(&self.bytes, &LoadContext::new(&limits)),
        ) {
            Ok(value) => write!(f, "{value}"),
            Err(_) => write!(f, "{} bytes", self.bytes.len()),
        }
    }
}

/// The default of each field, by the path to it.
pub(super) fn defaults(schema: &Schema) -> BTreeMap<String, FrozenDefault> {
    let mut found = BTreeMap::new();
    let nodes = schema.ruled_nodes();
    visit(nodes, &mut |path, field| {
        let Some((node, default)) = field.and_then(|field| Some((field.node, field.rules.default.as_ref()?)))
        else {
            return;
        };
        let mut out = Writer::new();
        default.write(&mut out);
        let schema = Arc::new(Schema::rooted(nodes, node));
        found.insert(path.to_owned(), FrozenDefault { schema, bytes: out.into_memory() });
    });
    found
}

/// The path to each field.
pub(super) fn paths(schema: &Schema) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    visit(schema.ruled_nodes(), &mut |path, _| {
        found.insert(path.to_owned());
    });
    found
}

/// The path to each field that has a name.
pub(super) fn names(schema: &Schema) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    visit(schema.ruled_nodes(), &mut |path, field| {
        if field.is_some_and(|field| !field.name.is_empty()) {
            found.insert(path.to_owned());
        }
    });
    found
}

/// Calls `see` with the path to each field and variant, each type once.
fn visit(nodes: &[Type], see: &mut dyn FnMut(&str, Option<&Field>)) {
    let mut seen = vec![false; nodes.len()];
    let mut stack = vec![(Node::ROOT, String::new())];
    while let Some((node, path)) = stack.pop() {
        if std::mem::replace(&mut seen[node.index()], true) {
            continue;
        }
        let join = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        match &nodes[node.index()] {
            Type::Struct(fields) | Type::Tuple(fields) => {
                for (i, field) in fields.iter().enumerate() {
                    let path = if field.name.is_empty() { join(&i.to_string()) } else { join(&field.name) };
                    see(&path, Some(field));
                    stack.push((field.node, path));
                }
            }
            Type::Enum(variants) => {
                for variant in variants {
                    let path = join(&variant.name);
                    see(&path, None);
                    stack.push((variant.node, path));
                }
            }
            ty => stack.extend(ty.children().map(|child| (child, join("element")))),
        }
    }
}
