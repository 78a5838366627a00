//! `audit`, from a data directory of `serve`.

use crate::help::is_snapshot;
use driftless_adapters::local::DirectoryBlobs;
use driftless_harness::command::run_in;
use driftless_kernel::ports::{Blobs as _, Precondition};
use serde_json::{Value, json};
use std::path::Path;

/// Writes two hubs and three records into a data directory.
fn write_log(data: &Path) {
    let digest = |digit: &str| format!("sha256:{}", digit.repeat(64));
    let by = |kind: &str, name: &str| json!({"kind": kind, "namespace": "team-a", "name": name});
    let first = json!({
        "time": "2026-01-31T12:00:00.000Z", "hub": "prod", "cluster": "prod",
        "by": by("Kustomization", "apps"), "cause": "source", "revision": format!("main@sha1:{}", "6dcb09b5".repeat(5)),
        "commit": {"sha": "6dcb09b5".repeat(5), "author": "Ada Example <ada@example.com>", "delivery": "72d3162e-cc78-11e3"},
        "changes": [
            {"group": "apps", "kind": "Deployment", "namespace": "shop", "name": "web", "action": "configured", "digest": digest("a")},
            {"kind": "Namespace", "name": "old", "action": "deleted"},
        ],
    });
    let second = json!({
        "time": "2026-01-31T12:30:00.000Z", "hub": "prod", "cluster": "team-a/eu-1",
        "by": by("HelmRelease", "cache"), "cause": "drift", "revision": "1.2.3",
        "changes": [{"kind": "Secret", "namespace": "shop", "name": "login", "action": "created", "digest": digest("b")}],
    });
    let third = json!({
        "time": "2026-01-31T12:15:00.000Z", "hub": "staging", "cluster": "staging",
        "by": by("Kustomization", "apps"), "cause": "push",
        "changes": [{"kind": "ConfigMap", "namespace": "shop", "name": "c", "action": "created"}],
    });
    let blobs = [
        ("hubs/prod.json", json!({"name": "prod"})),
        ("hubs/staging.json", json!({"name": "staging"})),
        ("audit/prod/2026/01/31/120000.000-1.json", first),
        ("audit/prod/2026/01/31/123000.000-2.json", second),
        ("audit/staging/2026/01/31/121500.000-3.json", third),
    ];
    let store = DirectoryBlobs::open(data).expect("a directory");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for (key, blob) in blobs {
        let put = store.put(key, blob.to_string().into(), Precondition::None);
        runtime.block_on(put).expect("written");
    }
}

#[test]
fn the_audit_log_is_filtered_and_printed() {
    let home = tempfile::tempdir().expect("a home");
    write_log(home.path());
    let data = home.path().to_str().expect("UTF-8");
    let run = |flags: &str| {
        let since = "--since 2026-01-31T00:00:00Z";
        let line = format!("audit --data {data} {since} {flags}");
        let args: Vec<&str> = line.split_whitespace().collect();
        run_in(home.path(), &args, &[])
    };
    is_snapshot("audit-table.txt", &run("").ok());
    is_snapshot("audit-wide.txt", &run("-o wide --hub prod").ok());
    is_snapshot("audit-yaml.txt", &run("-o yaml --name web").ok());

    let objects = |flags: &str| {
        let records: Value = run(&format!("{flags} -o json")).json();
        let records = records.as_array().expect("a list").iter();
        let changes = records.flat_map(|record| record["changes"].as_array().expect("changes"));
        let names = changes.map(|change| change["name"].as_str().unwrap_or_default());
        names.collect::<Vec<_>>().join(" ")
    };
    for (flags, names) in [
        ("", "web old c login"),
        ("--hub staging", "c"),
        ("--hub gone", ""),
        ("--cluster eu-1", "login"),
        ("--kind deployment", "web"),
        ("-n shop", "web c login"),
        ("--by kustomization/team-a/apps --hub prod", "web old"),
        ("--author ADA", "web old"),
        ("--until 2026-01-31T12:20:00Z", "web old c"),
    ] {
        assert_eq!(objects(flags), names, "{flags}");
    }
    let line = format!("audit --data {data} --since 1h --until 1m -o json");
    let args: Vec<&str> = line.split(' ').collect();
    assert_eq!(run_in(home.path(), &args, &[]).json(), json!([]));
    let none = run("--name missing");
    assert_eq!((none.code, none.out.as_str()), (0, ""), "{}", none.err);
    assert!(
        none.err.contains("no record of this time matches"),
        "{}",
        none.err
    );
    run("--until yesterday").refused(2, &["expected a time such as"]);
    run("--by Deployment/a/b").refused(2, &["expected KIND/NAMESPACE/NAME"]);
    let elsewhere = run_in(home.path(), &["audit", "--data", "none"], &[]);
    elsewhere.refused(2, &["none is not a data directory", "Next:"]);
}
