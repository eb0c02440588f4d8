//! What a value is made of, as data: written into every save, so that any tool can read any save.
//!
//! A schema is a table of nodes that refer to each other by index; node 0 is the root and the order is that of a
//! depth-first walk, so equal types give equal bytes and the fingerprint is a hash of those bytes. Type names are not
//! part of it: renaming a struct changes nothing, renaming a field does.
//!
//! A schema from a file is hostile until [`Schema::decode`] accepted it. Recursion is legal; every walk is bounded.

mod builder;
mod codec;
mod describe;
mod field;
mod shape;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;

pub use builder::SchemaBuilder;
pub(crate) use describe::node_text;
pub use field::{Field, FieldDefault, FieldRules, Fields};
pub(crate) use shape::{FixedLeaf, ROW_LEAVES_MAX, fixed_sizes};

/// A node of a [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub(crate) u32);

impl Node {
    /// The root of every finished schema.
    pub const ROOT: Self = Self(0);

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// One kind of value. What each one's bytes are is in FORMAT.md.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the number types speak for themselves")]
pub enum Type {
    /// Nothing: no bytes.
    Unit,
    Bool,
    U8,
    U16,
    U32,
    U64,
    U128,
    I8,
    I16,
    I32,
    I64,
    I128,
    F32,
    F64,
    Char,
    /// UTF-8.
    Text,
    /// Bytes that mean something to the game only.
    Bytes,
    /// A reference to an entity, mapped on load.
    Entity,
    /// A [`Value`](crate::Value) that carries its own types.
    Dynamic,
    /// Something or nothing.
    Option(Node),
    /// Any number of elements in order.
    List(Node),
    /// Elements sorted by their bytes, each once.
    Set(Node),
    /// Exactly this many elements.
    Array(Node, u64),
    /// Keys and values, sorted by the bytes of the key, each key once.
    Map(Node, Node),
    /// Unnamed fields in order: their names are empty.
    Tuple(Fields),
    /// Named fields in order.
    Struct(Fields),
    /// One of several variants, by number.
    Enum(Vec<Variant>),
}

/// A variant of an enum. Its content is a unit, a tuple or a struct.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Its name in the save.
    pub name: Cow<'static, str>,
    /// What it holds.
    pub node: Node,
    /// Names the variant had before. Not saved, not compared.
    pub aliases: Vec<Cow<'static, str>>,
}

impl Variant {
    /// A variant without a past.
    pub fn new(name: impl Into<Cow<'static, str>>, node: Node) -> Self {
        Self { name: name.into(), node, aliases: Vec::new() }
    }
    /// Adds a name that the variant had before.
    pub fn alias(mut self, name: &'static str) -> Self {
        self.aliases.push(Cow::Borrowed(name));
        self
    }
}

impl PartialEq for Variant {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.node) == (&other.name, other.node)
    }
}
impl Eq for Variant {}
impl std::hash::Hash for Variant {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (&self.name, self.node).hash(state);
    }
}

/// 128 bits of BLAKE3 that stand for a schema or a layout.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 16]);

impl Fingerprint {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let hash = blake3::hash(bytes);
        Self(std::array::from_fn(|i| hash.as_bytes()[i]))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The schema of one component, resource or data entry.
///
/// ```
/// # use bonfire::schema::Schema;
/// let schema = Schema::of::<Vec<(u32, String)>>();
/// assert_eq!(schema.to_string(), "[(u32, text)]");
/// assert_eq!(schema.fingerprint(), Schema::of::<std::collections::VecDeque<(u32, Box<str>)>>().fingerprint());
/// ```
#[derive(Clone, Debug)]
pub struct Schema {
    nodes: Vec<Type>,
    /// The same nodes with the rules of the fields: types that are saved alike and have different pasts are apart here.
    /// Nothing if there are no rules.
    ruled: Option<Vec<Type>>,
    fingerprint: Fingerprint,
    /// Found when they are first asked for: many components and rows may have this schema.
    leaves: OnceLock<Option<Vec<FixedLeaf>>>,
    /// Variants of large enums by their names, found when one is first asked for.
    variants: OnceLock<HashMap<Node, HashMap<Cow<'static, str>, usize>>>,
}

/// Enums with more variants than this are searched by a table.
const SEARCHED_VARIANTS_MAX: usize = 16;

impl Schema {
    /// The hash that decides whether two schemas mean the same.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The root's type.
    pub fn root(&self) -> &Type {
        &self.nodes[0]
    }

