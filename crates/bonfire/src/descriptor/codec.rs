//! The ways from a row to its bytes, behind one trait.

use std::marker::PhantomData;

use crate::context::{LoadContext, SaveContext};
use crate::error::Result;
use crate::layout::LayoutOf;
use crate::persist::{Adapter, Persist};
use crate::schema::{Node, Schema};
use crate::value::{Value, decode_value, encode_value};
use crate::wire::{Reader, Writer};

/// Moves one row at a time. A column is one indirect call; inside it, these calls are direct.
pub(super) trait RowCodec: Send + Sync + 'static {
    type Row: 'static;
    /// State that lasts for one save or one load. One without bytes is not kept.
    type Session: Default + Send + 'static;

    /// Writes a row. `false` means that it is to be left out, and then nothing was written.
    fn encode(
        &self,
        row: &Self::Row,
        out: &mut Writer,
        session: &mut Self::Session,
        context: &SaveContext<'_>,
    ) -> bool;

    /// Reads a row, or decides that there is none.
    fn decode(&self, input: &mut Reader<'_>, session: &mut Self::Session) -> Result<Option<Self::Row>>;

    /// Ends a save, after its last row.
    fn end_save(&self, _: Self::Session) -> Result<()> {
        Ok(())
    }

    /// Ends a load, after its last row.
    fn end_load(&self, _: Self::Session) -> Result<()> {
        Ok(())
    }

    /// Where rows lie still in memory.
    const LAYOUT: LayoutOf<Self::Row> = LayoutOf::ROWS;
}

pub(super) struct PersistCodec<T>(PhantomData<fn() -> T>);

impl<T> PersistCodec<T> {
    pub(super) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T: Persist> RowCodec for PersistCodec<T> {
    type Row = T;
    type Session = ();
    const LAYOUT: LayoutOf<T> = T::LAYOUT;

    #[inline]
    fn encode(&self, row: &T, out: &mut Writer, (): &mut (), _: &SaveContext<'_>) -> bool {
        row.encode(out);
        true
    }
    #[inline]
    fn decode(&self, input: &mut Reader<'_>, (): &mut ()) -> Result<Option<T>> {
        T::decode(input).map(Some)
    }
}

pub(super) struct AdaptedCodec<T, A>(PhantomData<fn() -> (T, A)>);

impl<T, A> AdaptedCodec<T, A> {
    pub(super) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T: 'static, A: Adapter<T>> RowCodec for AdaptedCodec<T, A> {
    type Row = T;
    type Session = ();
    const LAYOUT: LayoutOf<T> = A::LAYOUT;

    fn encode(&self, row: &T, out: &mut Writer, (): &mut (), _: &SaveContext<'_>) -> bool {
        A::encode(row, out);
        true
    }
    fn decode(&self, input: &mut Reader<'_>, (): &mut ()) -> Result<Option<T>> {
        let saved = A::Saved::decode(input)?;
        A::load(saved, input.context()).map(Some)
    }
}

pub(super) struct CustomCodec<T, S, Save, Load> {
    save: Save,
    load: Load,
    types: PhantomData<fn() -> (T, S)>,
}

impl<T, S, Save, Load> CustomCodec<T, S, Save, Load> {
    pub(super) fn new(save: Save, load: Load) -> Self {
        Self { save, load, types: PhantomData }
    }
}

impl<T, S, Save, Load> RowCodec for CustomCodec<T, S, Save, Load>
where
    T: 'static,
    S: Persist,
    Save: Fn(&T, &SaveContext<'_>) -> Result<Option<S>> + Send + Sync + 'static,
    Load: Fn(S, &LoadContext<'_>) -> Result<Option<T>> + Send + Sync + 'static,
{
    type Row = T;
    type Session = ();

    fn encode(&self, row: &T, out: &mut Writer, (): &mut (), context: &SaveContext<'_>) -> bool {
        match (self.save)(row, context) {
            Ok(Some(saved)) => saved.encode(out),
            Ok(None) => return false,
            Err(error) => out.fail(error),
        }
        true
    }
    fn decode(&self, input: &mut Reader<'_>, (): &mut ()) -> Result<Option<T>> {
        let saved = S::decode(input)?;
        (self.load)(saved, input.context())
    }
}

pub(super) struct DynamicCodec(Schema);

impl DynamicCodec {
    pub(super) fn new(schema: Schema) -> Self {
        Self(schema)
    }
}

impl RowCodec for DynamicCodec {
    type Row = Value;
    type Session = ();

    fn encode(&self, row: &Value, out: &mut Writer, (): &mut (), _: &SaveContext<'_>) -> bool {
        if let Err(error) = encode_value(&self.0, Node::ROOT, row, out) {
            out.fail(error);
        }
        true
    }
    fn decode(&self, input: &mut Reader<'_>, (): &mut ()) -> Result<Option<Value>> {
        decode_value(&self.0, Node::ROOT, input).map(Some)
    }
}
