//! Random lives of a world, told without an engine: what is spawned, changed, adopted and despawned.
//!
//! A front end implements [`ScriptWorld`] for its own world and components and gets the property suite for it. The same
//! script run by two front ends gives saves that read each other, if the keys are the same.

use std::collections::BTreeMap;

use bonfire::Snapshot;
use proptest::collection::vec;
use proptest::prelude::*;

/// A component of some kind, with numbers in the place of references.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names are those of the components")]
pub enum Part {
    /// Every entity gets one of its own when it is spawned, so that none is like another.
    Name(String),
    Position(f32, f32),
    Health(u8, u32),
    Inventory(Vec<String>, Option<u64>),
    Enemy,
    Burning(String),
    Follows {
        leader: usize,
        others: Vec<usize>,
        last: Option<usize>,
    },
    Mood(Option<(usize, u8)>),
    Hover(u32),
    Team(u8),
    DockedAt(usize, String),
    Quest(String, u32),
    /// Its codec leaves odd numbers out.
    Even(u8),
}

/// How many kinds of parts there are.
pub const KINDS: usize = 13;

impl Part {
    /// Its kind, below [`KINDS`].
    pub fn kind(&self) -> usize {
        match self {
            Self::Name(_) => 0,
            Self::Position(..) => 1,
            Self::Health(..) => 2,
            Self::Inventory(..) => 3,
            Self::Enemy => 4,
            Self::Burning(_) => 5,
            Self::Follows { .. } => 6,
            Self::Mood(_) => 7,
            Self::Hover(_) => 8,
            Self::Team(_) => 9,
            Self::DockedAt(..) => 10,
            Self::Quest(..) => 11,
            Self::Even(_) => 12,
        }
    }

    /// The entities it refers to.
    fn references(&mut self) -> Vec<&mut usize> {
        match self {
            Self::Follows { leader, others, last } => {
                [leader].into_iter().chain(others).chain(last).collect()
            }
            Self::Mood(Some((at, _))) | Self::DockedAt(at, _) => vec![at],
            _ => vec![],
        }
    }
}

/// One thing that happens. Entities are meant by number, counted round over those that there are.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Step {
    Spawn { parts: Vec<Part>, saved: bool },
    Insert(usize, Part),
    Remove(usize, usize),
    Adopt { child: usize, parent: usize },
    Orphan(usize),
    Despawn(usize),
}

fn part() -> impl Strategy<Value = Part> {
    let text = "[a-zé]{0,6}";
    prop_oneof![
        (any::<f32>(), any::<f32>()).prop_map(|(x, y)| Part::Position(x, y)),
        (any::<u8>(), any::<u32>()).prop_map(|(current, max)| Part::Health(current, max)),
        (vec(text, 0..4), any::<Option<u64>>()).prop_map(|(items, gold)| Part::Inventory(items, gold)),
        Just(Part::Enemy),
        text.prop_map(Part::Burning),
        (0..100_usize, vec(0..100_usize, 0..4), proptest::option::of(0..100_usize))
            .prop_map(|(leader, others, last)| Part::Follows { leader, others, last }),
        proptest::option::of((0..100_usize, any::<u8>())).prop_map(Part::Mood),
        any::<u32>().prop_map(Part::Hover),
        any::<u8>().prop_map(Part::Team),
        (0..100_usize, text).prop_map(|(at, berth)| Part::DockedAt(at, berth)),
        (text, any::<u32>()).prop_map(|(title, stage)| Part::Quest(title, stage)),
        any::<u8>().prop_map(Part::Even),
    ]
}

/// A random script with about this many steps.
pub fn scripts(steps: usize) -> impl Strategy<Value = Vec<Step>> {
    let spawn = (vec(part(), 0..6), proptest::bool::weighted(0.9))
        .prop_map(|(parts, saved)| Step::Spawn { parts, saved });
    let entity = || 0..1000_usize;
    let step = prop_oneof![
        4 => spawn,
        3 => (entity(), part()).prop_map(|(entity, part)| Step::Insert(entity, part)),
        1 => (entity(), 1..KINDS).prop_map(|(entity, kind)| Step::Remove(entity, kind)),
        3 => (entity(), entity()).prop_map(|(child, parent)| Step::Adopt { child, parent }),
        1 => entity().prop_map(Step::Orphan),
        1 => entity().prop_map(Step::Despawn),
    ];
    vec(step, steps / 2..steps)
}

