//! Checks that the names in Markdown exist: linked files and their anchors, paths of this
//! repository, items of its code, and the packages and targets of its commands.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use crate::text::read;
use driftless_harness::tools;
use regex::Regex;

/// Top directories of the repository: a code span that begins with one is checked as a path.
const TOP: [&str; 6] = [
    "functions/",
    "shared/",
    "infra/",
    "tests/",
    "events/",
    ".ci/",
];

/// Directories of the repository that are not part of the sources.
const NOT_SOURCES: [&str; 3] = ["target", ".git", "tests/fuzz/target"];

/// External crates whose items documents name.
const OTHERS: [&str; 3] = ["std", "tokio", "serde_json"];

struct Repository {
    /// The path of every file, relative to the root.
    files: BTreeSet<String>,
    /// The text of every Rust file by its path.
    code: BTreeMap<String, String>,
    /// The text of every Cargo.toml by its path.
    manifests: BTreeMap<String, String>,
}

impl Repository {
    fn read() -> Self {
        let root = tools::workspace();
        let mut paths = Vec::new();
        let left_out = NOT_SOURCES.map(|directory| root.join(directory));
        collect(&root, &left_out, &mut paths);
        let mut repository = Self {
            files: BTreeSet::new(),
            code: BTreeMap::new(),
            manifests: BTreeMap::new(),
        };
        for path in paths {
            let name = path.strip_prefix(&root).expect("a path below the root");
            let name = name.to_string_lossy().into_owned();
            let text = || std::fs::read_to_string(&path).expect("a UTF-8 file");
            if name.ends_with(".rs") {
                repository.code.insert(name.clone(), text());
            } else if name.ends_with("Cargo.toml") {
                repository.manifests.insert(name.clone(), text());
            }
            repository.files.insert(name);
        }
        repository
    }

    fn exists(&self, path: &str) -> bool {
        let directory = format!("{}/", path.trim_end_matches('/'));
        self.files.contains(path) || self.files.iter().any(|file| file.starts_with(&directory))
    }

    /// Returns whether a file's path is `path` or ends with it.
    fn has_file_named(&self, path: &str) -> bool {
        let below = format!("/{path}");
        self.files.contains(path) || self.files.iter().any(|file| file.ends_with(&below))
    }

    /// Returns whether `name` is a word in a file of the module or crate `owner`, or in a file that
    /// defines the type `owner`.
    fn has_item(&self, owner: &str, name: &str) -> bool {
        let word = pattern(&format!(r"\b{name}\b"));
        let definition = pattern(&format!(
            r"\b(struct|enum|trait|mod|union|type|impl|for) {owner}\b"
        ));
        let is_of_module = |file: &str| {
            let owner = owner.trim_start_matches("driftless_");
            Path::new(file).components().any(|part| {
                let part = part.as_os_str().to_string_lossy();
                part.trim_end_matches(".rs") == owner
            })
        };
        self.code.iter().any(|(file, text)| {
            word.is_match(text) && (is_of_module(file) || definition.is_match(text))
        })
    }

    fn has_package(&self, name: &str) -> bool {
        let line = format!("name = \"{name}\"");
        self.manifests.values().any(|text| text.contains(&line))
    }

    /// Returns whether a manifest declares the target, or Cargo discovers it by its path.
    fn has_target(&self, kind: &str, name: &str) -> bool {
        let section = pattern(&format!(r#"\[\[{kind}\]\]\s*name = "{name}""#));
        let directory = match kind {
            "test" => "tests",
            "bench" => "benches",
            _ => "src/bin",
        };
        let places = [
            format!("{directory}/{name}.rs"),
            format!("{directory}/{name}/main.rs"),
        ];
        let is_program = kind == "bin" && self.has_package(name);
        is_program
            || self.manifests.values().any(|text| section.is_match(text))
            || places.iter().any(|place| self.has_file_named(place))
    }
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a regular expression")
}

fn collect(directory: &Path, left_out: &[PathBuf], out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let entry = entry.expect("an entry");
        let path = entry.path();
        let kind = entry.file_type().expect("a file type");
        if kind.is_file() {
            out.push(path);
        } else if kind.is_dir() && !left_out.contains(&path) {
            collect(&path, left_out, out);
        }
    }
}

/// Returns the code spans outside of fenced blocks, and the content of those blocks.
fn spans(text: &str) -> (Vec<String>, String) {
    let (mut prose, mut blocks, mut is_block) = (String::new(), String::new(), false);
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_block = !is_block;
        } else {
            let out = if is_block { &mut blocks } else { &mut prose };
            out.push_str(line);
            out.push('\n');
        }
    }
    let span = pattern("`([^`\n]+)`");
    let found = span.captures_iter(&prose).map(|found| found[1].to_owned());
    (found.collect(), blocks)
}

/// Expands `a/{b,c}.rs` to `a/b.rs` and `a/c.rs`.
fn alternatives(text: &str) -> Vec<String> {
    let Some((before, rest)) = text.split_once('{') else {
        return vec![text.to_owned()];
    };
    let Some((inner, after)) = rest.split_once('}') else {
        return vec![text.to_owned()];
    };
    let each = inner.split(',');
    each.flat_map(|one| alternatives(&format!("{before}{}{after}", one.trim())))
        .collect()
}

/// Returns a link's path from the root: joins the document's directory and the link, and resolves
/// `..`.
fn resolve(document: &str, link: &str) -> String {
    let mut path = PathBuf::from(document);
    path.pop();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path.to_string_lossy().into_owned()
}

