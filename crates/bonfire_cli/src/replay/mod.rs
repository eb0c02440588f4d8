//! `bonfire replay`: the content of a recorded stream, message by message.
//!
//! A message that is damaged is named, and the next one is shown. Only what a mirror would know is used: a delta can be read
//! after a baseline of its stream.

mod counts;
mod reader;
mod values;

use bonfire_sync::{AnyMessageKind, MessageHead};
use serde_json::{Value as Json, json};

use self::counts::Counts;
use self::reader::{Continuity, Entry, MessageContent, RecordingReader, Summary};
use self::values::Values;
use crate::arguments::ReplayArguments;
use crate::escape::visible;
use crate::exit::{Exit, Failure};
use crate::output::{Output, Table};
use crate::read::{FileKind, read_bytes};

/// What is before every payload.
const HEAD_BYTES: usize = 64;

const UNKNOWN: &str = "not known: the baseline that brings its components is not in this file";

pub(crate) fn run(arguments: &ReplayArguments, out: &mut Output) -> Result<Exit, Failure> {
    FileKind::require(&arguments.file, FileKind::Recording, &[])?;
    let file = read_bytes(&arguments.file)?;
    let mut follow = RecordingReader::open(file).map_err(|error| Failure::text(&arguments.file, &error))?;
    let mut values = arguments.values.then(|| Values::new(arguments.limit));
    match (arguments.json, &mut values) {
        (true, values) => out.json(&document(&mut follow, values.as_mut()))?,
        (false, Some(values)) => {
            print_values(&mut follow, values, out)?;
            print_summary(&follow, out)?;
        }
        (false, None) => {
            print_table(&mut follow, out)?;
            print_summary(&follow, out)?;
        }
    }
    let unreadable = values.map_or(Exit::Fine, |values| values.exit());
    Ok(Exit::worst([follow.exit(), unreadable]))
}

fn kind_name(kind: AnyMessageKind) -> &'static str {
    match kind {
        AnyMessageKind::Baseline => "baseline",
        AnyMessageKind::Delta => "delta",
        AnyMessageKind::Request => "request",
        AnyMessageKind::StructuralLog => "log",
    }
}

/// Streams have no names but random numbers.
fn stream_name(stream: u64) -> String {
    format!("{stream:016x}")
}

/// A payload is stored as it is unless that makes it smaller.
fn is_compressed(head: &MessageHead, sent_bytes: usize) -> bool {
    sent_bytes < HEAD_BYTES + head.payload_bytes as usize
}

fn ticks(head: &MessageHead) -> String {
    match head.kind {
        AnyMessageKind::Baseline | AnyMessageKind::Request => head.tick.to_string(),
        AnyMessageKind::Delta | AnyMessageKind::StructuralLog => format!("{} -> {}", head.since, head.tick),
    }
}

/// Requests and logs are not counted by their stream.
fn sequence(head: &MessageHead) -> Option<u32> {
    matches!(head.kind, AnyMessageKind::Baseline | AnyMessageKind::Delta).then_some(head.sequence)
}

fn gap_text(have: u64, since: u64) -> String {
    match have < since {
        true => format!("what has changed from tick {have} to {since} is missing: a mirror would ask for it"),
        false => {
            format!("starts at tick {since}, where no message has ended: a mirror would ask for a baseline")
        }
    }
}

impl Entry {
    /// What the message tells, in lines.
    fn lines(&self) -> Vec<String> {
        let mut lines = match &self.content {
            MessageContent::Deltas(deltas) => Counts::of(deltas).lines(),
            MessageContent::Request { have: Some(have) } => {
                vec![format!("a mirror has tick {have} and asks for the rest")]
            }
            MessageContent::Request { have: None } => vec!["a mirror asks for everything".to_owned()],
            MessageContent::Unknown => vec![UNKNOWN.to_owned()],
            MessageContent::Damaged(error) => vec![visible(&error.to_string()).into_owned()],
        };
        let before = match (self.continuity, &self.content) {
            (Continuity::Again, _) => "told before: ".to_owned(),
            (_, MessageContent::Deltas(steps))
                if self.head.is_some_and(|head| head.kind == AnyMessageKind::StructuralLog) =>
            {
                format!("in {} steps: ", steps.len())
            }
            _ => String::new(),
        };
        if let Some(first) = lines.first_mut() {
            first.insert_str(0, &before);
        }
        lines
    }

