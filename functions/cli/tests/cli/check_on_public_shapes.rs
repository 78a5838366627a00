//! Things that many public fleets use and that no repository holds: each is reported once, and
//! causes no other errors.

use crate::check::{SYNC, check, config_map, fleet, kustomization};
use driftless_harness::charts::Host;
use driftless_harness::command::Done;
use driftless_harness::github::{Change, GitHub};
use driftless_harness::tools;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// The parsed JSON output of a check.
struct Found {
    code: i32,
    errors: Vec<String>,
    notes: Vec<Note>,
    states: BTreeMap<String, String>,
    steps: u64,
}

#[derive(Debug)]
struct Note {
    about: String,
    message: String,
    users: Vec<String>,
    keys: Vec<String>,
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().expect("a list").iter();
    list.map(|one| one.as_str().expect("a string").to_owned())
        .collect()
}

fn parse(done: &Done, directory: &Path) -> Found {
    let json: Value = serde_json::from_str(&done.out)
        .unwrap_or_else(|error| panic!("{error}: {}{}", done.out, done.err));
    let root = directory.canonicalize().expect("the directory");
    let error = |one: &Value| {
        let file = Path::new(one["file"].as_str().unwrap_or_default());
        let file = file.strip_prefix(&root).unwrap_or(file).display();
        format!(
            "{file}:{}: {}: {}",
            one["line"],
            one["object"].as_str().unwrap_or_default(),
            one["message"].as_str().unwrap_or_default()
        )
    };
    let note = |one: &Value| Note {
        about: one["object"].as_str().unwrap_or_default().to_owned(),
        message: one["message"].as_str().expect("a message").to_owned(),
        users: texts(&one["users"]),
        keys: texts(&one["keys"]),
    };
    let list = |field: &str| json[field].as_array().expect("a list").clone();
    let states = list("hubs").into_iter().flat_map(|hub| {
        let objects = hub["objects"].as_array().expect("objects").clone();
        objects.into_iter().map(|one| {
            let text = |field: &str| one[field].as_str().expect("a string").to_owned();
            (text("object"), text("state"))
        })
    });
    Found {
        code: done.code,
        errors: list("errors").iter().map(error).collect(),
        notes: list("notes").iter().map(note).collect(),
        states: states.collect(),
        steps: json["steps"].as_u64().expect("a number"),
    }
}

fn checked(directory: &Path, more: &[&str]) -> Found {
    let done = check(directory, &[&["-o", "json"], more].concat());
    parse(&done, directory)
}

impl Found {
    /// Asserts that there are no errors, and exactly these notes: the subject of each, and the
    /// number of objects.
    fn has_notes(&self, expected: &[(&str, usize)]) -> &Self {
        assert_eq!(
            (self.code, &self.errors[..]),
            (0, &[][..]),
            "{:#?}",
            self.notes
        );
        let notes = self.notes.iter();
        let notes: Vec<(&str, usize)> = notes
            .map(|note| (note.about.as_str(), note.users.len()))
            .collect();
        assert_eq!(notes, expected, "{:#?}", self.notes);
        self
    }

    /// Asserts that the note about this subject has these words.
    fn says(&self, about: &str, words: &str) -> &Self {
        let mut notes = self.notes.iter().filter(|note| note.about == about);
        let is_noted = notes.any(|note| note.message.contains(words));
        assert!(is_noted, "{about}: {:#?}", self.notes);
        self
    }

    fn is(&self, object: &str, state: &str) -> &Self {
        assert_eq!(
            self.states.get(object).map(String::as_str),
            Some(state),
            "{:#?}",
            self.states
        );
        self
    }
}

const LAST: &str = "Kustomization/flux-system/last";

/// Returns a Kustomization that depends on another one, and its file.
fn last(on: &str) -> [(&'static str, String); 2] {
    let depends = format!("  dependsOn:\n  - name: {on}\n");
    [
        ("clusters/one/last.yaml", kustomization("last", &depends)),
        ("last/config.yaml", config_map("last")),
    ]
}

fn files(own: &[(&'static str, String)], more: &[(&'static str, String)]) -> tempfile::TempDir {
    fleet(&[own, more].concat())
}

fn helm_repository(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata:\n  name: {name}\n  namespace: flux-system\nspec:\n{spec}"
    )
}

fn release(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata:\n  name: {name}\n  namespace: flux-system\nspec:\n  interval: 1h\n{spec}"
    )
}

fn chart(name: &str, kind: &str, repository: &str) -> String {
    format!(
        "  chart:\n    spec:\n      chart: {name}\n      sourceRef:\n        kind: {kind}\n        name: {repository}\n"
    )
}

/// Returns an object with only a name, and a namespace if one is given.
fn object(api_version: &str, kind: &str, name: &str, namespace: &str) -> String {
    let namespace = match namespace {
        "" => String::new(),
        namespace => format!("  namespace: {namespace}\n"),
    };
    format!("apiVersion: {api_version}\nkind: {kind}\nmetadata:\n  name: {name}\n{namespace}")
}

