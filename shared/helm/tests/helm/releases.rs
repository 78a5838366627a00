//! The parts of a release around its templates: post-renderers, lookups, dependencies.

use driftless_helm::values::Table;
use driftless_helm::{
    Chart, ChartFile, Compat, LoadLimits, Lookup, Options, Outcome, PostRenderStrategy,
    PostRenderer, Render, Rendered, manifest_text,
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
        ..Options::new("rel", "ns")
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

/// Runs a post-renderer; returns the names that it saw in each call, and the result.
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
    let outcome = Render::new(&chart, &Table::new(), &options())
        .post_renderer(&post)
        .run()
        .unwrap();
    (seen.into_inner().unwrap(), done(outcome))
}

/// The groups and their order were observed with Helm 4.3.1 and a post-renderer that changes
/// nothing.
#[test]
fn post_renderers_see_the_documents_of_the_strategy() {
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
    // The pod is no longer a hook, and has lost its place.
    assert_eq!(names, ["n", "b", "h", "new"]);
    assert!(rendered.hooks.is_empty());
    assert_eq!(
        rendered.manifests[3].source,
        "generated-by-postrender-3.yaml"
    );
}

#[test]
fn errors_of_a_post_renderer_fail_the_render() {
    let chart = chart(&[("templates/a.yaml", A)]);
    let run = |_: Vec<Value>| Err("no patch fits".into());
    let post = PostRenderer {
        strategy: PostRenderStrategy::Separate,
        run: &run,
    };
    let error = Render::new(&chart, &Table::new(), &options())
        .post_renderer(&post)
        .run()
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "post-render on hooks of 1 documents: no patch fits"
    );
}

