//! Single values: settings, profiles, high scores.

use bonfire::engine::SnapshotWriter;
use bonfire::{Error, LoadContext, Persist, Registry, Result};

use super::{Details, Slots};
use crate::blocking::Wait;
use crate::save_name::SaveKind;

/// The data entry that holds the value.
const KEY: &str = "value";

impl Slots {
    /// Saves one value in a slot of its own, and waits until it is durable. It is safe as a world is: a crash leaves the
    /// old one or the new one, damage is found, and what the slot held before is still there. A slot is for worlds or for
    /// values, and [`list`](Self::list) leaves out those with values.
    ///
    /// ```
    /// # use bonfire_store::{MemoryStore, Slots};
    /// use bonfire::Persist;
    ///
    /// #[derive(Persist, Default)]
    /// struct Settings {
    ///     volume: f32,
    ///     language: String,
    /// }
    ///
    /// # let slots = Slots::new(MemoryStore::new());
    /// slots.save_value("settings", &Settings { volume: 0.5, language: "en".into() })?;
    /// let settings: Settings = slots.load_value("settings")?.unwrap_or_default();
    /// # assert_eq!(settings.volume, 0.5);
    /// # Ok::<(), bonfire::Error>(())
    /// ```
    pub fn save_value<T: Persist>(&self, slot: &str, value: &T) -> Result<()> {
        self.save_value_async(slot, value).wait()
    }

    /// Loads a value that [`save_value`](Self::save_value) saved; `None` if there is none. Fields that have come or gone
    /// since are matched by name. A damaged one is passed over for the one before; [`load`](Self::load) tells of it.
    pub fn load_value<T: Persist>(&self, slot: &str) -> Result<Option<T>> {
        self.load_value_async(slot).wait()
    }

    /// [`save_value`](Self::save_value) for stores that cannot be waited for.
    pub async fn save_value_async<T: Persist>(&self, slot: &str, value: &T) -> Result<()> {
        let snapshot = {
            let registry = Registry::new();
            let mut writer = SnapshotWriter::new(&registry);
            writer.data(KEY, value)?;
            writer.finish()?
        };
        self.save_as(SaveKind::Value, slot, &snapshot, &Details::new()).await.map(drop)
    }

    /// [`load_value`](Self::load_value) for stores that cannot be waited for.
    pub async fn load_value_async<T: Persist>(&self, slot: &str) -> Result<Option<T>> {
        let loaded = match self.load(slot).await {
            Err(error) if error.is_not_found() => return Ok(None),
            loaded => loaded?,
        };
        let entry = loaded.snapshot.data().iter().find(|entry| entry.key() == KEY);
        let no_value = || Error::misuse("the slot holds a world and not a value");
        let entry = entry.ok_or_else(|| self.in_slot(no_value(), slot))?;
        entry.get_in(&LoadContext::new(self.limits())).map(Some)
    }
}
