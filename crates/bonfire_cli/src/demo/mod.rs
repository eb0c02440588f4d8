//! `bonfire demo`: a Bevy world is saved to a file, wrecked, loaded back and compared, with a clock beside it.

mod battle;
mod compare;

use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use bevy_bonfire::prelude::*;
use bevy_ecs::world::World;
use bonfire::engine::{AlignedBuf, Rope};
use bonfire::{EncodeOptions, Snapshot};
use serde_json::{Value as Json, json};

use self::battle::Wreck;
use self::compare::{Description, Differences};
use crate::arguments::DemoArguments;
use crate::escape::escaped_path;
use crate::exit::{Exit, Failure};
use crate::output::{Output, Table};

/// How often each step is done; its time is the median.
const ROUNDS: usize = 7;

/// What is timed, in the order in which it happens.
const STEPS: [(&str, &str); 8] = [
    ("capture", "from the world into memory; then the game goes on"),
    ("encode", "headers and checksums around it"),
    ("write", "into a file"),
    ("sync", "until the disk has it"),
    ("read", "from the file into memory"),
    ("open", "checks every checksum"),
    ("load new", "into a world without entities, as a game starts"),
    ("load", "despawns the wrecked world, spawns the saved one"),
];

pub(crate) fn run(arguments: &DemoArguments, out: &mut Output) -> Result<Exit, Failure> {
    let save = DemoFile::create(arguments.keep.as_deref())?;
    let demo = Demo::play(arguments.entities as usize, &save)?;
    if arguments.json {
        out.json(&demo.to_json(arguments.keep.as_deref()))?;
    } else {
        demo.print(arguments.keep.as_deref(), out)?;
    }
    Ok(if demo.differences.count == 0 { Exit::Fine } else { Exit::Damaged })
}

/// The file of the save: temporary, unless the user wants it.
struct DemoFile {
    path: PathBuf,
    kept: bool,
}

impl DemoFile {
    /// Makes a file that was not there before: a demo overwrites nothing.
    fn create(keep: Option<&Path>) -> Result<Self, Failure> {
        let path = keep.map_or_else(temporary_path, Path::to_owned);
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(_) => Ok(Self { path, kept: keep.is_some() }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(Failure::file(&path, "this file exists already, and the demo overwrites nothing"))
            }
            Err(error) => Err(Failure::file(&path, error)),
        }
    }
}

impl Drop for DemoFile {
    fn drop(&mut self) {
        if !self.kept {
            // If it is gone already, so much the better.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn temporary_path() -> PathBuf {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let name = format!("bonfire-demo-{}-{}.bonfire", std::process::id(), now.as_nanos());
    std::env::temp_dir().join(name)
}

/// Seconds of each round.
#[derive(Default)]
struct Times(Vec<f64>);

impl Times {
    /// Does something and notes how long it took.
    fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = black_box(work());
        self.0.push(start.elapsed().as_secs_f64());
        result
    }

    fn median(&self) -> f64 {
        let mut times = self.0.clone();
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or_default()
    }
}

/// What was seen.
struct Demo {
    entities: usize,
    file_bytes: usize,
    /// The first capture of a world has to get its memory from the system.
    first_capture: f64,
    steps: [Times; STEPS.len()],
    memcpy: Times,
    wreck: Wreck,
    /// Between the first world that was saved and the last that was loaded.
    differences: Differences,
}

impl Demo {
    fn play(entities: usize, save: &DemoFile) -> Result<Self, Failure> {
        let mut app = battle::app(entities);
        let world = app.world_mut();
        let mut demo = Self {
            entities,
            file_bytes: 0,
            first_capture: 0.0,
            steps: Default::default(),
            memcpy: Times::default(),
            wreck: Wreck::default(),
            differences: Differences::default(),
        };
        let saved = Description::of(world);
        let mut first = Times::default();
        let capture = first.time(|| world.capture(&SaveOptions::new()));
        capture.map_err(|error| Failure::file(&save.path, error))?;
        demo.first_capture = first.median();
        for _ in 0..ROUNDS {
            demo.round(world, &save.path)?;
        }
        // Each round saved what the one before had loaded, so the last has the mistakes of all.
        demo.differences = saved.differences(&Description::of(world));
        Ok(demo)
    }

