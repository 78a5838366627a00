//! The top modules of the core import each other in one direction: a module that another one needs does not need it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use driftless_harness::tools;

/// The modules that each module names by `crate::MODULE`, tests left out, with a file that does.
type Imports = BTreeMap<String, BTreeMap<String, String>>;

#[test]
fn modules_of_the_core_are_a_dag() {
    let imports = imports(&tools::workspace().join("shared/core/src"));
    assert!(imports.len() > 20, "{:?}", imports.keys());
    let kernel: Vec<_> = imports["kernel"].keys().collect();
    assert!(!kernel.is_empty(), "no import was read");
    if let Some(cycle) = cycle(&imports) {
        let steps: Vec<String> = cycle
            .windows(2)
            .map(|pair| {
                format!(
                    "{} -> {} ({})",
                    pair[0], pair[1], imports[&pair[0]][&pair[1]]
                )
            })
            .collect();
        panic!("an import cycle of core's modules:\n{}", steps.join("\n"));
    }
}

#[test]
fn cycles_are_found() {
    let imports = |pairs: &[(&str, &str)]| {
        let mut all = Imports::new();
        for (from, to) in pairs {
            let known = all.entry((*from).to_owned()).or_default();
            known.insert((*to).to_owned(), "mod.rs".to_owned());
        }
        all
    };
    let chain = imports(&[("a", "b"), ("b", "c"), ("a", "c")]);
    assert_eq!(cycle(&chain), None);
    let ring = imports(&[("a", "b"), ("b", "c"), ("c", "b")]);
    assert_eq!(cycle(&ring).unwrap(), ["b", "c", "b"]);
    let text =
        "use crate::{ports::{Blobs, Queue}, state};\n// crate::sweep\nlet a = crate::hub::get();\n";
    let found: BTreeSet<_> = named(text).collect();
    assert_eq!(found, BTreeSet::from(["hub", "ports", "state"]));
}

fn imports(source: &Path) -> Imports {
    let mut imports = Imports::new();
    for entry in fs::read_dir(source).expect("the sources of the core") {
        let path = entry.expect("an entry").path();
        let module = path.file_stem().expect("a name").to_string_lossy();
        if module != "lib" {
            read(&path, imports.entry(module.into_owned()).or_default());
        }
    }
    let modules: BTreeSet<String> = imports.keys().cloned().collect();
    for (module, named) in &mut imports {
        named.retain(|name, _| name != module && modules.contains(name));
    }
    imports
}

/// Adds what a file, or what is in a folder, names.
fn read(path: &Path, named_in: &mut BTreeMap<String, String>) {
    let name = path.file_name().expect("a name").to_string_lossy();
    if path.is_dir() {
        if name != "tests" {
            let entries = fs::read_dir(path).expect("a folder");
            entries.for_each(|entry| read(&entry.expect("an entry").path(), named_in));
        }
        return;
    }
    if !name.ends_with(".rs") || name == "tests.rs" {
        return;
    }
    let text = fs::read_to_string(path).expect("a source file");
    let code = text.split("#[cfg(test)]\nmod tests {").next();
    for module in named(code.unwrap_or_default()) {
        let known = named_in.entry(module.to_owned());
        known.or_insert_with(|| path.display().to_string());
    }
}

/// The modules that a text names by `crate::MODULE` or `crate::{MODULE, MODULE::{...}}`, comments left out.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let code = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    // A group may stand on several lines: its names are found by their depth.
    let lines: Vec<&str> = code.collect();
    let mut found = Vec::new();
    let mut depth = None;
    for line in lines {
        let mut rest = line;
        if depth.is_none() {
            while let Some((_, after)) = rest.split_once("crate::") {
                rest = after;
                if let Some(group) = after.strip_prefix('{') {
                    rest = group;
                    depth = Some(1_usize);
                    break;
                }
                found.push(word(after));
            }
        }
        if let Some(open) = depth {
            depth = group(rest, open, &mut found);
        }
    }
    found.into_iter()
}

/// Reads a line of a group, and returns how deep it is in the group behind it; none when the group has ended.
fn group<'t>(line: &'t str, mut depth: usize, found: &mut Vec<&'t str>) -> Option<usize> {
    let mut is_start = true;
    for (at, letter) in line.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 1 => return None,
            '}' => depth -= 1,
            ',' if depth == 1 => is_start = true,
            letter if letter.is_whitespace() => {}
            _ => {
                if is_start && depth == 1 {
                    found.push(word(&line[at..]));
                }
                is_start = false;
            }
        }
    }
    Some(depth)
}

fn word(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    &text[..end.unwrap_or(text.len())]
}

/// A way from a module back to itself, if there is one.
fn cycle(imports: &Imports) -> Option<Vec<String>> {
    let mut done = BTreeSet::new();
    let mut way = Vec::new();
    imports
        .keys()
        .find_map(|module| visit(imports, module, &mut way, &mut done))
}

fn visit(
    imports: &Imports,
    module: &str,
    way: &mut Vec<String>,
    done: &mut BTreeSet<String>,
) -> Option<Vec<String>> {
    if let Some(start) = way.iter().position(|one| one == module) {
        let mut cycle = way[start..].to_vec();
        cycle.push(module.to_owned());
        return Some(cycle);
    }
    if !done.insert(module.to_owned()) {
        return None;
    }
    way.push(module.to_owned());
    let next = imports.get(module).into_iter().flat_map(BTreeMap::keys);
    let found = next
        .into_iter()
        .find_map(|module| visit(imports, module, way, done));
    way.pop();
    found
}
