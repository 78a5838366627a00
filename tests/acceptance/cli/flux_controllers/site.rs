//! A cluster under Flux's controllers or driftless, and the sources of both: repositories of charts
//! and of manifests.

use driftless_harness::aws::MiniStack;
use driftless_harness::charts::{Host, index, package_directory, push};
use driftless_harness::cluster::Cluster;
use driftless_harness::flux::Flux;
use driftless_harness::github::{GitHub, Repository};
use driftless_harness::kubectl::Kubectl;
use driftless_harness::process::PATIENCE;
use driftless_harness::serve::Serve;
use driftless_harness::tools;
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

/// The servers that sources are fetched from, shared by both sides.
pub struct Sources {
    pub charts: Host,
    /// A registry that requires a login.
    closed: Host,
    pub github: GitHub,
    pub fleet: Arc<Repository>,
    buckets: MiniStack,
    pub directory: TempDir,
}

impl Sources {
    pub fn new() -> Self {
        let here = tools::workspace().join("tests/acceptance/cli/flux_controllers");
        let github = GitHub::start();
        let sources = Self {
            charts: host(),
            closed: Host::start(),
            fleet: github.repository_from("acme/fleet", &here.join("fleet")),
            github,
            buckets: buckets(&here),
            directory: tempfile::tempdir().expect("a directory"),
        };
        sources.closed.require("ann", "pw");
        for version in ["1.0.0", "1.1.0"] {
            let directory = sources.directory.path();
            let packed = package_directory(directory, &here.join("web"), version);
            publish(directory, &packed, &sources.charts, ("web", version));
        }
        let acts = package_directory(sources.directory.path(), &here.join("acts"), "1.0.0");
        publish(
            sources.directory.path(),
            &acts,
            &sources.charts,
            ("acts", "1.0.0"),
        );
        index(sources.directory.path(), &sources.charts, "/stable", "");
        sources
    }

    /// Puts the addresses of this run into manifests. The placeholders are too long to occur in a
    /// certificate by chance.
    pub fn fill(&self, manifests: &str) -> String {
        manifests
            .replace("CHARTS", &self.charts.url())
            .replace("REGISTRY", &self.charts.name())
            .replace("CLOSED", &self.closed.name())
            .replace("BUCKETS", self.buckets.url().trim_start_matches("http://"))
            .replace("GITHUB", &self.github.git_url())
    }
}

/// Starts a host of charts whose address source-controller does not mistake for a refused login.
pub fn host() -> Host {
    let mut hosts = std::iter::repeat_with(Host::start);
    hosts
        .find(|host| !is_taken_for_a_refusal(&host.name()))
        .expect("a host")
}

/// Pushes a chart until source-controller does not mistake its digest for a refused login. The
/// digest depends on the file's time.
pub fn publish(directory: &Path, packed: &Path, host: &Host, (chart, version): (&str, &str)) {
    loop {
        push(directory, packed, host, "charts");
        if !is_taken_for_a_refusal(&host.digest(&format!("charts/{chart}"), version)) {
            return;
        }
        std::thread::sleep(Duration::from_secs(1));
        let file = std::fs::File::options().append(true).open(packed);
        let touched = file.and_then(|file| file.set_modified(SystemTime::now()));
        touched.expect("the chart's file is touched");
    }
}

/// Returns whether source-controller 1.9.1 takes a chart's failure for a refused login if its
/// message contains this string (`buildFromHelmRepository`).
fn is_taken_for_a_refusal(text: &str) -> bool {
    text.contains("401")
}

/// Starts an S3 with a bucket of manifests and a chart.
fn buckets(here: &Path) -> MiniStack {
    let buckets = MiniStack::start();
    let aws = buckets.aws();
    aws.must("s3", "create_bucket", json!({"Bucket": "files"}));
    for (key, file) in [
        ("good/config.yaml", "bucket/config.yaml"),
        (".sourceignore", "bucket/ignored"),
        ("good/ignored.yaml", "fleet/broken/kustomization.yaml"),
        ("web/Chart.yaml", "web/Chart.yaml"),
        ("web/values.yaml", "web/values.yaml"),
        ("web/templates/all.yaml", "web/templates/all.yaml"),
    ] {
        let content = std::fs::read(here.join(file)).expect("a file");
        aws.put_object("files", key, &content);
    }
    buckets
}

/// A cluster, and the process that serves it.
pub struct Side {
    pub cluster: Cluster,
    kubectl: Kubectl,
    flux: RefCell<Option<Flux>>,
    serve: Cell<Option<Serve>>,
    home: TempDir,
}

impl Side {
    fn new(cluster: Cluster) -> Self {
        Self {
            kubectl: Kubectl::new(&cluster.kubeconfig()),
            cluster,
            flux: RefCell::default(),
            serve: Cell::default(),
            home: tempfile::tempdir().expect("a home"),
        }
    }

    /// Serves the cluster by Flux's controllers, with their definitions.
    pub fn flux(cluster: Cluster, sources: &Sources) -> Self {
        let mut flux = Flux::install(&cluster);
        flux.start(sources.github.authority());
        let side = Self::new(cluster);
        side.flux.replace(Some(flux));
        side
    }

    /// Stops the process that serves the cluster.
    pub fn stop_serving(&self) {
        self.serve.take();
        if let Some(flux) = self.flux.borrow_mut().as_mut() {
            flux.stop();
        }
    }

    /// Starts Flux's controllers again.
    pub fn flux_again(&self, sources: &Sources) {
        if let Some(flux) = self.flux.borrow_mut().as_mut() {
            flux.start(sources.github.authority());
        }
    }

    /// Serves the cluster by driftless, with its definitions.
    pub fn driftless(cluster: Cluster, sources: &Sources) -> Self {
        let side = Self::new(cluster);
        side.serve(sources);
        side
    }

    /// Starts `driftless serve`.
    pub fn serve(&self, sources: &Sources) {
        let kubeconfig = self.home.path().join("config");
        std::fs::write(&kubeconfig, self.cluster.kubeconfig()).expect("write the kubeconfig");
        let kubeconfig = kubeconfig.to_str().expect("UTF-8");
        let repository = format!("{}/acme/fleet", sources.github.git_url());
        let arguments = [
            ["--kubeconfig", kubeconfig],
            ["--github-api", sources.github.url()],
            ["--repository", &repository],
            ["--path", "root"],
        ]
        .concat();
        let serve = Serve::start(self.home.path(), &arguments, &[]);
        self.serve.set(Some(serve));
    }

    pub fn apply(&self, manifests: &str) {
        self.kubectl.apply(manifests);
    }

    /// Waits until a source has its artifact: whether a dependent finds it missing is a race.
    pub fn wait_for_artifact(&self, source: &str) {
        let start = Instant::now();
        let path = format!("/apis/source.toolkit.fluxcd.io/v1/namespaces/apps/{source}");
        while self.cluster.api().get(&path).expect("a source")["status"]["artifact"].is_null() {
            assert!(start.elapsed() < PATIENCE, "{source} has no artifact");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