fn join(objects: &[String]) -> String {
    objects.join("---\n")
}

#[test]
fn charts_behind_the_network_are_one_note_a_host() {
    let oci = helm_repository(
        "registry",
        "  type: oci\n  url: oci://registry.acme.example/all\n",
    );
    let http = helm_repository("pages", "  url: https://charts.acme.example\n");
    let layer = object(
        "source.toolkit.fluxcd.io/v1",
        "OCIRepository",
        "layer",
        "flux-system",
    ) + "spec:\n  interval: 1h\n  url: oci://registry.acme.example/web\n  ref:\n    tag: 1.0.0\n";
    let by_layer = "  chartRef:\n    kind: OCIRepository\n    name: layer\n";
    let all = join(&[
        oci,
        http,
        layer,
        release("a", &chart("a", "HelmRepository", "registry")),
        release("b", &chart("b", "HelmRepository", "registry")),
        release("c", &chart("c", "HelmRepository", "pages")),
        release("d", by_layer),
    ]);
    let apps = [
        (
            "clusters/one/apps.yaml",
            kustomization("apps", "  wait: true\n"),
        ),
        ("apps/all.yaml", all),
    ];
    let directory = files(&apps, &last("apps"));
    checked(directory.path(), &[])
        .has_notes(&[
            ("https://charts.acme.example", 2),
            ("oci://registry.acme.example", 4),
        ])
        .says(
            "oci://registry.acme.example",
            "not checked: the host is behind the network",
        )
        .is("HelmRelease/flux-system/a", "NotChecked")
        .is("HelmRelease/flux-system/d", "NotChecked")
        .is(LAST, "Ready");
}

#[test]
fn groups_that_end_like_kubernetes_own_are_custom() {
    let all = join(&[
        object("gateway.networking.k8s.io/v1", "HTTPRoute", "a", "default"),
        object("gateway.networking.k8s.io/v1", "HTTPRoute", "b", "default"),
        object(
            "gateway.networking.k8s.io/v1beta1",
            "HTTPRoute",
            "c",
            "default",
        ),
        object("snapshot.storage.k8s.io/v1", "VolumeSnapshotClass", "a", ""),
        object("externaldns.k8s.io/v1alpha1", "DNSEndpoint", "a", "default"),
    ]);
    let apps = (
        "clusters/one/apps.yaml",
        kustomization("apps", "  wait: true\n"),
    );
    let directory = files(&[apps.clone(), ("apps/all.yaml", all)], &last("apps"));
    checked(directory.path(), &[])
        .has_notes(&[
            ("externaldns.k8s.io/v1alpha1 DNSEndpoint", 1),
            ("gateway.networking.k8s.io/v1,v1beta1 HTTPRoute", 3),
            ("snapshot.storage.k8s.io/v1 VolumeSnapshotClass", 1),
        ])
        .is(LAST, "Ready");

    let gone = object("networking.k8s.io/v1beta1", "Ingress", "a", "default");
    let old = object("policy/v1beta1", "PodSecurityPolicy", "a", "");
    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: gadgets.acme.example\nspec:\n\
                      \x20 group: acme.example\n  scope: Namespaced\n  names: {kind: Gadget, plural: gadgets}\n  versions:\n  - name: v1\n    served: true\n\
                      \x20   storage: true\n    schema: {openAPIV3Schema: {type: object}}\n";
    let other = object("acme.example/v1beta1", "Gadget", "a", "default");
    let all = join(&[definition.to_owned(), gone, old, other]);
    let directory = files(&[apps, ("apps/all.yaml", all)], &[]);
    let wrong = checked(directory.path(), &[]);
    assert_eq!(wrong.errors.len(), 3, "{:#?}", wrong.errors);
    for words in ["Ingress", "PodSecurityPolicy", "acme.example/v1beta1"] {
        let mut errors = wrong.errors.iter();
        assert!(
            errors.any(|error| error.contains(words)),
            "{words}: {:#?}",
            wrong.errors
        );
    }
}

