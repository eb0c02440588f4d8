//! The text of a lock: lines that people read, with the bytes that tools read below them.
//!
//! ```text
//! track 4 3 game
//!
//! [game.health]
//! alias game.hp
//! version 1: {current: f32, max: f32}
//!   nodes 022602..
//!   default 0.1 0000c842 # max
//! ```
//!
//! What follows a `#` is for people. A track has its version and the one that the last migration leads to.

use std::fmt::{self, Display, Write as _};
use std::sync::Arc;

use super::schema_lock::{Locked, LockedKey, LockedTrack, SchemaLock};
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::schema::{FieldDefault, Schema, Type};
use crate::storage::{from_hex, to_hex};
use crate::wire::Writer;

const HEAD: &str = "# Bonfire schema lock 1. Commit this file: it knows every schema that was ever released, so that a change \
                    that old saves cannot follow\n# fails a test. `bonfire schema --help` and the chapter \"Evolving saves\" of the guide say more.\n";

impl Display for SchemaLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HEAD)?;
        if !self.tracks.is_empty() {
            writeln!(f)?;
        }
        for (name, LockedTrack { version, migrated }) in &self.tracks {
            writeln!(f, "track {version} {migrated} {}", Name(name))?;
        }
        for (key, locked) in &self.keys {
            writeln!(f, "\n[{}]", key.escape_debug())?;
            if locked.removed {
                writeln!(f, "removed")?;
            }
            locked.aliases.iter().try_for_each(|alias| writeln!(f, "alias {}", Name(alias)))?;
            locked.returned.iter().try_for_each(|name| writeln!(f, "returned {}", Name(name)))?;
            for Locked { version, schema } in &locked.schemas {
                writeln!(f, "version {version}: {schema}")?;
                writeln!(f, "  nodes {}", hex(&schema.to_bytes()))?;
                f.write_str(&rules(schema, true))?;
            }
        }
        Ok(())
    }
}

/// What a schema says about its past, line by line, with the bytes of defaults or without them.
pub(super) fn rules(schema: &Schema, with_defaults: bool) -> String {
    let mut text = String::new();
    let mut line = |line: fmt::Arguments<'_>, name: &str| {
        let comment = if name.is_empty() { "" } else { " # " };
        let _ = writeln!(text, "  {line}{comment}{}", name.escape_debug());
    };
    let ruled = schema.ruled_nodes();
    let bytes = Schema::bytes_of(ruled);
    if bytes != schema.to_bytes() {
        line(format_args!("ruled {}", hex(&bytes)), "");
    }
    for (node, ty) in ruled.iter().enumerate() {
        match ty {
            Type::Struct(fields) | Type::Tuple(fields) => {
                for (number, field) in fields.iter().enumerate() {
                    for alias in &field.rules.aliases {
                        line(format_args!("alias {node}.{number} {}", Name(alias)), &field.name);
                    }
                    if let Some(default) = &field.rules.default {
                        let mut out = Writer::new();
                        if with_defaults {
                            default.write(&mut out);
                        }
                        line(format_args!("default {node}.{number} {}", hex(out.as_bytes())), &field.name);
                    }
                }
                for name in fields.removed_names() {
                    line(format_args!("removed {node} {}", Name(name)), "");
                }
            }
            Type::Enum(variants) => {
                for (number, variant) in variants.iter().enumerate() {
                    for alias in &variant.aliases {
                        line(format_args!("alias {node}.{number} {}", Name(alias)), &variant.name);
                    }
                }
            }
            _ => {}
        }
    }
    text
}

/// A name as it stands in the text: in quotes, unless it is a plain word.
struct Name<'a>(&'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |char: char| char.is_alphanumeric() || "._-".contains(char);
        match !self.0.is_empty() && self.0.chars().all(plain) {
            true => f.write_str(self.0),
            false => write!(f, "\"{}\"", self.0.escape_debug()),
        }
    }
}

/// Reads what [`Name`] wrote, and what a person writes without quotes.
fn name(text: &str) -> Parsed<String> {
    let text = text.trim();
    let Some(quoted) = text.strip_prefix('"') else {
        return Ok(text.split(" #").next().unwrap_or(text).trim().to_owned());
    };
    let mut escaped = false;
    let end = quoted.find(|char| {
        let is_end = char == '"' && !escaped;
        escaped = char == '\\' && !escaped;
        is_end
    });
    unescape(&quoted[..end.ok_or_else(|| format!("`{text}` has no closing quote"))?])
}

fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() { "-".to_owned() } else { to_hex(bytes) }
}

impl SchemaLock {
    /// Reads the text of a lock. An empty text is an empty lock.
    pub fn parse(text: &str) -> Result<Self> {
        let mut lock = Self::default();
        let mut parser = Parser { key: None, form: None };
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_end();
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            parser
                .line(&mut lock, line)
                .map_err(|why| Error::corrupt(format!("line {} of the schema lock: {why}", number + 1)))?;
        }
        parser
            .finish_form(&mut lock)
            .map_err(|why| Error::corrupt(format!("the end of the schema lock: {why}")))?;
        Ok(lock)
    }
}

struct Parser {
    key: Option<String>,
    form: Option<ParsedSchema>,
}

/// A schema that is being read.
struct ParsedSchema {
    version: u32,
    schema: Option<Schema>,
    ruled: Option<Vec<Type>>,
}

