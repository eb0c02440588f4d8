//! Codecs of a game, with state that lasts for one save or one load.

use std::marker::PhantomData;

use super::codec::RowCodec;
use crate::context::{LoadContext, SaveContext};
use crate::error::Result;
use crate::persist::Persist;
use crate::wire::{Reader, Writer};

/// How a game saves and loads values of a type that [`Persist`] does not fit, with a session for each save and each load: see
/// [`Descriptor::with_codec`](crate::Descriptor::with_codec).
///
/// A save begins a session with the first value that it meets, and ends it after the last one. So does a load. A save or load
/// that fails drops its session without ending it.
///
/// ```
/// use std::collections::HashMap;
/// use bonfire::{Codec, Descriptor, LoadContext, Registry, Result, SaveContext};
///
/// /// A texture, by its number in this run of the game.
/// struct Texture(u32);
///
/// /// Saves textures by their path.
/// struct TextureCodec;
///
/// impl Codec<Texture> for TextureCodec {
///     type Saved = String;
///     /// The paths by number for a save, the numbers by path for a load.
///     type Session = (HashMap<u32, String>, HashMap<String, u32>);
///
///     fn begin_save(&self, context: &SaveContext<'_>) -> Result<Self::Session> {
///         # let _ = context;
///         Ok((HashMap::from([(7, "stone.png".into())]), HashMap::new())) // a game: out of `context.world()`
///     }
///     fn save(&self, (paths, _): &mut Self::Session, value: &Texture, _: &SaveContext<'_>) -> Result<Option<String>> {
///         Ok(paths.get(&value.0).cloned()) // `None`: the entity is saved without it
///     }
///     fn begin_load(&self, _: &LoadContext<'_>) -> Result<Self::Session> {
///         Ok((HashMap::new(), HashMap::from([("stone.png".into(), 9)])))
///     }
///     fn load(&self, (_, numbers): &mut Self::Session, path: String, _: &LoadContext<'_>) -> Result<Option<Texture>> {
///         Ok(numbers.get(&path).map(|number| Texture(*number)))
///     }
/// }
///
/// let mut registry = Registry::new();
/// registry.add(Descriptor::with_codec::<Texture, _>("game.texture", TextureCodec))?;
/// # Ok::<(), bonfire::Error>(())
/// ```
pub trait Codec<T>: Send + Sync + 'static {
    /// The form in the save. It has a schema like everything else, so tools can show it.
    type Saved: Persist;
    /// State that lasts for one save or one load, such as a table of names.
    type Session: Send + 'static;

    /// Begins a save. An error is that of the value that began it: see [`Unencodable`](crate::Unencodable). The next value
    /// tries again.
    fn begin_save(&self, context: &SaveContext<'_>) -> Result<Self::Session>;

    /// Saves a value. `None` saves the entity without the component.
    fn save(
        &self,
        session: &mut Self::Session,
        value: &T,
        context: &SaveContext<'_>,
    ) -> Result<Option<Self::Saved>>;

    /// Ends a save, after its last value. An error fails the save.
    fn end_save(&self, session: Self::Session) -> Result<()> {
        drop(session);
        Ok(())
    }

    /// Begins a load.
    ///
    /// A load that is prepared on another thread begins there, without a world. If the codec asks for the world, that session is
    /// dropped, and another one begins later, where there is a world. So a codec that needs the world asks for it here.
    fn begin_load(&self, context: &LoadContext<'_>) -> Result<Self::Session>;

    /// Loads a value. `None` loads the entity without the component.
    fn load(
        &self,
        session: &mut Self::Session,
        saved: Self::Saved,
        context: &LoadContext<'_>,
    ) -> Result<Option<T>>;

    /// Ends a load, after its last value and before the world changes. An error fails the load.
    fn end_load(&self, session: Self::Session) -> Result<()> {
        drop(session);
        Ok(())
    }
}

pub(super) struct GameCodec<T, C> {
    codec: C,
    value: PhantomData<fn() -> T>,
}

impl<T, C> GameCodec<T, C> {
    pub(super) fn new(codec: C) -> Self {
        Self { codec, value: PhantomData }
    }
}

impl<T: 'static, C: Codec<T>> RowCodec for GameCodec<T, C> {
    type Row = T;
    /// `None` before the first value.
    type Session = Option<C::Session>;

    fn encode(
        &self,
        row: &T,
        out: &mut Writer,
        session: &mut Self::Session,
        context: &SaveContext<'_>,
    ) -> bool {
        let saved = begun(session, || self.codec.begin_save(context))
            .and_then(|session| self.codec.save(session, row, context));
        match saved {
            Ok(Some(saved)) => saved.encode(out),
            Ok(None) => return false,
            Err(error) => out.fail(error),
        }
        true
    }

    fn decode(&self, input: &mut Reader<'_>, session: &mut Self::Session) -> Result<Option<T>> {
        let saved = C::Saved::decode(input)?;
        let session = begun(session, || self.codec.begin_load(input.context()))?;
        self.codec.load(session, saved, input.context())
    }

    fn end_save(&self, session: Self::Session) -> Result<()> {
        session.map_or(Ok(()), |session| self.codec.end_save(session))
    }

    fn end_load(&self, session: Self::Session) -> Result<()> {
        session.map_or(Ok(()), |session| self.codec.end_load(session))
    }
}

fn begun<S>(session: &mut Option<S>, begin: impl FnOnce() -> Result<S>) -> Result<&mut S> {
    match session {
        Some(session) => Ok(session),
        None => Ok(session.insert(begin()?)),
    }
}
