//! YAML: aliases, merge keys, tags, numbers of nodes.

use super::{Case, refused, succeeds};

const BUILD: &[&str] = &["build", "."];

/// Returns an object with these fields after its name.
pub fn object(fields: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\n{fields}")
}

/// Returns a kustomization with this one file.
pub fn of_file(text: String) -> Vec<(&'static str, String)> {
    vec![
        ("kustomization.yaml", "resources: [r.yaml]\n".to_owned()),
        ("r.yaml", text),
    ]
}

/// Returns lines that are generated from their numbers.
pub fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect()
}

/// Returns anchors of which each has ten aliases of the one before.
pub fn alias_bomb() -> String {
    let tenfold = |level: usize| {
        let before = vec![format!("*a{}", level - 1); 10].join(", ");
        format!("a{level}: &a{level} [{before}]\n")
    };
    "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned() + &lines(11, |at| tenfold(at + 1))
}

pub fn cases() -> Vec<Case> {
    let long_tag = |rest: &str| {
        let word = "w".repeat(1_000_000);
        format!("%TAG !e! {word}\n--- # the first\n{rest}")
    };
    let keys = lines(166_000, |at| format!("  k{at}: 1\n"));
    let maps = vec!["{a: 1}"; 100_000].join(", ");
    let flat = format!("x: [{}]\n", vec!["1"; 990_000].join(", "));
    let named = |name: &str| object(&flat).replace("name: a", &format!("name: {name}"));
    vec![
        refused(
            "an alias bomb",
            BUILD,
            of_file(object(&alias_bomb())),
            &["r.yaml:9:", "nodes (aliases expanded)"],
        ),
        refused(
            "a long tag on 100,000 values",
            BUILD,
            vec![(
                "kustomization.yaml",
                long_tag(&format!("resources:\n{}", "- !e!x\n".repeat(100_000))),
            )],
            &["kustomization.yaml:", "bytes (aliases expanded)"],
        ),
        refused(
            "a tag for each of 300,000 handles",
            BUILD,
            vec![(
                "kustomization.yaml",
                lines(300_000, |at| format!("%TAG !e{at}! x\n"))
                    + "---\nresources:\n"
                    + &lines(300_000, |at| format!("- !e{at}!x y\n")),
            )],
            &["kustomization.yaml:", "nodes (aliases expanded)"],
        ),
        succeeds(
            "166,000 keys that are merged",
            BUILD,
            of_file(object(&format!("b: &b\n{keys}x: {{<<: *b}}\n"))),
        ),
        refused(
            "maps of one key",
            BUILD,
            of_file(object(&format!("x: [{maps}]\ny: [{maps}]\n"))),
            &["r.yaml:", "nodes (aliases expanded)"],
        ),
        refused(
            "four files of 990,000 nodes",
            BUILD,
            vec![
                (
                    "kustomization.yaml",
                    "resources: [a.yaml, b.yaml, c.yaml, d.yaml]\n".to_owned(),
                ),
                ("a.yaml", named("a")),
                ("b.yaml", named("b")),
                ("c.yaml", named("c")),
                ("d.yaml", named("d")),
            ],
            &["b.yaml: more than", "values: the limit of one build"],
        ),
        refused(
            "lines of text a thousand levels deep",
            BUILD,
            of_file(object(&format!(
                "x: {}\"{}\"{}\n",
                "{a: ".repeat(990),
                "a\\n".repeat(1_000_000),
                "}".repeat(990)
            ))),
            &["bytes of output: the limit of one build"],
        ),
    ]
}
