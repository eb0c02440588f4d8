//! From a saved schema to the one of this build, by name: what may become what, decided once per load.
//!
//! A conversion is a table of steps, one for each pair of types that meet, so types that contain themselves need no special
//! care. It turns bytes into bytes: what comes out is what this build would have written, and is decoded like that.

use std::collections::HashMap;
use std::sync::Arc;

use super::changes::Note;
use super::number;
use crate::context::SchemaChange;
use crate::error::{Error, Result};
use crate::schema::{Field, Fields, Node, Schema, Type, Variant, fixed_sizes, node_text};
use crate::wire::Writer;

/// Types nested deeper than this are none that a game has.
const DEPTH_MAX: usize = 256;
/// More pairs of types than this are none that a game has.
const PAIRS_MAX: usize = 1 << 16;

/// How values of one schema become values of another.
#[derive(Debug)]
pub(crate) struct Conversion {
    pub(super) source: Arc<Schema>,
    pub(super) target: Arc<Schema>,
    /// The first one is the root's.
    pub(super) steps: Vec<Step>,
    /// What each step reads, and what it writes as a ruled node of the target.
    pub(super) nodes: Vec<(Node, Node)>,
    /// The bytes of the source's values that have a fixed number of them.
    pub(super) sizes: Vec<Option<u64>>,
    pub(crate) changes: Vec<SchemaChange>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// So many bytes as they are.
    Bytes(usize),
    /// A value as it is, found by walking it.
    Same,
    /// A number that becomes a wider one.
    Number(Type, Type),
    /// A value that becomes `Some` of it.
    Some(usize),
    Option(usize),
    List(usize),
    /// A list whose elements are sorted by their bytes.
    Set(usize),
    /// A fixed number of elements; `counted` if they become a list.
    Array {
        element: usize,
        len: u64,
        counted: bool,
    },
    Map(usize, usize),
    Fields(FieldsStep),
    /// By the number of the saved variant.
    Enum(Vec<VariantStep>),
    /// A value that carries its own types becomes a value of this node.
    FromDynamic(Node),
    ToDynamic,
}

#[derive(Debug, PartialEq)]
pub(super) struct FieldsStep {
    pub(super) source: Vec<Node>,
    pub(super) target: Vec<FieldStep>,
    /// Whether the fields are read in the order in which they are written.
    pub(super) in_order: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum FieldStep {
    /// The saved field with this number, by a step.
    Saved(usize, usize),
    /// A value that the save does not have.
    Default(Arc<[u8]>),
}

#[derive(Debug, PartialEq)]
pub(super) enum VariantStep {
    To(u64, usize),
    /// The name of a variant that this build does not have.
    Gone(String),
}

impl Conversion {
    /// Finds out how values of `source` become values of `target`. Fails if some of them could not, or not exactly.
    pub(crate) fn new(source: Arc<Schema>, target: Arc<Schema>) -> Result<Self> {
        let mut compiler = Compiler {
            source: source.nodes(),
            target: target.ruled_nodes(),
            known: HashMap::new(),
            steps: Vec::new(),
            nodes: Vec::new(),
            path: Vec::new(),
            notes: Vec::new(),
        };
        compiler.pair(Node::ROOT, Node::ROOT)?;
        let Compiler { mut steps, nodes, notes, .. } = compiler;
        let sizes = fixed_sizes(source.nodes(), Some(size_of::<u64>() as u64));
        simplify(&mut steps, &nodes, &sizes);
        let mut conversion = Self { source, target, steps, nodes, sizes, changes: Vec::new() };
        conversion.changes = super::changes::changes(&conversion, &notes);
        Ok(conversion)
    }

    /// Whether values stay as they are.
    /// How many steps there are.
    pub(crate) fn step_count(&self) -> usize {
        self.steps.len()
    }

    pub(crate) fn is_identity(&self) -> bool {
        matches!(self.steps[0], Step::Bytes(_) | Step::Same)
    }

    pub(crate) fn source(&self) -> &Arc<Schema> {
        &self.source
    }

    pub(crate) fn target(&self) -> &Arc<Schema> {
        &self.target
    }
}

struct Compiler<'a> {
    source: &'a [Type],
    target: &'a [Type],
    known: HashMap<(Node, Node), usize>,
    steps: Vec<Step>,
    nodes: Vec<(Node, Node)>,
    path: Vec<String>,
    /// What is different, by the step that bridges it.
    notes: Vec<(usize, Note)>,
}

