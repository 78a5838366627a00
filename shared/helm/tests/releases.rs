//! What lies around the templates of a release: post-renderers, lookups, dependencies.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests make their own input"
)]

use driftless_helm::values::Table;
use driftless_helm::{
    Capabilities, Chart, ChartFile, Compat, LoadLimits, Lookup, Options, Outcome,
    PostRenderStrategy, PostRenderer, ReleaseInfo, Rendered, manifest_text, render, render_with,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

fn chart(files: &[(&str, &str)]) -> Chart {
    let own = [("Chart.yaml", "apiVersion: v2\nname: top\nversion: 1.0.0\n")];
    let own = own
        .iter()
        .filter(|(name, _)| files.iter().all(|(n, _)| n != name));
    let files = own.chain(files).map(|(name, text)| ChartFile {
        name: (*name).to_owned(),
        data: text.as_bytes().into(),
    });
    Chart::from_files(files.collect(), Compat::Helm4, &LoadLimits::default()).unwrap()
}

fn options() -> Options {
    Options {
        compat: Compat::Helm4,
        release: ReleaseInfo {
            name: "rel".to_owned(),
            namespace: "ns".to_owned(),
            revision: 1,
            is_upgrade: false,
        },
        capabilities: Capabilities::default(),
        now: (0, 0),
        entropy: [0; 32],
        lookups: None,
        limits: Default::default(),
    }
}

fn done(outcome: Outcome) -> Rendered {
    match outcome {
        Outcome::Done(rendered) => *rendered,
        Outcome::Needs(needs) => panic!("{needs:?}"),
    }
}

const A: &str = "apiVersion: v1
kind: Pod
metadata: {name: h, annotations: {helm.sh/hook: pre-install}}
---
apiVersion: v1
kind: Secret
metadata: {name: s}
---
# only a comment
";

const B: &str = "kind: ConfigMap
apiVersion: v1
metadata: {name: b, annotations: {x: \"1\"}}
data: {flag: yes}
---
kind: Namespace
apiVersion: v1
metadata: {name: n}
";

/// What a post-renderer saw, the names of each call, and what became of it.
fn post_rendered(
    strategy: PostRenderStrategy,
    change: impl Fn(&mut Vec<Value>) + Sync,
) -> (Vec<Vec<String>>, Rendered) {
    let chart = chart(&[("templates/a.yaml", A), ("templates/b.yaml", B)]);
    let seen = Mutex::new(Vec::new());
    let run = |mut documents: Vec<Value>| {
        let name = |d: &Value| d["metadata"]["name"].as_str().unwrap().to_owned();
        seen.lock()
            .unwrap()
            .push(documents.iter().map(name).collect());
        change(&mut documents);
        Ok(documents)
    };
    let post = PostRenderer {
        strategy,
        run: &run,
    };
    let outcome = render_with(&chart, &Table::new(), &options(), true, &post).unwrap();
    (seen.into_inner().unwrap(), done(outcome))
}

/// The groups and their order were seen with Helm 4.3.1 and a post-renderer that changes nothing.
#[test]
fn post_renderers_see_what_the_strategy_says() {
    for (strategy, groups) in [
        (PostRenderStrategy::Combined, vec![vec!["h", "s", "b", "n"]]),
        (PostRenderStrategy::NoHooks, vec![vec!["s", "n", "b"]]),
        (
            PostRenderStrategy::Separate,
            vec![vec!["h"], vec!["s", "n", "b"]],
        ),
    ] {
        let (seen, rendered) = post_rendered(strategy, |_| ());
        assert_eq!(seen, groups, "{strategy:?}");
        let sources = rendered
            .manifests
            .iter()
            .map(|m| (m.source.as_str(), m.name.as_str()));
        let sources: Vec<_> = sources.collect();
        let wanted = [
            ("top/templates/b.yaml", "n"),
            ("top/templates/a.yaml", "s"),
            ("top/templates/b.yaml", "b"),
        ];
        assert_eq!(sources, wanted, "{strategy:?}");
        assert_eq!(rendered.hooks[0].manifest.source, "top/templates/a.yaml");
        let text = manifest_text(&rendered, false);
        assert!(!text.contains("postrender"), "{text}");
        assert!(text.contains("x: \"1\""), "{text}");
    }
}

#[test]
fn post_renderers_add_change_and_drop() {
    let (_, rendered) = post_rendered(PostRenderStrategy::Combined, |documents| {
        documents.retain(|d| d["metadata"]["name"] != "s");
        documents[0]["metadata"]["annotations"] = json!({});
        documents.push(json!({"kind": "Job", "metadata": {"name": "new"}}));
    });
    let names: Vec<_> = rendered.manifests.iter().map(|m| m.name.as_str()).collect();
    // The pod is no hook any more, and has lost its place.
    assert_eq!(names, ["n", "b", "h", "new"]);
    assert!(rendered.hooks.is_empty());
    assert_eq!(
        rendered.manifests[3].source,
        "generated-by-postrender-3.yaml"
    );
}

#[test]
fn what_a_post_renderer_says_fails_the_render() {
    let chart = chart(&[("templates/a.yaml", A)]);
    let run = |_: Vec<Value>| Err("no patch fits".to_owned());
    let post = PostRenderer {
        strategy: PostRenderStrategy::Separate,
        run: &run,
    };
    let error = render_with(&chart, &Table::new(), &options(), true, &post).unwrap_err();
    assert_eq!(
        error.to_string(),
        "post-render on hooks of 1 documents: no patch fits"
    );
}

/// Renders until all is known, as the caller with a cluster does.
#[test]
fn lookups_are_asked_for_until_all_are_known() {
    let chart = chart(&[(
        "templates/a.yaml",
        "{{ $first := lookup \"v1\" \"Secret\" \"ns\" \"first\" }}\
         {{ if $first }}{{ $next := lookup \"v1\" \"Secret\" \"ns\" $first.data.next }}\
         found: {{ $next.data.value }}\n\
         all: {{ len (lookup \"v1\" \"Secret\" \"\" \"\").items }}\n{{ end }}",
    )]);
    let secret = |name: &str| Lookup {
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        namespace: if name.is_empty() { "" } else { "ns" }.to_owned(),
        name: name.to_owned(),
    };
    let cluster = BTreeMap::from([
        (secret("first"), json!({"data": {"next": "second"}})),
        (secret("second"), json!({"data": {"value": "v"}})),
        (secret(""), json!({"items": [{}, {}]})),
    ]);
    let mut known = BTreeMap::new();
    let mut rounds = Vec::new();
    let rendered = loop {
        let options = Options {
            lookups: Some(Arc::new(known.clone())),
            ..options()
        };
        match render(&chart, &Table::new(), &options, true).unwrap() {
            Outcome::Done(rendered) => break rendered,
            Outcome::Needs(needs) => {
                rounds.push(needs.iter().map(|n| n.name.clone()).collect::<Vec<_>>());
                known.extend(needs.into_iter().map(|n| (n.clone(), cluster[&n].clone())));
            }
        }
    };
    assert_eq!(rounds, [["first"], ["second"], [""]]);
    assert_eq!(rendered.manifests[0].content, "found: v\nall: 2\n");
}

#[test]
fn missing_dependencies_are_told_as_helm_tells_them() {
    let chart = chart(&[(
        "Chart.yaml",
        "apiVersion: v2\nname: top\nversion: 1.0.0\n\
         dependencies: [{name: a, version: 1.0.0}, {name: b, version: 1.0.0, condition: b.on}]\n",
    )]);
    let error = render(&chart, &Table::new(), &options(), true).unwrap_err();
    let wanted = "An error occurred while checking for chart dependencies. You may need to run `helm dependency build` \
                  to fetch missing dependencies: found in Chart.yaml, but missing in charts/ directory: a, b";
    assert_eq!(error.to_string(), format!("chart top: {wanted}"));
}

/// Data that is nil has no type: a template that is included with it finds nothing in it, and does not fail.
#[test]
fn templates_without_data_find_nothing() {
    let chart = chart(&[(
        "templates/a.yaml",
        "{{ define \"x\" }}[{{ .a.b.c }}]{{ end }}{{ define \"y\" }}{{ include \"x\" .none }}{{ end }}\
         a: x{{ include \"x\" nil }}{{ include \"y\" . }}{{ tpl \"({{ .a.b }})\" nil }}\n",
    )]);
    let rendered = done(render(&chart, &Table::new(), &options(), true).unwrap());
    assert_eq!(rendered.manifests[0].content, "a: x[][]()\n");
}

/// Helm 3.22 and 4.3 read the first document of a chart's files, and nothing behind it.
#[test]
fn what_is_wrong_behind_the_first_document_does_not_count() {
    for behind in ["- name: s\n", "other: 1\n", "---\n{{{\n", "...\n}\n"] {
        let own = format!("  name: top\n  version: 1.2.3\n  apiVersion: v1\n{behind}");
        let dependencies = format!("  dependencies: []\n{behind}");
        let chart = chart(&[
            ("Chart.yaml", &own),
            ("requirements.yaml", &dependencies),
            ("templates/a.yaml", "a: {{ .Chart.Version }}\n"),
        ]);
        let rendered = done(render(&chart, &Table::new(), &options(), true).unwrap());
        assert_eq!(rendered.manifests[0].content, "a: 1.2.3\n", "{behind}");
    }
}
