//! Builds the schema of a Rust type by asking its fields for theirs.
//!
//! Equal types share a node, so that a schema depends on what a type is and not on how often it is used. A type that
//! contains itself gets its number the moment it is first met inside itself; such nodes are not shared by structure.

use std::any::TypeId;
use std::collections::HashMap;

use super::{Fingerprint, Node, Schema, Type};

/// Collects the nodes of a schema.
#[derive(Default)]
pub struct SchemaBuilder {
    nodes: Vec<Option<Type>>,
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

    /// A node for a type that is fully described by `ty`.
    pub fn add(&mut self, ty: Type) -> Node {
        if let Some(&node) = self.shared.get(&ty) {
            return node;
        }
        let node = Node(self.nodes.len() as u32);
        self.nodes.push(Some(ty.clone()));
        self.shared.insert(ty, node);
        node
    }

    /// The node of the Rust type `T`, which may contain itself: `describe` is called once and may ask for `T` again.
    pub fn define<T: 'static>(&mut self, describe: impl FnOnce(&mut Self) -> Type) -> Node {
        let id = TypeId::of::<T>();
        match self.known.get(&id).copied() {
            Some(Entry::Done(node)) => return node,
            Some(Entry::Open { depth, node }) => {
                self.lowest = self.lowest.min(depth);
                let node = node.unwrap_or_else(|| {
                    self.nodes.push(None);
                    Node(self.nodes.len() as u32 - 1)
                });
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
            None => {
                self.nodes.push(Some(ty));
                Node(self.nodes.len() as u32 - 1)
            }
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
        let mut numbers = vec![None; self.nodes.len()];
        let mut order = Vec::new();
        let mut stack = vec![root];
        while let Some(node) = stack.pop() {
            if numbers[node.index()].is_none() {
                numbers[node.index()] = Some(Node(order.len() as u32));
                order.push(node);
                if let Some(ty) = &self.nodes[node.index()] {
                    let children: Vec<_> = ty.children().collect();
                    stack.extend(children.into_iter().rev());
                }
            }
        }
        let nodes: Vec<Type> = order
            .into_iter()
            .map(|node| {
                let mut ty = self.nodes[node.index()].clone().unwrap_or(Type::Unit);
                for child in ty.children_mut() {
                    *child = numbers[child.index()].unwrap_or(Node::ROOT);
                }
                ty
            })
            .collect();
        Schema::from_nodes(nodes)
    }
}

impl Schema {
    pub(super) fn from_nodes(nodes: Vec<Type>) -> Self {
        let mut schema = Self { nodes, fingerprint: Fingerprint([0; 16]) };
        schema.fingerprint = Fingerprint::of(&schema.to_bytes());
        schema
    }
}
