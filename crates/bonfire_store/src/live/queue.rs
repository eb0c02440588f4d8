//! The requests that wait, in their order: plain data, without threads.
//!
//! A request waits for the front end, which captures a world at the end of a frame, or for the thread. The first part of
//! the list waits for the thread, the rest for the front end. So a request passes both in the order in which it was made.
//! A request that the front end has taken comes back as the last one that waits for the thread.
//!
//! A save whose target is that of a save that waits for the same takes its place, unless something has come since then that
//! would notice: whatever is about the same target, or about everything.

use std::collections::VecDeque;

use super::target::SaveTarget;

/// What an item is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JobTarget {
    /// A save of the target.
    Save(SaveTarget),
    /// Something else with the target: a load, a deletion.
    Other(SaveTarget),
    /// Nobody knows.
    Everything,
}

/// The one that an item waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitsFor {
    Thread,
    FrontEnd,
}

#[derive(Debug)]
pub(super) struct Queue<T> {
    waiting: VecDeque<(JobTarget, T)>,
    /// So many of the first wait for the thread, the others for the front end.
    for_thread: usize,
    max: usize,
}

impl<T> Queue<T> {
    pub(super) fn new(max: usize) -> Self {
        Self { waiting: VecDeque::new(), for_thread: 0, max }
    }

    pub(super) fn set_max(&mut self, max: usize) {
        self.max = max;
    }

    pub(super) fn max(&self) -> usize {
        self.max
    }

    /// How many items wait for one of the two.
    pub(super) fn len(&self, waits_for: WaitsFor) -> usize {
        match waits_for {
            WaitsFor::Thread => self.for_thread,
            WaitsFor::FrontEnd => self.waiting.len() - self.for_thread,
        }
    }

    /// Returns true if an item may be added. One that takes a place needs no room.
    ///
    /// `is_working`: whether the thread has an item. If it has none, the first that waits for it is as good as taken, and
    /// does not count.
    pub(super) fn has_room(&self, waits_for: WaitsFor, target: &JobTarget, is_working: bool) -> bool {
        let takes_first = !is_working && (self.for_thread > 0 || waits_for == WaitsFor::Thread);
        self.waiting.len() < self.max.saturating_add(usize::from(takes_first))
            || self.replaceable(waits_for, target).is_some()
    }

    /// Adds an item behind all that wait for the same. Or puts it in the place of an older save of the same target: then it
    /// calls `join(new, old)` and returns the old one.
    pub(super) fn push(
        &mut self,
        waits_for: WaitsFor,
        target: JobTarget,
        mut item: T,
        join: impl FnOnce(&mut T, &mut T),
    ) -> Option<T> {
        let place = self.replaceable(waits_for, &target);
        if let Some((_, older)) = place.and_then(|place| self.waiting.get_mut(place)) {
            join(&mut item, older);
            return Some(std::mem::replace(older, item));
        }
        match waits_for {
            WaitsFor::Thread => {
                self.waiting.insert(self.for_thread, (target, item));
                self.for_thread += 1;
            }
            WaitsFor::FrontEnd => self.waiting.push_back((target, item)),
        }
        None
    }

    /// Takes the next item for the thread.
    pub(super) fn pop(&mut self) -> Option<T> {
        self.for_thread = self.for_thread.checked_sub(1)?;
        self.waiting.pop_front().map(|(_, item)| item)
    }

    /// Takes the next item for the front end that `is_wanted`.
    pub(super) fn take_for_front_end(
        &mut self,
        is_wanted: impl Fn(&JobTarget, &T) -> bool,
    ) -> Option<(JobTarget, T)> {
        let mut places = self.for_thread..self.waiting.len();
        let place = places
            .find(|&place| self.waiting.get(place).is_some_and(|(about, item)| is_wanted(about, item)))?;
        self.waiting.remove(place)
    }

