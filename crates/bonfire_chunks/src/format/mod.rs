//! The bytes of a chunk file: FORMAT.md, "Chunk files".

mod commit;
mod crc8;
mod depth;
mod entry;
mod frame;
mod header;
mod ids;
mod pin;
mod settings;

pub(crate) use self::commit::{Commit, CommitProof, Proof, SideIndex, decode_image, encode_image, image_tag};
pub(crate) use self::crc8::{crc8, crc8_append};
pub(crate) use self::depth::{DEPTH_BYTES, encode_depth};
pub(crate) use self::entry::{Entry, EntryList};
pub(crate) use self::frame::{
    FRAME_EXTRA_BYTES, Frame, MAGIC, SIZE_BYTES, TRAILER_BYTES, WrittenFrame, without_depth,
};
pub(crate) use self::header::{Flags, HEADER_BYTES, Header, HeaderError, Version};
pub(crate) use self::ids::{Resident, decode_residents, encode_residents};
pub(crate) use self::pin::{PinRecord, decode_places, encode_places};
pub(crate) use self::settings::{SETTINGS_HEAD_BYTES, decode_head, encode_head};

use crate::ChunkPos;

/// The content of a frame. A number is never used again for something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum FrameKind {
    /// The cells of a chunk.
    Chunk = 1,
    /// The document's entity section. The save that writes a checkpoint ends with it.
    EntitySection = 2,
    /// What a save has changed: the frames before it count only together with it.
    Commit = 3,
    /// The whole page table, before it is written in its place.
    TableImage = 4,
    /// The bodies of a chunk.
    Bodies = 5,
    /// The entities of a chunk: a snapshot of the core.
    Snapshot = 6,
    /// What the game said of its world: sizes, layers, materials. There twice.
    Settings = 7,
    /// A schema that snapshots name by its hash. There twice.
    Schema = 8,
    /// What was left of a damaged [`Chunk`](Self::Chunk), until it is saved again.
    DamagedChunk = 9,
    /// Where all frames are that the page table does not list.
    SideIndex = 10,
    /// What was left of damaged [`Bodies`](Self::Bodies), until they are saved again.
    DamagedBodies = 11,
    /// What was left of a damaged [`Snapshot`](Self::Snapshot), until it is saved again.
    DamagedSnapshot = 12,
    /// A part of the index that says which chunk a body, or an entity with a stable id, is in.
    Ids = 13,
    /// A moment that stays: its name, and what the game says of it. There twice.
    Pin = 14,
    /// Frames that the world had at a pinned moment, and has not, or not any more, at the next one.
    PinDifference = 15,
    /// Frames that the world has again since it returned to a pinned moment. There twice.
    Return = 16,
}

impl FrameKind {
    /// The kinds that hold something of the game's. Each has an index of its own.
    pub const CONTENT: [Self; 9] = [
        Self::Chunk,
        Self::Bodies,
        Self::Snapshot,
        Self::Settings,
        Self::Schema,
        Self::DamagedChunk,
        Self::DamagedBodies,
        Self::DamagedSnapshot,
        Self::Ids,
    ];

    /// The kinds that a file has an index of: those of the game, and those of pinned moments.
    pub(crate) const INDEXED: [Self; 12] = [
        Self::Chunk,
        Self::Bodies,
        Self::Snapshot,
        Self::Settings,
        Self::Schema,
        Self::DamagedChunk,
        Self::DamagedBodies,
        Self::DamagedSnapshot,
        Self::Ids,
        Self::Pin,
        Self::PinDifference,
        Self::Return,
    ];

    /// Returns the kind with this number: `kind as u8`.
    pub fn from_number(number: u8) -> Option<Self> {
        let others = [Self::EntitySection, Self::Commit, Self::TableImage, Self::SideIndex];
        Self::INDEXED.into_iter().chain(others).find(|kind| *kind as u8 == number)
    }

    /// Returns true for the kinds of [`CONTENT`](Self::CONTENT).
    pub fn is_content(self) -> bool {
        Self::CONTENT.contains(&self)
    }

    /// Returns true for the kinds that a file has an index of.
    pub(crate) fn is_indexed(self) -> bool {
        Self::INDEXED.contains(&self)
    }

