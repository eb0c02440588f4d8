//! Writes the saves of all releases of the game in `bonfire_testkit::life` that are not there yet, and seeds for the fuzzer:
//! `cargo run -p bonfire_testkit --example write_life -- fixtures/life fuzz/corpus/evolution`.
//! Files that exist are never touched: saves stand for what players have on their disks.

use std::path::Path;

use bonfire_testkit::life::{fuzz_seeds, releases};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let saves = arguments.next().ok_or("the directory of the saves is missing")?;
    let corpus = arguments.next().ok_or("the directory of the fuzz seeds is missing")?;
    let mut files = Vec::new();
    for release in releases() {
        files.push((Path::new(&saves).join(release.file()), release.save()?.to_bytes()?));
    }
    files.extend(fuzz_seeds()?.into_iter().map(|(name, bytes)| (Path::new(&corpus).join(name), bytes)));
    let mut there = 0;
    for (path, bytes) in files {
        std::fs::create_dir_all(path.parent().unwrap_or(&path))?;
        match std::fs::File::create_new(&path) {
            Ok(mut file) => {
                std::io::Write::write_all(&mut file, &bytes)?;
                println!("wrote {} ({} bytes)", path.display(), bytes.len());
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => there += 1,
            Err(error) => return Err(error.into()),
        }
    }
    println!("{there} files were there already and stay as they are");
    Ok(())
}
