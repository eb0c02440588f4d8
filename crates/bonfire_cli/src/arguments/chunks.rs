//! Arguments and help of the commands for worlds of chunks.

use std::path::PathBuf;

use bonfire_chunks::{ChunkPos, ChunkRect};
use clap::Args;

pub(crate) const COMPACT_NOTES: &str = "\
The file is written anew without what is dead, and takes the place of the old one as a whole. A game does so by itself now
and then. A damaged world is refused: `repair` keeps a copy of it first.

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

The palettes `names` (the default), `distinct` (a colour for each value, whatever its name) and `grey` (the low byte, from dark to
bright) are built in. With `--zoom out`, every chunk is one pixel. Rows are written as they are read, however large the world is.

Examples:
  bonfire map world.save world.png
  bonfire map world.save spawn.png --region -2,-2,2,2 --scale 256
  bonfire map world.save light.png --layer light --palette grey
  bonfire map world.save all.png --zoom out";

pub(crate) const DIFF_NOTES: &str = "\
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
  bonfire diff backup.save world.save --json | jq '.chunks.different[].chunk'";

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
    /// Another one
    #[arg(value_name = "SECOND")]
    pub(crate) other: PathBuf,
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

/// `X,Y`, the place of a chunk.
pub(crate) fn parse_chunk(text: &str) -> Result<ChunkPos, String> {
    let numbers: Option<Vec<i32>> = text.split(',').map(|number| number.trim().parse().ok()).collect();
    match numbers.as_deref() {
        Some(&[x, y]) => Ok(ChunkPos::new(x, y)),
        _ => Err("a chunk is two whole numbers, X,Y".to_owned()),
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
