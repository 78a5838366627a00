//! `history` with the journal of `driftless serve`.

use crate::create::{Server, text};
use driftless_harness::command::run_in;
use driftless_harness::github::{Change, GitHub};
use driftless_harness::serve::Serve;
use driftless_harness::tools;

fn service(port: u16) -> Change {
    let service = format!(
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\n  namespace: default\nspec:\n  selector: {{app: web}}\n  \
         ports:\n  - name: http\n    port: {port}\n"
    );
    Change::write("clusters/hub/web.yaml", service)
}

#[test]
fn the_journal_of_serve_has_what_changed() {
    if !tools::has("git") {
        return;
    }
    let github = GitHub::start();
    let repository = github.repository("acme/fleet");
    let first = repository.commit("main", &[service(80)], "First");
    let hub = Server::start();
    let home = tempfile::tempdir().expect("a home");
    let kubeconfig = text(hub.kubeconfig());
    let args = [
        "--kubeconfig",
        kubeconfig,
        "--github-api",
        github.url(),
        "--repository",
        "acme/fleet",
        "--path",
        "clusters/hub",
    ];
    let serve = Serve::start(
        home.path(),
        &args,
        &[("DRIFTLESS_WEBHOOK_SECRET", "secret")],
    );
    github.add_webhook(&serve.url("/webhook"), "secret");
    let lands = |sha: &str| {
        let check = || serve.is_ready("flux-system", "flux-system", sha);
        serve.eventually("the commit is applied", check);
    };
    lands(&first);
    github.push(&repository, "main", &[service(81)]);
    let second = repository.resolve("main").expect("a commit");
    lands(&second);

    // The directory that `serve` uses by default.
    let run = |line: &str| {
        let line: Vec<&str> = line.split(' ').collect();
        run_in(home.path(), &line, &[("KUBECONFIG", kubeconfig)])
    };
    let root = run("history kustomization flux-system").ok();
    for words in [
        "\nChanges:\n",
        "  Service/default/web configured\n",
        "  Service/default/web created\n",
        "  ready  ",
    ] {
        assert!(root.contains(words), "{words}: {root}");
    }
    assert!(!root.contains("port:"), "{root}");
    let field = "    spec.ports[name=http].port: 80 -> 81\n";
    for flag in ["--diff", "-o wide"] {
        let root = run(&format!("history kustomization flux-system {flag}")).ok();
        assert!(root.contains(field), "{flag}: {root}");
    }
    let source = run("history source git flux-system").ok();
    assert!(
        source.contains("  new revision  after a push  "),
        "{source}"
    );

    // An applied object, in the same directory by its name.
    let servers: Vec<_> = std::fs::read_dir(home.path().join(".local/state/driftless/default"))
        .expect("the state")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    let data = text(&servers[0]);
    let web = run(&format!("history svc/web -n default --diff --data {data}")).ok();
    let lines: Vec<&str> = web.lines().collect();
    assert!(
        lines[0].contains("  Kustomization/flux-system/flux-system  main@sha1:"),
        "{web}"
    );
    assert_eq!(lines[2], field.trim_end(), "{web}");
    let json = run(&format!(
        "history service/web -n default -o json --data {data}"
    ))
    .json();
    let entries = json.as_array().expect("a list");
    assert_eq!(entries.len(), 2, "{json}");
    assert_eq!(entries[0]["changes"][0]["fields"][0]["to"], "81");
    let none = run("history cm/other -n default");
    assert_eq!((none.code, none.out.as_str()), (0, ""), "{}", none.err);
    assert!(none.err.contains("no step changed it"), "{}", none.err);

    let other = run("history kustomization flux-system --data . --hub asia");
    other.refused(2, &["--data: . is not a data directory", "Next:"]);
    let other = run(&format!(
        "history svc/web -n default --data {data} --hub asia"
    ));
    other.refused(
        2,
        &["no hub is named asia", "give --hub with one of default"],
    );
    let both = run("history svc/web kustomization flux-system");
    both.refused(2, &["'svc/web' and a kind of Flux object"]);

    // Without a journal the status is all that is known.
    let elsewhere = tempfile::tempdir().expect("a home");
    let run = |line: &str| {
        let line: Vec<&str> = line.split(' ').collect();
        run_in(elsewhere.path(), &line, &[("KUBECONFIG", kubeconfig)])
    };
    let root = run("history kustomization flux-system").ok();
    assert!(!root.contains("Changes:"), "{root}");
    let web = run("history svc/web -n default");
    web.refused(1, &["none was found", "give --data DIR"]);
}
