//! The systems that sync a cluster.

use super::worlds::FLUX;
use driftless_harness::cluster::Cluster;
use driftless_harness::flux::Flux;
use driftless_harness::github::{Change, GitHub, Repository};
use driftless_harness::serve::Serve;
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The secret of the webhook.
const SECRET: &str = "bench";

/// A running system.
pub enum System {
    /// `driftless serve`; pushes arrive by webhook.
    Driftless { serve: Serve, _home: TempDir },
    /// Flux's controllers; after a push, the annotation asks for the source, as a Receiver does.
    Flux(Flux),
}

impl System {
    /// Starts a system, and waits until the definitions are installed and nothing is left to do.
    pub fn start(name: &str, program: &Path, cluster: &Cluster, github: &GitHub) -> Self {
        if name == "flux" {
            let mut flux = Flux::install(cluster);
            flux.start(github.authority());
            return Self::Flux(flux);
        }
        let root = github.repository("acme/root");
        let sha = root.commit("main", &[Change::write("root/a.yaml", EMPTY)], "Root");
        let home = tempfile::tempdir().expect("a home");
        let kubeconfig = home.path().join("config");
        std::fs::write(&kubeconfig, cluster.kubeconfig()).expect("write the kubeconfig");
        let arguments = [
            ["--kubeconfig", kubeconfig.to_str().expect("UTF-8")],
            ["--github-api", github.url()],
            ["--repository", "acme/root"],
            ["--path", "root"],
        ]
        .concat();
        let environment = [("DRIFTLESS_WEBHOOK_SECRET", SECRET)];
        let serve = Serve::start_program(program, home.path(), &arguments, &environment);
        serve.eventually("the root is applied", || {
            serve.is_ready("flux-system", "flux-system", &sha)
        });
        github.add_webhook(&serve.url("/webhook"), SECRET);
        Self::Driftless { serve, _home: home }
    }

    /// Returns the address of a repository: driftless reads GitHub by its API, Flux clones.
    pub fn url(&self, github: &GitHub, repository: &Repository) -> String {
        let host = match self {
            Self::Driftless { .. } => "https://github.com".to_owned(),
            Self::Flux(_) => github.git_url(),
        };
        format!("{host}/{}", repository.full_name())
    }

    /// Returns the processes of the system.
    pub fn processes(&self) -> Vec<u32> {
        match self {
            Self::Driftless { serve, .. } => vec![serve.process()],
            Self::Flux(flux) => flux.processes(),
        }
    }

    /// Announces a commit, and returns the moment before.
    pub fn announce(
        &self,
        cluster: &Cluster,
        github: &GitHub,
        repository: &Repository,
        before: &str,
        sha: &str,
    ) -> Instant {
        let start = Instant::now();
        match self {
            Self::Driftless { .. } => {
                let push = github.announce(repository, "refs/heads/main", Some(before), sha);
                let status = push.deliveries.first().and_then(|one| one.status);
                assert_eq!(status, Some(202), "the webhook queues the source");
            }
            Self::Flux(_) => {
                let path = format!(
                    "/apis/source.toolkit.fluxcd.io/v1/namespaces/{FLUX}/gitrepositories/fleet"
                );
                let annotations = json!({"reconcile.fluxcd.io/requestedAt": sha});
                let patch = json!({"metadata": {"annotations": annotations}});
                cluster
                    .api()
                    .patch(&path, &patch)
                    .expect("ask for the source");
            }
        }
        start
    }

    /// Sweeps the hub; `None` for a system that has no sweep.
    pub fn sweep(&self) -> Option<Duration> {
        let Self::Driftless { serve, .. } = self else {
            return None;
        };
        let start = Instant::now();
        let answer = serve.post_within(Duration::from_secs(900), "/sweep", &[], b"");
        assert_eq!(answer.status, 200, "{}", answer.text());
        Some(start.elapsed())
    }
}

const EMPTY: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: root, namespace: default}\n";
