//! What waits for its turn: plain data, without threads.
//!
//! Items leave in the order in which they came. A save whose target is that of a save that still waits takes its place in
//! the queue, unless something has come since then that would notice: whatever is about the same target, or about
//! everything.

use std::collections::VecDeque;

use super::target::SaveTarget;

/// What an item is about.
#[derive(Clone, Debug)]
pub(super) enum JobTarget {
    /// A save of the target.
    Save(SaveTarget),
    /// Something else with the target: a load, a deletion.
    Other(SaveTarget),
    /// Nobody knows.
    Everything,
}

/// What became of an item.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PushOutcome<T> {
    /// It waits at the end.
    Added,
    /// It waits in the place of this one.
    InPlaceOf(T),
    /// It is refused.
    Full(T),
}

#[derive(Debug)]
pub(super) struct Queue<T> {
    waiting: VecDeque<(JobTarget, T)>,
    max: usize,
}

impl<T> Queue<T> {
    pub(super) fn new(max: usize) -> Self {
        Self { waiting: VecDeque::new(), max }
    }

    pub(super) fn set_max(&mut self, max: usize) {
        self.max = max;
    }

    pub(super) fn max(&self) -> usize {
        self.max
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Adds an item, or puts it in the place of an older save of the same target: then `join(new, old)` is called.
    ///
    /// `busy`: whether an item is out. If none is, the first that waits is as good as out, and does not count.
    pub(super) fn push(
        &mut self,
        concern: JobTarget,
        mut item: T,
        busy: bool,
        join: impl FnOnce(&mut T, &mut T),
    ) -> PushOutcome<T> {
        if let JobTarget::Save(target) = &concern
            && let Some(place) = self.place_of(target)
            && let Some((_, there)) = self.waiting.get_mut(place)
        {
            join(&mut item, there);
            return PushOutcome::InPlaceOf(std::mem::replace(there, item));
        }
        if self.waiting.len() >= self.max.saturating_add(usize::from(!busy)) {
            return PushOutcome::Full(item);
        }
        self.waiting.push_back((concern, item));
        PushOutcome::Added
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        self.waiting.pop_front().map(|(_, item)| item)
    }

    /// The save that a newer one of the same target may replace.
    fn place_of(&self, target: &SaveTarget) -> Option<usize> {
        let place = self.waiting.iter().rposition(|(concern, _)| match concern {
            JobTarget::Save(other) | JobTarget::Other(other) => target.may_alias(other),
            JobTarget::Everything => true,
        })?;
        match self.waiting.get(place) {
            Some((JobTarget::Save(other), _)) if other == target => Some(place),
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

    fn push(queue: &mut Queue<u32>, concern: JobTarget, item: u32) -> PushOutcome<u32> {
        queue.push(concern, item, true, |_, _| {})
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
        let pushed = queue.push(JobTarget::Save(slot("a")), 4, true, |new, old| *new += 10 * *old);
        assert_eq!(pushed, PushOutcome::InPlaceOf(1));
        assert_eq!(drain(queue), [14, 2, 3]);
    }

    #[test]
    fn but_not_past_what_would_notice() {
        for between in [JobTarget::Other(slot("a")), JobTarget::Everything] {
            let mut queue = Queue::new(9);
            push(&mut queue, JobTarget::Save(slot("a")), 1);
            push(&mut queue, between, 2);
            assert_eq!(push(&mut queue, JobTarget::Save(slot("a")), 3), PushOutcome::Added);
            assert_eq!(
                push(&mut queue, JobTarget::Save(slot("a")), 4),
                PushOutcome::InPlaceOf(3),
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
        assert_eq!(
            push(&mut queue, path("a/world"), 3),
            PushOutcome::Added,
            "or the older one would come last"
        );
        push(&mut queue, path("a/other"), 4);
        assert_eq!(push(&mut queue, path("a/world"), 5), PushOutcome::InPlaceOf(3));
    }

    #[test]
    fn what_is_too_much_is_refused_but_a_replacement_is_not() {
        let mut queue = Queue::new(1);
        assert_eq!(push(&mut queue, JobTarget::Save(slot("a")), 1), PushOutcome::Added);
        assert_eq!(push(&mut queue, JobTarget::Everything, 2), PushOutcome::Full(2));
        assert_eq!(push(&mut queue, JobTarget::Save(slot("a")), 3), PushOutcome::InPlaceOf(1));
        // If nothing is out, the first is about to be.
        let not_busy = queue.push(JobTarget::Everything, 4, false, |_, _| {});
        assert_eq!(not_busy, PushOutcome::Added);
        let not_busy = queue.push(JobTarget::Everything, 5, false, |_, _| {});
        assert_eq!(not_busy, PushOutcome::Full(5));
        assert_eq!(drain(queue), [3, 4]);
    }

    /// What waits, as a list from which everything is looked up again each time.
    #[derive(Default)]
    struct Model(Vec<(char, usize, u32)>);

    impl Model {
        /// `kind`: `s`ave, `o`ther, `e`verything.
        fn push(&mut self, kind: char, target: usize, item: u32, room: usize) -> PushOutcome<u32> {
            let unseen = |place: usize| {
                self.0[place + 1..].iter().all(|&(kind, other, _)| kind != 'e' && other != target)
            };
            let replaceable = |&place: &usize| {
                let (there, other, _) = self.0[place];
                kind == 's' && there == 's' && other == target && unseen(place)
            };
            let place = (0..self.0.len()).find(replaceable);
            if let Some(place) = place {
                return PushOutcome::InPlaceOf(std::mem::replace(&mut self.0[place].2, item));
            }
            if self.0.len() >= room {
                return PushOutcome::Full(item);
            }
            self.0.push((kind, target, item));
            PushOutcome::Added
        }
    }

    #[test]
    fn any_sequence_is_what_a_list_would_make_of_it() {
        let mut random = 1_u64;
        let mut below = |end: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % end
        };
        let targets = [slot("a"), slot("b"), slot("c"), SaveTarget::blob(crate::MemoryStore::new(), "a")];
        let (mut queue, mut model) = (Queue::new(4), Model::default());
        let (mut replaced, mut refused, mut popped) = (0, 0, 0);
        for item in 0..100_000 {
            if below(100) == 0 {
                queue.set_max(below(9) as usize);
            }
            if below(3) == 0 {
                let first = (!model.0.is_empty()).then(|| model.0.remove(0).2);
                assert_eq!(queue.pop(), first);
                popped += usize::from(first.is_some());
                continue;
            }
            let target = below(4) as usize;
            let (kind, concern) = match below(10) {
                0 => ('e', JobTarget::Everything),
                1 | 2 => ('o', JobTarget::Other(targets[target].clone())),
                _ => ('s', JobTarget::Save(targets[target].clone())),
            };
            let busy = below(2) == 0;
            let expected = model.push(kind, target, item, queue.max() + usize::from(!busy));
            replaced += usize::from(matches!(expected, PushOutcome::InPlaceOf(_)));
            refused += usize::from(matches!(expected, PushOutcome::Full(_)));
            assert_eq!(queue.push(concern, item, busy, |_, _| {}), expected, "item {item}");
            assert_eq!(queue.len(), model.0.len());
        }
        assert!(replaced > 1000 && refused > 1000 && popped > 1000, "{replaced} {refused} {popped}");
    }
}
