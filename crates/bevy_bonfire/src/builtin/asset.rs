//! Handles to assets. A handle is saved as what leads to its asset in another process: its path with the label, or its
//! UUID. A handle to an asset that was made at run time has neither: it is saved as missing, the save says so, and it
//! comes back as the default handle.

use std::marker::PhantomData;
use std::ops::Deref;

use bevy_asset::uuid::Uuid;
use bevy_asset::{AsAssetId, Asset, AssetPath, AssetServer, Handle};
use bevy_ecs::world::World;
use bonfire::schema::{Node, SchemaBuilder};
use bonfire::{Adapter, Error, LoadContext, Persist, Reader, Result, Writer};

pub(crate) const NO_PATH: &str = "an asset without a path or UUID: it comes back as the default handle";

/// Saves a [`Handle`], an option or a list of them as the path or UUID of the asset. A load starts loading it.
///
/// ```
/// # use bevy_ecs::prelude::*;
/// # use bevy_asset::{Asset, Handle};
/// # use bevy_reflect::TypePath;
/// use bevy_bonfire::prelude::*;
/// use bevy_bonfire::AssetRef;
///
/// # #[derive(Asset, TypePath)] struct Image;
/// #[derive(Component, Persist)]
/// #[persist(key = "game.portrait")]
/// struct Portrait {
///     #[persist(with = AssetRef)]
///     image: Handle<Image>,
/// }
/// ```
pub struct AssetRef;

/// What is saved of a handle.
#[derive(Persist, Clone, Debug, PartialEq, Eq)]
enum Reference {
    /// `source://path/to/file.ext#label`.
    Path(String),
    Uuid([u8; 16]),
    Missing,
}

/// What leads to an asset. See [`AssetRef`].
pub struct SavedHandle(Reference);

impl Persist for SavedHandle {
    fn schema(types: &mut SchemaBuilder) -> Node {
        Reference::schema(types)
    }
    fn encode(&self, out: &mut Writer) {
        if self.0 == Reference::Missing {
            out.note(NO_PATH);
        }
        self.0.encode(out);
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        Reference::decode(input).map(Self)
    }
}

impl<A: Asset> Adapter<Handle<A>> for AssetRef {
    type Saved = SavedHandle;

    fn save(handle: &Handle<A>) -> Result<SavedHandle> {
        Ok(SavedHandle(match handle {
            Handle::Uuid(uuid, _) => Reference::Uuid(*uuid.as_bytes()),
            Handle::Strong(_) => match handle.path() {
                Some(path) => Reference::Path(path.to_string()),
                None => Reference::Missing,
            },
        }))
    }

    fn load(saved: SavedHandle, context: &LoadContext<'_>) -> Result<Handle<A>> {
        match saved.0 {
            Reference::Missing => Ok(Handle::default()),
            Reference::Uuid(bytes) => Ok(Handle::Uuid(Uuid::from_bytes(bytes), PhantomData)),
            Reference::Path(path) => {
                let parsed = AssetPath::try_parse(&path)
                    .map_err(|error| Error::custom(format!("{path:?}: {error}")))?;
                Ok(server(context)?.load(parsed.into_owned()))
            }
        }
    }
}

/// A handle that may be missing.
impl<A: Asset> Adapter<Option<Handle<A>>> for AssetRef {
    type Saved = Option<SavedHandle>;

    fn save(handle: &Option<Handle<A>>) -> Result<Self::Saved> {
        handle.as_ref().map(Self::save).transpose()
    }
    fn load(saved: Self::Saved, context: &LoadContext<'_>) -> Result<Option<Handle<A>>> {
        saved.map(|saved| Self::load(saved, context)).transpose()
    }
}

/// Several handles.
impl<A: Asset> Adapter<Vec<Handle<A>>> for AssetRef {
    type Saved = Vec<SavedHandle>;

    fn save(handles: &Vec<Handle<A>>) -> Result<Self::Saved> {
        handles.iter().map(Self::save).collect()
    }
    fn load(saved: Self::Saved, context: &LoadContext<'_>) -> Result<Vec<Handle<A>>> {
        saved.into_iter().map(|saved| Self::load(saved, context)).collect()
    }
}

pub(crate) fn server<'a>(context: &LoadContext<'a>) -> Result<&'a AssetServer> {
    let server = context.world::<World>().and_then(World::get_resource::<AssetServer>);
    server.ok_or_else(|| Error::misuse("handles can only be loaded into a world with an `AssetServer`"))
}

/// A component around one handle, such as `Mesh3d`.
pub(crate) struct AssetComponent;

impl<C> Adapter<C> for AssetComponent
where
    C: AsAssetId + Deref<Target = Handle<C::Asset>> + From<Handle<C::Asset>>,
{
    type Saved = SavedHandle;

    fn save(component: &C) -> Result<SavedHandle> {
        <AssetRef as Adapter<Handle<C::Asset>>>::save(component)
    }
    fn load(saved: SavedHandle, context: &LoadContext<'_>) -> Result<C> {
        <AssetRef as Adapter<Handle<C::Asset>>>::load(saved, context).map(C::from)
    }
}

/// Handles inside values that are saved by reflection: paths and UUIDs too, in the form that Bevy gives them.
pub(super) mod reflected {
    use std::cell::Cell;

    use bevy_asset::{
        EphemeralHandleBehavior, HandleDeserializeProcessor, HandleSerializeProcessor, ReflectHandle,
        UntypedHandle,
    };
    use bevy_reflect::serde::{ReflectDeserializerProcessor, ReflectSerializerProcessor};
    use bevy_reflect::{PartialReflect, TypeRegistration, TypeRegistry};
    use bonfire::LoadContext;
    use serde::de::Error as _;

    pub(crate) fn save<S: serde::Serializer>(
        value: &dyn PartialReflect,
        types: &TypeRegistry,
        serializer: S,
        note: &Cell<Option<&'static str>>,
    ) -> Result<Result<S::Ok, S>, S::Error> {
        let handle = value.try_as_reflect().and_then(|value| {
            let handle = types.get_type_data::<ReflectHandle>(value.as_any().type_id())?;
            handle.downcast_handle_untyped(value.as_any())
        });
        if handle.is_some_and(|handle| matches!(handle, UntypedHandle::Strong(_)) && handle.path().is_none())
        {
            note.set(Some(super::NO_PATH));
        }
        let saver = HandleSerializeProcessor { ephemeral_handle_behavior: EphemeralHandleBehavior::Silent };
        saver.try_serialize(value, types, serializer)
    }

    pub(crate) fn load<'de, D: serde::Deserializer<'de>>(
        registration: &TypeRegistration,
        types: &TypeRegistry,
        deserializer: D,
        context: &LoadContext<'_>,
    ) -> Result<Result<Box<dyn PartialReflect>, D>, D::Error> {
        if registration.data::<ReflectHandle>().is_none() {
            return Ok(Err(deserializer));
        }
        let mut server = super::server(context).map_err(D::Error::custom)?;
        let mut loader = HandleDeserializeProcessor { load_from_path: &mut server };
        loader.try_deserialize(registration, types, deserializer)
    }
}
