//! A put does the documented steps in the documented order: what it asks of a `Disk`, and what the process asks of the
//! system. The second is seen through `strace`, where it is installed and allowed.

use std::path::Path;
use std::process::Command;

use bonfire_store::{Batch, DirStore, Payload, Precondition, Store, Wait};
use bonfire_testkit::disk::{CrashDisk, Operation};

/// Where the process that is watched finds its directory.
const DIRECTORY: &str = "BONFIRE_WRITE_ORDER_DIRECTORY";

fn put(store: &DirStore, name: &str, len: usize) {
    store.put(name, Payload::from(vec![7; len]), Precondition::None).wait().expect("a healthy disk");
}

/// The operations of the second call; the first has made the lock file.
fn recorded(read_back: bool, call: impl FnOnce(&DirStore)) -> Vec<Operation> {
    let disk = CrashDisk::new();
    let store = DirStore::on(disk.clone()).expect("an empty disk");
    let store = if read_back { store.read_back() } else { store };
    put(&store, "slot", 100);
    let before = disk.operation_count();
    call(&store);
    disk.operations().split_off(before)
}

fn is_temporary(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(".bonfire-tmp")
}

#[test]
fn a_put_is_create_write_sync_rename_sync_of_the_directory() {
    for (name, read_back) in [("slot", false), ("new", false), ("slot", true)] {
        let operations = recorded(read_back, |store| put(store, name, 1000));
        let [
            Operation::Create { name: temporary, file },
            Operation::Write { file: written, offset: 0, bytes },
            Operation::Sync { file: synced },
            Operation::Rename { from, to },
            Operation::SyncDir,
        ] = &operations[..]
        else {
            panic!("{operations:#?}")
        };
        assert!(is_temporary(temporary), "{temporary}");
        assert_eq!((file, file, bytes.len()), (written, synced, 1000));
        assert_eq!((from, to.as_str()), (temporary, name));
    }
}

/// A large payload takes several writes; the sync comes after the last.
#[test]
fn all_writes_come_before_the_sync() {
    let operations = recorded(false, |store| {
        let parts = [vec![1; 900 << 10], vec![2; 100], vec![3; 900 << 10]];
        let mut rope = bonfire::engine::Rope::default();
        parts.into_iter().for_each(|part| rope.push(part.into()));
        store.put("slot", Payload::from(rope), Precondition::None).wait().expect("a healthy disk");
    });
    let writes = operations.iter().filter(|operation| matches!(operation, Operation::Write { .. })).count();
    assert!(writes > 1, "{operations:?}");
    assert!(matches!(operations.first(), Some(Operation::Create { .. })));
    let tail = &operations[1 + writes..];
    let in_order = matches!(tail, [Operation::Sync { .. }, Operation::Rename { .. }, Operation::SyncDir]);
    assert!(in_order, "{operations:?}");
}

#[test]
fn removals_are_followed_by_a_sync_of_the_directory() {
    let operations = recorded(false, |store| assert!(store.remove("slot").wait().expect("it is there")));
    assert!(matches!(&operations[..], [Operation::Remove { .. }, Operation::SyncDir]), "{operations:?}");
}

/// New contents, the list of changes, the changes, the end of the list: each is durable before the next.
#[test]
fn several_changes_are_listed_durably_before_any_of_them_is_made() {
    let operations = recorded(false, |store| {
        let batch = Batch::new().put("new", Payload::from(vec![7; 10])).rename("slot", "kept");
        store.change(batch).wait().expect("a healthy disk");
    });
    let listed = operations.iter().position(|operation| match operation {
        Operation::Rename { to, .. } => to == ".bonfire-changes",
        _ => false,
    });
    let (before, after) = operations.split_at(listed.expect("there is a list"));
    let is_new = matches!(
        before,
        [
            Operation::Create { .. },
            Operation::Write { .. },
            Operation::Sync { file: new },
            Operation::SyncDir,
            Operation::Create { .. },
            Operation::Write { .. },
            Operation::Sync { file: list },
        ] if new != list
    );
    assert!(is_new, "{before:?}");
    let is_made = matches!(
        after,
        [
            Operation::Rename { .. },
            Operation::SyncDir,
            Operation::Rename { .. },
            Operation::Rename { .. },
            Operation::SyncDir,
            Operation::Remove { .. },
            Operation::SyncDir,
        ]
    );
    assert!(is_made, "{after:?}");
}

#[test]
fn an_append_is_synced_and_a_new_file_gets_a_durable_name() {
    let append = |name: &str, len: u64| {
        let payload = Payload::from(vec![7; 10]);
        recorded(false, |store| {
            store.append(name, len, payload).wait().expect("a healthy disk");
        })
    };
    let operations = append("slot", 100);
    let in_order = matches!(operations[..], [Operation::Write { offset: 100, .. }, Operation::Sync { .. }]);
    assert!(in_order, "{operations:?}");
    let operations = append("log", 0);
    let in_order = matches!(
        operations[..],
        [Operation::Create { .. }, Operation::Write { .. }, Operation::Sync { .. }, Operation::SyncDir]
    );
    assert!(in_order, "{operations:?}");
}

/// Does nothing but what it is watched for, and only in the process that is.
#[test]
fn watched_process() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        put(&DirStore::open(directory).expect("a directory"), "slot", 1000);
    }
}

/// The calls of a process that puts one blob, as `strace` writes them; `None` if that cannot be had here.
fn traced(directory: &Path, output: &Path) -> Option<String> {
    let calls = "trace=?open,openat,?openat2,?creat,write,pwrite64,pwritev,fsync,fdatasync,?rename,renameat,renameat2,close";
    let status = Command::new("strace")
        .args(["-f", "-y", "-e", calls, "-o"])
        .arg(output)
        .arg(std::env::current_exe().ok()?)
        .args(["--exact", "watched_process", "--test-threads", "1"])
        .env(DIRECTORY, directory)
        .output()
        .ok()?
        .status;
    let text = std::fs::read_to_string(output).ok()?;
    (status.success() && text.contains("watched-saves")).then_some(text)
}

#[test]
#[cfg(target_os = "linux")]
fn the_system_is_asked_in_the_same_order() {
    let place = tempfile::tempdir().expect("a place for files");
    // The end of a path that no other call of the process has.
    let directory = place.path().join("watched-saves");
    let Some(text) = traced(&directory, &place.path().join("trace")) else {
        println!("no strace here: the recorded calls of the other tests are all there is");
        return;
    };
    let of_saves: Vec<&str> = text.lines().filter(|line| line.contains("watched-saves")).collect();
    let mut lines = of_saves.iter();
    let mut expect = |what: &str, has: &dyn Fn(&str) -> bool| {
        assert!(lines.any(|line| has(line)), "no {what} where it belongs:\n{}", of_saves.join("\n"));
    };
    expect("exclusive creation", &|line| {
        line.contains("bonfire-tmp") && line.contains("O_CREAT") && line.contains("O_EXCL")
    });
    expect("write", &|line| line.contains("write") && line.contains("bonfire-tmp>"));
    expect("sync of the file", &|line| line.contains("sync(") && line.contains("bonfire-tmp>"));
    expect("rename", &|line| line.contains("rename") && line.contains("watched-saves/slot\""));
    expect("sync of the directory", &|line| line.contains("fsync(") && line.contains("watched-saves>"));
    let renames = of_saves.iter().filter(|line| line.contains("rename")).count();
    let writes_behind = lines.filter(|line| line.contains("write")).count();
    assert_eq!((renames, writes_behind), (1, 0), "{}", of_saves.join("\n"));
}
