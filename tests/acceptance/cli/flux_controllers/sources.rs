//! Sources over several steps: logins, certificates, references, ranges, missing and broken
//! objects.

use super::act::{Act, longest};
use super::compare::Comparison;
use super::intended_differences;
use super::site::{Side, Sources, host, publish};
use super::snapshot::{Snapshot, is_settled, is_trying, of_kind};
use super::source_acts::{acts, secrets};
use driftless_flux::FluxKind;
use driftless_harness::charts::{Host, index};
use driftless_harness::cluster::Cluster;
use driftless_harness::github::Change;
use driftless_harness::proxy::Proxy;
use serde_json::{Value, json};
use std::path::Path;

/// Runs every step on both sides, and compares all objects after each.
#[test]
fn flux_controllers_and_driftless_keep_sources_alike() {
    let sources = Sources::new();
    let places = Places::new(&sources);
    let fill = |value: &Value| places.fill(&sources, value);
    let (charts, others): (Vec<_>, Vec<_>) = acts()
        .into_iter()
        .partition(|(kind, _)| *kind == "HelmChart");
    let [flux, driftless] = Cluster::start_all(["flux", "driftless"]);
    let sides = [
        &Side::flux(flux, &sources),
        &Side::driftless(driftless, &sources),
    ];
    let mut comparison = Comparison::new(sides[0], sides[1], intended_differences::SOURCES);
    let mut same = |description: &str| {
        eprintln!("{description}");
        comparison.eventually_the_same(|sides, _| sides.iter().all(|side| has_settled(side)));
    };
    let before: Vec<String> = before().iter().map(|one| fill(one).to_string()).collect();
    for side in sides {
        side.apply(&before.join("\n"));
        others.iter().for_each(|one| create(side, one, &fill));
    }
    same("sources");
    for side in sides {
        charts.iter().for_each(|one| create(side, one, &fill));
    }
    same("charts");
    let all: Vec<(&str, Act)> = others
        .into_iter()
        .chain(charts)
        .map(|(kind, act)| (kind, act.filled(&fill)))
        .collect();
    for step in 0..longest(all.iter().map(|(_, act)| act)) {
        for side in sides {
            for (kind, act) in &all {
                act.edit(side, &objects(kind), step);
            }
        }
        same(&format!("step {}", step + 1));
    }
    for side in sides {
        for (kind, act) in all.iter().rev() {
            let path = format!("{}/{}", objects(kind), act.name);
            side.cluster.api().delete(&path).expect("deleted");
        }
    }
    same("deleted");
    comparison.finish();
}

/// Further hosts, and the digest and commit of their content.
struct Places {
    open: Host,
    locked: Host,
    secure: Host,
    proxy: Proxy,
    socks: Proxy,
    digest: String,
    commit: String,
}

impl Places {
    fn new(sources: &Sources) -> Self {
        let (open, locked, secure) = (host(), host(), Host::start_tls());
        let directory = sources.directory.path();
        let web = directory.join("packed/web-1.0.0.tgz");
        publish(directory, &web, &locked, ("web", "1.0.0"));
        for host in [&open, &locked, &secure] {
            index(directory, host, "/stable", "");
        }
        locked.require("ann", "pw");
        let entry = |name: &str, file: &str| {
            format!("  {name}:\n  - name: {name}\n    version: 1.0.0\n    urls: [{file}]\n")
        };
        let whole = String::from_utf8(open.file("/stable/index.yaml")).expect("text");
        let more = entry("lost", "lost-1.0.0.tgz") + &entry("broken", "broken-1.0.0.tgz");
        open.put(
            "/stable/index.yaml",
            whole.replacen("entries:\n", &format!("entries:\n{more}"), 1),
        );
        open.put("/stable/broken-1.0.0.tgz", "no archive");
        for (name, text) in [
            ("broken", "entries: [\n"),
            ("list", "- entries\n"),
            ("empty", "apiVersion: v1\nentries: {}\n"),
            ("no-version", "entries: {}\n"),
        ] {
            open.put(&format!("/{name}/index.yaml"), text);
        }
        let here =
            driftless_harness::tools::workspace().join("tests/acceptance/cli/flux_controllers/web");
        let commit = sources.fleet.commit("main", &tree(&here), "A chart");
        sources.fleet.tag("v1.0.0", &commit);
        Self {
            digest: sources.charts.digest("charts/web", "1.0.0"),
            proxy: Proxy::http("ann", "pw"),
            socks: Proxy::socks("ann", "pw"),
            open,
            locked,
            secure,
            commit,
        }
    }

    fn fill(&self, sources: &Sources, value: &Value) -> Value {
        let text = sources
            .fill(&value.to_string())
            .replace("HTTP-LOCKED", &self.locked.url())
            .replace("LOCKED", &self.locked.name())
            .replace("OPEN", &self.open.url())
            .replace("SECURE", &self.secure.url())
            .replace("PROXY", self.proxy.url())
            .replace("SOCKS", self.socks.url())
            .replace("DIGEST", &self.digest)
            .replace("COMMIT", &self.commit)
            // Last, so that no placeholder is replaced within the certificate.
            .replace(
                "AUTHORITY",
                &self.secure.authority().escape_default().to_string(),
            );
        serde_json::from_str(&text).expect("JSON")
    }
}

/// Returns the changes that add a chart to the fleet's tree.
fn tree(chart: &Path) -> Vec<Change> {
    [
        "Chart.yaml",
        "values.yaml",
        "values-blue.yaml",
        "templates/all.yaml",
    ]
    .map(|file| {
        let bytes = std::fs::read(chart.join(file)).expect("a file");
        Change::write(&format!("charts/web/{file}"), bytes)
    })
    .into()
}

fn before() -> Vec<Value> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apps"}});
    [namespace].into_iter().chain(secrets()).collect()
}

fn objects(kind: &str) -> String {
    let kind = FluxKind::parse(kind).expect("a kind");
    format!(
        "/apis/source.toolkit.fluxcd.io/v1/namespaces/apps/{}",
        kind.plural()
    )
}

fn create(side: &Side, (kind, act): &(&str, Act), fill: &impl Fn(&Value) -> Value) {
    let mut spec = fill(&act.spec);
    spec["interval"] = json!("1h");
    let object = json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": kind,
        "metadata": {"name": act.name, "namespace": "apps"}, "spec": spec});
    let created = side.cluster.api().create(&objects(kind), &object);
    created.unwrap_or_else(|error| panic!("{kind} {}: {error:?}", act.name));
}

/// Returns whether every source has settled. A registry of charts is not reconciled by itself, so
/// it never settles.
fn has_settled(side: &Snapshot) -> bool {
    let kinds = [
        "helmrepositories",
        "ocirepositories",
        "buckets",
        "gitrepositories",
        "helmcharts",
    ];
    let mut all = kinds.into_iter().flat_map(|kind| of_kind(side, kind));
    all.all(|one| one["spec"]["type"] == "oci" || is_settled(one) && !is_trying(one))
}
