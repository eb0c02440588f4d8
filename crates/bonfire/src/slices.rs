//! Long work in slices, for programs that have one thread and a frame to draw.
//!
//! Slices are counted in bytes, because the core reads no clock. The caller of the future decides after each slice whether to
//! poll it again in the same frame. Without slices the same code runs through: [`run_whole`].

use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// The length of the slices of long work. A future that was given this yields after so many bytes, and is woken at once.
///
/// ```
/// use bonfire::engine::Slices;
///
/// let mut slices = Slices::of(256 << 10);
/// # let _ = &mut slices;
/// ```
#[derive(Clone, Debug)]
pub struct Slices {
    bytes_max: usize,
    /// Bytes since the future yielded.
    done: usize,
}

impl Slices {
    /// One slice for all of the work: the future never yields.
    pub fn whole() -> Self {
        Self::of(usize::MAX)
    }

    /// Slices of about so many bytes.
    pub fn of(bytes_max: usize) -> Self {
        Self { bytes_max, done: 0 }
    }

    /// Counts bytes of work, and yields if the slice is full.
    pub async fn advance(&mut self, bytes: usize) {
        self.done = self.done.saturating_add(bytes);
        if self.done >= self.bytes_max && self.bytes_max < usize::MAX {
            self.done = 0;
            yield_once().await;
        }
    }
}

/// Returns control to the caller once, and asks to be polled again.
async fn yield_once() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Runs work that is not cut into slices.
pub(crate) fn run_whole<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(result) = work.as_mut().poll(&mut context) {
            return result;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polls_of(mut slices: Slices, steps: &[usize]) -> usize {
        let mut work = pin!(async move {
            for &bytes in steps {
                slices.advance(bytes).await;
            }
        });
        let mut context = Context::from_waker(Waker::noop());
        (1..).find(|_| work.as_mut().poll(&mut context).is_ready()).unwrap_or(0)
    }

    #[test]
    fn work_yields_after_each_full_slice() {
        assert_eq!(polls_of(Slices::of(10), &[4, 4, 4, 9, 1, 3]), 3);
        assert_eq!(polls_of(Slices::of(10), &[100]), 2);
        assert_eq!(polls_of(Slices::whole(), &[usize::MAX, usize::MAX]), 1);
    }
}
