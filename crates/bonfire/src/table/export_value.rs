//! Encoded values to JSON, without values in between.

use super::export::Json;
use super::is_nullable;
use super::text::{SAFE_INTEGER, special_f32, special_f64};
use crate::error::Result;
use crate::persist::Persist;
use crate::schema::{Node, Schema, Type};
use crate::storage::to_hex;
use crate::value::Value;
use crate::wire::Reader;

impl Json<'_> {
    pub(super) fn encoded(&mut self, schema: &Schema, bytes: &[u8]) -> Result<()> {
        let start = self.text.len();
        let mut input = Reader::new(bytes, self.context);
        self.value(schema, Node::ROOT, &mut input)?;
        input.finish()?;
        self.context.claim_memory(self.text.len() - start, 1)
    }

    fn value(&mut self, schema: &Schema, node: Node, input: &mut Reader<'_>) -> Result<()> {
        let start = input.offset();
        match schema.get(node) {
            Type::Unit => self.raw("null"),
            Type::Bool => self.plain(&bool::decode(input)?),
            Type::U8 => self.plain(&u8::decode(input)?),
            Type::U16 => self.plain(&u16::decode(input)?),
            Type::U32 => self.plain(&u32::decode(input)?),
            Type::U64 => self.unsigned(u64::decode(input)?),
            Type::U128 => self.plain(&u128::decode(input)?.to_string()),
            Type::I8 => self.plain(&i8::decode(input)?),
            Type::I16 => self.plain(&i16::decode(input)?),
            Type::I32 => self.plain(&i32::decode(input)?),
            Type::I64 => self.signed(i64::decode(input)?),
            Type::I128 => self.plain(&i128::decode(input)?.to_string()),
            Type::F32 => self.f32(f32::decode(input)?),
            Type::F64 => self.f64(f64::decode(input)?),
            Type::Char => self.plain(&char::decode(input)?),
            Type::Text => self.plain(input.text()?),
            Type::Bytes => {
                let text = to_hex(input.blob()?);
                self.plain(&text);
            }
            Type::Entity => {
                let id = input.entity()?;
                self.id(id);
            }
            Type::Dynamic => self.dynamic(&Value::decode(input)?)?,
            Type::Option(some) => match input.u8()? {
                0 => self.raw("null"),
                1 if is_nullable(schema, *some) => {
                    self.raw("{\"$some\":");
                    input.nested_untyped(|input| self.value(schema, *some, input))?;
                    self.raw("}");
                }
                1 => input.nested_untyped(|input| self.value(schema, *some, input))?,
                byte => return Err(input.corrupt(format!("{byte} is neither some nor none"))),
            },
            Type::List(element) | Type::Set(element) => {
                let count = input.count(1)?;
                self.list(["[", "]"], 0..count, |out, _| {
                    input.nested_untyped(|input| out.value(schema, *element, input))
                })?;
            }
            Type::Array(element, len) => {
                if *len > input.remaining() as u64 {
                    self.context.claim_empty(*len)?;
                }
                self.list(["[", "]"], 0..*len, |out, _| {
                    input.nested_untyped(|input| out.value(schema, *element, input))
                })?;
            }
            Type::Map(key, value) if matches!(schema.get(*key), Type::Text) => {
                // An object, unless a key could be taken for one of our own marks.
                let start = self.text.len();
                let count = input.count(1)?;
                let mut marked = false;
                let mut pairs = Vec::new();
                self.list(["{", "}"], 0..count, |out, _| {
                    let from = out.text.len();
                    let name = input.text()?;
                    marked |= name.starts_with('$');
                    out.plain(name);
                    let middle = out.text.len();
                    out.raw(":");
                    input.nested_untyped(|input| out.value(schema, *value, input))?;
                    pairs.push((from, middle, out.text.len()));
                    Ok(())
                })?;
                if marked {
                    let object = self.text.split_off(start);
                    let part = |from: usize, to: usize| &object[from - start..to - start];
                    self.list(["[", "]"], pairs, |out, (from, middle, to)| {
                        out.raw("[");
                        out.text.extend_from_slice(part(from, middle));
                        out.raw(",");
                        out.text.extend_from_slice(part(middle + 1, to));
                        out.raw("]");
                        Ok(())
                    })?;
                }
            }
            Type::Map(key, value) => {
                let count = input.count(1)?;
                self.list(["[", "]"], 0..count, |out, _| {
                    out.raw("[");
                    input.nested_untyped(|input| out.value(schema, *key, input))?;
                    out.raw(",");
                    input.nested_untyped(|input| out.value(schema, *value, input))?;
                    out.raw("]");
                    Ok(())
                })?;
            }
            Type::Tuple(fields) if fields.len() == 1 => {
                input.inside(|input| self.value(schema, fields[0].node, input))?;
            }
            Type::Tuple(fields) => self.list(["[", "]"], fields, |out, field| {
                input.inside(|input| out.value(schema, field.node, input))
            })?,
            Type::Struct(fields) => self.list(["{", "}"], fields, |out, field| {
                out.plain(&field.name);
                out.raw(":");
                input
                    .inside(|input| out.value(schema, field.node, input))
                    .map_err(|error| error.in_field(&field.name))
            })?,
            Type::Enum(variants) => {
                let number = input.varint()?;
                let variant = usize::try_from(number).ok().and_then(|number| variants.get(number));
                let variant =
                    variant.ok_or_else(|| input.corrupt(format!("variant {number} does not exist")))?;
                if matches!(schema.get(variant.node), Type::Unit) {
                    self.plain(&variant.name);
                } else {
                    self.raw("{");
                    self.plain(&variant.name);
                    self.raw(":");
                    input.nested_untyped(|input| self.value(schema, variant.node, input))?;
                    self.raw("}");
                }
            }
        }
        if input.offset() == start {
            self.context.claim_empty(schema.get(node).children().count() as u64)?;
        }
        Ok(())
    }

    fn f32(&mut self, value: f32) {
        match special_f32(value) {
            Some(text) => self.plain(&text),
            None => {
                let start = self.text.len();
                self.plain(&value);
                // The shortest text of an `f32` is read back through an `f64`; where that rounds twice, say it in full.
                let shortest =
                    std::str::from_utf8(&self.text[start..]).ok().and_then(|text| text.parse::<f64>().ok());
                if shortest.is_none_or(|read| (read as f32).to_bits() != value.to_bits()) {
                    self.text.truncate(start);
                    self.plain(&f64::from(value));
                }
            }
        }
    }

    fn f64(&mut self, value: f64) {
        match special_f64(value) {
            Some(text) => self.plain(&text),
            None => self.plain(&value),
        }
    }

    /// A value that carries its own types: plain JSON where that says it all, else an object with one `$` key.
    pub(super) fn dynamic(&mut self, value: &Value) -> Result<()> {
        let tagged = |out: &mut Self, tag: &str, write: &mut dyn FnMut(&mut Self) -> Result<()>| {
            out.raw("{");
            out.plain(tag);
            out.raw(":");
            write(out)?;
            out.raw("}");
            Ok(())
        };
        let text = |out: &mut Self, tag: &str, text: &str| {
            tagged(out, tag, &mut |out| {
                out.plain(text);
                Ok(())
            })
        };
        match value {
            Value::Unit => self.raw("null"),
            Value::Bool(value) => self.plain(value),
            Value::U64(value) if *value <= SAFE_INTEGER => self.plain(value),
            Value::U64(value) => text(self, "$u64", &value.to_string())?,
            Value::F64(value) if value.is_finite() => self.plain(value),
            Value::Text(value) => self.plain(value),
            Value::List(values) => self.list(["[", "]"], values, Self::dynamic)?,
            Value::Struct(fields)
                if !fields.iter().any(|(name, _)| name.starts_with('$')) && unique(fields) =>
            {
                self.list(["{", "}"], fields, |out, (name, value)| {
                    out.plain(name);
                    out.raw(":");
                    out.dynamic(value)
                })?;
            }
            Value::I64(value) => text(self, "$i64", &value.to_string())?,
            Value::U128(value) => text(self, "$u128", &value.to_string())?,
            Value::I128(value) => text(self, "$i128", &value.to_string())?,
            Value::F32(value) => text(self, "$f32", &format!("{:08x}", value.to_bits()))?,
            Value::F64(value) => text(self, "$f64", &format!("{:016x}", value.to_bits()))?,
            Value::Char(value) => text(self, "$char", value.encode_utf8(&mut [0; 4]))?,
            Value::Bytes(value) => text(self, "$bytes", &to_hex(value))?,
            Value::Entity(value) => text(self, "$entity", &value.to_bits().to_string())?,
            Value::None => tagged(self, "$none", &mut |out| {
                out.raw("true");
                Ok(())
            })?,
            Value::Some(value) => tagged(self, "$some", &mut |out| out.dynamic(value))?,
            Value::Tuple(values) => {
                tagged(self, "$tuple", &mut |out| out.list(["[", "]"], values, Self::dynamic))?;
            }
            Value::Map(entries) => tagged(self, "$map", &mut |out| {
                out.list(["[", "]"], entries, |out, (key, value)| {
                    out.raw("[");
                    out.dynamic(key)?;
                    out.raw(",");
                    out.dynamic(value)?;
                    out.raw("]");
                    Ok(())
                })
            })?,
            Value::Struct(fields) => tagged(self, "$struct", &mut |out| {
                out.list(["[", "]"], fields, |out, (name, value)| {
                    out.raw("[");
                    out.plain(name);
                    out.raw(",");
                    out.dynamic(value)?;
                    out.raw("]");
                    Ok(())
                })
            })?,
            Value::Enum(name, content) => tagged(self, "$enum", &mut |out| {
                out.raw("[");
                out.plain(name);
                out.raw(",");
                out.dynamic(content)?;
                out.raw("]");
                Ok(())
            })?,
        }
        Ok(())
    }
}

fn unique(fields: &[(String, Value)]) -> bool {
    let mut names: Vec<&str> = fields.iter().map(|(name, _)| &**name).collect();
    names.sort_unstable();
    names.windows(2).all(|pair| pair[0] != pair[1])
}
