//! Patches: copies that double, lists that are moved, nesting, and expressions that select objects.

use super::texts::{lines, object, of_file};
use super::{Case, refused, succeeds};

const BUILD: &[&str] = &["build", "."];

/// Returns a kustomization that patches one object with a file.
fn patched(object: String, patch: String) -> Vec<(&'static str, String)> {
    let entry = "resources: [r.yaml]\npatches: [{path: p.yaml, target: {kind: ConfigMap}}]\n";
    vec![
        ("kustomization.yaml", entry.to_owned()),
        ("r.yaml", object),
        ("p.yaml", patch),
    ]
}

/// Returns targets of patches that match nothing.
fn targets(count: usize, target: impl Fn(usize) -> String) -> String {
    let patch = "{apiVersion: v1, kind: X, metadata: {name: x}}";
    let entry = |at: usize| format!("- {{target: {}, patch: '{patch}'}}\n", target(at));
    format!("resources: [r.yaml]\npatches:\n{}", lines(count, entry))
}

fn targeted(patches: String, objects: String) -> Vec<(&'static str, String)> {
    vec![("kustomization.yaml", patches), ("r.yaml", objects)]
}

fn objects(count: usize, name: impl Fn(usize) -> String) -> String {
    let one = |at| object("---\n").replace("name: a", &format!("name: {}", name(at)));
    lines(count, one)
}

fn json_patches() -> Vec<Case> {
    let small = || object("data: {a: b}\n");
    let copies = lines(40, |at| {
        format!("- {{op: copy, from: /data, path: /data/x{at}}}\n")
    });
    let list = object(&format!("x:\n{}", "- 1\n".repeat(400_000)));
    let inserts = "- {op: add, path: /x/0, value: 1}\n".repeat(20_000);
    let deeper = "- {op: add, path: /b, value: {}}\n- {op: move, from: /a, path: /b/a}\n\
                  - {op: move, from: /b, path: /a}\n"
        .repeat(10_000);
    let values = vec!["{\"a\":0}"; 1_000_000].join(",");
    vec![
        refused(
            "a JSON patch that doubles an object",
            BUILD,
            patched(small(), copies),
            &["kustomization.yaml:", "values: the limit of one build"],
        ),
        refused(
            "a JSON patch that puts items before 400,000",
            BUILD,
            patched(list, inserts),
            &["kustomization.yaml:", "steps: the limit of one build"],
        ),
        refused(
            "a JSON patch that puts an object into itself",
            BUILD,
            patched(object("a: {}\n"), deeper),
            &["kustomization.yaml:", "levels of nesting in an object"],
        ),
        refused(
            "a JSON patch in JSON with a million maps",
            BUILD,
            patched(
                small(),
                format!("[{{\"op\":\"add\",\"path\":\"/data/x\",\"value\":[{values}]}}]"),
            ),
            &["kustomization.yaml:", "values: the limit of one build"],
        ),
    ]
}

fn deep() -> Vec<Case> {
    let nested = |value: &str| format!("x: {}{value}{}\n", "{a: ".repeat(995), "}".repeat(995));
    vec![
        succeeds(
            "a patch of an object of a thousand levels",
            BUILD,
            vec![
                (
                    "kustomization.yaml",
                    "resources: [r.yaml]\npatches: [{path: p.yaml}]\n".to_owned(),
                ),
                ("r.yaml", object(&nested("1"))),
                ("p.yaml", object(&nested("2"))),
            ],
        ),
        refused(
            "an object of ten thousand levels",
            BUILD,
            of_file(object(&format!("x: {}", "{a: ".repeat(10_000)))),
            &["r.yaml:4:", "more than 1000 levels of nesting"],
        ),
    ]
}

fn expressions() -> Vec<Case> {
    let long_names = || objects(5_000, |at| format!("{}{at}", "a".repeat(200)));
    vec![
        refused(
            "10,000 expressions of large classes",
            BUILD,
            targeted(
                targets(10_000, |at| format!("{{name: '(\\pL{{50}}){{3}}{at}'}}")),
                object(""),
            ),
            &["kustomization.yaml:", "steps: the limit of one build"],
        ),
        refused(
            "one large expression on 5,000 long names",
            BUILD,
            targeted(
                targets(10, |at| format!("{{name: '(\\pL{{50}}){{3}}{at}'}}")),
                long_names(),
            ),
            &["kustomization.yaml:", "steps: the limit of one build"],
        ),
        refused(
            "an expression of 4 MB of braces",
            BUILD,
            targeted(
                targets(1, |_| format!("{{name: '{}'}}", "{".repeat(4_000_000))),
                object(""),
            ),
            &["kustomization.yaml:", "more than 65536 bytes"],
        ),
        refused(
            "an expression of 20,000 classes",
            BUILD,
            targeted(
                targets(1, |_| format!("{{name: '{}'}}", "\\pL".repeat(20_000))),
                object(""),
            ),
            &["kustomization.yaml:", "more than 1000 Unicode classes"],
        ),
        refused(
            "5,000 patches that look for their objects among 20,000",
            BUILD,
            targeted(
                targets(5_000, |at| format!("{{name: b{at}}}")),
                objects(20_000, |at| format!("a{at}")),
            ),
            &["kustomization.yaml:", "steps: the limit of one build"],
        ),
    ]
}

pub fn cases() -> Vec<Case> {
    [json_patches(), deep(), expressions()]
        .into_iter()
        .flatten()
        .collect()
}
