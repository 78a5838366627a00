//! Runs inputs that once took minutes or gigabytes or ended the process, and mutations of them,
//! through every engine that reads them.
//!
//! Each input runs with all its mutations in a separate process: the input itself with the engines'
//! own limits, the mutations at a smaller scale with smaller limits, so that fifty of them take
//! seconds. Each must end with a result or an error within the limits, without an abort, and
//! the process must not use more than 256 MiB. `ulimit -v` protects the machine in case of a
//! defect.
//!
//! `DRIFTLESS_HOSTILE_SEED` sets another seed for the mutations, `DRIFTLESS_HOSTILE_MUTATIONS`
//! another number of them (4 in a debug build, 50 in a release build).

use driftless_fuel::{Fuel, FuelLimits, Tank};
use driftless_go::re2;
use driftless_gotmpl::{Functions, Limits as TemplateLimits, MissingKey, Templates, Value};
use driftless_helm::{
    Chart, ChartFile, Compat, LoadLimits, Options as HelmOptions, Render, values,
};
use driftless_kustomize::{self as kustomize, ObjectSelector, Options, SelectorBudget};
use driftless_manifest::yaml::{self, Dialect};
use driftless_manifest::{EntryKind, FileTree, Object, Reader, TreePath};
use driftless_plans::apply::three_way::three_way;
use driftless_plans::health::{HealthCheck, HealthExprs};
use driftless_plans::substitute::{self, SubstituteOptions};
use serde_json::{Value as Json, json};
use std::num::NonZero;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use usage::{peak, used};

#[path = "../harness/src/usage.rs"]
mod usage;

const CASE: &str = "DRIFTLESS_HOSTILE_ENGINE";
const SEED: &str = "DRIFTLESS_HOSTILE_SEED";
const MUTATIONS: &str = "DRIFTLESS_HOSTILE_MUTATIONS";

/// The largest peak memory of a process, in KiB.
const MEMORY: u64 = 256 << 10;

/// The address space of a process in KiB: a render reserves a stack of 256 MiB, but uses only a
/// part of it.
const ADDRESSES: u64 = 1 << 20;

/// The processor time that one input may take in each engine that reads it, in milliseconds. The
/// limit of a build that is not optimised only ends what never ends.
const PATIENCE: u64 = if cfg!(debug_assertions) {
    60_000
} else {
    2_000
};

/// The factor by which mutations and their limits are smaller than the input.
const SMALLER: usize = 20;

/// The divisor of an input's size and of the limits: 1 for the input itself, [`SMALLER`] for its
/// mutations.
#[derive(Clone, Copy)]
struct Scale(usize);

impl Scale {
    fn of(self, count: usize) -> usize {
        count / self.0
    }

    fn kustomize(self) -> Options {
        let limits = kustomize::Limits::default();
        Options {
            limits: kustomize::Limits {
                steps: self.of(limits.steps),
                nodes: self.of(limits.nodes),
                ..limits
            },
            ..Options::flux()
        }
    }

    fn templates(self) -> TemplateLimits {
        let limits = TemplateLimits::default();
        TemplateLimits {
            steps: limits.steps / self.0 as u64,
            bytes: limits.bytes / self.0 as u64,
            ..limits
        }
    }
}

/// Files with their names; an input of one string is one file.
type Files = Vec<(String, Vec<u8>)>;

struct Case {
    name: &'static str,
    make: fn(Scale) -> Files,
    /// Reads the files with all engines that read such files. Returns a short description of the
    /// results.
    run: fn(&Files, Scale) -> String,
}

fn one(text: String) -> Files {
    vec![("text".to_owned(), text.into_bytes())]
}

fn files<const N: usize>(files: [(&str, String); N]) -> Files {
    let own = |(name, text): (&str, String)| (name.to_owned(), text.into_bytes());
    files.map(own).to_vec()
}

fn describe<T, E: std::fmt::Display>(done: Result<T, E>) -> String {
    match done {
        Ok(_) => "fine".to_owned(),
        Err(error) => error.to_string().chars().take(100).collect(),
    }
}

fn text(files: &Files) -> &[u8] {
    files.first().map_or(&[], |(_, text)| text)
}

// Engines.

