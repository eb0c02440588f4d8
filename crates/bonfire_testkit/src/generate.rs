//! Random schemas, and random values of them.

use bonfire::schema::{Field, Schema, SchemaBuilder, Type, Variant};
use bonfire::{EntityId, Value};
use proptest::collection::vec;
use proptest::prelude::*;

/// What a schema is made from: a tree, turned into nodes by the builder.
#[derive(Clone, Debug)]
enum Shape {
    Simple(Type),
    Option(Box<Shape>),
    List(Box<Shape>),
    Set(Box<Shape>),
    Array(Box<Shape>, u64),
    Map(Box<Shape>, Box<Shape>),
    Tuple(Vec<Shape>),
    Struct(Vec<Shape>),
    Enum(Vec<Shape>),
}

fn simple() -> impl Strategy<Value = Shape> {
    let types = [
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
    proptest::sample::select(types.to_vec()).prop_map(Shape::Simple)
}

fn shape() -> impl Strategy<Value = Shape> {
    simple().prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|some| Shape::Option(Box::new(some))),
            inner.clone().prop_map(|element| Shape::List(Box::new(element))),
            simple().prop_map(|element| Shape::Set(Box::new(element))),
            (inner.clone(), 0..4_u64).prop_map(|(element, len)| Shape::Array(Box::new(element), len)),
            (simple(), inner.clone()).prop_map(|(key, value)| Shape::Map(Box::new(key), Box::new(value))),
            vec(inner.clone(), 0..4).prop_map(Shape::Tuple),
            vec(inner.clone(), 0..5).prop_map(Shape::Struct),
            vec(inner, 1..5).prop_map(Shape::Enum),
        ]
    })
}

fn build(shape: &Shape, types: &mut SchemaBuilder) -> bonfire::schema::Node {
    let ty = match shape {
        Shape::Simple(ty) => ty.clone(),
        Shape::Option(inner) => Type::Option(build(inner, types)),
        Shape::List(inner) => Type::List(build(inner, types)),
        Shape::Set(inner) => Type::Set(build(inner, types)),
        Shape::Array(inner, len) => Type::Array(build(inner, types), *len),
        Shape::Map(key, value) => Type::Map(build(key, types), build(value, types)),
        Shape::Tuple(fields) => {
            Type::tuple(fields.iter().map(|field| build(field, types)).collect::<Vec<_>>())
        }
        Shape::Struct(fields) => {
            let field = |(i, field): (usize, &Shape)| Field::new(format!("field_{i}"), build(field, types));
            Type::Struct(fields.iter().enumerate().map(field).collect())
        }
        Shape::Enum(variants) => {
            let variant =
                |(i, content): (usize, &Shape)| Variant::new(format!("Variant{i}"), build(content, types));
            Type::Enum(variants.iter().enumerate().map(variant).collect())
        }
    };
    types.add(ty)
}

/// Random schemas.
pub fn schemas() -> impl Strategy<Value = Schema> {
    shape().prop_map(|shape| {
        let mut types = SchemaBuilder::new();
        let root = build(&shape, &mut types);
        types.finish(root)
    })
}

/// Random schemas, each with up to `max` of its values.
pub fn schema_and_values(max: usize) -> impl Strategy<Value = (Schema, Vec<Value>)> {
    schemas().prop_flat_map(move |schema| {
        let values = vec(values_of(&schema, bonfire::schema::Node::ROOT), 0..=max);
        (Just(schema), values)
    })
}

