//! Errors before a command does anything: their message, next step and exit code. No cluster is
//! needed.

use driftless_harness::command::{Done, run, run_in};
use driftless_harness::ports;
use std::net::TcpListener;

/// Returns a kubeconfig for a server at this address, with these fields of the user.
fn kubeconfig(server: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         contexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n\
         clusters: [{{name: k, cluster: {{server: '{server}'}}}}]\n\
         users: [{{name: u, user: {user}}}]\n"
    )
}

/// Runs a command with this kubeconfig.
fn with(text: &str, args: &[&str]) -> Done {
    let home = tempfile::tempdir().expect("a home");
    let file = home.path().join("config");
    std::fs::write(&file, text).expect("write");
    run_in(
        home.path(),
        args,
        &[("KUBECONFIG", file.to_str().expect("UTF-8"))],
    )
}

#[test]
fn wrong_usage_is_2() {
    for (args, words) in [
        (&["get"][..], "Usage: driftless get"),
        (&["get", "nothing"], "unrecognized subcommand 'nothing'"),
        (&["get", "all", "--output", "xml"], "invalid value 'xml'"),
        (
            &["get", "all", "--status-selector", "ready"],
            "expected TYPE=STATUS",
        ),
        (&["suspend", "kustomization"], "<NAMES>"),
        (
            &["reconcile", "kustomization", "a", "--timeout", "5"],
            "--timeout",
        ),
        (&["serve", "--repository", "fleet"], "expected OWNER/NAME"),
        (&["serve", "--branch", "main"], "--repository"),
        (
            &["serve", "--allow-installation-repository", "acme/fleet"],
            "expected NAMESPACE=OWNER/NAME",
        ),
        (&["serve", "--listen", "nowhere"], "--listen"),
        (
            &["serve", "--sweep-interval", "1ms"],
            "--sweep-interval: the minimum is 1s",
        ),
        (&["serve", "--workers", "0"], "--workers"),
        (
            &["serve", "--sigstore-root", "missing.json"],
            "No such file",
        ),
        (&["worker", "--secrets", "."], "--nats is required"),
        (
            &["worker", "--secrets", "missing", "--nats", "nats://n:4222"],
            "--secrets: missing is not a directory",
        ),
        (
            &["worker", "--secrets", ".", "--nats", "http://n:4222"],
            "expected nats://HOST:PORT",
        ),
        (
            &[
                "worker",
                "--nats",
                "nats://n",
                "--nats-prefix",
                "a.b",
                "--secrets",
                ".",
            ],
            "expected 1 to 32 letters",
        ),
        (
            &[
                "worker",
                "--secrets",
                ".",
                "--nats",
                "nats://n",
                "--sweep-interval",
                "1h",
            ],
            "--sweep-interval: expected 1s to 10m",
        ),
        (
            &["bootstrap", "--name", "a", "--nats", "nats://n:4222"],
            "--nats needs --secrets",
        ),
        (
            &["bootstrap", "--name", "a", "--secrets", "."],
            "--nats <URL>",
        ),
    ] {
        run(args).refused(2, &[words]);
    }
}

#[test]
fn the_password_of_a_server_is_not_quoted() {
    let home = tempfile::tempdir().expect("a home");
    let address = "worker:hidden@nats:4222";
    let flag = ["--nats", "nats://nats:4222", "--nats", address];
    for command in [
        &["worker", "--secrets", "."][..],
        &["bootstrap", "--name", "a", "--secrets", "."],
    ] {
        let by_variable = run_in(home.path(), command, &[("DRIFTLESS_NATS", address)]);
        let by_flag = run(&[command, &flag].concat());
        for refused in [by_variable, by_flag] {
            assert!(!refused.err.contains("hidden"), "{}", refused.err);
            refused.refused(2, &["--nats: expected nats://HOST:PORT", "DRIFTLESS_NATS"]);
        }
    }
}

#[test]
fn a_worker_checks_the_hosts_of_github_enterprise() {
    let home = tempfile::tempdir().expect("a home");
    let args = ["worker", "--secrets", ".", "--nats", "nats://127.0.0.1:1"];
    let hosts = [("DRIFTLESS_GITHUB_HOSTS", "git.acme.example")];
    run_in(home.path(), &args, &hosts).refused(
        2,
        &["DRIFTLESS_GITHUB_HOSTS is not a list of HOST=URL: 'git.acme.example'"],
    );
}

#[test]
fn no_kubeconfig() {
    for args in [
        &["get", "all"][..],
        &["serve", "--listen", "127.0.0.1:0"],
        &["suspend", "ks", "a"],
    ] {
        run(args).refused(
            1,
            &["no kubeconfig was found", "Next:", "--kubeconfig FILE"],
        );
    }
    let missing = run(&["get", "all", "--kubeconfig", "missing.yaml"]);
    missing.refused(2, &["--kubeconfig: missing.yaml does not exist", "Next:"]);
}

#[test]
fn a_server_of_nats_that_does_not_answer_is_named_without_its_login() {
    let args = [
        "worker",
        "--secrets",
        ".",
        "--nats",
        "nats://me:hidden@127.0.0.1:1",
    ];
    let done = run(&args);
    done.refused(1, &["connect to NATS", "Next:", "that a server runs there"]);
    assert!(!done.err.contains("hidden"), "{}", done.err);
}