#[test]
fn objects_of_a_cluster_need_no_namespace() {
    let issuer = object("cert-manager.io/v1", "ClusterIssuer", "acme", "") + "spec: {acme: {}}\n";
    let realm = object("acme.example/v1", "Realm", "one", "");
    let health = "  healthChecks:\n  - apiVersion: cert-manager.io/v1\n    kind: ClusterIssuer\n    name: acme\n\
                  \x20 - apiVersion: acme.example/v1\n    kind: Realm\n    name: one\n";
    let base = [
        (
            "clusters/one/issuers.yaml",
            kustomization("issuers", &format!("  targetNamespace: default\n{health}")),
        ),
        ("issuers/all.yaml", join(&[issuer, realm])),
    ];
    let directory = files(&base, &last("issuers"));
    checked(directory.path(), &[])
        .has_notes(&[
            ("acme.example/v1 Realm", 1),
            ("cert-manager.io/v1 ClusterIssuer", 1),
        ])
        .is(LAST, "Ready");
    // A kind that counts as namespaced until an object without a namespace is found.
    let first = object("acme.example/v1", "Realm", "one", "default");
    let second = object("acme.example/v1", "Realm", "two", "");
    let own = [
        ("clusters/one/first.yaml", kustomization("first", "")),
        ("first/all.yaml", first),
        (
            "clusters/one/second.yaml",
            kustomization("second", "  dependsOn:\n  - name: first\n"),
        ),
        ("second/all.yaml", second),
    ];
    let directory = files(&own, &last("second"));
    checked(directory.path(), &[])
        .has_notes(&[("acme.example/v1 Realm", 2)])
        .is(LAST, "Ready");
}

/// Returns a Deployment whose replicas and image are variables.
const WEB: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: 'web-${NAME}', namespace: default}\nspec:\n  replicas: ${REPLICAS}\n\
                   \x20 selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec:\n      containers:\n\
                   \x20     - {name: web, image: 'registry.${DOMAIN}/web:${TAG:=1}'}\n";

fn service(name: &str, port: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: default}}\nspec: {{ports: [{{port: {port}}}], externalName: 'x.${{DOMAIN}}'}}\n"
    )
}

#[test]
fn values_that_are_not_in_git_are_one_note_each() {
    let from = "  postBuild:\n    substituteFrom:\n    - {kind: Secret, name: cluster-vars}\n    - {kind: ConfigMap, name: none, optional: true}\n";
    let own = [
        (
            "clusters/one/a.yaml",
            kustomization("a", &format!("  wait: true\n{from}")),
        ),
        ("a/web.yaml", WEB.to_owned()),
        ("clusters/one/b.yaml", kustomization("b", from)),
        ("b/service.yaml", service("b", "80")),
        ("clusters/one/c.yaml", kustomization("c", from)),
        ("c/service.yaml", config_map("c")),
    ];
    let directory = files(&own, &last("a"));
    let secret = "Secret/flux-system/cluster-vars";
    let placeholders = checked(directory.path(), &[]);
    placeholders
        .has_notes(&[(secret, 1), (secret, 3)])
        .says(secret, "its values are placeholders (give --with)")
        .is("Kustomization/flux-system/b", "Ready")
        .is(LAST, "Ready");
    assert_eq!(placeholders.notes[1].keys, ["DOMAIN", "NAME", "REPLICAS"]);
    assert_eq!(
        placeholders.notes[0].users,
        ["Deployment/default/web-placeholder-name"]
    );

    let given = tempfile::tempdir().expect("a directory");
    let vars = |replicas: &str| {
        let text = object("v1", "Secret", "cluster-vars", "")
            + &format!("stringData: {{NAME: web, DOMAIN: acme.example, REPLICAS: '{replicas}'}}\n");
        std::fs::create_dir_all(given.path().join("more")).expect("a directory");
        std::fs::write(given.path().join("more/vars.yaml"), text).expect("a file");
    };
    let with = given.path().to_str().expect("UTF-8");
    vars("2");
    checked(directory.path(), &["--with", with])
        .has_notes(&[])
        .is(LAST, "Ready");
    vars("two");
    let wrong = checked(directory.path(), &["--with", with]);
    let [error] = &wrong.errors[..] else {
        panic!("{:#?}", wrong.errors)
    };
    assert!(
        error.starts_with("a/web.yaml:5: ") && error.contains("replicas"),
        "{error}"
    );
}

/// An error next to a placeholder is still reported, and so is a variable that no source can have.
#[test]
fn placeholders_hide_no_error() {
    let from = "  postBuild:\n    substituteFrom:\n    - {kind: ConfigMap, name: cluster-vars}\n";
    let own = [
        ("clusters/one/a.yaml", kustomization("a", from)),
        (
            "a/service.yaml",
            service("a", "eighty").replace(".${DOMAIN}", ""),
        ),
        ("a/web.yaml", WEB.to_owned()),
        (
            "clusters/one/b.yaml",
            kustomization("b", "  postBuild: {substitute: {A: b}}\n"),
        ),
        ("b/service.yaml", service("b", "80")),
    ];
    let directory = files(&own, &[]);
    let wrong = checked(directory.path(), &[]);
    assert_eq!(wrong.errors.len(), 2, "{:#?}", wrong.errors);
    assert!(
        wrong.errors[0].starts_with("a/service.yaml:"),
        "{:#?}",
        wrong.errors
    );
    assert!(
        wrong.errors[1].contains("variable not set (strict mode): \"DOMAIN\""),
        "{:#?}",
        wrong.errors
    );
}

