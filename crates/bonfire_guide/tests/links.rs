//! Every relative link in a Markdown file of the repository leads to a file and a heading that exist. `SUMMARY.md` of the guide
//! lists every chapter, and every chapter is tested. No network is used.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A link in a Markdown file.
struct Link {
    line: usize,
    target: String,
}

/// The parts of a Markdown file that links need.
#[derive(Default)]
struct Page {
    links: Vec<Link>,
    anchors: BTreeSet<String>,
}

impl Page {
    fn parse(text: &str) -> Self {
        let mut page = Self::default();
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        let mut fence: Option<&str> = None;
        for (index, line) in text.lines().enumerate() {
            let trimmed = line.trim_start();
            let mark = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
            match (fence, mark) {
                (None, Some(mark)) => fence = Some(mark),
                (Some(open), Some(mark)) if open == mark => fence = None,
                (Some(_), _) => {}
                (None, None) => {
                    if let Some(heading) = heading(line) {
                        let slug = slug(heading);
                        let count = times.entry(slug.clone()).or_default();
                        let anchor = if *count == 0 { slug } else { format!("{slug}-{count}") };
                        *count += 1;
                        page.anchors.insert(anchor);
                    }
                    let targets = link_targets(&without_code_spans(line));
                    page.links.extend(targets.into_iter().map(|target| Link { line: index + 1, target }));
                }
            }
        }
        page
    }
}

fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    ((1..=6).contains(&level) && text.starts_with(' ')).then(|| text.trim())
}

/// The anchor of a heading, as code hosts and mdBook make it.
fn slug(heading: &str) -> String {
    let heading = heading.to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The line with every code span replaced by one letter. The text of a link may be one.
fn without_code_spans(line: &str) -> String {
    let mut kept = String::new();
    let mut parts = line.split('`');
    kept.push_str(parts.next().unwrap_or_default());
    while let Some(_code) = parts.next() {
        kept.push('c');
        kept.push_str(parts.next().unwrap_or_default());
    }
    kept
}

/// The targets of all links and pictures: `[text](target)`, and of definitions: `[name]: target`.
fn link_targets(line: &str) -> Vec<String> {
    let mut targets: Vec<String> = Vec::new();
    let mut rest = line;
    while let Some(start) = rest.find("](") {
        rest = &rest[start + 2..];
        let Some(end) = rest.find(')') else { break };
        targets.push(rest[..end].trim().to_owned());
        rest = &rest[end..];
    }
    let definition = line.strip_prefix('[').and_then(|line| line.split_once("]: "));
    targets.extend(definition.map(|(_, target)| target.trim().to_owned()));
    targets
}

/// Returns true for links that lead out of the repository, and for paths of items in rustdoc.
fn is_elsewhere(target: &str) -> bool {
    let schemes = ["http://", "https://", "mailto:"];
    schemes.iter().any(|scheme| target.starts_with(scheme)) || target.contains("::")
}

fn markdown_files(root: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let is_skipped = name == "target" || (name.starts_with('.') && name != ".ci");
            if path.is_dir() && !is_skipped {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Resolves `.` and `..` without asking the file system.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if normal.file_name().is_some() => _ = normal.pop(),
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

/// All broken links below a folder, with file and line.
fn broken_links(root: &Path) -> Vec<String> {
    let root = fs::canonicalize(root).unwrap();
    let pages: BTreeMap<PathBuf, Page> = (markdown_files(&root).into_iter())
        .map(|file| (file.clone(), Page::parse(&fs::read_to_string(file).unwrap())))
        .collect();
    let mut broken = Vec::new();
    for (file, page) in &pages {
        for Link { line, target } in page.links.iter().filter(|link| !is_elsewhere(&link.target)) {
            let place = format!("{}:{line}", file.strip_prefix(&root).unwrap().display());
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let folder = file.parent().unwrap();
            let to = if path.is_empty() { file.clone() } else { normal(&folder.join(path)) };
            if !to.exists() {
                broken.push(format!("{place}: there is no file `{path}`"));
            } else if !anchor.is_empty() && !pages.get(&to).is_some_and(|page| page.anchors.contains(anchor))
            {
                broken.push(format!("{place}: `{}` has no heading `#{anchor}`", to.display()));
            }
        }
    }
    broken
}

/// Chapters that `SUMMARY.md` of a book lacks or has twice, and chapters that are not tested. Missing files are broken links.
fn summary_faults(source: &Path, tested: &str) -> Vec<String> {
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let chapters: BTreeSet<String> = markdown_files(source).iter().map(|path| name(path)).collect();
    let summary = Page::parse(&fs::read_to_string(source.join("SUMMARY.md")).unwrap());
    let mut faults = Vec::new();
    for chapter in chapters.iter().filter(|chapter| *chapter != "SUMMARY.md") {
        match summary.links.iter().filter(|link| link.target == *chapter).count() {
            1 => {}
            count => faults.push(format!("SUMMARY.md lists `{chapter}` {count} times")),
        }
        if !tested.contains(&format!("\"{chapter}\"")) {
            faults.push(format!("`src/lib.rs` does not test `{chapter}`"));
        }
    }
    for Link { line, target } in summary.links.iter().filter(|link| !chapters.contains(&link.target)) {
        faults.push(format!("SUMMARY.md:{line}: there is no chapter `{target}`"));
    }
    faults
}

#[test]
fn every_link_leads_somewhere() {
    let broken = broken_links(&repository());
    assert!(broken.is_empty(), "{} broken links:\n{}", broken.len(), broken.join("\n"));
}

#[test]
fn the_summary_lists_every_chapter() {
    let tested = include_str!("../src/lib.rs");
    let faults = summary_faults(&repository().join("docs/book/src"), tested);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn faults_of_each_kind_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("a.md", "# A\n\n[fine](b.md#two-words) [gone](c.md)\n\n```text\n[code](d.md)\n```\n");
    write("b.md", "# B\n## Two `words`\n## Two words\n\n`[span](d.md)` [x](#nowhere) [y](#two-words-1)\n");
    write("e.md", "[far](a.md#b) [`item`](Some::item) [web](https://example.org/x.md)\n\n[def]: f.md\n");
    let found = broken_links(folder.path());
    let at =
        |place: &str, what: &str| found.iter().any(|line| line.starts_with(place) && line.contains(what));
    assert!(at("a.md:3: ", "no file `c.md`") && at("b.md:5: ", "#nowhere"), "{found:?}");
    assert!(at("e.md:1: ", "#b") && at("e.md:3: ", "no file `f.md`"), "{found:?}");
    assert_eq!(found.len(), 4, "{found:?}");

    write("SUMMARY.md", "- [A](a.md)\n- [A again](a.md)\n- [Gone](gone.md)\n- [E](e.md)\n");
    let found = summary_faults(folder.path(), "\"a.md\" \"b.md\"");
    let expected = [
        "SUMMARY.md lists `a.md` 2 times",
        "SUMMARY.md lists `b.md` 0 times",
        "`src/lib.rs` does not test `e.md`",
        "SUMMARY.md:3: there is no chapter `gone.md`",
    ];
    assert_eq!(found, expected);
}
