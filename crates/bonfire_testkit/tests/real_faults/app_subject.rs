//! A small Bevy game as a subject: autosaves into a journal, quicksaves into another slot, loads.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bevy_app::App;
use bevy_bonfire::prelude::*;
use bevy_bonfire::store::{DirStore, Keep, Slots};
use bevy_bonfire::{Autosave, SavePolicy};
use bevy_ecs::prelude::*;
use bonfire::{Error, Result};

use crate::log::Answer;
use crate::operation::Operation;
use crate::subject::{KEPT, Subject};

const ENTITIES: usize = 8;

/// Frames in which a request must end. A frame that waits is a millisecond long.
const FRAMES_MAX: usize = 20_000;

#[derive(Component, Persist)]
#[require(Saved)]
#[persist(key = "test.number")]
struct Number(u64);

/// Outcomes of saves, in the order of their events.
type Outcomes = Arc<Mutex<Vec<Result<Answer>>>>;

pub(crate) struct AppSubject {
    app: App,
    outcomes: Outcomes,
}

impl AppSubject {
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let slots = Slots::new(DirStore::open(directory)?).keep(Keep::newest(KEPT));
        let mut autosave = Autosave::every(Duration::ZERO);
        autosave.enabled = false;
        let mut app = App::new();
        app.add_plugins(BonfirePlugin::new().slots(slots).autosave(autosave).policy(SavePolicy::Journal));
        app.persist::<Number>();
        app.world_mut().spawn_batch((0..ENTITIES).map(|_| Number(0)));
        let outcomes = Outcomes::default();
        let seen = Arc::clone(&outcomes);
        app.add_observer(move |done: On<SaveFinished>| {
            let outcome = match &done.result {
                Ok(report) => Ok(Answer {
                    number: report.generation,
                    remark: report.prune_error.as_ref().map(|error| format!("after the save: {error}")),
                    ..Answer::default()
                }),
                Err(error) => Err(error.clone()),
            };
            seen.lock().expect("no panic in an observer").push(outcome);
        });
        Ok(Self { app, outcomes })
    }

    fn set_number(&mut self, number: u64) {
        let world = self.app.world_mut();
        world.query::<&mut Number>().iter_mut(world).for_each(|mut found| found.0 = number);
    }

    fn saves(&mut self) -> Mut<'_, Saves> {
        self.app.world_mut().resource_mut::<Saves>()
    }

    /// Runs frames until every request has ended.
    fn finish(&mut self) -> Result<()> {
        for _ in 0..FRAMES_MAX {
            if !self.saves().is_busy() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
            self.app.update();
        }
        Err(Error::custom("HANG: a request does not end"))
    }

    fn save(&mut self, number: u64, request: impl FnOnce(&mut Saves)) -> Result<Answer> {
        self.set_number(number);
        self.outcomes.lock().expect("no panic in an observer").clear();
        request(&mut self.saves());
        self.app.update();
        self.saves().autosave.enabled = false;
        self.finish()?;
        let outcome = self.outcomes.lock().expect("no panic in an observer").pop();
        outcome.unwrap_or_else(|| Err(Error::custom("SILENCE: the save has no event")))
    }

    fn load(&mut self, slot: &str) -> Result<Answer> {
        let handle = self.saves().load(slot);
        self.app.update();
        self.finish()?;
        let result = handle.result();
        result.unwrap_or_else(|| Err(Error::custom("SILENCE: the load has no result"))).map(drop)?;
        let world = self.app.world_mut();
        let numbers: Vec<u64> = world.query::<&Number>().iter(world).map(|number| number.0).collect();
        if numbers.len() != ENTITIES || numbers.iter().any(|number| *number != numbers[0]) {
            return Err(Error::custom(format!("MIXTURE: the loaded entities say {numbers:?}")));
        }
        Ok(Answer { world: Some(numbers[0]), ..Answer::default() })
    }
}

impl Subject for AppSubject {
    fn run(&mut self, operation: &Operation) -> Result<Answer> {
        match operation {
            Operation::Tick(_, number) => self.save(*number, |saves| saves.autosave.enabled = true),
            Operation::Save(slot, number) => self.save(*number, |saves| drop(saves.save(slot.as_str()))),
            Operation::Load(slot) => self.load(slot),
            _ => Err(Error::misuse(format!("the game has no `{operation}`"))),
        }
    }
}
