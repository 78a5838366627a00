//! Checks that imports have no cycles, for the files of every crate and for the top modules of the
//! core. The API server's top modules are layers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use driftless_harness::{files, tools};

/// The modules that each module imports by `crate::MODULE` (without tests), each with a file that
/// imports it.
type Imports = BTreeMap<String, BTreeMap<String, String>>;

/// The layers of the API server: each imports only modules that are listed before it.
const LAYERS: [&str; 16] = [
    "schema",
    "user",
    "values",
    "expressions",
    "resources",
    "merge",
    "error",
    "objects",
    "store",
    "registry",
    "authorization",
    "authentication",
    "admission",
    "request",
    "controllers",
    "server",
];

/// Modules of the API server with the layer that they belong to: bootstrap works like a controller.
const SAME_LAYER: [(&str, &str); 1] = [("bootstrap", "controllers")];

/// The crates that have the modules of the core.
const CORE: [&str; 4] = [
    "shared/kernel",
    "shared/source",
    "shared/helmrelease",
    "shared/core",
];

#[test]
fn modules_of_the_core_are_a_dag() {
    let (mut modules, mut edges) = (0, 0);
    for name in CORE {
        let imports = imports(&tools::workspace().join(name).join("src"));
        modules += imports.len();
        edges += imports.values().map(BTreeMap::len).sum::<usize>();
        refuse_cycles(name, &imports);
    }
    assert!(edges > 50, "only {edges} imports were read");
    assert!(modules > 25, "{modules} modules");
}

#[test]
fn modules_of_the_api_server_are_layers() {
    let imports = imports(&tools::workspace().join("shared/apiserver/src"));
    let layer = |module: &str| {
        let same_layer = SAME_LAYER.iter().find(|(known, _)| *known == module);
        let module = same_layer.map_or(module, |(_, layer)| layer);
        let found = LAYERS.iter().position(|known| *known == module);
        found.unwrap_or_else(|| panic!("module {module} is not listed in LAYERS"))
    };
    for (module, named) in &imports {
        for (lower, file) in named {
            assert!(
                layer(lower) < layer(module),
                "{file} imports {lower}, which is not below {module}"
            );
        }
    }
    let modules: BTreeSet<&str> = imports.keys().map(String::as_str).collect();
    let missing: Vec<_> = LAYERS.iter().filter(|l| !modules.contains(*l)).collect();
    assert!(missing.is_empty(), "layers without a module: {missing:?}");
}

#[test]
fn files_of_every_crate_are_a_dag() {
    let mut wrong = Vec::new();
    let mut edges = 0;
    let crates = crates();
    for (name, source) in &crates {
        let imports = files(source);
        edges += imports.values().map(BTreeMap::len).sum::<usize>();
        wrong.extend(explain_circles(name, &circles(&imports), &imports));
    }
    assert!(
        crates.len() >= 15,
        "only {} crates were found",
        crates.len()
    );
    assert!(edges > 2_000, "only {edges} imports were read");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the crates of the product, such as `shared/helm`, each with its source directory.
fn crates() -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for group in ["shared", "functions"] {
        let entries = fs::read_dir(tools::workspace().join(group)).expect("a directory of crates");
        for entry in entries {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy();
            let source = path.join("src");
            if source.is_dir() {
                found.push((format!("{group}/{name}"), source));
            }
        }
    }
    found.sort();
    found
}

/// Returns the sets of files that import each other in a circle.
fn circles(imports: &Imports) -> Vec<BTreeSet<String>> {
    let reach: BTreeMap<&str, BTreeSet<&str>> = imports
        .keys()
        .map(|file| (file.as_str(), reachable(imports, file)))
        .collect();
    let mut circles = BTreeSet::new();
    for (file, reached) in &reach {
        if reached.contains(file) {
            let back = |other: &&&str| reach.get(**other).is_some_and(|r| r.contains(file));
            let circle = reached.iter().filter(back);
            circles.insert(circle.map(|file| (*file).to_owned()).collect());
        }
    }
    circles.into_iter().collect()
}

/// Returns the files that a file imports, directly or through others.
fn reachable<'i>(imports: &'i Imports, from: &str) -> BTreeSet<&'i str> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        for next in imports.get(file).into_iter().flat_map(BTreeMap::keys) {
            if found.insert(next.as_str()) {
                open.push(next);
            }
        }
    }
    found
}

/// Returns a message for each file of a circle, with its imports of the circle's files.
fn explain_circles(of: &str, found: &[BTreeSet<String>], imports: &Imports) -> Vec<String> {
    let mut wrong = Vec::new();
    for circle in found {
        for file in circle {
            let others: Vec<_> = imports[file]
                .keys()
                .filter(|to| circle.contains(*to))
                .collect();
            wrong.push(format!(
                "{of}: {file} is in a circle: it imports {others:?}"
            ));
        }
    }
    wrong
}

