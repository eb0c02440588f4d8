//! What may be found after a crash.

use super::Model;

/// What was there after so many operations, and whether it was promised to stay.
pub struct Step {
    pub after: usize,
    pub model: Model,
    pub is_durable: bool,
}

/// What a world held, save by save.
#[derive(Default)]
pub struct History {
    pub steps: Vec<Step>,
}

impl History {
    /// From now on this may be found.
    pub fn begin(&mut self, model: &Model) {
        self.steps.push(Step { after: usize::MAX, model: model.clone(), is_durable: false });
    }

    /// Whoever wanted it has been told that it is done.
    pub fn end(&mut self, after: usize, is_durable: bool) {
        let last = self.steps.last_mut().expect("one has begun");
        (last.after, last.is_durable) = (after, is_durable);
    }

    /// What may be found if the machine stops after so many operations.
    pub fn allowed(&self, after: usize) -> &[Step] {
        let first = self.steps.iter().rposition(|step| step.is_durable && step.after <= after).unwrap_or(0);
        let last = self.steps.iter().position(|step| step.after > after).unwrap_or(self.steps.len() - 1);
        &self.steps[first..=last.max(first)]
    }
}

/// Says what is wrong, if this is none of the steps.
pub fn is_among(found: &Model, steps: &[Step]) -> Result<(), String> {
    if steps.iter().any(|step| step.model == *found) {
        return Ok(());
    }
    let allowed: Vec<String> = steps.iter().map(|step| step.model.counts()).collect();
    Err(format!("{} were found, none of {allowed:?}", found.counts()))
}
