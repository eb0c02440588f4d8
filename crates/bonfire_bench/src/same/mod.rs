//! Compares two directories that `bonfire_bench files` has written: `bonfire_bench same A B`.
//!
//! Two files are the same if they have the same length, and differ only in fields that hold times or random bytes. Where
//! they differ, this build opens both: their checksums must be right, and what was sealed must be the same.

mod content;
mod fields;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use fields::{Field, fields};

/// Differing ranges of two files.
#[derive(Default)]
struct Comparison {
    /// By the name of a field that may differ: the ranges that do.
    explained: BTreeMap<&'static str, Vec<Range<usize>>>,
    /// Ranges that have no reason to differ.
    unexplained: Vec<Range<usize>>,
    /// Other differences.
    problems: Vec<String>,
}

/// Prints how each file of one directory compares with that of another. Returns false if any differs without a reason, and
/// if there are none.
pub(crate) fn compare(one: &Path, other: &Path) -> io::Result<bool> {
    let (ones, others) = (files(one)?, files(other)?);
    let (mut differing, mut bytes) = (0, 0);
    let names: Vec<&PathBuf> = {
        let mut names: Vec<_> = ones.iter().chain(&others).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    for name in &names {
        let missing = [(one, &ones), (other, &others)].into_iter().find(|(_, files)| !files.contains(name));
        if let Some((directory, _)) = missing {
            println!("{}: MISSING in {}", name.display(), directory.display());
            differing += 1;
            continue;
        }
        let (first, second) = (fs::read(one.join(name))?, fs::read(other.join(name))?);
        let file_name = name.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let mut comparison = compare_bytes(file_name, &first, &second);
        if first != second
            && let Err(error) =
                content::compare(&one.join(name), &other.join(name), file_name, &first, &second)
        {
            comparison.problems.push(error.to_string());
        }
        comparison.print(name, first.len());
        bytes += first.len();
        differing += usize::from(!comparison.is_same());
    }
    match differing {
        0 => println!("{} files of {} bytes are the same", names.len(), bytes),
        _ => println!("{differing} of {} files DIFFER", names.len()),
    }
    Ok(differing == 0 && !names.is_empty())
}

/// All files below a directory, by their paths in it, sorted.
fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(inner) = waiting.pop() {
        for entry in fs::read_dir(directory.join(&inner))? {
            let entry = entry?;
            let path = inner.join(entry.file_name());
            if entry.file_type()?.is_dir() { waiting.push(path) } else { found.push(path) }
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn compare_bytes(file_name: &str, first: &[u8], second: &[u8]) -> Comparison {
    let mut comparison = Comparison::default();
    if first.len() != second.len() {
        comparison.problems.push(format!("other length: {} and {}", first.len(), second.len()));
    }
    let fields_of_first = fields(file_name, first);
    if fields_of_first != fields(file_name, second) {
        comparison.problems.push("its times and random bytes have other places".to_owned());
    }
    for range in differing(first, second) {
        comparison.explain(range, &fields_of_first);
    }
    comparison
}

/// Ranges of bytes that differ, as far as both reach.
fn differing(first: &[u8], second: &[u8]) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (offset, (one, other)) in first.iter().zip(second).enumerate() {
        if one == other {
            continue;
        }
        match ranges.last_mut() {
            Some(last) if last.end == offset => last.end += 1,
            _ => ranges.push(offset..offset + 1),
        }
    }
    ranges
}

impl Comparison {
    fn is_same(&self) -> bool {
        self.unexplained.is_empty() && self.problems.is_empty()
    }

    /// Cuts a range at the borders of fields, which come in ascending order.
    fn explain(&mut self, range: Range<usize>, fields: &[Field]) {
        let mut start = range.start;
        for field in fields.iter().filter(|field| field.range.end > range.start) {
            if field.range.start >= range.end {
                break;
            }
            if start < field.range.start {
                self.unexplained.push(start..field.range.start);
            }
            let whole = field.range.clone();
            let ranges = self.explained.entry(field.name).or_default();
            if ranges.last() != Some(&whole) {
                ranges.push(whole);
            }
            start = field.range.end;
        }
        if start < range.end {
            self.unexplained.push(start..range.end);
        }
    }

    fn print(&self, name: &Path, len: usize) {
        let verdict = match (self.is_same(), self.explained.is_empty()) {
            (true, true) => "equal",
            (true, false) => "equal but for",
            (false, _) => "DIFFERS",
        };
        println!("{} {len} {verdict}", name.display());
        for problem in &self.problems {
            println!("    {problem}");
        }
        if !self.unexplained.is_empty() {
            println!("    NO REASON: {}", list(&self.unexplained));
        }
        for (field, ranges) in &self.explained {
            println!("    {field}: {}", list(ranges));
        }
    }
}

/// The first ranges, and how many more there are.
fn list(ranges: &[Range<usize>]) -> String {
    const SHOWN: usize = 8;
    let shown = ranges.iter().take(SHOWN).map(|range| format!("{}..{}", range.start, range.end));
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if let Some(more) = ranges.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        text += &format!(" and {more} more");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of a server with a random stream, with one byte changed at each of these places.
    fn compare_message(name: &str, changed: &[usize]) -> Comparison {
        let mut first = vec![0; 80];
        first[..4].copy_from_slice(b"BNFM");
        let mut second = first.clone();
        changed.iter().for_each(|offset| second[*offset] = 1);
        compare_bytes(name, &first, &second)
    }

    #[test]
    fn a_range_is_cut_at_the_borders_of_fields() {
        let comparison = compare_message("random-0.message", &[7, 8, 9, 15, 16, 60, 64]);
        assert_eq!(comparison.unexplained, [7..8, 16..17, 64..65]);
        let explained = comparison.explained.into_values().flatten();
        assert_eq!(explained.collect::<Vec<_>>(), [60..64, 8..16]);
    }

    #[test]
    fn only_files_with_random_bytes_may_differ() {
        assert!(compare_message("random-0.message", &[8, 60]).is_same());
        assert!(!compare_message("bevy-0.message", &[8]).is_same());
        assert!(!compare_bytes("x", &[1, 2], &[1]).is_same());
    }
}