/// The processor time of the engines of the current turn, in milliseconds: of all, and of the
/// slowest.
static ALL_ENGINES: AtomicU64 = AtomicU64::new(0);
static SLOWEST_ENGINE: AtomicU64 = AtomicU64::new(0);

/// Runs an engine on a thread with a stack of this size, and counts its processor time.
fn engine<T: Send + 'static>(stack: usize, work: impl FnOnce() -> T + Send + 'static) -> T {
    let before = used();
    let thread = std::thread::Builder::new().stack_size(stack).spawn(work);
    let done = thread.unwrap().join().unwrap();
    let took = used().saturating_sub(before);
    ALL_ENGINES.fetch_add(took, Ordering::Relaxed);
    SLOWEST_ENGINE.fetch_max(took, Ordering::Relaxed);
    done
}

/// Returns the processor time of the slowest engine of a turn that took this time in all. What was
/// not counted by [`engine`] is one engine.
fn slowest_engine(took: u64) -> u64 {
    let rest = took.saturating_sub(ALL_ENGINES.swap(0, Ordering::Relaxed));
    rest.max(SLOWEST_ENGINE.swap(0, Ordering::Relaxed))
}

/// Reads the file as YAML of both dialects, and as the fields of an object.
fn read_yaml(files: &Files, scale: Scale) -> String {
    let text = text(files);
    let limits = yaml::Limits::default();
    let limits = yaml::Limits {
        nodes: scale.of(limits.nodes),
        bytes: scale.of(limits.bytes).max(1 << 20),
        ..limits
    };
    let fuel = Fuel::new(FuelLimits {
        steps: scale.of(10_000_000),
        ..FuelLimits::NONE
    });
    let v3 = yaml::documents_within(text, "in.yaml", Dialect::V3, &limits, &fuel);
    drop(v3);
    let nodes = yaml::parse_with_comments(text, "in.yaml", &limits);
    drop(nodes);
    drop(yaml::parse_path(text, "in.yaml", &limits, &["a", "b"]));
    let v2 = yaml::documents(text, "in.yaml", Dialect::V2, &limits);
    let written = v2.map(|values| {
        values
            .iter()
            .map(|v| yaml::to_string(v).len())
            .sum::<usize>()
    });
    describe(written)
}

fn tree(files: &Files) -> FileTree {
    let mut tree = FileTree::new();
    for (name, content) in files {
        // Skip names that a mutation has made invalid.
        let path = TreePath::new(name);
        let _ = path.map(|path| tree.insert(path, EntryKind::File, content.clone()));
    }
    tree
}

/// Builds the files as the controller does, with the small stack of a server's thread; the result
/// is dropped on that stack.
fn build(files: &Files, scale: Scale) -> String {
    let tree = tree(files);
    let work = move || {
        let (reader, root) = (Reader::new(&tree), TreePath::root());
        let options = scale.kustomize();
        let overlay =
            match kustomize::kustomization_of(&reader, &root, &kustomize::Limits::default()) {
                Ok(overlay) => overlay,
                Err(error) => return describe::<(), _>(Err(error)),
            };
        let build = kustomize::Build::new(&reader, &root).kustomization(&overlay);
        describe(build.options(&options).objects())
    };
    engine(512 << 10, work)
}

fn helm_options(compat: Compat, limits: TemplateLimits) -> HelmOptions {
    HelmOptions {
        compat,
        limits,
        ..HelmOptions::new("rel", "ns")
    }
}

fn chart_file(name: &str, text: &[u8]) -> ChartFile {
    ChartFile {
        name: name.to_owned(),
        data: text.into(),
    }
}

const CHART: &[u8] = b"apiVersion: v2\nname: top\nversion: 1.0.0\n";

/// Renders a chart of these files.
fn render(files: &Files, scale: Scale) -> String {
    let own = files.iter().map(|(name, text)| chart_file(name, text));
    let mut all: Vec<ChartFile> = own.collect();
    if !files.iter().any(|(name, _)| name == "Chart.yaml") {
        all.push(chart_file("Chart.yaml", CHART));
    }
    let work = move || {
        let chart = Chart::from_files(all, Compat::Helm3, &LoadLimits::default());
        let chart = match chart {
            Ok(chart) => chart,
            Err(error) => return describe::<(), _>(Err(error)),
        };
        let options = helm_options(Compat::Helm3, scale.templates());
        describe(Render::new(&chart, &values::Table::new(), &options).run())
    };
    engine(2 << 20, work)
}