#[test]
fn serve_runs_no_credential_plugin() {
    let home = tempfile::tempdir().expect("a home");
    let ran = home.path().join("ran");
    let program = format!("{{exec: {{command: touch, args: ['{}']}}}}", ran.display());
    let text = kubeconfig("https://127.0.0.1:1", &program);
    let file = home.path().join("config");
    std::fs::write(&file, text).expect("write");
    let environment = [
        ("KUBECONFIG", file.to_str().expect("UTF-8")),
        ("PATH", "/usr/bin:/bin"),
        ("DRIFTLESS_BUCKET", "bucket"),
        ("DRIFTLESS_QUEUE_URL", "http://127.0.0.1:1/queue"),
    ];
    for args in [
        &["serve", "--listen", "127.0.0.1:0"][..],
        &["bootstrap", "--name", "staging"],
    ] {
        let done = run_in(home.path(), args, &environment);
        done.refused(1, &["user.exec is refused", "kubectl create token"]);
        assert!(!ran.exists(), "{args:?}");
    }
}

#[test]
fn a_missing_context_is_an_error() {
    let text = kubeconfig("https://127.0.0.1:1", "{token: t}");
    let more = text.replace("contexts: [", "contexts: [{name: dev, context: {}}, ");
    let done = with(&more, &["get", "all", "--context", "production"]);
    done.refused(
        1,
        &[
            "config: context 'production' does not exist",
            "give --context NAME, one of: dev, c",
        ],
    );
    let done = with(&more.replace("current-context: c", ""), &["get", "all"]);
    done.refused(1, &["config: current-context is not set", "one of: dev, c"]);
    let none = "apiVersion: v1\nkind: Config\ncurrent-context: c\n";
    with(none, &["get", "all"]).refused(
        1,
        &["context 'c' does not exist", "this one has no contexts"],
    );
}

#[test]
fn a_file_that_is_not_a_kubeconfig() {
    for (text, why) in [
        ("- a list", "expected a single YAML document with a map"),
        (
            "a: 1\n---\nb: 2\n",
            "expected a single YAML document with a map",
        ),
        ("kind: Secret\ndata: {}\n", "its kind is not Config"),
    ] {
        let words = format!("config is not a kubeconfig: {why}");
        with(text, &["get", "all"]).refused(1, &[&words]);
    }
}

#[test]
fn a_file_instead_of_a_fleet_is_an_error() {
    let home = tempfile::tempdir().expect("a home");
    let file = home.path().join("g.yaml");
    std::fs::write(&file, "kind: Namespace\n").expect("write");
    let file = file.to_str().expect("UTF-8");
    for args in [&["check", file][..], &["demo", "--once", "--fleet", file]] {
        let done = run_in(home.path(), args, &[]);
        done.refused(
            2,
            &[
                &format!("{file} is a file, and not a directory"),
                "the directory of the fleet",
            ],
        );
    }
}

#[test]
fn secrets_of_a_kubeconfig_are_not_repeated() {
    let broken = kubeconfig("https://127.0.0.1:1", "{token: very-secret, [}");
    let done = with(&broken, &["get", "all"]);
    done.refused(1, &["config"]);
    assert!(!done.err.contains("very-secret"), "{}", done.err);
}

#[test]
fn a_missing_server_is_an_error() {
    let address = format!("127.0.0.1:{}", ports::free());
    let text = kubeconfig(&format!("https://{address}"), "{token: t}");
    for args in [&["get", "all"][..], &["serve", "--listen", "127.0.0.1:0"]] {
        with(&text, args).refused(1, &[&address, "Next: check that the server can be reached"]);
    }
}

#[test]
fn a_port_in_use() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    let text = kubeconfig("https://127.0.0.1:1", "{token: t}");
    let done = with(&text, &["serve", "--listen", &address]);
    done.refused(
        1,
        &[
            &format!("listen on {address}"),
            "Next: give another address with --listen",
        ],
    );
}

#[test]
fn an_environment_without_an_installation() {
    let text = kubeconfig("https://127.0.0.1:1", "{token: t}");
    let done = with(&text, &["bootstrap", "--name", "staging"]);
    done.refused(
        2,
        &[
            "DRIFTLESS_BUCKET, DRIFTLESS_QUEUE_URL",
            "outputs of the stack",
        ],
    );
    let done = with(
        "",
        &[
            "bootstrap",
            "--name",
            "staging",
            "--repository",
            "file:///srv/fleet",
        ],
    );
    done.refused(2, &["cannot read a local directory"]);
    let half = [("DRIFTLESS_GITHUB_APP_ID", "1")];
    let home = tempfile::tempdir().expect("a home");
    let file = home.path().join(".kube/config");
    std::fs::create_dir_all(home.path().join(".kube")).expect("a directory");
    std::fs::write(&file, text).expect("write");
    let done = run_in(home.path(), &["serve", "--listen", "127.0.0.1:0"], &half);
    done.refused(
        2,
        &["DRIFTLESS_GITHUB_APP_KEY_FILE", "must be set together"],
    );
}
