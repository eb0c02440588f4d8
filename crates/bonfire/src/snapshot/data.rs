//! The data section: the game's own values, by key, in order.

use std::sync::Arc;

use bytes::Bytes;

use crate::context::LoadContext;
use crate::convert::decode_by_name;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::persist::Persist;
use crate::schema::{Fingerprint, Node, Schema};
use crate::value::{Value, decode_value};
use crate::wire::{Reader, Writer};

/// Keys that begin with this belong to Bonfire and its front ends: they are written first and dispatched first.
pub const RESERVED_PREFIX: &str = "bonfire.";

/// The data entry with the ids that the world would give out again. It is about ids, not about the world: loads that do
/// not keep ids leave it alone, and nobody is asked for it.
pub(crate) const FREE_LIST_KEY: &str = "bonfire.free_list";

/// A value that the game or a plugin attached to a save.
#[derive(Clone, Debug)]
pub struct DataEntry {
    key: String,
    version: u32,
    fingerprint: Fingerprint,
    schema: Option<Arc<Schema>>,
    bytes: Bytes,
}

impl DataEntry {
    /// Encodes a value.
    pub fn new<T: Persist>(key: impl Into<String>, value: &T) -> Result<Self> {
        let mut out = Writer::new();
        value.encode(&mut out);
        let schema = Schema::of::<T>();
        let fingerprint = schema.fingerprint();
        Ok(Self::from_parts(key.into(), 1, fingerprint, Some(Arc::new(schema)), out.finish()?.into()))
    }

    /// Sets the version of what the value means. Default: 1.
    pub fn with_version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    pub(crate) fn from_parts(
        key: String,
        version: u32,
        fingerprint: Fingerprint,
        schema: Option<Arc<Schema>>,
        bytes: Bytes,
    ) -> Self {
        Self { key, version, fingerprint, schema, bytes }
    }

    pub(crate) fn with_key(self, key: String) -> Self {
        Self { key, ..self }
    }

    /// Its key.
    pub fn key(&self) -> &str {
        &self.key
    }
    /// The version it was saved with.
    pub fn version(&self) -> u32 {
        self.version
    }
    /// Stands for the schema.
    pub fn schema_fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
    /// What it is made of. Fails if the snapshot names its schema by hash and nobody knows it.
    pub fn schema(&self) -> Result<&Arc<Schema>> {
        self.schema.as_ref().ok_or_else(|| {
            let hash = self.fingerprint;
            Error::unknown(format!("its schema is saved by hash only ({hash}), and no table at hand has it"))
                .in_key(&self.key)
        })
    }
    /// Its encoded bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn shared_bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// The value as a `T`; if it was saved as another type, by name. References in it are left as they were saved: map them with
    /// [`DataEntry::get_in`].
    pub fn get<T: Persist>(&self) -> Result<T> {
        self.get_in(&LoadContext::new(&Limits::default()))
    }

    /// The value as a `T`, with references mapped as the load maps them.
    pub fn get_in<T: Persist>(&self, context: &LoadContext<'_>) -> Result<T> {
        let decode = || {
            if self.fingerprint != Schema::of::<T>().fingerprint() {
                return decode_by_name(&self.key, self.schema()?, &self.bytes, context);
            }
            let mut input = Reader::new(&self.bytes, context);
            T::decode(&mut input).and_then(|value| input.finish().map(|()| value))
        };
        decode().map_err(|error| error.in_key(&self.key))
    }

    /// The value without its Rust type.
    pub fn value(&self, limits: &Limits) -> Result<Value> {
        let context = LoadContext::new(limits);
        let mut input = Reader::new(&self.bytes, &context);
        let value =
            decode_value(self.schema()?, Node::ROOT, &mut input).and_then(|v| input.finish().map(|()| v));
        value.map_err(|error| error.in_key(&self.key))
    }

    /// The same value with its references mapped, in memory of its own.
    pub(crate) fn remapped(&self, context: &LoadContext<'_>) -> Result<Self> {
        self.transformed(context, |_| {})
    }

    /// The same value with its references mapped and the maps inside it sorted.
    pub(crate) fn canonical(&self, context: &LoadContext<'_>) -> Result<Self> {
        self.transformed(context, Value::sort_maps)
    }

    fn transformed(&self, context: &LoadContext<'_>, change: impl FnOnce(&mut Value)) -> Result<Self> {
        let schema = self.schema()?;
        if !schema.has_entities() {
            return Ok(Self { bytes: Bytes::copy_from_slice(&self.bytes), ..self.clone() });
        }
        let bytes = crate::column::transform(schema, &self.bytes, context, change);
        Ok(Self { bytes: bytes.map_err(|error| error.in_key(&self.key))?.into(), ..self.clone() })
    }
}
