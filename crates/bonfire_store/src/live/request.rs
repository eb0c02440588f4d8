//! The front end's side of the queue: requests that wait for the end of a frame.

use std::any::Any;
use std::fmt;

use bonfire::{Delta, EncodeOptions, Error, OpenOptions, Snapshot};

use super::append::{AppendTo, RequestedSave, append_job};
use super::handle::{Handle, Promise, SaveHandle};
use super::job::{Job, Requirement, Work, are_cancelled};
use super::queue::{JobTarget, WaitsFor};
use super::save::CapturedSave;
use super::saver::Saver;
use super::status::SaveReport;
use super::target::{LoadSource, SaveTarget};
use super::worker::Admission;
use crate::journal::AppendReport;
use crate::progress::ProgressReporter;
use crate::slots::{Details, LoadedSave};

/// The saves that a request concerns, if it is no save itself. A save takes the place of an earlier one of the same target,
/// unless a request in between concerns that target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestScope {
    /// One target: a deletion.
    Target(SaveTarget),
    /// Everything: a load changes what later saves hold.
    Everything,
}

/// A request that was not accepted, because too many wait.
#[derive(Debug)]
pub struct RefusedRequest<R> {
    /// The request.
    pub request: R,
    /// The reason, which is [`Error::is_limit`].
    pub error: Error,
}

/// The next request of a front end. `S` are the front end's options of a save, `R` are its other requests.
pub enum NextRequest<S, R> {
    /// A save, which the front end captures.
    Save(SaveTurn<S>),
    /// Anything else.
    Other(R),
}

/// A save whose turn it is: the front end captures the world and hands it on. If this is dropped, the save fails.
pub struct SaveTurn<S> {
    /// The front end's options.
    pub options: S,
    target: SaveTarget,
    saves: Vec<Promise<SaveReport>>,
    requirement: Option<Requirement>,
    saver: Saver,
}

/// Requests a save that the front end captures when it takes the request. If too many requests wait, the save fails at once.
///
/// `S` are the front end's options of a save. The save takes the place of an earlier one of the same target that was not
/// taken yet, with its own options, if nothing in between would notice.
pub fn request_save<S: Any + Send>(
    saver: &Saver,
    target: SaveTarget,
    options: S,
    promise: Promise<SaveReport>,
) {
    let description = format!("save {target}");
    let work = Work::FrontEnd(Box::new(options));
    let job = Job { description, saves: vec![promise], requirement: None, work };
    if let Err((refused, error)) = saver.shared().request(JobTarget::Save(target), job) {
        refused.saves.into_iter().for_each(|promise| promise.complete(Err(error.clone())));
    }
}

