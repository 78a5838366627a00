//! Chart.yaml and related files (cases 17, 18, 22), and files that a chart must not see (case 3).

use super::engine::{
    CHART, Case, Done, Want, answered, case, failed, file, load, refused, rendered, with,
};
use driftless_helm::values::Table;
use driftless_helm::{Chart, ChartFile, Compat, LoadLimits};
use driftless_manifest::{EntryKind, FileTree, Reader, TreePath};

fn chart_yaml(name: &str, want: Want, text: &str) -> Case {
    let text = text.to_owned();
    case(&format!("Chart.yaml {name}"), want, move || {
        rendered(&load(vec![file("Chart.yaml", &text)])?, &Table::new())
    })
}

fn named(name: &str) -> String {
    format!("apiVersion: v2\nname: {name}\nversion: 1.0.0\n")
}

fn dependency(fields: &str) -> String {
    format!("{CHART}dependencies: [{{name: sub, version: '*', {fields}}}]\n")
}

pub fn cases() -> Vec<Case> {
    let mut out = Vec::new();
    for name in [".", "..", "a/../../b", "/etc", "''", "a/b"] {
        let want = refused(&["chart.metadata.name"]);
        out.push(chart_yaml(
            &format!("with the name {name}"),
            want,
            &named(name),
        ));
    }
    for alias in ["\"x\\ny\"", "../x", "a/b", "\"a b\"", "\"\\0\""] {
        let want = refused(&["disallowed characters in the alias"]);
        let text = dependency(&format!("alias: {alias}"));
        out.push(chart_yaml(&format!("with the alias {alias}"), want, &text));
    }
    for text in [
        "null",
        "[]",
        "text",
        "{",
        "name: [a]\nversion: 1.0.0\n",
        "name: {a: b}\nversion: 1.0.0\n",
        "name: a\nversion: null\n",
        "name: a\nversion: x\n",
        "name: a\nversion: 1.0.0\ndependencies: [null]\n",
        "name: a\nversion: 1.0.0\ndependencies: text\n",
        "name: a\nversion: 1.0.0\ndependencies: [[]]\n",
        "name: a\nversion: 1.0.0\ndependencies: [{name: []}]\n",
        "name: a\nversion: 1.0.0\nmaintainers: [null]\n",
        "name: a\nversion: 1.0.0\nmaintainers: 1\n",
        "name: a\nversion: 1.0.0\nkeywords: {}\n",
        "name: a\nversion: 1.0.0\nannotations: []\n",
        "name: a\nversion: 1.0.0\ndeprecated: maybe\n",
        "name: a\nversion: 1.0.0\ntype: other\n",
        "\u{1}",
    ] {
        let shown = text.replace('\n', " ").replace('\u{1}', "U+0001");
        out.push(chart_yaml(
            &format!("of wrong types: {shown}"),
            refused(&["chart"]),
            text,
        ));
    }
    out.push(chart_yaml(
        "with a version of a million digits",
        refused(&["version"]),
        &format!(
            "apiVersion: v2\nname: a\nversion: {}\n",
            "1".repeat(1_000_000)
        ),
    ));
    out.push(chart_yaml(
        "with a kubeVersion of 100,000 ranges",
        Want::Ends,
        &format!("{CHART}kubeVersion: '{}>=1'\n", ">=1 || ".repeat(100_000)),
    ));
    out.push(case(
        "chart without Chart.yaml",
        refused(&["Chart.yaml"]),
        || rendered(&load(vec![file("values.yaml", "")])?, &Table::new()),
    ));
    out.push(case(
        "Chart.lock that is a list",
        refused(&["Chart.lock"]),
        || with(vec![file("Chart.lock", "[]")]),
    ));
    out.push(case(
        "200 nested charts",
        refused(&["nested more than"]),
        || {
            let mut path = String::new();
            let mut files = Vec::new();
            for _ in 0..200 {
                path.push_str("charts/top/");
                files.push(file(&format!("{path}Chart.yaml"), CHART));
            }
            with(files)
        },
    ));
    out.push(case(
        "one subchart under 20,000 aliases",
        refused(&["Chart.yaml"]),
        || aliases(20_000),
    ));
    out.push(case(
        "subcharts that double at each level",
        Want::Ends,
        doubling,
    ));
    out.push(case(
        ".helmignore with a hostile pattern",
        Want::Ends,
        || {
            tree(
                &[
                    (".helmignore", &format!("{}b\n", "*a".repeat(10_000))),
                    (&"a".repeat(200), ""),
                ],
                &[],
            )
        },
    ));
    out.extend(links());
    out.extend(files_functions());
    out
}

