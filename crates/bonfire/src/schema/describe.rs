//! Schemas as people read them, and where two of them differ.

use std::collections::HashSet;
use std::fmt;

use super::{Field, Node, Schema, Type};

const DEPTH_SHOWN: usize = 8;
const NODES_SHOWN: usize = 400;
const PAIRS_COMPARED: usize = 10_000;

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(
            &self.nodes,
            Node::ROOT,
            &mut DescribeBudget { path: vec![], depth_max: DEPTH_SHOWN, left: NODES_SHOWN },
            f,
        )
    }
}

/// How far a description has come: a schema from a file may be small and yet endless when written out.
struct DescribeBudget {
    path: Vec<Node>,
    depth_max: usize,
    left: usize,
}

fn show(nodes: &[Type], node: Node, shown: &mut DescribeBudget, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if shown.left == 0 {
        return f.write_str("..");
    }
    shown.left -= 1;
    if shown.path.contains(&node) {
        return f.write_str("self");
    }
    if shown.path.len() == shown.depth_max {
        return f.write_str("..");
    }
    shown.path.push(node);
    match &nodes[node.index()] {
        Type::Option(some) => {
            show(nodes, *some, shown, f)?;
            f.write_str("?")?;
        }
        Type::List(element) => {
            f.write_str("[")?;
            show(nodes, *element, shown, f)?;
            f.write_str("]")?;
        }
        Type::Set(element) => {
            f.write_str("set[")?;
            show(nodes, *element, shown, f)?;
            f.write_str("]")?;
        }
        Type::Array(element, len) => {
            f.write_str("[")?;
            show(nodes, *element, shown, f)?;
            write!(f, "; {len}]")?;
        }
        Type::Map(key, value) => {
            f.write_str("map[")?;
            show(nodes, *key, shown, f)?;
            f.write_str(" -> ")?;
            show(nodes, *value, shown, f)?;
            f.write_str("]")?;
        }
        Type::Tuple(fields) => {
            f.write_str("(")?;
            for (i, field) in fields.iter().enumerate() {
                f.write_str(if i > 0 { ", " } else { "" })?;
                if shown.left == 0 {
                    f.write_str("..")?;
                    break;
                }
                show(nodes, field.node, shown, f)?;
            }
            f.write_str(")")?;
        }
        Type::Struct(fields) => {
            f.write_str("{")?;
            for (i, field) in fields.iter().enumerate() {
                f.write_str(if i > 0 { ", " } else { "" })?;
                if shown.left == 0 {
                    f.write_str("..")?;
                    break;
                }
                write!(f, "{}: ", field.name.escape_debug())?;
                show(nodes, field.node, shown, f)?;
            }
            f.write_str("}")?;
        }
        Type::Enum(variants) => {
            for (i, variant) in variants.iter().enumerate() {
                f.write_str(if i > 0 { " | " } else { "" })?;
                if shown.left == 0 {
                    f.write_str("..")?;
                    break;
                }
                write!(f, "{}", variant.name.escape_debug())?;
                match &nodes[variant.node.index()] {
                    Type::Unit => shown.left -= 1,
                    _ => show(nodes, variant.node, shown, f)?,
                }
            }
        }
        simple => f.write_str(simple.name())?,
    }
    shown.path.pop();
    Ok(())
}

/// A node in a few words.
pub(crate) fn node_text(nodes: &[Type], node: Node) -> String {
    struct At<'a>(&'a [Type], Node);
    impl fmt::Display for At<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            show(self.0, self.1, &mut DescribeBudget { path: vec![], depth_max: 3, left: 24 }, f)
        }
    }
    At(nodes, node).to_string()
}

impl Schema {
    /// In words, the first place where `self` (the save) differs from `other` (this build).
    pub fn difference(&self, other: &Self) -> Option<String> {
        if self == other {
            return None;
        }
        let mut search = DifferenceSearch {
            saved: self,
            registered: other,
            path: String::new(),
            depth: 0,
            seen: HashSet::new(),
        };
        let found = search.compare(Node::ROOT, Node::ROOT);
        Some(found.unwrap_or_else(|| "they nest in different ways".to_owned()))
    }
}

/// Looks for the first difference between the schema of a save and that of this build.
struct DifferenceSearch<'a> {
    saved: &'a Schema,
    registered: &'a Schema,
    /// The field that is being compared.
    path: String,
    depth: u32,
    seen: HashSet<(Node, Node)>,
}