/// Does not check tests and generated tables.
#[test]
fn every_module_has_a_description() {
    let mut count = 0;
    let mut silent = Vec::new();
    for (_, source) in crates() {
        each_source(&source, &mut |path, text| {
            let inside = path.strip_prefix(&source).expect("a file of the crate");
            let is_test = |part: &Path| part.file_stem().is_some_and(|stem| stem == "tests");
            if inside.ancestors().any(is_test) {
                return;
            }
            count += 1;
            if !text.starts_with("//!")
                && !text.starts_with("#![doc")
                && !text.starts_with("// Written by")
            {
                silent.push(path.display().to_string());
            }
        });
    }
    assert!(count > 500, "only {count} modules were read");
    assert!(silent.is_empty(), "modules without //!: {silent:#?}");
}

/// Files that may call the writes of a cluster's port, with the methods: the applier, and the
/// writers of what is not an object of a user: status and finalizers, events, and Helm's release
/// records.
const WRITERS: [(&str, &[&str]); 7] = [
    (
        "shared/kernel/src/applier.rs",
        &["apply", "create", "patch", "delete"],
    ),
    ("shared/kernel/src/context/status.rs", &["patch"]),
    (
        "shared/kernel/src/context/events/kubernetes.rs",
        &["create"],
    ),
    (
        "shared/helmrelease/src/storage.rs",
        &["create", "patch", "delete"],
    ),
    // Commands and Receivers request reconciliations by annotations.
    ("functions/cli/src/reconcile.rs", &["patch"]),
    ("shared/core/src/webhook/receivers/resources.rs", &["patch"]),
    // A check reports objects of its embedded API server as ready.
    ("shared/fleet/src/check/assumed.rs", &["patch"]),
];

/// Objects of users are written in one place, so that the field manager, preconditions and dry runs
/// are one decision.
#[test]
fn only_one_file_writes_to_clusters() {
    let pattern = r"\bcluster\s*(?:\.as_ref\(\))?\s*\.(apply|create|patch|delete)\(";
    let pattern = regex::Regex::new(pattern).expect("a pattern");
    let (root, mut found) = (
        tools::workspace(),
        BTreeMap::<String, BTreeSet<String>>::new(),
    );
    for (name, source) in crates() {
        // The embedded API server and the adapters implement the port.
        let writes = [
            "shared/core",
            "shared/helmrelease",
            "shared/kernel",
            "shared/source",
            "shared/fleet",
            "functions/cli",
        ];
        if !writes.contains(&&*name) {
            continue;
        }
        each_source(&source, &mut |path, text| {
            let code = text
                .split("#[cfg(test)]\nmod tests")
                .next()
                .unwrap_or_default();
            let file = path.strip_prefix(&root).expect("a file of the workspace");
            let file = file.display().to_string();
            if file.contains("/testing") || file.ends_with("/tests.rs") {
                return;
            }
            for call in pattern.captures_iter(code) {
                found
                    .entry(file.clone())
                    .or_default()
                    .insert(call[1].to_owned());
            }
        });
    }
    let expected = WRITERS.map(|(file, methods)| {
        let methods = methods.iter().map(|method| (*method).to_owned());
        (file.to_owned(), methods.collect())
    });
    assert_eq!(
        found,
        BTreeMap::from(expected),
        "write objects with driftless_kernel::applier"
    );
}

fn each_source(directory: &Path, visit: &mut dyn FnMut(&Path, &str)) {
    for (_, path) in files::below(directory) {
        if path.extension().is_some_and(|end| end == "rs") {
            visit(&path, &fs::read_to_string(&path).expect("a source"));
        }
    }
}

