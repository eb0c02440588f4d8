//! Types as trees with rules, which can be edited as the author of a game edits them, and turned into schemas.

use std::borrow::Cow;

use bonfire::inspect::encode_value;
use bonfire::schema::{Field, FieldDefault, Fields, Node, Schema, SchemaBuilder, Type, Variant};
use bonfire::{EntityId, Value, Writer};
use proptest::collection::vec;
use proptest::prelude::*;

/// A type.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A type without others in it.
    Leaf(Type),
    /// Something or nothing.
    Option(Box<Shape>),
    /// Elements in order.
    List(Box<Shape>),
    /// Elements by their bytes.
    Set(Box<Shape>),
    /// So many elements.
    Array(Box<Shape>, u64),
    /// Keys and values.
    Map(Box<Shape>, Box<Shape>),
    /// Fields by position: their names are empty.
    Tuple(Vec<Part>),
    /// Fields by name, and the names of those that knowingly are no more.
    Struct(Vec<Part>, Vec<String>),
    /// Variants by name.
    Enum(Vec<Part>),
}

/// A field or variant.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// Names that it had before.
    pub aliases: Vec<String>,
    /// The value for saves that are older than it.
    pub default: Option<Value>,
    /// What it holds.
    pub shape: Shape,
}

impl Part {
    /// A part without a past.
    pub fn new(name: impl Into<String>, shape: Shape) -> Self {
        Self { name: name.into(), aliases: Vec::new(), default: None, shape }
    }
}

/// All numbers.
pub const NUMBERS: [Type; 12] = [
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
];

/// The types that keys are made of.
pub const KEYS: [Type; 9] =
    [Type::U8, Type::U16, Type::I16, Type::U64, Type::F32, Type::Bool, Type::Char, Type::Text, Type::Bytes];

/// Random shapes.
pub fn shapes() -> impl Strategy<Value = Shape> {
    let others = [Type::Unit, Type::Bool, Type::Char, Type::Text, Type::Bytes, Type::Entity, Type::Dynamic];
    let leaf = proptest::sample::select([NUMBERS.to_vec(), others.to_vec()].concat()).prop_map(Shape::Leaf);
    let key = || {
        let leaf = || proptest::sample::select(KEYS.to_vec()).prop_map(Shape::Leaf);
        prop_oneof![3 => leaf(), 1 => vec(leaf(), 1..3).prop_map(tuple), 1 => vec(leaf(), 1..3).prop_map(named)]
    };
    leaf.prop_recursive(3, 24, 5, move |inner| {
        prop_oneof![
            1 => inner.clone().prop_map(|some| Shape::Option(Box::new(some))),
            1 => inner.clone().prop_map(|element| Shape::List(Box::new(element))),
            1 => key().prop_map(|element| Shape::Set(Box::new(element))),
            1 => (inner.clone(), 0..4_u64).prop_map(|(element, len)| Shape::Array(Box::new(element), len)),
            1 => (key(), inner.clone()).prop_map(|(key, value)| Shape::Map(Box::new(key), Box::new(value))),
            1 => vec(inner.clone(), 0..4).prop_map(tuple),
            5 => vec(inner.clone(), 0..5).prop_map(named),
            2 => vec(inner, 1..5).prop_map(|contents| {
                let variant = |(i, content)| Part::new(format!("Variant{i}"), content);
                Shape::Enum(contents.into_iter().enumerate().map(variant).collect())
            }),
        ]
    })
}

fn tuple(fields: Vec<Shape>) -> Shape {
    Shape::Tuple(fields.into_iter().map(|field| Part::new("", field)).collect())
}

fn named(fields: Vec<Shape>) -> Shape {
    let field = |(i, field)| Part::new(format!("field_{i}"), field);
    Shape::Struct(fields.into_iter().enumerate().map(field).collect(), Vec::new())
}

impl Shape {
    /// The schema, with all rules.
    pub fn schema(&self) -> Schema {
        let mut types = SchemaBuilder::new();
        let root = self.build(&mut types);
        types.finish(root)
    }

