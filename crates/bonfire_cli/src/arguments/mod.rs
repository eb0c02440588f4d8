//! The arguments and help texts of all commands. What commands do with them is in their own modules.

pub(crate) mod chunks;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use self::chunks::{
    COMPACT_NOTES, CompactArguments, DIFF_NOTES, MAP_NOTES, MapArguments, PINS_NOTES, PinsArguments,
    REPAIR_NOTES, RepairArguments,
};
use crate::sealed::KeyArguments;

const EXIT_CODES: &str = "\
Exit codes:
  0  fine
  1  the file is damaged
  2  misuse: bad arguments, or a file that cannot be read
  3  the file has a newer format than this build, or is newer than the schema lock
  4  the save, or a schema, cannot become what newer schemas have (`schema`, `migrate`)
  5  only the game can tell: a version is older, and the steps from it are code of the game (`schema check`, `migrate`)
  6  two worlds differ (`diff`)
If several apply, the lowest number above 0 wins.";

const INFO_EXAMPLES: &str = "\
Examples:
  bonfire info autosave.save
  bonfire info autosave.save --json | jq '.components[].key'
  bonfire info world.save --json | jq '.chunks'        a world of chunks
  bonfire info world.save --at 'day 12'                the same at a pin
  bonfire info ~/.local/share/Studio/Game/saves        what every save there tells of itself";

const SHOW_EXAMPLES: &str = "\
Examples:
  bonfire show autosave.save
  bonfire show autosave.save --component game.position --component game.health --limit 0
  bonfire show autosave.save --json | jq '.archetypes[].entities[].components'
  bonfire show world.save --chunk 3,-2                  one chunk of a chunk world
  bonfire show world.save --chunk 3,-2,1 --dimension 1 --at 'day 12'";

const VERIFY_EXAMPLES: &str = "\
Examples:
  bonfire verify autosave.save
  bonfire verify autosave.save --json | jq '.damaged_blocks'
  bonfire verify world.save                            every part of a world of chunks, with its pins
  bonfire verify world.save --at 'day 12'              the world as it was at one pin
  bonfire verify ~/.local/share/Studio/Game/saves      every save there, a line for each";

const LS_EXAMPLES: &str = "\
Only the head of each save is read, so `ls` finds saves that are cut short, and `verify` finds all damage. A save is
called by its slot and its number: later saves have larger numbers. Heads of sealed saves are shown as far as they were left
open; without the key nobody knows whether they are true.

Examples:
  bonfire ls ~/.local/share/Studio/Game/saves
  bonfire ls saves quick                               every save of one slot
  bonfire ls saves --profile alice --json";

const SLOTS_NOTES: &str = "\
Each change is done as the game would do it: as a whole or not at all, and durable when the command returns. The game may
run meanwhile. Locked saves are not removed.

Examples:
  bonfire slots rename saves quick before-the-dragon
  bonfire slots lock saves quick 7
  bonfire slots restore saves quick 5                  an older save becomes the newest, as a copy
  bonfire slots rm saves quick --save 5";

const SCHEMA_NOTES: &str = "\
A schema lock is a text file that a game commits. It has every schema that was ever released, so that a change that old
saves cannot follow fails a test of the game: `bonfire_store::check_schemas`, which also writes the file when it runs
with BONFIRE_LOCK=write in the environment. These commands do the rest, without the game.";

const SCHEMA_LOCK_EXAMPLES: &str = "\
For projects that begin late: saves of earlier releases say which schemas those had. List the oldest first. What the lock
has already counts as newer than all of them. Nothing is taken out of the lock, and if one save cannot be read, nothing is
added.

Examples:
  bonfire schema lock saves/1.0.save saves/1.1.save
  bonfire schema lock autosave.save --lock game/schemas.lock";

const SCHEMA_CHECK_EXAMPLES: &str = "\
The build is the one that the lock describes: the newest schema of each key, with its aliases, defaults and removed names.
Every value is read as that build would read it.

A component of an older version than the newest in the lock has a line of its own: the steps between versions are code of
the game, so only the game can tell whether it loads. That is no fault of the save.

A lock that was made out of saves alone has no defaults and no aliases, because saves have none. A test of the game that
runs with BONFIRE_LOCK=write adds them.

Exit codes:
  0  every save loads
  1  a save, or the lock, is damaged
  2  misuse: bad arguments, or a file that cannot be read
  3  a save is newer than the lock, or than this tool
  4  a save cannot be loaded
  5  everything else loads, but something is of an older version: load it with the game