#[test]
fn logins_keys_and_values_of_releases_are_one_note_each() {
    let git = |name: &str| {
        object(
            "source.toolkit.fluxcd.io/v1",
            "GitRepository",
            name,
            "flux-system",
        ) + &format!(
            "spec:\n  interval: 1m\n  url: https://github.com/acme/{name}\n  secretRef: {{name: login}}\n"
        )
    };
    let apps = |name: &str| {
        let decryption = "  decryption:\n    provider: sops\n    secretRef: {name: age}\n";
        kustomization(name, decryption).replace(
            "kind: GitRepository\n    name: flux-system",
            &format!("kind: GitRepository\n    name: {name}"),
        )
    };
    let values = "  valuesFrom:\n  - {kind: Secret, name: values}\n  - {kind: Secret, name: one, valuesKey: port, targetPath: port}\n";
    let needy = release(
        "needy",
        &(chart("charts/needy", "GitRepository", "flux-system") + values),
    );
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: needy}\ndata: {host: '{{ required \"a host\" .Values.host }}'}\n";
    let own = [
        (
            "clusters/one/all.yaml",
            join(&[git("x"), git("y"), apps("x"), apps("y"), needy]),
        ),
        (
            "charts/needy/Chart.yaml",
            "apiVersion: v2\nname: needy\nversion: 1.0.0\n".to_owned(),
        ),
        ("charts/needy/templates/a.yaml", template.to_owned()),
    ];
    let directory = files(&own, &[]);
    let source = config_map("x");
    let other = tempfile::tempdir().expect("a directory");
    std::fs::create_dir_all(other.path().join("x")).expect("a directory");
    std::fs::create_dir_all(other.path().join("y")).expect("a directory");
    std::fs::write(other.path().join("x/a.yaml"), &source).expect("a file");
    std::fs::write(other.path().join("y/a.yaml"), &source).expect("a file");
    let stands_in =
        |name: &str| format!("https://github.com/acme/{name}={}", other.path().display());
    let args = ["--source", &stands_in("x"), "--source", &stands_in("y")];
    checked(directory.path(), &args)
        .has_notes(&[
            ("Secret/flux-system/age", 2),
            ("Secret/flux-system/login", 2),
            ("Secret/flux-system/one", 1),
            ("Secret/flux-system/values", 1),
        ])
        .is("HelmRelease/flux-system/needy", "NotChecked")
        .is("Kustomization/flux-system/x", "Ready");
    let given = tempfile::tempdir().expect("a directory");
    let secret = |name: &str, data: &str| {
        object("v1", "Secret", name, "flux-system") + &format!("stringData: {data}\n")
    };
    let all = join(&[
        secret("values", "{values.yaml: 'host: a'}"),
        secret("one", "{port: '1'}"),
        secret("login", "{username: a, password: b}"),
        secret("age", "{}"),
    ]);
    let file = given.path().join("all.yaml");
    std::fs::write(&file, all).expect("a file");
    let args = [&args[..], &["--with", file.to_str().expect("UTF-8")]].concat();
    checked(directory.path(), &args)
        .has_notes(&[])
        .is("HelmRelease/flux-system/needy", "Ready");
}

#[test]
fn remote_bases_are_fetched_when_that_is_allowed() {
    if !tools::has("git") {
        return;
    }
    let github = GitHub::start();
    let base = github.repository("acme/base");
    let commit = base.commit(
        "main",
        &[
            Change::write("config/kustomization.yaml", "resources: [app.yaml]\n"),
            Change::write("config/app.yaml", config_map("app")),
        ],
        "first",
    );
    base.tag("v1", &commit);
    let web = Host::start();
    web.put("/file.yaml", config_map("file"));
    let entry = "https://github.com/acme/base//config?ref=v1";
    let over = |prefix: &str| format!("namePrefix: {prefix}-\nresources: ['{entry}']\n");
    let own = [
        ("clusters/one/a.yaml", kustomization("a", "")),
        ("a/kustomization.yaml", over("a")),
        ("clusters/one/b.yaml", kustomization("b", "")),
        ("b/kustomization.yaml", over("b")),
        ("clusters/one/c.yaml", kustomization("c", "")),
        (
            "c/kustomization.yaml",
            format!("resources: ['{}/file.yaml']\n", web.url()),
        ),
    ];
    let directory = files(&own, &last("a"));
    let subject = "remote base 'https://github.com/acme/base' at 'v1'";
    let file = format!("remote file '{}/file.yaml'", web.url());
    checked(directory.path(), &[])
        .has_notes(&[(subject, 2), (&file, 1)])
        .says(subject, "give --allow-remote-bases")
        .is(LAST, "Ready");
    let api = format!("github.com={}", github.url());
    let allowed = ["--allow-remote-bases", "--github-api", &api];
    checked(directory.path(), &allowed)
        .has_notes(&[])
        .is("Kustomization/flux-system/b", "Ready")
        .is("Kustomization/flux-system/c", "Ready");
    let clone = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(clone.path().join("config")).expect("a directory");
    std::fs::write(
        clone.path().join("config/kustomization.yaml"),
        "configMapGenerator: [{name: x, namespace: default}]\n",
    )
    .expect("a file");
    let source = format!("https://github.com/acme/base@v1={}", clone.path().display());
    checked(directory.path(), &["--source", &source]).has_notes(&[(&file, 1)]);
}