/// Executes the file as a template of a chart, and alone with the functions that every template
/// has.
fn template(files: &Files, scale: Scale) -> String {
    let source = String::from_utf8_lossy(text(files)).into_owned();
    let limits = scale.templates();
    let alone = source.clone();
    let work = move || {
        let mut set = Templates::new(Functions::new()).missing_key(MissingKey::Zero);
        if set.parse("t", &alone).is_ok() {
            drop(set.execute("t", Value::Nil, &(), limits));
        }
    };
    engine(256 << 20, work);
    render(&files_of("templates/x.yaml", &source), scale)
}

fn files_of(name: &str, text: &str) -> Files {
    vec![(name.to_owned(), text.as_bytes().to_vec())]
}

/// Uses the file as a regular expression: in the target of a patch, in a rule of drift detection,
/// and in a template's function.
fn expression(files: &Files, scale: Scale) -> String {
    let text = String::from_utf8_lossy(text(files)).into_owned();
    let (_, size) = (re2::translate(&text).is_ok(), re2::expansion(&text));
    let budget = SelectorBudget::default();
    for number in 0..scale.of(2_000) {
        let target = json!({"name": format!("{text}{number}")});
        if ObjectSelector::new(&target, &budget).is_err() {
            break;
        }
    }
    let target = json!({"target": {"name": text}, "patch": "{apiVersion: v1, kind: X, metadata: {name: x}}"});
    let kustomization = json!({"resources": ["r.yaml"], "patches": [target]});
    let object = format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {}}}}}\n",
        "ab".repeat(scale.of(100_000))
    );
    let built = build(
        &self::files([
            ("kustomization.yaml", kustomization.to_string()),
            ("r.yaml", object),
        ]),
        scale,
    );
    let source = format!(
        "{{{{ $s := repeat 5000 \"ab\" }}}}{{{{ range $i := until 100000 }}}}{{{{ $_ := regexMatch (print {} $i) $s }}}}{{{{ end }}}}",
        json!(text)
    );
    let rendered = render(&files_of("templates/x.yaml", &source), scale);
    format!("size {size}; {built}; {rendered}")
}

/// Uses the lines as paths of files, and looks each of them up.
fn paths(files: &Files, _: Scale) -> String {
    let text = String::from_utf8_lossy(text(files)).into_owned();
    let names: Vec<&str> = text.lines().collect();
    let mut tree = FileTree::new();
    for name in &names {
        let _ = TreePath::secure_join(name).map(|path| tree.insert(path, EntryKind::File, ""));
    }
    let reader = Reader::new(&tree);
    let mut found = 0;
    for name in names
        .iter()
        .flat_map(|name| [name, name.split('/').next().unwrap_or_default()])
    {
        let Ok(path) = TreePath::new(name) else {
            continue;
        };
        found += usize::from(reader.kind(&path).is_ok_and(|kind| kind.is_some()));
        found += usize::from(tree.index().is_dir(&path));
    }
    format!("{found} of {}", names.len())
}

/// Uses the file as a JSON pointer into an object.
fn pointer(files: &Files, _: Scale) -> String {
    let text = String::from_utf8_lossy(text(files)).into_owned();
    let key = text.chars().skip(1).take(20).collect::<String>();
    let object = Object::new(
        json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "n"}, "a/b": {"~": [1]}, key: 1}),
    );
    let object = object.unwrap();
    format!("{:?}", object.pointer(&text))
}

/// Evaluates the file as the expression of a health check, over an object with lists.
fn health(files: &Files, scale: Scale) -> String {
    let text = String::from_utf8_lossy(text(files)).into_owned();
    let items: Vec<usize> = (0..scale.of(100).max(10)).collect();
    let words = "word ".repeat(scale.of(1_000));
    let object = json!({"apiVersion": "a.b/v1", "kind": "A", "metadata": {"name": "a"}, "items": items, "words": words});
    let check = HealthCheck {
        api_version: "a.b/v1".to_owned(),
        kind: "A".to_owned(),
        current: text,
        ..HealthCheck::default()
    };
    let object = Object::new(object).unwrap();
    let exprs = match HealthExprs::parse(&[check], &Tank::default()) {
        Ok(exprs) => exprs,
        Err(error) => return describe::<(), _>(Err(error)),
    };
    exprs.assess(&object).map_or_else(String::new, describe)
}

