//! Arguments and help of the commands for worlds of chunks.

use std::path::PathBuf;

use bonfire_chunks::{ChunkPos, ChunkRect};
use clap::Args;

pub(crate) const PINS_NOTES: &str = "\
A pin is a moment of the whole world that the game keeps in the same file. The oldest comes first. `alone` is what removing
only this pin would free; the game removes pins, this tool does not. What several pins share counts for none of them, so
the last line says what all of them hold together.

With --at PIN, `info`, `verify`, `show` and `map` look at the world as it was then, and `diff` compares moments. A name may
be given as it is printed here.

Exit codes:
  0  the world has pins, or none
  1  a pin is damaged
  2  misuse: bad arguments, or a file that cannot be read
  3  the world has a newer format than this tool

Examples:
  bonfire pins world.save
  bonfire pins world.save --json | jq '.pins[] | {name, own_bytes}'
  bonfire map world.save boss.png --at 'before the boss'
  bonfire diff world.save --from 'before the boss'";

pub(crate) const COMPACT_NOTES: &str = "\
The file is written anew without what is dead, and takes the place of the old one as a whole. A game does so by itself now
and then. Pins stay, with all that they hold. A damaged world is refused: `repair` keeps a copy of it first.

Examples:
  bonfire compact world.save
  bonfire compact world.save --json | jq '.bytes_after'";

pub(crate) const REPAIR_NOTES: &str = "\
What the file was is first copied to FILE.before-repair (or FILE.before-repair-2, and so on), byte for byte. Then header and table
are made anew, what is lost is set aside, and the file is compacted. A part that was set aside stays in the file: the game
hears an error there, and never makes the chunk anew over it, until it saves that chunk again. With --drop-damaged it
is given up instead: the game makes such chunks anew. The game must not have the world open.

Exit codes:
  0  the world is whole
  1  parts are set aside, and the output lists them
  2  misuse: bad arguments, a file that cannot be read or written, or a world that somebody has open
  3  the world has a newer format than this tool

Examples:
  bonfire repair world.save
  bonfire repair world.save --out repaired.save        leave the file as it is
  bonfire repair world.save --drop-damaged             for players who want to go on without what is lost";

pub(crate) const MAP_NOTES: &str = "\
Each material has a colour: by its name where that says something (`game.deep_water`), else one of its own, or what a palette
file says, which has a line for each: `3 #a0522d`, or `game.dirt #a0522d`; lines that begin with # are comments.
When several cells are one pixel, it has their mean colour.

A checker is where nothing is in the file, a red cross what is damaged. Chunks that are stored as what was changed since they were
generated show only that, on grey, because the generator is in the game. A pink plus is a body, a yellow square in the lower
right corner says that a chunk has entities; --no-marks leaves them out. With less than 4 pixels for a chunk there are none.

With --at, the picture shows the world as it was at a pin.

In a dimension with three coordinates, the picture is a view from above: the highest cell of each column that has not the
default of its layer. `--slice Z` draws the cells of one layer of the world instead. Larger z is higher, or lower with
--z-down. Cells that only the generator knows are looked through.

The palettes `names` (the default), `distinct` (a colour for each value, whatever its name) and `grey` (the low byte, from dark to
bright) are built in. With `--zoom out`, every chunk is one pixel. Rows are written as they are read, however large the world is.

Examples:
  bonfire map world.save world.png
  bonfire map world.save spawn.png --region -2,-2,2,2 --scale 256
  bonfire map world.save light.png --layer light --palette grey
  bonfire map world.save all.png --zoom out
  bonfire map world.save cave.png --dimension 1 --slice=-20
  bonfire map world.save then.png --at 'day 12'";

pub(crate) const DIFF_NOTES: &str = "\
With --from and --to, moments are compared: FIRST at a pin, SECOND at a pin. Without SECOND both are moments of FIRST, and
the one that is not given is now.

Chunks that are stored as what differs from the generated ones are compared as that. Bodies are told apart by their ids, entities by
the bytes of their chunk.

Exit codes:
  0  the two worlds have the same content
  1  something is damaged, and could not be compared
  2  misuse: bad arguments, or a file that cannot be read
  3  a world has a newer format than this tool
  6  they differ
If several apply, the lowest number above 0 wins.

Examples:
  bonfire diff backup.save world.save
  bonfire diff backup.save world.save --json | jq '.chunks.different[].chunk'
  bonfire diff world.save --from 'before the boss'                        what has changed since
  bonfire diff world.save --from 'day 1' --to 'day 2'";

