//! Fields of kustomizations that change objects: names, labels, replacements, paths.

use super::texts::{lines, object};
use super::{Case, refused};

const BUILD: &[&str] = &["build", "."];

fn objects(count: usize) -> String {
    let one = |at| object("---\n").replace("name: a", &format!("name: a{at}"));
    lines(count, one)
}

/// Returns a kustomization with these fields and one resource.
fn over(fields: String, objects: String) -> Vec<(&'static str, String)> {
    vec![
        (
            "kustomization.yaml",
            format!("resources: [r.yaml]\n{fields}"),
        ),
        ("r.yaml", objects),
    ]
}

/// Returns a replacement that copies the name of an object into these fields.
fn replacement(paths: &str) -> String {
    format!(
        "- source: {{kind: ConfigMap, name: a, fieldPath: metadata.name}}\n  targets:\n  - select: {{kind: ConfigMap}}\n    \
         options: {{create: true}}\n    fieldPaths: [{paths}]\n"
    )
}

fn names_and_labels() -> Vec<Case> {
    const VALUES: &[&str] = &["kustomization.yaml:", "values: the limit of one build"];
    let long = |length: usize| "p".repeat(length);
    vec![
        refused(
            "a prefix of 5 MB on 2,000 objects",
            BUILD,
            over(format!("namePrefix: {}\n", long(5_000_000)), objects(2_000)),
            VALUES,
        ),
        refused(
            "a label of 1 MB on 20,000 objects",
            BUILD,
            over(
                format!("commonLabels: {{a: {}}}\n", long(1_000_000)),
                objects(20_000),
            ),
            VALUES,
        ),
        refused(
            "20,000 labels on 20,000 objects",
            BUILD,
            over(
                format!(
                    "commonLabels:\n{}",
                    lines(20_000, |at| format!("  l{at}: x\n"))
                ),
                objects(20_000),
            ),
            VALUES,
        ),
        refused(
            "10,000 images for 10,000 pods",
            BUILD,
            over(
                format!(
                    "images:\n{}",
                    lines(10_000, |at| format!("- {{name: i{at}, newTag: x}}\n"))
                ),
                lines(10_000, |at| {
                    format!(
                        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: a{at}}}\nspec: {{containers: [{{name: a, image: b}}]}}\n"
                    )
                }),
            ),
            &["kustomization.yaml:", "steps: the limit of one build"],
        ),
    ]
}

fn replacements() -> Vec<Case> {
    let many = vec!["data.x"; 3_000].join(", ");
    let embedded = format!(
        "data:\n  c: |\n{}",
        lines(70_000, |at| format!("    k{at}: value\n"))
    );
    let into: Vec<String> = (0..10_000).map(|at| format!("data.c.k{at}")).collect();
    vec![
        refused(
            "300 replacements of 3,000 fields",
            BUILD,
            over(
                format!("replacements:\n{}", replacement(&many).repeat(300)),
                object(""),
            ),
            &["kustomization.yaml:", "nodes (aliases expanded)"],
        ),
        refused(
            "10,000 fields in 1 MB of embedded YAML",
            BUILD,
            over(
                format!("replacements:\n{}", replacement(&into.join(", "))),
                object(&embedded),
            ),
            &["kustomization.yaml:", "steps: the limit of one build"],
        ),
        refused(
            "a replacement 200,000 levels down",
            BUILD,
            over(
                format!("replacements:\n{}", replacement(&"a.".repeat(200_000))),
                object(""),
            ),
            &["kustomization.yaml:", "levels in a field path"],
        ),
    ]
}

fn configurations() -> Vec<Case> {
    let definition = |at: usize| {
        let next = at + 1;
        format!(
            "\"D{at}\": {{\"Schema\": {{\"properties\": {{\"kind\": {{}}, \"apiVersion\": {{}}, \"metadata\": {{}}, \
             \"x\": {{\"$ref\": \"D{next}\"}}, \"y\": {{\"$ref\": \"D{next}\"}}}}}}}},\n"
        )
    };
    let mut crds = over("crds: [c.yaml]\n".to_owned(), object(""));
    crds.push(("c.yaml", format!("{{\n{}}}\n", lines(60, definition))));
    vec![
        refused(
            "a label 200,000 levels down",
            BUILD,
            over(
                format!(
                    "labels: [{{pairs: {{a: b}}, fields: [{{path: {}a, create: true}}]}}]\n",
                    "a/".repeat(200_000)
                ),
                object(""),
            ),
            &["kustomization.yaml:", "levels in a field path"],
        ),
        refused(
            "definitions with 2^60 ways through them",
            BUILD,
            crds,
            &["kustomization.yaml:", "steps: the limit of one build"],
        ),
        refused(
            "a kustomization of 360,000 nodes",
            BUILD,
            over(
                format!(
                    "replicas:\n{}",
                    lines(60_000, |at| format!("- {{name: i{at}, count: 1}}\n"))
                ),
                object(""),
            ),
            &["kustomization.yaml:", "nodes (aliases expanded)"],
        ),
    ]
}

pub fn cases() -> Vec<Case> {
    [names_and_labels(), replacements(), configurations()]
        .into_iter()
        .flatten()
        .collect()
}