    /// Returns true for frames that are as they were in a pinned moment. Settings are those of today: layer sets and ids that
    /// were given out since then are not forgotten.
    pub(crate) fn is_pinned(self) -> bool {
        self.is_content() && self != Self::Settings
    }

    /// What a frame of this kind becomes when it is damaged. Settings and schemas are there twice instead.
    pub(crate) fn damaged(self) -> Option<Self> {
        match self {
            Self::Chunk => Some(Self::DamagedChunk),
            Self::Bodies => Some(Self::DamagedBodies),
            Self::Snapshot => Some(Self::DamagedSnapshot),
            _ => None,
        }
    }

    /// Returns true for what was left of a damaged frame.
    pub(crate) fn is_set_aside(self) -> bool {
        matches!(self, Self::DamagedChunk | Self::DamagedBodies | Self::DamagedSnapshot)
    }

    /// Returns true for frames that belong to the world as a whole, and to no chunk.
    pub(crate) fn is_of_world(self) -> bool {
        let of_pins = matches!(self, Self::Pin | Self::PinDifference | Self::Return);
        of_pins || matches!(self, Self::Settings | Self::Schema | Self::Ids)
    }

    /// What it is called in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chunk => "chunk",
            Self::Bodies => "bodies",
            Self::Snapshot => "entities",
            Self::Settings => "settings",
            Self::Schema => "schema",
            Self::DamagedChunk | Self::DamagedBodies | Self::DamagedSnapshot => "damaged frame",
            Self::EntitySection => "entity section",
            Self::Commit => "commit",
            Self::TableImage => "table image",
            Self::SideIndex => "side index",
            Self::Ids => "index of ids",
            Self::Pin => "pin",
            Self::PinDifference => "difference of a pin",
            Self::Return => "return to a pin",
        }
    }
}

/// The key of a frame in the indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameKey {
    /// The kind of its content.
    pub kind: FrameKind,
    /// The chunk that it belongs to. Settings and schemas use the numbers for themselves.
    pub pos: ChunkPos,
}

impl FrameKey {
    /// The key of a frame of this kind.
    pub fn new(kind: FrameKind, pos: ChunkPos) -> Self {
        Self { kind, pos }
    }

    /// The frame for messages: what it holds, and of which chunk if it belongs to one.
    pub(crate) fn describe(self) -> String {
        match self.kind {
            kind if kind.is_of_world() => kind.name().to_owned(),
            kind => format!("{} at {}", kind.name(), self.pos),
        }
    }
}

/// How the data of a frame is to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameTag {
    /// Of chunks: 0 empty, 1 delta, 2 full. Of entities: 1 if none of them has a stable id.
    pub storage: u8,
    /// The codec of its data.
    pub codec: u8,
    /// The number of the layer set.
    pub layers: u8,
}

impl FrameTag {
    /// Of a frame without data that says that there is nothing of its kind in its place any more. The commit says it too; this
    /// one is for the case that the commit is damaged.
    pub(crate) const REMOVED: Self = Self { storage: 0xFF, codec: 0, layers: 0 };
    /// Of an image of a page table whose entries are those of version 2.
    pub(crate) const DEEP_IMAGE: Self = Self { storage: 2, codec: 0, layers: 0 };
    /// Of the difference of a pin that was found damaged: nobody knows which frames it had.
    pub(crate) const LOST: Self = Self { storage: 1, codec: 0, layers: 0 };
}

/// The place of the data of a frame in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FramePlace {
    /// Past the size word. 0 is nowhere.
    pub(crate) offset: u64,
    pub(crate) len: u32,
    pub(crate) tag: FrameTag,
}

impl FramePlace {
    /// The place of a frame that does not exist.
    pub(crate) const NOWHERE: Self =
        Self { offset: 0, len: 0, tag: FrameTag { storage: 0, codec: 0, layers: 0 } };

    pub(crate) fn is_nowhere(&self) -> bool {
        self.offset == 0
    }

    /// Where its frame begins.
    pub(crate) fn start(&self) -> u64 {
        self.offset.saturating_sub(SIZE_BYTES)
    }

    /// Where its frame ends.
    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.len) + TRAILER_BYTES)
    }

    /// Bytes of its frame.
    pub(crate) fn frame_bytes(&self) -> u64 {
        u64::from(self.len) + FRAME_EXTRA_BYTES
    }
}

/// The next `N` bytes.
pub(crate) fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*first)
}
