//! What `driftless serve` sees by its watches on a real API server: no sweep runs in these tests
//! unless they request one.

use driftless_harness::cluster::Cluster;
use driftless_harness::process::run;
use driftless_harness::serve::Serve;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const OBJECTS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: app, namespace: default}
data: {version: one}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: app, namespace: default}
spec:
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec: {containers: [{name: app, image: app}]}
";
const MAP: &str = "/api/v1/namespaces/default/configmaps/app";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/app";
const ROOT: &str =
    "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/flux-system";
/// The time in which a change is answered. Most of it is for machines under load.
const AT_ONCE: Duration = Duration::from_secs(5);

struct World {
    hub: Cluster,
    home: TempDir,
}

impl World {
    fn start(name: &str) -> Self {
        let hub = Cluster::start(name);
        let home = tempfile::tempdir().expect("a home");
        std::fs::write(home.path().join("config"), hub.kubeconfig()).expect("write");
        let fleet = home.path().join("fleet");
        std::fs::create_dir_all(fleet.join("dev")).expect("a directory");
        std::fs::write(fleet.join("dev/app.yaml"), OBJECTS).expect("write");
        for args in [
            &["init", "--quiet", "--initial-branch=main"][..],
            &["add", "."],
            &["commit", "--quiet", "--message", "first"],
        ] {
            git(&fleet, args);
        }
        Self { hub, home }
    }

    /// Serves without further sweeps, until the fleet is applied.
    fn serve(&self, flags: &[&str]) -> Serve {
        let file = |name: &str| self.home.path().join(name).display().to_string();
        let (kubeconfig, fleet) = (file("config"), format!("file://{}", file("fleet")));
        let mut args = vec!["--kubeconfig", &kubeconfig, "--repository", &fleet];
        args.extend(["--path", "dev", "--sweep-interval", "1h"]);
        args.extend(flags);
        let serve = Serve::start(self.home.path(), &args, &[]);
        serve.eventually("the fleet is applied", || {
            serve.is_ready("flux-system", "flux-system", "")?;
            self.has_version("one")
        });
        // The sweep after the first LISTs, and the watch of what was applied.
        std::thread::sleep(Duration::from_secs(3));
        serve
    }

    fn version(&self) -> Option<String> {
        let map = self.hub.api().find(MAP)?;
        Some(map["data"]["version"].as_str()?.to_owned())
    }

    fn has_version(&self, version: &str) -> Result<(), String> {
        match self.version() {
            Some(found) if found == version => Ok(()),
            found => Err(format!("{found:?}")),
        }
    }

    fn edit(&self, version: &str) {
        let patch = json!({"data": {"version": version}});
        self.hub.api().patch(MAP, &patch).expect("edit");
    }

    fn root(&self) -> Value {
        self.hub.api().get(ROOT).expect("the root")
    }

    /// Returns the requests since an earlier number that are not watches, as `VERB PATH`.
    fn requests_since(&self, count: usize) -> Vec<String> {
        let requests = self.hub.requests().into_iter().skip(count);
        let requests = requests.filter(|request| request.verb != "watch");
        requests
            .map(|request| format!("{} {}", request.verb, request.uri))
            .collect()
    }
}

fn git(directory: &Path, args: &[&str]) {
    let identity = ["-c", "user.name=Test", "-c", "user.email=test@example.com"];
    let mut git = Command::new("git");
    run(git.arg("-C").arg(directory).args(identity).args(args));
}

fn at_once(description: &str, done: impl Fn() -> Result<(), String>) {
    let start = Instant::now();
    while let Err(error) = done() {
        assert!(start.elapsed() < AT_ONCE, "{description}: {error}");
        std::thread::sleep(Duration::from_millis(20));
    }
    eprintln!("  {description}: {:.2} s", start.elapsed().as_secs_f64());
}

#[test]
fn serve_watches() {
    let world = World::start("watched");
    let serve = world.serve(&[]);
    let api = world.hub.api();

    world.edit("mine");
    at_once("an edit is put back", || world.has_version("one"));
    // The pause between two corrections of one Kustomization.
    std::thread::sleep(Duration::from_secs(6));
    api.delete(MAP).expect("delete");
    at_once("a deleted object is created again", || {
        world.has_version("one")
    });

    let patch = json!({"spec": {"interval": "7m"}});
    let edited = api.patch(ROOT, &patch).expect("edit");
    at_once("an edited Kustomization is observed", || {
        let seen = world.root()["status"]["observedGeneration"].clone();
        match seen == edited["metadata"]["generation"] {
            true => Ok(()),
            false => Err(seen.to_string()),
        }
    });

    // A status does not lead to a step, and at rest there are only watches.
    std::thread::sleep(Duration::from_secs(6));
    let count = world.hub.requests().len();
    let status = json!({"status": {"observedGeneration": 1, "replicas": 1}});
    api.patch(&format!("{DEPLOYMENT}/status"), &status)
        .expect("write the status");
    std::thread::sleep(Duration::from_secs(4));
    let requests = world.requests_since(count);
    let ours = format!("patch {DEPLOYMENT}/status");
    assert_eq!(requests.len(), 1, "{requests:#?}");
    assert!(requests[0].starts_with(&ours), "{requests:#?}");

    // The watches continue after a restart of the API server.
    world.hub.stop();
    std::thread::sleep(Duration::from_secs(2));
    world.hub.resume();
    world.edit("after a restart");
    serve.eventually("an edit after a restart is put back", || {
        world.has_version("one")
    });
}

#[test]
fn without_drift_watch_the_sweep_corrects_drift() {
    let world = World::start("swept");
    let serve = world.serve(&["--drift-watch=false"]);
    world.edit("mine");
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(world.version().as_deref(), Some("mine"));
    assert_eq!(serve.post("/sweep", &[], &[]).status, 200);
    at_once("the sweep finds the drift", || world.has_version("one"));
}
