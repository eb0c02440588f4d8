//! Text, tables and JSON on standard output.
//!
//! Nothing here panics when the reader goes away: every write may fail, and `main` ends the run quietly. Text from a
//! save passes through [`escaped`](crate::escape::escaped) before it is printed, except where the core's `Display` has done so already.

use std::fmt::{Display, Write as _};
use std::io::{self, BufWriter, StdoutLock, Write as _};

use unicode_width::UnicodeWidthStr;

use crate::escape::{is_hidden, visible};
use crate::exit::{Exit, Failure};

/// Longer cells of a table are cut; JSON has all of them.
const CELL_CHARS_MAX: usize = 120;

/// A cell of a table: at most as long as a person reads.
pub(crate) fn cell(value: &dyn Display) -> String {
    let text = value.to_string();
    let text = visible(&text);
    match text.char_indices().nth(CELL_CHARS_MAX) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text.into_owned(),
    }
}

/// `1 entity`, `2 entities`.
pub(crate) fn entities(count: usize) -> String {
    if count == 1 { "1 entity".to_owned() } else { format!("{count} entities") }
}

/// Rows under headers, aligned by what a terminal shows. The last column is not padded.
pub(crate) struct Table {
    headers: Vec<String>,
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(headers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let headers: Vec<String> = headers.into_iter().map(Into::into).collect();
        Self { right: vec![false; headers.len()], headers, rows: Vec::new() }
    }

    /// Aligns columns to the right, by their headers: for numbers that people compare.
    pub(crate) fn right(mut self, headers: &[&str]) -> Self {
        for (right, header) in self.right.iter_mut().zip(&self.headers) {
            *right = headers.contains(&&**header);
        }
        self
    }

    /// Adds a row with as many cells as there are headers.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.headers.len());
        self.rows.push(cells);
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.headers.iter().map(|header| header.width()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        widths
    }

    fn write_line(&self, cells: &[String], widths: &[usize], out: &mut impl io::Write) -> io::Result<()> {
        let mut line = String::new();
        for (i, (cell, &width)) in cells.iter().zip(widths).enumerate() {
            let gap = width.saturating_sub(cell.width());
            line.push_str(if i > 0 { "  " } else { "" });
            if self.right[i] {
                line.extend(std::iter::repeat_n(' ', gap));
                line.push_str(cell);
            } else {
                line.push_str(cell);
                line.extend(std::iter::repeat_n(' ', gap));
            }
        }
        writeln!(out, "{}", line.trim_end())
    }

    fn write(&self, out: &mut impl io::Write) -> io::Result<()> {
        let widths = self.widths();
        self.write_line(&self.headers, &widths, out)?;
        let last = self.headers.len().saturating_sub(1);
        let rules: Vec<String> = (widths.iter().zip(&self.headers).enumerate())
            // One long value at the end of a row needs no line over the whole screen.
            .map(|(i, (&width, header))| "-".repeat(if i == last { header.width() } else { width }))
            .collect();
        let widths_of_rules: Vec<usize> = rules.iter().map(|rule| rule.width()).collect();
        let rule_line = Self { headers: Vec::new(), right: vec![false; rules.len()], rows: Vec::new() };
        rule_line.write_line(&rules, &widths_of_rules, out)?;
        self.rows.iter().try_for_each(|row| self.write_line(row, &widths, out))
    }
}

/// Standard output, locked and buffered.
pub(crate) struct Output {
    writer: BufWriter<StdoutLock<'static>>,
    /// Nobody reads it any more, and that is no failure.
    closed: bool,
}

impl Output {
    pub(crate) fn stdout() -> Self {
        Self { writer: BufWriter::with_capacity(64 << 10, io::stdout().lock()), closed: false }
    }

    pub(crate) fn line(&mut self, text: impl Display) -> io::Result<()> {
        writeln!(self.writer, "{text}")
    }

    /// A title, with an empty line in front.
    pub(crate) fn title(&mut self, text: impl Display) -> io::Result<()> {
        write!(self.writer, "\n{text}\n")
    }

    /// Lines that the core has put together: each of its own, and whatever slipped through escaped.
    pub(crate) fn lines(&mut self, text: &dyn Display) -> io::Result<()> {
        text.to_string().lines().try_for_each(|line| self.line(visible(line)))
    }

    pub(crate) fn table(&mut self, table: &Table) -> io::Result<()> {
        table.write(&mut self.writer)
    }

    /// A JSON document. Characters that a terminal might act on are escaped; readers see no difference.
    pub(crate) fn json(&mut self, document: &serde_json::Value) -> io::Result<()> {
        let text = serde_json::to_string_pretty(document)?;
        let mut line = String::new();
        for part in text.split_inclusive('\n') {
            line.clear();
            for char in part.chars() {
                if char == '\n' || !is_hidden(char) {
                    line.push(char);
                    continue;
                }
                for unit in char.encode_utf16(&mut [0; 2]) {
                    let _ = write!(line, "\\u{unit:04x}");
                }
            }
            self.writer.write_all(line.as_bytes())?;
        }
        self.line("")
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if self.closed { Ok(()) } else { self.writer.flush() }
    }

    /// The end of a run whose exit code is its answer: a script that read one line of the output still gets it.
    pub(crate) fn answer(&mut self, printed: io::Result<()>, exit: Exit) -> Result<Exit, Failure> {
        match printed.and_then(|()| self.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error.into()),
            told => self.closed |= told.is_err(),
        }
        Ok(exit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_by_what_a_terminal_shows() {
        let mut table = Table::new(["key", "rows", "schema"]).right(&["rows"]);
        table.row(vec!["火".into(), "7".into(), "text".into()]);
        table.row(vec!["game.name".into(), "12345".into(), "{a: u8}".into()]);
        let mut text = Vec::new();
        table.write(&mut text).expect("memory takes everything");
        let text = String::from_utf8(text).expect("only text was written");
        assert_eq!(
            text,
            "key         rows  schema\n---------  -----  ------\n火             7  text\ngame.name  12345  {a: u8}\n"
        );
    }

    #[test]
    fn long_cells_are_cut_between_characters() {
        let text = cell(&"火".repeat(CELL_CHARS_MAX + 1));
        assert_eq!(text, format!("{}..", "火".repeat(CELL_CHARS_MAX)));
        let text = "x".repeat(CELL_CHARS_MAX);
        assert_eq!(cell(&text), text);
    }
}
