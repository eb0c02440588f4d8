//! A schema as bytes, and everything a schema from a file must satisfy before it is used.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::OnceLock;

use super::{Field, Fingerprint, Node, Schema, Type, Variant};
use crate::context::LoadContext;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::wire::{Reader, Writer};

/// The tags of FORMAT.md, "Schemas". Types without content first, in the order of [`SIMPLE`].
const SIMPLE: [Type; 19] = [
    Type::Unit,
    Type::Bool,
    Type::U8,
    Type::U16,
    Type::U32,
    Type::U64,
    Type::U128,
    Type::I8,
    Type::I16,
    Type::I32,
    Type::I64,
    Type::I128,
    Type::F32,
    Type::F64,
    Type::Char,
    Type::Text,
    Type::Bytes,
    Type::Entity,
    Type::Dynamic,
];
const OPTION: u8 = 32;
const LIST: u8 = 33;
const SET: u8 = 34;
const ARRAY: u8 = 35;
const MAP: u8 = 36;
const TUPLE: u8 = 37;
const STRUCT: u8 = 38;
const ENUM: u8 = 39;

impl Schema {
    /// The bytes that are saved and hashed.
    pub fn to_bytes(&self) -> Vec<u8> {
        Self::bytes_of(&self.nodes)
    }

    pub(crate) fn bytes_of(nodes: &[Type]) -> Vec<u8> {
        let mut out = Writer::new();
        out.varint(nodes.len() as u64);
        nodes.iter().for_each(|ty| encode_type(ty, &mut out));
        out.into_memory()
    }

    /// Reads a schema and checks it: numbers in range, names unique and not empty, within `limits`.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self> {
        let context = LoadContext::new(limits);
        let mut input = Reader::new(bytes, &context);
        let count = input.bounded(u64::from(limits.schema_nodes_max), "schema nodes")?;
        if count == 0 || count > input.remaining() as u64 {
            return Err(input.corrupt(format!("a schema of {} bytes claims {count} nodes", bytes.len())));
        }
        let mut nodes = Vec::with_capacity(count as usize);
        for _ in 0..count {
            nodes.push(decode_type(&mut input, count)?);
        }
        input.finish()?;
        limits.step(bytes.len())?;
        Ok(Self {
            nodes,
            ruled: None,
            fingerprint: Fingerprint::of(bytes),
            leaves: OnceLock::new(),
            variants: OnceLock::new(),
        })
    }
}

#[cfg(feature = "json")]
impl Type {
    /// The type without content that has this name.
    pub(crate) fn simple(name: &str) -> Option<Self> {
        SIMPLE.into_iter().find(|ty| ty.name() == name)
    }
}

fn encode_type(ty: &Type, out: &mut Writer) {
    let node = |node: &Node, out: &mut Writer| out.varint(u64::from(node.0));
    match ty {
        Type::Option(inner) => {
            out.u8(OPTION);
            node(inner, out);
        }
        Type::List(inner) => {
            out.u8(LIST);
            node(inner, out);
        }
        Type::Set(inner) => {
            out.u8(SET);
            node(inner, out);
        }
        Type::Array(inner, len) => {
            out.u8(ARRAY);
            node(inner, out);
            out.varint(*len);
        }
        Type::Map(key, value) => {
            out.u8(MAP);
            node(key, out);
            node(value, out);
        }
        Type::Tuple(fields) => {
            out.u8(TUPLE);
            out.varint(fields.len() as u64);
            fields.iter().for_each(|field| node(&field.node, out));
        }
        Type::Struct(fields) => {
            out.u8(STRUCT);
            out.varint(fields.len() as u64);
            for field in fields {
                out.text(&field.name);
                node(&field.node, out);
            }
        }
        Type::Enum(variants) => {
            out.u8(ENUM);
            out.varint(variants.len() as u64);
            for variant in variants {
                out.text(&variant.name);
                node(&variant.node, out);
            }
        }
        simple => {
            let tag = SIMPLE.iter().position(|known| known == simple);
            debug_assert!(tag.is_some(), "every type without content is in the list");
            out.u8(tag.unwrap_or(0) as u8);
        }
    }
}

fn decode_type(input: &mut Reader<'_>, count: u64) -> Result<Type> {
    let node = |input: &mut Reader<'_>| {
        let index = input.varint()?;
        if index >= count {
            return Err(input.corrupt(format!("schema node {index} of {count}")));
        }
        Ok(Node(index as u32))
    };
    let tag = input.u8()?;
    Ok(match tag {
        OPTION => Type::Option(node(input)?),
        LIST => Type::List(node(input)?),
        SET => Type::Set(node(input)?),
        ARRAY => Type::Array(node(input)?, input.varint()?),
        MAP => Type::Map(node(input)?, node(input)?),
        TUPLE => {
            let len = input.count(size_of::<Field>())?;
            Type::Tuple((0..len).map(|_| Ok(Field::new("", node(input)?))).collect::<Result<_>>()?)
        }
        STRUCT => Type::Struct(
            named(input, count, "field")?.into_iter().map(|(name, node)| Field::new(name, node)).collect(),
        ),
        ENUM => {
            let variants: Vec<_> = named(input, count, "variant")?
                .into_iter()
                .map(|(name, node)| Variant::new(name, node))
                .collect();
            if variants.is_empty() {
                return Err(input.corrupt("an enum has no variants"));
            }
            Type::Enum(variants)
        }
        tag => match SIMPLE.get(usize::from(tag)) {
            Some(simple) => simple.clone(),
            None => {
                let message = format!("type {tag} in a schema is not known to this version");
                return Err(Error::newer_format(message).at(input.offset()));
            }
        },
    })
}

fn named(input: &mut Reader<'_>, nodes: u64, what: &str) -> Result<Vec<(Cow<'static, str>, Node)>> {
    let len = input.count(size_of::<Field>())?;
    let mut seen = HashSet::new();
    let mut list = Vec::new();
    for _ in 0..len {
        let name = input.text()?;
        if name.is_empty() || !seen.insert(name) {
            return Err(input.corrupt(format!("{what} `{}` is empty or there twice", name.escape_debug())));
        }
        let index = input.varint()?;
        if index >= nodes {
            return Err(input.corrupt(format!("schema node {index} of {nodes}")));
        }
        list.push((Cow::Owned(name.to_owned()), Node(index as u32)));
    }
    Ok(list)
}
