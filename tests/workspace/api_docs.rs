//! Checks the documentation of the engines' public functions: each has one, which has a section
//! `# Errors` if the function returns a `Result`; and no public function has a string as its error.
//!
//! The files are read line by line, in the form that rustfmt gives them. A function is public if it
//! is `pub` in a public module, or in an `impl` of a type that lib.rs exports; or if it belongs to
//! an exported trait.

use driftless_harness::tools;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The crates that other projects could use.
const ENGINES: [&str; 11] = [
    "apiserver",
    "cel",
    "fuel",
    "git",
    "go",
    "gotmpl",
    "helm",
    "kustomize",
    "manifest",
    "notify",
    "sops",
];

/// A public function.
struct Function {
    /// The crate, the file and the line.
    place: String,
    documentation: String,
    /// The text from `fn` to the body.
    signature: String,
}

#[test]
fn every_public_function_of_an_engine_is_documented() {
    let mut problems = Vec::new();
    let mut count = 0;
    for engine in ENGINES {
        let source = tools::workspace().join("shared").join(engine).join("src");
        for function in public_functions(&source) {
            count += 1;
            problems.extend(problem(&function).map(|what| format!("{}: {what}", function.place)));
        }
    }
    assert!(count > 300, "only {count} functions were found");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn problem(function: &Function) -> Option<&'static str> {
    let answer = function.signature.split("->").last().unwrap_or_default();
    let answer = answer.split(" where").next().unwrap_or_default().trim();
    let is_fallible = function.signature.contains("->")
        && (answer.starts_with("Result<") || answer.contains("::Result<"));
    match () {
        () if function.documentation.is_empty() => Some("no documentation"),
        () if !is_fallible => None,
        () if answer.ends_with(", String>") => Some("a string is the error"),
        () if !function.documentation.contains("# Errors") => Some("no section # Errors"),
        () => None,
    }
}

fn public_functions(source: &Path) -> Vec<Function> {
    let root = fs::read_to_string(source.join("lib.rs")).expect("a lib.rs");
    let exported = exported(&root);
    let mut functions = Vec::new();
    for (file, is_public) in files(source, &root) {
        let text = fs::read_to_string(&file).expect("read a file");
        let place = file.strip_prefix(tools::workspace()).expect("a source");
        collect(
            &text,
            &place.display().to_string(),
            is_public,
            &exported,
            &mut functions,
        );
    }
    functions
}

/// Returns the names in the `pub use` of a lib.rs.
fn exported(root: &str) -> BTreeSet<String> {
    let uses = root.split("\npub use ").skip(1);
    let lists = uses.filter_map(|rest| rest.split(';').next());
    let names = lists.flat_map(|list| list.split(['{', '}', ',', ':', ' ', '\n']));
    names
        .filter(|name| name.starts_with(char::is_alphabetic))
        .map(str::to_owned)
        .collect()
}

/// Returns all files of a crate, each with whether it belongs to a public module.
fn files(source: &Path, root: &str) -> Vec<(PathBuf, bool)> {
    let mut found = vec![(source.join("lib.rs"), true)];
    let mut open = vec![(source.to_path_buf(), root.to_owned(), true)];
    while let Some((directory, parent, is_public)) = open.pop() {
        for line in parent.lines() {
            let is_declared_public = line.starts_with("pub mod ");
            let name = line
                .strip_prefix("pub mod ")
                .or_else(|| line.strip_prefix("pub(crate) mod "))
                .or_else(|| line.strip_prefix("mod "))
                .and_then(|rest| rest.strip_suffix(';'));
            let Some(name) = name else { continue };
            let inner = directory.join(name);
            let file = [inner.join("mod.rs"), directory.join(format!("{name}.rs"))];
            let Some(file) = file.into_iter().find(|file| file.exists()) else {
                continue;
            };
            let text = fs::read_to_string(&file).expect("read a module");
            let is_public = is_public && is_declared_public;
            found.push((file, is_public));
            open.push((inner, text, is_public));
        }
    }
    found
}