    fn name(&self) -> &'static str {
        match (&self.content, &self.head) {
            (MessageContent::Damaged(_), _) | (_, None) => "damaged",
            (_, Some(head)) => kind_name(head.kind),
        }
    }

    /// The gap in front of the message, if there is one: from which tick to which.
    fn gap(&self) -> Option<(u64, u64)> {
        match (self.continuity, &self.head) {
            (Continuity::Gap { have }, Some(head)) => Some((have, head.since)),
            _ => None,
        }
    }
}

/// What stands before a message: of which stream it is, if that is another one, and the gap that was left.
fn in_front(entry: &Entry, stream: &mut Option<u64>) -> Vec<(&'static str, String, String)> {
    let mut lines = Vec::new();
    let Some(head) = &entry.head else { return lines };
    if stream.replace(head.stream) != Some(head.stream) {
        lines.push(("stream", String::new(), stream_name(head.stream)));
    }
    if let Some((have, since)) = entry.gap() {
        lines.push(("gap", format!("{have} -> {since}"), gap_text(have, since)));
    }
    lines
}

fn print_table(follow: &mut RecordingReader, out: &mut Output) -> Result<(), Failure> {
    let headers = ["offset", "seq", "message", "ticks", "sent", "payload", "", "tells"];
    let mut table = Table::new(headers).right(&["offset", "seq", "ticks", "sent", "payload"]);
    let mut stream = None;
    let empty = String::new;
    for entry in follow.by_ref() {
        for (name, ticks, text) in in_front(&entry, &mut stream) {
            table.row(vec![empty(), empty(), name.into(), ticks, empty(), empty(), empty(), text]);
        }
        let of_head =
            |cell: &dyn Fn(&MessageHead) -> String| entry.head.as_ref().map_or_else(String::new, cell);
        let mut lines = entry.lines().into_iter();
        table.row(vec![
            entry.offset.to_string(),
            of_head(&|head| sequence(head).map_or_else(String::new, |sequence| sequence.to_string())),
            entry.name().to_owned(),
            of_head(&ticks),
            entry.sent_bytes.to_string(),
            of_head(&|head| head.payload_bytes.to_string()),
            of_head(&|head| if is_compressed(head, entry.sent_bytes) { "lz4".into() } else { empty() }),
            lines.next().unwrap_or_default(),
        ]);
        for line in lines {
            table.row([(); 7].map(|()| empty()).into_iter().chain([format!("  {line}")]).collect());
        }
    }
    if follow.summary.messages() > 0 {
        out.table(&table)?;
    }
    Ok(())
}

fn print_values(follow: &mut RecordingReader, values: &mut Values, out: &mut Output) -> Result<(), Failure> {
    let mut stream = None;
    let mut first = true;
    for entry in follow.by_ref() {
        for (name, ticks, text) in in_front(&entry, &mut stream) {
            if !std::mem::take(&mut first) {
                out.line("")?;
            }
            let ticks = if ticks.is_empty() { ticks } else { format!(" {ticks}:") };
            out.line(format_args!("{name}{ticks} {text}"))?;
        }
        let head = entry.head.as_ref();
        let ticks = head.map_or_else(String::new, |head| format!(" {}", ticks(head)));
        let number = head.and_then(sequence).map_or_else(String::new, |number| format!(", message {number}"));
        let codec = if head.is_some_and(|head| is_compressed(head, entry.sent_bytes)) { ", lz4" } else { "" };
        let (name, offset, bytes) = (entry.name(), entry.offset, entry.sent_bytes);
        out.title(format_args!(
            "{name}{ticks} (byte {offset}{number}, {bytes} bytes{codec}): {}",
            entry.lines().join(" ")
        ))?;
        first = false;
        if let MessageContent::Deltas(deltas) = &entry.content {
            for delta in deltas {
                if deltas.len() > 1 {
                    out.line(format_args!("step {} -> {}", delta.since(), delta.now()))?;
                }
                values.print(delta, out)?;
            }
        }
    }
    values.print_unreadable(out)
}