    /// A node's type.
    pub fn get(&self, node: Node) -> &Type {
        &self.nodes[node.index()]
    }

    /// The number of a variant of an enum.
    pub(crate) fn variant_number(&self, node: Node, name: &str) -> Option<usize> {
        let Type::Enum(variants) = self.get(node) else { return None };
        if variants.len() <= SEARCHED_VARIANTS_MAX {
            return variants.iter().position(|variant| variant.name == name);
        }
        let names = self.variants.get_or_init(|| {
            let large = self.nodes.iter().zip(0..).filter_map(|(ty, number)| match ty {
                Type::Enum(variants) if variants.len() > SEARCHED_VARIANTS_MAX => {
                    Some((Node(number), variants))
                }
                _ => None,
            });
            let by_name =
                |variants: &[Variant]| variants.iter().map(|variant| variant.name.clone()).zip(0..).collect();
            large.map(|(node, variants)| (node, by_name(variants))).collect()
        });
        names.get(&node)?.get(name).copied()
    }

    /// All nodes, the root first.
    pub fn nodes(&self) -> &[Type] {
        &self.nodes
    }

    /// The nodes as this build reads older saves: with the rules of their fields, the root first. What they describe is
    /// saved as the [`Schema::nodes`] say, though their numbers may be others.
    pub fn ruled_nodes(&self) -> &[Type] {
        self.ruled.as_deref().unwrap_or(&self.nodes)
    }

    /// Whether values may hold references to entities that a load can see and map.
    pub fn has_entities(&self) -> bool {
        self.nodes.iter().any(|ty| matches!(ty, Type::Entity | Type::Dynamic))
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }
}
impl Eq for Schema {}

impl Type {
    /// A tuple of these types.
    pub fn tuple(nodes: impl IntoIterator<Item = Node>) -> Self {
        Self::Tuple(nodes.into_iter().map(|node| Field::new("", node)).collect())
    }

    /// The nodes it refers to.
    pub fn children(&self) -> impl Iterator<Item = Node> + '_ {
        let (fixed, fields, variants): (Vec<Node>, &[Field], &[Variant]) = match self {
            Self::Option(a) | Self::List(a) | Self::Set(a) | Self::Array(a, _) => (vec![*a], &[], &[]),
            Self::Map(a, b) => (vec![*a, *b], &[], &[]),
            Self::Tuple(fields) | Self::Struct(fields) => (vec![], fields, &[]),
            Self::Enum(variants) => (vec![], &[], variants),
            _ => (vec![], &[], &[]),
        };
        let fields = fields.iter().map(|field| field.node);
        let variants = variants.iter().map(|variant| variant.node);
        fixed.into_iter().chain(fields).chain(variants)
    }

    pub(crate) fn children_mut(&mut self) -> Vec<&mut Node> {
        match self {
            Self::Option(a) | Self::List(a) | Self::Set(a) | Self::Array(a, _) => vec![a],
            Self::Map(a, b) => vec![a, b],
            Self::Tuple(fields) | Self::Struct(fields) => {
                fields.iter_mut().map(|field| &mut field.node).collect()
            }
            Self::Enum(variants) => variants.iter_mut().map(|variant| &mut variant.node).collect(),
            _ => vec![],
        }
    }

    /// Whether it says more than what is saved.
    fn has_rules(&self) -> bool {
        match self {
            Self::Tuple(fields) | Self::Struct(fields) => fields.has_rules(),
            Self::Enum(variants) => variants.iter().any(|variant| !variant.aliases.is_empty()),
            _ => false,
        }
    }

    /// The type without its rules.
    fn plain(mut self) -> Self {
        match &mut self {
            Self::Tuple(fields) | Self::Struct(fields) => fields.forget_rules(),
            Self::Enum(variants) => variants.iter_mut().for_each(|variant| variant.aliases.clear()),
            _ => {}
        }
        self
    }
}
