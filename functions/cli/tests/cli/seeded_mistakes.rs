//! Typical mistakes of users, each planted once in each suitable file of whole fleets: a check
//! reports it at the changed file.

use crate::check::check;
use driftless_harness::command::Done;
use driftless_harness::skip::has_material;
use driftless_harness::tools;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The environment variable with the sampling interval of the planted mistakes: 1 checks all of
/// them, in all fleets.
const STRIDE: &str = "DRIFTLESS_SEEDED_STRIDE";

/// API groups whose definitions are at hosts that a check does not connect to: their fields are not
/// known.
const UNDEFINED: [&str; 1] = ["kyverno.io"];
/// Mistakes that only a definition reveals.
const OF_SCHEMA: [&str; 3] = [
    "an unknown field in spec",
    "an unknown field at the top",
    "an API version that does not exist",
];

/// The name of a mistake, and the edit of a file; the edit returns `None` for a file without a
/// place for it.
type Mistake = (&'static str, fn(&str) -> Option<String>);

const MISTAKES: [Mistake; 16] = [
    ("a resource that does not exist", |text| {
        let text = is_kustomize(text).then_some(text)?;
        after(text, |line| line == "resources:", "  - absent.yaml")
    }),
    ("a misspelt source", |text| {
        let start = text.find("sourceRef:").filter(|_| !is_patch(text))?;
        let name = start + text[start..].find("name: ")? + "name: ".len();
        Some(format!("{}x{}", &text[..name], &text[name..]))
    }),
    ("a path that does not exist", |text| {
        let text = of_kind(text, "Kustomization")?;
        change(text, |line| {
            let (indent, path) = line.split_once("path: ")?;
            Some(format!(
                "{indent}path: ./absent/{}",
                path.trim_matches(['.', '/', '"'])
            ))
        })
    }),
    ("an unknown field in spec", |text| {
        let text = is_object(text).then_some(text)?;
        after(text, |line| line == "spec:", "  notAField: true")
    }),
    ("an unknown field at the top", |text| {
        let text = is_object(text).then_some(text)?;
        after(text, |line| line.starts_with("kind: "), "notAField: true")
    }),
    ("interval: soon", |text| {
        let text = is_object(text).then_some(text)?;
        change(text, |line| {
            let indent = line.strip_suffix(line.trim_start())?;
            line.trim_start()
                .starts_with("interval: ")
                .then(|| format!("{indent}interval: soon"))
        })
    }),
    ("a Kustomization without prune", |text| {
        let text = of_kind(text, "Kustomization").filter(|text| !is_patch(text))?;
        change(text, |line| line.starts_with("  prune: ").then(String::new))
    }),
    ("a dependency that does not exist", |text| {
        depends(text, "absent")
    }),
    ("a dependency on itself", |text| {
        let name = text
            .lines()
            .find_map(|line| line.strip_prefix("  name: "))?;
        depends(text, name)
    }),
    ("an API version that does not exist", |text| {
        let text = is_object(text).then_some(text)?;
        change(text, |line| {
            let version = line.strip_prefix("apiVersion: ")?;
            let group = version
                .rsplit_once('/')
                .map(|(group, _)| format!("{group}/"));
            Some(format!("apiVersion: {}v99", group.unwrap_or_default()))
        })
    }),
    // kustomize renames a Namespace to the namespace that it sets, and names of roles follow other
    // rules.
    ("a name that is not valid", |text| {
        let is_one =
            is_object(text) && !text.contains("kind: Namespace") && !text.contains("rbac.");
        let text = is_one.then_some(text)?;
        change(text, |line| {
            line.starts_with("  name: ")
                .then(|| "  name: Not_Valid".to_owned())
        })
    }),
    ("a string for a number", |text| {
        change(text, |line| {
            let (indent, _) = line.split_once("replicas: ")?;
            Some(format!("{indent}replicas: many"))
        })
    }),
    ("a quote that is not closed", |text| {
        Some(format!("{}\nbroken: \"\n", text.trim_end()))
    }),
    ("a tab", |text| {
        Some(format!("{}\nbroken:\n\ta: b\n", text.trim_end()))
    }),
    ("a duplicate key", |text| {
        // kustomize accepts a duplicate key in a kustomization file.
        let text = is_object(text).then_some(text)?;
        let kind = text.lines().find(|line| line.starts_with("kind: "))?;
        after(text, |line| line.starts_with("kind: "), kind)
    }),
    ("a kind of source that does not exist", |text| {
        let text = of_kind(text, "HelmRelease")?;
        change(text, |line| {
            (line.trim() == "kind: HelmRepository")
                .then(|| line.replace("HelmRepository", "HelmRepo"))
        })
    }),
];

/// Returns whether this is the content of a kustomization file.
fn is_kustomize(text: &str) -> bool {
    text.contains("kustomize.config.k8s.io")
        || text.contains("\nresources:")
        || text.starts_with("resources:")
}

/// Returns whether this is a file of objects, and not a kustomization file, values or a patch.
fn is_object(text: &str) -> bool {
    !is_kustomize(text) && !is_patch(text) && text.lines().any(|line| line.starts_with("kind: "))
}

/// Returns whether this is a patch, which has fewer fields than its kind requires.
fn is_patch(text: &str) -> bool {
    text.contains("kind: Kustomization")
        && text.contains("kustomize.toolkit")
        && !text.contains("sourceRef:")
        || text.contains("kind: HelmRelease") && !text.contains("chart")
}

fn of_kind<'a>(text: &'a str, kind: &str) -> Option<&'a str> {
    let is_kind = text
        .lines()
        .any(|line| line.strip_prefix("kind: ") == Some(kind));
    (is_kind && !is_kustomize(text)).then_some(text)
}

