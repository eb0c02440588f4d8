//! The records of a journal that are whole and follow each other; and what is wrong behind them.

use bonfire::{Error, Result};
use bytes::Bytes;

use super::RECORDS_MAX;
use super::format::{
    HEAD_BYTES, JournalHead, RECORD_HEADER_BYTES, RECORD_MAGIC, RecordHeader, TRAILER_BYTES,
};
use super::report::LostDelta;

/// A record that is whole and has its place.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) since: u64,
    pub(crate) now: u64,
    pub(crate) time_ms: u64,
    /// What all deltas of the journal need: the first record has it.
    pub(crate) table: Option<Bytes>,
    pub(crate) delta: Bytes,
    /// Its length with all that is around the delta.
    pub(crate) bytes: u64,
}

/// What a journal holds.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) head: JournalHead,
    pub(crate) records: Vec<Record>,
    /// The first record that is not there, or not whole, although there is something behind the last good one.
    pub(crate) lost: Option<LostDelta>,
    link: u32,
}

/// Reads a journal that is one blob. Damage is no error but [`Scan::lost`], unless it is in the head; what a newer build has
/// written is an error.
pub(crate) fn scan(journal: &Bytes) -> Result<Scan> {
    let (head, link) = JournalHead::decode(journal)?;
    let mut scan = Scan { head, records: Vec::new(), lost: None, link };
    let mut at = HEAD_BYTES;
    while at < journal.len() {
        match scan.take(&journal.slice(at..)) {
            Ok(len) => at += len,
            Err(error) if error.is_corrupt() => {
                let later = count(&journal[at + 1..], scan.next());
                scan.lose(&error, later);
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(scan)
}

/// How many records, with numbers from `first` on, can be told by their headers, wherever they begin: for who has lost the
/// way, or was never on it.
pub(crate) fn count(bytes: &[u8], first: u64) -> u64 {
    let mut found = 0;
    let mut at = 0;
    while let Some(place) = bytes[at..].windows(RECORD_MAGIC.len()).position(|window| window == RECORD_MAGIC)
    {
        at += place;
        let len = match RecordHeader::decode(&bytes[at..]) {
            Ok((header, _)) if header.sequence >= first => {
                found += 1;
                header.record_len().ok().and_then(|len| usize::try_from(len).ok())
            }
            _ => None,
        };
        // One that says that it is longer than what there is may be wrong about it.
        at += len.filter(|len| *len <= bytes.len() - at).unwrap_or(RECORD_MAGIC.len());
    }
    found
}

impl Scan {
    /// The number of the record that would come next.
    pub(crate) fn next(&self) -> u64 {
        self.records.len() as u64 + 1
    }

    /// Reads a record that is a blob of its own: the next, or nothing behind it counts.
    pub(crate) fn take_blob(&mut self, record: &Bytes) -> Result<()> {
        let (header, _) = RecordHeader::decode(record)?;
        if header.record_len()? < record.len() as u64 {
            return Err(Error::corrupt("something lies behind its end"));
        }
        self.take(record).map(drop)
    }

    /// Says that the next record is not there, or not whole, and how many lie behind it.
    pub(crate) fn lose(&mut self, error: &Error, later: u64) {
        self.lost = Some(LostDelta::new(self.next(), error, later));
    }

    /// Reads the next record, and returns its length.
    fn take(&mut self, bytes: &Bytes) -> Result<usize> {
        let (header, link) = RecordHeader::decode(bytes)?;
        let len = header.record_len()?;
        let cut = || Error::corrupt("it is cut off");
        let len = usize::try_from(len).ok().filter(|len| *len <= bytes.len()).ok_or_else(cut)?;
        let payload = bytes.slice(RECORD_HEADER_BYTES..len - TRAILER_BYTES);
        if bytes[len - TRAILER_BYTES..len] != (len as u64).to_le_bytes() {
            return Err(Error::corrupt("its end is damaged"));
        }
        if crc32c::crc32c(&payload) != header.payload_crc {
            return Err(Error::corrupt("its contents are damaged"));
        }
        self.check_place(&header)?;
        let (table, delta) = if header.has_table { split_table(&payload)? } else { (None, payload) };
        if self.records.is_empty() != table.is_some() {
            return Err(Error::corrupt("the first record says what components there are, and no other"));
        }
        if self.next() > RECORDS_MAX {
            return Err(Error::limit(format!("a journal has more than {RECORDS_MAX} records")));
        }
        let RecordHeader { since, now, time_ms, .. } = header;
        self.records.push(Record { since, now, time_ms, table, delta, bytes: len as u64 });
        self.link = link;
        Ok(len)
    }

    /// A record of another journal, or from another place of this one, is not the next.
    fn check_place(&self, header: &RecordHeader) -> Result<()> {
        if header.sequence != self.next() {
            return Err(Error::corrupt(format!("record {} is in its place", header.sequence)));
        }
        if header.link != self.link {
            return Err(Error::corrupt("it follows another record than the one before it"));
        }
        let now = self.records.last().map_or(self.head.tick, |record| record.now);
        if now != header.since {
            return Err(Error::corrupt(format!("it begins at tick {}, not at {now}", header.since)));
        }
        if header.now < header.since {
            return Err(Error::corrupt(format!("it goes back from tick {} to {}", header.since, header.now)));
        }
        Ok(())
    }
}

/// The table at the start of a payload, and the delta behind it.
fn split_table(payload: &Bytes) -> Result<(Option<Bytes>, Bytes)> {
    let len = payload.first_chunk().map(|len| u32::from_le_bytes(*len) as usize);
    let end = len.and_then(|len| len.checked_add(4)).filter(|end| *end <= payload.len());
    let end = end.ok_or_else(|| Error::corrupt("its table of components is longer than itself"))?;
    Ok((Some(payload.slice(4..end)), payload.slice(end..)))
}

#[cfg(test)]
mod tests {
    use bonfire::engine::Rope;
    use bonfire::schema::Fingerprint;

    use super::super::chain::{Chain, Entry};
    use super::super::format::Base;
    use super::*;

    const HEAD: JournalHead = JournalHead { base: Base { len: 1088, crc: 99 }, tick: 10 };

    fn entry(number: u64) -> Entry {
        let delta = Rope::from(Bytes::from(vec![number as u8; 10 * number as usize]));
        let (table, time_ms, order) = (Fingerprint([1; 16]), 1000 + number, number);
        Entry { since: 10 * number, now: 10 * number + 10, time_ms, order, table, delta }
    }

    /// A journal of so many records, and where each begins.
    fn journal(records: u64) -> (Vec<u8>, Vec<usize>) {
        let (mut chain, head) = Chain::begin(HEAD);
        let (mut bytes, mut starts) = (head.to_vec(), Vec::new());
        for number in 1..=records {
            let (record, after) = chain.record(&entry(number), || vec![7; 30]).unwrap();
            starts.push(bytes.len());
            bytes.extend(record.to_vec());
            chain = after;
        }
        assert_eq!(chain.bytes as usize, bytes.len() - HEAD_BYTES);
        (bytes, starts)
    }

    fn scanned(bytes: &[u8]) -> Scan {
        scan(&Bytes::copy_from_slice(bytes)).unwrap()
    }

    #[test]
    fn all_records_come_back_in_order() {
        let (bytes, _) = journal(4);
        let scan = scanned(&bytes);
        assert!(scan.lost.is_none());
        assert_eq!(scan.head, HEAD);
        for (record, number) in scan.records.iter().zip(1..) {
            assert_eq!((record.since, record.now), (10 * number, 10 * number + 10));
            assert_eq!(record.time_ms, 1000 + number);
            assert_eq!(record.delta, vec![number as u8; 10 * number as usize]);
            assert_eq!(record.table.is_some(), number == 1, "record {number}");
        }
        assert_eq!(scan.records.len(), 4);
    }

    #[test]
    fn every_truncation_loses_only_the_tail() {
        let (bytes, starts) = journal(4);
        for len in 0..bytes.len() {
            let cut = Bytes::copy_from_slice(&bytes[..len]);
            if len < HEAD_BYTES {
                assert!(scan(&cut).unwrap_err().is_corrupt());
                continue;
            }
            let scan = scanned(&cut);
            let whole = starts.iter().skip(1).chain([&bytes.len()]).filter(|end| **end <= len).count();
            assert_eq!(scan.records.len(), whole, "{len} bytes");
            let at_border = len == HEAD_BYTES || starts.contains(&len);
            match &scan.lost {
                Some(lost) => assert_eq!((lost.record, lost.later), (whole as u64 + 1, 0), "{len} bytes"),
                None => assert!(at_border, "{len} bytes"),
            }
            assert_eq!(scan.lost.is_none(), at_border, "{len} bytes");
        }
    }

    #[test]
    fn every_flipped_byte_is_found_in_its_record_and_what_is_before_it_counts() {
        let (bytes, starts) = journal(4);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x41;
            if at < HEAD_BYTES {
                assert!(scan(&damaged.into()).unwrap_err().is_corrupt(), "byte {at}");
                continue;
            }
            let scan = scanned(&damaged);
            let record = starts.iter().filter(|start| **start <= at).count() as u64;
            assert_eq!(scan.next(), record, "byte {at}");
            let lost = scan.lost.unwrap_or_else(|| panic!("byte {at} is not noticed"));
            assert_eq!((lost.record, lost.later), (record, 4 - record), "byte {at}: {lost}");
            assert_eq!(lost.is_tail(), record == 4, "byte {at}");
        }
    }

    #[test]
    fn a_missing_doubled_swapped_or_foreign_record_is_named() {
        let (bytes, starts) = journal(4);
        let piece = |record: usize| &bytes[starts[record - 1]..*starts.get(record).unwrap_or(&bytes.len())];
        let put_together = |records: &[&[u8]]| scanned(&[&[&bytes[..HEAD_BYTES]], records].concat().concat());
        let lost = |scan: Scan| {
            let lost = scan.lost.expect("something is wrong");
            (lost.record, lost.reason.to_string(), lost.later)
        };
        let (record, why, later) = lost(put_together(&[piece(1), piece(3), piece(4)]));
        assert_eq!((record, later), (2, 1), "record 3 is where 2 should be, and 4 behind it");
        assert!(why.contains("record 3 is in its place"), "{why}");
        assert_eq!(lost(put_together(&[piece(1), piece(2), piece(2), piece(3)])).0, 3);
        assert_eq!(lost(put_together(&[piece(2), piece(1)])).0, 1);

        let (other, _) = {
            let (chain, head) = Chain::begin(JournalHead { base: Base { len: 1, crc: 1 }, tick: 10 });
            let (record, _) = chain.record(&entry(1), || vec![7; 30]).unwrap();
            (record.to_vec(), head)
        };
        let (record, why, _) = lost(put_together(&[&other, piece(2)]));
        assert_eq!(record, 1);
        assert!(why.contains("another record"), "{why}");
    }

    #[test]
    fn who_writes_is_refused_what_who_reads_would_refuse() {
        let (chain, _) = Chain::begin(HEAD);
        assert!(chain.record(&entry(2), Vec::new).unwrap_err().is_conflict(), "not from the save on");
        let (_, chain) = chain.record(&entry(1), Vec::new).unwrap();
        assert!(chain.record(&entry(3), Vec::new).unwrap_err().is_conflict(), "a hole");
        assert!(chain.record(&entry(1), Vec::new).unwrap_err().is_conflict(), "the same again");
        let back = Entry { since: 20, now: 19, ..entry(2) };
        assert!(chain.record(&back, Vec::new).unwrap_err().is_misuse());
        let other = Entry { table: Fingerprint([2; 16]), ..entry(2) };
        assert!(chain.record(&other, Vec::new).unwrap_err().is_conflict(), "other components");
        let mut full = chain;
        full.records = RECORDS_MAX;
        assert!(full.record(&entry(2), Vec::new).unwrap_err().is_limit());
    }

    #[test]
    fn lengths_that_lie_allocate_nothing_and_end_nothing_but_their_record() {
        for payload_len in [u64::MAX, u64::MAX - 68, 1 << 40] {
            let header = RecordHeader {
                has_table: true,
                sequence: 1,
                since: 0,
                now: 1,
                time_ms: 0,
                order: 0,
                payload_len,
                link: HEAD.encode().1,
                payload_crc: 0,
            };
            let bytes = [&HEAD.encode().0[..], &header.encode().0[..], &[0; 100]].concat();
            let scan = scanned(&bytes);
            assert_eq!((scan.records.len(), scan.lost.map(|lost| lost.record)), (0, Some(1)));
        }
        let payload = Bytes::copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(split_table(&payload).unwrap_err().is_corrupt());
        assert!(split_table(&Bytes::new()).unwrap_err().is_corrupt());
    }
}