/// Requests anything else that waits for the front end. The description is a verb and its target, for messages.
pub fn request<R: Any + Send>(
    saver: &Saver,
    description: impl Into<String>,
    scope: RequestScope,
    request: R,
) -> Result<(), RefusedRequest<R>> {
    let target = match scope {
        RequestScope::Target(target) => JobTarget::Other(target),
        RequestScope::Everything => JobTarget::Everything,
    };
    let work = Work::FrontEnd(Box::new(request));
    let job = Job { description: description.into(), saves: Vec::new(), requirement: None, work };
    match saver.shared().request(target, job) {
        Err((Job { work: Work::FrontEnd(request), .. }, error)) => match request.downcast() {
            Ok(request) => Err(RefusedRequest { request: *request, error }),
            Err(_) => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Returns how many requests wait for the front end.
pub fn request_count(saver: &Saver) -> usize {
    saver.shared().lock().queue.len(WaitsFor::FrontEnd)
}

/// Takes the oldest request that waits for the front end and has one of its types.
pub fn next_request<S: Any + Send, R: Any + Send>(saver: &Saver) -> Option<NextRequest<S, R>> {
    let is_wanted = |target: &JobTarget, job: &Job| match (&job.work, target) {
        (Work::FrontEnd(own), JobTarget::Save(_)) => own.is::<S>(),
        (Work::FrontEnd(own), _) => own.is::<R>(),
        _ => false,
    };
    let (target, Job { saves, work, .. }) = saver.shared().lock().queue.take_for_front_end(is_wanted)?;
    let Work::FrontEnd(own) = work else { return None };
    match target {
        JobTarget::Save(target) => {
            let options = *own.downcast().ok()?;
            Some(NextRequest::Save(SaveTurn {
                options,
                target,
                saves,
                requirement: None,
                saver: saver.clone(),
            }))
        }
        _ => Some(NextRequest::Other(*own.downcast().ok()?)),
    }
}

/// Saves a world that is captured already: [`Saver::save`] with encoding options.
pub fn submit_save(saver: &Saver, save: CapturedSave) -> SaveHandle {
    saver.submit_save(save)
}

/// Appends a delta to the journal of a save that need not be durable yet. If that save fails, the append fails too.
pub fn submit_append_after(saver: &Saver, base: RequestedSave, delta: Delta) -> Handle<AppendReport> {
    saver.submit_append(AppendTo::Requested(base), delta)
}

/// Opens and checks a save, then calls `then` on the same thread, to migrate and decode it. It is a step of a request that the
/// front end has taken, so it is never refused.
pub fn submit_load<T: Clone + Send + 'static>(
    saver: &Saver,
    source: LoadSource,
    options: OpenOptions<'static>,
    then: impl FnOnce(LoadedSave, &ProgressReporter) -> bonfire::Result<T> + Send + 'static,
) -> Handle<T> {
    saver.submit_load(source, options, Admission::Granted, then)
}

/// Deletes all saves of a slot that are not locked: [`Saver::delete_saves`] for an existing promise. It is a step of a request
/// that the front end has taken, so it is never refused.
pub fn submit_delete(saver: &Saver, slot: &str, promise: Promise<u64>) {
    saver.submit_delete(slot, promise, Admission::Granted);
}

impl<S> SaveTurn<S> {
    /// Returns the target of the save.
    pub fn target(&self) -> &SaveTarget {
        &self.target
    }

    /// Returns a handle of the save.
    pub fn handle(&self) -> Option<SaveHandle> {
        self.saves.last().map(Promise::handle)
    }

    /// Returns true if the game has cancelled all handles of the save.
    pub fn is_cancelled(&self) -> bool {
        are_cancelled(&self.saves)
    }

    /// Has the thread wait for something before it writes the save: a part of it, in another file, must be durable. If that
    /// fails, the save fails with its error.
    pub fn require(&mut self, requirement: Requirement) {
        self.requirement = Some(requirement);
    }

    /// Hands the captured world to the thread of the saver, with the details that menus show. `encode`: `None` for the
    /// encoding options of the slots.
    pub fn save(self, snapshot: Snapshot, details: Details, encode: Option<EncodeOptions>) {
        let save = CapturedSave { target: self.target, snapshot, details, encode };
        let (target, mut job) = save.into_job(self.saves);
        job.requirement = self.requirement;
        self.saver.shared().submit(target, job, Admission::Granted);
    }

    /// Appends a delta to the journal of an earlier save, in the place of this one. If that save fails, this one does.
    pub fn append(self, base: RequestedSave, delta: Delta) -> Handle<AppendReport> {
        let shared = self.saver.shared();
        let (target, mut job, handle) = append_job(shared, AppendTo::Requested(base), delta, self.saves);
        job.requirement = self.requirement;
        shared.submit(target, job, Admission::Granted);
        handle
    }

    /// Completes the save with an error.
    pub fn fail(self, error: &Error) {
        self.saves.into_iter().for_each(|promise| promise.complete(Err(error.clone())));
    }
}

impl<S> fmt::Debug for SaveTurn<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaveTurn").field("target", &self.target).finish_non_exhaustive()
    }
}
