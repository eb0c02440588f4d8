//! JSON tables.

use bonfire::{Limits, Registry, Snapshot};

use super::assert_linear;

fn read(data: &str, limits: &Limits) -> bonfire::Result<Snapshot> {
    let json =
        format!(r#"{{"version":1,"nextEntityId":0,"componentTable":[],"archetypes":[],"data":[{data}]}}"#);
    Snapshot::from_json_with(&json, &Registry::new(), limits)
}

#[test]
fn a_struct_of_many_fields() {
    assert_linear(2000, |n, limits| {
        let fields: Vec<String> = (0..n).map(|number| format!(r#"["f{number}",1]"#)).collect();
        let values: Vec<String> = (0..n).map(|number| format!(r#""f{number}":7"#)).collect();
        let (fields, values) = (fields.join(","), values.join(","));
        let entry = format!(r#"{{"key":"a","schema":[{{"struct":[{fields}]}},"u8"],"value":{{{values}}}}}"#);
        assert_eq!(read(&entry, limits).unwrap().data()[0].as_bytes().len(), n);
    });
}

#[test]
fn many_values_of_an_enum_of_many_variants() {
    assert_linear(2000, |n, limits| {
        let variants: Vec<String> = (0..n).map(|number| format!(r#"["v{number}",2]"#)).collect();
        let values: Vec<String> = (0..n).map(|_| format!(r#""v{}""#, n - 1)).collect();
        let (variants, values) = (variants.join(","), values.join(","));
        let schema = format!(r#"[{{"list":1}},{{"enum":[{variants}]}},"unit"]"#);
        let entry = format!(r#"{{"key":"a","schema":{schema},"value":[{values}]}}"#);
        assert_eq!(read(&entry, limits).unwrap().data().len(), 1);
    });
}

#[test]
fn the_limits_of_the_caller_hold() {
    let limits = Limits { data_entries_max: 1, ..Limits::default() };
    let entry = r#"{"key":"a","value":1}"#;
    assert!(read(entry, &limits).is_ok());
    assert!(read(&format!("{entry},{entry}"), &limits).unwrap_err().is_limit());
}