    /// Saves the world, wrecks it, loads it.
    fn round(&mut self, world: &mut World, path: &Path) -> Result<(), Failure> {
        let [capture, encode, write, sync, read, open, load_new, load] = &mut self.steps;
        let broken = |error: bonfire::Error| Failure::file(path, error);
        let unwritable = |error: io::Error| Failure::file(path, error);

        let snapshot = capture.time(|| world.capture(&SaveOptions::new())).map_err(broken)?;
        let rope = encode.time(|| snapshot.encode(&EncodeOptions::default())).map_err(broken)?;
        let file = write.time(|| write_file(path, &rope)).map_err(unwritable)?;
        sync.time(|| file.sync_all()).map_err(unwritable)?;
        self.file_bytes = rope.len();
        self.memcpy.0.push(memcpy(&rope.to_vec()));
        drop((snapshot, rope, file));

        self.wreck = battle::wreck(world);

        let bytes = read.time(|| read_file(path)).map_err(unwritable)?;
        let snapshot = open.time(|| Snapshot::options().open_shared(bytes.share())).map_err(broken)?;
        let mut new = battle::empty_app();
        load_new.time(|| new.world_mut().load(&snapshot, LoadMode::Replace)).map_err(broken)?;
        drop(new);
        load.time(|| world.load(&snapshot, LoadMode::Replace)).map_err(broken)?;
        Ok(())
    }

    fn per_entity(&self, seconds: f64) -> f64 {
        seconds * 1e9 / self.entities as f64
    }

    fn bytes_per_entity(&self) -> f64 {
        self.file_bytes as f64 / self.entities as f64
    }

    fn print(&self, keep: Option<&Path>, out: &mut Output) -> io::Result<()> {
        let memcpy = self.memcpy.median();
        let squads = grouped(self.entities.div_ceil(battle::SQUAD));
        out.line("A battle in a Bevy world is saved to a file, wrecked, loaded back and compared.")?;
        out.title(format_args!("entities          {:>12}  in {squads} squads", grouped(self.entities)))?;
        out.line(format_args!("bytes in file     {:>12}", grouped(self.file_bytes)))?;
        out.line(format_args!("bytes per entity  {:>12.1}", self.bytes_per_entity()))?;
        out.line("")?;

        let numbers = ["ms", "ns per entity", "x memcpy"];
        let headers = ["step", "what it does"].into_iter().chain(numbers);
        let mut table = Table::new(headers).right(&numbers);
        let mut row = |step: &str, what: &str, seconds: f64| {
            table.row(vec![
                step.to_owned(),
                what.to_owned(),
                format!("{:.2}", seconds * 1e3),
                format!("{:.1}", self.per_entity(seconds)),
                format!("{:.1}", seconds / memcpy),
            ]);
        };
        for ((step, what), times) in STEPS.iter().zip(&self.steps) {
            row(step, what, times.median());
        }
        row("memcpy", "copies as many bytes, memory to memory", memcpy);
        out.table(&table)?;
        out.title(format_args!(
            "Wall clock, medians of {ROUNDS} rounds. The file was read from the system's cache.\n\
             The first capture, which gets fresh memory from the system, took {:.2} ms.",
            self.first_capture * 1e3
        ))?;
        if cfg!(debug_assertions) {
            out.line("This is a debug build: these times say nothing. Run it with `cargo run --release`.")?;
        }
        self.print_proof(out)?;
        out.title(look_inside(keep))
    }