fn refuse_cycles(of: &str, imports: &Imports) {
    if let Some(cycle) = cycle(imports) {
        let steps: Vec<String> = cycle
            .windows(2)
            .map(|pair| {
                format!(
                    "{} -> {} ({})",
                    pair[0], pair[1], imports[&pair[0]][&pair[1]]
                )
            })
            .collect();
        panic!("import cycle of {of}:\n{}", steps.join("\n"));
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
    let knot = imports(&[("a", "b"), ("b", "a"), ("b", "c"), ("c", "a"), ("d", "a")]);
    let found = circles(&knot);
    assert_eq!(found, [BTreeSet::from(["a", "b", "c"].map(str::to_owned))]);
    assert_eq!(
        explain_circles("x", &found, &knot),
        [
            "x: a is in a circle: it imports [\"b\"]",
            "x: b is in a circle: it imports [\"a\", \"c\"]",
            "x: c is in a circle: it imports [\"a\"]"
        ]
    );
    let text =
        "use crate::{ports::{Blobs, Queue}, state};\n// crate::sweep\nlet a = crate::hub::get();\n";
    let found: BTreeSet<String> = named(text).into_iter().collect();
    let expected = ["hub", "ports", "state"].map(str::to_owned);
    assert_eq!(found, BTreeSet::from(expected));
    let text = "use crate::a::{self, b::{c, d as e}};\nuse super::f;\n";
    assert_eq!(
        paths(text),
        [
            "crate::a::self",
            "crate::a::b::c",
            "crate::a::b::d",
            "super::f"
        ]
    );
    let known = BTreeSet::from(["a", "a::b", "a::b::f"].map(str::to_owned));
    assert_eq!(
        file_of("crate::a::b::c", "x", &known),
        Some("a::b".to_owned())
    );
    assert_eq!(file_of("super::f", "a::b", &known), Some("a".to_owned()));
    assert_eq!(
        file_of("super::f", "a::b::c", &known),
        Some("a::b::f".to_owned())
    );
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

/// Adds the modules that a file, or the files of a directory, import.
fn read(path: &Path, named_in: &mut BTreeMap<String, String>) {
    let name = path.file_name().expect("a name").to_string_lossy();
    if path.is_dir() {
        if name != "tests" {
            let entries = fs::read_dir(path).expect("a directory");
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
        let known = named_in.entry(module);
        known.or_insert_with(|| path.display().to_string());
    }
}

/// Returns the files below a directory, as modules such as `objects::table`, with the files that
/// each imports.
fn files(source: &Path) -> Imports {
    let mut texts = BTreeMap::new();
    collect(source, "", &mut texts);
    let modules: BTreeSet<String> = texts.keys().cloned().collect();
    let import = |(module, text): (&String, &String)| {
        let named = paths(text);
        let files = named
            .iter()
            .filter_map(|path| Some((file_of(path, module, &modules)?, path.clone())));
        let others = files.filter(|(file, _)| file != module);
        (module.clone(), others.collect())
    };
    texts.iter().map(import).collect()
}

fn collect(directory: &Path, prefix: &str, out: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(directory).expect("a directory of sources") {
        let path = entry.expect("an entry").path();
        let stem = path.file_stem().expect("a name").to_string_lossy();
        let module = match (prefix, stem.as_ref()) {
            (prefix, "mod") => prefix.to_owned(),
            ("", stem) => stem.to_owned(),
            (prefix, stem) => format!("{prefix}::{stem}"),
        };
        if path.is_dir() {
            collect(&path, &module, out);
        } else if path.extension().is_some_and(|e| e == "rs") && module != "lib" {
            let text = fs::read_to_string(&path).expect("a source file");
            let code = text.split("#[cfg(test)]\nmod tests {").next();
            out.insert(module, code.unwrap_or_default().to_owned());
        }
    }
}

/// Resolves a path in a module to a file.
fn file_of(path: &str, module: &str, modules: &BTreeSet<String>) -> Option<String> {
    let mut base: Vec<&str> = Vec::new();
    let mut steps = path.split("::").peekable();
    if steps.next_if_eq(&"crate").is_none() {
        base = module.split("::").collect();
    }
    while steps.next_if_eq(&"super").is_some() {
        base.pop();
    }
    base.extend(steps);
    while !base.is_empty() {
        let found = base.join("::");
        if modules.contains(&found) {
            return Some(found);
        }
        base.pop();
    }
    None
}

/// Returns the modules that a source imports by `crate::MODULE` or
/// `crate::{MODULE, MODULE::{...}}`, without comments.
fn named(text: &str) -> Vec<String> {
    let paths = paths(text);
    let of_crate = paths.iter().filter_map(|path| path.strip_prefix("crate::"));
    of_crate.map(|path| word(path).to_owned()).collect()
}

/// Returns the paths in a source that begin with `crate::` or `super::`, without comments; a group
/// is split into its paths.
fn paths(text: &str) -> Vec<String> {
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let code = lines.collect::<Vec<_>>().join("\n");
    let mut out = Vec::new();
    let mut rest = code.as_str();
    loop {
        let starts = ["crate::", "super::"].map(|start| rest.find(start));
        let Some(start) = starts.into_iter().flatten().min() else {
            return out;
        };
        // Part of another word, such as `my_crate::`?
        let is_word = rest[..start].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        rest = &rest[start..];
        if is_word {
            rest = &rest["crate::".len()..];
        } else {
            rest = tree(rest, "", &mut out);
        }
    }
}

/// Reads a path with its groups. Returns the rest.
fn tree<'t>(text: &'t str, prefix: &str, out: &mut Vec<String>) -> &'t str {
    let name = word(text);
    let path = format!("{prefix}{name}");
    let rest = &text[name.len()..];
    let Some(below) = rest.strip_prefix("::") else {
        out.push(path);
        return rest;
    };
    let prefix = format!("{path}::");
    let Some(mut group) = below.strip_prefix('{') else {
        return match word(below) {
            "" => below,
            _ => tree(below, &prefix, out),
        };
    };
    loop {
        group = group.trim_start();
        if let Some(rest) = group.strip_prefix('}') {
            return rest;
        }
        if word(group).is_empty() {
            return group;
        }
        group = tree(group, &prefix, out);
        // Skip an alias and the comma.
        let end = group.find([',', '}']).unwrap_or(group.len());
        group = &group[end..];
        group = group.strip_prefix(',').unwrap_or(group);
    }
}

fn word(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    &text[..end.unwrap_or(text.len())]
}

/// Returns a path from a module back to itself, if one exists.
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
