//! Slow and failed requests are events of `tracing`. A global subscriber sees them, so this file has one test.

mod support;
mod worker_support;

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bonfire_chunks::{ChunkWorker, Priority};
use bonfire_store::disk::Access;
use support::*;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use worker_support::*;

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Times differ from run to run.
        if !["took", "waited"].contains(&field.name()) {
            write!(self.0, " {}={value:?}", field.name()).unwrap();
        }
    }
}

impl Subscriber for Seen {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("bonfire_chunks")
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn slow_and_failed_requests_are_events() {
    let seen = Seen::default();
    tracing::subscriber::set_global_default(seen.clone()).unwrap();
    let lines = || std::mem::take(&mut *seen.0.lock().unwrap());
    let disk = GatedDisk::default();
    let world = options().open_on(disk.clone(), NAME, Access::Write).unwrap();
    let worker = ChunkWorker::options().slow_after(Duration::ZERO).start(world.clone());
    worker.read((3, -2), Priority::High).wait().unwrap();
    let [line] = &lines()[..] else { panic!("one event") };
    assert!(line.starts_with("INFO") && line.contains("slow"), "{line}");
    assert!(line.contains("request=\"read\" chunk=(3, -2)"), "{line}");

    disk.set_full(true);
    worker.save(edit_of(&world, (0, 0), noise(1))).unwrap().wait().unwrap_err();
    let [line] = &lines()[..] else { panic!("one event") };
    assert!(
        line.starts_with("WARN") && line.contains("failed") && line.contains("request=\"save\""),
        "{line}"
    );
    drop(worker);

    let worker = ChunkWorker::options().slow_after(Duration::MAX).start(world);
    worker.read((3, -2), Priority::High).wait().unwrap();
    assert_eq!(lines(), [""; 0], "what is as it should be makes no event");
}