impl Compiler<'_> {
    fn pair(&mut self, from: Node, to: Node) -> Result<usize> {
        if let Some(&step) = self.known.get(&(from, to)) {
            return Ok(step);
        }
        if self.path.len() == DEPTH_MAX || self.steps.len() == PAIRS_MAX {
            return Err(Error::limit("the saved type is too large to be compared"));
        }
        let number = self.steps.len();
        self.known.insert((from, to), number);
        // Until it is known: what contains itself is the same as long as nothing says otherwise.
        self.steps.push(Step::Same);
        self.nodes.push((from, to));
        self.steps[number] = self.step(number, from, to)?;
        Ok(number)
    }

    fn inside(&mut self, name: &str, from: Node, to: Node) -> Result<usize> {
        self.path.push(name.to_owned());
        let step = self.pair(from, to);
        self.path.pop();
        step
    }

    fn step(&mut self, number: usize, from: Node, to: Node) -> Result<Step> {
        let (source, target) = (&self.source[from.index()], &self.target[to.index()]);
        Ok(match (source, target) {
            (Type::Dynamic, Type::Dynamic) => Step::Same,
            (Type::Dynamic, _) => Step::FromDynamic(to),
            (_, Type::Dynamic) => Step::ToDynamic,
            (Type::Option(a), Type::Option(b)) => Step::Option(self.inside("some", *a, *b)?),
            (_, Type::Option(some)) => {
                self.widened(number, from, to);
                Step::Some(self.pair(from, *some)?)
            }
            (Type::List(a), Type::List(b)) => Step::List(self.inside("element", *a, *b)?),
            (Type::Set(a), Type::Set(b)) => Step::Set(self.inside("element", *a, *b)?),
            (Type::Set(a), Type::List(b)) => {
                self.widened(number, from, to);
                Step::List(self.inside("element", *a, *b)?)
            }
            (Type::Array(a, len), Type::Array(b, other)) if len == other => {
                let element = self.inside("element", *a, *b)?;
                Step::Array { element, len: *len, counted: false }
            }
            (Type::Array(a, len), Type::List(b)) => {
                self.widened(number, from, to);
                let element = self.inside("element", *a, *b)?;
                Step::Array { element, len: *len, counted: true }
            }
            (Type::Array(a, len), Type::Bytes) if self.source[a.index()] == Type::U8 => {
                self.widened(number, from, to);
                let element = self.element_of_bytes(*a, to);
                Step::Array { element, len: *len, counted: true }
            }
            (Type::Set(a), Type::Bytes) if self.source[a.index()] == Type::U8 => {
                self.widened(number, from, to);
                Step::List(self.element_of_bytes(*a, to))
            }
            (Type::Bytes, Type::List(b)) => {
                self.widened(number, from, to);
                match self.byte_becomes(from, *b) {
                    Some(element) => Step::List(element),
                    None => return Err(self.mismatch(from, to)),
                }
            }
            (Type::Map(a, x), Type::Map(b, y)) => {
                let key = self.inside("key", *a, *b)?;
                Step::Map(key, self.inside("value", *x, *y)?)
            }
            (Type::Struct(a), Type::Struct(b)) => self.named(number, a, b)?,
            (Type::Tuple(a), Type::Tuple(b)) => self.positional(number, a, b)?,
            // A tag that got fields, and one that lost them.
            (Type::Unit, Type::Struct(b)) => self.named(number, &Fields::default(), b)?,
            (Type::Unit, Type::Tuple(b)) => self.positional(number, &Fields::default(), b)?,
            (Type::Struct(a), Type::Unit) => self.named(number, a, &Fields::default())?,
            (Type::Tuple(a), Type::Unit) => self.positional(number, a, &Fields::default())?,
            (Type::Enum(a), Type::Enum(b)) => self.variants(number, a, b)?,
            (a, b) if number::is_number(a) && number::is_number(b) && a != b => {
                if !number::widens(a, b) {
                    return Err(self.mismatch(from, to));
                }
                self.widened(number, from, to);
                Step::Number(a.clone(), b.clone())
            }
            (a, b) if a == b && a.children().next().is_none() => Step::Same,
            _ => return Err(self.mismatch(from, to)),
        })
    }

    /// The step from one of some bytes, which have no node of their own.
    fn byte_becomes(&mut self, bytes: Node, to: Node) -> Option<usize> {
        let step = match &self.target[to.index()] {
            Type::U8 => Step::Bytes(1),
            Type::Option(some) => Step::Some(self.byte_becomes(bytes, *some)?),
            ty if number::widens(&Type::U8, ty) => Step::Number(Type::U8, ty.clone()),
            _ => return None,
        };
        self.steps.push(step);
        self.nodes.push((bytes, to));
        Some(self.steps.len() - 1)
    }

    fn element_of_bytes(&mut self, from: Node, to: Node) -> usize {
        self.steps.push(Step::Bytes(1));
        self.nodes.push((from, to));
        self.steps.len() - 1
    }

    fn named(&mut self, step: usize, source: &Fields, target: &Fields) -> Result<Step> {
        let mut taken = vec![false; source.len()];
        let numbers: HashMap<&str, usize> = source.iter().map(|field| &*field.name).zip(0..).collect();
        let mut fields = Vec::with_capacity(target.len());
        for field in target {
            let names = std::iter::once(&field.name).chain(&field.rules.aliases);
            let found = names.filter_map(|name| numbers.get(&**name)).find(|number| !taken[**number]);
            let Some(&number) = found else {
                fields.push(self.missing(step, field, &field.name)?);
                continue;
            };
            taken[number] = true;
            let saved = &source[number];
            if saved.name != field.name {
                let (from, to) = (saved.name.to_string(), field.name.to_string());
                self.notes.push((step, Note::Renamed { from, to }));
            }
            fields.push(FieldStep::Saved(number, self.inside(&field.name, saved.node, field.node)?));
        }
        for (field, _) in source.iter().zip(taken).filter(|(_, taken)| !taken) {
            let (name, removed) = (field.name.to_string(), target.is_removed(&field.name));
            self.notes.push((step, Note::Unknown { name, removed }));
        }
        Ok(Step::Fields(FieldsStep::new(source, fields)))
    }

    fn positional(&mut self, step: usize, source: &Fields, target: &Fields) -> Result<Step> {
        let mut fields = Vec::with_capacity(target.len());
        for (i, field) in target.iter().enumerate() {
            let name = i.to_string();
            fields.push(match source.get(i) {
                Some(saved) => FieldStep::Saved(i, self.inside(&name, saved.node, field.node)?),
                None => self.missing(step, field, &name)?,
            });
        }
        for i in target.len()..source.len() {
            self.notes.push((step, Note::Unknown { name: i.to_string(), removed: true }));
        }
        Ok(Step::Fields(FieldsStep::new(source, fields)))
    }

    fn variants(&mut self, step: usize, source: &[Variant], target: &[Variant]) -> Result<Step> {
        let mut steps = Vec::with_capacity(source.len());
        for saved in source {
            let named = |variant: &Variant| variant.name == saved.name;
            let known = |variant: &Variant| variant.aliases.contains(&saved.name);
            let found = target.iter().position(named).or_else(|| target.iter().position(known));
            let Some(number) = found else {
                self.notes.push((step, Note::VariantGone(saved.name.to_string())));
                steps.push(VariantStep::Gone(saved.name.to_string()));
                continue;
            };
            let variant = &target[number];
            if variant.name != saved.name {
                let (from, to) = (saved.name.to_string(), variant.name.to_string());
                self.notes.push((step, Note::Renamed { from, to }));
            }
            let content = self.inside(&variant.name, saved.node, variant.node)?;
            steps.push(VariantStep::To(number as u64, content));
        }
        Ok(Step::Enum(steps))
    }

    /// A field that the save does not have.
    fn missing(&mut self, step: usize, field: &Field, name: &str) -> Result<FieldStep> {
        let bytes = match (&field.rules.default, &self.target[field.node.index()]) {
            (Some(default), _) => {
                let mut out = Writer::new();
                default.write(&mut out);
                out.finish().map_err(|error| self.place(error.in_field(name)))?
            }
            (None, Type::Option(_)) => vec![0],
            (None, Type::Unit) => vec![],
            (None, _) => {
                let error = no_default(self.target, field);
                return Err(self.place(error.in_field(name)));
            }
        };
        self.notes.push((step, Note::Added(name.to_owned())));
        Ok(FieldStep::Default(bytes.into()))
    }

    fn widened(&mut self, step: usize, from: Node, to: Node) {
        let (from, to) = (node_text(self.source, from), node_text(self.target, to));
        self.notes.push((step, Note::Widened { from, to }));
    }

    fn place(&self, error: Error) -> Error {
        self.path.iter().rev().fold(error, Error::in_field)
    }

    fn mismatch(&self, from: Node, to: Node) -> Error {
        let (a, b) = (&self.source[from.index()], &self.target[to.index()]);
        let why = match (a, b) {
            _ if number::widens(b, a) => {
                "a number may only widen, so the save may come from a newer build of the game"
            }
            _ if number::is_number(a) && number::is_number(b) => "a number may only widen",
            (Type::Option(_), _) => "a value that may be missing cannot become one that is always there",
            (Type::Array(..), Type::Array(..)) => "an array keeps its length",
            (Type::List(_), Type::Set(_)) => "a list may hold a value twice, a set may not",
            _ => "they have nothing in common",
        };
        let (from, to) = (node_text(self.source, from), node_text(self.target, to));
        self.place(Error::schema(format!(
            "the save has {from}, this build has {to}: {why}. Keep the type, or raise the version and convert with \
             `#[persist(from = Old)]` or an upgrader"
        )))
    }
}

