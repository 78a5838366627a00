//! Input that would cost more than allowed, or read files that it must not read.

use driftless_fuel::{FuelLimits, Tank};
use driftless_kustomize::{Build, ErrorKind, Limits, LoadRestrictor, Options, kustomization_of};
use driftless_manifest::{EntryKind, FileTree, Object, Reader, TreePath};
use serde_json::json;

const CONFIG_MAP: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n";

fn tree(files: &[(&str, &str)]) -> FileTree {
    FileTree::from_files(files.iter().copied()).unwrap()
}

fn render(tree: &FileTree, dir: &str, options: &Options) -> Result<Vec<Object>, String> {
    Build::new(&Reader::new(tree), &TreePath::new(dir).unwrap())
        .options(options)
        .objects()
        .map_err(|error| error.to_string())
}

#[test]
fn a_build_that_empties_the_fuel_of_its_step_names_the_step() {
    let tree = tree(&[
        ("kustomization.yaml", "resources: [a.yaml]\n"),
        ("a.yaml", CONFIG_MAP),
    ]);
    let fuel = Tank::new(FuelLimits {
        steps: 10,
        ..FuelLimits::NONE
    });
    let limits = Limits {
        fuel,
        ..Limits::default()
    };
    let options = Options {
        limits,
        ..Options::default()
    };
    let error = render(&tree, "", &options).unwrap_err();
    let expected = "more than 10 steps: the limit of all work of one step";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_long_chain_of_bases_ends_at_the_limit() {
    let mut tree = FileTree::new();
    for level in 0..10_000 {
        let text = format!("resources: [../{}]\n", level + 1);
        tree.insert(
            TreePath::new(&format!("{level}/kustomization.yaml")).unwrap(),
            EntryKind::File,
            text,
        )
        .unwrap();
    }
    let error = render(&tree, "0", &Options::default()).unwrap_err();
    assert!(
        error.contains("more than 64 levels of kustomizations"),
        "{error}"
    );
}

#[test]
fn a_tree_of_bases_that_doubles_at_every_level_ends_at_the_limit() {
    let mut tree = FileTree::new();
    for level in 0..40 {
        for twin in ["a", "b"] {
            let next = level + 1;
            let text = format!("namePrefix: {twin}\nresources: [../{next}a, ../{next}b]\n");
            let path = TreePath::new(&format!("{level}{twin}/kustomization.yaml")).unwrap();
            tree.insert(path, EntryKind::File, text).unwrap();
        }
    }
    for twin in ["a", "b"] {
        tree.insert(
            TreePath::new(&format!("40{twin}/kustomization.yaml")).unwrap(),
            EntryKind::File,
            "resources: []\n",
        )
        .unwrap();
    }
    let error = render(&tree, "0a", &Options::default()).unwrap_err();
    assert!(error.contains("kustomizations: the limit"), "{error}");
}

#[test]
fn a_cycle_is_reported_with_its_path() {
    let tree = tree(&[
        ("a/kustomization.yaml", "resources: [../b]"),
        ("b/kustomization.yaml", "resources: [../c]"),
        ("c/kustomization.yaml", "resources: [../a]"),
    ]);
    let error = render(&tree, "a", &Options::default()).unwrap_err();
    assert_eq!(error, "cycle: 'a' -> 'b' -> 'c' -> 'a'");
}

#[test]
fn replacements_that_double_an_object_end_at_the_limit() {
    let one = "{source: {kind: ConfigMap, fieldPath: data}, targets: [{select: {kind: ConfigMap}, fieldPaths: [data.x, data.y], options: {create: true}}]}";
    let text = format!(
        "resources: [r.yaml]\nreplacements: [{}]\n",
        vec![one; 64].join(", ")
    );
    let tree = tree(&[
        ("kustomization.yaml", &text),
        (
            "r.yaml",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: b}}",
        ),
    ]);
    let error = render(&tree, "", &Options::default()).unwrap_err();
    assert!(error.contains("the limit of one build"), "{error}");
}

#[test]
fn patches_have_a_budget() {
    let tree = tree(&[
        (
            "kustomization.yaml",
            "resources: [r.yaml]\npatches: [{patch: '{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: y}}'}]\n",
        ),
        ("r.yaml", CONFIG_MAP),
    ]);
    let limits = Limits {
        steps: 3,
        ..Limits::default()
    };
    let error = render(
        &tree,
        "",
        &Options {
            limits,
            ..Options::default()
        },
    )
    .unwrap_err();
    assert!(error.contains("more than 3 steps: the limit"), "{error}");
    assert!(render(&tree, "", &Options::default()).is_ok());
}