#[test]
fn a_missing_definition_causes_no_other_errors() {
    let identity = object(
        "managedidentity.azure.com/v1api20230131",
        "UserAssignedIdentity",
        "id",
        "default",
    );
    let all = |name: &str| join(&[kustomization(name, "  dependsOn:\n  - name: last\n")]);
    let own = [
        ("clusters/one/identity.yaml", identity),
        ("clusters/one/a.yaml", all("a")),
        ("a/a.yaml", config_map("a")),
    ];
    let directory = files(&own, &last("flux-system"));
    checked(directory.path(), &[])
        .has_notes(&[(
            "managedidentity.azure.com/v1api20230131 UserAssignedIdentity",
            1,
        )])
        .is("Kustomization/flux-system/flux-system", "Ready")
        .is("Kustomization/flux-system/a", "Ready");
}

/// The source of the fleet has a name on the cluster that is not in Git.
#[test]
fn a_source_missing_in_git_is_the_fleet_repository() {
    let renamed =
        |name: &str| kustomization(name, "").replace("name: flux-system\n", "name: flux-config\n");
    let own = [
        ("clusters/one/a.yaml", renamed("a")),
        ("clusters/one/b.yaml", renamed("b")),
        ("a/a.yaml", config_map("a")),
        ("b/b.yaml", config_map("b")),
    ];
    let directory = fleet(&own);
    std::fs::remove_dir_all(directory.path().join("clusters/one/flux-system")).expect("no sync");
    checked(directory.path(), &[])
        .has_notes(&[("GitRepository/flux-system/flux-config", 2)])
        .says(
            "GitRepository/flux-system/flux-config",
            "the fleet repository is used",
        )
        .is("Kustomization/flux-system/a", "Ready");
    // If the source is in Git, another name is an error.
    let directory = fleet(&own);
    let wrong = checked(directory.path(), &[]);
    assert_eq!(wrong.errors.len(), 2, "{:#?}", wrong.errors);
    assert!(
        wrong.errors[0].contains("\"flux-config\" not found"),
        "{:#?}",
        wrong.errors
    );
}

#[test]
fn a_namespace_missing_in_git_is_one_note() {
    let in_monitor = |name: &str| config_map(name).replace("default", "monitor");
    let own = [
        ("clusters/one/a.yaml", kustomization("a", "  wait: true\n")),
        ("a/a.yaml", in_monitor("a")),
        ("clusters/one/b.yaml", kustomization("b", "")),
        ("b/b.yaml", in_monitor("b")),
    ];
    let directory = files(&own, &last("a"));
    checked(directory.path(), &[])
        .has_notes(&[("Namespace/monitor", 2)])
        .is("Kustomization/flux-system/b", "Ready")
        .is(LAST, "Ready");
}

#[test]
fn flux_operator_is_a_note_and_its_sync_is_the_root() {
    let instance = "apiVersion: fluxcd.controlplane.io/v1\nkind: FluxInstance\nmetadata: {name: flux, namespace: flux-system}\nspec:\n  sync:\n\
                    \x20   kind: GitRepository\n    url: https://github.com/acme/fleet.git\n    ref: refs/heads/main\n    path: tenants/hub\n";
    let set = |name: &str| {
        object(
            "fluxcd.controlplane.io/v1",
            "ResourceSet",
            name,
            "flux-system",
        ) + "spec: {inputs: []}\n"
    };
    let own = [
        ("tenants/hub/flux.yaml", instance.to_owned()),
        ("tenants/hub/sets.yaml", join(&[set("a"), set("b")])),
        ("tenants/hub/apps.yaml", kustomization("apps", "")),
        ("apps/a.yaml", config_map("a")),
    ];
    let directory = fleet(&own);
    std::fs::remove_dir_all(directory.path().join("clusters")).expect("no sync");
    checked(directory.path(), &[])
        .has_notes(&[
            ("fluxcd.controlplane.io/v1 FluxInstance", 1),
            ("fluxcd.controlplane.io/v1 ResourceSet", 2),
        ])
        .says(
            "fluxcd.controlplane.io/v1 ResourceSet",
            "Flux Operator is not served",
        )
        .is("Kustomization/flux-system/apps", "Ready");
}