impl DifferenceSearch<'_> {
    /// The field that is being compared, in words.
    fn place(&self) -> String {
        if self.path.is_empty() { String::new() } else { format!("in `{}` ", self.path) }
    }

    /// Compares two nodes that stand in a field with this name.
    fn compare_field(&mut self, name: &str, saved: Node, registered: Node) -> Option<String> {
        let len = self.path.len();
        if !self.path.is_empty() && !name.is_empty() {
            self.path.push('.');
        }
        self.path.extend(name.escape_debug());
        self.depth += 1;
        let found = self.compare(saved, registered);
        self.depth -= 1;
        self.path.truncate(len);
        found
    }

    fn compare(&mut self, saved: Node, registered: Node) -> Option<String> {
        if !self.seen.insert((saved, registered)) || self.depth > 64 || self.seen.len() > PAIRS_COMPARED {
            return None;
        }
        match (self.saved.get(saved), self.registered.get(registered)) {
            (Type::Struct(old), Type::Struct(new)) => {
                let has = |list: &[Field], name: &str| list.iter().any(|field| field.name == name);
                if let Some(gone) = old.iter().find(|field| !has(new, &field.name)) {
                    return Some(format!(
                        "{}the save has field `{}`, this build has not",
                        self.place(),
                        gone.name
                    ));
                }
                if let Some(added) = new.iter().find(|field| !has(old, &field.name)) {
                    return Some(format!(
                        "{}this build has field `{}`, the save has not",
                        self.place(),
                        added.name
                    ));
                }
                if let Some((old, new)) = old.iter().zip(new).find(|(old, new)| old.name != new.name) {
                    let place = self.place();
                    return Some(format!(
                        "{place}field `{}` stands where this build has `{}`",
                        old.name.escape_debug(),
                        new.name.escape_debug()
                    ));
                }
                old.iter().zip(new).find_map(|(old, new)| self.compare_field(&old.name, old.node, new.node))
            }
            (Type::Enum(old), Type::Enum(new)) => {
                if let Some((old, new)) = old.iter().zip(new).find(|(old, new)| old.name != new.name) {
                    let place = self.place();
                    return Some(format!(
                        "{place}variant `{}` stands where this build has `{}`",
                        old.name.escape_debug(),
                        new.name.escape_debug()
                    ));
                }
                if old.len() != new.len() {
                    return Some(format!(
                        "{}{} variants, this build has {}",
                        self.place(),
                        old.len(),
                        new.len()
                    ));
                }
                old.iter().zip(new).find_map(|(old, new)| self.compare_field(&old.name, old.node, new.node))
            }
            (Type::Tuple(old), Type::Tuple(new)) if old.len() == new.len() => {
                (0..old.len()).find_map(|i| self.compare_field(&i.to_string(), old[i].node, new[i].node))
            }
            (Type::Option(old), Type::Option(new))
            | (Type::List(old), Type::List(new))
            | (Type::Set(old), Type::Set(new)) => self.compare_field("", *old, *new),
            (Type::Array(old, old_len), Type::Array(new, new_len)) if old_len == new_len => {
                self.compare_field("", *old, *new)
            }
            (Type::Map(old_key, old), Type::Map(new_key, new)) => self
                .compare_field("key", *old_key, *new_key)
                .or_else(|| self.compare_field("value", *old, *new)),
            (old, new) if old == new && old.children().next().is_none() => None,
            _ => {
                let saved = node_text(&self.saved.nodes, saved);
                let registered = node_text(&self.registered.nodes, registered);
                Some(format!("{}the save has {saved}, this build has {registered}", self.place()))
            }
        }
    }
}

impl Type {
    /// The name that tools and the JSON table use.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unit => "unit",
            Self::Bool => "bool",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::U128 => "u128",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::I128 => "i128",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Char => "char",
            Self::Text => "text",
            Self::Bytes => "bytes",
            Self::Entity => "entity",
            Self::Dynamic => "dynamic",
            Self::Option(_) => "option",
            Self::List(_) => "list",
            Self::Set(_) => "set",
            Self::Array(..) => "array",
            Self::Map(..) => "map",
            Self::Tuple(_) => "tuple",
            Self::Struct(_) => "struct",
            Self::Enum(_) => "enum",
        }
    }
}
