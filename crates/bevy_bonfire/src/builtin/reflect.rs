//! Components that only have `Reflect`: the third choice, after the derive and serde, and the slowest. Values carry their
//! own types, so tools can show them.

use std::any::TypeId;
use std::cell::Cell;

use bevy_ecs::component::Component;
use bevy_ecs::entity::Entity;
use bevy_ecs::reflect::AppTypeRegistry;
use bevy_ecs::world::World;
use bevy_reflect::serde::{
    ReflectDeserializerProcessor, ReflectSerializerProcessor, TypedReflectDeserializer,
    TypedReflectSerializer,
};
use bevy_reflect::{
    FromReflect, GetTypeRegistration, PartialReflect, TypePath, TypeRegistration, TypeRegistry,
};
use bonfire::schema::{Node, SchemaBuilder};
use bonfire::{Descriptor, EntityId, Error, LoadContext, Persist, Reader, Result, Value, Writer};
use serde::de::DeserializeSeed;
use serde::{Deserialize, Serialize};

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
        move |component: &T, _| save(component, &types.read()).map(Some),
        move |saved: Reflected, context| load::<T>(saved.value, &load_types.read(), context).map(Some),
    )
}

fn save<T: PartialReflect>(component: &T, types: &TypeRegistry) -> Result<Reflected> {
    let saver = Saver { note: Cell::new(None) };
    let value = bonfire::to_value(&TypedReflectSerializer::with_processor(component, types, &saver))?;
    Ok(Reflected { value, note: saver.note.get() })
}

fn load<T: FromReflect + TypePath>(
    value: Value,
    types: &TypeRegistry,
    context: &LoadContext<'_>,
) -> Result<T> {
    let name = T::type_path();
    let unknown = || Error::misuse(format!("`{name}` is not registered for reflection"));
    let registration = types.get(TypeId::of::<T>()).ok_or_else(unknown)?;
    let mut loader = Loader { context };
    let reflected =
        TypedReflectDeserializer::with_processor(registration, types, &mut loader).deserialize(value)?;
    T::from_reflect(&*reflected).ok_or_else(|| Error::custom(format!("what is saved is not a `{name}`")))
}

/// What reflection alone would save wrongly: references to entities, which must be mapped, and handles to assets.
struct Saver {
    note: Cell<Option<&'static str>>,
}

impl ReflectSerializerProcessor for Saver {
    fn try_serialize<S: serde::Serializer>(
        &self,
        value: &dyn PartialReflect,
        types: &TypeRegistry,
        serializer: S,
    ) -> std::result::Result<std::result::Result<S::Ok, S>, S::Error> {
        if let Some(&entity) = value.try_downcast_ref::<Entity>() {
            return EntityId::from(entity).serialize(serializer).map(Ok);
        }
        #[cfg(feature = "asset")]
        return super::asset::reflected::save(value, types, serializer, &self.note);
        #[cfg(not(feature = "asset"))]
        {
            let _ = (types, &self.note);
            Ok(Err(serializer))
        }
    }
}

struct Loader<'a> {
    context: &'a LoadContext<'a>,
}

impl ReflectDeserializerProcessor for Loader<'_> {
    fn try_deserialize<'de, D: serde::Deserializer<'de>>(
        &mut self,
        registration: &TypeRegistration,
        types: &TypeRegistry,
        deserializer: D,
    ) -> std::result::Result<std::result::Result<Box<dyn PartialReflect>, D>, D::Error> {
        if registration.type_id() == TypeId::of::<Entity>() {
            // The core has mapped it already.
            let entity: Entity = EntityId::deserialize(deserializer)?.into();
            return Ok(Ok(Box::new(entity)));
        }
        #[cfg(feature = "asset")]
        return super::asset::reflected::load(registration, types, deserializer, self.context);
        #[cfg(not(feature = "asset"))]
        {
            let _ = (types, self.context);
            Ok(Err(deserializer))
        }
    }
}