/// The error about a field that a save does not have and that nothing can be put into.
pub(super) fn no_default(nodes: &[Type], field: &Field) -> Error {
    let ty = node_text(nodes, field.node);
    Error::schema(format!(
        "the save is older than this field ({ty}), and there is no value for it: add `#[persist(default = ..)]`"
    ))
}

impl FieldsStep {
    fn new(source: &Fields, target: Vec<FieldStep>) -> Self {
        let mut last = None;
        let in_order = target.iter().all(|field| match field {
            FieldStep::Saved(number, _) => last.replace(*number) < Some(*number),
            FieldStep::Default(_) => true,
        });
        Self { source: source.iter().map(|field| field.node).collect(), target, in_order }
    }

    /// The step of each field, if all are there and in their order.
    fn unchanged(&self) -> Option<impl Iterator<Item = usize> + '_> {
        let saved = |field: &FieldStep| match field {
            FieldStep::Saved(number, step) => Some((*number, *step)),
            FieldStep::Default(_) => None,
        };
        let all = self.target.len() == self.source.len()
            && self.target.iter().enumerate().all(|(i, field)| saved(field).is_some_and(|(n, _)| n == i));
        all.then(|| self.target.iter().filter_map(move |field| saved(field).map(|(_, step)| step)))
    }
}

