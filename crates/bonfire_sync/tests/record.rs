//! Recorded streams: whole messages come back, whatever happened to the end of the file.

use bonfire::schema::Fingerprint;
use bonfire_sync::{
    AnyMessageKind, Message, MessageCompression, MessageHead, MessageKind, MessageLimits, Recorder,
    Recording, TornTail,
};
use bytes::Bytes;

fn messages() -> Vec<Message> {
    let message = |number: u64| Message {
        kind: if number == 0 { MessageKind::Baseline } else { MessageKind::Delta },
        stream: 5,
        sequence: number as u32,
        since: number,
        tick: number + 1,
        schema: Fingerprint([1; 16]),
        payload: vec![number as u8; 10 * number as usize].into(),
    };
    (0..4).map(message).collect()
}

/// The file, and where each message starts in it.
fn recorded() -> (Bytes, Vec<usize>) {
    let mut recorder = Recorder::new(Vec::new()).unwrap();
    let mut starts = Vec::new();
    let mut at = 8;
    for message in messages() {
        let bytes = message.encode(&MessageCompression::Lz4).unwrap();
        starts.push(at);
        at += 4 + bytes.len();
        recorder.write(&bytes).unwrap();
    }
    recorder.flush().unwrap();
    (recorder.into_inner().into(), starts)
}

fn open(file: impl Into<Bytes>) -> bonfire::Result<Recording> {
    Recording::open(file.into(), &MessageLimits::default())
}

#[test]
fn what_is_recorded_comes_back() {
    let (file, starts) = recorded();
    assert_eq!(file[..8], *b"BNFR\x01\0\0\0");
    let mut recording = open(file.clone()).unwrap();
    let records: Vec<_> = recording.by_ref().map(Result::unwrap).collect();
    assert_eq!(recording.torn(), None);
    let found: Vec<Message> = records.iter().map(|record| record.message.clone()).collect();
    assert_eq!(found, messages());
    let found: Vec<usize> = records.iter().map(|record| record.offset as usize).collect();
    assert_eq!(found, starts);
    let bytes: usize = records.iter().map(|record| 4 + record.sent_bytes as usize).sum();
    assert_eq!(8 + bytes, file.len());
}

#[test]
fn a_torn_end_loses_only_itself_and_is_told() {
    let (file, starts) = recorded();
    for len in 8..file.len() {
        let mut recording = open(file.slice(..len)).unwrap();
        let whole = recording.by_ref().map(Result::unwrap).count();
        let ends: Vec<usize> = starts[1..].iter().copied().chain([file.len()]).collect();
        assert_eq!(whole, ends.iter().filter(|end| **end <= len).count(), "{len} bytes");
        let offset = starts.get(whole).copied().unwrap_or(file.len());
        let torn = TornTail { offset: offset as u64, bytes: (len - offset) as u64 };
        assert_eq!(recording.torn(), (len > offset).then_some(torn), "{len} bytes");
    }
    for len in 0..8 {
        assert!(open(file.slice(..len)).unwrap_err().is_corrupt(), "{len} bytes");
    }
}

#[test]
fn damage_to_a_message_does_not_hide_the_next() {
    let (file, starts) = recorded();
    let mut bad = file.to_vec();
    bad[starts[1] + 40] ^= 1;
    let found: Vec<_> = open(bad).unwrap().collect();
    assert_eq!(found.len(), 4);
    assert!(found[1].as_ref().unwrap_err().is_corrupt());
    assert!([0, 2, 3].iter().all(|&number| found[number].is_ok()));

    // A length that no message has: nothing after it can be found.
    let mut bad = file.to_vec();
    bad[starts[2]..starts[2] + 4].copy_from_slice(&3_u32.to_le_bytes());
    let mut recording = open(bad).unwrap();
    let found: Vec<_> = recording.by_ref().collect();
    assert_eq!(found.iter().filter(|record| record.is_ok()).count(), 2);
    assert_eq!(found.len(), 3, "one error, and no guesses after it");
    assert!(found[2].as_ref().unwrap_err().to_string().contains("3 bytes"));
    assert_eq!(recording.torn(), None);
}

#[test]
fn other_files_and_newer_ones_are_refused() {
    let (file, _) = recorded();
    let with = |at: usize, byte: u8| {
        let mut bad = file.to_vec();
        bad[at] = byte;
        open(bad).unwrap_err()
    };
    assert!(with(0, b'X').to_string().contains("not a recorded stream"));
    assert!(with(4, 0).is_corrupt());
    assert!(with(4, 2).is_newer_format());
    assert!(with(6, 1).is_corrupt() && with(7, 1).is_corrupt());
    let limits = MessageLimits { payload_bytes_max: 5, ..MessageLimits::default() };
    let found: Vec<_> = Recording::open(file, &limits).unwrap().collect();
    assert!(found[0].is_ok() && found[1].as_ref().unwrap_err().is_limit());
}

#[test]
fn tools_see_the_bytes_of_everything() {
    let (file, starts) = recorded();
    let mut bad = file.to_vec();
    bad[starts[1] + 40] ^= 1;
    let mut recording = open(bad).unwrap();
    for (number, start) in starts.iter().enumerate() {
        assert_eq!(recording.offset(), *start as u64);
        let record = recording.next_raw().unwrap();
        assert_eq!(record.offset, *start as u64);
        let peek = MessageHead::read(&record.sent, &MessageLimits::default());
        let Ok(peek) = peek else {
            assert_eq!(number, 1, "the one that is damaged");
            continue;
        };
        let message = &messages()[number];
        let kind = if number == 0 { AnyMessageKind::Baseline } else { AnyMessageKind::Delta };
        assert_eq!((peek.kind, peek.stream, peek.sequence), (kind, 5, number as u32));
        assert_eq!((peek.since, peek.tick, peek.schema), (message.since, message.tick, message.schema));
        assert_eq!(peek.payload_bytes as usize, message.payload.len());
    }
    assert_eq!((recording.next_raw(), recording.offset()), (None, file.len() as u64));

    // A length that no message has: its bytes are the last, and reading ends behind them.
    let mut bad = file.to_vec();
    bad[starts[2]..starts[2] + 4].copy_from_slice(&3_u32.to_le_bytes());
    let mut recording = open(bad).unwrap();
    let sent: Vec<usize> =
        std::iter::from_fn(|| recording.next_raw()).map(|record| record.sent.len()).collect();
    assert_eq!((sent.len(), sent[2], recording.offset()), (3, 3, starts[2] as u64 + 7));
}

/// Takes some bytes, then none.
#[derive(Debug)]
struct Full(usize);

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        if taken == 0 { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error() {
    assert!(Recorder::new(Full(4)).unwrap_err().is_io());
    let bytes = messages()[1].encode(&MessageCompression::None).unwrap();
    assert!(Recorder::new(Full(30)).unwrap().write(&bytes).unwrap_err().is_io());
}
