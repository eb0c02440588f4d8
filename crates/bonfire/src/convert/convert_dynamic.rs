//! A value that carries its own types as one of this build's, by name: for components that were saved through serde, and for
//! what upgraders made.

use std::collections::BTreeSet;

use super::conversion::no_default;
use crate::error::{Error, Result};
use crate::persist::Persist;
use crate::schema::{Field, Fields, Node, Type, node_text};
use crate::value::{Value, write_sorted};
use crate::wire::Writer;

/// Writes `value` as type `node`. Fields that the type does not have are added to `lost`.
pub(crate) fn write(
    nodes: &[Type],
    node: Node,
    value: &Value,
    out: &mut Writer,
    lost: &mut BTreeSet<String>,
) -> Result<()> {
    DynamicWriter { nodes, lost, path: Vec::new() }.write(node, value, out)?;
    out.take_error()
}

struct DynamicWriter<'a> {
    nodes: &'a [Type],
    lost: &'a mut BTreeSet<String>,
    path: Vec<PathPart>,
}

/// A step into a value.
enum PathPart {
    Name(String),
    /// An element of a list, all of which are one place when something is lost.
    Element(usize),
}

/// Returns the `f32` that has the same decimal form, if there is one: a table of text does not say how long a number is.
fn short(value: f64) -> Option<f32> {
    let short = value as f32;
    (short.to_string() == value.to_string()).then_some(short)
}