/// Returns the anchors of a document, as GitHub derives them from headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let slug = |line: &str| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.collect::<String>().replace(' ', "-")
    };
    headings.map(slug).collect()
}

fn check_links(repository: &Repository, document: &str, text: &str, wrong: &mut Vec<String>) {
    let link = pattern(r"\]\(([^)\s]+)\)");
    for found in link.captures_iter(text) {
        let target = &found[1];
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let (path, headings) = match path {
            "" => (document.to_owned(), Some(anchors(text))),
            path => {
                let path = resolve(document, path);
                let text = std::fs::read_to_string(tools::workspace().join(&path));
                (path, text.ok().as_deref().map(anchors))
            }
        };
        let has_anchor = || headings.is_some_and(|headings| headings.contains(anchor));
        if !path.eq(document) && !repository.exists(&path) {
            wrong.push(format!(
                "{document}: the link '{target}' is broken: the file does not exist"
            ));
        } else if !anchor.is_empty() && !has_anchor() {
            wrong.push(format!("{document}: {path} has no heading for '#{anchor}'"));
        }
    }
}

fn check_span(repository: &Repository, document: &str, span: &str, wrong: &mut Vec<String>) {
    let path = pattern(r"^[\w./{},*-]+$");
    let item = pattern(r"^\w+(::\w+)+(\(\))?$");
    if item.is_match(span) {
        let names: Vec<&str> = span.trim_end_matches("()").split("::").collect();
        if let [.., owner, name] = names[..]
            && !OTHERS.contains(&names[0])
            && !repository.has_item(owner, name)
        {
            wrong.push(format!("{document}: `{span}` is not in the code"));
        }
    } else if path.is_match(span) {
        for path in alternatives(span) {
            let fixed = path.split('*').next().unwrap_or_default();
            let fixed = match fixed.len() < path.len() {
                true => fixed
                    .rsplit_once('/')
                    .map_or("", |(directory, _)| directory),
                false => fixed,
            };
            let is_top = TOP.iter().any(|top| path.starts_with(top))
                || (path.starts_with("../") && !path.starts_with("../shared"));
            let is_missing = match (is_top, path.ends_with(".rs")) {
                (true, _) => !fixed.is_empty() && !repository.exists(fixed),
                (false, true) => !fixed.is_empty() && !repository.has_file_named(fixed),
                (false, false) => false,
            };
            // A path relative to the document is also valid: `tests/x.rs` of a crate.
            if is_missing && !repository.exists(&resolve(document, fixed)) {
                wrong.push(format!("{document}: `{span}` does not exist"));
            }
        }
    }
}

fn check_commands(repository: &Repository, document: &str, text: &str, wrong: &mut Vec<String>) {
    let command = pattern(r"cargo (?:test|run|bench|build|check|clippy|lambda build)[^`\n]*");
    let flag = pattern(r"(-p|--package|--test|--bench|--bin) ([a-z][\w-]*)");
    for command in command.find_iter(text) {
        // After ` -- ` follow the program's own arguments.
        let arguments = command.as_str().split(" -- ").next().unwrap_or_default();
        for found in flag.captures_iter(arguments) {
            let (kind, name) = (&found[1], &found[2]);
            let is_known = match kind {
                "-p" | "--package" => repository.has_package(name),
                kind => repository.has_target(kind.trim_start_matches('-'), name),
            };
            if !is_known {
                wrong.push(format!(
                    "{document}: '{kind} {name}' of `{}` does not exist",
                    command.as_str()
                ));
            }
        }
    }
}

fn check(repository: &Repository, document: &str, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    check_links(repository, document, text, &mut wrong);
    let (spans, _) = spans(text);
    for span in &spans {
        check_span(repository, document, span, &mut wrong);
    }
    check_commands(repository, document, text, &mut wrong);
    wrong
}

#[test]
fn names_in_documents_exist() {
    let repository = Repository::read();
    // Not the change log: it names what existed at the time.
    let documents = repository
        .files
        .iter()
        .filter(|file| file.ends_with(".md") && *file != "CHANGELOG.md");
    let mut wrong = Vec::new();
    let mut count = 0;
    for document in documents {
        let text = read(document);
        count += 1;
        wrong.extend(check(&repository, document, &text));
    }
    assert!(count > 15, "only {count} documents were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn missing_names_are_reported() {
    let repository = Repository::read();
    let text = "# One heading\n\nSee [that](#one-heading), [this](core/gone.md), [there](../README.md#gone), `shared/gone/src`,\n\
        `gone.rs`, `shared/{core,gone}/src`, `tests/workspace/documents.rs`, `step::run`, `step::no_such_item`, `Repository::has_item`.\n\n\
        ```sh\ncargo test -p driftless-gone --test workspace\ncargo bench --bench gone\n```\n";
    assert_eq!(
        check(&repository, "shared/README.md", text),
        [
            "shared/README.md: the link 'core/gone.md' is broken: the file does not exist",
            "shared/README.md: README.md has no heading for '#gone'",
            "shared/README.md: `shared/gone/src` does not exist",
            "shared/README.md: `gone.rs` does not exist",
            "shared/README.md: `shared/{core,gone}/src` does not exist",
            "shared/README.md: `step::no_such_item` is not in the code",
            "shared/README.md: '-p driftless-gone' of `cargo test -p driftless-gone --test workspace` does not exist",
            "shared/README.md: '--bench gone' of `cargo bench --bench gone` does not exist",
        ]
    );
}