/// Random values of a type.
pub fn values_of(schema: &Schema, node: bonfire::schema::Node) -> BoxedStrategy<Value> {
    let of = |node: &bonfire::schema::Node| values_of(schema, *node);
    match schema.get(node) {
        Type::Unit => Just(Value::Unit).boxed(),
        Type::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        Type::U8 => any::<u8>().prop_map(Value::from).boxed(),
        Type::U16 => any::<u16>().prop_map(Value::from).boxed(),
        Type::U32 => any::<u32>().prop_map(Value::from).boxed(),
        Type::U64 => any::<u64>().prop_map(Value::from).boxed(),
        Type::U128 => any::<u128>().prop_map(Value::from).boxed(),
        Type::I8 => any::<i8>().prop_map(Value::from).boxed(),
        Type::I16 => any::<i16>().prop_map(Value::from).boxed(),
        Type::I32 => any::<i32>().prop_map(Value::from).boxed(),
        Type::I64 => any::<i64>().prop_map(Value::from).boxed(),
        Type::I128 => any::<i128>().prop_map(Value::from).boxed(),
        // All bit patterns, NaNs with payloads among them.
        Type::F32 => any::<u32>().prop_map(|bits| Value::F32(f32::from_bits(bits))).boxed(),
        Type::F64 => any::<u64>().prop_map(|bits| Value::F64(f64::from_bits(bits))).boxed(),
        Type::Char => any::<char>().prop_map(Value::Char).boxed(),
        Type::Text => ".{0,8}".prop_map(Value::Text).boxed(),
        Type::Bytes => vec(any::<u8>(), 0..8).prop_map(Value::Bytes).boxed(),
        Type::Entity => (0..8_u32, 0..2_u32).prop_map(|(i, g)| Value::Entity(EntityId::new(i, g))).boxed(),
        Type::Dynamic => dynamic().boxed(),
        Type::Option(some) => {
            prop_oneof![Just(Value::None), of(some).prop_map(|value| Value::Some(Box::new(value)))].boxed()
        }
        Type::List(element) => vec(of(element), 0..4).prop_map(Value::List).boxed(),
        Type::Array(element, len) => vec(of(element), *len as usize).prop_map(Value::List).boxed(),
        Type::Set(element) => {
            sorted(vec(of(element).prop_map(|value| (value, Value::Unit)), 0..4), schema, *element)
                .prop_map(|entries| Value::List(entries.into_iter().map(|(value, _)| value).collect()))
                .boxed()
        }
        Type::Map(key, value) => {
            sorted(vec((of(key), of(value)), 0..4), schema, *key).prop_map(Value::Map).boxed()
        }
        Type::Tuple(fields) => {
            fields.iter().map(|field| of(&field.node)).collect::<Vec<_>>().prop_map(Value::Tuple).boxed()
        }
        Type::Struct(fields) => {
            let names: Vec<String> = fields.iter().map(|field| field.name.to_string()).collect();
            let values = fields.iter().map(|field| of(&field.node)).collect::<Vec<_>>();
            values.prop_map(move |values| Value::Struct(names.iter().cloned().zip(values).collect())).boxed()
        }
        Type::Enum(variants) => {
            let variant = |variant: &Variant| {
                let name = variant.name.to_string();
                of(&variant.node).prop_map(move |value| Value::Enum(name.clone(), Box::new(value))).boxed()
            };
            proptest::strategy::Union::new(variants.iter().map(variant)).boxed()
        }
        other => panic!("no generator for {other:?}"),
    }
}

/// Entries in the order in which they are saved, without doubles.
fn sorted<S: Strategy<Value = Vec<(Value, Value)>>>(
    entries: S,
    schema: &Schema,
    key: bonfire::schema::Node,
) -> impl Strategy<Value = Vec<(Value, Value)>> + use<S> {
    let schema = schema.clone();
    entries.prop_map(move |entries| {
        let bytes = |value: &Value| {
            let mut out = bonfire::Writer::new();
            bonfire::inspect::encode_value(&schema, key, value, &mut out).expect("a value of its schema");
            out.finish().expect("not nested deeply")
        };
        let sorted: std::collections::BTreeMap<Vec<u8>, (Value, Value)> =
            entries.into_iter().map(|(key, value)| (bytes(&key), (key, value))).collect();
        sorted.into_values().collect()
    })
}

fn dynamic() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Unit),
        Just(Value::None),
        any::<bool>().prop_map(Value::Bool),
        any::<u64>().prop_map(Value::U64),
        any::<i64>().prop_map(Value::I64),
        any::<u128>().prop_map(Value::U128),
        any::<i128>().prop_map(Value::I128),
        any::<u32>().prop_map(|bits| Value::F32(f32::from_bits(bits))),
        any::<u64>().prop_map(|bits| Value::F64(f64::from_bits(bits))),
        any::<char>().prop_map(Value::Char),
        ".{0,6}".prop_map(Value::Text),
        vec(any::<u8>(), 0..6).prop_map(Value::Bytes),
        (0..8_u32, 0..2_u32).prop_map(|(i, g)| Value::Entity(EntityId::new(i, g))),
    ];
    leaf.prop_recursive(2, 10, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|value| Value::Some(Box::new(value))),
            vec(inner.clone(), 0..3).prop_map(Value::List),
            vec(inner.clone(), 0..3).prop_map(Value::Tuple),
            vec((inner.clone(), inner.clone()), 0..3).prop_map(Value::Map),
            vec(("[$a-c]{0,2}", inner.clone()), 0..3).prop_map(Value::Struct),
            ("[A-C]{1,2}", inner).prop_map(|(name, value)| Value::Enum(name, Box::new(value))),
        ]
    })
}
