//! A load that is spread over frames.
//!
//! | part | in slices | |
//! |---|---|---|
//! | 1 | by column | columns that look at the world are decoded |
//! | 2 | yes | all entities are spawned, in the order of the save, as [`Arriving`](super::Arriving) |
//! | 3 | yes | relationships, then late components, then what comes back from being carried; marks; lists in order |
//! | 4 | no | the switch: the new entities become part of the world, what they replace is despawned, resources and data |
//!
//! Up to the switch nothing that was there changes. A load that fails, is cancelled or dropped before takes everything
//! back. In parts 2 and 3, commands of hooks are applied after each few hundred rows, when not all entities are there:
//! that is why relationships come later than in a load in one go.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use bevy_ecs::component::ComponentId;
use bevy_ecs::entity::Entity;
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::world::World;
use bevy_platform::time::Instant;
use bonfire::engine::{Carry, EntityMap, Staged};
use bonfire::{DataEntry, Error, LoadReport, Result};

use super::arrival::{self, Arriving, Reserved, settle};
use super::commit::{self, Extra, Moving};
use super::finish::{Committed, Finish, unknown_order};
use super::moved::{MovedColumn, insert};
use super::overwrite;
use super::prepare::{Arrivable, Prepared, Source, replaced};
use super::relation::{List, saved_lists};
use super::row::Spare;
use super::{LoadMode, Loaded};
use crate::registry::{Registered, Relation};
use crate::selection::EntitySet;

/// How much is done between two looks at the clock: rows, values or lists.
const AT_ONCE: usize = 256;

/// A prepared load on its way into a world, slice by slice.
pub(crate) struct Slices {
    source: Source,
    state: State,
}

enum State {
    /// A restore, which is done in one go.
    Whole,
    /// What looks at the world is being decoded.
    Looking(Box<Arrivable>),
    Working(Box<Work>),
    Done,
}

impl Slices {
    pub(crate) fn new(prepared: Prepared) -> Self {
        let Prepared { source, entities } = prepared;
        Self { source, state: entities.map_or(State::Whole, |entities| State::Looking(Box::new(entities))) }
    }

    /// How much is done, and how much there is: entities, and what is inserted when they are there.
    pub(crate) fn progress(&self) -> (usize, usize) {
        match &self.state {
            State::Whole | State::Looking(_) => (0, self.source.snapshot.entity_count().max(1)),
            State::Working(work) => (work.done, work.total),
            State::Done => (1, 1),
        }
    }

    /// Goes on until the time is up, and for one part at least. The switch is one part, whatever it takes. Returns what the
    /// load did when it is done; after an error the world is as it was.
    pub(crate) fn step(&mut self, world: &mut World, budget: Duration) -> Result<Option<Loaded>> {
        let start = Instant::now();
        world.flush();
        settle(world);
        let mut alone = true;
        loop {
            // The switch takes what it takes: it gets a frame of its own.
            if !alone && self.is_ready() {
                return Ok(None);
            }
            alone = false;
            let done = self.part(world);
            if !matches!(done, Ok(None)) {
                self.state = State::Done;
                settle(world);
                return done;
            }
            if start.elapsed() >= budget {
                return Ok(None);
            }
        }
    }

    /// Whether only the switch is left.
    fn is_ready(&self) -> bool {
        matches!(&self.state, State::Working(work) if work.is_complete())
    }

    /// Whether it is done, or has failed.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Takes everything back.
    pub(crate) fn cancel(self, world: &mut World) {
        drop(self);
        settle(world);
    }

    fn part(&mut self, world: &mut World) -> Result<Option<Loaded>> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Done => Err(Error::misuse("this load is over")),
            State::Whole => {
                let Source { snapshot, registry, mode, options } = &self.source;
                super::load_migrated(world, registry, snapshot, mode.clone(), options.clone()).map(Some)
            }
            State::Looking(mut entities) => {
                entities.ids.check(world)?;
                self.state = match entities.look(world, &self.source)? {
                    true => State::Looking(entities),
                    false => State::Working(Box::new(Work::new(world, &self.source, *entities))),
                };
                Ok(None)
            }
            State::Working(mut work) => {
                work.ids.check(world)?;
                if work.is_complete() {
                    return work.switch(world, &self.source).map(Some);
                }
                work.part(world)?;
                self.state = State::Working(work);
                Ok(None)
            }
        }
    }
}

/// Everything on its way into the world, and how far it is. What is moved in is counted as gone before it goes: after a panic
/// nobody knows how far it came.
struct Work {
    ids: Reserved,
    map: EntityMap,
    tags: [ComponentId; 2],
    moving: Vec<Moving<'static>>,
    /// The archetype, the segment and the row that are next.
    next: (usize, usize, usize),
    later: Vec<Later>,
    next_later: usize,
    unmarked: Vec<Entity>,
    next_mark: usize,
    lists: Vec<List>,
    next_list: usize,
    resources: Vec<MovedColumn<'static>>,
    stay_disabled: EntitySet,
    carry: Carry,
    report: LoadReport,
    unknown_order: Vec<DataEntry>,
    done: usize,
    total: usize,
}