type Parsed<T> = std::result::Result<T, String>;

impl Parser {
    fn line(&mut self, lock: &mut SchemaLock, line: &str) -> Parsed<()> {
        if let Some(key) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            self.finish_form(lock)?;
            let key = unescape(key)?;
            if lock.keys.contains_key(&key) {
                return Err(format!("`{key}` is there twice"));
            }
            lock.keys.insert(key.clone(), LockedKey::default());
            self.key = Some(key);
            return Ok(());
        }
        if let Some(line) = line.strip_prefix("  ") {
            return self.form_line(line.trim());
        }
        self.finish_form(lock)?;
        if let (None, Some(track)) = (&self.key, line.strip_prefix("track ")) {
            let mut words = track.splitn(3, ' ');
            let mut number =
                || words.next().and_then(|word| word.parse().ok()).ok_or("two numbers and a name");
            let track = LockedTrack { version: number()?, migrated: number()? };
            lock.tracks.insert(name(words.next().ok_or("two numbers and a name")?)?, track);
            return Ok(());
        }
        let key = self
            .key
            .as_ref()
            .and_then(|key| lock.keys.get_mut(key))
            .ok_or("a key in brackets comes first")?;
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "removed" => key.removed = true,
            "alias" => key.aliases.push(name(rest)?),
            "returned" => key.returned.push(name(rest)?),
            "version" => {
                let (version, _) = rest.split_once(':').ok_or("a version and a colon")?;
                let version = version.trim().parse().map_err(|_| "a version is a number")?;
                self.form = Some(ParsedSchema { version, schema: None, ruled: None });
            }
            word => return Err(format!("`{word}` is not known")),
        }
        Ok(())
    }

    fn form_line(&mut self, line: &str) -> Parsed<()> {
        let form = self.form.as_mut().ok_or("a version comes first")?;
        let (word, rest) = line.split_once(' ').ok_or("a word and a value")?;
        let decode = |text: &str| {
            Schema::decode(&unhex(&name(text)?)?, &Limits::default()).map_err(|error| error.to_string())
        };
        match word {
            "nodes" => {
                let schema = decode(rest)?;
                form.ruled = Some(schema.nodes().to_vec());
                form.schema = Some(schema);
            }
            "ruled" => form.ruled = Some(decode(rest)?.nodes().to_vec()),
            "alias" | "default" | "removed" => {
                let nodes = form.ruled.as_mut().ok_or("nodes come first")?;
                let (place, value) = rest.split_once(' ').ok_or("a place and a value")?;
                rule(nodes, word, place, value)?;
            }
            word => return Err(format!("`{word}` is not known")),
        }
        Ok(())
    }

    fn finish_form(&mut self, lock: &mut SchemaLock) -> Parsed<()> {
        let (Some(form), Some(key)) = (self.form.take(), &self.key) else { return Ok(()) };
        let schema = form.schema.ok_or("a version without nodes")?;
        let schema = schema.with_rules(form.ruled.unwrap_or_default())?;
        let locked = lock.keys.entry(key.clone()).or_default();
        locked.schemas.push(Locked { version: form.version, schema: Arc::new(schema) });
        Ok(())
    }
}

fn rule(nodes: &mut [Type], word: &str, place: &str, value: &str) -> Parsed<()> {
    let (node, number) = place.split_once('.').unwrap_or((place, "0"));
    let index = |text: &str| text.parse::<usize>().map_err(|_| format!("`{text}` is no number"));
    let (node, number) = (index(node)?, index(number)?);
    let ty = nodes.get_mut(node).ok_or_else(|| format!("there is no node {node}"))?;
    let missing = || format!("node {node} has no part {number}");
    match (ty, word) {
        (Type::Struct(fields), "removed") => *fields = std::mem::take(fields).removed(name(value)?),
        (Type::Struct(fields) | Type::Tuple(fields), word) => {
            let field = fields.get_mut(number).ok_or_else(missing)?;
            match word {
                "alias" => field.rules.aliases.push(name(value)?.into()),
                "default" => field.rules.default = Some(FieldDefault::Bytes(unhex(&name(value)?)?.into())),
                _ => return Err(missing()),
            }
        }
        (Type::Enum(variants), "alias") => {
            variants.get_mut(number).ok_or_else(missing)?.aliases.push(name(value)?.into());
        }
        _ => return Err(missing()),
    }
    Ok(())
}

fn unhex(text: &str) -> Parsed<Vec<u8>> {
    if text == "-" {
        return Ok(Vec::new());
    }
    from_hex(text).ok_or_else(|| format!("`{text:.20}` are no bytes"))
}

/// Undoes `escape_debug`.
fn unescape(text: &str) -> Parsed<String> {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        if char != '\\' {
            plain.push(char);
            continue;
        }
        plain.push(match chars.next() {
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('0') => '\0',
            Some('u') => {
                let code: String = chars.by_ref().skip(1).take_while(|char| *char != '}').collect();
                let code = u32::from_str_radix(&code, 16).ok().and_then(char::from_u32);
                code.ok_or_else(|| format!("`{text}` has a bad escape"))?
            }
            Some(other) => other,
            None => return Err(format!("`{text}` ends in a backslash")),
        });
    }
    Ok(plain)
}