#[test]
fn strings_that_must_be_parsed_cost_steps() {
    // Invalid YAML, so that every patch parses it again.
    let text = format!("'[{}'", "a".repeat(60_000));
    let patch = format!(
        "{{patch: \"{{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}, data: {{x: {text}}}}}\"}}"
    );
    let other = "{patch: '{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}'}";
    let object = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: plain}}";
    let text = format!(
        "resources: [r.yaml]\npatches: [{patch}, {}]\n",
        vec![other; 20].join(", ")
    );
    let tree = tree(&[("kustomization.yaml", &text), ("r.yaml", object)]);
    let with = |steps| Options {
        limits: Limits {
            steps,
            ..Limits::default()
        },
        ..Options::default()
    };
    let error = render(&tree, "", &with(1_000_000)).unwrap_err();
    assert!(error.contains("more than 1000000 steps"), "{error}");
    assert!(render(&tree, "", &with(2_000_000)).is_ok());
}

/// Returns a few hundred bytes that are ten to the power of `levels` values when their aliases are
/// copied.
fn aliases(levels: usize) -> String {
    (1..=levels).fold("a0: &a0 [x]\n".to_owned(), |text, i| {
        let refs = vec![format!("*a{}", i - 1); 10].join(", ");
        format!("{text}a{i}: &a{i} [{refs}]\n")
    })
}

/// A string on a path was charged by its bytes, no matter how many values its aliases make.
#[test]
fn strings_with_yaml_are_charged_by_their_values() {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
        "items": [{"f": aliases(4) + "b: c\n"}]});
    let with = |paths: usize| {
        let replacement = json!({"sourceValue": "new",
            "targets": [{"select": {"kind": "ConfigMap"}, "fieldPaths": vec!["items.*.f.b"; paths]}]});
        let kustomization = json!({"resources": ["r.yaml"], "replacements": [replacement]});
        let tree = tree(&[
            ("kustomization.yaml", &kustomization.to_string()),
            ("r.yaml", &object.to_string()),
        ]);
        render(&tree, "", &Options::default())
    };
    assert!(with(10).is_ok());
    let error = with(10_000).unwrap_err();
    assert!(
        error.contains("more than 40000000 steps: the limit"),
        "{error}"
    );
}

/// Each document of a file had the full budget of values of a file.
#[test]
fn the_documents_of_a_file_share_one_budget() {
    let document = format!("{CONFIG_MAP}---\n{}---\n", aliases(5));
    let tree = tree(&[
        ("kustomization.yaml", "resources: [r.yaml]\n"),
        ("r.yaml", &document.repeat(1_000)),
    ]);
    let error = render(&tree, "", &Options::default()).unwrap_err();
    assert!(
        error.starts_with("r.yaml: more than 1500000 values"),
        "{error}"
    );
}

/// Files of the build's own configuration were not charged at all.
#[test]
fn files_of_definitions_cost_what_they_become() {
    let crds = vec!["c.yaml"; 10_000].join(", ");
    let tree = tree(&[
        (
            "kustomization.yaml",
            &format!("resources: [r.yaml]\ncrds: [{crds}]\n"),
        ),
        ("r.yaml", CONFIG_MAP),
        ("c.yaml", &aliases(5)),
    ]);
    let error = render(&tree, "", &Options::default()).unwrap_err();
    assert!(
        error.contains("more than 40000000 steps: the limit"),
        "{error}"
    );
}

/// A patch that replaces, and a replacement that copies, could nest an object deeper with each
/// step.
#[test]
fn objects_cannot_be_nested_deeper_than_a_document() {
    let levels = 900;
    let deep = |inner: &str| "{a: ".repeat(levels) + inner + &"}".repeat(levels);
    let path = "/a".repeat(levels);
    let patch = format!(
        "- op: replace\n  path: /data\n  value: {0}\n- op: replace\n  path: /data{path}\n  value: {0}\n",
        deep("x")
    );
    let patched = json!({"resources": ["r.yaml"],
        "patches": [{"target": {"kind": "ConfigMap"}, "patch": patch}]});
    let copy = json!({"source": {"kind": "ConfigMap", "fieldPath": "data"},
        "targets": [{"select": {"kind": "ConfigMap"}, "fieldPaths": [format!("data{}.b", path.replace('/', "."))], "options": {"create": true}}]});
    let copied = json!({"resources": ["r.yaml"], "replacements": [copy]});
    let object = format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}, data: {}}}",
        deep("{c: d}")
    );
    for kustomization in [patched, copied] {
        let tree = tree(&[
            ("kustomization.yaml", &kustomization.to_string()),
            ("r.yaml", &object),
        ]);
        let error = render(&tree, "", &Options::default()).unwrap_err();
        assert!(
            error.contains("more than 1000 levels of nesting"),
            "{error}"
        );
    }
}