#[derive(Args)]
pub(crate) struct PinsArguments {
    /// The world
    pub(crate) file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct CompactArguments {
    /// The world
    pub(crate) file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct RepairArguments {
    /// The world
    pub(crate) file: PathBuf,
    /// Write the repaired world to this new file, and leave the old one as it is
    #[arg(long = "out", value_name = "NEW")]
    pub(crate) output: Option<PathBuf>,
    /// Give up what is lost, for good
    #[arg(long)]
    pub(crate) drop_damaged: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct MapArguments {
    /// The world
    pub(crate) file: PathBuf,
    /// Where the picture goes; one that is there is replaced
    #[arg(value_name = "OUT.png")]
    pub(crate) picture: PathBuf,
    /// Only the chunks from one corner to the other, both included; without it, all that are in the file
    #[arg(long, value_name = "X0,Y0,X1,Y1", allow_hyphen_values = true, value_parser = parse_region)]
    pub(crate) region: Option<ChunkRect>,
    /// The world as it was at this pin; `bonfire pins` lists them
    #[arg(long, value_name = "PIN")]
    pub(crate) at: Option<String>,
    /// The dimension that is drawn
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) dimension: u32,
    /// Draw one layer of cells of a dimension with three coordinates
    #[arg(long, value_name = "Z", allow_hyphen_values = true)]
    pub(crate) slice: Option<i64>,
    /// Draw a dimension with three coordinates from above, as without --slice
    #[arg(long, conflicts_with = "slice")]
    pub(crate) above: bool,
    /// From above, the smallest z is the highest
    #[arg(long, conflicts_with = "slice")]
    pub(crate) z_down: bool,
    /// Pixels along the edge of a chunk; without it, a pixel for each cell, or fewer if that would be more than 2048
    #[arg(long, value_name = "PIXELS", value_parser = clap::value_parser!(u32).range(1..=8192))]
    pub(crate) scale: Option<u32>,
    /// The whole world at a glance (`out`): a pixel for each chunk
    #[arg(long, value_enum, conflicts_with = "scale")]
    pub(crate) zoom: Option<Zoom>,
    /// No marks for bodies and entities
    #[arg(long)]
    pub(crate) no_marks: bool,
    /// A built-in palette (`names`, `distinct`, `grey`), or a file with colours
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) palette: Option<PathBuf>,
    /// The layer that is drawn; without it, the one that has names for its values, or the first
    #[arg(long, value_name = "NAME")]
    pub(crate) layer: Option<String>,
    /// Another layer, whose low byte makes cells darker (0) or brighter (255)
    #[arg(long, value_name = "NAME")]
    pub(crate) shade: Option<String>,
    /// The first row of a chunk is its highest one; without it, its lowest
    #[arg(long)]
    pub(crate) y_down: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct DiffArguments {
    /// A world
    #[arg(value_name = "FIRST")]
    pub(crate) one: PathBuf,
    /// Another one; without it, moments of FIRST are compared
    #[arg(value_name = "SECOND", required_unless_present_any = ["from", "to"])]
    pub(crate) other: Option<PathBuf>,
    /// FIRST as it was at this pin; `bonfire pins` lists them
    #[arg(long, value_name = "PIN")]
    pub(crate) from: Option<String>,
    /// SECOND as it was at this pin
    #[arg(long, value_name = "PIN")]
    pub(crate) to: Option<String>,
    /// Lines shown of each list, 0 for all
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// How far a picture is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Zoom {
    /// A pixel for each chunk
    Out,
}

/// `X,Y` or `X,Y,Z`, the place of a chunk.
pub(crate) fn parse_chunk(text: &str) -> Result<ChunkPos, String> {
    let numbers: Option<Vec<i32>> = text.split(',').map(|number| number.trim().parse().ok()).collect();
    match numbers.as_deref() {
        Some(&[x, y]) => Ok(ChunkPos::new(x, y)),
        Some(&[x, y, z]) => Ok(ChunkPos::new_3d(x, y, z)),
        _ => Err("a chunk is two or three whole numbers, X,Y or X,Y,Z".to_owned()),
    }
}

/// `X0,Y0,X1,Y1`, in chunks.
fn parse_region(text: &str) -> Result<ChunkRect, String> {
    let numbers: Option<Vec<i32>> = text.split(',').map(|number| number.trim().parse().ok()).collect();
    match numbers.as_deref() {
        Some(&[x0, y0, x1, y1]) => Ok(ChunkRect::new((x0, y0), (x1, y1))),
        _ => Err("a region is four whole numbers, X0,Y0,X1,Y1".to_owned()),
    }
}
