//! Writes golden files and fuzz seeds that are not there yet:
//! `cargo run -p bonfire_testkit --example write_fixtures -- fixtures/v1 fuzz/corpus`.
//! Files that exist are never touched: golden ones stand for what players have on their disks.

use std::path::Path;

use bonfire_testkit::fixture;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let golden = arguments.next().ok_or("the directory of the golden files is missing")?;
    let corpus = arguments.next().ok_or("the directory of the fuzz seeds is missing")?;
    for (name, bytes) in fixture::files()? {
        write_new(&Path::new(&golden).join(name), &bytes)?;
    }
    for (target, name, bytes) in fixture::fuzz_seeds()? {
        write_new(&Path::new(&corpus).join(target).join(name), &bytes)?;
    }
    Ok(())
}

fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    match std::fs::File::create_new(path) {
        Ok(mut file) => {
            println!("wrote {} ({} bytes)", path.display(), bytes.len());
            std::io::Write::write_all(&mut file, bytes)
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}
