//! The database and its layout.
//!
//! | object store | key | value |
//! |---|---|---|
//! | `names` | the name of a blob | a record: 20 bytes for each of its segments |
//! | `parts` | `[id of the segment, index]` | bytes: 1 MiB, the last one of a segment less |
//!
//! A segment of a record is its id (`u64`), the number of its parts (`u32`), and its bytes (`u64`), little-endian. A put makes one
//! segment, an append adds one, and copies share them. The version of the database is that of the layout.

use bonfire::{Error, Result};
use bonfire_store::Version;
use js_sys::{Array, Object, Reflect, Uint8Array};
use wasm_bindgen::prelude::*;

use crate::binding::{Database, KeyRange, ObjectStore, Request, Scope, Transaction};
use crate::event::{Completion, Outcome, finished, handler, of_browser};

/// The layout that this build writes.
const LAYOUT_VERSION: u32 = 1;
pub(super) const NAMES: &str = "names";
pub(super) const PARTS: &str = "parts";
/// Bytes of a part. A larger one would keep the page waiting while the browser copies it.
pub(super) const PART_BYTES: u64 = 1 << 20;
const SEGMENT_BYTES: usize = 20;

/// A database that is open.
pub(crate) struct OpenDatabase(Database);

/// The access of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// A transaction over both object stores.
pub(super) struct Work {
    pub(super) names: ObjectStore,
    pub(super) parts: ObjectStore,
    transaction: Transaction,
    completion: Completion,
}

impl OpenDatabase {
    pub(super) async fn open(name: &str) -> Result<Self> {
        let failed = |error: JsValue| of_browser(&format!("open the browser's storage `{name}`"), &error);
        let request = factory()?.open(name, LAYOUT_VERSION).map_err(failed)?;
        let created = Outcome::new();
        let (told, asked) = (created.clone(), request.clone());
        let on_upgrade = handler(move |_| {
            let create = || {
                let database: Database = asked.result()?.unchecked_into();
                database.create_object_store(NAMES)?;
                database.create_object_store(PARTS)
            };
            told.set(create().map(drop));
        });
        request.set_on_upgrade_needed(on_upgrade.as_ref());
        let opened = finished(&request).await;
        request.set_on_upgrade_needed(&JsValue::NULL);
        let database: Database = opened.map_err(newer_layout)?.unchecked_into();
        close_for_others(&database);
        Ok(Self(database))
    }

    pub(super) async fn delete(name: &str) -> Result<()> {
        let failed = |error: JsValue| of_browser(&format!("remove the browser's storage `{name}`"), &error);
        let request: Request = factory()?.delete_database(name).map_err(failed)?;
        finished(&request).await.map(drop)
    }

    pub(super) fn close(&self) {
        self.0.close();
    }

    pub(super) fn begin(&self, access: Access) -> Result<Work> {
        let failed = |error: JsValue| of_browser("use the browser's storage", &error);
        let (mode, durability) = match access {
            Access::Read => ("readonly", "default"),
            Access::Write => ("readwrite", "strict"),
        };
        let options = Object::new();
        Reflect::set(&options, &"durability".into(), &durability.into()).map_err(failed)?;
        let stores = Array::of2(&NAMES.into(), &PARTS.into());
        let transaction = self.0.transaction(&stores, mode, &options).map_err(failed)?;
        if access == Access::Write && transaction.durability().as_deref() != Some("strict") {
            let _ = transaction.abort();
            return Err(Error::unsupported(
                "this browser does not say when its storage is durable: a newer one does",
            ));
        }
        let completion = Completion::of(&transaction);
        let (names, parts) = (transaction.object_store(NAMES), transaction.object_store(PARTS));
        let (names, parts) = (names.map_err(failed)?, parts.map_err(failed)?);
        Ok(Work { names, parts, transaction, completion })
    }
}

impl Work {
    /// Waits until everything is durable.
    pub(super) async fn complete(self) -> Result<()> {
        self.completion.wait().await
    }

    /// Takes everything back that the transaction has done.
    pub(super) fn abort(self) {
        // It may have ended by itself.
        let _ = self.transaction.abort();
    }
}

