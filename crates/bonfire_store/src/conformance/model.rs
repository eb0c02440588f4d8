//! Random calls, compared with a map.

use std::collections::BTreeMap;

use bonfire::Error;

use super::{bytes, refused};
use crate::store::{Payload, Precondition, Store, Version};

const NAMES: [&str; 4] = ["a", "b", "a.b", "long-name_1.part"];

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
    fn name(&mut self) -> &'static str {
        NAMES[self.below(NAMES.len() as u64) as usize]
    }
}

pub(super) async fn random_calls(store: &dyn Store) {
    let mut random = Random(7);
    let mut model: BTreeMap<&str, (Vec<u8>, Option<Version>)> = BTreeMap::new();
    for step in 0..200 {
        let name = random.name();
        match random.below(8) {
            0..=2 => put(store, &mut model, name, step, &mut random).await,
            3 => {
                let removed = store.remove(name).await.unwrap();
                assert_eq!(removed, model.remove(name).is_some());
            }
            4 => rename(store, &mut model, name, random.name()).await,
            5 => {
                let end = model.get(name).map_or(0, |(bytes, _)| bytes.len()) as u64;
                let extra = bytes(random.below(500) as usize, step);
                match store.append(name, end, Payload::from(extra.clone())).await {
                    Ok(len) => {
                        let (bytes, version) = model.entry(name).or_default();
                        bytes.extend(extra);
                        *version = None;
                        assert_eq!(len, bytes.len() as u64);
                    }
                    Err(error) => assert!(error.is_unsupported(), "{error}"),
                }
            }
            _ => {
                let start = random.below(3000);
                let range = start..start + random.below(3000);
                match (model.get(name), store.get_range(name, range.clone()).await) {
                    (Some((bytes, _)), Ok(found)) => {
                        let clamp = |at: u64| (at as usize).min(bytes.len());
                        assert_eq!(found, bytes[clamp(range.start)..clamp(range.end)]);
                    }
                    (None, found) => refused(found, Error::is_not_found, name),
                    (Some(_), Err(error)) => panic!("{name}: {error}"),
                }
            }
        }
        assert_eq!(store.list("").await.unwrap(), model.keys().copied().collect::<Vec<_>>());
        for (name, (bytes, _)) in &model {
            assert_eq!(store.get(name).await.unwrap(), bytes, "{name}");
            assert_eq!(store.head(name).await.unwrap().unwrap().len, bytes.len() as u64);
        }
    }
}

type Model<'m> = BTreeMap<&'m str, (Vec<u8>, Option<Version>)>;

async fn put(
    store: &dyn Store,
    model: &mut Model<'static>,
    name: &'static str,
    step: u64,
    random: &mut Random,
) {
    let contents = bytes(random.below(5000) as usize, step);
    let known = model.get(name).and_then(|(_, version)| version.clone());
    let (when, allowed) = match (random.below(3), known) {
        (0, _) => (Precondition::Absent, !model.contains_key(name)),
        (1, Some(version)) => (Precondition::Version(version), true),
        _ => (Precondition::None, true),
    };
    match store.put(name, Payload::from(contents.clone()), when).await {
        Ok(version) => {
            assert!(allowed, "{name} was put in spite of its precondition");
            model.insert(name, (contents, Some(version)));
        }
        Err(error) => assert!(!allowed && error.is_conflict(), "{name}: {error}"),
    }
}

async fn rename(store: &dyn Store, model: &mut Model<'static>, from: &'static str, to: &'static str) {
    let result = store.rename(from, to).await;
    if !model.contains_key(from) {
        return refused(result, Error::is_not_found, from);
    }
    if model.contains_key(to) {
        return refused(result, Error::is_conflict, to);
    }
    result.unwrap();
    let (bytes, _) = model.remove(from).unwrap_or_default();
    // A rename may count as a change or not.
    model.insert(to, (bytes, None));
}
