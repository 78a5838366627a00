//! The guide of multicluster-gitops with our commands in place of its scripts, from the first to
//! the last, on real API servers: after each one, the namespaces and deployments that the guide
//! lists for the hub and its remote cluster.

use driftless_harness::cluster::Cluster;
use driftless_harness::command::run_in;
use driftless_harness::github::{Change, GitHub, Repository};
use driftless_harness::serve::Serve;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const SECRET: &str = "It's a Secret to Everybody";
const FLEET: &str = "https://github.com/acme/fleet";
const MANIFESTS: &str = "https://github.com/acme/manifests";
/// The beginnings of the names of the fleet's namespaces.
const OURS: [&str; 2] = ["dev-", "nginx"];
/// The kinds with which a namespace is not yet empty: their finalizers must run first.
const FLUX: [&str; 2] = [
    "/apis/kustomize.toolkit.fluxcd.io/v1/kustomizations",
    "/apis/source.toolkit.fluxcd.io/v1/gitrepositories",
];

fn deployment(name: &str, namespace: Option<&str>) -> String {
    let namespace = namespace.map_or(String::new(), |name| format!(", namespace: {name}"));
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}{namespace}}}
spec:
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec: {{containers: [{{name: main, image: \"example.com/{name}:1\"}}]}}
"
    )
}

/// Returns a namespace with a deployment, as the guide's infrastructure has them.
fn infrastructure(namespace: &str, name: &str) -> String {
    let space = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}\n");
    format!("{space}---\n{}", deployment(name, Some(namespace)))
}

struct Guide {
    home: TempDir,
    hub: Cluster,
    remote: Cluster,
    github: GitHub,
    fleet: Arc<Repository>,
    kubeconfig: PathBuf,
}

impl Guide {
    fn start() -> Self {
        let home = tempfile::tempdir().expect("a home");
        let github = GitHub::start();
        let fleet = github.repository("acme/fleet");
        let manifests = github.repository("acme/manifests");
        let vote = |directory: &str| {
            let file = format!("azure-vote/{directory}/deployment.yaml");
            Change::write(&file, deployment("azure-vote", None))
        };
        let places = [vote("k3d-america"), vote("k3s-america-south")];
        manifests.commit("dev", &places, "Applications");
        manifests.commit("release/1-0-x/dev", &[vote("manifest")], "Release");
        let [hub, remote] = Cluster::start_all(["k3d-america", "k3s-america-south"]);
        let kubeconfig = home.path().join("hub.yaml");
        std::fs::write(&kubeconfig, hub.kubeconfig()).expect("write the kubeconfig");
        std::fs::write(home.path().join("south.yaml"), remote.kubeconfig())
            .expect("write the kubeconfig");
        Self {
            home,
            hub,
            remote,
            github,
            fleet,
            kubeconfig,
        }
    }

    fn checkout(&self, branch: &str) -> PathBuf {
        self.home.path().join(branch)
    }

    /// Runs a command in the checkout of a branch, against the hub.
    fn run(&self, branch: &str, line: &str) {
        let dir = self.checkout(branch);
        std::fs::create_dir_all(&dir).expect("a checkout");
        let args: Vec<&str> = line.split(' ').chain(["--dir", text(&dir)]).collect();
        let hub = [("KUBECONFIG", text(&self.kubeconfig))];
        run_in(self.home.path(), &args, &hub).ok();
    }

    /// Commits the checkout of a branch, and sends the push to the webhook.
    fn push(&self, branch: &str) {
        let directory = self.checkout(branch);
        let sha = self.fleet.commit_directory(branch, &directory, "Change");
        let change = Change::write("pushed", sha);
        self.github.push(&self.fleet, branch, &[change]);
    }

    /// Writes the infrastructure of all clusters of a branch.
    fn infrastructure(&self, branch: &str, namespace: &str, name: &str) {
        let base = self.checkout(branch).join("infra/base");
        let list = format!("resources:\n- {name}.yaml\n");
        std::fs::write(base.join("kustomization.yaml"), list).expect("write");
        let file = base.join(format!("{name}.yaml"));
        std::fs::write(file, infrastructure(namespace, name)).expect("write");
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn of<'v>(object: &'v Value, field: &str) -> &'v str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// Finishes the namespaces in deletion whose Flux objects are gone, as the namespace controller
/// does. Its other objects go with it.
fn finish_namespaces(cluster: &Cluster) {
    let api = cluster.api();
    for namespace in api.list("/api/v1/namespaces").expect("namespaces") {
        if of(&namespace, "deletionTimestamp").is_empty() {
            continue;
        }
        let name = of(&namespace, "name");
        let mut is_empty = true;
        for kind in FLUX {
            // The remote cluster does not serve these kinds.
            for object in api.list(kind).unwrap_or_default() {
                if of(&object, "namespace") != name {
                    continue;
                }
                is_empty = false;
                let (group, plural) = kind.rsplit_once('/').expect("a path");
                let path = format!("{group}/namespaces/{name}/{plural}/{}", of(&object, "name"));
                // A refusal means that it is gone by now.
                drop(api.delete(&path));
            }
        }
        let deployments = format!("/apis/apps/v1/namespaces/{name}/deployments");
        for object in api.list(&deployments).unwrap_or_default() {
            drop(api.delete(&format!("{deployments}/{}", of(&object, "name"))));
        }
        if is_empty {
            cluster.finish_namespace(name);
        }
    }
}

/// Returns the fleet's namespaces, and its deployments as NAMESPACE/NAME.
fn list(cluster: &Cluster) -> Vec<String> {
    let api = cluster.api();
    let is_ours = |name: &str| OURS.iter().any(|start| name.starts_with(start));
    let spaces = api.list("/api/v1/namespaces").expect("namespaces");
    let spaces = spaces.iter().map(|space| of(space, "name").to_owned());
    let deployments = api.list("/apis/apps/v1/deployments").expect("deployments");
    let deployments = deployments
        .iter()
        .map(|one| format!("{}/{}", of(one, "namespace"), of(one, "name")));
    let mut list: Vec<String> = spaces
        .chain(deployments)
        .filter(|name| is_ours(name))
        .collect();
    list.sort();
    list
}

#[test]
fn multicluster_whole() {
    let guide = Guide::start();
    let serve = [
        "--kubeconfig",
        text(&guide.kubeconfig),
        "--github-api",
        guide.github.url(),
    ];
    let secret = [("DRIFTLESS_WEBHOOK_SECRET", SECRET)];
    let serve = Serve::start(guide.home.path(), &serve, &secret);
    guide.github.add_webhook(&serve.url("/webhook"), SECRET);
    let becomes = |what: &str, cluster: &Cluster, want: &[&str]| {
        serve.eventually(what, || {
            finish_namespaces(cluster);
            let found = list(cluster);
            match found == want {
                true => Ok(()),
                false => Err(format!("{found:?}, expected {want:?}")),
            }
        });
    };

    // The fleet: the branch that all environments share.
    let add = format!("fleet add-cluster k3d-america --apply --repo {FLEET}");
    guide.run("main", &add);
    guide.infrastructure("main", "nginx", "nginx");
    guide.push("main");
    let main = ["nginx", "nginx/nginx"];
    becomes(
        "the cluster has the fleet's infrastructure",
        &guide.hub,
        &main,
    );

    // The environment.
    guide.run("dev", &format!("env init dev --repo {FLEET}"));
    guide.infrastructure("dev", "dev-redis", "redis-master");
    guide.run("dev", "env add-cluster k3d-america --apply");
    guide.push("dev");
    let with = |more: &[&'static str]| {
        let mut all = [&main[..], more].concat();
        all.sort_unstable();
        all
    };
    let environment = ["dev-flux-system", "dev-redis", "dev-redis/redis-master"];
    becomes(
        "the hub has the environment",
        &guide.hub,
        &with(&environment),
    );

    guide.run(
        "dev",
        &format!("tenant add kaizentm --repo {MANIFESTS} --branch dev"),
    );
    guide.push("dev");
    let tenant = [&environment[..], &["dev-kaizentm"]].concat();
    becomes("the hub has the tenant", &guide.hub, &with(&tenant));

    guide.run("dev", "app add kaizentm azure-vote");
    guide.push("dev");
    let app = [&tenant[..], &["dev-kaizentm/azure-vote"]].concat();
    becomes("the hub has the application", &guide.hub, &with(&app));

    let south = guide.home.path().join("south.yaml");
    let add = format!(
        "env add-remote k3d-america k3s-america-south --kubeconfig {} --apply",
        south.display()
    );
    guide.run("dev", &add);
    guide.push("dev");
    let remote = [
        "dev-kaizentm",
        "dev-kaizentm/azure-vote",
        "dev-redis",
        "dev-redis/redis-master",
    ];
    becomes("the remote cluster has all of it", &guide.remote, &remote);
    becomes("the hub stays", &guide.hub, &with(&app));
    // The tenant acts on the remote cluster as its own account, not as the administrator.
    let audit = guide.remote.requests();
    let acts = audit.iter().any(|request| {
        request.as_user == "system:serviceaccount:dev-kaizentm:kaizentm" && request.is_write()
    });
    assert!(acts, "no write as the tenant");

    guide.run(
        "dev",
        &format!("release-env add kaizentm 1-0-x --repo {MANIFESTS} --branch release/1-0-x/dev"),
    );
    guide.push("dev");
    let release = ["dev-1-0-x-kaizentm", "dev-1-0-x-kaizentm/azure-vote"];
    let release = [&app[..], &release].concat();
    becomes("the hub has the release", &guide.hub, &with(&release));

    guide.run("dev", "env remove-cluster k3d-america/k3s-america-south");
    guide.push("dev");
    becomes("the remote cluster is left", &guide.remote, &[]);
    becomes("the hub keeps the rest", &guide.hub, &with(&release));

    // The removal waits for the namespaces that this thread finishes.
    std::thread::scope(|scope| {
        let removal = scope.spawn(|| {
            guide.run("dev", "env remove-cluster k3d-america --apply --timeout 2m");
        });
        while !removal.is_finished() {
            finish_namespaces(&guide.hub);
            std::thread::sleep(Duration::from_millis(200));
        }
        removal.join().expect("the removal");
    });
    guide.push("dev");
    becomes("the environment is gone", &guide.hub, &main);
    let head = guide.fleet.resolve("main").expect("a head");
    serve.eventually("the other root is ready", || {
        serve.is_ready("flux-system", "flux-system", &head)
    });

    std::thread::scope(|scope| {
        let removal = scope.spawn(|| {
            guide.run(
                "main",
                "fleet remove-cluster k3d-america --apply --timeout 2m",
            );
        });
        while !removal.is_finished() {
            finish_namespaces(&guide.hub);
            std::thread::sleep(Duration::from_millis(200));
        }
        removal.join().expect("the removal");
    });
    becomes("the fleet is gone", &guide.hub, &[]);
}