/// Returns a Kustomization of the ExternalArtifact `apps`.
fn of_artifact(name: &str) -> String {
    kustomization(name, "").replace(
        "kind: GitRepository\n    name: flux-system",
        "kind: ExternalArtifact\n    name: apps",
    )
}

#[test]
fn artifacts_of_other_controllers_are_not_checked() {
    let own = [(
        "clusters/one/all.yaml",
        join(&[of_artifact("a"), of_artifact("b")]),
    )];
    let directory = files(&own, &last("a"));
    for gates in [&[][..], &["--feature-gates", "ExternalArtifact=true"]] {
        checked(directory.path(), gates)
            .has_notes(&[("ExternalArtifact", 2)])
            .says("ExternalArtifact", "another controller makes the artifact")
            .is("Kustomization/flux-system/b", "NotChecked")
            .is(LAST, "Ready");
    }
    let wrong = checked(
        directory.path(),
        &["--feature-gates", "ExternalArtifact=false"],
    );
    assert_eq!(wrong.errors.len(), 2, "{:#?}", wrong.errors);
    let words = "can't access 'ExternalArtifact/flux-system/apps', ExternalArtifact feature gate is disabled";
    assert!(wrong.errors[0].contains(words), "{:#?}", wrong.errors);
}

#[test]
fn generated_artifacts_are_checked() {
    let generator = |from: &str| {
        object(
            "source.extensions.fluxcd.io/v1beta1",
            "ArtifactGenerator",
            "split",
            "flux-system",
        ) + &format!(
            "spec:\n  sources: [{{alias: fleet, kind: GitRepository, name: flux-system}}]\n  artifacts:\n  - name: apps\n    \
             copy: [{{from: '@fleet/{from}', to: '@artifact/'}}]\n"
        )
    };
    let own = |from: &str| {
        [
            (
                "clusters/one/all.yaml",
                join(&[generator(from), of_artifact("a")]),
            ),
            ("a/config.yaml", config_map("a")),
        ]
    };
    let directory = files(&own("a"), &last("a"));
    checked(directory.path(), &[])
        .is("ArtifactGenerator/flux-system/split", "Ready")
        .is("Kustomization/flux-system/a", "Ready")
        .is(LAST, "Ready");
    let directory = files(&own("none"), &last("a"));
    let wrong = checked(directory.path(), &[]);
    let words = "apps build failed: failed to apply copy operations";
    let is_named = wrong.errors.iter().any(|error| error.contains(words));
    assert!(is_named, "{:#?}", wrong.errors);
}

#[test]
fn alerts_and_providers_are_checked_and_send_nothing() {
    let group = "notification.toolkit.fluxcd.io/v1beta3";
    let provider =
        |name: &str| object(group, "Provider", name, "flux-system") + "spec: {type: slack}\n";
    let alert = |name: &str| {
        object(group, "Alert", name, "flux-system")
            + "spec: {providerRef: {name: a}, eventSources: [{kind: Kustomization, name: '*'}]}\n"
    };
    let all = join(&[
        provider("a"),
        provider("b"),
        alert("a"),
        alert("b"),
        alert("c").replace("{name: a}", "{name: c}"),
    ]);
    let directory = files(&[("clusters/one/all.yaml", all)], &[]);
    let found = checked(directory.path(), &[]);
    assert_eq!(
        found.errors,
        [
            "clusters/one/all.yaml:29: Alert/flux-system/c: failed to read provider: providers.notification.toolkit.fluxcd.io \"c\" not found",
        ]
    );
}

#[test]
fn an_error_of_a_component_is_reported_at_its_file() {
    let scaler = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata:\n  name: ${APP}\n  namespace: default\nspec:\n\
                  \x20 maxReplicas: many\n  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n";
    let own = [
        ("clusters/one/web.yaml", kustomization("web", "  components: [../components/scale]\n  postBuild: {substitute: {APP: web}}\n")),
        ("web/kustomization.yaml", "resources: [web.yaml]\n".to_owned()),
        ("web/web.yaml", config_map("web")),
        ("components/scale/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [hpa.yaml]\n".to_owned()),
        ("components/scale/hpa.yaml", scaler.to_owned()),
    ];
    let directory = files(&own, &[]);
    let wrong = checked(directory.path(), &[]);
    let [error] = &wrong.errors[..] else {
        panic!("{:#?}", wrong.errors)
    };
    assert!(
        error.starts_with("components/scale/hpa.yaml:7: "),
        "{error}"
    );
}