fn plural(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn print_summary(follow: &RecordingReader, out: &mut Output) -> Result<(), Failure> {
    let Summary { baselines, deltas, logs, requests, damaged, unknown, .. } = follow.summary;
    let summary = &follow.summary;
    let kinds = [
        (baselines, "baseline", "baselines"),
        (deltas, "delta", "deltas"),
        (logs, "log", "logs"),
        (requests, "request", "requests"),
        (damaged, "damaged", "damaged"),
    ];
    let kinds: Vec<String> =
        kinds.iter().filter(|kind| kind.0 > 0).map(|(count, one, many)| plural(*count, one, many)).collect();
    let messages = plural(summary.messages(), "message", "messages");
    let kinds = if kinds.is_empty() { String::new() } else { format!(": {}", kinds.join(", ")) };
    let bytes = format!("{} bytes sent, {} of payload", summary.sent_bytes, summary.payload_bytes);
    if summary.messages() > 0 {
        out.line("")?;
    }
    out.line(format_args!("{messages}{kinds}; {bytes}"))?;
    for (stream, known) in &summary.streams {
        let Some((first, last)) = known.ticks else { continue };
        let gaps = if known.gaps == 0 { "no gaps".to_owned() } else { plural(known.gaps, "gap", "gaps") };
        out.line(format_args!("stream {}: ticks {first} to {last}, {gaps}", stream_name(*stream)))?;
    }
    if unknown > 0 {
        let (deltas, of) = (plural(unknown, "delta", "deltas"), if unknown == 1 { "its" } else { "their" });
        out.line(format_args!(
            "{deltas} cannot be read: the baseline that brings {of} components is not in this file"
        ))?;
    }
    if let Some((offset, bytes)) = follow.unread() {
        let bytes = plural(bytes as usize, "byte", "bytes");
        match follow.is_torn() {
            true => out.line(format_args!(
                "torn: the message at byte {offset} is cut off, {bytes} of it are left"
            ))?,
            false => out.line(format_args!(
                "not read: {bytes} from byte {offset} on, because a length before them is wrong"
            ))?,
        }
    }
    Ok(())
}

fn document(follow: &mut RecordingReader, mut values: Option<&mut Values>) -> Json {
    let mut messages = Vec::new();
    for entry in follow.by_ref() {
        messages.push(entry_json(&entry, values.as_deref_mut()));
    }
    let summary = &follow.summary;
    let stream = |(number, known): (&u64, &reader::Stream)| {
        let (first, last) = known.ticks.unzip();
        json!({ "stream": stream_name(*number), "first_tick": first, "last_tick": last, "gaps": known.gaps })
    };
    let end = |torn: bool| -> Json {
        let end = follow.unread().filter(|_| follow.is_torn() == torn);
        end.map_or(Json::Null, |(offset, bytes)| json!({ "offset": offset, "bytes": bytes }))
    };
    json!({
        "file_bytes": follow.file_bytes(),
        "messages": messages,
        "torn": end(true),
        "unread": end(false),
        "unreadable": values.map_or(Json::Array(Vec::new()), |values| values.unreadable_json()),
        "summary": {
            "messages": summary.messages(),
            "baselines": summary.baselines,
            "deltas": summary.deltas,
            "logs": summary.logs,
            "requests": summary.requests,
            "damaged": summary.damaged,
            "unknown": summary.unknown,
            "gaps": summary.gaps(),
            "sent_bytes": summary.sent_bytes,
            "payload_bytes": summary.payload_bytes,
            "streams": summary.streams.iter().map(stream).collect::<Json>(),
        },
    })
}

fn entry_json(entry: &Entry, values: Option<&mut Values>) -> Json {
    let gap = entry.gap().map(|(have, since)| json!({ "have": have, "since": since }));
    let mut message = json!({
        "offset": entry.offset,
        "sent_bytes": entry.sent_bytes,
        "gap": gap,
        "again": entry.continuity == Continuity::Again,
        "changes": null,
        "error": null,
    });
    if let Some(head) = &entry.head {
        message["kind"] = kind_name(head.kind).into();
        message["stream"] = stream_name(head.stream).into();
        message["sequence"] = sequence(head).into();
        message["since"] = head.since.into();
        message["tick"] = head.tick.into();
        message["schema"] = head.schema.to_string().into();
        message["payload_bytes"] = head.payload_bytes.into();
        message["compression"] = if is_compressed(head, entry.sent_bytes) { "lz4" } else { "none" }.into();
    }
    match &entry.content {
        MessageContent::Deltas(deltas) => {
            message["changes"] = Counts::of(deltas).to_json();
            if let Some(values) = values {
                message["values"] = deltas.iter().map(|delta| values.document(delta)).collect();
            }
        }
        MessageContent::Request { have } => message["have"] = (*have).into(),
        MessageContent::Unknown => message["unknown"] = UNKNOWN.into(),
        MessageContent::Damaged(error) => message["error"] = error.to_string().into(),
    }
    message
}
