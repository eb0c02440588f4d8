//! Captures of one world, each made over the one before it.

use bonfire::{DataEntry, Result, Snapshot};
use hecs::World;

use crate::capture::{CaptureAdditions, SaveOptions, Sharing};
use crate::registration::Bonfire;

/// Captures a world again and again, in memory that the captures share.
///
/// Each capture is a whole [`Snapshot`], the same as [`Bonfire::capture`] would make. Rows that have not changed since the last
/// one lie in memory that both share, and keep their checksums. The last capture is kept for that.
///
/// hecs does not know what was touched, so bytes are compared: that takes the time of a copy and a comparison, and finds every
/// change, however it was made.
///
/// ```
/// use bonfire_hecs::{Bonfire, IncrementalCapture, Persist, SaveOptions, Snapshot};
/// # #[derive(Persist)]
/// # #[persist(key = "game.health")]
/// # struct Health(f32);
///
/// # let (mut world, mut bonfire) = (hecs::World::new(), Bonfire::new());
/// # bonfire.persist::<Health>()?;
/// # world.spawn_batch((0..100_000).map(|number| (Health(number as f32),)));
/// let (mut captures, options) = (IncrementalCapture::new(), SaveOptions::new());
/// let before = captures.capture(&bonfire, &world, &options)?;
/// world.spawn((Health(3.0),));
/// let after = captures.capture(&bonfire, &world, &options)?;
/// assert!(Snapshot::memory_bytes([&before, &after]) < 2 * Snapshot::memory_bytes([&before]));
/// # assert_eq!(after.entity_count(), 100_001);
/// # Ok::<(), bonfire_hecs::Error>(())
/// ```
#[derive(Default)]
pub struct IncrementalCapture {
    last: Option<LastCapture>,
}

struct LastCapture {
    snapshot: Snapshot,
    /// By archetype of the world, its number in the snapshot. Archetypes of a world keep their places.
    numbers: Vec<Option<u32>>,
}

impl IncrementalCapture {
    /// Nothing is captured yet: the first capture shares with none.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets the last capture: the next one shares with none.
    pub fn forget(&mut self) {
        self.last = None;
    }

    /// Captures the world and nothing else: no hook runs.
    pub fn capture(&mut self, bonfire: &Bonfire, world: &World, options: &SaveOptions) -> Result<Snapshot> {
        self.capture_with(bonfire, world, options, &[])
    }

    /// Captures the world, with data of hooks.
    pub(crate) fn capture_with(
        &mut self,
        bonfire: &Bonfire,
        world: &World,
        options: &SaveOptions,
        data: &[DataEntry],
    ) -> Result<Snapshot> {
        // A failure forgets it: the next capture stands alone.
        let (earlier, numbers) =
            self.last.take().map_or((None, Vec::new()), |last| (Some(Box::new(last.snapshot)), last.numbers));
        let sharing = Sharing::Over { earlier, numbers: &numbers };
        let added = CaptureAdditions { data, ..CaptureAdditions::default() };
        let captured = bonfire.capture_with(bonfire.saves(), world, options, added, sharing)?;
        let mut numbers = Vec::new();
        for (&index, number) in captured.archetypes.iter().zip(0..) {
            numbers.resize(index + 1, None);
            numbers[index] = Some(number);
        }
        self.last = Some(LastCapture { snapshot: captured.snapshot.clone(), numbers });
        Ok(captured.snapshot)
    }
}
