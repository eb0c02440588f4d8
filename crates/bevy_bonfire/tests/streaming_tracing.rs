//! Faults of a stream are events of `tracing`. A global subscriber sees the events, so this file has one test.
#![cfg(feature = "chunks")]

mod streaming_support;

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bevy_bonfire::chunks::{ChunkPhase, Chunks};
use bonfire_testkit::disk::{Call, Fault, Plan, Repeat};
use streaming_support::{EDGE, Game};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Subscriber for Seen {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        target.starts_with("bonfire_chunks::stream") || target.starts_with("bevy_bonfire::chunks")
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

/// Takes the lines with a word, and forgets all others.
fn lines_with(seen: &Seen, word: &str) -> Vec<String> {
    let lines = std::mem::take(&mut *seen.0.lock().unwrap());
    lines.into_iter().filter(|line| line.contains(word)).collect()
}

#[test]
fn failures_long_frames_and_returns_are_events() {
    let seen = Seen::default();
    tracing::subscriber::set_global_default(seen.clone()).unwrap();

    let mut game = Game::with(|plugin| plugin.budget(Duration::MAX));
    let player = game.player([0.0, 0.0]);
    game.settle();
    assert_eq!(lines_with(&seen, ""), [""; 0], "what is as it should be makes no event");
    let pinned = game.world().resource_mut::<Chunks>().pin("before", []);
    game.frame();
    pinned.wait().unwrap();

    game.spawn(7, [1.0, 1.0]);
    game.dig([0, 0], [1, 1], 9);
    game.frame();
    game.disk.fail(Plan { fault: Fault::Full, nth: 1, of: Some(Call::Write), repeat: Repeat::Once });
    game.place(player, [100.0 * EDGE, 0.0]);
    game.settle();
    let failed = lines_with(&seen, "a save of a chunk world failed");
    let [line] = &failed[..] else { panic!("{failed:?}") };
    assert!(line.starts_with("WARN") && line.contains(" error=") && line.contains(" bytes="), "{line}");

    game.disk.fail(Plan { fault: Fault::Io, nth: 1, of: Some(Call::Read), repeat: Repeat::Forever });
    game.move_to(player, [0.0, 0.0]);
    game.disk.heal();
    assert_eq!(game.chunks().phase((0, 0)), Some(ChunkPhase::Failed));
    let failed = lines_with(&seen, "could not be loaded");
    let [line] = &failed[..] else { panic!("{failed:?}") };
    assert!(
        line.starts_with("ERROR") && line.contains(" chunk=(0, 0)") && line.contains(" error="),
        "{line}"
    );

    let returned = game.world().resource_mut::<Chunks>().return_to("before");
    game.frame();
    returned.wait().unwrap();
    let [line] = &lines_with(&seen, "gone back to a moment")[..] else { panic!("one event") };
    assert!(line.starts_with("INFO") && line.contains(r#" pin="before""#), "{line}");
    drop(game);

    let mut game = Game::with(|plugin| plugin.budget(Duration::ZERO));
    seen.0.lock().unwrap().clear();
    game.frame();
    let [line] = &lines_with(&seen, "longer than their budget")[..] else { panic!("one event") };
    assert!(line.starts_with("DEBUG") && line.contains(" budget=0ns") && line.contains(" update="), "{line}");
}