/// Merges the file as the live object with a list of as many ports, as Helm does without
/// server-side apply.
fn merge(files: &Files, scale: Scale) -> String {
    let Ok(live) = serde_json::from_slice::<Json>(text(files)) else {
        return "no JSON".to_owned();
    };
    let Ok(live) = Object::new(live) else {
        return "no object".to_owned();
    };
    let ports: Vec<Json> = (0..scale.of(20_000))
        .map(|port| json!({"containerPort": 100_000 + port, "protocol": "TCP"}))
        .collect();
    let sent = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"ports": ports}});
    let sent = Object::new(sent).unwrap();
    describe(three_way(&sent, &sent, &live, &Tank::default()))
}

/// Substitutes variables in the file.
fn substitution(files: &Files, scale: Scale) -> String {
    let text = String::from_utf8_lossy(text(files)).into_owned();
    let value = "ab".repeat(scale.of(200_000));
    let variables = [("A".to_owned(), value)].into();
    describe(substitute::text(
        &text,
        &variables,
        SubstituteOptions::default(),
    ))
}

// Inputs.

const CONFIG_MAP: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: b}}\n";

/// Returns a few hundred bytes of YAML that become this many values if the aliases are copied.
fn aliases(values: usize) -> String {
    let mut text = "a0: &a0 [x]\n".to_owned();
    let (mut level, mut count) = (0, 1);
    while count < values {
        level += 1;
        count *= 10;
        let refs = vec![format!("*a{}", level - 1); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{refs}]\n"));
    }
    text
}

fn with_patch(patch: String) -> Files {
    let patch = json!({"target": {"kind": "ConfigMap"}, "patch": patch});
    let kustomization = json!({"resources": ["r.yaml"], "patches": [patch]});
    files([
        ("kustomization.yaml", kustomization.to_string()),
        ("r.yaml", CONFIG_MAP.to_owned()),
    ])
}

fn with_replacements(object: String, paths: &[String], options: serde_json::Value) -> Files {
    let replacement = json!({
        "source": {"kind": "Source", "fieldPath": "value"},
        "targets": [{"select": {"kind": "ConfigMap"}, "fieldPaths": paths, "options": options}],
    });
    let source = "{apiVersion: v1, kind: Source, metadata: {name: s}, value: new}\n---\n";
    files([
        (
            "kustomization.yaml",
            json!({"resources": ["r.yaml"], "replacements": [replacement]}).to_string(),
        ),
        ("r.yaml", source.to_owned() + &object),
    ])
}

