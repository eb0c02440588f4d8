//! The fields of files that hold times or random bytes, and the checksums over them: all that may differ between two runs.
//!
//! | file | by | fields |
//! |---|---|---|
//! | save | file name `clock..` | time of the save, in the metadata and its copy; checksums of those sections; root hash |
//! | journal | file name `clock..` | times of records; checksums of the save, of the head and of records |
//! | message | file name `random..` | number of the stream; checksum |
//! | sealed blob | magic | save id, salt, key id of a passphrase; tags, signatures, ciphertext |
//! | chunked world | magic | time of the header, in commits too; in sealed ones nonces, ciphertext, random bytes, salt |
//!
//! Offsets are those of FORMAT.md and docs/PROTOCOL.md.

use std::ops::Range;

/// A range of bytes that may differ, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) range: Range<usize>,
}

pub(super) const SAVE_MAGIC: &[u8] = b"\x89BNF\r\n\x1a\n";
pub(super) const SEALED_MAGIC: &[u8] = b"\x89BNS\r\n\x1a\n";
const JOURNAL_MAGIC: &[u8] = b"\x89BNJ\r\n\x1a\n";
pub(super) const MESSAGE_MAGIC: &[u8] = b"BNFM";
pub(super) const WORLD_MAGIC: &[u8] = b"PXSW";
const FRAME_MAGIC: &[u8] = b"\x9BBNF";

/// The fields of a file that may differ between two runs, in ascending order. `name` is the name of the file.
pub(super) fn fields(name: &str, bytes: &[u8]) -> Vec<Field> {
    let has_clock = name.starts_with("clock");
    let mut fields = Fields { bytes, found: Vec::new() };
    let complete = match bytes {
        _ if bytes.starts_with(SEALED_MAGIC) => fields.sealed(),
        _ if bytes.starts_with(WORLD_MAGIC) => fields.world(),
        _ if bytes.starts_with(SAVE_MAGIC) && has_clock => fields.save(),
        _ if bytes.starts_with(JOURNAL_MAGIC) && has_clock => fields.journal(),
        _ if bytes.starts_with(MESSAGE_MAGIC) && name.starts_with("random") => fields.message(),
        _ => Some(()),
    };
    if complete.is_none() {
        eprintln!("{name}: it ends within a structure; its fields behind that are compared byte by byte");
    }
    fields.found.retain(|field| !field.range.is_empty() && field.range.end <= bytes.len());
    fields.found.sort_by_key(|field| field.range.start);
    fields.found
}

/// Reads the structure of a file. All calls return `None` where the file is too short.
struct Fields<'b> {
    bytes: &'b [u8],
    found: Vec<Field>,
}

impl<'b> Fields<'b> {
    fn add(&mut self, name: &'static str, start: usize, len: usize) {
        self.found.push(Field { name, range: start..start.saturating_add(len) });
    }