/// Inserts a line after the first line that matches.
fn after(text: &str, is_meant: impl Fn(&str) -> bool, more: &str) -> Option<String> {
    change(text, |line| {
        is_meant(line).then(|| format!("{line}\n{more}"))
    })
}

/// Changes the first line for which there is a change.
fn change(text: &str, change: impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut is_changed = false;
    let lines: Vec<String> = text
        .lines()
        .map(|line| match change(line) {
            Some(changed) if !is_changed => {
                is_changed = true;
                changed
            }
            _ => line.to_owned(),
        })
        .collect();
    is_changed.then(|| lines.join("\n") + "\n")
}

fn depends(text: &str, on: &str) -> Option<String> {
    let text = of_kind(text, "Kustomization")
        .filter(|text| !text.contains("dependsOn:") && !is_patch(text))?;
    after(
        text,
        |line| line == "spec:",
        &format!("  dependsOn:\n    - name: {on}"),
    )
}

/// A fleet, the arguments of its check, and the directories of files that none of its clusters
/// reads.
struct Fleet {
    name: String,
    root: PathBuf,
    args: Vec<String>,
    unread: &'static [&'static str],
}

fn fleets(all: bool) -> Vec<Fleet> {
    let sample = tools::tests().join("fleet");
    let mut args = vec![
        "--sops-key".to_owned(),
        sample.join("age.agekey").display().to_string(),
    ];
    for team in ["team-a", "team-b"] {
        let directory = sample.join(team);
        args.push("--source".to_owned());
        args.push(format!(
            "https://github.com/acme/{team}={}",
            directory.display()
        ));
    }
    let mut fleets = vec![Fleet {
        name: "the demo's".to_owned(),
        root: sample.join("platform"),
        args,
        unread: &[],
    }];
    let shared = tools::workspace().join("../shared/fleets");
    if all && has_material(&shared) {
        let tenant = shared.join("flux2-multi-tenancy/dev-team");
        let tenant = format!(
            "https://github.com/fluxcd/flux2-multi-tenancy@dev-team={}",
            tenant.display()
        );
        let mut more = |name: &str, args: Vec<String>, unread| {
            let (name, root) = (name.to_owned(), shared.join(name));
            fleets.push(Fleet {
                name,
                root,
                args,
                unread,
            });
        };
        more(
            "flux2-multi-tenancy/main",
            vec!["--source".to_owned(), tenant],
            &[],
        );
        more("multicluster-gitops/main", vec![], &[]);
        // kustomize refuses the tenants even without mistakes, and does not read them further.
        more("multicluster-gitops/dev", vec![], &["utils", "tenants"]);
    }
    fleets
}

/// Returns the YAML files below a directory, by their paths in it.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).expect("list a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| extension == "yaml")
            {
                found.push(path.strip_prefix(root).expect("below the root").to_owned());
            }
        }
    }
    found.sort();
    found
}

fn copy(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().expect("a directory");
    for file in files(from) {
        let target = to.path().join(&file);
        std::fs::create_dir_all(target.parent().expect("a directory")).expect("make a directory");
        let text = std::fs::read(from.join(&file)).expect("read a file");
        std::fs::write(target, text).expect("write a file");
    }
    to
}

/// Returns the errors of a check, each with its file in the fleet and its line.
fn errors(done: &Done, root: &Path) -> BTreeSet<(String, u64, String)> {
    let found: Value = serde_json::from_str(&done.out)
        .unwrap_or_else(|error| panic!("{error}: {}{}", done.out, done.err));
    let root = root.canonicalize().expect("the directory");
    let list = found["errors"].as_array().expect("errors");
    list.iter()
        .map(|error| {
            let file = PathBuf::from(error["file"].as_str().unwrap_or_default());
            let file = file
                .strip_prefix(&root)
                .unwrap_or(&file)
                .display()
                .to_string();
            let message = error["message"].as_str().unwrap_or_default();
            (
                file,
                error["line"].as_u64().unwrap_or_default(),
                message.to_owned(),
            )
        })
        .collect()
}

#[derive(Default)]
struct Row {
    tried: usize,
    /// The number of mistakes that were reported with a file and a line.
    reported: usize,
    /// The number of mistakes that were reported at the changed file.
    at_file: usize,
}

