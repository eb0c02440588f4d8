//! What the registry knows of a component: key, version, schema, and the functions that move its columns.
//!
//! `#[derive(Persist)]` is the usual way to get one; the other constructors are for types of other crates, for types
//! that only have serde, for codecs of the game's own, and for components that have no Rust type at all.

mod codec;
mod column;
mod erased_column;
pub(crate) mod field_default;
mod game_codec;
pub(crate) mod keyed;
mod staged;
mod upgrade;

use std::any::TypeId;
use std::borrow::Cow;
use std::sync::Arc;

pub(crate) use self::erased_column::{EncodeFailure, EncodedBody, Encoding, ErasedColumn, RowEnds};
pub use self::game_codec::Codec;
pub use self::keyed::Keyed;
pub use self::staged::{StagedColumn, StagedRows};
pub(crate) use self::upgrade::{Convert, OnBytes, OnValues, Step, StepKind, Upgraders};
pub use self::upgrade::{History, Upgrader};

use self::codec::{AdaptedCodec, CustomCodec, DynamicCodec, PersistCodec, RowCodec};
use self::column::TypedColumn;
use self::game_codec::GameCodec;
use crate::bulk::RawRows;
use crate::column::{Arena, Body, Column, ColumnKind, Component, Groups};
use crate::context::{LoadContext, SaveContext, Sessions};
use crate::error::{Error, Result};
use crate::layout::{LEAVES_MAX, Layout};
use crate::persist::{Adapter, Persist};
use crate::row::RowLayout;
use crate::schema::{Fingerprint, Schema, Type};
use crate::storage::BufferPool;
use crate::value::Value;

/// What a save does with values that hold a number which is none (NaN) or infinite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum NonFinite {
    /// They are saved bit for bit like all others, and nobody looks.
    #[default]
    Keep,
    /// They are saved bit for bit, and the snapshot's notes say how many there are and where the first is.
    Report,
    /// The save fails, and the error names the entity.
    Refuse,
}

/// The treatment of a value that cannot be encoded: its codec returned an error, or it nests too deep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Unencodable {
    /// Leaves the value out and goes on. The entity is saved without the component, and the
    /// [notes](crate::Snapshot::notes) say so. A stream leaves the value out of its tick, and mirrors keep the one before.
    #[default]
    Skip,
    /// Fails the save.
    Refuse,
}

/// How rows that repeat are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Repeats {
    /// One by one.
    #[default]
    Plain,
    /// Each distinct value of a column once.
    Dictionary,
    /// Each distinct value of the whole snapshot once.
    Shared,
}

/// Everything about one component. Cheap to clone.
#[derive(Clone)]
pub struct Descriptor {
    pub(crate) key: Cow<'static, str>,
    pub(crate) version: u32,
    pub(crate) kind: ColumnKind,
    pub(crate) transient: bool,
    pub(crate) repeats: Repeats,
    pub(crate) non_finite: NonFinite,
    /// `None`: as the save says.
    pub(crate) unencodable: Option<Unencodable>,
    pub(crate) schema: Arc<Schema>,
    pub(crate) row: RowLayout,
    pub(crate) type_id: TypeId,
    pub(crate) type_name: &'static str,
    /// Found by key only: several such components may share one Rust type.
    pub(crate) by_key_only: bool,
    /// Some values are left out: see [`Descriptor::skip_if`].
    pub(crate) skips: bool,
    /// Keys it had before.
    pub(crate) aliases: Vec<Cow<'static, str>>,
    /// The steps from older types of it.
    pub(crate) history: Arc<[Step]>,
    pub(crate) column: Arc<dyn ErasedColumn>,
}

impl Descriptor {
    /// A type with a derived key.
    pub fn of<T: Keyed>() -> Self {
        Self { history: History::of::<T>(), ..Self::without_history::<T>() }
    }

    pub(crate) fn without_history<T: Keyed>() -> Self {
        let mut descriptor = Self::new::<T>(T::KEY).with_version(T::VERSION);
        descriptor.transient = T::TRANSIENT;
        descriptor.aliases = T::ALIASES.iter().copied().map(Cow::Borrowed).collect();
        descriptor.aliases.extend(T::composed_aliases().into_iter().map(Cow::Owned));
        if T::DICTIONARY {
            descriptor.repeats = Repeats::Dictionary;
        }
        match T::SHARED {
            Some(share) => descriptor.shared(share),
            None => descriptor,
        }
    }

