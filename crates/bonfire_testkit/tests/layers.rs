//! Modules stand in layers: a top-level module of a crate uses modules below it and never one above or beside it.
//!
//! ARCHITECTURE.md lists the layers of each crate, bottom to top, in lines such as `bonfire: error, limits < storage`. This
//! test reads those lines and every `crate::` path in the sources. It names each path that points up, and each module that the
//! lines leave out. Unit tests at the end of a file may use everything.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The layers of each crate, bottom to top.
fn declared() -> BTreeMap<String, Vec<Vec<String>>> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let block = text.split("```layers\n").nth(1).expect("ARCHITECTURE.md has a block of layers");
    let block = block.split("```").next().unwrap().replace("\n    ", " ");
    let layers = |line: &str| {
        let (name, order) = line.split_once(':').expect("a line is `crate: layer < layer`");
        let modules =
            |layer: &str| layer.split(',').map(|module| module.trim().to_owned()).collect::<Vec<_>>();
        // A crate may have no modules yet.
        let layer = |layer: &str| modules(layer).into_iter().filter(|module| !module.is_empty()).collect();
        (name.trim().to_owned(), order.split('<').map(layer).collect())
    };
    block.lines().filter(|line| !line.trim().is_empty()).map(layers).collect()
}

/// A crate's modules, and the module that each name of its root comes from.
struct Crate {
    sources: PathBuf,
    modules: BTreeSet<String>,
    names: BTreeMap<String, String>,
}

/// A `crate::` path in a file.
struct Use {
    place: String,
    from: String,
    to: String,
}

impl Crate {
    fn read(name: &str) -> Self {
        let sources = root().join("crates").join(name).join("src");
        let text = ["lib.rs", "main.rs"].iter().find_map(|file| fs::read_to_string(sources.join(file)).ok());
        let text = without_comments(&text.expect("a crate has a root"));
        let (mut modules, mut names) = (BTreeSet::new(), BTreeMap::new());
        for statement in text.split(';') {
            let mut words = statement.split_whitespace().skip_while(|word| *word != "mod");
            // A module in braces is no file, and no layer.
            if let (Some(_), Some(module), None) = (words.next(), words.next(), words.next()) {
                modules.insert(module.to_owned());
            }
            if let Some((_, tree)) = statement.split_once("pub use ") {
                let tree = tree.strip_prefix("crate::").unwrap_or(tree);
                for path in leaves(tree) {
                    let (module, _) = path.split_once("::").unwrap_or((&path, ""));
                    let name = path.rsplit([':', ' ']).next().unwrap_or(&path);
                    names.insert(name.to_owned(), module.to_owned());
                }
            }
        }
        Self { sources, modules, names }
    }

    fn uses(&self) -> Vec<Use> {
        let mut uses = Vec::new();
        for module in &self.modules {
            for file in files(&self.sources, module) {
                let text = fs::read_to_string(&file).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
                let code = without_comments(code);
                for (offset, _) in code.match_indices("crate::") {
                    if code[..offset].ends_with(|before: char| before.is_alphanumeric() || before == '_') {
                        continue;
                    }
                    let tree = tree_at(&code[offset + "crate::".len()..]);
                    let line = code[..offset].lines().count();
                    let file = file.strip_prefix(root().join("crates")).unwrap_or(&file);
                    let place = format!("crates/{}:{line}", file.display());
                    for path in leaves(tree) {
                        let first = path.trim().split([':', ' ']).next().unwrap_or(&path);
                        let to = match self.modules.contains(first) {
                            true => Some(first),
                            false => self.names.get(first).map(String::as_str),
                        };
                        if let Some(to) = to.filter(|to| *to != module && self.modules.contains(*to)) {
                            let place = format!("{place}: `crate::{path}`");
                            uses.push(Use { place, from: module.clone(), to: to.to_owned() });
                        }
                    }
                }
            }
        }
        uses
    }
}

/// The files of a module: `module.rs`, and everything in the folder `module`.
fn files(sources: &Path, module: &str) -> Vec<PathBuf> {
    let mut found = vec![sources.join(format!("{module}.rs"))];
    let mut folders = vec![sources.join(module)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.path().is_dir() {
                true => folders.push(entry.path()),
                false => found.push(entry.path()),
            }
        }
    }
    found.retain(|file| file.extension().is_some_and(|end| end == "rs") && file.exists());
    found
}

fn without_comments(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

/// The path, or tree of paths in braces, that a text begins with.
fn tree_at(text: &str) -> &str {
    let mut depth = 0;
    let end = text.find(|c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        let inside = depth > 0 || c == '}' || c == ':' || c == '_' || c.is_alphanumeric();
        !inside
    });
    &text[..end.unwrap_or(text.len())]
}

/// All paths of a tree: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn leaves(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((prefix, rest)) = tree.split_once('{') else {
        return vec![tree.to_owned()];
    };
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for c in inner.chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        match c {
            ',' if depth == 0 => parts.push(String::new()),
            c => parts.last_mut().unwrap().push(c),
        }
    }
    let parts = parts.iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| leaves(part)).map(|leaf| format!("{prefix}{leaf}")).collect()
}