    fn slice(&self, start: usize, len: usize) -> Option<&'b [u8]> {
        self.bytes.get(start..start.checked_add(len)?)
    }

    fn number(&self, start: usize, len: usize) -> Option<usize> {
        let mut number = [0; 8];
        number[..len].copy_from_slice(self.slice(start, len)?);
        usize::try_from(u64::from_le_bytes(number)).ok()
    }

    fn save(&mut self) -> Option<()> {
        let footer = self.number(24, 8)?;
        let mut section = 64;
        while section < footer {
            let blocks = self.number(section + 24, 4)?;
            let content = section + (32 + 12 * blocks).next_multiple_of(64);
            let stored = self.number(section + 16, 8)?;
            if self.number(section + 4, 2)? == 1 {
                self.metadata(section, content, stored)?;
            }
            section = content + stored.next_multiple_of(64);
        }
        // The footer: number of sections, 32 bytes for each, kind of the root hash, root hash.
        let content = footer + (32 + 12 * self.number(footer + 24, 4)?).next_multiple_of(64);
        let root = content + 4 + 32 * self.number(content, 4)?;
        if self.number(root, 1)? == 1 {
            self.add("root hash over the time of the save", root + 1, 32);
            self.add("checksum of the footer with the root hash", footer + 28, 4);
            self.add("checksum of the footer with the root hash", footer + 32 + 8, 4);
        }
        Some(())
    }

    /// The metadata section has one block that is not compressed.
    fn metadata(&mut self, section: usize, content: usize, stored: usize) -> Option<()> {
        const NAME: &[u8] = b"bonfire.saved_at";
        let metadata = self.slice(content, stored)?;
        let Some(at) = metadata.windows(NAME.len()).position(|window| window == NAME) else {
            return Some(());
        };
        // Behind the name: the tag of a 64-bit number, the number.
        self.add("time of the save", content + at + NAME.len() + 1, 8);
        self.add("checksum of the section with the time of the save", section + 28, 4);
        self.add("checksum of the block with the time of the save", section + 32 + 8, 4);
        Some(())
    }

    fn journal(&mut self) -> Option<()> {
        self.add("checksum of the save, which has a time", 12, 4);
        self.add("checksum of the head of the journal", 36, 4);
        let mut record = 40;
        while record < self.bytes.len() {
            self.add("time of the record", record + 32, 8);
            self.add("link: checksum of the record before", record + 48, 4);
            self.add("checksum of the record's head", record + 56, 4);
            record += 68 + self.number(record + 40, 8)?;
        }
        Some(())
    }

    #[expect(clippy::unnecessary_wraps, reason = "as those of all kinds")]
    fn message(&mut self) -> Option<()> {
        self.add("number of the stream", 8, 8);
        self.add("checksum of the message", 60, 4);
        Some(())
    }

    fn sealed(&mut self) -> Option<()> {
        let (suite, flags) = (self.number(10, 1)?, self.number(11, 1)?);
        let (is_signed, has_passphrase) = (flags & 2 != 0, flags & 4 != 0);
        if has_passphrase {
            self.add("key id of a passphrase with its salt", 12, 8);
            self.add("salt of the passphrase", 44, 16);
        }
        self.add("save id", 20, 24);
        self.add("check of the header with the save id", 100, 4);
        let (open, body) = (self.number(84, 8)?, self.number(92, 8)?);
        let mut at = 104 + open;
        self.add("front tag, of the save id", at, 32);
        at += 32;
        if is_signed {
            self.add("front signature, of the save id", at, 64);
            at += 64;
        }
        let (is_secret, tag) = match suite {
            1 | 2 => (true, 16),
            3 => (false, 32),
            _ => (false, 0),
        };
        let mut rest = body;
        loop {
            let segment = rest.min(65_536);
            if is_secret {
                self.add("ciphertext, by a key of the save id", at, segment);
            }
            self.add("tag of a segment, by a key of the save id", at + segment, tag);
            at += segment + tag;
            rest -= segment;
            if rest == 0 {
                break;
            }
        }
        if is_signed {
            self.add("whole signature, of the save id", at, 64);
        }
        Some(())
    }

    fn world(&mut self) -> Option<()> {
        self.add("time of the header", 24, 8);
        self.add("checksum of the header with the time", 61, 3);
        let is_sealed = self.number(6, 2)? & 4 != 0;
        let mut frame = self.number(40, 8)?;
        while frame < self.bytes.len() {
            // A frame: length, data, trailer of 32 bytes.
            let data = frame + 4;
            let trailer = data + self.number(frame, 4)?.checked_sub(32)?;
            if self.slice(trailer, 4)? != FRAME_MAGIC {
                return None;
            }
            match self.number(trailer + 4, 1)? {
                3 => self.commit(data, trailer, is_sealed)?,
                1 | 5 | 6 if is_sealed && trailer > data => {
                    self.add("random nonce, ciphertext and tag", data, trailer - data);
                    self.add("checksum of a frame with ciphertext", trailer + 28, 4);
                }
                _ => {}
            }
            frame = trailer + 32;
        }
        Some(())
    }

    fn commit(&mut self, data: usize, trailer: usize, is_sealed: bool) -> Option<()> {
        self.add("time of the header in a commit", data + 24, 8);
        self.add("checksum of the header in a commit", data + 61, 3);
        if is_sealed {
            self.add("checksum of the checksums of frames with ciphertext", data + 72, 4);
            let seal = data + 84;
            if self.number(seal + 1, 1)? == 1 {
                self.add("key id of a passphrase with its salt", seal + 4, 8);
                self.add("salt of the passphrase", seal + 36, 16);
            }
            self.add("random bytes of the file", seal + 12, 24);
        }
        self.add("checksum of a commit with a time", trailer + 28, 4);
        Some(())
    }
}
