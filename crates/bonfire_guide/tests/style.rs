//! What the guide promises about itself: every kind of error is explained, recipes are short, lines fit.

use std::fs;
use std::path::{Path, PathBuf};

const COLUMNS_MAX: usize = 100;
const RECIPE_LINES_MAX: usize = 15;
const RECIPES_MIN: usize = 14;

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src")
}

fn chapter(name: &str) -> String {
    fs::read_to_string(source().join(name)).unwrap()
}

#[test]
fn every_kind_of_error_is_explained() {
    let error = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bonfire/src/error.rs");
    let error = fs::read_to_string(error).unwrap();
    let (text, prefix) = (chapter("troubleshooting.md"), "pub fn is_");
    let kinds: Vec<&str> = error.split(prefix).skip(1).filter_map(|rest| rest.split('(').next()).collect();
    let missing: Vec<&&str> =
        kinds.iter().filter(|kind| !text.contains(&format!("### `is_{kind}`\n"))).collect();
    assert!(kinds.len() > 10 && missing.is_empty(), "{missing:?} of {kinds:?}");
}

#[test]
fn recipes_are_short() {
    let text = chapter("recipes.md");
    let recipes: Vec<&str> = text.split("\n## I want ").skip(1).collect();
    assert!(recipes.len() >= RECIPES_MIN, "{} recipes", recipes.len());
    for recipe in recipes {
        let code =
            recipe.split("```rust\n").nth(1).and_then(|code| code.split("```").next()).unwrap_or_default();
        let shown = code.lines().filter(|line| *line != "#" && !line.starts_with("# ")).count();
        let title = recipe.lines().next().unwrap_or_default();
        assert!((1..=RECIPE_LINES_MAX).contains(&shown), "`{title}` has {shown} lines of code");
    }
}

#[test]
fn lines_fit_unless_they_are_tables_or_addresses() {
    let mut long = Vec::new();
    let chapters = fs::read_dir(source()).unwrap().flatten();
    for entry in chapters.filter(|entry| entry.path().extension().is_some_and(|found| found == "md")) {
        let text = fs::read_to_string(entry.path()).unwrap();
        for (number, line) in text.lines().enumerate() {
            let is_exempt = line.starts_with('|') || line.contains("https://");
            if !is_exempt && line.chars().count() > COLUMNS_MAX {
                long.push(format!("{}:{}", entry.path().display(), number + 1));
            }
        }
    }
    assert!(long.is_empty(), "lines of more than {COLUMNS_MAX} columns:\n{}", long.join("\n"));
}
