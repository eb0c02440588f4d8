//! A delta on its own: a head, and blocks with a checksum each. FORMAT.md, "Deltas".

use std::sync::Arc;

use bytes::Bytes;

use super::{ComponentTable, Delta, DeltaScope};
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::schema::Fingerprint;
use crate::snapshot::FORMAT_VERSION;
use crate::snapshot::header::MAGIC;
use crate::storage::{BLOCK_BYTES, Rope, crc};

const KIND: u16 = 2;
const HEAD_BYTES: usize = 64;
const BLOCK_HEAD_BYTES: usize = 8;
const WHOLE: u32 = 1;

impl Delta {
    /// The delta as bytes that stand alone. Who opens them needs the table.
    pub fn to_bytes(&self) -> Result<Rope> {
        let content = self.content()?;
        let blocks = content.len().div_ceil(BLOCK_BYTES);
        let len = (HEAD_BYTES + blocks * BLOCK_HEAD_BYTES + content.len()) as u64;
        let mut head = Vec::with_capacity(HEAD_BYTES);
        head.extend_from_slice(&MAGIC);
        head.extend(FORMAT_VERSION.to_le_bytes());
        head.extend(KIND.to_le_bytes());
        head.extend((if self.whole { WHOLE } else { 0 }).to_le_bytes());
        head.extend(len.to_le_bytes());
        head.extend(self.since.to_le_bytes());
        head.extend(self.now.to_le_bytes());
        head.extend_from_slice(&self.table.fingerprint().0);
        head.extend([0; 4]);
        head.extend(crc::checksum(&head).to_le_bytes());
        let mut rope = Rope::from(Bytes::from(head));
        let bytes = content.contiguous();
        for block in bytes.chunks(BLOCK_BYTES) {
            let mut out = Vec::with_capacity(BLOCK_HEAD_BYTES + block.len());
            out.extend((block.len() as u32).to_le_bytes());
            out.extend(crc::checksum(block).to_le_bytes());
            out.extend_from_slice(block);
            rope.push(out.into());
        }
        Ok(rope)
    }

    /// Checks and opens a delta that was made with a table of the same fingerprint.
    pub fn open(bytes: &Bytes, table: &Arc<ComponentTable>, limits: &Limits) -> Result<Self> {
        let head = Head::read(bytes)?;
        if head.fingerprint != table.fingerprint() {
            let (there, here) = (head.fingerprint, table.fingerprint());
            return Err(Error::schema(format!(
                "the delta is about other components: its table is {there}, and this one is {here}"
            )));
        }
        let mut content = Vec::with_capacity(bytes.len());
        let mut rest = &bytes[HEAD_BYTES..];
        while !rest.is_empty() {
            let block = read_block(&mut rest, bytes.len())?;
            content.extend_from_slice(block);
        }
        let Head { since, now, whole, .. } = head;
        let scope = if whole { DeltaScope::Whole } else { DeltaScope::Changes };
        Self::from_content(table, since, now, scope, content.into(), limits)
            .map_err(|error| error.in_section("delta"))
    }

    /// The ticks and the fingerprint of a delta, without the rest.
    pub fn peek(bytes: &[u8]) -> Result<(u64, u64, Fingerprint)> {
        Head::read(bytes).map(|head| (head.since, head.now, head.fingerprint))
    }
}

fn read_block<'a>(rest: &mut &'a [u8], total: usize) -> Result<&'a [u8]> {
    let at = total - rest.len();
    let torn = || Error::corrupt("a block ends with the delta").at(at);
    let (head, after) = rest.split_first_chunk::<BLOCK_HEAD_BYTES>().ok_or_else(torn)?;
    let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
    let crc = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
    if len == 0 || len > BLOCK_BYTES {
        return Err(Error::corrupt(format!("a block of {len} bytes")).at(at));
    }
    let (block, after) = after.split_at_checked(len).ok_or_else(torn)?;
    if crc::checksum(block) != crc {
        return Err(Error::corrupt("a block has another checksum").at(at));
    }
    *rest = after;
    Ok(block)
}

struct Head {
    since: u64,
    now: u64,
    whole: bool,
    fingerprint: Fingerprint,
}

impl Head {
    fn read(bytes: &[u8]) -> Result<Self> {
        let Some((head, _)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
            return Err(Error::corrupt(format!("{} bytes are no delta", bytes.len())));
        };
        fn part<const N: usize>(head: &[u8; HEAD_BYTES], at: usize) -> [u8; N] {
            std::array::from_fn(|i| head[at + i])
        }
        let u64_at = |at| u64::from_le_bytes(part(head, at));
        if head[..8] != MAGIC {
            return Err(Error::corrupt("this is no file of Bonfire"));
        }
        if crc::checksum(&head[..60]) != u32::from_le_bytes(part(head, 60)) {
            return Err(Error::corrupt("the head has another checksum"));
        }
        let (version, kind) = (u16::from_le_bytes(part(head, 8)), u16::from_le_bytes(part(head, 10)));
        if version > FORMAT_VERSION {
            return Err(Error::newer_format(format!(
                "format version {version} is newer than this build ({FORMAT_VERSION}): update the game"
            )));
        }
        if version == 0 || kind != KIND {
            return Err(Error::corrupt(format!("version {version}, kind {kind}: this is no delta")));
        }
        let flags = u32::from_le_bytes(part(head, 12));
        if flags & !WHOLE != 0 {
            return Err(Error::newer_format(format!("delta flags {flags:#x} are not known to this version")));
        }
        if u64_at(16) != bytes.len() as u64 {
            let (len, said) = (bytes.len(), u64_at(16));
            return Err(Error::corrupt(format!("the delta has {len} bytes, its head says {said}")));
        }
        Ok(Self {
            since: u64_at(24),
            now: u64_at(32),
            whole: flags & WHOLE != 0,
            fingerprint: Fingerprint(part(head, 40)),
        })
    }
}