/// Every input of the review, with the number of its defect, and other inputs that were found
/// later. The name is part of the seed of the mutations.
const CASES: [Case; 30] = [
    Case {
        name: "an expression with three loops",
        make: |_| one("items.all(a, items.all(b, items.all(c, a + b + c >= 0)))".to_owned()),
        run: health,
    },
    Case {
        name: "an expression that reads a string in each round",
        make: |_| {
            let read = "words.contains('none') || words.matches('^(word )*x')";
            one(format!("items.exists(a, items.exists(b, {read}))"))
        },
        run: health,
    },
    Case {
        name: "a merge of long lists with keys",
        make: |scale| {
            let ports: Vec<Json> = (0..scale.of(20_000))
                .map(|port| json!({"containerPort": port, "protocol": "TCP"}))
                .collect();
            let owned = json!({"f:spec": {"f:ports": {"k:{\"containerPort\":1,\"protocol\":\"TCP\"}": {}}}});
            let fields = json!([{"manager": "m", "operation": "Update", "fieldsV1": owned}]);
            one(
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"ports": ports},
                "metadata": {"name": "a", "managedFields": fields}})
                .to_string(),
            )
        },
        run: merge,
    },
    Case {
        name: "patterns over a long variable",
        make: |scale| one("${A//*a*b*a*b*c/x}${A%%*a*b*c}\n".repeat(scale.of(2_000))),
        run: substitution,
    },
    Case {
        name: "1: tags of a long handle",
        make: |scale| {
            let word = "w".repeat(scale.of(1 << 20));
            one(format!(
                "%TAG !e! {word}\n---\n{}",
                "- !e!x\n".repeat(scale.of(100_000))
            ))
        },
        run: read_yaml,
    },
    Case {
        name: "1: aliases",
        make: |scale| one(aliases(scale.of(2_000_000))),
        run: read_yaml,
    },
    Case {
        name: "2: copies of copies",
        make: |_| {
            let copy = |n| format!("- {{op: copy, from: /data, path: /data/x{n}}}\n");
            with_patch((0..40).map(copy).collect())
        },
        run: build,
    },
    Case {
        name: "2: levels below levels",
        make: |scale| {
            let levels = 900;
            let deep = "{a: ".repeat(levels) + "x" + &"}".repeat(levels);
            let step = |n: usize| {
                let path = "/a".repeat(levels * n);
                format!("- {{op: replace, path: '/data/a{path}', value: {deep}}}\n")
            };
            with_patch((0..scale.of(60)).map(step).collect())
        },
        run: build,
    },
    Case {
        name: "4: a merge of many keys",
        make: |scale| {
            let keys: String = (0..scale.of(166_000))
                .map(|n| format!(" k{n}: 1\n"))
                .collect();
            one(format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\nb: &b\n{keys}x: {{<<: *b}}\n"
            ))
        },
        run: |files, scale| {
            let built = build(
                &self::files([("r.yaml", String::from_utf8_lossy(text(files)).into_owned())]),
                scale,
            );
            let rendered = render(
                &vec![("values.yaml".to_owned(), text(files).to_vec())],
                scale,
            );
            format!("{}; {built}; {rendered}", read_yaml(files, scale))
        },
    },
    Case {
        name: "5: many variables",
        make: |scale| {
            let names: String = (0..scale.of(90_000))
                .map(|n| format!("{{{{$a{n}:=1}}}}"))
                .collect();
            one(format!(
                "{names}{{{{range 100000000}}}}{{{{$x := $a0}}}}{{{{end}}}}"
            ))
        },
        run: template,
    },
    Case {
        name: "5: many variables at every level",
        make: |scale| {
            let names: String = (0..scale.of(40_000))
                .map(|n| format!("{{{{$a{n}:=1}}}}"))
                .collect();
            one(format!(
                "{{{{define \"a\"}}}}{names}{{{{template \"a\" .}}}}{{{{end}}}}{{{{template \"a\" .}}}}"
            ))
        },
        run: template,
    },
    Case {
        name: "6: quotes inside of a text",
        make: |scale| {
            let inner = "p: 'C:\\temp'\nq: old\nr: \"a\\tb\"\n".to_owned();
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"f": inner}});
            let paths = vec!["data.f.q".to_owned(); scale.of(2_000)];
            with_replacements(object.to_string(), &paths, json!({}))
        },
        run: build,
    },
    Case {
        name: "7: a large text and many paths into it",
        make: |scale| {
            let inner: String = (0..scale.of(80_000))
                .map(|n| format!("k{n}: v\n"))
                .collect();
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"f": inner}});
            let paths: Vec<String> = (0..scale.of(10_000))
                .map(|n| format!("data.f.k{n}"))
                .collect();
            with_replacements(object.to_string(), &paths, json!({}))
        },
        run: build,
    },
    Case {
        name: "7: aliases in a text and many paths into it",
        make: |scale| {
            let inner = aliases(scale.of(10_000)) + "b: c\n";
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "items": [{"f": inner}]});
            let paths = vec!["items.*.f.b".to_owned(); scale.of(10_000)];
            with_replacements(object.to_string(), &paths, json!({}))
        },
        run: build,
    },
    Case {
        name: "11: large expressions, never the same",
        make: |scale| {
            let patch = |n: usize| json!({"target": {"name": format!("(\\pL{{50}}){{3}}{n}")}, "patch": "{apiVersion: v1, kind: X, metadata: {name: x}}"});
            let patches: Vec<_> = (0..scale.of(10_000)).map(patch).collect();
            files([
                (
                    "kustomization.yaml",
                    json!({"resources": ["r.yaml"], "patches": patches}).to_string(),
                ),
                ("r.yaml", CONFIG_MAP.to_owned()),
            ])
        },
        run: build,
    },
    Case {
        name: "11: an expression with many states",
        make: |_| one("[ab]*a[ab]{900}c".to_owned()),
        run: expression,
    },
    Case {
        name: "12: braces",
        make: |scale| one("{".repeat(scale.of(4 << 20))),
        run: expression,
    },
    Case {
        name: "12: classes",
        make: |scale| one("\\pL".repeat(scale.of(10_000))),
        run: expression,
    },
    Case {
        name: "13: siblings whose names begin alike",
        make: |scale| {
            let siblings: String = (0..scale.of(20_000))
                .map(|n| format!("apps-{n}/x\n"))
                .collect();
            one(format!(
                "apps/x\n{siblings}{}",
                "apps/x\n".repeat(scale.of(20_000))
            ))
        },
        run: paths,
    },
    Case {
        name: "14: a path of many directories",
        make: |scale| one("a/".repeat(scale.of(1 << 19)) + "\n" + &"a/".repeat(2_000) + "x\n"),
        run: |files, scale| {
            let name = String::from_utf8_lossy(text(files)).into_owned();
            let kustomization = json!({"resources": [name.lines().next()]}).to_string();
            let built = build(&self::files([("kustomization.yaml", kustomization)]), scale);
            format!("{}; {built}", paths(files, scale))
        },
    },
    Case {
        name: "16: a name of a group",
        make: |scale| one("(?P<\u{e9}>x)".repeat(scale.of(10_000))),
        run: expression,
    },
    Case {
        name: "17: an escaped pointer",
        make: |scale| one("/a~1b/~0/0".to_owned() + &"/0~1".repeat(scale.of(100_000))),
        run: pointer,
    },
    Case {
        name: "18: lists in lists",
        make: |_| {
            one("{{$l := list}}{{range 2800000}}{{$l = list $l}}{{end}}{{len $l}}".to_owned())
        },
        run: template,
    },
    Case {
        name: "18: lists in lists, written",
        make: |scale| {
            let calls = [
                "toYaml $l",
                "toYamlPretty $l",
                "toJson $l",
                "toToml $l",
                "deepCopy $l",
                "quote $l",
                "deepEqual $l (list $l)",
                "has $l $l",
                "eq $l $l",
                "uniq $l",
                "printf \"%#v\" $l",
                "without $l 1",
                "merge (dict) (dict \"a\" $l)",
                "toPrettyJson $l",
                "join \",\" $l",
                "set (dict) \"a\" $l | toRawJson",
            ];
            let make = |call: &str| {
                let levels = scale.of(200_000);
                format!(
                    "{{{{$l := list}}}}{{{{range {levels}}}}}{{{{$l = list $l}}}}{{{{end}}}}{{{{{call}}}}}"
                )
            };
            let each = |call: &str| ("text".to_owned(), make(call).into_bytes());
            calls.map(each).to_vec()
        },
        run: |files, scale| {
            let each = |file: &(String, Vec<u8>)| template(&vec![file.clone()], scale);
            files.iter().map(each).collect::<Vec<_>>().join("; ")
        },
    },
    Case {
        name: "19: a patch of many levels",
        make: |_| {
            let levels = 990;
            let deep = "{a: ".repeat(levels) + "x" + &"}".repeat(levels);
            let object = |value: &str| {
                format!(
                    "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}, data: {value}}}\n"
                )
            };
            let kustomization = json!({"resources": ["r.yaml"], "patches": [{"patch": object(&deep)}, {"patch": format!("- op: add\n  path: /data/b\n  value: {deep}\n"), "target": {"kind": "ConfigMap"}}]});
            files([
                ("kustomization.yaml", kustomization.to_string()),
                ("r.yaml", object(&deep)),
            ])
        },
        run: build,
    },
    Case {
        name: "a bomb in every document of a file",
        make: |scale| one((aliases(scale.of(100_000)) + "---\n").repeat(1_000)),
        run: |files, scale| {
            build(
                &files_of("r.yaml", &String::from_utf8_lossy(text(files))),
                scale,
            )
        },
    },
    Case {
        name: "a bomb that templates read again and again",
        make: |scale| {
            let bomb = aliases(scale.of(1_000_000)).replace('\n', "\\n");
            one(format!(
                "{{{{$y := \"{bomb}\"}}}}{{{{range 1000000}}}}{{{{$_ := fromYaml $y}}}}{{{{end}}}}"
            ))
        },
        run: template,
    },
    Case {
        name: "a bomb in every document of a template",
        make: |scale| {
            let bomb = aliases(scale.of(100_000));
            one(format!("{{{{range 100000}}}}---\n{bomb}{{{{end}}}}"))
        },
        run: template,
    },
    Case {
        name: "a bomb in the values of every subchart",
        make: |scale| {
            let mut all: Files = Vec::new();
            for number in 0..100 {
                let directory = format!("charts/c{number}");
                let chart = format!(
                    "apiVersion: v2\nname: c{number}\nversion: 1.0.0\nannotations:\n  a: b\n"
                );
                all.push((format!("{directory}/Chart.yaml"), chart.into_bytes()));
                all.push((
                    format!("{directory}/values.yaml"),
                    aliases(scale.of(10_000)).into_bytes(),
                ));
            }
            all
        },
        run: render,
    },
    Case {
        name: "a bomb in every Chart.yaml",
        make: |scale| {
            let mut all: Files = Vec::new();
            for number in 0..100 {
                let name = format!("charts/c{number}/Chart.yaml");
                let bomb = aliases(scale.of(10_000));
                let chart = format!("apiVersion: v2\nname: c{number}\nversion: 1.0.0\n{bomb}");
                all.push((name, chart.into_bytes()));
            }
            all
        },
        run: render,
    },
];

