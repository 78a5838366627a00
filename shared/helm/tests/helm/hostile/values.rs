//! values.yaml and `-f` files (case 25).

use super::documents::bomb;
use super::engine::{
    CHART, Case, Done, Want, case, file, load, read_values, refused, rendered, with,
};
use driftless_helm::ChartFile;

fn own(name: &str, want: Want, text: String) -> Case {
    case(&format!("values.yaml {name}"), want, move || {
        with(vec![
            file("values.yaml", &text),
            file("templates/x.yaml", "a: {{ toYaml .Values | len }}\n"),
        ])
    })
}

fn user_values(name: &str, want: Want, text: String) -> Case {
    case(&format!("-f of {name}"), want, move || {
        let user = read_values(text.as_bytes())?;
        let chart = load(vec![
            file("Chart.yaml", CHART),
            file("templates/x.yaml", "a: {{ toYaml .Values | len }}\n"),
        ])?;
        rendered(&chart, &user)
    })
}

pub fn cases() -> Vec<Case> {
    let own_file = || refused(&["values.yaml"]);
    let user_file = || refused(&["my-values.yaml"]);
    let deep = || format!("a: {}", "[".repeat(100_000));
    let keys: String = (0..300_000).map(|i| format!("k{i}: {{}}\n")).collect();
    let nested: String = (0..400).map(|i| format!("{}k:\n", " ".repeat(i))).collect();
    vec![
        own("with an alias bomb", own_file(), bomb()),
        own("of 100,000 levels", own_file(), deep()),
        own("that is a list", own_file(), "[]".to_owned()),
        own(
            "of 5 MiB of ones",
            own_file(),
            format!("a: [{}1]", "1,".repeat(2_600_000)),
        ),
        own("of 300,000 keys", own_file(), keys.clone()),
        own(
            "of a string of 5 MiB",
            Want::Ends,
            format!("a: \"{}\"", "\\t".repeat(2_600_000)),
        ),
        own(
            "of a file of 6 MiB",
            Want::Ends,
            format!("a: {}", "x".repeat(6 << 20)),
        ),
        own("of 400 levels", Want::Ends, nested),
        own(
            "of a million documents",
            Want::Ends,
            "---\na: 1\n".repeat(500_000),
        ),
        own(
            "that merges itself",
            own_file(),
            "a: &a\n  <<: *a\n".to_owned(),
        ),
        user_values("an alias bomb", user_file(), bomb()),
        user_values("100,000 levels", user_file(), deep()),
        user_values("a list", user_file(), "[]".to_owned()),
        user_values("300,000 keys", user_file(), keys),
        user_values(
            "broken YAML",
            user_file(),
            "a: [\nsecret: value\n".to_owned(),
        ),
        case(
            "values.yaml of 50 subcharts, 5 MiB each",
            refused(&["values.yaml"]),
            many,
        ),
    ]
}

/// The files share their bytes: the size of the parsed values must be bounded.
fn many() -> Done {
    let text = file("values.yaml", format!("a: [{}1]", "1,".repeat(2_600_000)));
    let files = (0..50).flat_map(|i| {
        let directory = format!("charts/c{i}");
        let values = ChartFile {
            name: format!("{directory}/values.yaml"),
            data: text.data.clone(),
        };
        let chart = format!("apiVersion: v2\nname: c{i}\nversion: 1.0.0\n");
        [file(&format!("{directory}/Chart.yaml"), chart), values]
    });
    with(files.collect())
}
