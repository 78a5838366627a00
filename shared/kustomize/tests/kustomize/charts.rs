//! The calls of a kustomization to the Helm engine, and the use of its answers. The tests of
//! `driftless build` compare with the real tools, over `tests/corpus/kustomize-charts`.

use driftless_kustomize::{Build, ChartCall, ChartFault, Charts, Options, documents_to_yaml};
use driftless_manifest::{EntryKind, FileTree, Reader, TreePath};
use std::cell::RefCell;

/// An engine that records the calls and renders an object of the release.
#[derive(Default)]
struct RecordingEngine(RefCell<Vec<ChartCall>>);

impl Charts for RecordingEngine {
    fn render(&self, call: &ChartCall) -> Result<String, ChartFault> {
        self.0.borrow_mut().push(call.clone());
        match call.release.as_str() {
            "broken" => Err("templates/a.yaml: no such function".into()),
            release => Ok(format!(
                "apiVersion: v1\nkind: Service\nmetadata: {{name: {release}}}\n"
            )),
        }
    }
}

fn tree(kustomization: &str) -> FileTree {
    let mut tree = FileTree::new();
    for (path, text) in [
        ("kustomization.yaml", kustomization),
        ("charts/web/Chart.yaml", "name: web\n"),
        (
            "charts/web/values.yaml",
            "port: \"80\"\nlabels: {team: base, quoted: \"1\"}\nlist: [a]\ngone: 1\n",
        ),
        ("more.yaml", "more: 1\n"),
    ] {
        let path = TreePath::new(path).unwrap();
        tree.insert(path, EntryKind::File, text.as_bytes().to_vec())
            .unwrap();
    }
    tree
}

fn build(kustomization: &str, charts: &RecordingEngine) -> Result<String, String> {
    let tree = tree(kustomization);
    let options = Options {
        enable_helm: true,
        kube_version: Some("1.30.0".to_owned()),
        ..Options::default()
    };
    let (reader, root) = (Reader::new(&tree), TreePath::root());
    let build = Build::new(&reader, &root).options(&options);
    let done = build.charts(charts).documents();
    done.map(|documents| documents_to_yaml(&documents))
        .map_err(|error| error.to_string())
}

#[test]
fn charts_are_rendered_with_the_options_of_helm_template() {
    let charts = RecordingEngine::default();
    let text = "namePrefix: p-\nnamespace: prod\nhelmCharts:\n- name: web\n  releaseName: shop\n  includeCRDs: true\n  additionalValuesFiles: [more.yaml]\n";
    let done = build(text, &charts).unwrap();
    // The namespace is left to the chart.
    assert_eq!(
        done,
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: p-shop\n"
    );
    let calls = charts.0.borrow();
    let call = &calls[0];
    assert_eq!(
        (call.dir.as_str(), call.namespace.as_str()),
        ("charts/web", "default")
    );
    assert_eq!(call.kube_version.as_deref(), Some("1.30.0"));
    assert!(call.include_crds && !call.skip_hooks && !call.skip_tests);
    let names: Vec<&str> = call.values.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["charts/web/values.yaml", "more.yaml"]);
}

#[test]
fn inline_values_are_merged() {
    for (merge, want) in [
        (
            "override",
            "gone: 1\nlabels:\n  new: x\n  quoted: 2\n  team: base\nlist:\n- b\nport: 90\n",
        ),
        (
            "merge",
            "gone: 1\nlabels:\n  new: x\n  quoted: \"1\"\n  team: base\nlist:\n- a\nport: \"80\"\n",
        ),
        (
            "replace",
            "labels:\n  new: x\n  quoted: 2\nlist:\n- b\nport: 90\n",
        ),
    ] {
        let charts = RecordingEngine::default();
        let text = format!(
            "helmCharts:\n- name: web\n  valuesMerge: {merge}\n  valuesInline: {{port: 90, labels: {{quoted: 2, new: x}}, list: [b]}}\n"
        );
        build(&text, &charts).unwrap();
        let calls = charts.0.borrow();
        assert_eq!(calls[0].values[0].text, want, "{merge}");
        assert_eq!(calls[0].release, "release-name");
    }
}

#[test]
fn refusals_name_the_file_and_the_reason() {
    for (entry, want) in [
        ("{name: web, releaseName: broken}", "no such function"),
        ("{name: other}", "chart 'charts/other' not found"),
        (
            "{name: other, repo: 'https://charts.example.com'}",
            "not pulled",
        ),
        ("{name: web, nameTemplate: x}", "give releaseName"),
        ("{name: web, valuesFile: ../x.yaml}", "x.yaml"),
        ("{name: web, releaseName: -x}", "begins with '-'"),
        ("{releaseName: a}", "no name"),
    ] {
        let error = build(
            &format!("helmCharts: [{entry}]\n"),
            &RecordingEngine::default(),
        )
        .unwrap_err();
        assert!(
            error.contains(want) && error.starts_with("kustomization.yaml: "),
            "{entry}: {error}"
        );
    }
    let tree = tree("helmCharts: [{name: web}]\n");
    let enabled = Options {
        enable_helm: true,
        ..Options::default()
    };
    for (options, want) in [
        (Options::default(), "--enable-helm"),
        (enabled, "HelmRelease"),
    ] {
        let (reader, root) = (Reader::new(&tree), TreePath::root());
        let done = Build::new(&reader, &root).options(&options).documents();
        let error = done.unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
    }
}