// Mutations.

/// A small pseudo-random number generator, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn new(seed: u64, name: &str) -> Self {
        let seed = name
            .bytes()
            .fold(seed ^ 0x9e37_79b9_7f4a_7c15, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        Self(seed | 1)
    }

    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides.max(1) as u64).unwrap_or(0)
    }
}

/// Strings that have a meaning in one of the formats.
const PIECES: [&str; 42] = [
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "{{",
    "}}",
    "&a ",
    "*a",
    "*a0",
    "<<: ",
    "- ",
    "? ",
    ": ",
    "\n",
    "\n---\n",
    "!e!",
    "!!binary ",
    "%TAG ! x\n",
    "'",
    "\"",
    "\\",
    "|",
    ">",
    "#",
    "~1",
    "/",
    "..",
    "-",
    "*",
    "+",
    "?",
    "{1000}",
    "\\pL",
    "(?P<",
    "range ",
    "end",
    "$a0",
    "\u{e9}",
    "\0",
    "999999999",
];

/// The largest number of bytes that a mutation adds to a file.
const GROWTH: usize = 256 << 10;

fn mutate(files: &mut Files, dice: &mut Dice) {
    let which = dice.roll(files.len());
    let Some((_, text)) = files.get_mut(which) else {
        return;
    };
    let most = text.len() + GROWTH;
    for _ in 0..=dice.roll(4) {
        let at = dice.roll(text.len() + 1).min(text.len());
        let end = (at + 1 + dice.roll(64)).min(text.len());
        let piece = PIECES[dice.roll(PIECES.len())].as_bytes();
        match dice.roll(6) {
            0 => drop(text.drain(at..end)),
            1 => text.truncate(at.max(text.len() / 2)),
            2 => drop(text.splice(at..at, piece.iter().copied())),
            // Repetition is what makes inputs expensive.
            3 => {
                let again = piece.repeat(1 << dice.roll(14));
                drop(text.splice(at..at, again));
            }
            4 => {
                let copy = text[at..end].repeat(1 << dice.roll(8));
                let to = dice.roll(text.len() + 1);
                drop(text.splice(to..to, copy));
            }
            _ => {
                if let Some(byte) = text.get_mut(at) {
                    *byte ^= 1 << dice.roll(7);
                }
            }
        }
        text.truncate(most);
    }
}