/// Renders until all objects are known, like a caller with a cluster.
#[test]
fn lookups_are_requested_until_all_are_known() {
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
        match Render::new(&chart, &Table::new(), &options).run().unwrap() {
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
fn missing_dependencies_get_helms_message() {
    let chart = chart(&[(
        "Chart.yaml",
        "apiVersion: v2\nname: top\nversion: 1.0.0\n\
         dependencies: [{name: a, version: 1.0.0}, {name: b, version: 1.0.0, condition: b.on}]\n",
    )]);
    let error = Render::new(&chart, &Table::new(), &options())
        .run()
        .unwrap_err();
    let wanted = "An error occurred while checking for chart dependencies. You may need to run `helm dependency build` \
                  to fetch missing dependencies: found in Chart.yaml, but missing in charts/ directory: a, b";
    assert_eq!(error.to_string(), format!("chart top: {wanted}"));
}

/// Nil data has no type: a template that is included with it finds nothing in it, and does not
/// fail.
#[test]
fn templates_without_data_find_nothing() {
    let chart = chart(&[(
        "templates/a.yaml",
        "{{ define \"x\" }}[{{ .a.b.c }}]{{ end }}{{ define \"y\" }}{{ include \"x\" .none }}{{ end }}\
         a: x{{ include \"x\" nil }}{{ include \"y\" . }}{{ tpl \"({{ .a.b }})\" nil }}\n",
    )]);
    let rendered = done(
        Render::new(&chart, &Table::new(), &options())
            .run()
            .unwrap(),
    );
    assert_eq!(rendered.manifests[0].content, "a: x[][]()\n");
}

/// Helm 3.22 and 4.3 read only the first document of a chart's files.
#[test]
fn errors_behind_the_first_document_do_not_count() {
    for behind in ["- name: s\n", "other: 1\n", "---\n{{{\n", "...\n}\n"] {
        let own = format!("  name: top\n  version: 1.2.3\n  apiVersion: v1\n{behind}");
        let dependencies = format!("  dependencies: []\n{behind}");
        let chart = chart(&[
            ("Chart.yaml", &own),
            ("requirements.yaml", &dependencies),
            ("templates/a.yaml", "a: {{ .Chart.Version }}\n"),
        ]);
        let rendered = done(
            Render::new(&chart, &Table::new(), &options())
                .run()
                .unwrap(),
        );
        assert_eq!(rendered.manifests[0].content, "a: 1.2.3\n", "{behind}");
    }
}

/// Charts that create keys: a template with some is included again for the checksum of each
/// workload, and by a hook. Thirty-two keys of 4,096 bits and more fit: see the budget's own test
/// for the number.
#[test]
fn charts_with_many_keys_render() {
    const WORKLOADS: usize = 4;
    let keys = "apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData:
  {{- $ca := genCA \"ca\" 365 }}
  {{- $web := genSignedCert \"web\" nil (list \"web\") 365 $ca }}
  jwt: {{ genPrivateKey \"rsa\" | quote }}
  ca: {{ $ca.Cert | quote }}
  key: {{ $web.Key | quote }}
";
    let workload = |number: usize| {
        let sum = "{{ include (print $.Template.BasePath \"/keys.yaml\") . | sha256sum }}";
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p{number}, annotations: {{sum: {sum}}}}}\n"
        );
        (format!("templates/p{number}.yaml"), text)
    };
    let workloads: Vec<(String, String)> = (0..WORKLOADS).map(workload).collect();
    let mut files = vec![("templates/keys.yaml", keys)];
    files.extend(workloads.iter().map(|(name, text)| (&**name, &**text)));
    let rendered = done(
        Render::new(&chart(&files), &Table::new(), &options())
            .run()
            .unwrap(),
    );
    assert_eq!(rendered.manifests.len(), WORKLOADS + 1);
    let text = manifest_text(&rendered, false);
    assert_eq!(text.matches("BEGIN RSA PRIVATE KEY").count(), 2);
    assert_eq!(text.matches("BEGIN CERTIFICATE").count(), 1);
}

/// Packs a chart of these files.
fn packed(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(
        Vec::new(),
        flate2::Compression::fast(),
    ));
    for (name, data) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        tar.append_data(&mut header, name, &**data).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

fn packed_chart(name: &str, files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let chart = format!("apiVersion: v2\nname: {name}\nversion: 1.0.0\n");
    let mut all = vec![(format!("{name}/Chart.yaml"), chart.into_bytes())];
    let files = files.iter().cloned();
    all.extend(files.map(|(inner, data)| (format!("{name}/{inner}"), data)));
    packed(&all)
}

/// Helm's limit applies to each archive separately, no matter how small a packed subchart is.
#[test]
fn large_packed_subcharts_are_held_to_helms_limits() {
    const MIB: usize = 1 << 20;
    let load = |data: &[u8], compat| {
        let limits = LoadLimits::of(compat);
        Chart::from_archive(data, "top.tgz", compat, &limits).map_err(|e| e.to_string())
    };
    let large = || vec![b'x'; 5 * MIB];
    let small = packed_chart("small", &[]);
    let sub = packed_chart(
        "large",
        &[("a", large()), ("b", large()), ("charts/small.tgz", small)],
    );
    let top = |more: &[(&str, Vec<u8>)]| {
        let mut files = vec![("charts/large.tgz", sub.clone())];
        files.extend(more.iter().cloned());
        packed_chart("top", &files)
    };
    for compat in [Compat::Helm3, Compat::Helm4] {
        let chart = load(&top(&[("a", large()), ("b", large())]), compat).unwrap();
        let large = &chart.dependencies[0];
        assert_eq!((large.name(), large.files.len()), ("large", 2));
        assert_eq!(large.dependencies[0].name(), "small");
    }

    let larger = top(&[("a", vec![b'x'; 5 * MIB + 1])]);
    assert!(
        load(&larger, Compat::Helm4).is_ok(),
        "Helm 4 has no limit on one file"
    );
    let error = load(&larger, Compat::Helm3).unwrap_err();
    let want = "decompressed chart file \"top/a\" is larger than the maximum file size 5242880";
    assert!(error.contains("top.tgz") && error.contains(want), "{error}");

    // Helm also refuses exactly its limit. It applies to a subchart separately.
    let with_limit = |bytes: u64, data: &[u8]| {
        let limits = LoadLimits {
            bytes,
            ..LoadLimits::default()
        };
        let chart = Chart::from_archive(data, "top.tgz", Compat::Helm3, &limits);
        chart.map_err(|error| error.to_string())
    };
    let name = b"apiVersion: v2\nname: top\nversion: 1.0.0\n".len() as u64;
    let one = packed_chart("top", &[("a", vec![b'x'; 1_000])]);
    assert!(with_limit(name + 1_001, &one).is_ok());
    let error = with_limit(name + 1_000, &one).unwrap_err();
    assert!(error.contains("larger than the maximum size"), "{error}");
    let nested = packed_chart("top", &[("charts/top.tgz", one), ("a", vec![b'x'; 500])]);
    assert!(with_limit(name + 1_001, &nested).is_ok());
}