    fn print_proof(&self, out: &mut Output) -> io::Result<()> {
        let Wreck { despawned, changed, strangers } = self.wreck;
        let [despawned, changed, strangers] = [despawned, changed, strangers].map(grouped);
        out.title(format_args!(
            "After each save, {despawned} entities were despawned, {changed} changed, {strangers} spawned."
        ))?;
        if self.differences.count > 0 {
            let count = grouped(self.differences.count);
            out.line(format_args!("DIFFERENT: {count} are not as they were before the first save, such as"))?;
            return self.differences.first.iter().try_for_each(|difference| out.line(difference));
        }
        out.line(format_args!(
            "Proved: {ROUNDS} saves and loads later, the world is the one it was. Bevy's own queries find all {}\n\
             entities by name, each with the same components, numbers, texts, references, parent and\n\
             children in the same order, no others beside them, and the same resource.",
            grouped(self.entities)
        ))
    }

    fn to_json(&self, keep: Option<&Path>) -> Json {
        let memcpy = self.memcpy.median();
        let steps = STEPS.iter().zip(&self.steps).map(|((step, _), times)| {
            let seconds = times.median();
            json!({
                "step": step,
                "milliseconds": seconds * 1e3,
                "nanoseconds_per_entity": self.per_entity(seconds),
                "memcpy_ratio": seconds / memcpy,
            })
        });
        json!({
            "entities": self.entities,
            "file_bytes": self.file_bytes,
            "bytes_per_entity": self.bytes_per_entity(),
            "rounds": ROUNDS,
            "steps": steps.collect::<Json>(),
            "memcpy_milliseconds": memcpy * 1e3,
            "first_capture_milliseconds": self.first_capture * 1e3,
            "debug_build": cfg!(debug_assertions),
            "despawned": self.wreck.despawned,
            "changed": self.wreck.changed,
            "spawned": self.wreck.strangers,
            "equal": self.differences.count == 0,
            "different_entities": self.differences.count,
            "differences": self.differences.first,
            "file": keep.map(Path::to_string_lossy),
        })
    }
}

fn write_file(path: &Path, rope: &Rope) -> io::Result<File> {
    let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
    rope.parts().iter().try_for_each(|part| file.write_all(part))?;
    Ok(file)
}

fn read_file(path: &Path) -> io::Result<AlignedBuf> {
    use std::io::Read as _;
    let mut file = File::open(path)?;
    let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    let mut bytes = AlignedBuf::zeroed(len);
    file.read_exact(bytes.as_mut())?;
    Ok(bytes)
}

/// Seconds for copying these bytes into memory that is in use already.
fn memcpy(bytes: &[u8]) -> f64 {
    let mut target = bytes.to_vec();
    let mut times = Times::default();
    for _ in 0..5 {
        times.time(|| black_box(&mut *target).copy_from_slice(black_box(bytes)));
    }
    times.median()
}

/// How to look inside the file. The program is named as it was called, so that the lines can be copied.
fn look_inside(keep: Option<&Path>) -> String {
    let program = std::env::args_os().next().unwrap_or_else(|| "bonfire".into());
    let program = escaped_path(Path::new(&program));
    let (path, first) = match keep {
        Some(path) => (escaped_path(path), String::new()),
        None => ("demo.bonfire".to_owned(), format!("\n  {program} demo --keep demo.bonfire")),
    };
    format!("Look inside the file:{first}\n  {program} info {path}\n  {program} show {path}")
}

/// `1,234,567`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_groups_of_three_digits() {
        let texts = [0, 999, 1000, 12_345, 1_234_567].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "12,345", "1,234,567"]);
    }

    #[test]
    fn a_temporary_file_is_new_and_goes_away() {
        let save = DemoFile::create(None).expect("there is room for temporary files");
        let path = save.path.clone();
        assert!(path.exists());
        assert!(DemoFile::create(Some(&path)).is_err(), "it exists");
        drop(save);
        assert!(!path.exists());
    }
}
