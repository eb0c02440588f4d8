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
    if shown.path.contains(&node) {
        return f.write_str("self");
    }
    if shown.path.len() == shown.depth_max || shown.left == 0 {
        return f.write_str("..");
    }
    shown.path.push(node);
    shown.left -= 1;
    let mut inner = |node: Node, f: &mut fmt::Formatter<'_>| show(nodes, node, shown, f);
    match &nodes[node.index()] {
        Type::Option(some) => {
            inner(*some, f)?;
            f.write_str("?")?;
        }
        Type::List(element) => {
            f.write_str("[")?;
            inner(*element, f)?;
            f.write_str("]")?;
        }
        Type::Set(element) => {
            f.write_str("set[")?;
            inner(*element, f)?;
            f.write_str("]")?;
        }
        Type::Array(element, len) => {
            f.write_str("[")?;
            inner(*element, f)?;
            write!(f, "; {len}]")?;
        }
        Type::Map(key, value) => {
            f.write_str("map[")?;
            inner(*key, f)?;
            f.write_str(" -> ")?;
            inner(*value, f)?;
            f.write_str("]")?;
        }
        Type::Tuple(fields) => {
            f.write_str("(")?;
            for (i, field) in fields.iter().enumerate() {
                f.write_str(if i > 0 { ", " } else { "" })?;
                inner(field.node, f)?;
            }
            f.write_str(")")?;
        }
        Type::Struct(fields) => {
            f.write_str("{")?;
            for (i, field) in fields.iter().enumerate() {
                write!(f, "{}{}: ", if i > 0 { ", " } else { "" }, field.name.escape_debug())?;
                inner(field.node, f)?;
            }
            f.write_str("}")?;
        }
        Type::Enum(variants) => {
            for (i, variant) in variants.iter().enumerate() {
                write!(f, "{}{}", if i > 0 { " | " } else { "" }, variant.name.escape_debug())?;
                if !matches!(&nodes[variant.node.index()], Type::Unit) {
                    inner(variant.node, f)?;
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
        let mut path = String::new();
        let mut seen = HashSet::new();
        let found = self.compare(Node::ROOT, other, Node::ROOT, &mut path, &mut seen, 0);
        Some(found.unwrap_or_else(|| "they nest in different ways".to_owned()))
    }

    fn compare(
        &self,
        a: Node,
        other: &Self,
        b: Node,
        path: &mut String,
        seen: &mut HashSet<(Node, Node)>,
        depth: u32,
    ) -> Option<String> {
        if !seen.insert((a, b)) || depth > 64 || seen.len() > PAIRS_COMPARED {
            return None;
        }
        let place = |path: &str| if path.is_empty() { String::new() } else { format!("in `{path}` ") };
        let mut inner = |a: Node, b: Node, name: &str, path: &mut String| {
            let len = path.len();
            if !path.is_empty() && !name.is_empty() {
                path.push('.');
            }
            path.extend(name.escape_debug());
            let found = self.compare(a, other, b, path, seen, depth + 1);
            path.truncate(len);
            found
        };
        match (self.get(a), other.get(b)) {
            (Type::Struct(old), Type::Struct(new)) => {
                let has = |list: &[Field], name: &str| list.iter().any(|field| field.name == name);
                if let Some(gone) = old.iter().find(|field| !has(new, &field.name)) {
                    return Some(format!(
                        "{}the save has field `{}`, this build has not",
                        place(path),
                        gone.name
                    ));
                }
                if let Some(added) = new.iter().find(|field| !has(old, &field.name)) {
                    return Some(format!(
                        "{}this build has field `{}`, the save has not",
                        place(path),
                        added.name
                    ));
                }
                if let Some((old, new)) = old.iter().zip(new).find(|(old, new)| old.name != new.name) {
                    let place = place(path);
                    return Some(format!(
                        "{place}field `{}` stands where this build has `{}`",
                        old.name.escape_debug(),
                        new.name.escape_debug()
                    ));
                }
                old.iter().zip(new).find_map(|(old, new)| inner(old.node, new.node, &old.name, path))
            }
            (Type::Enum(old), Type::Enum(new)) => {
                if let Some((old, new)) = old.iter().zip(new).find(|(old, new)| old.name != new.name) {
                    let place = place(path);
                    return Some(format!(
                        "{place}variant `{}` stands where this build has `{}`",
                        old.name.escape_debug(),
                        new.name.escape_debug()
                    ));
                }
                if old.len() != new.len() {
                    return Some(format!(
                        "{}{} variants, this build has {}",
                        place(path),
                        old.len(),
                        new.len()
                    ));
                }
                old.iter().zip(new).find_map(|(old, new)| inner(old.node, new.node, &old.name, path))
            }
            (Type::Tuple(old), Type::Tuple(new)) if old.len() == new.len() => {
                (0..old.len()).find_map(|i| inner(old[i].node, new[i].node, &i.to_string(), path))
            }
            (Type::Option(old), Type::Option(new))
            | (Type::List(old), Type::List(new))
            | (Type::Set(old), Type::Set(new)) => inner(*old, *new, "", path),
            (Type::Array(old, old_len), Type::Array(new, new_len)) if old_len == new_len => {
                inner(*old, *new, "", path)
            }
            (Type::Map(old_key, old), Type::Map(new_key, new)) => {
                inner(*old_key, *new_key, "key", path).or_else(|| inner(*old, *new, "value", path))
            }
            (old, new) if old == new && old.children().next().is_none() => None,
            _ => {
                let show = |schema: &Self, node| node_text(&schema.nodes, node);
                let place = place(path);
                Some(format!("{place}the save has {}, this build has {}", show(self, a), show(other, b)))
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
