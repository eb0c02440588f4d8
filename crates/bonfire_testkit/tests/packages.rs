//! Every crate is ready to publish, or says that it is not to be published.
//!
//! A registry shows what a crate's `Cargo.toml` and README say, and builds what its package contains. Errors in either are seen
//! only after a release, which cannot be taken back. So this test reads the manifests through `cargo metadata` and the list of
//! packaged files through `cargo package --list`. It builds nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Crates of the workspace that a release publishes.
const PUBLISHED: [&str; 9] = [
    "bevy_bonfire",
    "bonfire",
    "bonfire_chunks",
    "bonfire_cli",
    "bonfire_derive",
    "bonfire_hecs",
    "bonfire_store",
    "bonfire_sync",
    "bonfire_web",
];

const KEYWORDS_MAX: usize = 5;

const LICENSES: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];

/// Categories of the registry that fit a save system. The registry drops others without an error.
const CATEGORIES: [&str; 10] = [
    "command-line-utilities",
    "compression",
    "data-structures",
    "development-tools",
    "encoding",
    "filesystem",
    "game-development",
    "game-engines",
    "network-programming",
    "wasm",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(root()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {} failed: {errors}", arguments.join(" "));
    String::from_utf8(output.stdout).unwrap()
}

/// The parts of a crate that its page in a registry is made of.
#[derive(Clone)]
struct Package {
    name: String,
    /// The package as `cargo metadata` prints it.
    manifest: Value,
    /// Paths in the package.
    files: BTreeSet<String>,
    /// The crate-level documentation.
    docs: String,
    readme: String,
    /// Source files by their path in the crate.
    sources: BTreeMap<PathBuf, String>,
}

impl Package {
    fn read(manifest: &Value) -> Self {
        let name = manifest["name"].as_str().unwrap().to_owned();
        let folder = Path::new(manifest["manifest_path"].as_str().unwrap()).parent().unwrap().to_owned();
        let list = cargo(&["package", "--list", "--allow-dirty", "--offline", "-p", &name]);
        let files = list.lines().map(|line| line.replace('\\', "/")).collect();
        let mut sources = BTreeMap::new();
        read_sources(&folder, Path::new("src"), &mut sources);
        let top = ["src/lib.rs", "src/main.rs"].iter().find_map(|file| sources.get(Path::new(file)));
        let lines = top.expect("a crate has a root").lines();
        let docs = lines.map_while(|line| line.strip_prefix("//!")).collect::<Vec<_>>().join("\n");
        let readme = manifest["readme"].as_str().map(|readme| folder.join(readme));
        let readme = readme.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        Self { name, manifest: manifest.clone(), files, docs, readme, sources }
    }

    fn text(&self, field: &str) -> &str {
        self.manifest[field].as_str().unwrap_or_default()
    }

    fn list(&self, field: &str) -> Vec<&str> {
        strings(&self.manifest[field])
    }

    fn features(&self) -> BTreeMap<&str, Vec<&str>> {
        let features = self.manifest["features"].as_object().unwrap();
        features.iter().map(|(feature, list)| (feature.as_str(), strings(list))).collect()
    }

    /// Features that are on by default, also those that others turn on.
    fn defaults(&self) -> BTreeSet<&str> {
        let features = self.features();
        let (mut found, mut next) = (BTreeSet::new(), vec!["default"]);
        while let Some(feature) = next.pop() {
            for other in features.get(feature).into_iter().flatten() {
                if features.contains_key(other) && found.insert(*other) {
                    next.push(other);
                }
            }
        }
        found
    }

    /// Everything that keeps the crate from being published.
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut expect = |holds: bool, fault: String| {
            if !holds {
                faults.push(format!("{}: {fault}", self.name));
            }
        };
        expect(self.manifest["publish"].is_null(), "is to be published, but Cargo.toml forbids it".into());
        expect(self.text("description").len() > 20, "has no description in Cargo.toml".into());
        expect(self.text("license") == "MIT OR Apache-2.0", "has no license in Cargo.toml".into());
        expect(!self.text("rust_version").is_empty(), "has no rust-version in Cargo.toml".into());

        let keywords = self.list("keywords");
        expect(!keywords.is_empty(), "has no keywords in Cargo.toml".into());
        expect(keywords.len() <= KEYWORDS_MAX, format!("has more than {KEYWORDS_MAX} keywords"));
        let categories = self.list("categories");
        expect(!categories.is_empty(), "has no categories in Cargo.toml".into());
        for category in categories {
            expect(CATEGORIES.contains(&category), format!("`{category}` is not a known category"));
        }

        expect(self.text("readme") == "README.md", "does not name README.md in Cargo.toml".into());
        expect(self.readme.len() > 200, "has no README.md, or an empty one".into());
        expect(!self.readme.contains("](../"), "README.md has a link that leaves the package".into());
        for file in LICENSES.into_iter().chain(["README.md", "Cargo.toml"]) {
            expect(self.files.contains(file), format!("its package lacks {file}"));
        }

        let docs_rs = &self.manifest["metadata"]["docs"]["rs"];
        let chosen = docs_rs["all-features"] == true || docs_rs["features"].is_array();
        expect(chosen, "[package.metadata.docs.rs] does not say which features to document".into());
        let arguments = docs_rs["rustdoc-args"].to_string();
        expect(arguments.contains("docsrs"), "[package.metadata.docs.rs] does not set `docsrs`".into());

        let table = self.docs.split_once(" # Features").map_or("", |(_, table)| table);
        let defaults = self.defaults();
        for feature in self.features().into_keys().filter(|feature| *feature != "default") {
            let row = format!(" | `{feature}` | ");
            let Some(row) = table.lines().find_map(|line| line.strip_prefix(&row)) else {
                expect(
                    false,
                    format!("feature `{feature}` is not in the table of the crate's documentation"),
                );
                continue;
            };
            let default = if defaults.contains(feature) { "yes" } else { "no" };
            let right = row.starts_with(default);
            expect(right, format!("feature `{feature}`: its row does not say `{default}` under default"));
        }

        for (file, text) in &self.sources {
            for included in included_outside(file, text) {
                expect(false, format!("{} includes {included}, which is not in the package", file.display()));
            }
        }
        faults
    }
}