/// A column that is inserted when all entities are there.
struct Later {
    column: MovedColumn<'static>,
    owners: Owners,
    relation: Option<Relation>,
    /// Its line in the report.
    line: Option<usize>,
    next: usize,
}

impl Later {
    fn new(column: MovedColumn<'static>, owners: Owners, relation: Option<Relation>) -> Self {
        Self { column, owners, relation, line: None, next: 0 }
    }
}

/// Takes out what must find all entities there: relationships, then late components, in the order of the save.
fn split_later(registry: &Registered, moving: &mut [Moving<'static>]) -> Vec<Later> {
    let (mut relations, mut late) = (Vec::new(), Vec::new());
    for archetype in moving {
        let waits = |column: &mut MovedColumn<'_>| {
            let entry = &registry.entries[column.number];
            entry.late || entry.relation.is_some()
        };
        for column in archetype.columns.extract_if(.., waits) {
            let entry = &registry.entries[column.number];
            let list = if entry.late { &mut late } else { &mut relations };
            list.push(Later::new(column, Owners::Archetype(archetype.entities.clone()), entry.relation));
        }
    }
    relations.extend(late);
    relations
}

enum Owners {
    /// An archetype, as a range of all entities.
    Archetype(Range<usize>),
    Listed(Vec<Option<Entity>>),
}

impl Owners {
    fn len(&self) -> usize {
        match self {
            Self::Archetype(range) => range.len(),
            Self::Listed(entities) => entities.len(),
        }
    }
}

impl Work {
    fn new(world: &mut World, source: &Source, entities: Arrivable) -> Self {
        let registry = &*source.registry;
        let (ids, map, staged, order) = entities.into_parts();
        let Staged { archetypes, resources, extras, carry, report } = staged;
        let mut moving = Moving::all(world, registry, archetypes, MovedColumn::new);
        let unmarked = commit::unmarked(world, registry, &moving, ids.entities());
        let mut later = split_later(registry, &mut moving);
        for later in &mut later {
            let key = registry.registry.descriptors()[later.column.number].key();
            later.line = report.components.iter().position(|line| line.key == key);
        }
        let extras = extras.into_iter().filter_map(|extra| Extra::new(world, registry, extra, &map));
        later.extend(
            extras.map(|Extra { column, entities }| Later::new(column, Owners::Listed(entities), None)),
        );
        let tags = arrival::tags(world);
        commit::choose_segments(world, registry, &mut moving, &tags);
        let resources = resources
            .into_iter()
            .filter_map(|(number, column)| MovedColumn::new(world, registry, number, column, 1))
            .collect();
        let lists: Vec<List> = saved_lists(registry, &order).collect();
        let later_rows: usize = later.iter().map(|later| later.owners.len()).sum();
        Self {
            total: (ids.entities().len() + later_rows + unmarked.len() + lists.len()).max(1),
            unknown_order: unknown_order(&source.snapshot, registry, &order),
            ids,
            map,
            tags,
            moving,
            next: (0, 0, 0),
            later,
            next_later: 0,
            unmarked,
            next_mark: 0,
            lists,
            next_list: 0,
            resources,
            stay_disabled: EntitySet::default(),
            carry,
            report,
            done: 0,
        }
    }

    fn is_complete(&self) -> bool {
        self.next.0 == self.moving.len()
            && self.next_later == self.later.len()
            && self.next_mark == self.unmarked.len()
            && self.next_list == self.lists.len()
    }

