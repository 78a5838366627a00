//! Charts with endless values.

use crate::common::Input;
use driftless_helm::{ChartFile, Compat};

fn input(files: &[(&str, &str)]) -> Input {
    let files = files.iter().map(|(name, text)| ChartFile {
        name: (*name).to_owned(),
        data: text.as_bytes().into(),
    });
    Input {
        files: files.collect(),
        values: Vec::new(),
        set: Vec::new(),
        kube_version: "1.34.0".to_owned(),
        api_versions: Vec::new(),
        upgrade: false,
        check_schema: true,
    }
}

/// Helm's own process ends with a stack overflow here.
#[test]
fn refuses_imports_that_put_a_table_into_itself() {
    let input = input(&[
        (
            "Chart.yaml",
            "apiVersion: v2\nname: top\nversion: 1.0.0\ndependencies:\n- name: s\n  version: 1.0.0\n  import-values:\n  - {child: a, parent: .}\n  - {child: a.a, parent: a}\n  - {child: a, parent: a}\n  - {child: a, parent: .}\n  - {child: a, parent: a.a}\n  - {child: a, parent: a}\n",
        ),
        (
            "charts/s/Chart.yaml",
            "apiVersion: v2\nname: s\nversion: 1.0.0\n",
        ),
        ("charts/s/values.yaml", "a: {a: {a: {a: {b: 1}}}}\n"),
    ]);
    for compat in [Compat::Helm3, Compat::Helm4] {
        let Err(error) = input.render(compat) else {
            panic!("values that hold themselves are rendered as {compat:?}");
        };
        assert!(error.to_string().contains("nested more than"), "{error}");
    }
}