/// Replaces steps that change nothing, however many types they go through, by copies.
fn simplify(steps: &mut [Step], nodes: &[(Node, Node)], sizes: &[Option<u64>]) {
    // Which steps change something: those that do so themselves, and all that lead to one of them.
    let mut changes: Vec<bool> = steps.iter().map(changes_itself).collect();
    let mut outer: Vec<Vec<usize>> = vec![Vec::new(); steps.len()];
    for (number, step) in steps.iter().enumerate() {
        inner(step).into_iter().for_each(|inner| outer[inner].push(number));
    }
    let mut open: Vec<usize> = (0..steps.len()).filter(|&number| changes[number]).collect();
    while let Some(number) = open.pop() {
        for &outer in &outer[number] {
            if !std::mem::replace(&mut changes[outer], true) {
                open.push(outer);
            }
        }
    }
    for (number, step) in steps.iter_mut().enumerate() {
        // Bytes are copies already, also of what has no node of its own.
        if !changes[number] && !matches!(step, Step::Bytes(_)) {
            *step = match sizes[nodes[number].0.index()] {
                Some(size) => Step::Bytes(size as usize),
                None => Step::Same,
            };
        }
    }
}

fn changes_itself(step: &Step) -> bool {
    match step {
        Step::Number(..) | Step::Some(_) | Step::FromDynamic(_) | Step::ToDynamic => true,
        Step::Array { counted, .. } => *counted,
        Step::Fields(fields) => fields.unchanged().is_none(),
        Step::Enum(variants) => {
            let same = |(i, variant): (usize, &VariantStep)| matches!(variant, VariantStep::To(n, _) if *n == i as u64);
            !variants.iter().enumerate().all(same)
        }
        Step::Bytes(_) | Step::Same | Step::Option(_) | Step::List(_) | Step::Set(_) | Step::Map(..) => false,
    }
}

fn inner(step: &Step) -> Vec<usize> {
    match step {
        Step::Some(step) | Step::Option(step) | Step::List(step) | Step::Set(step) => vec![*step],
        Step::Array { element, .. } => vec![*element],
        Step::Map(key, value) => vec![*key, *value],
        Step::Fields(fields) => fields.unchanged().map(Iterator::collect).unwrap_or_default(),
        Step::Enum(variants) => {
            let step = |variant: &VariantStep| {
                if let VariantStep::To(_, step) = variant { Some(*step) } else { None }
            };
            variants.iter().filter_map(step).collect()
        }
        _ => vec![],
    }
}