    /// The place of the save that a newer one may replace.
    fn replaceable(&self, waits_for: WaitsFor, target: &JobTarget) -> Option<usize> {
        let JobTarget::Save(target) = target else { return None };
        let places = match waits_for {
            WaitsFor::Thread => 0..self.for_thread,
            WaitsFor::FrontEnd => self.for_thread..self.waiting.len(),
        };
        let concerns = |other: &JobTarget| match other {
            JobTarget::Save(other) | JobTarget::Other(other) => target.may_alias(other),
            JobTarget::Everything => true,
        };
        let mut newest_first = places.rev().filter_map(|place| Some((place, &self.waiting.get(place)?.0)));
        match newest_first.find(|(_, other)| concerns(other))? {
            (place, JobTarget::Save(other)) if other == target => Some(place),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(name: &str) -> SaveTarget {
        name.into()
    }

    /// The result of adding an item.
    #[derive(Debug, PartialEq, Eq)]
    enum Pushed {
        Added,
        InPlaceOf(u32),
        Refused,
    }

    impl Pushed {
        fn of(older: Option<u32>) -> Self {
            older.map_or(Self::Added, Self::InPlaceOf)
        }
    }

    /// Adds an item if there is room for it.
    fn push_for(
        queue: &mut Queue<u32>,
        waits_for: WaitsFor,
        target: JobTarget,
        item: u32,
        is_working: bool,
    ) -> Pushed {
        if !queue.has_room(waits_for, &target, is_working) {
            return Pushed::Refused;
        }
        Pushed::of(queue.push(waits_for, target, item, |_, _| {}))
    }

    /// Adds an item for the thread, which has another one.
    fn push(queue: &mut Queue<u32>, target: JobTarget, item: u32) -> Pushed {
        push_for(queue, WaitsFor::Thread, target, item, true)
    }

    fn drain(mut queue: Queue<u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn a_newer_save_takes_the_place_of_an_older_one() {
        let mut queue = Queue::new(9);
        push(&mut queue, JobTarget::Save(slot("a")), 1);
        push(&mut queue, JobTarget::Save(slot("b")), 2);
        push(&mut queue, JobTarget::Other(slot("b")), 3);
        let older = queue.push(WaitsFor::Thread, JobTarget::Save(slot("a")), 4, |new, old| *new += 10 * *old);
        assert_eq!(older, Some(1));
        assert_eq!(drain(queue), [14, 2, 3]);
    }

    #[test]
    fn but_not_past_what_would_notice() {
        for between in [JobTarget::Other(slot("a")), JobTarget::Everything] {
            let mut queue = Queue::new(9);
            push(&mut queue, JobTarget::Save(slot("a")), 1);
            push(&mut queue, between, 2);
            assert_eq!(push(&mut queue, JobTarget::Save(slot("a")), 3), Pushed::Added);
            assert_eq!(
                push(&mut queue, JobTarget::Save(slot("a")), 4),
                Pushed::InPlaceOf(3),
                "the later one"
            );
            assert_eq!(drain(queue), [1, 2, 4]);
        }
    }

    #[test]
    #[cfg(not(target_arch = "wasm32"))]
    fn nor_past_a_save_that_may_be_of_the_same_file() {
        let path = |path: &str| JobTarget::Save(std::path::Path::new(path).into());
        let mut queue = Queue::new(9);
        push(&mut queue, path("a/world"), 1);
        push(&mut queue, path("link/world"), 2);
        assert_eq!(push(&mut queue, path("a/world"), 3), Pushed::Added, "or the older one would come last");
        push(&mut queue, path("a/other"), 4);
        assert_eq!(push(&mut queue, path("a/world"), 5), Pushed::InPlaceOf(3));
    }

    #[test]
    fn what_is_too_much_is_refused_but_a_replacement_is_not() {
        let mut queue = Queue::new(1);
        assert_eq!(push(&mut queue, JobTarget::Save(slot("a")), 1), Pushed::Added);
        assert_eq!(push(&mut queue, JobTarget::Everything, 2), Pushed::Refused);
        assert_eq!(push(&mut queue, JobTarget::Save(slot("a")), 3), Pushed::InPlaceOf(1));
        // If the thread has nothing, it is about to take the first.
        let push_idle =
            |queue: &mut _, item| push_for(queue, WaitsFor::Thread, JobTarget::Everything, item, false);
        assert_eq!(push_idle(&mut queue, 4), Pushed::Added);
        assert_eq!(push_idle(&mut queue, 5), Pushed::Refused);
        assert_eq!(drain(queue), [3, 4]);
    }

    #[test]
    fn what_waits_for_the_front_end_counts_and_is_replaced_only_by_what_waits_for_it_too() {
        let mut queue = Queue::new(3);
        let save = |name: &str| JobTarget::Save(slot(name));
        let request =
            |queue: &mut Queue<u32>, target, item| push_for(queue, WaitsFor::FrontEnd, target, item, false);
        let hand_on = |queue: &mut Queue<u32>, target, item| {
            Pushed::of(queue.push(WaitsFor::Thread, target, item, |_, _| {}))
        };
        assert_eq!(request(&mut queue, save("a"), 1), Pushed::Added);
        assert_eq!(request(&mut queue, save("a"), 2), Pushed::InPlaceOf(1));
        assert_eq!(request(&mut queue, JobTarget::Everything, 3), Pushed::Added);
        assert_eq!(request(&mut queue, save("a"), 4), Pushed::Added, "a load in between would notice");
        assert_eq!(request(&mut queue, save("b"), 5), Pushed::Refused);
        assert_eq!(queue.pop(), None, "nothing is captured");
        assert_eq!(queue.take_for_front_end(|_, _| true), Some((save("a"), 2)));
        assert_eq!(hand_on(&mut queue, save("a"), 2), Pushed::Added);
        assert_eq!(queue.take_for_front_end(|_, _| true), Some((JobTarget::Everything, 3)));
        assert_eq!(queue.take_for_front_end(|_, _| true), Some((save("a"), 4)));
        assert_eq!(hand_on(&mut queue, save("a"), 4), Pushed::InPlaceOf(2));
        assert_eq!((queue.len(WaitsFor::Thread), queue.len(WaitsFor::FrontEnd)), (1, 0));
        assert_eq!(drain(queue), [4]);
    }

    /// The waiting items as two lists in which everything is looked up again each time.
    #[derive(Default)]
    struct Model {
        for_thread: Vec<(char, usize, u32)>,
        for_front_end: Vec<(char, usize, u32)>,
    }

    impl Model {
        fn list(&mut self, waits_for: WaitsFor) -> &mut Vec<(char, usize, u32)> {
            match waits_for {
                WaitsFor::Thread => &mut self.for_thread,
                WaitsFor::FrontEnd => &mut self.for_front_end,
            }
        }

        fn room(&self, max: usize, waits_for: WaitsFor, is_working: bool) -> usize {
            let takes_first = waits_for == WaitsFor::Thread || !self.for_thread.is_empty();
            max + usize::from(!is_working && takes_first)
        }

        /// `kind`: `s`ave, `o`ther, `e`verything.
        fn push(
            &mut self,
            waits_for: WaitsFor,
            (kind, target, item): (char, usize, u32),
            room: usize,
        ) -> Pushed {
            let len = self.for_thread.len() + self.for_front_end.len();
            let list = self.list(waits_for);
            let unseen = |place: usize| {
                list[place + 1..].iter().all(|&(kind, other, _)| kind != 'e' && other != target)
            };
            let replaceable = |&place: &usize| {
                let (there, other, _) = list[place];
                kind == 's' && there == 's' && other == target && unseen(place)
            };
            let place = (0..list.len()).find(replaceable);
            if let Some(place) = place {
                return Pushed::InPlaceOf(std::mem::replace(&mut list[place].2, item));
            }
            if len >= room {
                return Pushed::Refused;
            }
            list.push((kind, target, item));
            Pushed::Added
        }
    }

    #[test]
    fn any_sequence_is_what_two_lists_would_make_of_it() {
        let mut random = 1_u64;
        let mut below = |end: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % end
        };
        let targets = [slot("a"), slot("b"), slot("c"), SaveTarget::blob(crate::MemoryStore::new(), "a")];
        let (mut queue, mut model) = (Queue::new(4), Model::default());
        let (mut replaced, mut refused, mut popped, mut taken) = (0, 0, 0, 0);
        for item in 0..100_000 {
            if below(100) == 0 {
                queue.set_max(below(9) as usize);
            }
            if below(3) == 0 {
                let first = (!model.for_thread.is_empty()).then(|| model.for_thread.remove(0).2);
                assert_eq!(queue.pop(), first);
                popped += usize::from(first.is_some());
                continue;
            }
            if below(3) == 0 {
                // One of two front ends takes its next request, and hands most of them on.
                let own = below(2) as u32;
                let wanted = model.for_front_end.iter().position(|&(_, _, item)| item % 2 == own);
                let found = queue.take_for_front_end(|_, item| item % 2 == own);
                let expected = wanted.map(|place| model.for_front_end.remove(place));
                assert_eq!(found.as_ref().map(|(_, item)| *item), expected.map(|(_, _, item)| item));
                if let (Some((concern, item)), Some(expected), 1..) = (found, expected, below(4)) {
                    let expected = model.push(WaitsFor::Thread, expected, usize::MAX);
                    assert_eq!(Pushed::of(queue.push(WaitsFor::Thread, concern, item, |_, _| {})), expected);
                    taken += 1;
                }
                continue;
            }
            let target = below(4) as usize;
            let (kind, concern) = match below(10) {
                0 => ('e', JobTarget::Everything),
                1 | 2 => ('o', JobTarget::Other(targets[target].clone())),
                _ => ('s', JobTarget::Save(targets[target].clone())),
            };
            let is_working = below(2) == 0;
            let waits_for = if below(2) == 0 { WaitsFor::Thread } else { WaitsFor::FrontEnd };
            let room = model.room(queue.max(), waits_for, is_working);
            let expected = model.push(waits_for, (kind, target, item), room);
            replaced += usize::from(matches!(expected, Pushed::InPlaceOf(_)));
            refused += usize::from(matches!(expected, Pushed::Refused));
            let pushed = push_for(&mut queue, waits_for, concern, item, is_working);
            assert_eq!(pushed, expected, "item {item}");
            assert_eq!(queue.len(WaitsFor::Thread), model.for_thread.len());
            assert_eq!(queue.len(WaitsFor::FrontEnd), model.for_front_end.len());
        }
        let counts = [replaced, refused, popped, taken];
        assert!(counts.iter().all(|&count| count > 1000), "{counts:?}");
    }
}
