//! The chunks that are wanted, and their urgency: focuses with two radii, and tickets.
//!
//! A chunk is loaded when it comes within the load reach of a focus, and let go of when it leaves the unload reach of all of
//! them. The second is larger by one chunk at least, so that a player on a border does not load and unload all the time.

use std::collections::{BTreeMap, BTreeSet};

use crate::position::PosMap;
use crate::{ChunkPos, ChunkRect};

/// How far something reaches, in chunks along each coordinate.
///
/// ```
/// use bonfire_chunks::stream::Reach;
///
/// assert_eq!(Reach::from(4), Reach { x: 4, y: 4, z: 4 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// To the left and to the right.
    pub x: u32,
    /// Up and down.
    pub y: u32,
    /// Along the third coordinate. Ignored where there are two.
    pub z: u32,
}

impl From<u32> for Reach {
    fn from(reach: u32) -> Self {
        Self { x: reach, y: reach, z: reach }
    }
}

impl Reach {
    fn more(self, chunks: u32) -> Self {
        Self {
            x: self.x.saturating_add(chunks),
            y: self.y.saturating_add(chunks),
            z: self.z.saturating_add(chunks),
        }
    }

    fn max(self, other: Self) -> Self {
        Self { x: self.x.max(other.x), y: self.y.max(other.y), z: self.z.max(other.z) }
    }

    /// The chunks that are so near to one.
    fn around(self, centre: ChunkPos, is_deep: bool) -> ChunkRect {
        let corner = |of: fn(i32, u32) -> i32| ChunkPos {
            x: of(centre.x, self.x),
            y: of(centre.y, self.y),
            z: if is_deep { of(centre.z, self.z) } else { centre.z },
            dimension: centre.dimension,
        };
        ChunkRect::new(corner(i32::saturating_sub_unsigned), corner(i32::saturating_add_unsigned))
    }
}

/// A place that chunks are loaded around: a player, a camera.
///
/// ```
/// use bonfire_chunks::stream::Focus;
///
/// let focus = Focus::new((3, -2), 4).unload_reach(6).priority(1).ahead([2, 0, 0]);
/// assert_eq!(focus.chunk, (3, -2).into());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Focus {
    /// The chunk in the middle.
    pub chunk: ChunkPos,
    /// Chunks that are so near are loaded.
    pub load_reach: Reach,
    /// Chunks that are farther away are let go of. At least one more than the load reach, whatever is set.
    pub unload_reach: Reach,
    /// Chunks of a focus with a larger number come first. Default: 0.
    pub priority: i32,
    /// How many chunks ahead it will be soon: chunks there are loaded, too, after the others. Default: none.
    pub ahead: [i32; 3],
}

impl Focus {
    /// A focus in a chunk. The unload reach is two chunks more.
    pub fn new(chunk: impl Into<ChunkPos>, load_reach: impl Into<Reach>) -> Self {
        let load_reach = load_reach.into();
        Self { chunk: chunk.into(), load_reach, unload_reach: load_reach.more(2), priority: 0, ahead: [0; 3] }
    }

    /// Sets from where on chunks are let go of.
    pub fn unload_reach(mut self, reach: impl Into<Reach>) -> Self {
        self.unload_reach = reach.into();
        self
    }

    /// Sets which focus comes first.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Sets how many chunks ahead it will be soon.
    pub fn ahead(mut self, chunks: [i32; 3]) -> Self {
        self.ahead = chunks;
        self
    }

    fn kept(&self, is_deep: bool) -> ChunkRect {
        self.unload_reach.max(self.load_reach.more(1)).around(self.chunk, is_deep)
    }

    fn chunk_ahead(&self) -> ChunkPos {
        let ChunkPos { x, y, z, dimension } = self.chunk;
        let [ahead_x, ahead_y, ahead_z] = self.ahead;
        let (x, y) = (x.saturating_add(ahead_x), y.saturating_add(ahead_y));
        ChunkPos { x, y, z: z.saturating_add(ahead_z), dimension }
    }
}

/// How urgent a chunk is: the smallest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Urgency {
    is_ahead: bool,
    rank: std::cmp::Reverse<i32>,
    distance: u64,
}

impl Urgency {
    const TICKET: Self = Self { is_ahead: false, rank: std::cmp::Reverse(0), distance: 0 };
    /// Of a chunk that is kept, and that nothing wants.
    pub(super) const LAST: Self =
        Self { is_ahead: true, rank: std::cmp::Reverse(i32::MIN), distance: u64::MAX };

    pub(super) fn is_ahead(self) -> bool {
        self.is_ahead
    }