// Processes.

fn number(name: &str, otherwise: u64) -> u64 {
    let given = std::env::var(name).ok();
    given
        .and_then(|text| text.parse().ok())
        .unwrap_or(otherwise)
}

fn mutations() -> u64 {
    number(MUTATIONS, if cfg!(debug_assertions) { 4 } else { 50 })
}

fn seed() -> u64 {
    number(SEED, 2_718_281_828)
}

/// Runs the case that the environment names with its mutations, in a process that
/// [`hostile_engines`] has started. Prints the number of each turn before it runs, so that the turn
/// of an abort is known.
#[test]
fn one_engine_case() {
    let Ok(name) = std::env::var(CASE) else {
        return;
    };
    let case = CASES.iter().find(|case| case.name == name).unwrap();
    let mut slowest = (0, String::new());
    let mut dice = Dice::new(seed(), case.name);
    let base = (case.make)(Scale(SMALLER));
    for turn in 0..=mutations() {
        let (input, scale) = match turn {
            0 => ((case.make)(Scale(1)), Scale(1)),
            _ => {
                let mut input = base.clone();
                mutate(&mut input, &mut dice);
                (input, Scale(SMALLER))
            }
        };
        println!("\nbegin {turn}");
        let before = used();
        let done = (case.run)(&input, scale);
        let took = slowest_engine(used().saturating_sub(before));
        if turn == 0 {
            println!("\nfirst {took} ms: {}", done.replace('\n', " "));
        }
        assert!(took <= PATIENCE, "{turn} took {took} ms: {done}");
        assert!(
            peak() <= MEMORY,
            "{turn}: {} MiB at the peak: {done}",
            peak() >> 10
        );
        if took >= slowest.0 {
            slowest = (took, format!("{turn}, {}", done.replace('\n', " ")));
        }
    }
    println!(
        "\nend {} ms for {}; {} MiB",
        slowest.0,
        slowest.1,
        peak() >> 10
    );
}

