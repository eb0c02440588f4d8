//! A save from its source to a checked snapshot.

use bonfire::{Error, OpenOptions, Result};
use bytes::Bytes;

use super::target::{LoadSource, SaveTarget};
use crate::progress::{Phase, Progress, ProgressReporter};
use crate::slots::{LoadedSave, SaveInfo, Slots};
use crate::store::{Store, refuse_sealed};

/// Opens and checks the save of a source.
pub(super) async fn load(
    slots: &Slots,
    source: &LoadSource,
    options: OpenOptions<'static>,
    reporter: &ProgressReporter,
) -> Result<LoadedSave> {
    let options = options.watch(reporter.watch());
    let target = match source {
        LoadSource::Generation { slot, generation } => {
            reporter.set(Progress::new(Phase::Reading, 0, 0));
            return slots.load_generation(slot, *generation, &options).await;
        }
        LoadSource::Latest(target) => target,
    };
    match target {
        SaveTarget::Slot(slot) => slots.load_reporting(slot, &options, reporter).await,
        #[cfg(not(target_arch = "wasm32"))]
        SaveTarget::Path(path) => {
            reporter.set(Progress::new(Phase::Reading, 0, 0));
            let bytes = crate::file::read_bytes(path, options.file_bytes_max())?;
            open(slots, path.display().to_string(), None, bytes, &options, reporter).await
        }
        SaveTarget::Blob { store, name } => {
            reporter.set(Progress::new(Phase::Reading, 0, 0));
            if let Some(head) = store.head(name).await?
                && head.len > options.file_bytes_max()
            {
                let len = head.len;
                return Err(Error::limit(format!("`{name}` has {len} bytes, more than the limits allow")));
            }
            let bytes = store.get(name).await?;
            open(slots, name.clone(), store.path_of(name), bytes, &options, reporter).await
        }
    }
}

/// Opens a save that is in no slot. `path` is where the blob of a store lies, if that has a path.
async fn open(
    slots: &Slots,
    place: String,
    path: Option<String>,
    bytes: Bytes,
    options: &OpenOptions<'_>,
    reporter: &ProgressReporter,
) -> Result<LoadedSave> {
    refuse_sealed(&place, &bytes)?;
    reporter.set(Progress::new(Phase::Checking, 0, bytes.len() as u64));
    let snapshot = options
        .open_in_slices(bytes.clone(), &mut slots.slices())
        .await
        .map_err(|error| error.in_place(path.as_ref().unwrap_or(&place)))?;
    Ok(LoadedSave {
        snapshot,
        info: SaveInfo::outside_of_slots(place, &bytes, options),
        journal: None,
        skipped: Vec::new(),
    })
}
