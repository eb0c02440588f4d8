//! A small world of falling sand, with pixel bodies and creatures: a player walks, digs, shoots and fells trees. The game saves,
//! is killed while it saves, goes on, and proves by its books that nothing was doubled or lost.
//!
//! ```sh
//! cargo run -p bevy_bonfire --features chunks --example streaming_world
//! cargo run -p bevy_bonfire --features chunks --example streaming_world -- --frames frames  # a picture every 4 steps
//! cargo run -p bevy_bonfire --features chunks --example streaming_world -- --dir world --resume --steps 500
//! ```
//!
//! | module | |
//! |---|---|
//! | `terrain` | materials, the generator, cells of active chunks |
//! | `sand`, `bodies`, `creatures` | what moves |
//! | `script` | what the player does, and when the game is saved |
//! | `books` | what has happened, and the check that it adds up |
//! | `game` | the app of all this |
//! | `pictures` | PNG files |

mod bodies;
mod books;
mod creatures;
pub(crate) mod game;
mod pictures;
mod sand;
pub(crate) mod script;
mod terrain;

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use self::game::Game;
use self::pictures::Picture;
use self::script::{Plan, say};
use self::terrain::NAMES;

const PLAN: Plan = Plan { until: 0, way: 300, speed: 0.5, save_every: 10 };

struct Options {
    directory: Option<PathBuf>,
    steps: u64,
    seed: u64,
    resumes: bool,
    frames: Option<PathBuf>,
    strip: Option<PathBuf>,
}

impl Options {
    fn from_args() -> Result<Self, Box<dyn Error>> {
        let mut options =
            Self { directory: None, steps: 120, seed: 7, resumes: false, frames: None, strip: None };
        let mut args = std::env::args().skip(1);
        while let Some(name) = args.next() {
            let mut value = || args.next().ok_or(format!("a value is missing after {name}"));
            match &*name {
                "--dir" => options.directory = Some(value()?.into()),
                "--steps" => options.steps = value()?.parse()?,
                "--seed" => options.seed = value()?.parse()?,
                "--resume" => options.resumes = true,
                "--frames" => options.frames = Some(value()?.into()),
                "--strip" => options.strip = Some(value()?.into()),
                _ => return Err(format!("unknown argument {name}: see the first lines of main.rs").into()),
            }
        }
        Ok(options)
    }
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::from_args()?;
    let temporary = tempfile::tempdir()?;
    let directory = options.directory.clone().unwrap_or_else(|| temporary.path().to_owned());
    std::fs::create_dir_all(&directory)?;
    match options.resumes {
        true => resume(&directory, options.seed, options.steps, PLAN),
        false => prove(&directory, &options),
    }
}

/// Goes on from the newest save of a directory, checks the books, and plays.
pub(crate) fn resume(directory: &Path, seed: u64, steps: u64, plan: Plan) -> Result<(), Box<dyn Error>> {
    let mut game = Game::open(directory, seed, plan)?;
    let proof = game.check()?;
    say(format_args!("checked {}", proof.step));
    game.play(steps);
    game.save()?;
    say(format_args!("the books add up: {}", game.check()?));
    Ok(())
}

/// Plays, is killed while it saves, goes on, and prints what it has proved.
fn prove(directory: &Path, options: &Options) -> Result<(), Box<dyn Error>> {
    let mut game = Game::open(directory, options.seed, PLAN)?;
    let mut film = Film { frames: options.frames.as_deref(), strip: Vec::new(), camera: CAMERA };
    film.keep(&mut game);
    for part in [options.steps / 2, options.steps - options.steps / 2] {
        film.play(&mut game, part)?;
        film.keep(&mut game);
    }
    game.save()?;
    say(format_args!("the books add up: {}", game.check()?));
    let (first, saved) = (game.books().clone(), game.step());
    drop(game); // the file has one writer

    let acknowledged = play_and_kill(directory, saved)?;
    let mut game = Game::open(directory, options.seed, PLAN)?;
    let proof = game.check()?;
    say(format_args!("killed after save {acknowledged}; the newest save is there, and adds up: {proof}"));
    assert!(proof.step >= acknowledged, "save {acknowledged} was acknowledged, and {} is there", proof.step);
    assert!(game.books().born.is_superset(&first.born), "what was saved before is there");
    film.keep(&mut game);
    film.play(&mut game, options.steps)?;
    game.save()?;
    let proof = game.check()?;
    if let Some(path) = &options.strip {
        Picture::strip(&film.strip).write(path)?;
    }
    report(&game, &proof);
    Ok(())
}

/// Starts this program again, kills it in the middle of a save, and returns the last step that it said is saved.
fn play_and_kill(directory: &Path, saved: u64) -> Result<u64, Box<dyn Error>> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("--dir")
        .arg(directory)
        .args(["--resume", "--steps", "1000000"])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut out = BufReader::new(child.stdout.take().ok_or("it is piped")?).lines();
    let mut acknowledged = saved;
    let mut note = |line: &str| {
        let step = line.strip_prefix("saved ").and_then(|step| step.parse().ok());
        acknowledged = step.unwrap_or(acknowledged);
    };
    let mut saves = 0;
    while saves < 3 {
        let line = out.next().ok_or("the game has ended by itself")??;
        saves += u64::from(line.starts_with("saving"));
        note(&line);
    }
    std::thread::sleep(Duration::from_millis(1));
    child.kill()?; // SIGKILL: nothing of the game runs after it
    child.wait()?;
    // It may have said something before it was killed.
    out.map_while(Result::ok).for_each(|line| note(&line));
    Ok(acknowledged)
}

fn report(game: &Game, proof: &books::Proof) {
    let books = game.books();
    let (active, stored) = game.chunks();
    println!("the books add up: {proof}");
    println!("{active} chunks are in memory, {stored} have changed and are in the file");
    for (material, name) in NAMES.iter().enumerate().skip(1) {
        let (dug, destroyed) = (books.dug[material], books.destroyed[material]);
        let (here, made) = (proof.found[material], proof.made[material]);
        println!(
            "{name:>8}: {made:>5} made = {here:>5} here + {dug:>4} dug + {destroyed:>3} shot off bodies"
        );
    }
    let (born, died) = (books.born.len(), books.died.len());
    println!("{} bodies have broken, {} are gone; every body id is there once", books.broken, books.gone);
    println!("{born} creatures were born, {died} have died; each of the others is there once");
}

/// The place that pictures are of.
const CAMERA: [i32; 2] = [50, 10];

/// Pictures of the game.
struct Film<'a> {
    frames: Option<&'a Path>,
    strip: Vec<Picture>,
    camera: [i32; 2],
}

impl Film<'_> {
    fn keep(&mut self, game: &mut Game) {
        self.strip.push(Picture::of(game.harness.app.world_mut(), self.camera));
    }

    /// Plays, and writes a picture every four steps if there is a directory for them.
    fn play(&self, game: &mut Game, steps: u64) -> Result<(), Box<dyn Error>> {
        let Some(directory) = self.frames else {
            game.play(steps);
            return Ok(());
        };
        std::fs::create_dir_all(directory)?;
        for part in (0..steps).step_by(4) {
            game.play(4.min(steps - part));
            let path = directory.join(format!("{:05}.png", game.step()));
            Picture::of(game.harness.app.world_mut(), self.camera).write(&path)?;
        }
        Ok(())
    }
}