fn aliases(count: usize) -> Done {
    let mut text = format!("{CHART}dependencies:\n");
    for i in 0..count {
        text.push_str(&format!("- {{name: sub, version: '*', alias: a{i}}}\n"));
    }
    let files = vec![
        file("Chart.yaml", text),
        file(
            "charts/sub/Chart.yaml",
            "apiVersion: v2\nname: sub\nversion: 1.0.0\n",
        ),
        file("charts/sub/values.yaml", "a: {b: {c: [1, 2, 3]}}\n"),
    ];
    rendered(&load(files)?, &Table::new())
}

/// Builds charts that each name their one subchart under two aliases: 2^30 charts if all were
/// created separately.
fn doubling() -> Done {
    let text = "apiVersion: v2\nname: top\nversion: 1.0.0\n\
        dependencies: [{name: top, version: '*', alias: a}, {name: top, version: '*', alias: b}]\n";
    let mut files: Vec<ChartFile> = vec![file("Chart.yaml", text)];
    let mut path = String::new();
    for level in 0..30 {
        path.push_str("charts/top/");
        files.push(file(
            &format!("{path}Chart.yaml"),
            if level == 29 { CHART } else { text },
        ));
    }
    rendered(&load(files)?, &Table::new())
}

/// Loads a chart of a tree with these files and links.
fn tree(files: &[(&str, &str)], links: &[(&str, &str)]) -> Done {
    let mut tree = FileTree::new();
    let path = |text: &str| TreePath::new(text).unwrap();
    let own = [
        ("secret.yaml", "canary: a-secret-of-another\n"),
        ("chart/Chart.yaml", CHART),
    ];
    for (name, text) in own {
        tree.insert(path(name), EntryKind::File, text.to_owned())
            .unwrap();
    }
    let files = files.iter().map(|file| (file, EntryKind::File));
    let links = links.iter().map(|link| (link, EntryKind::Link));
    for ((name, content), kind) in files.chain(links) {
        let content: String = (*content).to_owned();
        tree.insert(path(&format!("chart/{name}")), kind, content)
            .unwrap();
    }
    let reader = Reader::new(&tree);
    let chart = Chart::from_tree(
        &reader,
        &path("chart"),
        Compat::Helm3,
        &LoadLimits::default(),
    );
    rendered(&chart.map_err(failed)?, &Table::new())
}

fn links() -> Vec<Case> {
    let names = [
        "values.yaml",
        "Chart.lock",
        "templates/x.yaml",
        "values.schema.json",
    ];
    let targets = ["/etc/passwd", "../../../etc/passwd", "../../../../secret"];
    let mut out = Vec::new();
    for (name, target) in names
        .iter()
        .flat_map(|n| targets.iter().map(move |t| (*n, *t)))
    {
        let title = format!("{name} that links to {target}");
        out.push(case(&title, refused(&[name]), move || {
            tree(&[], &[(name, target)])
        }));
    }
    // Inside the repository a link is a file like any other, except that a chart's errors name it.
    let want = refused(&["values.yaml"]);
    out.push(case("values.yaml that links to another file", want, || {
        let done = tree(&[("x.txt", "- a-secret\n")], &[("values.yaml", "x.txt")]);
        if let Err((message, _)) = &done {
            assert!(!message.contains("a-secret"), "{message}");
        }
        done
    }));
    out.push(case(
        "directory that links to itself",
        refused(&["chart"]),
        || tree(&[], &[("templates/loop", "../templates")]),
    ));
    out
}

/// `.Files` has only the chart's own files.
fn files_functions() -> Vec<Case> {
    let paths = [
        "../secret.yaml",
        "/etc/passwd",
        "../../etc/passwd",
        "charts/../../secret.yaml",
    ];
    let of = |path: &str| {
        let text = format!(
            "a: x{{{{ .Files.Get \"{path}\" }}}}.{{{{ range $k, $v := .Files.Glob \"{path}\" }}}}{{{{ $k }}}}{{{{ end }}}}.\n"
        );
        case(
            &format!(".Files of {path}"),
            answered(&["a: x.."]),
            move || tree(&[("templates/x.yaml", &text)], &[]),
        )
    };
    paths.into_iter().map(of).collect()
}
