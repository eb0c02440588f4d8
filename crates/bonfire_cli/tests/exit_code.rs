//! The exit codes are a promise to scripts: 0 fine, 1 damaged, 2 misuse, 3 newer format.

mod common;

use common::*;

const COMMANDS: [&str; 3] = ["info", "show", "verify"];

/// The exit code of every command on a file, and the words that some output has in each case.
fn assert_all(saved: &Saved, code: i32, words: &str) {
    for command in COMMANDS {
        for json in [&[][..], &["--json"]] {
            let run = run_on(command, &saved.path, json);
            assert_eq!(run.code, Some(code), "{command}: {run:?}");
            assert!(format!("{}{}", run.stdout, run.stderr).contains(words), "{command}: {run:?}");
        }
    }
}

#[test]
fn a_whole_save_is_fine() {
    assert_all(&save(&encode(&farm())), 0, "3");
}

#[test]
fn a_flipped_byte_in_the_columns_is_damage() {
    let mut bytes = encode(&farm());
    let columns = section_content(&bytes, "columns");
    bytes[columns] ^= 0xff;
    assert_all(&save(&bytes), 1, "a block is damaged");
}

#[test]
fn a_truncated_save_is_damaged() {
    let bytes = encode(&farm());
    assert_all(&save(&bytes[..bytes.len() - 100]), 1, "the file is truncated");
    assert_all(&save(&bytes[..bytes.len() / 2]), 1, "the file is truncated");
    assert_all(&save(&bytes[..40]), 1, "inside its header");
    assert_all(&save(&[]), 1, "not a Bonfire file");
}

#[test]
fn garbage_is_damaged() {
    let garbage: Vec<u8> = (0..10_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    assert_all(&save(&garbage), 1, "not a Bonfire file");
    let run = run_on("verify", &save(&garbage).path, &[]);
    assert!(run.stdout.contains("nothing is left: "), "{run:?}");
    let run = run_on("show", &save(&garbage).path, &["--salvage"]);
    assert_eq!((run.code, &*run.stdout), (Some(1), ""));
}

#[test]
fn a_newer_format_is_told_apart_from_damage() {
    let mut bytes = encode(&farm());
    bytes[8..10].copy_from_slice(&2_u16.to_le_bytes());
    assert_all(&save(&bytes), 1, "the header is damaged");
    let crc = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    let saved = save(&bytes);
    assert_all(&saved, 3, "format version 2 is newer");
    assert_eq!(run_on("show", &saved.path, &["--salvage"]).code, Some(3));
    assert_eq!(run_on("verify", &saved.path, &["--json"]).json()["result"], "newer format");
}

#[test]
fn a_file_that_cannot_be_read_is_misuse() {
    let saved = save(&[]);
    let missing = saved.path.with_file_name("missing.save");
    for command in COMMANDS {
        let run = run_on(command, &missing, &[]);
        assert_eq!((run.code, &*run.stdout), (Some(2), ""), "{command}");
        assert!(run.stderr.contains("missing.save: "), "{run:?}");
        let directory = run_on(command, saved.path.parent().unwrap(), &[]);
        assert_eq!(directory.code, Some(2), "{directory:?}");
    }
}

#[test]
fn bad_arguments_are_misuse_and_help_is_not() {
    let saved = save(&encode(&farm()));
    for arguments in [&[][..], &["info"], &["frobnicate", "x"], &["info", "a", "b"]] {
        let run = run(arguments);
        assert_eq!((run.code, &*run.stdout), (Some(2), ""), "{arguments:?}");
        assert!(run.stderr.contains("Usage: bonfire"), "{run:?}");
    }
    assert_eq!(run_on("show", &saved.path, &["--limit", "many"]).code, Some(2));
    assert_eq!(run_on("verify", &saved.path, &["--salvage"]).code, Some(2));
    for arguments in [&["--help"][..], &["info", "--help"], &["show", "--help"], &["verify", "--help"]] {
        let run = run(arguments);
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{arguments:?}");
        assert!(run.stdout.contains("Exit codes:") || run.stdout.contains("Examples:"), "{run:?}");
    }
}
