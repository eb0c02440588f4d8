//! Which values have a fixed number of bytes, and where their numbers lie: what raw columns are made of.
//!
//! Computed once per schema in one pass over the nodes, however they share or contain each other.

use std::collections::HashMap;
use std::rc::Rc;

use super::{Node, Schema, Type};

/// The most leaves that a raw row in a file may have. Writers stop earlier, at
/// [`LEAVES_MAX`](crate::engine::LEAVES_MAX), which may grow.
pub(crate) const ROW_LEAVES_MAX: usize = 1024;

/// A number, or an array of them, inside a fixed-size value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FixedLeaf {
    pub(crate) node: Node,
    pub(crate) size: u64,
}

impl Schema {
    /// The bytes of each node's encoded value, if every value has the same number. References have no fixed place in
    /// raw columns, because they must be mapped, so they count as not fixed.
    pub(crate) fn fixed_sizes(&self) -> Vec<Option<u64>> {
        fixed_sizes(&self.nodes, None)
    }

    /// The leaves of a raw row in the order of the schema, or `None` if values have no fixed size or more than `max`
    /// leaves. `max` is at most [`ROW_LEAVES_MAX`].
    pub(crate) fn fixed_leaves(&self, max: usize) -> Option<&[FixedLeaf]> {
        let leaves = self.leaves.get_or_init(|| self.find_leaves());
        leaves.as_deref().filter(|leaves| leaves.len() <= max)
    }

    /// The nodes that [`fixed_leaves`](Self::fixed_leaves) would look at: none once it has.
    pub(crate) fn unseen_nodes(&self) -> usize {
        if self.leaves.get().is_some() { 0 } else { self.nodes.len() }
    }

    fn find_leaves(&self) -> Option<Vec<FixedLeaf>> {
        let sizes = self.fixed_sizes();
        sizes[0]?;
        let mut parts = NodeParts { schema: self, sizes: &sizes, known: HashMap::new() };
        let mut leaves = Vec::new();
        let mut stack = vec![Node::ROOT];
        while let Some(node) = stack.pop() {
            match parts.of(node) {
                None => {
                    let size = sizes[node.index()]?;
                    leaves.extend((size > 0).then_some(FixedLeaf { node, size }));
                }
                Some(parts) if leaves.len() + stack.len() + parts.len() > ROW_LEAVES_MAX => return None,
                Some(parts) => stack.extend(parts.iter().rev()),
            }
        }
        (leaves.len() <= ROW_LEAVES_MAX).then_some(leaves)
    }
}

/// The parts of tuples and structs that have bytes. Types that many others share are looked at once.
struct NodeParts<'s> {
    schema: &'s Schema,
    sizes: &'s [Option<u64>],
    known: HashMap<Node, Rc<[Node]>>,
}

impl NodeParts<'_> {
    /// The parts of a node; `None` if it is a leaf. A type with one part that has bytes stands for that part, so that long
    /// chains of them are walked once.
    fn of(&mut self, node: Node) -> Option<&[Node]> {
        self.direct(node)?;
        let mut passed = vec![node];
        let mut last = node;
        while let Some(&[only]) = self.direct(last)
            && self.direct(only).is_some()
        {
            passed.push(only);
            last = only;
        }
        let end = Rc::clone(&self.known[&last]);
        for passed in passed {
            self.known.insert(passed, Rc::clone(&end));
        }
        self.known.get(&node).map(Rc::as_ref)
    }

    fn direct(&mut self, node: Node) -> Option<&[Node]> {
        let ty = self.schema.get(node);
        if !matches!(ty, Type::Tuple(_) | Type::Struct(_)) {
            return None;
        }
        let sizes = self.sizes;
        let parts = || ty.children().filter(|child| sizes[child.index()] != Some(0)).collect();
        Some(self.known.entry(node).or_insert_with(parts))
    }
}

/// The bytes of each node's encoded value, if every value has the same number; `entity` is what a reference counts as.
pub(crate) fn fixed_sizes(nodes: &[Type], entity: Option<u64>) -> Vec<Option<u64>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut sizes = vec![None; nodes.len()];
    let mut marks = vec![Mark::New; nodes.len()];
    let mut stack: Vec<Node> = (0..nodes.len() as u32).rev().map(Node).collect();
    while let Some(&node) = stack.last() {
        match marks[node.index()] {
            Mark::New => {
                marks[node.index()] = Mark::Open;
                let fresh = nodes[node.index()].children().filter(|child| marks[child.index()] == Mark::New);
                stack.extend(fresh.collect::<Vec<_>>());
            }
            Mark::Open => {
                // A child that is still open contains this node: not fixed, and `sizes` says so.
                sizes[node.index()] = fixed_size(nodes, node, &sizes, entity);
                marks[node.index()] = Mark::Done;
                stack.pop();
            }
            Mark::Done => {
                stack.pop();
            }
        }
    }
    sizes
}

fn fixed_size(nodes: &[Type], node: Node, sizes: &[Option<u64>], entity: Option<u64>) -> Option<u64> {
    let sum = |ty: &Type| ty.children().try_fold(0_u64, |sum, node| sum.checked_add(sizes[node.index()]?));
    match &nodes[node.index()] {
        Type::Unit => Some(0),
        Type::Bool | Type::U8 | Type::I8 => Some(1),
        Type::U16 | Type::I16 => Some(2),
        Type::U32 | Type::I32 | Type::F32 | Type::Char => Some(4),
        Type::U64 | Type::I64 | Type::F64 => Some(8),
        Type::U128 | Type::I128 => Some(16),
        Type::Entity => entity,
        Type::Array(element, len) => sizes[element.index()]?.checked_mul(*len),
        ty @ (Type::Tuple(_) | Type::Struct(_)) => sum(ty),
        Type::Enum(variants) => {
            let unit = |node: Node| matches!(nodes[node.index()], Type::Unit);
            (variants.len() <= 128 && variants.iter().all(|variant| unit(variant.node))).then_some(1)
        }
        _ => None,
    }
}