    /// Values that are equal are saved once in the whole snapshot, and after a load they are clones of one value: what is
    /// behind an `Arc` is shared again.
    fn shared<T: Persist>(mut self, share: fn(&T) -> T) -> Self {
        self.repeats = Repeats::Shared;
        self.column = self.column.with_share(Arc::new(share));
        self
    }

    /// A saveable type under a key of the caller's choice.
    pub fn new<T: Persist>(key: impl Into<Cow<'static, str>>) -> Self {
        Self::build(key.into(), ColumnKind::Rows, Schema::of::<T>(), PersistCodec::<T>::new())
    }

    /// A type of another crate, saved through an [`Adapter`].
    pub fn adapted<T: 'static, A: Adapter<T>>(key: impl Into<Cow<'static, str>>) -> Self {
        let codec = AdaptedCodec::<T, A>::new();
        let values = TypeId::of::<A::Saved>() == TypeId::of::<Value>();
        let kind = if values { ColumnKind::Value } else { ColumnKind::Rows };
        Self::build(key.into(), kind, Schema::of::<A::Saved>(), codec)
    }

    /// A type that only has serde. References to entities inside it are mapped if they are [`EntityId`](crate::EntityId)s.
    #[cfg(feature = "serde")]
    pub fn serde<T>(key: impl Into<Cow<'static, str>>) -> Self
    where
        T: serde::Serialize + serde::de::DeserializeOwned + 'static,
    {
        Self::adapted::<T, crate::value::Serde>(key)
    }

    /// Functions of the game's own. Both see the world through their contexts. `save` may return `None`: then the entity is
    /// saved without the component. `load` may return `None` too. What is saved has a schema like everything else, so tools
    /// can show it. A codec with state for each save and load is a [`Codec`].
    pub fn custom<T: 'static, S: Persist>(
        key: impl Into<Cow<'static, str>>,
        save: impl Fn(&T, &SaveContext<'_>) -> Result<Option<S>> + Send + Sync + 'static,
        load: impl Fn(S, &LoadContext<'_>) -> Result<Option<T>> + Send + Sync + 'static,
    ) -> Self {
        let codec = CustomCodec::new(save, load);
        Self::build(key.into(), ColumnKind::Custom, Schema::of::<S>(), codec)
    }

    /// A [`Codec`] of the game's own: functions with state that lasts for one save or one load.
    pub fn with_codec<T: 'static, C: Codec<T>>(key: impl Into<Cow<'static, str>>, codec: C) -> Self {
        let codec = GameCodec::<T, C>::new(codec);
        Self::build(key.into(), ColumnKind::Custom, Schema::of::<C::Saved>(), codec)
    }

    /// A component without a Rust type: its values are [`Value`]s of this schema.
    pub fn dynamic(key: impl Into<Cow<'static, str>>, schema: Schema) -> Self {
        let codec = DynamicCodec::new(schema.clone());
        let mut descriptor = Self::build(key.into(), ColumnKind::Rows, schema, codec);
        descriptor.by_key_only = true;
        descriptor
    }

    fn build<C: RowCodec>(key: Cow<'static, str>, kind: ColumnKind, schema: Schema, codec: C) -> Self {
        let layout = C::LAYOUT.get();
        let layout = if layout_matches(&layout, &schema) { layout } else { Layout::ROWS };
        let row = if layout.is_bulk() { RowLayout::of(&layout) } else { RowLayout::default() };
        let kind = match kind {
            ColumnKind::Rows if is_tag(&schema) && layout.is_bulk() && layout.size() == 0 => ColumnKind::Tag,
            ColumnKind::Rows if layout.is_plain() => ColumnKind::Plain,
            ColumnKind::Rows if layout.is_bulk() => ColumnKind::Strided,
            kind => kind,
        };
        Self {
            key,
            version: 1,
            kind,
            transient: false,
            repeats: Repeats::Plain,
            non_finite: NonFinite::Keep,
            unencodable: None,
            type_id: TypeId::of::<C::Row>(),
            type_name: std::any::type_name::<C::Row>(),
            by_key_only: false,
            skips: false,
            aliases: Vec::new(),
            history: Arc::default(),
            column: Arc::new(TypedColumn::new(codec, layout, row.clone())),
            row,
            schema: Arc::new(schema),
        }
    }

    /// Sets the version. Default: 1.
    pub fn with_version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// Adds a key that the component had before: saves that have it under that key still load.
    pub fn alias(mut self, key: impl Into<Cow<'static, str>>) -> Self {
        self.aliases.push(key.into());
        self
    }

    /// Never saves the component, though its entity is saved. What comes back is what a normal spawn gives.
    pub fn transient(mut self) -> Self {
        self.transient = true;
        self
    }

    /// Leaves the component out on entities for which this is true of its value. `T` must be the component's type.
    pub fn skip_if<T: 'static>(mut self, skip: impl Fn(&T) -> bool + Send + Sync + 'static) -> Result<Self> {
        self.require_type::<T>("skip_if")?;
        let skip: Arc<dyn Fn(&T) -> bool + Send + Sync> = Arc::new(skip);
        self.column = self.column.with_skip(Arc::new(skip));
        self.skips = true;
        Ok(self)
    }

    fn require_type<T: 'static>(&self, call: &str) -> Result<()> {
        if TypeId::of::<T>() == self.type_id {
            return Ok(());
        }
        let (key, named, given) = (&self.key, self.type_name, std::any::type_name::<T>());
        Err(Error::misuse(format!("`{key}` holds `{named}`, but `{call}` was given a `{given}`")))
    }

    /// Chooses how repeated values are stored. Default: one by one.
    pub fn repeats(mut self, repeats: Repeats) -> Self {
        self.repeats = repeats;
        self
    }

    /// Chooses what happens to values that hold NaN or infinity. Default: they are saved like all others.
    pub fn non_finite(mut self, policy: NonFinite) -> Self {
        self.non_finite = policy;
        self
    }

    /// Chooses what happens to values that cannot be encoded. Default: as the save says, which
    /// [skips](Unencodable::Skip) them unless told otherwise.
    pub fn unencodable(mut self, policy: Unencodable) -> Self {
        self.unencodable = Some(policy);
        self
    }

    /// Saves what `replacement` returns in the place of a value that cannot be encoded, and notes it. `T` must be the
    /// component's type.
    ///
    /// ```
    /// use bonfire::{Descriptor, Error};
    ///
    /// struct Script(String);
    ///
    /// let save = |script: &Script, _: &bonfire::SaveContext<'_>| match script.0.contains('\0') {
    ///     true => Err(Error::misuse("a script with a zero byte")),
    ///     false => Ok(Some(script.0.clone())),
    /// };
    /// let load = |text: String, _: &bonfire::LoadContext<'_>| Ok(Some(Script(text)));
    /// let descriptor = Descriptor::custom("game.script", save, load)
    ///     .replace_unencodable(|script: &Script| Script(script.0.replace('\0', "?")))?;
    /// # Ok::<(), bonfire::Error>(())
    /// ```
    pub fn replace_unencodable<T: 'static>(
        mut self,
        replacement: impl Fn(&T) -> T + Send + Sync + 'static,
    ) -> Result<Self> {
        self.require_type::<T>("replace_unencodable")?;
        let replacement: Arc<dyn Fn(&T) -> T + Send + Sync> = Arc::new(replacement);
        self.column = self.column.with_replacement(Arc::new(replacement));
        Ok(self)
    }

    /// For front ends: calls `found` with the rows whose saved part is not the same on both sides, bit by bit.
    ///
    /// # Safety
    /// On either side there are `len` live values of the component's type, one after the other, that nobody writes to
    /// meanwhile.
    #[expect(unsafe_code, reason = "rows without their type")]
    pub unsafe fn differing(&self, a: *const u8, b: *const u8, len: usize, mut found: impl FnMut(usize)) {
        // SAFETY: the caller vouches for the rows.
        unsafe { self.column.differing(a, b, len, &mut found) };
    }

    /// The name in every save.
    pub fn key(&self) -> &str {
        &self.key
    }
    /// The registered version.
    pub fn version(&self) -> u32 {
        self.version
    }
    /// The keys that it had before.
    pub fn aliases(&self) -> &[Cow<'static, str>] {
        &self.aliases
    }
    /// How columns are stored.
    pub fn kind(&self) -> ColumnKind {
        self.kind
    }
    /// Whether the component is never saved.
    pub fn is_transient(&self) -> bool {
        self.transient
    }
    /// Whether values may be left out of a save one by one: codecs of the game's own decide, and so does
    /// [`Descriptor::skip_if`].
    pub fn may_leave_out(&self) -> bool {
        self.kind == ColumnKind::Custom || self.skips
    }
    /// What a value is made of.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }
    /// The layout of raw rows, empty if columns are not raw.
    pub fn row_layout(&self) -> &RowLayout {
        &self.row
    }
    /// Permits rows to be copied as they are.
    pub fn layout_fingerprint(&self) -> Fingerprint {
        self.row.fingerprint(self.schema.fingerprint())
    }
    /// The Rust type, for messages.
    pub fn type_name(&self) -> &'static str {
        self.type_name
    }
    /// The Rust type.
    pub fn type_id(&self) -> TypeId {
        self.type_id
    }
    /// Whether this component has the Rust type `Value` and is found by its key only.
    pub fn is_dynamic(&self) -> bool {
        self.by_key_only && self.type_id == TypeId::of::<Value>()
    }
}

