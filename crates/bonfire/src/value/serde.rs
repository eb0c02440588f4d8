//! The way in for types that only have serde: any `Serialize` becomes a [`Value`], any `Deserialize` comes out of one.
//!
//! A reference to an entity is mapped on load if it is an [`EntityId`], which says so on its way through serde. Ids of
//! other types are numbers like any other there.

use serde::de::{self, DeserializeSeed, IntoDeserializer, Visitor};
use serde::ser::{self, Serialize};
use serde::{Deserialize, de::DeserializeOwned};

use super::Value;
use crate::context::LoadContext;
use crate::entity::EntityId;
use crate::error::{Error, Result};
use crate::persist::Adapter;

/// Saves a field whose type has serde but not `Persist`: `#[persist(with = Serde)]`.
pub struct Serde;

impl<T: Serialize + DeserializeOwned + 'static> Adapter<T> for Serde {
    type Saved = Value;

    fn save(value: &T) -> Result<Value> {
        to_value(value)
    }
    fn load(saved: Value, _: &LoadContext<'_>) -> Result<T> {
        from_value(saved)
    }
}

/// Converts anything serializable.
pub fn to_value<T: Serialize + ?Sized>(value: &T) -> Result<Value> {
    value.serialize(Serializer)
}

/// Converts back.
pub fn from_value<T: DeserializeOwned>(value: Value) -> Result<T> {
    T::deserialize(value)
}

/// How a reference to an entity says what it is on its way through serde.
const ENTITY_NAME: &str = "$bonfire::EntityId";

/// Inside a component that is saved through serde, it is a reference like any other: mapped on load.
impl Serialize for EntityId {
    fn serialize<S: ser::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(ENTITY_NAME, &self.to_bits())
    }
}

impl<'de> de::Deserialize<'de> for EntityId {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        u64::deserialize(deserializer).map(Self::from_bits)
    }
}

impl ser::Error for Error {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Error::custom(message)
    }
}
impl de::Error for Error {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Error::schema(message)
    }
}

struct Serializer;

macro_rules! serialize {
    ($($method:ident: $rust:ty),*) => {$(
        fn $method(self, value: $rust) -> Result<Value> {
            Ok(value.into())
        }
    )*};
}

impl ser::Serializer for Serializer {
    type Ok = Value;
    type Error = Error;
    type SerializeSeq = Sequence;
    type SerializeTuple = Sequence;
    type SerializeTupleStruct = Sequence;
    type SerializeTupleVariant = Sequence;
    type SerializeMap = Entries;
    type SerializeStruct = Fields;
    type SerializeStructVariant = Fields;