/// The fields of a merge key were compared with each other one by one.
#[test]
fn merge_keys_bring_many_fields() {
    let keys: String = (0..50_000).map(|n| format!(" k{n}: v\n")).collect();
    let object = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\nb: &b\n{keys}data: {{<<: *b, k1: own}}\n"
    );
    let tree = tree(&[
        ("kustomization.yaml", "resources: [r.yaml]\n"),
        ("r.yaml", &object),
    ]);
    let built = render(&tree, "", &Options::default()).unwrap();
    assert_eq!(built[0].pointer("/data/k49999"), Some(&json!("v")));
    assert_eq!(built[0].pointer("/data/k1"), Some(&json!("own")));
}

/// Expressions are charged by their compiled size, and cached only up to a total size.
#[test]
fn large_expressions_cost_steps() {
    let patch = |number: usize| {
        json!({"target": {"name": format!("(\\pL{{50}}){{3}}{number}")},
            "patch": "{apiVersion: v1, kind: X, metadata: {name: x}}"})
    };
    let built = |patches: Vec<serde_json::Value>| {
        let kustomization = json!({"resources": ["r.yaml"], "patches": patches});
        let tree = tree(&[
            ("kustomization.yaml", &kustomization.to_string()),
            ("r.yaml", CONFIG_MAP),
        ]);
        render(&tree, "", &Options::default())
    };
    assert!(
        built(vec![patch(0); 1_000]).is_ok(),
        "one that is known costs little"
    );
    let error = built((0..1_000).map(patch).collect()).unwrap_err();
    assert!(
        error.contains("more than 40000000 steps: the limit"),
        "{error}"
    );
}

/// Values next to the one that a replacement changes in a string keep their style.
#[test]
fn replacements_keep_the_quotes_beside_them() {
    let inner = "p: 'C:\\temp'\nq: old\n";
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"f": inner}});
    let replacement = json!({"sourceValue": "new",
        "targets": [{"select": {"kind": "ConfigMap"}, "fieldPaths": ["data.f.q"]}]});
    let kustomization = json!({"resources": ["r.yaml"], "replacements": [replacement]});
    let tree = tree(&[
        ("kustomization.yaml", &kustomization.to_string()),
        ("r.yaml", &object.to_string()),
    ]);
    let built = render(&tree, "", &Options::default()).unwrap();
    let want = "p: 'C:\\temp'\nq: new";
    assert_eq!(built[0].pointer("/data/f"), Some(&json!(want)));
}

/// kustomize does not look for items of lists when it follows field paths, and has no wildcard in
/// them.
#[test]
fn wildcards_in_field_paths_are_refused() {
    let object = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: $(V), '0': y}}";
    let var = |path: &str| {
        format!(
            "resources: [r.yaml]\nconfigurations: [c.yaml]\n\
             vars: [{{name: V, objref: {{apiVersion: v1, kind: ConfigMap, name: a}}, fieldref: {{fieldpath: '{path}'}}}}]\n"
        )
    };
    let reference = |path: &str| format!("varReference:\n- kind: ConfigMap\n  path: '{path}'\n");
    let built = |var: &str, reference: &str| {
        let tree = tree(&[
            ("kustomization.yaml", var),
            ("c.yaml", reference),
            ("r.yaml", object),
        ]);
        render(&tree, "", &Options::default())
    };
    let fine = built(&var("metadata.name"), &reference("data/x")).unwrap();
    assert_eq!(fine[0].pointer("/data/x"), Some(&json!("a")));
    let error = built(&var("data.*"), &reference("data/x")).unwrap_err();
    assert!(error.contains("has no field 'data.*'"), "{error}");
    for (path, want) in [
        ("data/*", "'data/*': a wildcard is not supported here"),
        ("data/0", "'0' is an item of a list, found a map"),
        ("data/-", "'-' is an item of a list, found a map"),
        ("data/[a=b]", "'[a=b]' is an item of a list, found a map"),
    ] {
        let error = built(&var("metadata.name"), &reference(path)).unwrap_err();
        assert!(error.contains(want), "{path}: {error}");
    }
}

#[test]
fn expressions_take_linear_time() {
    let name = "a".repeat(200);
    let text = "resources: [r.yaml]\npatches: [{target: {name: '(a*)*(a*)*b'}, patch: '{apiVersion: v1, kind: X, metadata: {name: x}}'}]\n";
    let object = CONFIG_MAP.replace("name: a", &format!("name: {name}"));
    let tree = tree(&[("kustomization.yaml", text), ("r.yaml", &object)]);
    assert_eq!(render(&tree, "", &Options::default()).unwrap().len(), 1);
}

