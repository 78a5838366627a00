//! values.schema.json (case 19): no file, device or host is read, and the cost is bounded.

use super::engine::{Case, Want, case, file, refused, with};

fn schema(name: &str, want: Want, text: String) -> Case {
    case(&format!("schema {name}"), want, move || {
        with(vec![
            file("values.yaml", "a: 1\nb: {c: [1, 2]}\n"),
            file("values.schema.json", &text),
        ])
    })
}

pub fn cases() -> Vec<Case> {
    let mut out: Vec<Case> = [
        "file:///etc/passwd",
        "file:///dev/zero",
        "/dev/zero",
        "http://169.254.170.2/x",
        "https://127.0.0.1:9/x",
        "gopher://x/y",
    ]
    .iter()
    .map(|target| {
        let text = format!("{{\"$ref\": \"{target}\"}}");
        schema(
            &format!("$ref to {target}"),
            refused(&["values.schema.json"]),
            text,
        )
    })
    .collect();
    out.push(schema(
        "$schema that is a host's",
        refused(&["values.schema.json"]),
        "{\"$schema\": \"http://127.0.0.1:9/meta\", \"type\": \"object\"}".to_owned(),
    ));
    let chain = |count: usize| {
        let links: Vec<String> = (0..count)
            .map(|i| format!("\"d{i}\": {{\"$ref\": \"#/$defs/d{}\"}}", i + 1))
            .collect();
        format!(
            "{{\"$ref\": \"#/$defs/d0\", \"$defs\": {{{}, \"d{count}\": true}}}}",
            links.join(", ")
        )
    };
    out.push(schema(
        "chain of 100,000 references",
        refused(&["values.schema.json"]),
        chain(100_000),
    ));
    out.push(schema(
        "reference to itself",
        Want::Ends,
        "{\"$ref\": \"#\"}".to_owned(),
    ));
    out.push(schema(
        "that doubles",
        refused(&["values.schema.json"]),
        doubling(),
    ));
    out.push(schema(
        "of 100,000 levels",
        refused(&["values.schema.json"]),
        format!(
            "{}true{}",
            "{\"not\": ".repeat(100_000),
            "}".repeat(100_000)
        ),
    ));
    out.push(schema(
        "with a catastrophic pattern",
        Want::Ends,
        "{\"patternProperties\": {\"^(a+)+$\": {\"pattern\": \"(x{1000}){1000}\"}}}".to_owned(),
    ));
    out.push(schema(
        "that is not JSON",
        refused(&["values.schema.json"]),
        "{".to_owned(),
    ));
    out
}

/// Returns a schema in which each definition refers to the next one two times: 2^60 checks if all
/// were made.
fn doubling() -> String {
    let steps: Vec<String> = (0..60)
        .map(|i| {
            let next = format!("{{\"$ref\": \"#/$defs/d{}\"}}", i + 1);
            format!("\"d{i}\": {{\"allOf\": [{next}, {next}]}}")
        })
        .collect();
    format!(
        "{{\"$ref\": \"#/$defs/d0\", \"$defs\": {{{}, \"d60\": true}}}}",
        steps.join(", ")
    )
}