/// A world that can live through a script.
pub trait ScriptWorld: Sized {
    /// Its entities.
    type Entity: Copy + PartialEq;

    /// A world with everything registered, in one order or in the other.
    fn fresh(reversed: bool) -> Self;
    /// A new entity, part of saves or not.
    fn spawn(&mut self, saved: bool) -> Self::Entity;
    /// Whether an entity is still there.
    fn is_alive(&self, entity: Self::Entity) -> bool;
    /// Adds a component; `targets` are the entities that its numbers mean.
    fn insert(&mut self, entity: Self::Entity, part: &Part, targets: &[Self::Entity]);
    /// Removes the component of this kind.
    fn remove(&mut self, entity: Self::Entity, kind: usize);
    /// Makes an entity the child of another.
    fn adopt(&mut self, child: Self::Entity, parent: Self::Entity);
    /// Takes an entity from its parent.
    fn orphan(&mut self, child: Self::Entity);
    /// Removes an entity, and what hangs on it.
    fn despawn(&mut self, entity: Self::Entity);
    /// Saves.
    fn save(&self) -> Snapshot;
    /// Loads in the place of what is there.
    fn replace(&mut self, snapshot: &Snapshot);
    /// Goes back to a snapshot of this world's own past.
    fn restore(&mut self, snapshot: &Snapshot);
    /// Everything that counts, as text that does not depend on ids and rows.
    fn describe(&self) -> String;
}

/// What a world has lived through.
pub struct Life<W: ScriptWorld> {
    /// Every entity that was ever spawned, and whether it is part of saves.
    pub entities: Vec<(W::Entity, bool)>,
    parts: BTreeMap<(usize, usize), Part>,
}

impl<W: ScriptWorld> Default for Life<W> {
    fn default() -> Self {
        Self { entities: Vec::new(), parts: BTreeMap::new() }
    }
}

impl<W: ScriptWorld> Life<W> {
    /// Lets a world live through a script, and then takes out all references to what is gone, so that everything that is
    /// left can be saved.
    pub fn go_on(&mut self, world: &mut W, script: &[Step]) {
        script.iter().for_each(|step| self.step(world, step));
        for ((number, kind), part) in &mut self.parts {
            let gone = part.references().into_iter().any(|target| !world.is_alive(self.entities[*target].0));
            if gone && world.is_alive(self.entities[*number].0) {
                world.remove(self.entities[*number].0, *kind);
            }
        }
    }

    fn put(&mut self, world: &mut W, number: usize, part: &Part, saved: &[usize]) {
        let mut part = part.clone();
        for reference in part.references() {
            match saved.is_empty() {
                true => return,
                false => *reference = saved[*reference % saved.len()],
            }
        }
        let targets: Vec<W::Entity> = self.entities.iter().map(|(entity, _)| *entity).collect();
        world.insert(self.entities[number].0, &part, &targets);
        self.parts.insert((number, part.kind()), part);
    }

    fn step(&mut self, world: &mut W, step: &Step) {
        let alive: Vec<usize> =
            (0..self.entities.len()).filter(|&number| world.is_alive(self.entities[number].0)).collect();
        let saved: Vec<usize> = alive.iter().copied().filter(|&number| self.entities[number].1).collect();
        let pick = |number: usize| (!alive.is_empty()).then(|| alive[number % alive.len()]);
        let pick_saved = |number: usize| (!saved.is_empty()).then(|| saved[number % saved.len()]);
        match step {
            Step::Spawn { parts, saved: is_saved } => {
                self.entities.push((world.spawn(*is_saved), *is_saved));
                let number = self.entities.len() - 1;
                self.put(world, number, &Part::Name(number.to_string()), &saved);
                parts.iter().for_each(|part| self.put(world, number, part, &saved));
            }
            Step::Insert(number, part) => {
                if let Some(number) = pick(*number) {
                    self.put(world, number, part, &saved);
                }
            }
            Step::Remove(number, kind) => {
                if let Some(number) = pick(*number) {
                    world.remove(self.entities[number].0, *kind);
                    self.parts.remove(&(number, *kind));
                }
            }
            Step::Adopt { child, parent } => {
                if let (Some(child), Some(parent)) = (pick_saved(*child), pick_saved(*parent))
                    && child != parent
                {
                    world.adopt(self.entities[child].0, self.entities[parent].0);
                }
            }
            Step::Orphan(number) => {
                if let Some(number) = pick(*number) {
                    world.orphan(self.entities[number].0);
                }
            }
            Step::Despawn(number) => {
                if let Some(number) = pick(*number) {
                    world.despawn(self.entities[number].0);
                }
            }
        }
    }
}

