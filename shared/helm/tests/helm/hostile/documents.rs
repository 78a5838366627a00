//! Rendered documents (case 25): bombs, depth, numbers of documents.

use super::engine::{Case, Want, answered, case, file, refused, template, with};

pub fn cases() -> Vec<Case> {
    let in_file = || refused(&["templates/x.yaml"]);
    vec![
        template("of an alias bomb", in_file(), &bomb()),
        template(
            "of 100,000 levels",
            in_file(),
            &format!("a: {}", "[".repeat(100_000)),
        ),
        template("of 100,000 blocks", in_file(), &"- ".repeat(100_000)),
        template(
            "of a duplicate key",
            answered(&["a: 2"]),
            "kind: X\na: 1\na: 2\n",
        ),
        template("of a list", in_file(), "- a\n"),
        template(
            "of metadata that is a string",
            in_file(),
            "kind: X\nmetadata: text\n",
        ),
        template(
            "of annotations that are a list",
            in_file(),
            "metadata: {annotations: [a]}\n",
        ),
        template("of a kind that is a map", in_file(), "kind: {a: b}\n"),
        case(
            "half a million documents in one template",
            in_file(),
            || {
                with(vec![file(
                    "templates/x.yaml",
                    "---\na: 1\n".repeat(500_000),
                )])
            },
        ),
        case(
            "a million empty documents in one template",
            Want::Ends,
            || with(vec![file("templates/x.yaml", "---\n".repeat(1_000_000))]),
        ),
        template(
            "of two million documents, made by a loop",
            in_file(),
            "{{ range until 2000000 }}\n---\na: 1\n{{ end }}",
        ),
        case("a broken document", in_file(), || {
            let done = with(vec![file("templates/x.yaml", "a: [\nsecret: a-secret\n")]);
            if let Err((message, _)) = &done {
                assert!(!message.contains("a-secret"), "{message}");
            }
            done
        }),
        case("crds/ of a bomb", answered(&["&a0"]), || {
            with(vec![file("crds/x.yaml", bomb())])
        }),
    ]
}

/// Returns a document in which each anchor contains the previous one ten times.
pub fn bomb() -> String {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let before = format!("*a{}, ", level - 1).repeat(10);
        text.push_str(&format!("a{level}: &a{level} [{before}]\n"));
    }
    text
}