    pub(super) fn is_near(self) -> bool {
        !self.is_ahead && self.distance <= 2
    }
}

/// The focuses and the tickets of a world.
#[derive(Debug, Default)]
pub(super) struct Window {
    focuses: BTreeMap<u64, Focus>,
    tickets: BTreeMap<ChunkPos, u32>,
    /// Chunks that are wanted for a moment, so that somebody can enter them.
    visits: BTreeSet<ChunkPos>,
    /// Chunks that something reaches into from another chunk, and how many do.
    holds: BTreeMap<ChunkPos, u32>,
    kept: Vec<ChunkRect>,
    is_changed: bool,
}

impl Window {
    pub(super) fn set_focus(&mut self, id: u64, focus: Option<Focus>) {
        let before = match focus {
            Some(focus) => self.focuses.insert(id, focus),
            None => self.focuses.remove(&id),
        };
        self.is_changed |= before != focus;
    }

    pub(super) fn focuses(&self) -> impl Iterator<Item = &Focus> {
        self.focuses.values()
    }

    pub(super) fn add_ticket(&mut self, pos: ChunkPos) {
        *self.tickets.entry(pos).or_default() += 1;
        self.is_changed = true;
    }

    /// Returns false if there is none.
    pub(super) fn remove_ticket(&mut self, pos: ChunkPos) -> bool {
        let Some(count) = self.tickets.get_mut(&pos) else { return false };
        *count -= 1;
        if *count == 0 {
            self.tickets.remove(&pos);
        }
        self.is_changed = true;
        true
    }

    pub(super) fn tickets(&self) -> impl Iterator<Item = (ChunkPos, u32)> {
        self.tickets.iter().map(|(pos, count)| (*pos, *count))
    }

    pub(super) fn visit(&mut self, pos: ChunkPos) {
        self.is_changed |= self.visits.insert(pos);
    }

    pub(super) fn end_visit(&mut self, pos: ChunkPos) {
        self.is_changed |= self.visits.remove(&pos);
    }

    /// Returns the chunks that are visited.
    pub(super) fn visits(&self) -> impl Iterator<Item = ChunkPos> {
        self.visits.iter().copied()
    }

    pub(super) fn hold(&mut self, pos: ChunkPos) {
        let holds = self.holds.entry(pos).or_default();
        *holds += 1;
        self.is_changed |= *holds == 1;
    }

    pub(super) fn let_loose(&mut self, pos: ChunkPos) {
        let Some(holds) = self.holds.get_mut(&pos) else { return };
        *holds -= 1;
        if *holds == 0 {
            self.holds.remove(&pos);
            self.is_changed = true;
        }
    }

    /// Returns true once after each change.
    pub(super) fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    pub(super) fn change(&mut self) {
        self.is_changed = true;
    }

    /// Returns all chunks that are to be loaded, with their urgency. `is_deep` tells which dimensions have three coordinates;
    /// `None` for one that the world does not have.
    pub(super) fn wanted(&mut self, is_deep: impl Fn(u32) -> Option<bool>) -> PosMap<Urgency> {
        let mut wanted = PosMap::default();
        let mut want = |pos: ChunkPos, urgency: Urgency| {
            let known = wanted.entry(pos).or_insert(urgency);
            *known = urgency.min(*known);
        };
        self.kept.clear();
        for focus in self.focuses.values() {
            let Some(deep) = is_deep(focus.chunk.dimension) else { continue };
            let rank = std::cmp::Reverse(focus.priority);
            let mut around = |centre: ChunkPos, is_ahead: bool| {
                for pos in focus.load_reach.around(centre, deep).iter() {
                    want(pos, Urgency { is_ahead, rank, distance: distance(pos, focus.chunk) });
                }
            };
            around(focus.chunk, false);
            self.kept.push(focus.kept(deep));
            if focus.ahead != [0; 3] {
                around(focus.chunk_ahead(), true);
                self.kept.push(focus.load_reach.around(focus.chunk_ahead(), deep));
            }
        }
        for pos in self.tickets.keys().chain(&self.visits).chain(self.holds.keys()) {
            want(*pos, Urgency::TICKET);
        }
        wanted
    }

    /// Returns true if a chunk that is loaded stays.
    pub(super) fn keeps(&self, pos: ChunkPos) -> bool {
        self.visits.contains(&pos) || self.holds.contains_key(&pos) || self.keeps_itself(pos)
    }

