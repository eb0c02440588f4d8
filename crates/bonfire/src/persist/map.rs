//! Maps and sets, always written in the order of their encoded keys: the same content gives the same bytes, whatever
//! hasher and history it has.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, Hash};

use super::Persist;
use crate::error::Result;
use crate::schema::{Node, SchemaBuilder, Type};
use crate::wire::{Reader, Writer};

/// Writes entries sorted by the bytes of their keys.
fn encode_sorted<'a, K: Persist, V: 'a>(
    entries: impl ExactSizeIterator<Item = (&'a K, V)>,
    out: &mut Writer,
    mut encode_value: impl FnMut(V, &mut Writer),
) {
    out.varint(entries.len() as u64);
    out.nested(|out| {
        let start = out.len();
        let mut spans = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let from = out.len();
            key.encode(out);
            let split = out.len();
            encode_value(value, out);
            spans.push((from, split, out.len()));
        }
        let bytes = out.as_bytes();
        if !spans.is_sorted_by(|a, b| bytes[a.0..a.1] <= bytes[b.0..b.1]) {
            let unsorted = bytes[start..].to_vec();
            let at = |from: usize, to: usize| &unsorted[from - start..to - start];
            spans.sort_by(|a, b| at(a.0, a.1).cmp(at(b.0, b.1)));
            out.truncate(start);
            for (from, _, to) in spans {
                out.raw(at(from, to));
            }
        }
    });
}

pub(super) fn decode_pairs<K: Persist, V: Persist>(
    input: &mut Reader<'_>,
    mut insert: impl FnMut(K, V) -> bool,
) -> Result<()> {
    let count = input.count(size_of::<(K, V)>())?;
    input.nested(|input| {
        for i in 0..count {
            let before = input.context().dangling_so_far();
            let key = K::decode(input).map_err(|error| error.in_field(i))?;
            let value = V::decode(input).map_err(|error| error.in_field(i))?;
            if (key.is_null() || value.is_null()) && input.context().removes_element(before) {
                continue;
            }
            // Two keys may become one when both refer to entities that are gone: that is not damage.
            if !insert(key, value) && !input.context().has_dangling() {
                return Err(input.corrupt("a key is there twice"));
            }
        }
        Ok(())
    })
}

fn map_schema<K: Persist, V: Persist>(types: &mut SchemaBuilder) -> Node {
    let (key, value) = (K::schema(types), V::schema(types));
    types.add(Type::Map(key, value))
}

fn set_schema<T: Persist>(types: &mut SchemaBuilder) -> Node {
    let element = T::schema(types);
    types.add(Type::Set(element))
}

macro_rules! maps_and_sets {
    ($(#[$when:meta])? [$($bounds:tt)*] [$($hasher:tt)*] $map:ty, $set:ty) => {
        $(#[$when])?
        impl<K: Persist + $($bounds)*, V: Persist, $($hasher)*> Persist for $map {
            fn schema(types: &mut SchemaBuilder) -> Node {
                map_schema::<K, V>(types)
            }
            fn encode(&self, out: &mut Writer) {
                encode_sorted(self.iter(), out, V::encode);
            }
            fn decode(input: &mut Reader<'_>) -> Result<Self> {
                let mut map = Self::default();
                decode_pairs(input, |key, value| map.insert(key, value).is_none())?;
                Ok(map)
            }
        }

        $(#[$when])?
        impl<K: Persist + $($bounds)*, $($hasher)*> Persist for $set {
            fn schema(types: &mut SchemaBuilder) -> Node {
                set_schema::<K>(types)
            }
            fn encode(&self, out: &mut Writer) {
                encode_sorted(self.iter().map(|element| (element, ())), out, |(), _| {});
            }
            fn decode(input: &mut Reader<'_>) -> Result<Self> {
                let mut set = Self::default();
                decode_pairs(input, |element, ()| set.insert(element))?;
                Ok(set)
            }
        }
    };
}
maps_and_sets!([Ord][] BTreeMap<K, V>, BTreeSet<K>);
maps_and_sets!([Eq + Hash][S: BuildHasher + Default + 'static] HashMap<K, V, S>, HashSet<K, S>);
maps_and_sets!(
    #[cfg(feature = "bevy_ecs_0_20")]
    [Eq + Hash][S: BuildHasher + Default + 'static]
    bevy_platform::collections::HashMap<K, V, S>, bevy_platform::collections::HashSet<K, S>
);
maps_and_sets!(
    #[cfg(feature = "bevy_ecs_0_20")]
    [bevy_ecs::entity::EntityEquivalent + Hash][]
    bevy_ecs::entity::hash_map::EntityEquivalentHashMap<K, V>, bevy_ecs::entity::hash_set::EntityEquivalentHashSet<K>
);