#[test]
fn nothing_is_read_from_outside() {
    for (kustomization, want) in [
        ("resources: [../../../etc/passwd]", "leaves the repository"),
        ("resources: [/etc/passwd]", "is absolute"),
        (
            "resources: ['https://user:secret@169.254.170.2/x']",
            "remote",
        ),
        ("resources: [github.com/a/b]", "remote"),
        ("components: ['git@host:a/b']", "remote"),
        (
            "configMapGenerator: [{name: x, files: ['http://localhost:9001/2018']}]",
            "remote",
        ),
        (
            "openapi: {path: ../../../schema.json}",
            "leaves the repository",
        ),
        ("helmCharts: [{name: x}]", "helmCharts is not supported"),
        ("configMapGenerator: [{name: x, files: [link]}]", "absolute"),
        (
            "configMapGenerator: [{name: x, files: [../b/x.txt]}]",
            "not in or below",
        ),
    ] {
        let mut tree = tree(&[
            ("a/kustomization.yaml", kustomization),
            ("b/x.txt", "hidden"),
        ]);
        tree.insert(
            TreePath::new("a/link").unwrap(),
            EntryKind::Link,
            "/etc/passwd",
        )
        .unwrap();
        let error = render(&tree, "a", &Options::default()).unwrap_err();
        assert!(error.contains(want), "{kustomization}: {error}");
        assert!(
            !error.contains("secret") && !error.contains("hidden"),
            "{error}"
        );
    }
}

#[test]
fn fetching_and_running_fields_are_refused_with_file_and_field() {
    const URL: &str = "https://x.example/a";
    let plugin = |field: &str, function: &str| {
        format!(
            "resources: [r.yaml]\n{field}:\n- |-\n  apiVersion: example.com/v1\n  kind: Custom\n  metadata: {{name: x, annotations: {{{function}}}}}\n"
        )
    };
    let mut cases = Vec::new();
    for field in [
        "resources",
        "components",
        "crds",
        "configurations",
        "generators",
        "transformers",
        "validators",
        "patchesStrategicMerge",
    ] {
        let want = format!("a/kustomization.yaml: {field} entry '{URL}' is remote: only files");
        cases.push((format!("resources: [r.yaml]\n{field}: ['{URL}']\n"), want));
    }
    for (field, entry) in [
        ("openapi", format!("{{path: '{URL}'}}")),
        ("patches", format!("[{{path: '{URL}'}}]")),
        ("replacements", format!("[{{path: '{URL}'}}]")),
    ] {
        let want = format!("a/kustomization.yaml: {field} entry '{URL}' is remote: only files");
        cases.push((format!("resources: [r.yaml]\n{field}: {entry}\n"), want));
    }
    for field in ["generators", "transformers", "validators"] {
        let want = format!(
            "a/kustomization.yaml: {field}: Custom x is not supported: plugins that run programs or containers are not run"
        );
        for function in [
            "config.kubernetes.io/function: 'exec: {path: ./x}'",
            "config.kubernetes.io/function: 'container: {image: x}'",
            "config.kubernetes.io/function: 'starlark: {path: ./x.star}'",
            // A Go plugin, which is found by group and kind.
            "",
        ] {
            cases.push((plugin(field, function), want.clone()));
        }
        let unknown = "{apiVersion: builtin, kind: Nope, metadata: {name: x}}";
        let want = format!("a/kustomization.yaml: {field}: Nope is not supported: not a built-in");
        cases.push((
            format!("resources: [r.yaml]\n{field}: ['{unknown}']\n"),
            want,
        ));
    }
    for (kustomization, want) in cases {
        let tree = tree(&[
            ("a/kustomization.yaml", &kustomization),
            ("a/r.yaml", CONFIG_MAP),
        ]);
        let error = render(&tree, "a", &Options::default()).unwrap_err();
        assert!(error.starts_with(&want), "{kustomization}: {error}");
    }
}

#[test]
fn links_stay_under_the_load_restrictor() {
    let mut tree = tree(&[
        ("a/kustomization.yaml", "resources: [r.yaml]"),
        ("b/r.yaml", CONFIG_MAP),
    ]);
    tree.insert(
        TreePath::new("a/r.yaml").unwrap(),
        EntryKind::Link,
        "../b/r.yaml",
    )
    .unwrap();
    assert!(
        render(&tree, "a", &Options::default())
            .unwrap_err()
            .contains("not in or below")
    );
    let anywhere = Options {
        load_restrictor: LoadRestrictor::None,
        ..Options::default()
    };
    assert_eq!(render(&tree, "a", &anywhere).unwrap().len(), 1);
}