#[test]
fn hubs_that_no_root_names_are_found() {
    let apps = kustomization("apps", "").replace("./apps", "./kubernetes/apps");
    let web = kustomization("web", "").replace("./web", "./kubernetes/apps/web/app");
    let own = [
        ("kubernetes/flux/cluster/ks.yaml", apps.clone()),
        ("kubernetes/apps/web/ks.yaml", web),
        ("kubernetes/apps/web/app/a.yaml", config_map("a")),
        (
            "kubernetes/apps/kustomization.yaml",
            "resources: [web/ks.yaml]\n".to_owned(),
        ),
    ];
    let directory = fleet(&own);
    std::fs::remove_dir_all(directory.path().join("clusters")).expect("no sync");
    checked(directory.path(), &[])
        .has_notes(&[])
        .is("Kustomization/flux-system/web", "Ready");
    // Two candidates of different depth lead to the same objects: neither is clearly the root.
    std::fs::write(directory.path().join("lab.yaml"), &apps).expect("a file");
    let lab = directory.path().join("labs");
    std::fs::create_dir(&lab).expect("a directory");
    std::fs::rename(directory.path().join("lab.yaml"), lab.join("ks.yaml")).expect("a file");
    check(directory.path(), &[]).refused(
        1,
        &["has no hub", "kubernetes/flux/cluster, labs", "--path"],
    );
    check(directory.path(), &["--path", "labs"]).ok();
}

#[test]
fn the_directory_of_the_demo_is_a_fleet_with_its_repositories() {
    let home = tempfile::tempdir().expect("a home");
    let demo = driftless_harness::command::run_in(
        home.path(),
        &[
            "demo",
            "--once",
            "--dir",
            home.path().join("demo").to_str().expect("UTF-8"),
        ],
        &[],
    );
    demo.ok();
    let directory = home.path().join("demo/fleet");
    let done = check(&directory, &["--strict"]);
    for words in [
        "platform is the fleet repository",
        "team-a replaces https://github.com/acme/team-a",
    ] {
        assert!(done.err.contains(words), "{words}: {}", done.err);
    }
    assert!(done.err.contains("0 errors"), "{}{}", done.out, done.err);
    done.ok();
    let agent = directory.join("platform/edge/agent.yaml");
    let text = std::fs::read_to_string(&agent).expect("the agent");
    std::fs::write(&agent, text.replace("replicas: 1", "replicas: one")).expect("an edit");
    let done = check(&directory, &[]);
    assert!(
        done.out.contains("platform/edge/agent.yaml:6: error: "),
        "{}{}",
        done.out,
        done.err
    );
    assert_eq!(done.code, 1, "{}", done.err);
}

/// Directories above the repositories: one that has the name of a branch replaces that branch, one
/// that replaces nothing is named, and several fleets are an error.
#[test]
fn directories_above_repositories_are_explained() {
    let apps = kustomization("apps", "");
    let sync = SYNC.replace("clusters/one", "clusters/hub");
    let tenant = "---\napiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata:\n  name: dev-team\n  namespace: \
                  flux-system\nspec:\n  interval: 1m\n  url: https://github.com/acme/fleet\n  ref:\n    branch: dev-team\n";
    let team = kustomization("team", "").replace("name: flux-system\n", "name: dev-team\n");
    let team = team.replace("namespace: dev-team", "namespace: flux-system");
    let above = tempfile::tempdir().expect("a directory");
    let write = |path: &str, text: &str| {
        let file = above.path().join(path);
        std::fs::create_dir_all(file.parent().expect("a directory")).expect("make a directory");
        std::fs::write(file, text).expect("write");
    };
    write("main/clusters/hub/flux-system/gotk-sync.yaml", &sync);
    write(
        "main/clusters/hub/apps.yaml",
        &(apps + "---\n" + &team + tenant),
    );
    write("main/apps/a.yaml", &config_map("a"));
    write("dev-team/team/a.yaml", &config_map("b"));
    write("docs/a.md", "x");
    let done = check(above.path(), &["--strict"]);
    for words in [
        "main is the fleet repository",
        "dev-team replaces https://github.com/acme/fleet@dev-team",
        "docs replaces no repository: name the URL with --source URL=DIR or URL@BRANCH=DIR",
    ] {
        assert!(
            done.err.contains(words),
            "{words}: {}{}",
            done.out,
            done.err
        );
    }
    done.ok();

    write(
        "dev/clusters/base/flux-system/gotk-sync.yaml",
        &SYNC.replace("clusters/one", "clusters/base"),
    );
    let done = check(above.path(), &[]);
    done.refused(
        2,
        &[
            "several fleet repositories (dev, main)",
            "--source URL@BRANCH=",
        ],
    );
}

