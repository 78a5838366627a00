//! Bad input: each object reports what is wrong and where, nothing is deleted, the other objects
//! are reconciled.

use crate::objects::kustomization;
use crate::site::*;
use driftless_harness::github::Change;
use driftless_harness::tools;
use serde_json::json;

/// A change that breaks a Kustomization, and the expected reason and words of its Ready condition.
struct Bad {
    name: &'static str,
    changes: Vec<Change>,
    reason: &'static str,
    words: &'static [&'static str],
}

fn config_map(name: &str, text: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: apps\ndata:\n  text: {text}\n"
    )
}

fn overlay(resources: &str) -> String {
    format!(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n{resources}"
    )
}

fn bad() -> Vec<Bad> {
    let secret = std::fs::read_to_string(tools::tests().join("fleet/team-a/staging/database.yaml"))
        .expect("read the Secret");
    let one = |name, file: &str, text: String, reason, words| Bad {
        name,
        changes: vec![Change::write(&format!("{name}/{file}"), text)],
        reason,
        words,
    };
    let broken =
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: broken\n  labels: {a: [1, 2\n";
    vec![
        one(
            "broken",
            "config.yaml",
            broken.to_owned(),
            "BuildFailed",
            &["broken/config.yaml:6"],
        ),
        Bad {
            name: "cyclic",
            changes: vec![
                Change::write(
                    "cyclic/kustomization.yaml",
                    overlay("- config.yaml\n- base\n"),
                ),
                Change::write("cyclic/base/kustomization.yaml", overlay("- ..\n")),
            ],
            reason: "BuildFailed",
            words: &["cycl", "cyclic/base"],
        },
        one(
            "outside",
            "kustomization.yaml",
            overlay("- config.yaml\n- ../../../../etc/passwd\n"),
            "BuildFailed",
            &["etc/passwd"],
        ),
        one(
            "secret",
            "config.yaml",
            secret,
            "BuildFailed",
            &["config.yaml", "age1"],
        ),
    ]
}

const GOOD: [&str; 6] = ["good", "broken", "cyclic", "outside", "secret", "exec"];

fn check_failure(
    cluster: &dyn Node,
    kind: &str,
    name: &str,
    reason: &str,
    words: &[&str],
) -> Result<(), String> {
    let (status, found, message) = ready(cluster, kind, "flux-system", name);
    let all = words.iter().all(|word| message.contains(word));
    if status == "False" && found == reason && all {
        return Ok(());
    }
    Err(format!(
        "{kind} {name}: {status} {found}: {message:?}; expected {reason} with {words:?}"
    ))
}

/// The hub of the scenario.
pub const HUB: [HubSpec<'static>; 1] = one_hub(FLEET);
const FLEET: &str = "acme/bad";
const UNREADABLE: &str = "acme/unreadable";

/// Breaks every Kustomization in its own way, and repairs them all.
pub fn everything_breaks_and_is_repaired(site: &dyn Site) {
    let hub = site.cluster("hub");
    hub.namespace("apps");
    hub.secret("flux-system", "self", &json!({"value": hub.kubeconfig()}));
    let stranger = std::fs::read_to_string(tools::tests().join("corpus/sops/stranger.agekey"))
        .expect("read the key");
    hub.secret("flux-system", "sops-age", &json!({"age.agekey": stranger}));

    let mut changes: Vec<Change> = GOOD
        .iter()
        .flat_map(|name| {
            let more = match *name {
                "exec" => "  kubeConfig:\n    secretRef:\n      name: self\n",
                "secret" => {
                    "  decryption:\n    provider: sops\n    secretRef:\n      name: sops-age\n"
                }
                _ => "",
            };
            [
                Change::write(
                    &format!("clusters/hub/{name}.yaml"),
                    kustomization(name, more),
                ),
                Change::write(&format!("{name}/config.yaml"), config_map(name, "first")),
            ]
        })
        .collect();
    let source = "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata:\n  name: unreadable\n  namespace: flux-system\n\
                  spec:\n  interval: 1m\n  url: https://github.com/acme/unreadable\n  ref:\n    branch: main\n";
    changes.push(Change::write("clusters/hub/source.yaml", source));
    site.commit(UNREADABLE, &[Change::write("a.yaml", config_map("a", "a"))]);
    let first = site.commit(FLEET, &changes);
    site.sweep();
    site.eventually("the good fleet is ready", || {
        GOOD.iter()
            .try_for_each(|name| is_ready(hub, "flux-system", name, &first))?;
        match ready(hub, "GitRepository", "flux-system", "unreadable")
            .0
            .as_str()
        {
            "True" => Ok(()),
            other => Err(format!("the source is {other}")),
        }
    });
    site.settle();

    // Everything except `good` breaks at once.
    let start = request_count(hub);
    site.set_private(UNREADABLE, &[]);
    let exec = "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- name: c\n  context: {cluster: c, user: u}\nclusters:\n\
                - name: c\n  cluster: {server: \"https://cluster.example\"}\nusers:\n- name: u\n  user:\n    exec:\n\
                \x20     apiVersion: client.authentication.k8s.io/v1\n      command: /bin/secret-command\n";
    let patch = json!({"stringData": {"value": exec}});
    hub.patch("/api/v1/namespaces/flux-system/secrets/self", &patch);
    let cases = bad();
    let mut changes = vec![
        Change::write("good/config.yaml", config_map("good", "second")),
        Change::write("exec/config.yaml", config_map("exec", "second")),
    ];
    changes.extend(cases.iter().flat_map(|case| case.changes.iter().cloned()));
    accepted(&site.push(FLEET, &changes));
    let broken = site.head(FLEET);
    site.eventually("each object reports its failure", || {
        is_ready(hub, "flux-system", "good", &broken)?;
        let checks = cases
            .iter()
            .map(|case| check_failure(hub, "Kustomization", case.name, case.reason, case.words));
        let open: Vec<String> = checks.filter_map(Result::err).collect();
        if !open.is_empty() {
            return Err(open.join("\n"));
        }
        check_failure(
            hub,
            "Kustomization",
            "exec",
            "ReconciliationFailed",
            &["flux-system/self", "exec"],
        )
    });
    let mut check = || {
        site.sweep();
        let words = ["acme/unreadable"];
        check_failure(
            hub,
            "GitRepository",
            "unreadable",
            "GitOperationFailed",
            &words,
        )
    };
    let limit = std::time::Duration::from_secs(180);
    site.until(limit, "the unreadable repository is reported", &mut check);
    let (_, _, message) = ready(hub, "Kustomization", "flux-system", "exec");
    assert!(
        !message.contains("secret-command"),
        "the message repeats the Secret: {message}"
    );
    for name in GOOD {
        let text = hub.get(&path("ConfigMap", "apps", name))["data"]["text"].clone();
        assert_eq!(
            text,
            if name == "good" { "second" } else { "first" },
            "{name}"
        );
    }
    let deletes: Vec<_> = writes_since(hub, start)
        .into_iter()
        .filter(|write| write.verb.starts_with("delete"))
        .collect();
    assert_eq!(deletes, [], "bad input deleted something");

    // A larger body than any webhook of GitHub has.
    let body = vec![b'x'; 30 * 1024 * 1024];
    assert_eq!(site.post(&body, "sha256=00"), 413);

    // The next push repairs everything.
    let fixes: Vec<Change> = cases
        .iter()
        .flat_map(|case| {
            [
                Change::write(
                    &format!("{}/config.yaml", case.name),
                    config_map(case.name, "third"),
                ),
                Change::write(
                    &format!("{}/kustomization.yaml", case.name),
                    overlay("- config.yaml\n"),
                ),
            ]
        })
        .collect();
    accepted(&site.push(FLEET, &fixes));
    let repaired = site.head(FLEET);
    site.eventually("the repaired fleet is ready", || {
        cases
            .iter()
            .try_for_each(|case| is_ready(hub, "flux-system", case.name, &repaired))
    });
}
