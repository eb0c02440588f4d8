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
