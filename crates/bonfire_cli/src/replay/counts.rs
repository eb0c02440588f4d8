//! How much a message tells, component by component.

use std::collections::BTreeMap;

use bonfire::Delta;
use bonfire::engine::DeltaOp;
use serde_json::{Value as Json, json};

use crate::escape::escaped;
use crate::output::entities;

/// Lines of the last column that are longer go on below.
const LINE_CHARS_MAX: usize = 90;

/// What became of the values of one component, in entities.
#[derive(Default)]
struct Count {
    /// Came with their entity.
    spawned: usize,
    added: usize,
    removed: usize,
    changed: usize,
}

#[derive(Default)]
pub(super) struct Counts {
    whole: bool,
    spawned: usize,
    despawned: usize,
    changed: usize,
    components: BTreeMap<String, Count>,
    /// Whether each is there.
    resources: BTreeMap<String, bool>,
    lists: usize,
}

impl Counts {
    /// What some deltas tell together.
    pub(super) fn of(deltas: &[Delta]) -> Self {
        let mut counts = Self::default();
        deltas.iter().for_each(|delta| counts.add(delta));
        counts
    }

    fn add(&mut self, delta: &Delta) {
        self.whole |= delta.is_whole();
        self.despawned += delta.despawned().len();
        for group in delta.groups() {
            let rows = group.ids().len();
            *if group.spawned() { &mut self.spawned } else { &mut self.changed } += rows;
            for change in group.changes() {
                let count = self.components.entry(change.component.key.clone()).or_default();
                match change.op {
                    _ if group.spawned() => count.spawned += change.rows,
                    DeltaOp::Removed => count.removed += rows,
                    DeltaOp::Added => count.added += change.rows,
                    DeltaOp::Changed => count.changed += change.rows,
                }
            }
        }
        self.resources.extend(delta.resources().map(|(key, there)| (key.to_owned(), there)));
        self.lists += delta.lists_by_key().len();
    }

    /// In lines that are not too long; one at least.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![String::new()];
        for part in self.parts() {
            let (count, line) = (lines.len(), lines.last_mut());
            let Some(line) = line else { continue };
            if line.is_empty() && count == 1 {
                *line = part;
            } else if line.chars().count() + part.chars().count() + 2 <= LINE_CHARS_MAX {
                line.push_str(", ");
                line.push_str(&part);
            } else {
                line.push(',');
                lines.push(part);
            }
        }
        lines
    }

    fn parts(&self) -> Vec<String> {
        let mut parts = Vec::new();
        let signed = |counts: [(&str, usize); 3]| -> String {
            let nonzero = counts.iter().filter(|(_, count)| *count > 0);
            nonzero.map(|(sign, count)| format!("{sign}{count}")).collect::<Vec<_>>().join(" ")
        };
        let changes = signed([("+", self.spawned), ("-", self.despawned), ("~", self.changed)]);
        if self.whole {
            parts.push(entities(self.spawned));
        } else if !changes.is_empty() {
            parts.push(format!("{changes} entities"));
        }
        for (key, count) in &self.components {
            let key = escaped(key);
            parts.push(if self.whole {
                format!("{key} {}", count.spawned)
            } else {
                let come = count.spawned + count.added;
                format!("{key} {}", signed([("+", come), ("-", count.removed), ("~", count.changed)]))
            });
        }
        for (key, there) in &self.resources {
            parts.push(format!("resource {}{}", escaped(key), if *there { "" } else { " is gone" }));
        }
        match self.lists {
            0 => {}
            1 => parts.push("order of 1 list".to_owned()),
            lists => parts.push(format!("order of {lists} lists")),
        }
        if parts.is_empty() {
            parts.push("nothing".to_owned());
        }
        parts
    }

    pub(super) fn to_json(&self) -> Json {
        let component = |(key, count): (&String, &Count)| {
            let Count { spawned, added, removed, changed } = count;
            let count = json!({ "spawned": spawned, "added": added, "removed": removed, "changed": changed });
            (key.clone(), count)
        };
        json!({
            "whole": self.whole,
            "spawned": self.spawned,
            "despawned": self.despawned,
            "changed": self.changed,
            "components": Json::Object(self.components.iter().map(component).collect()),
            "resources": Json::Object(self.resources.iter().map(|(key, there)| (key.clone(), (*there).into())).collect()),
            "lists": self.lists,
        })
    }
}
