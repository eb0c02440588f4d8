//! What a conversion bridges, listed with the place in the value: a type that is used in several places differs in each.

use super::Conversion;
use super::conversion::{FieldStep, Step, VariantStep};
use crate::context::SchemaChange;
use crate::schema::Type;

/// More places than a person reads.
const PLACES_MAX: usize = 1 << 12;

/// A difference at one step, wherever that is used.
#[derive(Debug)]
pub(super) enum Note {
    Added(String),
    /// Saved, and not part of this build: knowingly so if it is `removed`.
    Unknown {
        name: String,
        removed: bool,
    },
    Renamed {
        from: String,
        to: String,
    },
    Widened {
        from: String,
        to: String,
    },
    VariantGone(String),
}

/// All differences, from the root of the value on.
pub(super) fn changes(conversion: &Conversion, notes: &[(usize, Note)]) -> Vec<SchemaChange> {
    let mut by_step: Vec<Vec<&Note>> = conversion.steps.iter().map(|_| Vec::new()).collect();
    notes.iter().for_each(|(step, note)| by_step[*step].push(note));
    let mut walk = ChangeWalk {
        conversion,
        notes: by_step,
        open: Vec::new(),
        path: Vec::new(),
        left: PLACES_MAX,
        found: vec![],
    };
    walk.step(0, true);
    if walk.left == 0 {
        walk.found.push(SchemaChange::Dropped { field: "..".to_owned() });
    }
    walk.found
}

struct ChangeWalk<'a> {
    conversion: &'a Conversion,
    notes: Vec<Vec<&'a Note>>,
    /// The steps that lead here: what contains itself is listed once.
    open: Vec<usize>,
    path: Vec<String>,
    left: usize,
    found: Vec<SchemaChange>,
}

impl ChangeWalk<'_> {
    /// `in_place` if the path leads through structs only, so that it names one place in a value.
    fn step(&mut self, step: usize, in_place: bool) {
        if self.open.contains(&step) || self.left == 0 {
            return;
        }
        self.left -= 1;
        for note in self.notes[step].clone() {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            let change = self.change(note, in_place);
            self.found.push(change);
        }
        self.open.push(step);
        let conversion = self.conversion;
        match &conversion.steps[step] {
            Step::Some(inner) => self.step(*inner, false),
            Step::Option(inner) => self.inside("some", *inner, false),
            Step::List(element) | Step::Set(element) | Step::Array { element, .. } => {
                self.inside("element", *element, false);
            }
            Step::Map(key, value) => {
                self.inside("key", *key, false);
                self.inside("value", *value, false);
            }
            Step::Fields(fields) => {
                let target = &conversion.target.ruled_nodes()[conversion.nodes[step].1.index()];
                for (i, field) in fields.target.iter().enumerate() {
                    let FieldStep::Saved(_, inner) = field else { continue };
                    match target {
                        Type::Struct(target) => self.inside(&target[i].name, *inner, in_place),
                        _ => self.inside(&i.to_string(), *inner, false),
                    }
                }
            }
            Step::Enum(variants) => {
                let target = &conversion.target.ruled_nodes()[conversion.nodes[step].1.index()];
                for variant in variants {
                    if let (VariantStep::To(number, content), Type::Enum(target)) = (variant, target) {
                        self.inside(&target[*number as usize].name, *content, false);
                    }
                }
            }
            _ => {}
        }
        self.open.pop();
    }

    fn inside(&mut self, name: &str, step: usize, in_place: bool) {
        self.path.push(name.to_owned());
        self.step(step, in_place);
        self.path.pop();
    }

    fn at(&self, name: &str) -> String {
        let path = self.path.iter().map(String::as_str).chain([name]);
        path.collect::<Vec<_>>().join(".")
    }

    fn change(&self, note: &Note, in_place: bool) -> SchemaChange {
        match note {
            Note::Added(name) => SchemaChange::Added { field: self.at(name) },
            Note::Unknown { name, removed } if *removed || !in_place => {
                SchemaChange::Dropped { field: self.at(name) }
            }
            Note::Unknown { name, .. } => SchemaChange::Unknown { field: self.at(name) },
            Note::Renamed { from, to } => SchemaChange::Renamed { from: self.at(from), to: self.at(to) },
            Note::Widened { from, to } => {
                let field = if self.path.is_empty() { "the value".to_owned() } else { self.path.join(".") };
                SchemaChange::Widened { field, from: from.clone(), to: to.clone() }
            }
            Note::VariantGone(name) => SchemaChange::VariantGone { variant: self.at(name) },
        }
    }
}
