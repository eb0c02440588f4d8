//! The data section: the game's own values, by key, in order.

use std::sync::Arc;

use bytes::Bytes;

use crate::context::LoadContext;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::persist::Persist;
use crate::schema::{Node, Schema};
use crate::value::{Value, decode_value};
use crate::wire::{Reader, Writer};

/// Keys that begin with this belong to Bonfire and its front ends: they are written first and dispatched first.
pub const RESERVED_PREFIX: &str = "bonfire.";

/// A value that the game or a plugin attached to a save.
#[derive(Clone, Debug)]
pub struct DataEntry {
    key: String,
    schema: Arc<Schema>,
    bytes: Bytes,
}

impl DataEntry {
    /// Encodes a value.
    pub fn new<T: Persist>(key: impl Into<String>, value: &T) -> Result<Self> {
        let mut out = Writer::new();
        value.encode(&mut out);
        Ok(Self::from_parts(key.into(), Arc::new(Schema::of::<T>()), out.finish()?.into()))
    }

    pub(crate) fn from_parts(key: String, schema: Arc<Schema>, bytes: Bytes) -> Self {
        Self { key, schema, bytes }
    }

    /// Its key.
    pub fn key(&self) -> &str {
        &self.key
    }
    /// What it is made of.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }
    /// Its encoded bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn shared_bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// The value as a `T`. References in it are left as they were saved: map them with
    /// [`DataEntry::get_in`].
    pub fn get<T: Persist>(&self) -> Result<T> {
        self.get_in(&LoadContext::new(&Limits::default()))
    }

    /// The value as a `T`, with references mapped as the load maps them.
    pub fn get_in<T: Persist>(&self, context: &LoadContext<'_>) -> Result<T> {
        let wanted = Schema::of::<T>();
        if let Some(difference) = self.schema.difference(&wanted) {
            return Err(Error::schema(difference).in_key(&self.key));
        }
        let mut input = Reader::new(&self.bytes, context);
        let value = T::decode(&mut input).and_then(|value| input.finish().map(|()| value));
        value.map_err(|error| error.in_key(&self.key))
    }

    /// The value without its Rust type.
    pub fn value(&self, limits: &Limits) -> Result<Value> {
        let context = LoadContext::new(limits);
        let mut input = Reader::new(&self.bytes, &context);
        let value =
            decode_value(&self.schema, Node::ROOT, &mut input).and_then(|v| input.finish().map(|()| v));
        value.map_err(|error| error.in_key(&self.key))
    }

    /// The same value with its references mapped.
    pub(crate) fn remapped(&self, context: &LoadContext<'_>) -> Result<Self> {
        if !self.schema.has_entities() {
            return Ok(Self { bytes: Bytes::copy_from_slice(&self.bytes), ..self.clone() });
        }
        let bytes =
            super::dense::remap(&self.schema, &self.bytes, context).map_err(|e| e.in_key(&self.key))?;
        Ok(Self { bytes: bytes.into(), ..self.clone() })
    }
}