/// The longest time that a process may run before it is ended.
const LONGEST: Duration = Duration::from_secs(900);

/// Runs a case in a separate process. Returns its last lines, or a description of the failure.
fn run(name: &str) -> Result<String, String> {
    let program = std::env::current_exe().unwrap();
    let limited = format!("ulimit -v {ADDRESSES} && exec \"$0\" \"$@\"");
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(limited)
        .arg(program)
        .args([
            "--exact",
            "one_engine_case",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(CASE, name)
        .env(SEED, seed().to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    let reading = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut out, &mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() && start.elapsed() < LONGEST {
        std::thread::sleep(Duration::from_millis(5));
    }
    // Has no effect if the process has ended.
    child.kill().unwrap();
    let printed = reading.join().unwrap();
    let output = child.wait_with_output().unwrap();
    let last = |word: &str| printed.lines().rev().find(|line| line.starts_with(word));
    match (output.status.success(), last("end ")) {
        (true, Some(end)) => Ok(format!("{}; {end}", last("first ").unwrap_or_default())),
        _ => Err(format!(
            "{name}: {} in turn {:?}: {}",
            output.status,
            last("begin ").unwrap_or_default(),
            String::from_utf8_lossy(&output.stderr)
                .chars()
                .take(600)
                .collect::<String>()
        )),
    }
}

#[test]
fn hostile_engines() {
    println!(
        "seed {} ({SEED}), {} mutations each ({MUTATIONS})",
        seed(),
        mutations()
    );
    let only = std::env::var("DRIFTLESS_HOSTILE_ONLY").unwrap_or_default();
    let chosen: Vec<&Case> = CASES
        .iter()
        .filter(|case| case.name.contains(&only))
        .collect();
    let next = AtomicUsize::new(0);
    let bad = Mutex::new(Vec::new());
    let jobs = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(case) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match run(case.name) {
                        Ok(end) => println!("{}: {end}", case.name),
                        Err(message) => {
                            println!("BAD {message}");
                            bad.lock().unwrap().push(message);
                        }
                    }
                }
            });
        }
    });
    let bad = bad.into_inner().unwrap();
    println!(
        "{} / {} inputs stayed within the limits",
        chosen.len() - bad.len(),
        chosen.len()
    );
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
