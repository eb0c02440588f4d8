//! The steps between versions of a component, and the shortest way through them.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use super::{Descriptor, Keyed, StagedColumn};
use crate::error::{Error, Result};
use crate::persist::Persist;
use crate::schema::Schema;
use crate::value::Value;
use crate::wire::{Reader, Writer};

pub(crate) type OnValues = dyn Fn(Value) -> Result<Value> + Send + Sync;
pub(crate) type OnBytes = dyn Fn(&mut Reader<'_>, &mut Writer) -> Result<()> + Send + Sync;

/// A step from one version of a component to a later one, for changes that no pair of types expresses.
///
/// Steps need not be neighbours, and a later build may add shorter ways: the shortest chain from the version of a save to the
/// one of the build is taken, through upgraders and `#[persist(from = Old)]` together.
///
/// ```
/// # use bonfire::{Persist, Registry, Upgrader, Value};
/// #[derive(Persist)]
/// #[persist(key = "game.tags", version = 3)]
/// struct Tags(Vec<String>);
///
/// let mut registry = Registry::new();
/// registry.register::<Tags>()?;
/// // Version 1 was one text. The bytes of a value go in on one side and out on the other.
/// registry.upgrade("game.tags", Upgrader::bytes::<String, Vec<String>>(1, 2, |source, target| {
///     target.varint(1);
///     target.blob(source.blob()?); // text is bytes with their length in front
///     Ok(())
/// }))?;
/// // Version 2 had a list, version 3 has a struct around it.
/// registry.upgrade("game.tags", Upgrader::values(2, 3, |value| Ok(Value::Tuple(vec![value]))))?;
/// # Ok::<(), bonfire::Error>(())
/// ```
#[derive(Clone)]
pub struct Upgrader {
    from: u32,
    to: u32,
    work: UpgradeFn,
}

#[derive(Clone)]
enum UpgradeFn {
    Values(Arc<OnValues>),
    Bytes { source: Arc<Schema>, target: Arc<Schema>, upgrade: Arc<OnBytes> },
}

impl Upgrader {
    /// A function on values as the save describes them. What it returns is read by name, as if it had been saved so.
    pub fn values(
        from: u32,
        to: u32,
        upgrade: impl Fn(Value) -> Result<Value> + Send + Sync + 'static,
    ) -> Self {
        Self { from, to, work: UpgradeFn::Values(Arc::new(upgrade)) }
    }

    /// A function on encoded bytes: it reads an `Old` from the source, all of it, and writes a `New` to the target. Saves
    /// whose fields are not those of `Old` become it by name before. References to entities are as they were saved.
    pub fn bytes<Old: Persist, New: Persist>(
        from: u32,
        to: u32,
        upgrade: impl Fn(&mut Reader<'_>, &mut Writer) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self::bytes_of(from, Schema::of::<Old>(), to, Schema::of::<New>(), upgrade)
    }

    /// As [`Upgrader::bytes`], where there are no Rust types for the two schemas.
    pub fn bytes_of(
        from: u32,
        source: Schema,
        to: u32,
        target: Schema,
        upgrade: impl Fn(&mut Reader<'_>, &mut Writer) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        let (source, target) = (Arc::new(source), Arc::new(target));
        Self { from, to, work: UpgradeFn::Bytes { source, target, upgrade: Arc::new(upgrade) } }
    }

    /// The versions that it leads from and to.
    pub fn versions(&self) -> (u32, u32) {
        (self.from, self.to)
    }
}

impl fmt::Debug for Upgrader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upgrader({} -> {})", self.from, self.to)
    }
}

/// The versions of a type before it, as the derive names them.
#[derive(Default)]
pub struct History {
    steps: Vec<Step>,
}

impl History {
    /// An older version of a type, and all versions before that.
    pub fn typed<Old: Keyed, New: Keyed + From<Old>>(&mut self) {
        let convert: Convert = |column| {
            column.map_rows::<Old, New>(|old| New::from(old)).map_err(|error| error.in_key(New::KEY))
        };
        self.steps.push(Step {
            from: Old::VERSION,
            to: New::VERSION,
            kind: StepKind::Typed {
                old: Box::new(Descriptor::without_history::<Old>()),
                new: Box::new(Descriptor::without_history::<New>()),
                convert,
            },
        });
        Old::history(self);
    }

    pub(crate) fn of<T: Keyed>() -> Arc<[Step]> {
        let mut history = Self::default();
        T::history(&mut history);
        history.steps.into()
    }
}

/// Turns decoded rows of one version into rows of the next.
pub(crate) type Convert = for<'s> fn(StagedColumn<'s>) -> Result<StagedColumn<'s>>;

/// An edge of the graph of versions.
#[derive(Clone)]
pub(crate) struct Step {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) kind: StepKind,
}

#[derive(Clone)]
pub(crate) enum StepKind {
    /// Rows are decoded as the older type and converted.
    Typed {
        old: Box<Descriptor>,
        new: Box<Descriptor>,
        convert: Convert,
    },
    Values(Arc<OnValues>),
    Bytes {
        source: Arc<Schema>,
        target: Arc<Schema>,
        upgrade: Arc<OnBytes>,
    },
}

