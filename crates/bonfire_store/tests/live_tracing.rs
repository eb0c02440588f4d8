//! The spans of a save and of a load, as a subscriber of the game's sees them.

mod common;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use bonfire_store::{Details, MemoryStore, Saver, Slots};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::common::world;

/// All spans, in the order in which they began.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    spans: Vec<Span>,
    entered: Vec<u64>,
    events: Vec<String>,
}

#[derive(Clone, Debug, Default)]
struct Span {
    name: String,
    parent: Option<String>,
    fields: BTreeMap<String, String>,
}

struct Fields<'f>(&'f mut BTreeMap<String, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

impl Subscriber for Seen {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("bonfire_store")
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut state = self.0.lock().unwrap();
        let parent = state.entered.last().map(|&id| state.spans[id as usize - 1].name.clone());
        let mut fields = BTreeMap::new();
        span.record(&mut Fields(&mut fields));
        state.spans.push(Span { name: span.metadata().name().to_owned(), parent, fields });
        Id::from_u64(state.spans.len() as u64)
    }
    fn record(&self, span: &Id, values: &Record<'_>) {
        values.record(&mut Fields(&mut self.0.lock().unwrap().spans[span.into_u64() as usize - 1].fields));
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut fields = BTreeMap::new();
        event.record(&mut Fields(&mut fields));
        self.0.lock().unwrap().events.extend(fields.remove("message"));
    }
    // All spans are entered on the one thread that saves.
    fn enter(&self, span: &Id) {
        self.0.lock().unwrap().entered.push(span.into_u64());
    }
    fn exit(&self, span: &Id) {
        assert_eq!(self.0.lock().unwrap().entered.pop(), Some(span.into_u64()));
    }
}

#[test]
fn a_save_is_a_span_with_its_encoding_and_its_writing_in_it() {
    let seen = Seen::default();
    tracing::subscriber::set_global_default(seen.clone()).unwrap();
    let saver = Saver::new(Slots::new(MemoryStore::new()));
    let report = saver.save("quick", world(1), Details::new()).wait().unwrap();
    saver.load("quick").wait().unwrap();
    assert!(saver.load("none").wait().is_err());

    let spans = seen.0.lock().unwrap().spans.clone();
    let names: Vec<(&str, Option<&str>)> =
        spans.iter().map(|span| (span.name.as_str(), span.parent.as_deref())).collect();
    let save = Some("bonfire.save");
    let expected = [
        ("bonfire.save", None),
        ("bonfire.encode", save),
        ("bonfire.write", save),
        ("bonfire.load", None),
        ("bonfire.load", None),
    ];
    assert_eq!(names, expected);
    assert_eq!(spans[0].fields["target"], "slot `quick`");
    assert_eq!(spans[0].fields["entities"], "20");
    assert_eq!(spans[1].fields["bytes"], report.bytes.to_string());
    assert_eq!(spans[4].fields["target"], "slot `none`");

    // While the thread is busy, one save takes the place of another.
    let (go, wait) = std::sync::mpsc::channel::<()>();
    saver.run(move |_| {
        wait.recv().unwrap();
        Ok(())
    });
    saver.save("auto", world(2), Details::new());
    saver.save("auto", world(3), Details::new());
    go.send(()).unwrap();
    assert!(saver.finish(std::time::Duration::MAX));
    let events = seen.0.lock().unwrap().events.clone();
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(events[0].contains("slot `auto`") && events[0].contains("takes the place"), "{events:?}");
}
