//! Values by their schemas, and schemas themselves.

use bonfire::inspect::decode_value;
use bonfire::schema::{Node, Schema};
use bonfire::{Limits, LoadContext, Reader, Watch, Writer};

use super::assert_linear;

const STRUCT: u8 = 38;
const TUPLE: u8 = 37;
const LIST: u8 = 33;
const UNIT: u8 = 0;
const U8: u8 = 2;

fn schema(write: impl FnOnce(&mut Writer), limits: &Limits) -> Schema {
    let mut out = Writer::new();
    write(&mut out);
    Schema::decode(&out.finish().unwrap(), limits).unwrap()
}

fn decode(schema: &Schema, bytes: &[u8], limits: &Limits) -> bonfire::Result<bonfire::Value> {
    let context = LoadContext::new(limits);
    let mut input = Reader::new(bytes, &context);
    decode_value(schema, Node::ROOT, &mut input)
}

/// The steps of decoding, which must end with a limit.
fn refused(schema: &Schema, bytes: &[u8]) -> u64 {
    let watch = Watch::new();
    let limits = Limits { watch: Some(watch.clone()), ..Limits::default() };
    assert!(decode(schema, bytes, &limits).unwrap_err().is_limit());
    watch.steps()
}

#[test]
fn a_schema_of_many_nodes_and_names() {
    assert_linear(2000, |n, limits| {
        let schema = schema(
            |out| {
                out.varint(2);
                out.u8(STRUCT);
                out.varint(n as u64);
                for number in 0..n {
                    out.text(&format!("field{number}"));
                    out.varint(1);
                }
                out.u8(U8);
            },
            limits,
        );
        assert!(schema.to_string().len() < 100_000, "a description has an end");
    });
}

#[test]
fn a_list_of_values() {
    assert_linear(4000, |n, limits| {
        let schema = schema(|out| out.raw(&[2, LIST, 1, U8]), limits);
        let mut bytes = Writer::new();
        bytes.varint(n as u64);
        (0..n).for_each(|_| bytes.u8(7));
        decode(&schema, &bytes.finish().unwrap(), limits).unwrap();
    });
}

/// Each inner list says that it has as many elements as there are bytes left, and none of them has any.
#[test]
fn lists_of_lists_without_bytes_end_at_the_limit() {
    let limits = Limits::default();
    let schema = schema(|out| out.raw(&[3, LIST, 1, LIST, 2, UNIT]), &limits);
    let steps = |n: usize| {
        let mut bytes = Writer::new();
        bytes.varint(n as u64);
        (0..n).for_each(|_| bytes.varint(n as u64 / 2));
        (0..n).for_each(|_| bytes.u8(0));
        refused(&schema, &bytes.finish().unwrap())
    };
    assert!(steps(16_000) <= 3 << 20 && steps(32_000) <= 3 << 20);
}

/// Each element has one byte, and a field for every byte.
#[test]
fn elements_with_very_many_fields_end_at_the_limit() {
    let steps = |n: usize| {
        let limits = Limits::default();
        let schema = schema(
            |out| {
                out.varint(4);
                out.raw(&[LIST, 1, TUPLE]);
                out.varint(n as u64);
                out.varint(3);
                (1..n).for_each(|_| out.varint(2));
                out.raw(&[UNIT, U8]);
            },
            &limits,
        );
        let mut bytes = Writer::new();
        bytes.varint(n as u64);
        (0..n).for_each(|_| bytes.u8(7));
        refused(&schema, &bytes.finish().unwrap())
    };
    assert!(steps(4000) <= 3 << 20 && steps(8000) <= 3 << 20);
}

/// A tuple of two tuples of two tuples: written out, the smallest schema is endless.
#[test]
fn a_schema_that_doubles_again_and_again_ends_at_the_limit() {
    let limits = Limits::default();
    let doubling = |levels: u8| {
        let schema = |out: &mut Writer| {
            out.varint(u64::from(levels) + 1);
            for level in 0..levels {
                out.raw(&[TUPLE, 2, level + 1, level + 1]);
            }
            out.u8(UNIT);
        };
        self::schema(schema, &limits)
    };
    for levels in [30, 60, 120] {
        let schema = doubling(levels);
        assert!(schema.to_string().len() < 100_000);
        assert!(refused(&schema, &[]) <= 4 << 20, "{levels} levels");
    }
}