impl Descriptor {
    /// What a snapshot says of the component.
    pub(crate) fn component(&self) -> Component {
        Component {
            key: self.key.to_string(),
            version: self.version,
            kind: self.kind,
            schema_fingerprint: self.schema.fingerprint(),
            row: self.row.clone(),
            schema: Some(Arc::clone(&self.schema)),
        }
    }

    /// Ends the session of a save, if there is one.
    pub(crate) fn end_save(&self, context: &SaveContext<'_>) -> Result<()> {
        self.column.end_save(&context.sessions).map_err(|error| error.in_key(&self.key))
    }

    /// Ends the session of a load, if there is one.
    pub(crate) fn end_load(&self, sessions: &Sessions) -> Result<()> {
        self.column.end_load(sessions).map_err(|error| error.in_key(&self.key))
    }

    /// Drops the session of a load without ending it.
    pub(crate) fn drop_session(&self, sessions: &Sessions) {
        drop(sessions.take(Arc::as_ptr(&self.column).addr()));
    }

    /// Decoded rows as a column again.
    #[expect(unsafe_code, reason = "rows without their type")]
    pub(crate) fn encode_staged(&self, staged: &StagedColumn<'_>) -> Result<Column> {
        assert_eq!(staged.row_type(), self.type_id, "rows of the component's type");
        let mut arena = Arena::new(BufferPool::with_capacity(0, 0));
        let rows = RawRows::Slice { base: staged.as_ptr(), len: staged.len() };
        let context = SaveContext::new();
        let encoding =
            Encoding { row_ends: RowEnds::Forget, unencodable: Unencodable::Refuse, context: &context };
        // SAFETY: these are rows of the type, and they are borrowed.
        let encoded = unsafe { self.column.encode(rows, &mut arena, encoding) }?;
        self.end_save(&context)?;
        let (body, sealed) = match encoded.body {
            EncodedBody::Tag => (Body::Tag, None),
            EncodedBody::Raw(slot) => (Body::Tag, Some(slot)),
            EncodedBody::Rows { bytes, groups, .. } => {
                (Body::Rows(Groups::new(bytes.into_memory().into(), groups)), None)
            }
        };
        let body = sealed.map_or(body, |slot| Body::Raw(arena.finish().rope(slot)));
        Ok(Column { component: 0, present: staged.presence().cloned(), rows: encoded.rows, body })
    }
}

/// A layout that does not fit its schema is not trusted: rows are always right.
fn layout_matches(layout: &Layout, schema: &Schema) -> bool {
    let Some(leaves) = schema.fixed_leaves(LEAVES_MAX) else { return false };
    layout.is_bulk()
        && leaves.len() == layout.leaves().len()
        && leaves.iter().zip(layout.leaves()).all(|(fixed, leaf)| fixed.size == u64::from(leaf.size))
}

fn is_tag(schema: &Schema) -> bool {
    match schema.root() {
        Type::Unit => true,
        Type::Struct(fields) => fields.is_empty(),
        Type::Tuple(fields) => fields.is_empty(),
        _ => false,
    }
}

impl std::fmt::Debug for Descriptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Descriptor")
            .field("key", &self.key)
            .field("version", &self.version)
            .field("kind", &self.kind)
            .field("type", &self.type_name)
            .finish_non_exhaustive()
    }
}
