//! The same work for many things, on several threads where there are any.

/// Does `work` for each item, in any order, and returns the results in order.
pub(crate) fn map<T: Sync, R: Send>(items: &[T], threads: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    #[cfg(not(target_arch = "wasm32"))]
    if threads.min(items.len()) > 1 {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let next = AtomicUsize::new(0);
        let run = || {
            let mut done = Vec::new();
            while let Some((number, item)) = {
                let number = next.fetch_add(1, Ordering::Relaxed);
                items.get(number).map(|item| (number, item))
            } {
                done.push((number, work(item)));
            }
            done
        };
        let mut results: Vec<Option<R>> = items.iter().map(|_| None).collect();
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads.min(items.len())).map(|_| scope.spawn(run)).collect();
            let mine = run();
            let joined = others.into_iter().map(|other| match other.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            for (number, result) in std::iter::once(mine).chain(joined).flatten() {
                results[number] = Some(result);
            }
        });
        let all =
            |result: Option<R>| result.unwrap_or_else(|| unreachable!("each item was taken by one thread"));
        return results.into_iter().map(all).collect();
    }
    let _ = threads;
    items.iter().map(work).collect()
}

/// How many threads this machine has work for.
pub(crate) fn available() -> usize {
    #[cfg(not(target_arch = "wasm32"))]
    {
        // Asking takes as long as opening a file.
        static AVAILABLE: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
        *AVAILABLE.get_or_init(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
    }
    #[cfg(target_arch = "wasm32")]
    1
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u32> = (0..1000).collect();
        for threads in [1, 2, 7] {
            assert!(
                super::map(&items, threads, |item| item * 2).into_iter().eq((0..1000).map(|item| item * 2))
            );
        }
        assert!(super::map(&[0u8; 0], 4, |item| *item).is_empty());
    }
}