fn strings(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn read_sources(folder: &Path, below: &Path, sources: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(folder.join(below)).unwrap() {
        let path = below.join(entry.unwrap().file_name());
        if folder.join(&path).is_dir() {
            read_sources(folder, &path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.insert(path.clone(), fs::read_to_string(folder.join(path)).unwrap());
        }
    }
}

/// Files that a source file includes from outside its crate. Items that exist only for doctests may: they are not compiled in a
/// package.
fn included_outside(file: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut for_doctests = false;
    for line in text.lines().map(str::trim_start) {
        for_doctests = line == "#[cfg(doctest)]" || for_doctests && line.starts_with('#');
        for call in ["include_str!(\"", "include_bytes!(\""] {
            let Some((_, path)) = line.split_once(call) else { continue };
            let path = path.split('"').next().unwrap_or_default();
            let mut depth = file.components().count() - 1;
            let leaves = Path::new(path).components().any(|part| match part {
                Component::ParentDir if depth == 0 => true,
                Component::ParentDir => {
                    depth -= 1;
                    false
                }
                _ => {
                    depth += 1;
                    false
                }
            });
            if leaves && !for_doctests {
                found.push(path.to_owned());
            }
        }
    }
    found
}

/// The manifests of all crates of the workspace.
fn manifests() -> Vec<Value> {
    let text = cargo(&["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&text).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

#[test]
fn published_crates_are_ready_and_others_say_that_they_are_not() {
    let manifests = manifests();
    let mut faults = Vec::new();
    for name in PUBLISHED {
        match manifests.iter().find(|manifest| manifest["name"] == name) {
            Some(manifest) => faults.extend(Package::read(manifest).faults()),
            None => faults.push(format!("{name}: is not in the workspace")),
        }
    }
    for manifest in &manifests {
        let name = manifest["name"].as_str().unwrap();
        // `publish = false` is an empty list of registries.
        let forbidden = manifest["publish"].as_array().is_some_and(Vec::is_empty);
        if !PUBLISHED.contains(&name) && !forbidden {
            faults.push(format!("{name}: is not to be published; add `publish = false` to Cargo.toml"));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn licenses_in_crates_are_those_of_the_workspace() {
    for name in PUBLISHED {
        for license in LICENSES {
            let [packaged, whole] = [root().join("crates").join(name).join(license), root().join(license)];
            let [packaged, whole] = [packaged, whole].map(|path| fs::read_to_string(path).unwrap());
            assert!(packaged == whole, "{name}: {license} is not that of the workspace");
        }
    }
}

/// A change that makes a package unfit, and a part of the message about it.
type Fault = (fn(&mut Package), &'static str);

#[test]
fn every_fault_is_found() {
    let manifests = manifests();
    let good = manifests.iter().find(|manifest| manifest["name"] == "bonfire_store").unwrap();
    let good = Package::read(good);
    assert_eq!(good.faults(), Vec::<String>::new());
    let faults: [Fault; 17] = [
        (|package| package.manifest["publish"] = Value::Array(Vec::new()), "Cargo.toml forbids it"),
        (|package| package.manifest["description"] = Value::Null, "no description"),
        (|package| package.manifest["license"] = Value::Null, "no license"),
        (|package| package.manifest["rust_version"] = Value::Null, "no rust-version"),
        (|package| package.manifest["keywords"] = Value::Array(Vec::new()), "no keywords"),
        (|package| package.manifest["keywords"] = vec!["a"; 6].into(), "more than 5 keywords"),
        (|package| package.manifest["categories"] = Value::Array(Vec::new()), "no categories"),
        (|package| package.manifest["categories"] = vec!["games-and-saves"].into(), "not a known category"),
        (|package| package.manifest["readme"] = Value::Null, "does not name README.md"),
        (|package| package.readme.clear(), "has no README.md"),
        (|package| package.readme.push_str("[map](../../ARCHITECTURE.md)"), "leaves the package"),
        (|package| package.files.retain(|file| file != "LICENSE-APACHE"), "its package lacks LICENSE-APACHE"),
        (|package| package.manifest["metadata"] = Value::Null, "which features to document"),
        (|package| package.manifest["metadata"]["docs"]["rs"]["rustdoc-args"] = Value::Null, "does not set"),
        (
            |package| package.manifest["features"]["new"] = Value::Array(Vec::new()),
            "`new` is not in the table",
        ),
        (|package| package.manifest["features"]["default"] = vec!["seal"].into(), "does not say `yes`"),
        (
            |package| {
                let include = "#![doc = include_str!(\"../../../docs/guide.md\")]".to_owned();
                package.sources.insert("src/engine.rs".into(), include);
            },
            "includes ../../../docs/guide.md",
        ),
    ];
    for (spoil, message) in faults {
        let mut package = good.clone();
        spoil(&mut package);
        let found = package.faults();
        assert!(found.iter().any(|fault| fault.contains(message)), "not found: {message}; found: {found:?}");
    }
}