    fn build(&self, types: &mut SchemaBuilder) -> Node {
        let ty = match self {
            Self::Leaf(ty) => ty.clone(),
            Self::Option(inner) => Type::Option(inner.build(types)),
            Self::List(inner) => Type::List(inner.build(types)),
            Self::Set(inner) => Type::Set(inner.build(types)),
            Self::Array(inner, len) => Type::Array(inner.build(types), *len),
            Self::Map(key, value) => Type::Map(key.build(types), value.build(types)),
            Self::Tuple(fields) => Type::Tuple(fields.iter().map(|field| field.build(types)).collect()),
            Self::Struct(fields, removed) => {
                let fields: Fields = fields.iter().map(|field| field.build(types)).collect();
                Type::Struct(removed.iter().fold(fields, |fields, name| fields.removed(name.clone())))
            }
            Self::Enum(variants) => Type::Enum(
                variants
                    .iter()
                    .map(|variant| Variant {
                        aliases: variant.aliases.iter().cloned().map(Cow::Owned).collect(),
                        ..Variant::new(variant.name.clone(), variant.shape.build(types))
                    })
                    .collect(),
            ),
        };
        types.add(ty)
    }

    /// Some value of the type: not the one that a generator would think of first, and without references.
    pub fn some_value(&self) -> Value {
        match self {
            Self::Leaf(ty) => match ty {
                Type::Unit => Value::Unit,
                Type::Bool => Value::Bool(true),
                Type::U128 => Value::U128(77),
                Type::I128 => Value::I128(-77),
                Type::I8 | Type::I16 | Type::I32 | Type::I64 => Value::I64(-7),
                Type::F32 => Value::F32(7.5),
                Type::F64 => Value::F64(-7.5),
                Type::Char => Value::Char('7'),
                Type::Text => Value::Text("seven".into()),
                Type::Bytes => Value::Bytes(vec![7, 7]),
                Type::Entity => Value::Entity(EntityId::NULL),
                _ => Value::U64(7),
            },
            Self::Option(inner) => Value::Some(Box::new(inner.some_value())),
            Self::List(inner) | Self::Set(inner) => Value::List(vec![inner.some_value()]),
            Self::Array(inner, len) => Value::List((0..*len).map(|_| inner.some_value()).collect()),
            Self::Map(key, value) => Value::Map(vec![(key.some_value(), value.some_value())]),
            Self::Tuple(fields) => {
                Value::Tuple(fields.iter().map(|field| field.shape.some_value()).collect())
            }
            Self::Struct(fields, _) => Value::Struct(
                fields.iter().map(|field| (field.name.clone(), field.shape.some_value())).collect(),
            ),
            Self::Enum(variants) => {
                let last = &variants[variants.len() - 1];
                Value::Enum(last.name.clone(), Box::new(last.shape.some_value()))
            }
        }
    }

    /// The types in it.
    pub fn children(&self) -> Vec<&Shape> {
        match self {
            Self::Leaf(_) => vec![],
            Self::Option(a) | Self::List(a) | Self::Set(a) | Self::Array(a, _) => vec![a],
            Self::Map(a, b) => vec![a, b],
            Self::Tuple(parts) | Self::Struct(parts, _) | Self::Enum(parts) => {
                parts.iter().map(|part| &part.shape).collect()
            }
        }
    }

    /// The types in it, to be changed.
    pub fn children_mut(&mut self) -> Vec<&mut Shape> {
        match self {
            Self::Leaf(_) => vec![],
            Self::Option(a) | Self::List(a) | Self::Set(a) | Self::Array(a, _) => vec![a],
            Self::Map(a, b) => vec![a, b],
            Self::Tuple(parts) | Self::Struct(parts, _) | Self::Enum(parts) => {
                parts.iter_mut().map(|part| &mut part.shape).collect()
            }
        }
    }

    /// Whether some type in it is like that.
    pub fn any(&self, like: &dyn Fn(&Shape) -> bool) -> bool {
        like(self) || self.children().into_iter().any(|child| child.any(like))
    }

    /// How a value of the type is saved.
    pub fn encode(&self, value: &Value) -> Vec<u8> {
        let mut out = Writer::new();
        encode_value(&self.schema(), Node::ROOT, value, &mut out).expect("a value of the type");
        out.finish().expect("not nested deeply")
    }
}

impl Part {
    fn build(&self, types: &mut SchemaBuilder) -> Field {
        let mut field = Field::new(self.name.clone(), self.shape.build(types));
        field.rules.aliases = self.aliases.iter().cloned().map(Cow::Owned).collect();
        let default = self.default.as_ref().map(|value| self.shape.encode(value));
        field.rules.default = default.map(|bytes| FieldDefault::Bytes(bytes.into()));
        field
    }
}