impl DynamicWriter<'_> {
    fn write(&mut self, node: Node, value: &Value, out: &mut Writer) -> Result<()> {
        let ty = &self.nodes[node.index()];
        match (ty, value) {
            (Type::Dynamic, value) => value.encode(out),
            (Type::Unit, Value::Unit) => {}
            (Type::Unit, Value::Struct(fields)) => self.lose(fields.iter().map(|(name, _)| name.as_str())),
            (Type::Unit, Value::Tuple(values)) => self.positional(&Fields::default(), values, out)?,
            (Type::Bool, Value::Bool(value)) => value.encode(out),
            (Type::U128, Value::U128(value)) => value.encode(out),
            (Type::F32, Value::F32(value)) => value.encode(out),
            (Type::F64, Value::F64(value)) => value.encode(out),
            (Type::F64, Value::F32(value)) => f64::from(*value).encode(out),
            (Type::F32, Value::F64(value)) if short(*value).is_some() => {
                short(*value).unwrap_or_default().encode(out);
            }
            (Type::F32, _) if exact(value, 24).is_some() => {
                (exact(value, 24).unwrap_or_default() as f32).encode(out);
            }
            (Type::F64, _) if exact(value, 53).is_some() => {
                (exact(value, 53).unwrap_or_default() as f64).encode(out);
            }
            (Type::Char, Value::Char(value)) => value.encode(out),
            (Type::Text, Value::Text(value)) => out.text(value),
            (Type::Bytes, Value::Bytes(value)) => out.blob(value),
            (Type::Bytes, Value::List(values)) => {
                let bytes: Option<Vec<u8>> = values.iter().map(byte).collect();
                out.blob(&bytes.ok_or_else(|| self.mismatch(node, value))?);
            }
            (Type::Entity, Value::Entity(value)) => value.encode(out),
            (Type::Option(_), Value::None) => out.u8(0),
            (Type::Option(some), value) => {
                out.u8(1);
                let value = if let Value::Some(value) = value { value } else { value };
                self.nested(*some, PathPart::Name("some".into()), value, out)?;
            }
            (Type::List(element), Value::List(values) | Value::Tuple(values)) => {
                out.varint(values.len() as u64);
                self.elements(*element, values, out)?;
            }
            (Type::List(element), Value::Bytes(bytes)) => {
                out.varint(bytes.len() as u64);
                bytes.iter().try_for_each(|byte| self.write(*element, &Value::from(*byte), out))?;
            }
            (Type::Array(element, len), Value::List(values) | Value::Tuple(values))
                if values.len() as u64 == *len =>
            {
                self.elements(*element, values, out)?;
            }
            (Type::Set(element), Value::List(values)) => {
                let parts = values.iter().map(|value| Ok((self.apart(*element, value, out)?, vec![])));
                let parts = parts.collect::<Result<_>>()?;
                write_sorted(parts, out)?;
            }
            (Type::Map(key_type, value_type), Value::Map(entries)) => {
                let mut parts = Vec::new();
                for (key, value) in entries {
                    parts.push((self.apart(*key_type, key, out)?, self.apart(*value_type, value, out)?));
                }
                write_sorted(parts, out)?;
            }
            (Type::Tuple(fields), Value::Tuple(values) | Value::List(values)) => {
                self.positional(fields, values, out)?;
            }
            (Type::Tuple(fields), Value::Unit) => self.positional(fields, &[], out)?,
            // A struct around one value is that value, for serde.
            (Type::Tuple(fields), value) if fields.len() == 1 => {
                self.nested(fields[0].node, PathPart::Name("0".into()), value, out)?;
            }
            (Type::Struct(fields), Value::Struct(values)) => self.named(fields, values, out)?,
            (Type::Struct(fields), Value::Unit) => self.named(fields, &[], out)?,
            (Type::Struct(fields), Value::Map(entries)) => {
                let named = |(key, value): &(Value, Value)| Some((key.as_text()?.to_owned(), value.clone()));
                let values: Option<Vec<_>> = entries.iter().map(named).collect();
                self.named(fields, &values.ok_or_else(|| self.mismatch(node, value))?, out)?;
            }
            (Type::Enum(variants), Value::Enum(name, content)) => {
                let by_name = variants.iter().position(|variant| variant.name == *name);
                let number = by_name
                    .or_else(|| {
                        variants.iter().position(|variant| variant.aliases.iter().any(|alias| alias == name))
                    })
                    .ok_or_else(|| self.mismatch(node, value))?;
                out.varint(number as u64);
                self.nested(variants[number].node, PathPart::Name(name.clone()), content, out)?;
            }
            _ => {
                let integer = integer(value).ok_or_else(|| self.mismatch(node, value))?;
                if !write_integer(ty, integer, out) {
                    return Err(self.mismatch(node, value));
                }
            }
        }
        Ok(())
    }

    fn nested(&mut self, node: Node, place: PathPart, value: &Value, out: &mut Writer) -> Result<()> {
        self.path.push(place);
        let mut result = Ok(());
        out.nested(|out| result = self.write(node, value, out));
        self.path.pop();
        result
    }

    fn elements(&mut self, element: Node, values: &[Value], out: &mut Writer) -> Result<()> {
        let mut each = values.iter().enumerate();
        each.try_for_each(|(i, value)| self.nested(element, PathPart::Element(i), value, out))
    }

    fn apart(&mut self, node: Node, value: &Value, out: &Writer) -> Result<Vec<u8>> {
        let mut out = out.nested_apart()?;
        self.write(node, value, &mut out)?;
        out.finish()
    }

    fn positional(&mut self, fields: &Fields, values: &[Value], out: &mut Writer) -> Result<()> {
        for (i, field) in fields.iter().enumerate() {
            match values.get(i) {
                Some(value) => self.nested(field.node, PathPart::Name(i.to_string()), value, out)?,
                None => self.missing(field, &i.to_string(), out)?,
            }
        }
        let extra: Vec<String> = (fields.len()..values.len()).map(|i| i.to_string()).collect();
        self.lose(extra.iter().map(String::as_str));
        Ok(())
    }

    fn named(&mut self, fields: &Fields, values: &[(String, Value)], out: &mut Writer) -> Result<()> {
        let mut taken = vec![false; values.len()];
        for field in fields {
            let mut names = std::iter::once(&field.name).chain(&field.rules.aliases);
            let found = names.find_map(|name| values.iter().position(|(saved, _)| saved == name));
            match found.filter(|number| !taken[*number]) {
                Some(number) => {
                    taken[number] = true;
                    self.nested(field.node, PathPart::Name(field.name.to_string()), &values[number].1, out)?;
                }
                None => self.missing(field, &field.name, out)?,
            }
        }
        let extra = values.iter().zip(taken).filter(|(_, taken)| !taken).map(|((name, _), _)| name.as_str());
        self.lose(extra);
        Ok(())
    }

    fn missing(&mut self, field: &Field, name: &str, out: &mut Writer) -> Result<()> {
        match (&field.rules.default, &self.nodes[field.node.index()]) {
            (Some(default), _) => default.write(out),
            (None, Type::Option(_)) => out.u8(0),
            (None, Type::Unit) => {}
            (None, _) => {
                let error = no_default(self.nodes, field);
                return Err(self.place(error.in_field(name)));
            }
        }
        Ok(())
    }

    fn lose<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        for name in names {
            let place = |place: &'_ PathPart| match place {
                PathPart::Name(name) => name.clone(),
                PathPart::Element(_) => "element".to_owned(),
            };
            let path = self.path.iter().map(place).chain([name.to_owned()]);
            self.lost.insert(path.collect::<Vec<_>>().join("."));
        }
    }

    fn place(&self, error: Error) -> Error {
        self.path.iter().rev().fold(error, |error, place| match place {
            PathPart::Name(name) => error.in_field(name),
            PathPart::Element(number) => error.in_field(number),
        })
    }

    fn mismatch(&self, node: Node, value: &Value) -> Error {
        let ty = node_text(self.nodes, node);
        self.place(Error::schema(format!(
            "the save has {value:.40}, this build has {ty}: that cannot become this"
        )))
    }
}

/// An integer that a float with so many bits holds exactly.
fn exact(value: &Value, bits: u32) -> Option<i128> {
    integer(value).filter(|number| number.unsigned_abs() <= 1 << bits)
}

fn integer(value: &Value) -> Option<i128> {
    match *value {
        Value::U64(number) => Some(number.into()),
        Value::U128(number) => i128::try_from(number).ok(),
        Value::I64(number) => Some(number.into()),
        Value::I128(number) => Some(number),
        _ => None,
    }
}

fn byte(value: &Value) -> Option<u8> {
    integer(value).and_then(|number| u8::try_from(number).ok())
}

fn write_integer(ty: &Type, number: i128, out: &mut Writer) -> bool {
    macro_rules! fits {
        ($number:ty) => {
            <$number>::try_from(number).map(|number| number.encode(out)).is_ok()
        };
    }
    match ty {
        Type::U8 => fits!(u8),
        Type::U16 => fits!(u16),
        Type::U32 => fits!(u32),
        Type::U64 => fits!(u64),
        Type::U128 => fits!(u128),
        Type::I8 => fits!(i8),
        Type::I16 => fits!(i16),
        Type::I32 => fits!(i32),
        Type::I64 => fits!(i64),
        Type::I128 => fits!(i128),
        _ => false,
    }
}