fn factory() -> Result<crate::binding::Factory> {
    let scope: Scope = js_sys::global().unchecked_into();
    let factory = scope.indexed_db().map_err(|error| of_browser("reach the browser's storage", &error))?;
    factory.ok_or_else(|| Error::unsupported("this browser has no IndexedDB, or not for this page"))
}

/// Another page wants to remove the database, or brings a newer layout: it need not wait.
fn close_for_others(database: &Database) {
    let closed = database.clone();
    let on_change = handler(move |_| closed.close());
    database.set_on_version_change(on_change.as_ref());
    // It lives as long as the database.
    on_change.forget();
}

fn newer_layout(error: Error) -> Error {
    match error.to_string().contains("VersionError") {
        true => Error::newer_format("a newer version of the game has made this storage: update the page"),
        false => error,
    }
}

/// Where the bytes of a blob are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record(pub(super) Vec<Segment>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) id: u64,
    pub(super) parts: u32,
    pub(super) len: u64,
}

impl Segment {
    /// A segment with an id that no other one has.
    pub(super) fn new(len: u64) -> Result<Self> {
        let half = || (js_sys::Math::random() * 4_294_967_296.0) as u64;
        let parts = u32::try_from(len.div_ceil(PART_BYTES));
        let parts = parts.map_err(|_| Error::limit(format!("{len} bytes are too many for a blob")))?;
        Ok(Self { id: half() << 32 | half(), parts, len })
    }

    /// The key of a part.
    pub(super) fn key(&self, part: u32) -> JsValue {
        Array::of2(&id_key(self.id), &part.into()).into()
    }

    /// The keys of all of its parts.
    pub(super) fn keys(&self) -> Result<JsValue> {
        let (from, to) = (self.key(0), Array::of2(&id_key(self.id), &f64::INFINITY.into()));
        let range = KeyRange::bound(&from, &to);
        range.map(JsValue::from).map_err(|error| of_browser("name a range of keys", &error))
    }
}

/// Numbers of the browser have 53 bits.
fn id_key(id: u64) -> JsValue {
    format!("{id:016x}").into()
}

/// The id of the segment that a key of a part names.
pub(super) fn id_of_key(key: &JsValue) -> Option<u64> {
    let id = key.dyn_ref::<Array>()?.get(0).as_string()?;
    u64::from_str_radix(&id, 16).ok()
}

impl Record {
    pub(super) fn len(&self) -> u64 {
        self.0.iter().map(|segment| segment.len).sum()
    }

    /// Another one after each put and append.
    pub(super) fn version(&self) -> Version {
        let last = self.0.last().map_or(0, |segment| segment.id);
        Version::new(format!("{last:016x}.{}", self.0.len()))
    }

    pub(super) fn encode(&self) -> Uint8Array {
        let mut bytes = Vec::with_capacity(self.0.len() * SEGMENT_BYTES);
        for Segment { id, parts, len } in &self.0 {
            bytes.extend(id.to_le_bytes());
            bytes.extend(parts.to_le_bytes());
            bytes.extend(len.to_le_bytes());
        }
        crate::binding::to_browser(&bytes)
    }

    pub(super) fn decode(value: &JsValue) -> Result<Self> {
        let corrupt = || Error::corrupt("a record of the browser's storage is damaged");
        let bytes = value.dyn_ref::<Uint8Array>().ok_or_else(corrupt)?.to_vec();
        let (segments, rest) = bytes.as_chunks::<SEGMENT_BYTES>();
        if !rest.is_empty() || segments.is_empty() {
            return Err(corrupt());
        }
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let segment = |bytes: &[u8; SEGMENT_BYTES]| {
            let (id, parts, len) = (number(&bytes[..8]), number(&bytes[8..12]), number(&bytes[12..]));
            let parts =
                u32::try_from(parts).ok().filter(|parts| u64::from(*parts) == len.div_ceil(PART_BYTES))?;
            Some(Segment { id, parts, len })
        };
        segments.iter().map(segment).collect::<Option<_>>().map(Self).ok_or_else(corrupt)
    }
}