/// Lets a world live through a script from its beginning.
pub fn live<W: ScriptWorld>(world: &mut W, script: &[Step]) {
    Life::default().go_on(world, script);
}

/// What must hold when a world goes back to what it was before `later` happened.
pub fn check_restore<W: ScriptWorld>(script: &[Step], later: &[Step]) -> Result<(), TestCaseError> {
    let mut world = W::fresh(false);
    let mut life = Life::default();
    life.go_on(&mut world, script);
    let (saved, expected) = (world.save(), world.describe());
    let was_alive: Vec<bool> = life.entities.iter().map(|(entity, _)| world.is_alive(*entity)).collect();
    life.go_on(&mut world, later);
    let alive: Vec<bool> = life.entities.iter().map(|(entity, _)| world.is_alive(*entity)).collect();

    world.restore(&saved);
    prop_assert_eq!(world.describe(), expected.clone(), "restored");
    for (number, (entity, is_saved)) in life.entities.iter().enumerate().filter(|(_, (_, saved))| *saved) {
        let kept = alive[number] && was_alive.get(number) == Some(&true);
        prop_assert_eq!(world.is_alive(*entity), kept, "entity {} ({})", number, is_saved);
    }
    let bytes = |world: &W| {
        world.save().canonical().and_then(|snapshot| snapshot.to_bytes()).map_err(|error| error.to_string())
    };
    let once = bytes(&world).map_err(TestCaseError::fail)?;
    world.restore(&world.save());
    prop_assert_eq!(
        bytes(&world).map_err(TestCaseError::fail)?,
        once,
        "a restore of what is there changes nothing"
    );

    // A load gives the same, and so does a restore into a world that has none of it.
    let mut other = W::fresh(true);
    other.replace(&saved);
    prop_assert_eq!(other.describe(), expected.clone(), "loaded");
    let mut fresh = W::fresh(false);
    fresh.restore(&saved);
    prop_assert_eq!(fresh.describe(), expected, "restored into an empty world");
    Ok(())
}

/// What must hold for every script and every front end.
pub fn check<W: ScriptWorld>(script: &[Step]) -> Result<(), TestCaseError> {
    let mut world = W::fresh(false);
    live(&mut world, script);
    let bytes = |world: &W| {
        world
            .save()
            .encode(&bonfire::EncodeOptions::default())
            .map(|rope| rope.to_vec())
            .map_err(|error| error.to_string())
    };
    let saved = bytes(&world).map_err(TestCaseError::fail)?;
    prop_assert_eq!(
        &bytes(&world).map_err(TestCaseError::fail)?,
        &saved,
        "saving twice gives the same bytes"
    );
    let snapshot = Snapshot::open(&saved).map_err(|error| TestCaseError::fail(error.to_string()))?;

    // Another app, registered in another order, reads it, and is read again.
    let mut other = W::fresh(true);
    other.replace(&snapshot);
    prop_assert_eq!(other.describe(), world.describe(), "another app");
    let mut again = W::fresh(false);
    again.replace(&other.save());
    prop_assert_eq!(again.describe(), world.describe(), "there and back");

    // Over a world that has had another life, and over the same world twice.
    live(&mut again, script);
    again.replace(&snapshot);
    prop_assert_eq!(again.describe(), world.describe(), "over a world with another life");
    again.replace(&snapshot);
    prop_assert_eq!(again.describe(), world.describe(), "twice");
    Ok(())
}