fn collect(
    text: &str,
    place: &str,
    is_public: bool,
    exported: &BTreeSet<String>,
    functions: &mut Vec<Function>,
) {
    // The item at the left margin around a line: its keyword and name.
    let mut around: Option<(&str, String)> = None;
    let mut documentation = String::new();
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        if line.starts_with("mod tests {") {
            return;
        }
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        if let Some(comment) = trimmed.strip_prefix("///") {
            documentation.push_str(comment.trim());
            documentation.push('\n');
            continue;
        }
        if trimmed.starts_with("#[") || trimmed.starts_with("//") {
            continue;
        }
        if indent == 0 && !line.is_empty() {
            around = item(line).or(around.filter(|_| !line.starts_with('}')));
        }
        let is_reachable = match (&around, indent) {
            (_, 0) => is_public || name(trimmed).is_some_and(|name| exported.contains(name)),
            (Some((_, name)), 4) => is_public || exported.contains(name),
            _ => false,
        };
        let is_of_trait = matches!(&around, Some(("trait", _))) && indent == 4;
        let is_function = match is_of_trait {
            true => name(trimmed).is_some(),
            false => trimmed.starts_with("pub ") && name(trimmed).is_some(),
        };
        if is_reachable && is_function {
            functions.push(Function {
                place: format!("{place}:{}", at + 1),
                documentation: documentation.clone(),
                signature: signature(&lines[at..]),
            });
        }
        documentation.clear();
    }
}

/// Returns the keyword and the name of a trait, or of the type of an inherent `impl`.
fn item(line: &str) -> Option<(&'static str, String)> {
    let word = |text: &str| {
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
        text[..end.unwrap_or(text.len())].to_owned()
    };
    if let Some(rest) = line.strip_prefix("pub trait ") {
        return Some(("trait", word(rest)));
    }
    let rest = line.strip_prefix("impl")?;
    let rest = match rest.strip_prefix('<') {
        Some(_) => &rest[rest.find("> ")? + 2..],
        None => rest.strip_prefix(' ')?,
    };
    (!rest.contains(" for ")).then(|| ("impl", word(rest)))
}

/// Returns the name of the function that a line declares.
fn name(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let line = line.strip_prefix("const ").unwrap_or(line);
    let line = line.strip_prefix("async ").unwrap_or(line);
    let rest = line.strip_prefix("fn ")?;
    rest.split(['(', '<']).next()
}

/// Returns a declaration up to its body or its semicolon, on one line.
fn signature(lines: &[&str]) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(line.trim());
        text.push(' ');
        if line.ends_with('{') || line.ends_with(';') || line.ends_with('}') {
            break;
        }
    }
    let end = text.find(" {").unwrap_or(text.len());
    text[..end].trim().trim_end_matches(';').to_owned()
}

#[test]
fn the_scanner_finds_public_functions() {
    let text = "\
/// A type that is exported.
pub struct Shown;

impl Shown {
    /// Reads nothing at all.
    ///
    /// # Errors
    /// Never.
    pub fn read(
        &self,
    ) -> Result<(), std::io::Error> {
        Ok(())
    }

    pub(crate) fn hidden() {}

    pub fn bare() -> u8 {
        1
    }
}

impl Hidden {
    pub fn unseen() {}
}

/// Parses nothing at all.
pub fn parse(text: &str) -> Result<(), String> {
";
    let exported = exported("\npub use one::{Shown, parse};\n");
    let mut found = Vec::new();
    collect(text, "f.rs", false, &exported, &mut found);
    let problems: Vec<_> = found
        .iter()
        .map(|one| (one.place.as_str(), problem(one)))
        .collect();
    let want = [
        ("f.rs:9", None),
        ("f.rs:17", Some("no documentation")),
        ("f.rs:27", Some("a string is the error")),
    ];
    assert_eq!(problems, want);
}
