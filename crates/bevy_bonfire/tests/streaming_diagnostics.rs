//! Bevy's diagnostics have the numbers of a stream.
#![cfg(feature = "diagnostics")]

mod streaming_support;

use bevy_app::Plugin;
use bevy_bonfire::chunks::{ChunkDiagnosticsPlugin as Paths, Chunks, WindowPicture, chunk_vote};
use bevy_diagnostic::{Diagnostic, DiagnosticPath, DiagnosticsStore};
use bonfire_testkit::disk::{Call, Fault, Plan, Repeat};
use streaming_support::{EDGE, Game};

#[track_caller]
fn value(game: &mut Game, path: &DiagnosticPath) -> f64 {
    let diagnostics = game.world().resource::<DiagnosticsStore>();
    diagnostics.get(path).and_then(Diagnostic::value).unwrap()
}

/// The counts of chunks that are staged, active, saving and failed.
fn counts(game: &mut Game) -> [f64; 4] {
    [Paths::STAGED, Paths::ACTIVE, Paths::SAVING, Paths::FAILED].map(|path| value(game, &path))
}

#[test]
fn counts_by_phase_and_queues_are_measured_in_each_frame() {
    let mut game = Game::with(|plugin| plugin.vote("collision"));
    // The app is finished, so the plugin is built here.
    Paths.build(&mut game.harness.app);
    let vote = chunk_vote(&mut game.harness.app, "collision").unwrap();
    let player = game.player([0.0, 0.0]);
    game.frame();
    let begun = value(&mut game, &Paths::QUEUED) + value(&mut game, &Paths::LOADING);
    assert_eq!((begun, value(&mut game, &Paths::ACTIVE)), (9.0, 0.0));
    game.harness.until(|app| app.world().resource::<Chunks>().status().staged == 9);
    assert_eq!((counts(&mut game), value(&mut game, &Paths::WORKER_LOADS)), ([9.0, 0.0, 0.0, 0.0], 0.0));
    for x in -1..=1 {
        for y in -1..=1 {
            game.world().resource_mut::<Chunks>().agree((x, y), vote);
        }
    }
    game.settle();
    assert_eq!(counts(&mut game), [0.0, 9.0, 0.0, 0.0]);
    // What leaves and cannot be saved stays in memory, and is counted.
    game.spawn(7, [1.0, 1.0]);
    game.frame();
    game.disk.fail(Plan { fault: Fault::Full, nth: 1, of: Some(Call::Write), repeat: Repeat::Forever });
    game.place(player, [100.0 * EDGE, 0.0]);
    game.harness.until(|app| {
        let status = app.world().resource::<Chunks>().status();
        status.is_failing && status.leaving == 0
    });
    assert_eq!((value(&mut game, &Paths::SAVING), value(&mut game, &Paths::LEAVING)), (1.0, 0.0));
    assert!(value(&mut game, &Paths::SAVING_BYTES) > 0.0);
    let before = value(&mut game, &Paths::BYTES_WRITTEN);
    game.disk.heal();
    game.harness.until(|app| app.world().resource::<Chunks>().is_saved());
    assert_eq!((value(&mut game, &Paths::SAVING), value(&mut game, &Paths::WORKER_SAVES)), (0.0, 0.0));
    assert!(value(&mut game, &Paths::BYTES_WRITTEN) > before);
    assert_eq!(value(&mut game, &Paths::ENTITIES_WAITING), 0.0);
    let times = game.chunks().times();
    let expected = [times.membership, times.update].map(|time| time.as_secs_f64() * 1000.0);
    assert_eq!([Paths::MEMBERSHIP_TIME, Paths::UPDATE_TIME].map(|path| value(&mut game, &path)), expected);
}

#[test]
fn a_game_may_draw_its_window() {
    let mut game = Game::new();
    let picture = game.world().resource_mut::<Chunks>().picture(0);
    game.frame();
    assert_eq!(picture.wait().unwrap(), None);
    game.player([0.0, 0.0]);
    game.settle();
    let picture = game.world().resource_mut::<Chunks>().picture(0);
    game.frame();
    let picture = picture.wait().unwrap().unwrap();
    let (x, y) = picture.middle_of((0, 0)).unwrap();
    assert_eq!((picture.width, picture.pixel(x, y)), (28, Some(WindowPicture::FOCUS)));
}
