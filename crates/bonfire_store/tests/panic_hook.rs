//! A panic hook that saves while a change of the same store is under way is refused: it would wait for itself.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bonfire::Registry;
use bonfire::engine::SnapshotWriter;
use bonfire_store::disk::{Access, Disk, DiskFile, DiskLock, MemoryDisk};
use bonfire_store::{Details, DirStore, Slots, Wait};

/// A disk whose files cannot be created without a panic, once.
struct PanickingDisk(MemoryDisk, Arc<AtomicBool>);

impl Disk for PanickingDisk {
    fn open(&self, name: &str, access: Access) -> io::Result<Box<dyn DiskFile>> {
        self.0.open(name, access)
    }
    fn create_new(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        assert!(!self.1.swap(false, Ordering::Relaxed), "a disk that panics");
        self.0.create_new(name)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }
    fn sync_dir(&self) -> io::Result<()> {
        self.0.sync_dir()
    }
    fn lock(&self, name: &str) -> io::Result<Option<DiskLock>> {
        self.0.lock(name)
    }
}

#[test]
fn a_recovery_save_from_a_panic_hook_fails_where_it_would_wait_for_itself() {
    let panics = Arc::new(AtomicBool::new(false));
    let slots = Slots::new(DirStore::on(PanickingDisk(MemoryDisk::new(), Arc::clone(&panics))).unwrap());
    let snapshot = SnapshotWriter::new(&Registry::new()).finish().unwrap();
    slots.save("quick", &snapshot, &Details::new()).wait().unwrap();
    let (in_hook, told) = (slots.clone(), Arc::new(Mutex::new(Vec::new())));
    let (rescued, heard) = (snapshot.clone(), Arc::clone(&told));
    std::panic::set_hook(Box::new(move |_| {
        let saved = in_hook.save_recovery("quick", &rescued, &Details::new()).wait();
        heard.lock().unwrap().push(saved.map(drop));
    }));
    panics.store(true, Ordering::Relaxed);
    let panicked = catch_unwind(AssertUnwindSafe(|| slots.save("quick", &snapshot, &Details::new()).wait()));
    assert!(panicked.is_err());
    // A panic elsewhere can be followed by a save, also of the same store.
    assert!(catch_unwind(|| panic!("elsewhere")).is_err());
    drop(std::panic::take_hook());
    let told = std::mem::take(&mut *told.lock().unwrap());
    let [inside, elsewhere] = &told[..] else { panic!("{told:?}") };
    let error = inside.as_ref().unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains("panic hook"), "{error}");
    assert!(elsewhere.is_ok(), "{elsewhere:?}");
    slots.save("quick", &snapshot, &Details::new()).wait().unwrap();
}