#[test]
fn every_question_is_recorded() {
    let before = tree(&[
        ("a/kustomization.yaml", "resources: [r.yaml]"),
        ("a/r.yaml", CONFIG_MAP),
    ]);
    let reader = Reader::new(&before);
    let built = Build::new(&reader, &TreePath::new("a").unwrap()).objects();
    built.unwrap();
    let read = reader.into_read_set();
    let with_second = tree(&[
        ("a/kustomization.yaml", "resources: [r.yaml]"),
        ("a/kustomization.yml", "resources: [r.yaml]"),
        ("a/r.yaml", CONFIG_MAP),
    ]);
    assert!(!read.is_unchanged_in(with_second.index()));
    assert!(read.is_unchanged_in(before.index()));
}

#[test]
fn two_kustomization_files_are_refused() {
    let tree = tree(&[
        ("two/kustomization.yml", "resources: [r.yaml]"),
        ("two/Kustomization", "resources: [r.yaml]"),
        ("two/r.yaml", CONFIG_MAP),
        ("above/a.yaml", CONFIG_MAP),
        ("above/two/kustomization.yaml", "resources: []"),
        ("above/two/kustomization.yml", "resources: []"),
    ]);
    let reader = Reader::new(&tree);
    let two =
        "two: found multiple kustomization files (kustomization.yml, Kustomization): keep one";
    let above = "above/two: found multiple kustomization files (kustomization.yaml, kustomization.yml): keep one";
    for (dir, words) in [("two", two), ("above", above)] {
        let dir = TreePath::new(dir).unwrap();
        let error = kustomization_of(&reader, &dir, &Limits::default()).unwrap_err();
        assert_eq!(error.to_string(), words);
    }
    let built = Build::new(&reader, &TreePath::new("two").unwrap()).objects();
    assert_eq!(built.unwrap_err().to_string(), two);
}

#[test]
fn a_kustomization_is_found_or_generated_like_flux() {
    let tree = tree(&[
        ("none/b.yml", CONFIG_MAP),
        ("none/a/x.yaml", CONFIG_MAP),
        ("none/base/kustomization.yml", "resources: [r.yaml]"),
        ("none/base/r.yaml", "not even: an object"),
        ("none/notes.txt", "x"),
        ("own/Kustomization", "resources: [x.yaml]\nunknown: 1\n"),
        ("bare/kustomization.yaml", "namespace: x\n"),
        ("empty/readme.md", ""),
        ("bad/values.yaml", "a: 1\n"),
    ]);
    let reader = Reader::new(&tree);
    let of =
        |dir: &str| kustomization_of(&reader, &TreePath::new(dir).unwrap(), &Limits::default());
    let kind = |mut value: serde_json::Value| {
        value["apiVersion"] = json!("kustomize.config.k8s.io/v1beta1");
        value["kind"] = json!("Kustomization");
        value
    };
    assert_eq!(
        of("none").unwrap(),
        kind(json!({"resources": ["./a/x.yaml", "./b.yml", "./base"]}))
    );
    assert_eq!(of("own").unwrap(), kind(json!({"resources": ["x.yaml"]})));
    assert_eq!(
        of("bare").unwrap(),
        kind(json!({"namespace": "x", "buildMetadata": ["originAnnotations"]}))
    );
    assert_eq!(
        of("empty").unwrap(),
        kind(json!({"namespace": "_placeholder"}))
    );
    assert!(
        of("bad")
            .unwrap_err()
            .to_string()
            .contains("bad/values.yaml")
    );
    let empty = of("empty").unwrap();
    let built = Build::new(&reader, &TreePath::new("empty").unwrap())
        .kustomization(&empty)
        .options(&Options::flux())
        .objects()
        .unwrap();
    assert!(built.is_empty());
}

#[test]
fn errors_name_file_and_object() {
    let tree = tree(&[
        (
            "a/kustomization.yaml",
            "resources: [r.yaml]\npatches: [{path: p.yaml}]",
        ),
        ("a/r.yaml", CONFIG_MAP),
        (
            "a/p.yaml",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: other}}",
        ),
    ]);
    let error = Build::new(&Reader::new(&tree), &TreePath::new("a").unwrap())
        .objects()
        .unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Patch(_)));
    let text = error.to_string();
    assert!(
        text.starts_with("a/kustomization.yaml: patch: a/p.yaml: no object ConfigMap"),
        "{text}"
    );
}
