//! The README: its program is one that compiles, and it can be read in two minutes.

const README: &str = include_str!("../../../README.md");
const PROGRAM: &str = include_str!("../examples/readme.rs");

#[test]
fn its_program_is_the_one_that_is_compiled() {
    let blocks: Vec<&str> = README.split("```rust\n").skip(1).collect();
    assert_eq!(blocks.len(), 1, "a second program needs an example of its own");
    let block = blocks[0].split("```").next().expect("a block ends");
    assert!(PROGRAM.ends_with(block), "examples/readme.rs is not the program of the README");
    assert!(block.lines().count() <= 30, "{} lines are no first look", block.lines().count());
}

#[test]
fn it_is_short_and_has_the_commands_that_newcomers_run() {
    let words = README.split_whitespace().count();
    assert!(words <= 900, "{words} words");
    for command in ["cargo run --release -p bonfire_cli -- demo", "cargo test --workspace"] {
        assert!(README.contains(command), "no `{command}`");
    }
}