#[test]
fn modules_use_only_what_stands_below_them() {
    let mut wrong = Vec::new();
    for (name, layers) in declared() {
        let heights: BTreeMap<&str, usize> = (layers.iter().enumerate())
            .flat_map(|(height, layer)| layer.iter().map(move |module| (module.as_str(), height)))
            .collect();
        let known = Crate::read(&name);
        let listed: BTreeSet<String> = heights.keys().map(|module| (*module).to_owned()).collect();
        let differs = listed.symmetric_difference(&known.modules);
        wrong
            .extend(differs.map(|module| format!("`{name}` has no layer for `{module}`, or no such module")));
        for Use { place, from, to } in known.uses() {
            let (Some(own), Some(other)) = (heights.get(&*from), heights.get(&*to)) else { continue };
            if other >= own {
                wrong.push(format!("{place}: `{from}` must not use `{to}`, which is not below it"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_crate_has_its_layers_listed() {
    let folders = fs::read_dir(root().join("crates")).unwrap().flatten();
    let crates: BTreeSet<String> =
        folders.map(|folder| folder.file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(declared().into_keys().collect::<BTreeSet<_>>(), crates);
}

#[test]
fn paths_are_found_in_trees() {
    assert_eq!(leaves("a::{b, c::{d, self}}"), ["a::b", "a::c::d", "a::c::self"]);
    assert_eq!(tree_at("{a::B, c}; rest"), "{a::B, c}");
    assert_eq!(tree_at("load::plan(x)"), "load::plan");
}

/// The hops of the walks in ARCHITECTURE.md: a file below `crates`, and a function in it.
fn hops() -> Vec<(PathBuf, String)> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let block = text.split("```walks\n").nth(1).expect("ARCHITECTURE.md has a block of walks");
    let block = block.split("```").next().unwrap().replace("\n    >", " >");
    let steps =
        block.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with("--"));
    let of_step = |step: &str| {
        let (name, hops) = step.split_once(": ").expect("a line is `crate: file::function > ..`");
        let sources = root().join("crates").join(name).join("src");
        let hop = |hop: &str| {
            let (file, function) = hop.trim().rsplit_once("::").expect("a hop is `file::function`");
            let path = sources.join(format!("{file}.rs"));
            let path = if path.exists() { path } else { sources.join(file).join("mod.rs") };
            (path, function.to_owned())
        };
        hops.split('>').map(hop).collect::<Vec<_>>()
    };
    steps.flat_map(of_step).collect()
}

#[test]
fn every_hop_of_the_walks_exists() {
    let hops = hops();
    assert!(hops.len() > 60, "four walks: {}", hops.len());
    let is_missing = |(file, function): &&(PathBuf, String)| {
        let code = fs::read_to_string(file).unwrap_or_default();
        ![format!("fn {function}("), format!("fn {function}<")].iter().any(|declared| code.contains(declared))
    };
    let missing: Vec<_> = hops.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md names hops that do not exist: {missing:#?}");
}

#[test]
fn the_map_stays_short() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    assert!(text.lines().count() <= 250, "ARCHITECTURE.md has {} lines", text.lines().count());
}

/// The files of `bonfire_chunks/src/file`, bottom to top, as the table at the head of its `mod.rs` lists them.
fn chunk_file_order() -> Vec<String> {
    let text = fs::read_to_string(root().join("crates/bonfire_chunks/src/file/mod.rs")).unwrap();
    let rows =
        text.lines().filter_map(|line| line.strip_prefix("//! | `")).filter_map(|row| row.split('|').next());
    rows.flat_map(|row| {
        row.split(',').map(|file| file.trim_matches([' ', '`']).to_owned()).collect::<Vec<_>>()
    })
    .collect()
}

#[test]
fn files_of_chunk_files_use_only_those_before_them() {
    let (order, folder) = (chunk_file_order(), root().join("crates/bonfire_chunks/src/file"));
    let place = |file: &str| order.iter().position(|other| other == file);
    let mut wrong = Vec::new();
    for entry in fs::read_dir(&folder).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().trim_end_matches(".rs").to_owned();
        if ["mod", "tests"].contains(&&*name) {
            continue;
        }
        let Some(own) = place(&name) else {
            wrong.push(format!("`{name}` is not in the table"));
            continue;
        };
        let code = without_comments(&fs::read_to_string(entry.path()).unwrap());
        for tree in code.split("super::").skip(1).map(tree_at) {
            let used = tree.split([':', '{']).next().unwrap_or(tree);
            match place(used) {
                Some(other) if other < own => {}
                _ => wrong.push(format!("`{name}` must not use `{used}`, which is not before it")),
            }
        }
    }
    assert!(order.len() > 20 && wrong.is_empty(), "{}", wrong.join("\n"));
}