If several apply, the lowest number above 0 wins.

Examples:
  bonfire schema check saves/*.save
  bonfire schema check autosave.save --lock game/schemas.lock || test $? = 5";

const SCHEMA_DIFF_EXAMPLES: &str = "\
Saves have no defaults and no aliases. If NEW is one, a new field is a difference that old saves cannot follow, though the
game may have a default for it: a lock knows better.

Exit codes:
  0  no difference, or differences that old saves can follow (a version that was raised counts as one: its steps are code
     of the game)
  1  a file is damaged
  2  misuse: bad arguments, or a file that cannot be read
  3  a save has a newer format than this tool
  4  old saves cannot follow: a line says `cannot follow`

Examples:
  bonfire schema diff old.save new.save
  bonfire schema diff old.save schemas.lock
  bonfire schema diff <(git show v1.0:schemas.lock) schemas.lock";

const MIGRATE_EXAMPLES: &str = "\
The new save is as the build that the lock describes would have written it. Entities keep their ids, what the lock does
not know is carried, and the compression stays. A save that has versions whose steps are code of the game is refused:
the game itself can rewrite it, with `Snapshot::rewritten` of the library.

Exit codes:
  0  done
  1  the save, or the lock, is damaged
  2  misuse: bad arguments, a file that cannot be read or written, or one that is there already
  3  the save is newer than the lock, or than this tool
  4  the save cannot become what the lock has
  5  something is of an older version, and only the game has the steps from it

Examples:
  bonfire migrate old.save --dry-run
  bonfire migrate old.save -o new.save --lock game/schemas.lock";

const REPLAY_NOTES: &str = "\
A recording is what `Recorder` of `bonfire_sync` wrote: the messages of a server, as they were sent. They are read as a mirror
would read them. In the last column `+` is what has come, `-` what is gone, `~` what was told anew; a baseline says what
there is. A gap is where a mirror would have asked for what it missed: it is no fault of the file.

What a delta tells can be read only after a baseline of its stream, which says what its components are.

Exit codes:
  0  every message is whole
  1  a message is damaged, or the end is cut off: all others are shown
  2  misuse: bad arguments, or a file that cannot be read
  3  the recording, or a message, has a newer version than this tool

Examples:
  bonfire replay session.bnfr
  bonfire replay session.bnfr --values --limit 5
  bonfire replay session.bnfr --json | jq '.messages[] | {tick, sent_bytes}'";

const IMPORT_NOTES: &str = "\
Worlds that other programs wrote become worlds of Bonfire. The old file is only read.";

const IMPORT_PIXEL_WORLD_NOTES: &str = "\
Every payload and every body is decoded. A world that is damaged is not written, unless with --salvage: then what is left is,
as far as it is certain where it belongs. The game appends over its own page table, so a crash may leave chunks that are
sound and have no place; a backup that is older, given with --older, knows the places of what was not saved since. With --json such chunks are listed
with the place `null`. Nothing
can tell changed cells from others: the format has no checksum over them.

Exit codes:
  0  done
  1  the world is damaged: the output says what is missing
  2  misuse: bad arguments, a file that cannot be read or written, or one that is there already
  3  the world has a newer format than this tool

Examples:
  bonfire import pixel-world world.save new.world
  bonfire import pixel-world world.save --dry-run --json | jq '.chunks[].pos'
  bonfire import pixel-world crashed.save new.world --salvage --older yesterday.save";

#[cfg(feature = "demo")]
const DEMO_EXAMPLES: &str = "\
Exits with 1 if the world that comes back is not the one that was saved.

Examples:
  bonfire demo
  bonfire demo --entities 1000000
  bonfire demo --keep demo.bonfire && bonfire show demo.bonfire
  bonfire demo --json | jq '.steps[] | {step, milliseconds}'";

/// Looks into Bonfire saves, without the game that wrote them
#[derive(Parser)]
#[command(name = "bonfire", version, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) keys: KeyArguments,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// The slots in a directory of saves, or the saves of one slot
    #[command(after_help = LS_EXAMPLES)]
    Ls(LsArguments),
    /// Changes a directory of saves: removes, locks, renames, copies or restores
    #[command(subcommand, after_help = SLOTS_NOTES)]
    Slots(SlotsCommand),
    /// What a save is made of: sections, components with their schemas, metadata, data; or a world of chunks
    #[command(after_help = INFO_EXAMPLES)]
    Info(InfoArguments),
    /// What is in a save: entities as tables, then resources, data and carried columns
    #[command(after_help = SHOW_EXAMPLES)]
    Show(ShowArguments),
    /// Whether a save, or a world of chunks, is whole: every checksum, every value; if not, what is damaged and what is lost
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(VerifyArguments),
    /// Which schemas saves have, and whether a game's newest ones read them
    #[command(subcommand, after_help = SCHEMA_NOTES)]
    Schema(SchemaCommand),
    /// Rewrites a save as the newest schemas of a lock have it
    #[command(after_help = MIGRATE_EXAMPLES)]
    Migrate(MigrateArguments),
    /// The pins of a world of chunks: moments that the game keeps
    #[command(after_help = PINS_NOTES)]
    Pins(PinsArguments),
    /// Writes a world of chunks anew, without what is dead
    #[command(after_help = COMPACT_NOTES)]
    Compact(CompactArguments),
    /// Repairs a damaged world of chunks, keeps a copy, and says what is lost
    #[command(after_help = REPAIR_NOTES)]
    Repair(RepairArguments),
    /// Draws a world of chunks, or a region of it
    #[command(after_help = MAP_NOTES)]
    Map(MapArguments),
    /// Shows the differences between two worlds of chunks, or between two moments of one
    #[command(after_help = DIFF_NOTES)]
    Diff(chunks::DiffArguments),
    /// What a recorded stream has told, message by message
    #[command(after_help = REPLAY_NOTES)]
    Replay(ReplayArguments),
    /// Turns worlds of other programs into worlds of Bonfire
    #[command(subcommand, after_help = IMPORT_NOTES)]
    Import(ImportCommand),
    /// Saves a Bevy world, wrecks it, loads it back, compares every entity, and says how long each step took
    #[cfg(feature = "demo")]
    #[command(after_help = DEMO_EXAMPLES)]
    Demo(DemoArguments),
}

#[derive(Args)]
pub(crate) struct LsArguments {
    /// The directory
    pub(crate) directory: PathBuf,
    /// Only this slot, with all its saves
    pub(crate) slot: Option<String>,
    /// The player whose slots they are
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Subcommand)]
pub(crate) enum SlotsCommand {
    /// Removes a slot with all its saves, or one save
    Rm(RemoveArguments),
    /// Keeps a save from being removed
    Lock(SaveArguments),
    /// Makes a locked save one like the others
    Unlock(SaveArguments),
    /// Makes an older save the newest of its slot, as a copy
    Restore(SaveArguments),
    /// Gives a slot another name
    Rename(TwoSlotsArguments),
    /// Copies a save into another slot
    Copy(CopyArguments),
}

#[derive(Args)]
pub(crate) struct RemoveArguments {
    /// The directory
    pub(crate) directory: PathBuf,
    /// The slot
    pub(crate) slot: String,
    /// The number of the save; without it the whole slot goes
    #[arg(long, value_name = "N")]
    pub(crate) save: Option<u64>,
    /// The player whose slot it is
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
}

#[derive(Args)]
pub(crate) struct SaveArguments {
    /// The directory
    pub(crate) directory: PathBuf,
    /// The slot
    pub(crate) slot: String,
    /// The number of the save, as `ls` shows it
    pub(crate) save: u64,
    /// The player whose slot it is
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
}

#[derive(Args)]
pub(crate) struct CopyArguments {
    #[command(flatten)]
    pub(crate) slots: TwoSlotsArguments,
    /// The number of the save; without it, the one that a load would take
    #[arg(long, value_name = "N")]
    pub(crate) save: Option<u64>,
}

#[derive(Args)]
pub(crate) struct TwoSlotsArguments {
    /// The directory
    pub(crate) directory: PathBuf,
    /// The slot
    pub(crate) from: String,
    /// The other slot
    pub(crate) to: String,
    /// The player whose slots they are
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
}

#[derive(Args)]
pub(crate) struct InfoArguments {
    /// The save, or a world of chunks, or a directory of saves
    pub(crate) file: PathBuf,
    /// A chunk world as it was at this pin; `bonfire pins` lists them
    #[arg(long, value_name = "PIN")]
    pub(crate) at: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Make do with what is left of a damaged save (still exits with 1)
    #[arg(long)]
    pub(crate) salvage: bool,
}

#[derive(Args)]
pub(crate) struct ShowArguments {
    /// The save, or a chunk world with --chunk
    pub(crate) file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Only archetypes that have this component; repeat it for those that have several
    #[arg(long = "component", value_name = "KEY")]
    pub(crate) components: Vec<String>,
    /// The chunk of a chunk world: its cells by material, its bodies and its entities
    #[arg(long, value_name = "X,Y[,Z]", allow_hyphen_values = true, value_parser = chunks::parse_chunk)]
    pub(crate) chunk: Option<bonfire_chunks::ChunkPos>,
    /// The dimension of the chunk
    #[arg(long, value_name = "N", default_value_t = 0, requires = "chunk")]
    pub(crate) dimension: u32,
    /// Show one layer of cells of a chunk with three coordinates; without it, the chunk is seen from above
    #[arg(long, value_name = "Z", allow_hyphen_values = true, requires = "chunk")]
    pub(crate) slice: Option<i64>,
    /// A chunk world as it was at this pin; `bonfire pins` lists them
    #[arg(long, value_name = "PIN")]
    pub(crate) at: Option<String>,
    /// Rows shown of each archetype, 0 for all
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
    /// Make do with what is left of a damaged save (still exits with 1)
    #[arg(long)]
    pub(crate) salvage: bool,
}

#[derive(Args)]
pub(crate) struct VerifyArguments {
    /// The save, or a world of chunks, or a directory of saves
    pub(crate) file: PathBuf,
    /// A chunk world as it was at this pin; `bonfire pins` lists them
    #[arg(long, value_name = "PIN")]
    pub(crate) at: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Subcommand)]
pub(crate) enum SchemaCommand {
    /// Adds the schemas of saves to a lock, as older ones; makes the lock if there is none
    #[command(after_help = SCHEMA_LOCK_EXAMPLES)]
    Lock(SchemaArguments),
    /// Whether saves load in the build that a lock describes
    #[command(after_help = SCHEMA_CHECK_EXAMPLES)]
    Check(SchemaArguments),
    /// What is different between the schemas of two locks or saves
    #[command(after_help = SCHEMA_DIFF_EXAMPLES)]
    Diff(SchemaDiffArguments),
}

#[derive(Args)]
pub(crate) struct SchemaArguments {
    /// The saves
    #[arg(value_name = "SAVE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The schema lock
    #[arg(long, value_name = "PATH", default_value = "schemas.lock")]
    pub(crate) lock: PathBuf,
}

#[derive(Args)]
pub(crate) struct SchemaDiffArguments {
    /// A schema lock, or a save
    pub(crate) old: PathBuf,
    /// Another one, which counts as newer
    pub(crate) new: PathBuf,
}

#[derive(Args)]
pub(crate) struct MigrateArguments {
    /// The save
    pub(crate) old: PathBuf,
    /// Where the new save goes
    #[arg(short, long, value_name = "NEW", required_unless_present = "dry_run")]
    pub(crate) output: Option<PathBuf>,
    /// The schema lock
    #[arg(long, value_name = "PATH", default_value = "schemas.lock")]
    pub(crate) lock: PathBuf,
    /// Say what would be done, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Replace the file at NEW if there is one, even the old save itself
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args)]
pub(crate) struct ReplayArguments {
    /// The recording
    pub(crate) file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Show the values that each message brings
    #[arg(long)]
    pub(crate) values: bool,
    /// Rows shown of each group of entities, 0 for all
    #[arg(long, value_name = "N", default_value_t = 20, requires = "values")]
    pub(crate) limit: usize,
}

#[derive(Subcommand)]
pub(crate) enum ImportCommand {
    /// A world of the game bevy_pixel_world
    #[command(after_help = IMPORT_PIXEL_WORLD_NOTES)]
    PixelWorld(PixelWorldArguments),
}

#[derive(Args)]
pub(crate) struct PixelWorldArguments {
    /// The world
    #[arg(value_name = "IN")]
    pub(crate) world: PathBuf,
    /// Where the new world goes
    #[arg(value_name = "OUT", required_unless_present = "dry_run")]
    pub(crate) output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Make do with what is left of a damaged world (still exits with 1)
    #[arg(long)]
    pub(crate) salvage: bool,
    /// An older copy of the world, to place chunks that a crash has left without a place
    #[arg(long, value_name = "PATH")]
    pub(crate) older: Option<PathBuf>,
    /// The version of the game's generator that the world was made with: deltas depend on it
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) generator_version: u32,
    /// Say what would be done, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[cfg(feature = "demo")]
#[derive(Args)]
pub(crate) struct DemoArguments {
    /// How many entities the world has
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) entities: u32,
    /// Write the save to this new file and keep it; otherwise it goes to a temporary one
    #[arg(long, value_name = "PATH")]
    pub(crate) keep: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
