//! The end of a journal, for who goes on with it.

use bonfire::engine::Rope;
use bonfire::schema::Fingerprint;
use bonfire::{Error, Result};
use bytes::Bytes;

use super::RECORDS_MAX;
use super::format::{JournalHead, RecordHeader};

/// What is to be appended.
pub(crate) struct Entry {
    pub(crate) since: u64,
    pub(crate) now: u64,
    pub(crate) time_ms: u64,
    /// The place of this record among all saves and appends of the store.
    pub(crate) order: u64,
    /// Of the table that the delta needs.
    pub(crate) table: Fingerprint,
    pub(crate) delta: Rope,
}

/// Where a journal ends: what the next record must follow.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    link: u32,
    /// How many records there are.
    pub(crate) records: u64,
    /// The tick that they lead to.
    now: u64,
    table: Option<Fingerprint>,
    /// Bytes of all records.
    pub(crate) bytes: u64,
    /// Bytes of the save that it belongs to.
    pub(crate) base_bytes: u64,
}

impl Chain {
    /// A journal without records, and the bytes of its head.
    pub(crate) fn begin(head: JournalHead) -> (Self, Bytes) {
        let (bytes, link) = head.encode();
        let base_bytes = head.base.len;
        let chain = Self { link, records: 0, now: head.tick, table: None, bytes: 0, base_bytes };
        (chain, Bytes::copy_from_slice(&bytes))
    }

    /// The next record, and where the journal ends with it. The first one brings the
    /// table of components along.
    pub(crate) fn record(&self, entry: &Entry, table: impl FnOnce() -> Vec<u8>) -> Result<(Rope, Self)> {
        if self.now != entry.since {
            return Err(Error::conflict(format!(
                "the journal is at tick {}, and the delta begins at {}: save as a whole",
                self.now, entry.since
            )));
        }
        if entry.now < entry.since {
            return Err(Error::misuse(format!(
                "a delta from tick {} to {} goes backwards",
                entry.since, entry.now
            )));
        }
        if self.records >= RECORDS_MAX {
            return Err(Error::limit(format!(
                "a journal has at most {RECORDS_MAX} records: save as a whole"
            )));
        }
        if self.table.is_some_and(|table| table != entry.table) {
            return Err(Error::conflict(
                "components were registered since the journal began: save as a whole",
            ));
        }
        let mut payload = Rope::default();
        let has_table = self.table.is_none();
        if has_table {
            let table = table();
            let len =
                u32::try_from(table.len()).map_err(|_| Error::limit("a table of components above 4 GiB"))?;
            payload.push(Bytes::copy_from_slice(&len.to_le_bytes()));
            payload.push(table.into());
        }
        entry.delta.parts().iter().for_each(|part| payload.push(part.clone()));
        let payload_crc = payload.parts().iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part));
        let header = RecordHeader {
            has_table,
            sequence: self.records + 1,
            since: entry.since,
            now: entry.now,
            time_ms: entry.time_ms,
            order: entry.order,
            payload_len: payload.len() as u64,
            link: self.link,
            payload_crc,
        };
        let (bytes, link) = header.encode();
        let mut record = Rope::from(Bytes::copy_from_slice(&bytes));
        payload.parts().iter().for_each(|part| record.push(part.clone()));
        record.push(Bytes::copy_from_slice(&header.record_len()?.to_le_bytes()));
        let after = Self {
            link,
            records: self.records + 1,
            now: entry.now,
            table: Some(entry.table),
            bytes: self.bytes + record.len() as u64,
            base_bytes: self.base_bytes,
        };
        Ok((record, after))
    }
}
