//! Builds the schema of a Rust type by asking its fields for theirs.
//!
//! Equal types share a node, so that a schema depends on what a type is and not on how often it is used. A type that
//! contains itself gets its number the moment it is first met inside itself; such nodes are not shared by structure.
//!
//! Types that are saved alike may have different pasts. Their nodes are apart, and each refers to the one that stands for
//! all of them in a save.

use std::any::TypeId;
use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use super::{Fingerprint, Node, Schema, Type};

/// Collects the nodes of a schema.
#[derive(Default)]
pub struct SchemaBuilder {
    nodes: Vec<Option<Type>>,
    /// What each node is in a save: itself, or the node without rules that is saved alike.
    saved: Vec<Node>,
    shared: HashMap<Type, Node>,
    known: HashMap<TypeId, Entry>,
    depth: usize,
    /// The outermost unfinished type that was referred to since the innermost one was entered.
    lowest: usize,
}

#[derive(Clone, Copy)]
enum Entry {
    Open { depth: usize, node: Option<Node> },
    Done(Node),
}

impl SchemaBuilder {
    /// An empty builder.
    pub fn new() -> Self {
        Self { lowest: usize::MAX, ..Self::default() }
    }

    /// What was added as this node; a unit while it is still being described.
    pub(crate) fn get(&self, node: Node) -> &Type {
        self.nodes[node.index()].as_ref().unwrap_or(&Type::Unit)
    }

    fn push(&mut self, ty: Option<Type>) -> Node {
        let node = Node(self.nodes.len() as u32);
        self.nodes.push(ty);
        self.saved.push(node);
        node
    }

    /// A node for a type that is fully described by `ty`.
    pub fn add(&mut self, ty: Type) -> Node {
        let mut plain = ty.clone().plain();
        for child in plain.children_mut() {
            *child = self.saved[child.index()];
        }
        let ruled = ty.has_rules() || ty.children().any(|child| self.saved[child.index()] != child);
        let saved = match self.shared.get(&plain) {
            Some(&node) => node,
            None => {
                let node = self.push(Some(plain.clone()));
                self.shared.insert(plain, node);
                node
            }
        };
        if !ruled {
            return saved;
        }
        let node = self.push(Some(ty));
        self.saved[node.index()] = saved;
        node
    }

    /// The node of the Rust type `T`, which may contain itself: `describe` is called once and may ask for `T` again.
    pub fn define<T: 'static>(&mut self, describe: impl FnOnce(&mut Self) -> Type) -> Node {
        let id = TypeId::of::<T>();
        match self.known.get(&id).copied() {
            Some(Entry::Done(node)) => return node,
            Some(Entry::Open { depth, node }) => {
                self.lowest = self.lowest.min(depth);
                let node = node.unwrap_or_else(|| self.push(None));
                self.known.insert(id, Entry::Open { depth, node: Some(node) });
                return node;
            }
            None => {}
        }
        let depth = self.depth;
        self.known.insert(id, Entry::Open { depth, node: None });
        self.depth += 1;
        let outer = std::mem::replace(&mut self.lowest, usize::MAX);
        let ty = describe(self);
        let lowest = std::mem::replace(&mut self.lowest, outer);
        self.depth -= 1;

        let reserved = match self.known.get(&id) {
            Some(Entry::Open { node, .. }) => *node,
            _ => None,
        };
        let node = match reserved {
            Some(node) => {
                self.nodes[node.index()] = Some(ty);
                node
            }
            None if lowest == usize::MAX => self.add(ty),
            None => self.push(Some(ty)),
        };
        if lowest < depth {
            // Part of a recursion that is not closed yet.
            self.lowest = self.lowest.min(lowest);
        }
        self.known.insert(id, Entry::Done(node));
        node
    }

    /// The schema whose root is `root`, with its nodes in the order of a depth-first walk.
    pub fn finish(self, root: Node) -> Schema {
        let nodes = self.walk(root, |node| self.saved[node.index()]);
        let nodes: Vec<Type> = nodes.into_iter().map(Type::plain).collect();
        let ruled = self.walk(root, |node| node);
        let ruled = ruled.iter().any(Type::has_rules).then_some(ruled);
        Schema { ruled, ..Schema::from_nodes(nodes) }
    }

    fn walk(&self, root: Node, choose: impl Fn(Node) -> Node) -> Vec<Type> {
        walk(|node| self.nodes[node.index()].as_ref(), self.nodes.len(), root, choose)
    }
}

/// The nodes that can be reached from `root`, in the order of a depth-first walk, with their numbers in it.
fn walk<'n>(
    get: impl Fn(Node) -> Option<&'n Type>,
    count: usize,
    root: Node,
    choose: impl Fn(Node) -> Node,
) -> Vec<Type> {
    let mut numbers = vec![None; count];
    let mut order = Vec::new();
    let mut stack = vec![choose(root)];
    while let Some(node) = stack.pop() {
        if numbers[node.index()].is_none() {
            numbers[node.index()] = Some(Node(order.len() as u32));
            order.push(node);
            if let Some(ty) = get(node) {
                let children: Vec<_> = ty.children().map(&choose).collect();
                stack.extend(children.into_iter().rev());
            }
        }
    }
    let renumbered = |node: Node| {
        let mut ty = get(node).cloned().unwrap_or(Type::Unit);
        for child in ty.children_mut() {
            *child = numbers[choose(*child).index()].unwrap_or(Node::ROOT);
        }
        ty
    };
    order.into_iter().map(renumbered).collect()
}

impl Schema {
    /// The schema of one of several nodes.
    pub(crate) fn rooted(nodes: &[Type], root: Node) -> Self {
        Self::from_nodes(walk(|node| nodes.get(node.index()), nodes.len(), root, |node| node))
    }

    /// The same schema with rules. Fails if `ruled` does not describe what is saved.
    pub(crate) fn with_rules(self, ruled: Vec<Type>) -> std::result::Result<Self, String> {
        if !are_alike(&ruled, &self.nodes) {
            return Err("the ruled nodes are not those of the schema".to_owned());
        }
        let has_rules = ruled.iter().any(Type::has_rules);
        Ok(Self { ruled: has_rules.then_some(ruled), ..self })
    }

    pub(super) fn from_nodes(nodes: Vec<Type>) -> Self {
        let mut schema = Self {
            nodes,
            ruled: None,
            fingerprint: Fingerprint([0; 16]),
            leaves: OnceLock::new(),
            variants: OnceLock::new(),
        };
        schema.fingerprint = Fingerprint::of(&schema.to_bytes());
        schema
    }
}

/// More pairs of types than this are none that a game has.
const PAIRS_MAX: usize = 1 << 16;

/// Whether two tables of nodes describe the same saved values, however they share nodes.
fn are_alike(a: &[Type], b: &[Type]) -> bool {
    let shape = |ty: &Type| {
        let mut shape = ty.clone().plain();
        shape.children_mut().into_iter().for_each(|child| *child = Node::ROOT);
        shape
    };
    let mut seen = HashSet::new();
    let mut stack = vec![(Node::ROOT, Node::ROOT)];
    while let Some((left, right)) = stack.pop() {
        if seen.len() > PAIRS_MAX {
            return false;
        }
        if seen.insert((left, right)) {
            let (Some(left), Some(right)) = (a.get(left.index()), b.get(right.index())) else { return false };
            if shape(left) != shape(right) {
                return false;
            }
            stack.extend(left.children().zip(right.children()));
        }
    }
    true
}
