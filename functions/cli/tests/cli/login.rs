//! Logins: of users by the credential plugins of their kubeconfigs, of GitHub's webhook by its
//! secret.

use crate::embedded::Hub;
use driftless_harness::command::{Done, run_in};
use driftless_harness::serve::Serve;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// A home with a credential plugin, and a kubeconfig whose user has that plugin.
struct Person {
    hub: Hub,
    home: tempfile::TempDir,
}

impl Person {
    /// Creates the home; the script of the plugin gets the token as `$TOKEN`.
    fn new(script: &str, exec: Value) -> Self {
        let (hub, home) = (Hub::start(), tempfile::tempdir().expect("a home"));
        let mut config: Value = kubeconfig(&hub.kubeconfig());
        config["users"][0]["user"] = json!({"exec": exec});
        std::fs::write(home.path().join("config"), config.to_string()).expect("write");
        write_program(
            &home.path().join("login"),
            &format!("#!/bin/sh\nTOKEN={}\n{script}\n", hub.token()),
        );
        Self { hub, home }
    }

    fn run(&self, args: &[&str]) -> Done {
        let environment = [("KUBECONFIG", "config"), ("PATH", "/usr/bin:/bin")];
        let config = self.home.path().join("config");
        let environment = [
            (environment[0].0, config.to_str().expect("UTF-8")),
            environment[1],
        ];
        run_in(self.home.path(), args, &environment)
    }
}

fn kubeconfig(text: &str) -> Value {
    use driftless_manifest::yaml;
    let limits = yaml::Limits::default();
    let documents = yaml::documents(text.as_bytes(), "config", yaml::Dialect::V2, &limits);
    documents.expect("a kubeconfig").remove(0)
}

fn write_program(path: &Path, text: &str) {
    std::fs::write(path, text).expect("write the program");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(path, mode).expect("make it a program");
}

fn exec(more: Value) -> Value {
    let mut exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "./login"});
    for (field, value) in more.as_object().into_iter().flatten() {
        exec[field] = value.clone();
    }
    exec
}

/// The shell command that writes the output of a plugin.
const CREDENTIAL: &str = r#"echo "{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"$TOKEN\"$MORE}}""#;

#[test]
fn users_log_in_with_the_plugin_of_their_kubeconfig() {
    let asked = format!("test \"$REGION\" = north && test \"$1\" = token && {CREDENTIAL}");
    let more = json!({"args": ["token"], "env": [{"name": "REGION", "value": "north"}], "interactiveMode": "Never"});
    let person = Person::new(&asked, exec(more));
    // The hub has no objects, and reports that only to a user who is logged in.
    let words = ["no objects found in any namespace"];
    person.run(&["get", "all", "-A"]).refused(1, &words);
    for args in [
        &["reconcile", "kustomization", "apps"][..],
        &["suspend", "ks", "apps"],
        &["resume", "ks", "apps"],
    ] {
        let done = person.run(args);
        assert_eq!(done.code, 1, "{}", done.err);
        assert!(done.err.contains("Kustomization"), "{}", done.err);
        assert!(!done.err.contains("exec"), "{}", done.err);
    }

    let serve = person.run(&["serve", "--listen", "127.0.0.1:0"]);
    serve.refused(1, &["user.exec is refused"]);
    drop(person.hub);
}

#[test]
fn a_plugin_gets_the_cluster_and_runs_again_when_its_token_expires() {
    let script = format!(
        "echo ran >>runs\nMORE=',\"expirationTimestamp\":\"2020-01-01T00:00:00Z\"'\necho \"$KUBERNETES_EXEC_INFO\" >info\n{CREDENTIAL}"
    );
    let person = Person::new(
        &format!("cd \"$HOME\"\n{script}"),
        exec(json!({"provideClusterInfo": true})),
    );
    let done = person.run(&["get", "all", "-A"]);
    done.refused(1, &["no objects found"]);
    let read = |name: &str| std::fs::read_to_string(person.home.path().join(name)).expect("read");
    assert!(read("runs").lines().count() > 1);
    let info: Value = serde_json::from_str(&read("info")).expect("JSON");
    let server = info["spec"]["cluster"]["server"]
        .as_str()
        .expect("the server");
    assert!(server.starts_with("https://127.0.0.1:"), "{info}");
    assert!(
        info["spec"]["cluster"]["certificate-authority-data"].is_string(),
        "{info}"
    );
}

#[test]
fn a_failed_plugin_is_an_error_without_credentials() {
    let quiet = json!({"interactiveMode": "Never"});
    let no_token = json!({"interactiveMode": "Never", "command": "no-such-login", "installHint": "install\n it"});
    for (script, more, words) in [
        (
            "echo not logged in >&2; exit 3",
            &quiet,
            "'./login' (user.exec) ended with exit status: 3: not logged in",
        ),
        ("echo $TOKEN", &quiet, "did not write an ExecCredential"),
        (
            "echo '{\"status\": \"'$TOKEN",
            &quiet,
            "did not write an ExecCredential",
        ),
        (
            "",
            &no_token,
            "'no-such-login' (user.exec) cannot be started: No such file or directory (os error 2): install it",
        ),
    ] {
        let person = Person::new(script, exec(more.clone()));
        let done = person.run(&["get", "all", "-A"]);
        let words = words.replace(
            "'./login'",
            &format!("'{}/./login'", person.home.path().display()),
        );
        done.refused(
            1,
            &["https://127.0.0.1:", &words, "Next: check the credentials"],
        );
        let token = std::fs::read_to_string(person.home.path().join("login")).expect("read");
        let token = token
            .lines()
            .nth(1)
            .expect("the token")
            .trim_start_matches("TOKEN=");
        assert!(!done.err.contains(token), "{}", done.err);
    }
}

#[test]
fn a_user_has_one_way_to_log_in() {
    let person = Person::new(CREDENTIAL, exec(json!({})));
    let file = person.home.path().join("config");
    let mut config = kubeconfig(&std::fs::read_to_string(&file).expect("read"));
    config["users"][0]["user"]["token"] = "t".into();
    std::fs::write(&file, config.to_string()).expect("write");
    let done = person.run(&["get", "all"]);
    done.refused(1, &["the user has both exec and token: keep one"]);
    config["users"][0]["user"] = json!({"exec": {"args": ["x"]}});
    std::fs::write(&file, config.to_string()).expect("write");
    let done = person.run(&["get", "all"]);
    done.refused(1, &["user.exec is not a credential plugin with a command"]);
}

#[test]
fn a_refused_webhook_names_the_variable_of_its_secret() {
    let hub = Hub::start();
    let home = tempfile::tempdir().expect("a home");
    let file = home.path().join("hub.yaml");
    std::fs::write(&file, hub.kubeconfig()).expect("write");
    let file = file.to_str().expect("UTF-8");
    let secret = [("DRIFTLESS_WEBHOOK_SECRET", "secret")];
    let serve = Serve::start(home.path(), &["--kubeconfig", file], &secret);
    let signature = format!("sha256={}", "0".repeat(64));
    let headers = [
        ("x-github-event", "push"),
        ("x-hub-signature-256", signature.as_str()),
    ];
    for headers in [&headers[..], &headers[..1]] {
        let answer = serve.post("/webhook", headers, b"{}");
        assert_eq!(answer.status, 401);
        let message = answer.json()["error"].to_string();
        assert!(message.contains("DRIFTLESS_WEBHOOK_SECRET"), "{message}");
        assert!(!message.contains("secret manager"), "{message}");
    }
}