    /// Does the next few hundred rows.
    fn part(&mut self, world: &mut World) -> Result<()> {
        let work = || {
            let right = self.some(world);
            world.flush();
            right
        };
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::custom("another thread allocated entities during the load: load again")),
            Err(panic) => Err(commit::undone(world, &*panic)),
        }
    }

    fn some(&mut self, world: &mut World) -> bool {
        if self.next.0 < self.moving.len() {
            return self.spawn(world);
        }
        if self.next_later < self.later.len() {
            self.insert(world);
        } else if self.next_mark < self.unmarked.len() {
            let marked = self.next_mark..self.unmarked.len().min(self.next_mark + AT_ONCE);
            self.done += marked.len();
            self.next_mark = marked.end;
            commit::mark(world, self.unmarked[marked].to_vec());
        } else {
            let lists = self.next_list..self.lists.len().min(self.next_list + AT_ONCE);
            self.done += lists.len();
            self.next_list = lists.end;
            self.lists[lists].iter().for_each(|list| list.apply(world));
        }
        true
    }

    /// Spawns the next rows, of one segment. Returns whether all ids are right.
    fn spawn(&mut self, world: &mut World) -> bool {
        let (number, segment_number, row) = self.next;
        let moving = &self.moving[number];
        let Some(segment) = moving.segments.get(segment_number) else {
            self.next = (number + 1, 0, 0);
            return true;
        };
        let rows = row.max(segment.rows.start)..segment.rows.end.min(row.max(segment.rows.start) + AT_ONCE);
        self.next = match rows.end == segment.rows.end {
            true if segment_number + 1 == moving.segments.len() => (number + 1, 0, 0),
            true => (number, segment_number + 1, 0),
            false => (number, segment_number, rows.end),
        };
        self.done += rows.len();
        self.ids.spawn_until(moving.entities.start + rows.end);
        let entities = &mut self.ids.entities_mut()[moving.entities.clone()];
        let disabled = world.components().component_id::<Disabled>();
        let is_disabled = segment.columns.iter().any(|&column| Some(moving.columns[column].id) == disabled);
        if is_disabled {
            entities[rows.clone()].iter().for_each(|&entity| self.stay_disabled.insert(entity));
        }
        if segment.slot.is_some() {
            let mut spare = Spare::new(world);
            let right = moving.spawn_batch(world, segment, rows, entities, &self.tags, &mut spare);
            spare.release(world);
            return right;
        }
        for &entity in &entities[rows.clone()] {
            // Nothing else has these ids, so this cannot fail.
            let _ = world.spawn_at(entity, (Arriving, Disabled));
        }
        moving.insert_rows(world, segment, rows, entities);
        true
    }

    /// Inserts the next values of a column that had to wait.
    fn insert(&mut self, world: &mut World) {
        let later = &mut self.later[self.next_later];
        let rows = later.next..later.owners.len().min(later.next + AT_ONCE);
        self.done += rows.len();
        later.next = rows.end;
        if later.next == later.owners.len() {
            self.next_later += 1;
        }
        let disabled = world.components().component_id::<Disabled>() == Some(later.column.id);
        let mut left_out = 0;
        for row in rows {
            let target = later.relation.and_then(|relation| later.column.target(row, relation.offset));
            let entity = match &later.owners {
                Owners::Archetype(range) => Some(self.ids.entities()[range.start + row]),
                Owners::Listed(entities) => entities[row],
            };
            let Some(taken) = later.column.take_row(row) else { continue };
            match entity {
                // A relationship to nothing is none: its target was not saved.
                _ if target == Some(Entity::PLACEHOLDER) => {
                    left_out += 1;
                    later.column.discard(taken);
                }
                Some(entity) => {
                    if disabled {
                        self.stay_disabled.insert(entity);
                    }
                    insert(world, entity, &later.column, taken);
                }
                None => later.column.discard(taken),
            }
        }
        if let Some(line) = later.line {
            self.report.components[line].left_out += left_out;
        }
    }

    /// Everything at once. The cost is that of taking two tags away from each new entity, and of despawning each old one.
    fn switch(mut self: Box<Self>, world: &mut World, source: &Source) -> Result<Loaded> {
        let Source { snapshot, registry, mode, options } = source;
        // Without the new ones, which are arriving.
        let mut replaced = replaced(world, mode)?;
        // The new ones move into tables that have room if the old ones go first. Only where no code of the game can keep the
        // new ones from coming: after that nothing can be undone.
        let mut old = Ok(());
        if arrival::is_quiet(world) {
            let replaced = std::mem::take(&mut replaced);
            old = catch_unwind(AssertUnwindSafe(|| commit::despawn(world, registry, replaced)));
        }
        let arrive = || arrival::arrive(world, self.ids.entities(), &self.stay_disabled);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(arrive)) {
            return Err(commit::undone(world, &*panic));
        }
        // Systems have run since the first of them came: for them, all of this is new.
        overwrite::touch_all(world, self.ids.entities());
        // They are the world's now.
        self.ids.keep();
        if let Err(panic) = old {
            resume_unwind(panic);
        }
        let resources = std::mem::take(&mut self.resources);
        let (map, carry) = (std::mem::take(&mut self.map), std::mem::take(&mut self.carry));
        let (mut report, unknown_order) =
            (std::mem::take(&mut self.report), std::mem::take(&mut self.unknown_order));
        drop(self);
        let merge = matches!(mode, LoadMode::Merge);
        commit::replace(world, registry, replaced, resources, merge, &mut report);
        let committed = Committed { map, report, carry, respawned: Vec::new(), unknown_order };
        Ok(Finish::new(mode, options).run(world, registry, snapshot, committed))
    }
}

/// What did not come into the world is dropped.
impl Drop for Work {
    fn drop(&mut self) {
        let (next, segment, row) = self.next;
        for (number, moving) in self.moving.iter_mut().enumerate().skip(next) {
            let segment = moving.segments.get(segment).filter(|_| number == next);
            let start = segment.map_or(0, |segment| row.max(segment.rows.start));
            for column in &mut moving.columns {
                column.discard_rows(start..moving.entities.len());
            }
        }
        for later in &mut self.later {
            later.column.discard_rows(later.next..later.owners.len());
        }
        for resource in &mut self.resources {
            resource.discard_rows(0..1);
        }
    }
}
