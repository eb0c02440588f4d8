//! The rules of stores of frames notice each store that does not keep one of them.
#![cfg(feature = "conformance")]

use bonfire_chunks::frames::{
    Committed, FrameChange, FrameKey, FrameKind, FrameStats, FrameStore, FrameTag, MemoryFrames, NewFrame,
    conformance,
};
use bonfire_chunks::{ChunkPos, ChunkRect, Durability};

#[test]
fn memory_keeps_the_rules_of_stores() {
    conformance::check(|| {
        let frames = MemoryFrames::new();
        move || frames.clone()
    });
}

/// A store that keeps one rule badly, to see that the tests of stores find it.
struct Broken {
    inner: MemoryFrames,
    fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    IgnoresRemovals,
    MixesKinds,
    LosesTags,
    ListsWithoutOrder,
    ListsTooMuch,
    RepeatsNumbers,
    ForgetsErrors,
    WritesWhenClosed,
    ForgetsBuffered,
}

impl FrameStore for Broken {
    fn read(
        &self,
        key: FrameKey,
        use_it: &mut dyn FnMut(FrameTag, &[u8]) -> bonfire::Result<()>,
    ) -> bonfire::Result<bool> {
        match self.fault {
            Fault::ForgetsErrors => self.inner.read(key, &mut |tag, data| {
                let _ = use_it(tag, data);
                Ok(())
            }),
            _ => self.inner.read(key, use_it),
        }
    }

    fn tag(&self, key: FrameKey) -> Option<FrameTag> {
        self.inner.tag(key)
    }

    fn list(&self, kind: FrameKind, rect: &ChunkRect) -> Vec<(ChunkPos, FrameTag)> {
        let rect = if self.fault == Fault::ListsTooMuch { &ChunkRect::ALL } else { rect };
        let mut found = self.inner.list(kind, rect);
        if self.fault == Fault::ListsWithoutOrder {
            found.reverse();
        }
        found
    }

    fn commit(&self, mut change: FrameChange, durability: Durability) -> bonfire::Result<Committed> {
        match self.fault {
            Fault::IgnoresRemovals => change.removed.clear(),
            Fault::MixesKinds => {
                for NewFrame { key, .. } in &mut change.frames {
                    key.kind = if key.kind == FrameKind::Schema { FrameKind::Settings } else { key.kind };
                }
            }
            Fault::LosesTags => change.frames.iter_mut().for_each(|frame| frame.tag = FrameTag::default()),
            Fault::ForgetsBuffered if durability == Durability::Buffered => change = FrameChange::default(),
            Fault::WritesWhenClosed => return self.inner.clone().commit(change, durability),
            _ => {}
        }
        let mut committed = self.inner.commit(change, durability)?;
        if self.fault == Fault::RepeatsNumbers {
            committed.generation = 1;
        }
        Ok(committed)
    }

    fn is_writable(&self) -> bool {
        self.inner.is_writable()
    }

    fn stats(&self) -> FrameStats {
        self.inner.stats()
    }

    fn close(&self) -> bonfire::Result<()> {
        self.inner.close()
    }
}

#[test]
fn the_rules_of_stores_notice_each_fault() {
    let faults = [
        Fault::IgnoresRemovals,
        Fault::MixesKinds,
        Fault::LosesTags,
        Fault::ListsWithoutOrder,
        Fault::ListsTooMuch,
        Fault::RepeatsNumbers,
        Fault::ForgetsErrors,
        Fault::WritesWhenClosed,
        Fault::ForgetsBuffered,
    ];
    for fault in faults {
        let checked = std::panic::catch_unwind(|| {
            conformance::check(|| {
                let frames = MemoryFrames::new();
                move || Broken { inner: frames.clone(), fault }
            });
        });
        assert!(checked.is_err(), "{fault:?} goes unnoticed");
    }
}
