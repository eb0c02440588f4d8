//! Values and damage as JSON, for scripts.
//!
//! What each value becomes: numbers up to 64 bits are numbers and exact, 128 bits are text; floats that are no numbers
//! are `"nan"`, `"inf"`, `"-inf"`; bytes are hexadecimal text; entities are `"7v1"`, and no entity is `null`; a variant
//! without data is its name, with data `{"Name": data}`; a map whose keys are text is an object, any other a list of
//! pairs. Nothing and a unit are `null`; something is what it holds.

use bonfire::inspect::DamagedBlock;
use bonfire::{Damage, Value};
use serde_json::{Map, Number, Value as Json, json};

pub(crate) fn value(value: &Value) -> Json {
    match value {
        Value::Unit | Value::None => Json::Null,
        Value::Bool(value) => (*value).into(),
        Value::U64(value) => (*value).into(),
        Value::I64(value) => (*value).into(),
        Value::U128(value) => value.to_string().into(),
        Value::I128(value) => value.to_string().into(),
        // By way of text: 0.1 as an `f32` is 0.1, not 0.10000000149011612.
        Value::F32(value) => float(value.to_string().parse().unwrap_or(f64::from(*value))),
        Value::F64(value) => float(*value),
        Value::Char(value) => value.to_string().into(),
        Value::Text(value) => value.as_str().into(),
        Value::Bytes(value) => value.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
        Value::Entity(value) if value.is_null() => Json::Null,
        Value::Entity(value) => value.to_string().into(),
        Value::Some(some) => self::value(some),
        Value::List(values) | Value::Tuple(values) => values.iter().map(self::value).collect(),
        Value::Struct(fields) => {
            let fields = fields.iter().map(|(name, value)| (Some(&**name), name.as_str().into(), value));
            object_or_pairs(fields)
        }
        Value::Map(entries) => {
            object_or_pairs(entries.iter().map(|(key, value)| (key.as_text(), self::value(key), value)))
        }
        Value::Enum(name, content) => match &**content {
            Value::Unit => name.as_str().into(),
            content => Json::Object(Map::from_iter([(name.clone(), self::value(content))])),
        },
        // A kind of value that is newer than this tool.
        other => other.to_string().into(),
    }
}

/// A number, or its name if JSON has none for it.
pub(crate) fn float(value: f64) -> Json {
    if value.is_nan() {
        return "nan".into();
    }
    Number::from_f64(value).map_or_else(|| value.to_string().into(), Json::Number)
}

/// An object, unless that would lose an entry: a key that is not text, or is there twice.
fn object_or_pairs<'v>(entries: impl Iterator<Item = (Option<&'v str>, Json, &'v Value)> + Clone) -> Json {
    let mut object = Map::new();
    for (name, _, value) in entries.clone() {
        let Some(name) = name.filter(|name| !object.contains_key(*name)) else {
            return entries.map(|(_, key, value)| json!([key, self::value(value)])).collect();
        };
        object.insert(name.to_owned(), self::value(value));
    }
    Json::Object(object)
}

pub(crate) fn damaged_blocks(damage: &Damage) -> Json {
    let block = |block: &DamagedBlock| json!({ "section": block.section, "offset": block.offset, "bytes": block.bytes });
    damage.blocks.iter().map(block).collect()
}

pub(crate) fn losses(damage: &Damage) -> Json {
    damage.losses.iter().map(|loss| Json::from(loss.to_string())).collect()
}

/// What salvage passed over; `null` if the save is whole.
pub(crate) fn damage(error: Option<&bonfire::Error>, damage: &Damage) -> Json {
    let Some(error) = error else { return Json::Null };
    json!({ "error": error.to_string(), "damaged_blocks": damaged_blocks(damage), "losses": losses(damage) })
}

#[cfg(test)]
mod tests {
    use bonfire::EntityId;

    use super::*;

    #[test]
    fn numbers_are_exact_or_text() {
        assert_eq!(value(&Value::U64(u64::MAX)).to_string(), "18446744073709551615");
        assert_eq!(value(&Value::I64(i64::MIN)).to_string(), "-9223372036854775808");
        assert_eq!(value(&Value::U128(u128::MAX)), json!(u128::MAX.to_string()));
        assert_eq!(value(&Value::F32(0.1)).to_string(), "0.1");
        assert_eq!(value(&Value::F64(-0.0)).to_string(), "-0.0");
        assert_eq!(value(&Value::F32(f32::NAN)), json!("nan"));
        assert_eq!(value(&Value::F64(-f64::NAN)), json!("nan"));
        assert_eq!(value(&Value::F64(f64::NEG_INFINITY)), json!("-inf"));
        assert_eq!(value(&Value::F32(f32::INFINITY)), json!("inf"));
    }

    #[test]
    fn no_entry_of_a_map_or_struct_is_lost() {
        let text = |text: &str| Value::Text(text.to_owned());
        let named = Value::Map(vec![(text("a"), Value::U64(1)), (text("b"), Value::Unit)]);
        assert_eq!(value(&named), json!({ "a": 1, "b": null }));
        let numbered = Value::Map(vec![(Value::U64(7), text("x"))]);
        assert_eq!(value(&numbered), json!([[7, "x"]]));
        let twice = Value::Struct(vec![("a".into(), Value::U64(1)), ("a".into(), Value::U64(2))]);
        assert_eq!(value(&twice), json!([["a", 1], ["a", 2]]));
    }

    #[test]
    fn variants_entities_and_bytes_have_short_forms() {
        let variant = |content| Value::Enum("Walk".into(), Box::new(content));
        assert_eq!(value(&variant(Value::Unit)), json!("Walk"));
        assert_eq!(value(&variant(Value::Tuple(vec![Value::Bool(true)]))), json!({ "Walk": [true] }));
        assert_eq!(value(&Value::Entity(EntityId::new(7, 1))), json!("7v1"));
        assert_eq!(value(&Value::Entity(EntityId::NULL)), json!(null));
        assert_eq!(value(&Value::Bytes(vec![0, 255])), json!("00ff"));
    }
}
