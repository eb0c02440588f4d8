//! Reads, each in one transaction.

use std::collections::BTreeMap;
use std::io::{Error as IoError, ErrorKind};
use std::ops::Range;

use bonfire::engine::AlignedBuf;
use bonfire::{Error, Result};
use bytes::Bytes;
use js_sys::{Array, Uint8Array};
use wasm_bindgen::prelude::*;

use super::database::{Access, OpenDatabase, PART_BYTES, Record, Work};
use crate::event::{finished, of_browser};

/// The record of a blob. `None` if there is none.
pub(super) async fn record(database: &OpenDatabase, name: &str) -> Result<Option<Record>> {
    record_in(&database.begin(Access::Read)?, name).await
}

async fn record_in(work: &Work, name: &str) -> Result<Option<Record>> {
    let request = work.names.get(&name.into()).map_err(|error| of_browser("read a name", &error))?;
    let found = finished(&request).await?;
    if found.is_undefined() { Ok(None) } else { Record::decode(&found).map(Some) }
}

/// All blobs.
pub(super) async fn names(database: &OpenDatabase) -> Result<BTreeMap<String, Record>> {
    names_in(&database.begin(Access::Read)?).await
}

pub(super) async fn names_in(work: &Work) -> Result<BTreeMap<String, Record>> {
    let failed = |error: JsValue| of_browser("list the browser's storage", &error);
    let keys = work.names.get_all_keys(&JsValue::UNDEFINED).map_err(failed)?;
    let values = work.names.get_all(&JsValue::UNDEFINED).map_err(failed)?;
    // Both are asked for before the first is there, so that the transaction stays open.
    let keys: Array = finished(&keys).await?.unchecked_into();
    let values: Array = finished(&values).await?.unchecked_into();
    let name = |key: JsValue| {
        key.as_string().ok_or_else(|| Error::corrupt("a name in the browser's storage is no text"))
    };
    keys.iter().zip(values.iter()).map(|(key, value)| Ok((name(key)?, Record::decode(&value)?))).collect()
}

/// A part of a blob.
pub(super) async fn read(database: &OpenDatabase, name: &str, range: Range<u64>) -> Result<Bytes> {
    let work = database.begin(Access::Read)?;
    let record = record_in(&work, name).await?.ok_or_else(|| {
        let nothing = IoError::new(ErrorKind::NotFound, "there is no such save");
        Error::io(format_args!("cannot open `{name}`"), nothing)
    })?;
    let end = range.end.min(record.len());
    let start = range.start.min(end);
    let mut memory = AlignedBuf::try_zeroed(end - start)?;
    let mut begin = 0;
    for segment in &record.0 {
        for part in 0..segment.parts {
            let at = begin + u64::from(part) * PART_BYTES;
            let len = PART_BYTES.min(begin + segment.len - at);
            let (from, to) = (start.max(at), end.min(at + len));
            if from >= to {
                continue;
            }
            let request = work.parts.get(&segment.key(part));
            let request = request.map_err(|error| of_browser("read a part", &error))?;
            let found = finished(&request).await?;
            let found = found.dyn_ref::<Uint8Array>().filter(|found| u64::from(found.length()) == len);
            let found = found.ok_or_else(|| Error::corrupt(format!("a part of `{name}` is missing")))?;
            // All of them are below the length of a part, or of memory.
            let slice = found.subarray((from - at) as u32, (to - at) as u32);
            slice.copy_to(&mut memory.as_mut()[(from - start) as usize..(to - start) as usize]);
        }
        begin += segment.len;
    }
    Ok(memory.share())
}