#[test]
fn seeded_mistakes_are_reported_at_their_file() {
    let stride = std::env::var(STRIDE).ok();
    let fleets = fleets(stride.is_some());
    let stride = stride.map_or(5, |text| text.parse().expect("a number"));
    let mut table: BTreeMap<&str, Vec<Row>> = BTreeMap::new();
    let mut missed = Vec::new();
    for (column, fleet) in fleets.iter().enumerate() {
        let args: Vec<&str> = ["-o", "json"]
            .into_iter()
            .chain(fleet.args.iter().map(String::as_str))
            .collect();
        let done = check(&fleet.root, &args);
        let (clean, summary) = (errors(&done, &fleet.root), summary(&done).to_owned());
        let read = read(fleet, &args, &summary);
        let mut planted = Vec::new();
        for file in read {
            let text = std::fs::read_to_string(fleet.root.join(&file)).expect("read a file");
            let is_defined = !UNDEFINED.iter().any(|group| text.contains(group));
            for (name, edit) in MISTAKES {
                if is_defined || !OF_SCHEMA.contains(&name) {
                    planted.extend(edit(&text).map(|text| (name, file.clone(), text)));
                }
            }
        }
        let planted: Vec<_> = planted.into_iter().step_by(stride).collect();
        let next = AtomicUsize::new(0);
        let results = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let copy = copy(&fleet.root);
                    while let Some((name, file, text)) =
                        planted.get(next.fetch_add(1, Ordering::Relaxed))
                    {
                        let path = copy.path().join(file);
                        let before = std::fs::read(&path).expect("read a file");
                        std::fs::write(&path, text).expect("plant a mistake");
                        let done = check(copy.path(), &args);
                        std::fs::write(&path, before).expect("restore the file");
                        let new: Vec<_> = errors(&done, copy.path())
                            .difference(&clean)
                            .cloned()
                            .collect();
                        let file = file.display().to_string();
                        let mut with_line = new.iter().filter(|(_, line, _)| *line > 0);
                        let is_reported = done.code == 1 && with_line.clone().next().is_some();
                        let is_at_file = with_line.any(|(at, ..)| *at == file);
                        let miss = (!is_at_file)
                            .then(|| format!("{}: {file}: {name}: {new:?}", fleet.name));
                        let mut results = results.lock().expect("no panic");
                        results.push((*name, is_reported, miss));
                    }
                });
            }
        });
        for (name, _) in MISTAKES {
            table.entry(name).or_default().push(Row::default());
        }
        for (name, is_reported, miss) in results.into_inner().expect("no panic") {
            let row = &mut table.get_mut(name).expect("a row")[column];
            row.tried += 1;
            row.reported += usize::from(is_reported);
            row.at_file += usize::from(miss.is_none());
            missed.extend(miss);
        }
    }
    let heads: Vec<&str> = fleets.iter().map(|fleet| fleet.name.as_str()).collect();
    eprintln!("| mistake | {} |", heads.join(" | "));
    for (name, rows) in &table {
        let cells: Vec<String> = rows
            .iter()
            .map(|row| format!("{} ({})/{}", row.reported, row.at_file, row.tried))
            .collect();
        eprintln!("| {name} | {} |", cells.join(" | "));
    }
    eprintln!("{}", missed.join("\n"));
    let sum = |of: fn(&Row) -> usize| table.values().flatten().map(of).sum::<usize>();
    let (tried, reported) = (sum(|row| row.tried), sum(|row| row.reported));
    let at_file = sum(|row| row.at_file);
    eprintln!(
        "{reported} of {tried} are reported with file and line, {at_file} at the changed file"
    );
    assert!(tried >= 20, "{tried} mistakes were planted");
    assert!(
        reported * 100 >= tried * 95,
        "{reported} of {tried} are reported"
    );
    assert!(
        at_file * 100 >= tried * 90,
        "{at_file} of {tried} are reported at their file"
    );
}

/// Returns the summary in the last line, without the time.
fn summary(done: &Done) -> &str {
    let line = done.err.lines().last().unwrap_or_default();
    line.split(", in ").next().unwrap_or_default()
}

/// Returns the files that a cluster of the fleet reads: without their content, the check has
/// another outcome.
fn read(fleet: &Fleet, args: &[&str], summary_of_all: &str) -> Vec<PathBuf> {
    let copy = copy(&fleet.root);
    let is_read = |file: &PathBuf| {
        let path = copy.path().join(file);
        let text = std::fs::read(&path).expect("read a file");
        // The definitions of Flux's own installation do not belong to the fleet.
        if text.len() > 100_000
            || fleet
                .unread
                .iter()
                .any(|directory| file.starts_with(directory))
        {
            return false;
        }
        std::fs::write(&path, "# nothing\n").expect("empty a file");
        let done = check(copy.path(), args);
        std::fs::write(&path, text).expect("restore the file");
        summary(&done) != summary_of_all
    };
    files(&fleet.root).into_iter().filter(is_read).collect()
}