    serialize!(
        serialize_bool: bool, serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64,
        serialize_u128: u128, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_i128: i128, serialize_f32: f32, serialize_f64: f64, serialize_char: char, serialize_str: &str
    );
    fn serialize_bytes(self, bytes: &[u8]) -> Result<Value> {
        Ok(Value::Bytes(bytes.to_vec()))
    }
    fn serialize_none(self) -> Result<Value> {
        Ok(Value::None)
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Value> {
        Ok(Value::Some(Box::new(to_value(value)?)))
    }
    fn serialize_unit(self) -> Result<Value> {
        Ok(Value::Unit)
    }
    fn serialize_unit_struct(self, _: &'static str) -> Result<Value> {
        Ok(Value::Unit)
    }
    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<Value> {
        Ok(Value::Enum(variant.into(), Box::new(Value::Unit)))
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, name: &'static str, value: &T) -> Result<Value> {
        match to_value(value)? {
            Value::U64(bits) if name == ENTITY_NAME => Ok(Value::Entity(EntityId::from_bits(bits))),
            value => Ok(value),
        }
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Value> {
        Ok(Value::Enum(variant.into(), Box::new(to_value(value)?)))
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<Sequence> {
        Ok(Sequence { values: Vec::new(), end: End::List })
    }
    fn serialize_tuple(self, _: usize) -> Result<Sequence> {
        Ok(Sequence { values: Vec::new(), end: End::Tuple })
    }
    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Sequence> {
        Ok(Sequence { values: Vec::new(), end: End::Tuple })
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        _: usize,
    ) -> Result<Sequence> {
        Ok(Sequence { values: Vec::new(), end: End::Variant(name) })
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Entries> {
        Ok(Entries { entries: Vec::new(), key: None })
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Fields> {
        Ok(Fields { fields: Vec::new(), variant: None })
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        _: usize,
    ) -> Result<Fields> {
        Ok(Fields { fields: Vec::new(), variant: Some(name) })
    }
}

struct Sequence {
    values: Vec<Value>,
    end: End,
}
enum End {
    List,
    Tuple,
    Variant(&'static str),
}
impl Sequence {
    fn push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.values.push(to_value(value)?);
        Ok(())
    }
    fn close(self) -> Value {
        match self.end {
            End::List => Value::List(self.values),
            End::Tuple => Value::Tuple(self.values),
            End::Variant(name) => Value::Enum(name.into(), Box::new(Value::Tuple(self.values))),
        }
    }
}
macro_rules! sequence {
    ($($trait:ident::$method:ident),*) => {$(
        impl ser::$trait for Sequence {
            type Ok = Value;
            type Error = Error;
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
                self.push(value)
            }
            fn end(self) -> Result<Value> {
                Ok(self.close())
            }
        }
    )*};
}
sequence!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
);

struct Entries {
    entries: Vec<(Value, Value)>,
    key: Option<Value>,
}
impl ser::SerializeMap for Entries {
    type Ok = Value;
    type Error = Error;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<()> {
        self.key = Some(to_value(key)?);
        Ok(())
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        let key = self.key.take().ok_or_else(|| Error::misuse("a map value without a key"))?;
        self.entries.push((key, to_value(value)?));
        Ok(())
    }
    fn end(self) -> Result<Value> {
        Ok(Value::Map(self.entries))
    }
}

struct Fields {
    fields: Vec<(String, Value)>,
    variant: Option<&'static str>,
}
macro_rules! fields {
    ($($trait:ident),*) => {$(
        impl ser::$trait for Fields {
            type Ok = Value;
            type Error = Error;
            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<()> {
                self.fields.push((name.into(), to_value(value)?));
                Ok(())
            }
            fn end(self) -> Result<Value> {
                let fields = Value::Struct(self.fields);
                Ok(match self.variant {
                    Some(name) => Value::Enum(name.into(), Box::new(fields)),
                    None => fields,
                })
            }
        }
    )*};
}
fields!(SerializeStruct, SerializeStructVariant);

impl<'de> de::Deserializer<'de> for Value {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self {
            Self::Unit => visitor.visit_unit(),
            Self::Bool(value) => visitor.visit_bool(value),
            Self::U64(value) => visitor.visit_u64(value),
            Self::I64(value) => visitor.visit_i64(value),
            Self::U128(value) => visitor.visit_u128(value),
            Self::I128(value) => visitor.visit_i128(value),
            Self::F32(value) => visitor.visit_f32(value),
            Self::F64(value) => visitor.visit_f64(value),
            Self::Char(value) => visitor.visit_char(value),
            Self::Text(value) => visitor.visit_string(value),
            Self::Bytes(value) => visitor.visit_byte_buf(value),
            Self::Entity(value) => visitor.visit_u64(value.to_bits()),
            Self::None => visitor.visit_none(),
            Self::Some(value) => visitor.visit_some(*value),
            Self::List(values) | Self::Tuple(values) => {
                let mut list = de::value::SeqDeserializer::new(values.into_iter());
                let value = visitor.visit_seq(&mut list)?;
                list.end()?;
                Ok(value)
            }
            Self::Map(entries) => {
                let mut map = de::value::MapDeserializer::new(entries.into_iter());
                let value = visitor.visit_map(&mut map)?;
                map.end()?;
                Ok(value)
            }
            Self::Struct(fields) => {
                let mut map = de::value::MapDeserializer::new(fields.into_iter());
                let value = visitor.visit_map(&mut map)?;
                map.end()?;
                Ok(value)
            }
            Self::Enum(name, content) => visitor.visit_enum(Choice { name, content: *content }),
        }
    }
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self {
            Self::None | Self::Unit => visitor.visit_none(),
            Self::Some(value) => visitor.visit_some(*value),
            value => visitor.visit_some(value),
        }
    }
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        match self {
            Self::Enum(name, content) => visitor.visit_enum(Choice { name, content: *content }),
            Self::Text(name) => visitor.visit_enum(Choice { name, content: Value::Unit }),
            other => Err(Error::schema(format!("{other:.40} is not a variant of an enum"))),
        }
    }
    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq
        tuple tuple_struct map struct identifier ignored_any
    }
}

impl IntoDeserializer<'_, Error> for Value {
    type Deserializer = Self;
    fn into_deserializer(self) -> Self {
        self
    }
}

/// A variant's name and what it holds.
struct Choice {
    name: String,
    content: Value,
}
impl<'de> de::EnumAccess<'de> for Choice {
    type Error = Error;
    type Variant = Value;
    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Value)> {
        Ok((seed.deserialize(self.name.into_deserializer())?, self.content))
    }
}
impl<'de> de::VariantAccess<'de> for Value {
    type Error = Error;
    fn unit_variant(self) -> Result<()> {
        <()>::deserialize(self)
    }
    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value> {
        seed.deserialize(self)
    }
    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value> {
        de::Deserializer::deserialize_any(self, visitor)
    }
    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value> {
        de::Deserializer::deserialize_any(self, visitor)
    }
}