impl From<Upgrader> for Step {
    fn from(upgrader: Upgrader) -> Self {
        let kind = match upgrader.work {
            UpgradeFn::Values(upgrade) => StepKind::Values(upgrade),
            UpgradeFn::Bytes { source, target, upgrade } => StepKind::Bytes { source, target, upgrade },
        };
        Self { from: upgrader.from, to: upgrader.to, kind }
    }
}

impl StepKind {
    /// What the step wants to read, if it matters.
    pub(crate) fn source(&self) -> Option<&Arc<Schema>> {
        match self {
            Self::Typed { old, .. } => Some(&old.schema),
            Self::Values(_) => None,
            Self::Bytes { source, .. } => Some(source),
        }
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.from, self.to)
    }
}

/// The steps of one component.
#[derive(Clone, Debug, Default)]
pub(crate) struct Upgraders(Vec<Step>);

impl Upgraders {
    pub(crate) fn add(&mut self, step: Step, known: Option<&Descriptor>) -> Result<()> {
        let (from, to) = (step.from, step.to);
        if from >= to {
            let why = if from == to { "goes nowhere" } else { "goes back" };
            return Err(Error::misuse(format!(
                "the upgrader from version {from} to version {to} {why}: an upgrader leads to a later version"
            )));
        }
        let typed = known.map(|descriptor| &*descriptor.history).unwrap_or_default();
        if self.0.iter().chain(typed).any(|known| (known.from, known.to) == (from, to)) {
            return Err(Error::misuse(format!(
                "there are two steps from version {from} to version {to}: keep one of them"
            )));
        }
        if let Some(known) = known {
            check_end(to, known.version)?;
        }
        self.0.push(step);
        Ok(())
    }

    /// Checks the steps against the version that the component turns out to have.
    pub(crate) fn check(&self, descriptor: &Descriptor) -> Result<()> {
        for step in &self.0 {
            check_end(step.to, descriptor.version)?;
            let same = |typed: &&Step| (typed.from, typed.to) == (step.from, step.to);
            if descriptor.history.iter().any(|typed| same(&typed)) {
                let Step { from, to, .. } = step;
                return Err(Error::misuse(format!(
                    "there are two steps from version {from} to version {to}: keep one of them"
                )));
            }
        }
        Ok(())
    }

    /// Steps from which no other leads on to the version of the build.
    pub(crate) fn dead_ends(&self, descriptor: &Descriptor) -> Vec<(u32, u32)> {
        let steps = || self.0.iter().chain(descriptor.history.iter());
        let dead = |step: &&Step| shortest(steps(), step.to, descriptor.version).is_none();
        steps().filter(dead).map(|step| (step.from, step.to)).collect()
    }

    /// The shortest chain from a saved version to that of the build.
    pub(crate) fn path(&self, from: u32, descriptor: &Descriptor) -> Result<Vec<Step>> {
        let steps = || self.0.iter().chain(descriptor.history.iter());
        let version = descriptor.version;
        if let Some(path) = shortest(steps(), from, version) {
            return Ok(path);
        }
        if steps().next().is_none() {
            return Err(Error::schema(format!(
                "version {from} needs a migration to version {version}, and none is registered: add \
                 `#[persist(from = Old)]` or an upgrader"
            )));
        }
        let starts: Vec<&Step> = steps().filter(|step| step.from == from).collect();
        Err(Error::schema(match &*starts {
            [] => {
                let mut known: Vec<u32> = steps().map(|step| step.from).collect();
                known.sort_unstable();
                known.dedup();
                let known: Vec<String> = known.iter().map(u32::to_string).collect();
                format!(
                    "no step leads from version {from} towards version {version}; there are steps from {}",
                    known.join(", ")
                )
            }
            [step, ..] => format!(
                "a step leads from version {from} to version {}, but none leads on from there to version {version}",
                step.to
            ),
        }))
    }
}

fn check_end(to: u32, version: u32) -> Result<()> {
    if to > version {
        return Err(Error::misuse(format!(
            "an upgrader leads to version {to}, but the component is at version {version}: raise its version"
        )));
    }
    Ok(())
}

/// Breadth first; of two chains of one length, the one whose steps were registered first.
fn shortest<'a>(steps: impl Iterator<Item = &'a Step> + Clone, from: u32, to: u32) -> Option<Vec<Step>> {
    let mut came: HashMap<u32, Option<&Step>> = HashMap::from([(from, None)]);
    let mut queue = VecDeque::from([from]);
    while let Some(version) = queue.pop_front() {
        if version == to {
            let mut path = Vec::new();
            let mut at = version;
            while let Some(Some(step)) = came.get(&at) {
                path.push((*step).clone());
                at = step.from;
            }
            path.reverse();
            return Some(path);
        }
        for step in steps.clone().filter(|step| step.from == version && step.to <= to) {
            if let std::collections::hash_map::Entry::Vacant(entry) = came.entry(step.to) {
                entry.insert(Some(step));
                queue.push_back(step.to);
            }
        }
    }
    None
}
