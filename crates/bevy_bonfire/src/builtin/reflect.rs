//! Components that only have `Reflect`: the third choice, after the derive and serde, and the slowest. Values carry their
//! own types, so tools can show them.

use std::cell::Cell;

use bevy_ecs::component::Component;
use bevy_ecs::reflect::AppTypeRegistry;
use bevy_ecs::world::World;
use bevy_reflect::serde::{TypedReflectDeserializer, TypedReflectSerializer};
use bevy_reflect::{FromReflect, GetTypeRegistration, PartialReflect, TypePath, TypeRegistry};
use bonfire::{Descriptor, Error, LoadContext, Node, Persist, Reader, Result, SchemaBuilder, Value, Writer};
use serde::de::DeserializeSeed;

use crate::app::map_entities;

/// A value, and whether something in it is lost.
struct Reflected {
    value: Value,
    note: Option<&'static str>,
}

impl Persist for Reflected {
    fn schema(types: &mut SchemaBuilder) -> Node {
        <Value as Persist>::schema(types)
    }
    fn encode(&self, out: &mut Writer) {
        if let Some(note) = self.note {
            out.note(note);
        }
        self.value.encode(out);
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { value: Value::decode(input)?, note: None })
    }
}

/// How a component is saved by reflection.
pub(crate) fn descriptor<T>(world: &mut World, key: &'static str) -> Descriptor
where
    T: Component + FromReflect + TypePath + GetTypeRegistration,
{
    let types = world.get_resource_or_init::<AppTypeRegistry>().clone();
    types.write().register::<T>();
    let load_types = types.clone();
    Descriptor::custom(
        key,
        move |component: &T| save(component, &types.read()).map(Some),
        move |saved: Reflected, context| {
            let component = load::<T>(saved.value, &load_types.read(), context)?;
            map_entities(component, context).map(Some)
        },
    )
}

fn save<T: PartialReflect>(component: &T, types: &TypeRegistry) -> Result<Reflected> {
    let lost = Cell::new(None);
    #[cfg(feature = "asset")]
    let value = {
        let handles = handle::Saver { lost: &lost };
        bonfire::to_value(&TypedReflectSerializer::with_processor(component, types, &handles))?
    };
    #[cfg(not(feature = "asset"))]
    let value = bonfire::to_value(&TypedReflectSerializer::new(component, types))?;
    Ok(Reflected { value, note: lost.get() })
}

fn load<T: FromReflect + TypePath>(
    value: Value,
    types: &TypeRegistry,
    context: &LoadContext<'_>,
) -> Result<T> {
    let name = T::type_path();
    let unknown = || Error::misuse(format!("`{name}` is not registered for reflection"));
    let registration = types.get(std::any::TypeId::of::<T>()).ok_or_else(unknown)?;
    #[cfg(feature = "asset")]
    let reflected = {
        let mut handles = handle::Loader { context };
        TypedReflectDeserializer::with_processor(registration, types, &mut handles).deserialize(value)?
    };
    #[cfg(not(feature = "asset"))]
    let reflected = {
        let _ = context;
        TypedReflectDeserializer::new(registration, types).deserialize(value)?
    };
    T::from_reflect(&*reflected).ok_or_else(|| Error::custom(format!("what is saved is not a `{name}`")))
}

/// Handles inside reflected values are saved as paths and UUIDs, in the form that Bevy gives them.
#[cfg(feature = "asset")]
mod handle {
    use std::cell::Cell;

    use bevy_asset::{
        EphemeralHandleBehavior, HandleDeserializeProcessor, HandleSerializeProcessor, ReflectHandle,
        UntypedHandle,
    };
    use bevy_reflect::serde::{ReflectDeserializerProcessor, ReflectSerializerProcessor};
    use bevy_reflect::{PartialReflect, TypeRegistration, TypeRegistry};
    use bonfire::LoadContext;
    use serde::de::Error as _;

    use crate::builtin::asset::{NO_PATH, server};

    pub(super) struct Saver<'a> {
        pub(super) lost: &'a Cell<Option<&'static str>>,
    }

    impl ReflectSerializerProcessor for Saver<'_> {
        fn try_serialize<S: serde::Serializer>(
            &self,
            value: &dyn PartialReflect,
            types: &TypeRegistry,
            serializer: S,
        ) -> Result<Result<S::Ok, S>, S::Error> {
            let handle = value.try_as_reflect().and_then(|value| {
                let handle = types.get_type_data::<ReflectHandle>(value.as_any().type_id())?;
                handle.downcast_handle_untyped(value.as_any())
            });
            if handle
                .is_some_and(|handle| matches!(handle, UntypedHandle::Strong(_)) && handle.path().is_none())
            {
                self.lost.set(Some(NO_PATH));
            }
            let saver =
                HandleSerializeProcessor { ephemeral_handle_behavior: EphemeralHandleBehavior::Silent };
            saver.try_serialize(value, types, serializer)
        }
    }

    pub(super) struct Loader<'a> {
        pub(super) context: &'a LoadContext<'a>,
    }

    impl ReflectDeserializerProcessor for Loader<'_> {
        fn try_deserialize<'de, D: serde::Deserializer<'de>>(
            &mut self,
            registration: &TypeRegistration,
            types: &TypeRegistry,
            deserializer: D,
        ) -> Result<Result<Box<dyn PartialReflect>, D>, D::Error> {
            if registration.data::<ReflectHandle>().is_none() {
                return Ok(Err(deserializer));
            }
            let mut server = server(self.context).map_err(D::Error::custom)?;
            HandleDeserializeProcessor { load_from_path: &mut server }.try_deserialize(
                registration,
                types,
                deserializer,
            )
        }
    }
}
