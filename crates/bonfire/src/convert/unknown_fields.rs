//! Fields of a save that this build's type does not have: found, and kept as a value of their own.

use std::borrow::Cow;
use std::sync::Arc;

use super::Conversion;
use super::conversion::{FieldStep, Step};
use crate::schema::{Field, Fields, Node, Schema, Type};
use crate::value::Value;

/// Deeper than any game nests its structs.
const DEPTH_MAX: usize = 32;
/// More fields than any game removes at once.
const FIELDS_MAX: usize = 1 << 12;

/// The unknown fields of a type: a struct of just those, and where they lie in a value.
#[derive(Debug)]
pub(crate) struct UnknownFields {
    pub(crate) schema: Arc<Schema>,
    parts: Vec<UnknownField>,
}

#[derive(Debug)]
struct UnknownField {
    /// Its number among the fields of the saved struct.
    number: usize,
    /// Its name here and its unknown fields, if others of it are known.
    inner: Option<(Cow<'static, str>, Vec<UnknownField>)>,
}

impl UnknownFields {
    /// Nothing if everything is known.
    pub(crate) fn of(conversion: &Conversion) -> Option<Self> {
        let mut nodes = conversion.source.nodes().to_vec();
        let mut left = FIELDS_MAX;
        let parts = parts(conversion, 0, DEPTH_MAX, &mut left)?;
        let root = partial(&mut nodes, conversion.nodes[0].0, &parts);
        Some(Self { schema: Arc::new(Schema::rooted(&nodes, root)), parts })
    }

    /// The unknown part of a saved value.
    pub(crate) fn pick(&self, value: Value) -> Value {
        pick(&self.parts, value)
    }
}

/// The unknown fields at a step, if there are any.
fn parts(conversion: &Conversion, step: usize, depth: usize, left: &mut usize) -> Option<Vec<UnknownField>> {
    let Step::Fields(fields) = &conversion.steps[step] else { return None };
    let (source, target) = conversion.nodes[step];
    let Type::Struct(source) = conversion.source.get(source) else { return None };
    // A type that has lost all its fields knows of none.
    let none = Fields::default();
    let target = match &conversion.target.ruled_nodes()[target.index()] {
        Type::Struct(fields) => fields,
        _ => &none,
    };
    let mut known: Vec<Option<(&Field, usize)>> = vec![None; source.len()];
    for (field, step) in target.iter().zip(&fields.target) {
        if let FieldStep::Saved(number, step) = step {
            known[*number] = Some((field, *step));
        }
    }
    let mut parts = Vec::new();
    for (number, field) in source.iter().enumerate() {
        let inner = match known[number] {
            None if target.is_removed(&field.name) => continue,
            None => None,
            Some(_) if depth == 0 => continue,
            Some((field, step)) => match self::parts(conversion, step, depth - 1, left) {
                None => continue,
                // The rest of it will be saved under the name that it has here.
                Some(inner) => Some((field.name.clone(), inner)),
            },
        };
        *left = left.checked_sub(1)?;
        parts.push(UnknownField { number, inner });
    }
    (!parts.is_empty()).then_some(parts)
}

/// Adds the struct of some fields of another one to the nodes.
fn partial(nodes: &mut Vec<Type>, of: Node, parts: &[UnknownField]) -> Node {
    let fields = match &nodes[of.index()] {
        Type::Struct(fields) => fields.clone(),
        _ => Fields::default(),
    };
    let mut kept = Vec::with_capacity(parts.len());
    for part in parts {
        let field = &fields[part.number];
        kept.push(match &part.inner {
            Some((name, inner)) => Field::new(name.clone(), partial(nodes, field.node, inner)),
            None => Field::new(field.name.clone(), field.node),
        });
    }
    nodes.push(Type::Struct(kept.into()));
    Node(nodes.len() as u32 - 1)
}

fn pick(parts: &[UnknownField], value: Value) -> Value {
    let Value::Struct(fields) = value else { return Value::Struct(Vec::new()) };
    let mut fields: Vec<Option<(String, Value)>> = fields.into_iter().map(Some).collect();
    let take = |part: &UnknownField| {
        let (name, value) = fields.get_mut(part.number)?.take()?;
        Some(match &part.inner {
            Some((name, inner)) => (name.to_string(), pick(inner, value)),
            None => (name, value),
        })
    };
    Value::Struct(parts.iter().filter_map(take).collect())
}
