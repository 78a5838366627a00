//! Builds of growing numbers of objects: time and memory must grow no faster than the number.

use crate::cases::Case;
use crate::measure::{engine, library};
use driftless_harness::library::Library;
use driftless_manifest::{EntryKind, FileTree, TreePath};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// The flag of a process that renders once, so that its memory can be measured.
pub const ONLY: &str = "--render";
const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];
/// The largest number for the real library, which takes minutes for more: its time grows with the
/// square of the number.
const MAX_FOR_LIBRARY: usize = 1_000;

/// Returns an overlay with the most common fields, on a base with this number of objects.
fn case(objects: usize) -> Case {
    let mut base = String::from("resources:\n");
    let mut files = BTreeMap::new();
    for file in 0..objects.div_ceil(50) {
        base.push_str(&format!("- r{file}.yaml\n"));
        let numbers = file * 50..objects.min((file + 1) * 50);
        let documents: Vec<String> = numbers.map(object).collect();
        files.insert(format!("base/r{file}.yaml"), documents.join("---\n"));
    }
    files.insert("base/kustomization.yaml".to_owned(), base);
    files.insert(
        "top/kustomization.yaml".to_owned(),
        "resources: [../base]\nnamespace: prod\nnamePrefix: p-\nlabels:\n- pairs: {env: prod}\n  includeSelectors: true\n\
         commonAnnotations: {team: web}\nimages:\n- {name: nginx, newTag: '2'}\n\
         patches:\n- patch: |\n    apiVersion: apps/v1\n    kind: Deployment\n    metadata: {name: d}\n    spec: {replicas: 3}\n  target: {kind: Deployment}\n"
            .to_owned(),
    );
    let mut tree = FileTree::new();
    for (path, text) in &files {
        let path = TreePath::new(path).expect("a path");
        tree.insert(path, EntryKind::File, text.clone().into_bytes())
            .expect("a file");
    }
    Case {
        name: format!("{objects} objects"),
        root: PathBuf::new(),
        dir: "top".to_owned(),
        files,
        tree,
    }
}

fn object(number: usize) -> String {
    if number.is_multiple_of(2) {
        return format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c{number}\ndata:\n  key: value\n  other: \"{number}\"\n"
        );
    }
    let map = number - 1;
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: d{number}\nspec:\n  selector:\n    matchLabels:\n      app: d{number}\n  template:\n    metadata:\n      labels:\n        app: d{number}\n    spec:\n      containers:\n      - name: main\n        image: nginx:1.25\n        envFrom:\n        - configMapRef:\n            name: c{map}\n        ports:\n        - containerPort: 80\n"
    )
}

/// Prints a row for every size.
pub fn report(real: &mut Library) {
    println!(
        "\n| objects | driftless | a thousand objects | its memory at most | the real library | faster |\n| --- | --- | --- | --- | --- | --- |"
    );
    for objects in SIZES {
        let case = case(objects);
        let ours = engine(&case);
        let theirs = (objects <= MAX_FOR_LIBRARY).then(|| library(real, &case));
        let compared = theirs.map_or("not measured | ".to_owned(), |theirs| {
            format!("{:.1} ms | {:.1}x", theirs * 1e3, theirs / ours)
        });
        println!(
            "| {objects} | {:.2} ms | {:.2} ms | {:.1} MiB | {compared} |",
            ours * 1e3,
            ours * 1e6 / objects as f64,
            memory(objects),
        );
    }
}

/// Returns the peak memory of a process that renders once, in MiB.
fn memory(objects: usize) -> f64 {
    let this = std::env::current_exe().expect("this program");
    let done = Command::new(this)
        .args([ONLY, &objects.to_string()])
        .output()
        .expect("run this program");
    String::from_utf8_lossy(&done.stdout)
        .trim()
        .parse()
        .expect("its memory")
}

/// Renders once, and prints the peak memory of the process in MiB.
pub fn render_once(objects: usize) -> ExitCode {
    case(objects).render().expect("the case renders");
    let status = std::fs::read_to_string("/proc/self/status").expect("the state of this process");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|text| text.split_whitespace().next());
    let kib: f64 = kib.and_then(|text| text.parse().ok()).expect("a peak");
    println!("{}", kib / 1024.0);
    ExitCode::SUCCESS
}