#[test]
fn flags_of_fluxs_controllers_have_their_effect() {
    let own = [
        (
            "clusters/one/a.yaml",
            kustomization("a", "  postBuild: {substitute: {A: b}}\n"),
        ),
        ("a/a.yaml", config_map("a").replace("a: b", "a: x${NONE}")),
    ];
    let directory = files(&own, &[]);
    assert_eq!(checked(directory.path(), &[]).errors.len(), 1);
    checked(
        directory.path(),
        &["--feature-gates", "StrictPostBuildSubstitutions=false"],
    )
    .has_notes(&[]);
    for gates in ["GroupChangeLog=true", "UseHelm3Defaults=true,OOMWatch=true"] {
        assert_eq!(
            checked(directory.path(), &["--feature-gates", gates])
                .errors
                .len(),
            1,
            "{gates}"
        );
    }
    for (gates, words) in [
        ("Nonsense=true", "Flux has no feature gate 'Nonsense'"),
        ("ExternalArtifact=yes", "expected true or false"),
        ("ExternalArtifact", "expected NAME=true"),
    ] {
        check(directory.path(), &["--feature-gates", gates]).refused(2, &[words]);
    }
}

/// A dependency that is ready only by its expression counts, unless Flux requires both.
#[test]
fn expressions_of_dependencies_may_be_added_to_their_readiness() {
    let depends = "  dependsOn:\n  - name: broken\n    readyExpr: 'true'\n";
    let own = [
        ("clusters/one/broken.yaml", kustomization("broken", "")),
        ("broken/a.yaml", "kind: [\n".to_owned()),
        ("clusters/one/a.yaml", kustomization("a", depends)),
        ("a/a.yaml", config_map("a")),
    ];
    let directory = files(&own, &[]);
    checked(directory.path(), &[]).is("Kustomization/flux-system/a", "Ready");
    let gates = ["--feature-gates", "AdditiveCELDependencyCheck=true"];
    checked(directory.path(), &gates).is("Kustomization/flux-system/a", "Waiting");
}

#[test]
fn charts_see_the_version_that_was_asked_for() {
    let template = "{{ if semverCompare \">=1.40\" .Capabilities.KubeVersion.Version }}{{ fail \"too new\" }}{{ end }}\n";
    let own = [
        (
            "clusters/one/a.yaml",
            release("a", &chart("charts/a", "GitRepository", "flux-system")),
        ),
        (
            "charts/a/Chart.yaml",
            "apiVersion: v2\nname: a\nversion: 1.0.0\nkubeVersion: '>=1.20'\n".to_owned(),
        ),
        ("charts/a/templates/a.yaml", template.to_owned()),
    ];
    let directory = files(&own, &[]);
    checked(directory.path(), &[]).has_notes(&[]);
    checked(directory.path(), &["--kube-version", "v1.39.2"]).has_notes(&[]);
    let wrong = checked(directory.path(), &["--kube-version", "1.40"]);
    assert!(wrong.errors[0].contains("too new"), "{:#?}", wrong.errors);
    let wrong = checked(directory.path(), &["--kube-version", "1.19"]);
    assert!(
        wrong.errors[0].contains("kubeVersion"),
        "{:#?}",
        wrong.errors
    );
    check(directory.path(), &["--kube-version", "new"])
        .refused(2, &["'new' is not a Kubernetes version"]);
}

#[test]
fn invalid_arguments_are_refused() {
    let directory = files(&[], &[]);
    let given = tempfile::tempdir().expect("a directory");
    let file = given.path().join("a.yaml");
    let path = file.to_str().expect("UTF-8");
    check(directory.path(), &["--with", path]).refused(2, &["--with", "a.yaml"]);
    for (text, words) in [
        (
            object("apps/v1", "Deployment", "a", "default"),
            "Deployment/default/a is not a ConfigMap, Secret or CustomResourceDefinition",
        ),
        ("a: [\n".to_owned(), "a.yaml:2"),
        (
            object("v1", "Secret", "a", "default") + "sops: {mac: x}\n",
            "Secret/default/a is encrypted",
        ),
    ] {
        std::fs::write(&file, text).expect("a file");
        check(directory.path(), &["--with", path]).refused(1, &["--with", words]);
    }
    check(&file, &[]).refused(2, &["a.yaml is a file, and not a directory"]);
    check(directory.path(), &["--github-api", "a=b"]).refused(2, &["--allow-remote-bases"]);
}

/// The number of steps grows linearly with that of the Kustomizations: none runs again because of
/// the others.
#[test]
fn steps_grow_only_with_the_size_of_the_fleet() {
    let steps = |count: usize| {
        let names: Vec<String> = (0..count).map(|at| format!("app-{at}")).collect();
        let own: Vec<(String, String)> = names
            .iter()
            .flat_map(|name| {
                [
                    (
                        format!("clusters/one/{name}.yaml"),
                        kustomization(name, "  wait: true\n"),
                    ),
                    (format!("{name}/a.yaml"), config_map(name)),
                ]
            })
            .collect();
        let own: Vec<(&str, String)> = own
            .iter()
            .map(|(path, text)| (path.as_str(), text.clone()))
            .collect();
        let directory = fleet(&own);
        checked(directory.path(), &[]).has_notes(&[]).steps
    };
    let (few, many) = (steps(10), steps(40));
    assert!(many - few <= 30 * 3, "{few} {many}");
}
