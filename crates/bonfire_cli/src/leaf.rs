//! Which columns of a table a component becomes: one per leaf field of a struct, else one for the whole value.
//!
//! Schemas come from a file and may be large or endless when written out, so the walk is bounded: what would be too
//! deep or too wide stays one column.

use bonfire::Value;
use bonfire::inspect::{ColumnKind, Component};
use bonfire::schema::{Node, Schema, Type};

use crate::escape::escaped;
use crate::output::cell;

const DEPTH_MAX: usize = 8;
const LEAVES_MAX: usize = 48;

/// What stands where there is no value.
pub(crate) const MISSING: &str = "-";
/// What stands where there is a value that cannot be read.
pub(crate) const UNREADABLE: &str = "?";
/// What stands where an entity has a tag.
const TAGGED: &str = "yes";

/// A column of a table: its header, and the way to its value through the structs around it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub(crate) header: String,
    path: Vec<usize>,
    tag: bool,
}

impl Leaf {
    /// The leaves of a component, at least one.
    pub(crate) fn of(component: &Component) -> Vec<Self> {
        let key = escaped(&component.key);
        if component.kind == ColumnKind::Tag {
            return vec![Self { header: key, path: Vec::new(), tag: true }];
        }
        component.schema().map_or_else(|_| Self::whole(key.clone()), |schema| Self::of_schema(schema, &key))
    }

    fn whole(header: String) -> Vec<Self> {
        vec![Self { header, path: Vec::new(), tag: false }]
    }

    fn of_schema(schema: &Schema, key: &str) -> Vec<Self> {
        let mut leaves = Vec::new();
        match collect(schema, Node::ROOT, key, &mut Vec::new(), &mut leaves) {
            Ok(()) => leaves,
            Err(TooLarge) => Self::whole(key.to_owned()),
        }
    }

    /// What the table shows of a component's value.
    pub(crate) fn cell(&self, value: Option<&Value>) -> String {
        let Some(mut value) = value else { return MISSING.to_owned() };
        if self.tag {
            return TAGGED.to_owned();
        }
        for &index in &self.path {
            match value {
                Value::Struct(fields) if index < fields.len() => value = &fields[index].1,
                _ => return UNREADABLE.to_owned(),
            }
        }
        cell(value)
    }
}

struct TooLarge;

fn collect(
    schema: &Schema,
    node: Node,
    header: &str,
    path: &mut Vec<usize>,
    leaves: &mut Vec<Leaf>,
) -> Result<(), TooLarge> {
    match schema.get(node) {
        Type::Struct(fields) if !fields.is_empty() => {
            if path.len() == DEPTH_MAX {
                return Err(TooLarge);
            }
            for (index, field) in fields.iter().enumerate() {
                path.push(index);
                let header = format!("{header}.{}", escaped(&field.name));
                collect(schema, field.node, &header, path, leaves)?;
                path.pop();
            }
        }
        _ if leaves.len() == LEAVES_MAX => return Err(TooLarge),
        _ => leaves.push(Leaf { header: header.to_owned(), path: path.clone(), tag: false }),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bonfire::schema::{Field, SchemaBuilder};

    use super::*;

    /// A struct of `width` structs of `width` structs .. of bytes.
    fn nested(depth: usize, width: usize) -> Schema {
        let mut types = SchemaBuilder::new();
        let mut node = types.add(Type::U8);
        for _ in 0..depth {
            let fields = (0..width).map(|i| Field::new(format!("f{i}"), node)).collect();
            node = types.add(Type::Struct(fields));
        }
        types.finish(node)
    }

    fn headers(schema: &Schema) -> Vec<String> {
        Leaf::of_schema(schema, "k").into_iter().map(|leaf| leaf.header).collect()
    }

    #[test]
    fn structs_become_a_column_per_leaf() {
        assert_eq!(headers(&nested(0, 0)), ["k"]);
        assert_eq!(headers(&nested(2, 2)), ["k.f0.f0", "k.f0.f1", "k.f1.f0", "k.f1.f1"]);
        assert_eq!(headers(&nested(1, 0)), ["k"], "a struct without fields is shown as it is");
    }

    #[test]
    fn what_is_too_deep_or_too_wide_stays_one_column() {
        assert_eq!(headers(&nested(DEPTH_MAX, 1)).len(), 1);
        assert_eq!(headers(&nested(DEPTH_MAX, 1))[0].matches(".f0").count(), DEPTH_MAX);
        assert_eq!(headers(&nested(DEPTH_MAX + 1, 1)), ["k"]);
        assert_eq!(headers(&nested(1, LEAVES_MAX)).len(), LEAVES_MAX);
        assert_eq!(headers(&nested(1, LEAVES_MAX + 1)), ["k"]);
        assert_eq!(headers(&nested(8, 1000)), ["k"]);
    }
}
