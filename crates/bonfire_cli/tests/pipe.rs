//! A reader that goes away ends the run quietly: `bonfire show big.save | head` is an everyday command.

mod common;

use std::io::Read as _;
use std::process::Stdio;

use common::*;

/// Reads a little of the output, then closes it.
fn run_into_closed_pipe(arguments: &[&str]) -> (Option<i32>, String) {
    let mut child = binary().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 10];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut first).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_closed_pipe_is_no_error() {
    let saved = save(&encode(&crowd(50_000)));
    let path = saved.path.to_str().unwrap();
    for arguments in [&["show", path, "--limit", "0"][..], &["show", path, "--limit", "0", "--json"]] {
        assert_eq!(run_into_closed_pipe(arguments), (Some(0), String::new()), "{arguments:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn an_output_that_cannot_be_written_is_an_error() {
    let saved = save(&encode(&farm()));
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = binary().args(["show", saved.path.to_str().unwrap()]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the output cannot be written"));
}

/// For some commands the code is the answer, also for a script that has read enough.
#[test]
fn a_closed_pipe_does_not_change_an_answer() {
    let mut bytes = encode(&farm());
    let columns = section_content(&bytes, "columns");
    bytes[columns] ^= 0xff;
    let damaged = save(&bytes);
    let old = save(&save_of(release::First { current: 1.0 }));
    let lock = old.beside("schemas.lock", lock_of::<release::Stuck>());
    let (damaged, old, lock) = (&damaged.path, &old.path, &lock);
    let (damaged, old, lock) = (damaged.to_str().unwrap(), old.to_str().unwrap(), lock.to_str().unwrap());
    for (arguments, code) in [
        (&["verify", damaged][..], 1),
        (&["schema", "check", old, old, "--lock", lock], 4),
        (&["schema", "diff", old, lock], 4),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = binary().args(arguments).stdout(writer).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*stderr), (Some(code), ""), "{arguments:?}");
    }
}
