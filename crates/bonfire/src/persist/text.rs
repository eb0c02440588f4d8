//! Text in all its owners, and paths.

use std::borrow::Cow;
use std::fmt::Display;
use std::path::PathBuf;
use std::rc::Rc;
use std::str::FromStr;
use std::sync::Arc;

use super::{Adapter, Persist};
use crate::context::LoadContext;
use crate::error::{Error, Result};
use crate::schema::{Node, SchemaBuilder, Type};
use crate::wire::{Reader, Writer};

macro_rules! text {
    ($($owner:ty),*) => {$(
        impl Persist for $owner {
            fn schema(types: &mut SchemaBuilder) -> Node {
                types.add(Type::Text)
            }
            #[inline]
            fn encode(&self, out: &mut Writer) {
                out.text(self);
            }
            #[inline]
            fn decode(input: &mut Reader<'_>) -> Result<Self> {
                let text = input.text()?;
                input.context().claim_memory(text.len(), 1)?;
                Ok(Self::from(text))
            }
        }
    )*};
}
text!(String, Box<str>, Rc<str>, Arc<str>);

impl Persist for Cow<'static, str> {
    fn schema(types: &mut SchemaBuilder) -> Node {
        types.add(Type::Text)
    }
    fn encode(&self, out: &mut Writer) {
        out.text(self);
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        String::decode(input).map(Cow::Owned)
    }
}

/// Saved as text, with the separators that it has, so that tools show it and other systems read it. A path that is not
/// Unicode cannot be encoded: no text stands for it on another system.
impl Persist for PathBuf {
    fn schema(types: &mut SchemaBuilder) -> Node {
        types.add(Type::Text)
    }
    fn encode(&self, out: &mut Writer) {
        match self.to_str() {
            Some(text) => out.text(text),
            None => out.fail(Error::misuse(format!(
                "the path {self:?} is not Unicode: save a path that is, or skip the field"
            ))),
        }
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        String::decode(input).map(Self::from)
    }
}

/// Saves anything that can be printed and parsed as text: `#[persist(with = AsText)]`.
pub struct AsText;

impl<T: Display + FromStr + 'static> Adapter<T> for AsText
where
    T::Err: Display,
{
    type Saved = String;

    fn save(value: &T) -> Result<String> {
        Ok(value.to_string())
    }
    fn load(saved: String, _: &LoadContext<'_>) -> Result<T> {
        saved.parse().map_err(|error| Error::corrupt(format!("{saved:?} cannot be parsed: {error}")))
    }
}