    /// Returns true if a focus or a ticket keeps a chunk.
    pub(super) fn keeps_itself(&self, pos: ChunkPos) -> bool {
        self.tickets.contains_key(&pos) || self.kept.iter().any(|rect| rect.contains(pos))
    }

    /// Returns true if a chunk is wanted for nothing but a visit.
    pub(super) fn is_visited_only(&self, pos: ChunkPos) -> bool {
        self.visits.contains(&pos) && !self.holds.contains_key(&pos) && !self.keeps_itself(pos)
    }
}

/// The square of the distance between two chunks.
fn distance(one: ChunkPos, other: ChunkPos) -> u64 {
    let along = |one: i32, other: i32| u64::from(one.abs_diff(other)).pow(2);
    along(one.x, other.x).saturating_add(along(one.y, other.y)).saturating_add(along(one.z, other.z))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(window: &mut Window) -> PosMap<Urgency> {
        window.wanted(|dimension| Some(dimension == 3))
    }

    #[test]
    fn a_chunk_is_kept_for_longer_than_it_is_wanted() {
        let mut window = Window::default();
        window.set_focus(1, Some(Focus::new((0, 0), 1).unload_reach(0)));
        assert!(window.take_change() && !window.take_change());
        assert_eq!(wanted(&mut window).len(), 9);
        assert!(window.keeps((2, 0).into()), "one chunk more than the load reach, whatever was set");
        assert!(!window.keeps((3, 0).into()));
        window.set_focus(1, Some(Focus::new((0, 0), 1).unload_reach(0)));
        assert!(!window.take_change(), "a focus that stays is no change");
    }

    #[test]
    fn two_focuses_share_what_lies_between_them_and_the_nearest_counts() {
        let mut window = Window::default();
        window.set_focus(1, Some(Focus::new((0, 0), 2)));
        window.set_focus(2, Some(Focus::new((3, 0), 2).priority(1)));
        let wanted = wanted(&mut window);
        assert_eq!(wanted.len(), 40);
        assert!(wanted[&(1, 0).into()] < wanted[&(0, 0).into()], "the second focus comes first");
        assert!(wanted[&(3, 0).into()] < wanted[&(2, 0).into()]);
    }

    #[test]
    fn what_lies_ahead_comes_after_what_is_near() {
        let mut window = Window::default();
        window.set_focus(1, Some(Focus::new((0, 0), 1).ahead([3, 0, 0])));
        let wanted = wanted(&mut window);
        assert_eq!(wanted.len(), 18);
        assert!(wanted[&(1, 1).into()] < wanted[&(2, 0).into()]);
        assert!(wanted[&(2, 0).into()].is_ahead() && window.keeps((4, 0).into()));
    }

    #[test]
    fn tickets_are_counted_and_visits_are_not() {
        let mut window = Window::default();
        let pos = ChunkPos::new(9, 9);
        window.add_ticket(pos);
        window.add_ticket(pos);
        window.visit(pos);
        window.visit(pos);
        assert!(wanted(&mut window).contains_key(&pos) && !window.is_visited_only(pos));
        assert!(window.remove_ticket(pos) && window.remove_ticket(pos) && !window.remove_ticket(pos));
        wanted(&mut window);
        assert!(window.is_visited_only(pos) && window.keeps(pos));
        window.end_visit(pos);
        assert!(wanted(&mut window).is_empty() && !window.keeps(pos));
    }

    #[test]
    fn a_chunk_that_is_held_stays_and_nothing_else_wants_it() {
        let mut window = Window::default();
        let pos = ChunkPos::new(9, 9);
        window.hold(pos);
        window.hold(pos);
        assert!(window.take_change() && wanted(&mut window).contains_key(&pos));
        assert!(window.keeps(pos) && !window.keeps_itself(pos));
        window.let_loose(pos);
        assert!(!window.take_change() && window.keeps(pos));
        window.let_loose(pos);
        window.let_loose(pos);
        assert!(window.take_change() && !window.keeps(pos) && wanted(&mut window).is_empty());
    }

    #[test]
    fn a_third_coordinate_counts_only_where_there_is_one() {
        let mut window = Window::default();
        window.set_focus(1, Some(Focus::new((0, 0), 1)));
        assert_eq!(wanted(&mut window).len(), 9);
        window.set_focus(1, Some(Focus::new(ChunkPos::default().in_dimension(3), 1)));
        assert_eq!(wanted(&mut window).len(), 27);
        let flat = Reach { x: 1, y: 2, z: 0 };
        window.set_focus(1, Some(Focus::new(ChunkPos::default().in_dimension(3), flat)));
        assert_eq!(wanted(&mut window).len(), 15);
    }
}
