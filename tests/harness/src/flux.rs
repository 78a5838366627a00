//! Runs Flux's own controllers against a cluster: the reference for what driftless writes there.

use crate::cluster::Cluster;
use crate::http::Http;
use crate::process::{PATIENCE, Server};
use crate::tools::{HELM_CONTROLLER, KUSTOMIZE_CONTROLLER, SOURCE_CONTROLLER, Tool};
use crate::{kubectl::Kubectl, ports};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const CONTROLLERS: [&Tool; 3] = [&SOURCE_CONTROLLER, &KUSTOMIZE_CONTROLLER, &HELM_CONTROLLER];

/// Source-, kustomize- and helm-controller for one cluster, as processes outside of it. They end
/// when this value is dropped; what source-controller stored is kept over [`Flux::stop`].
pub struct Flux {
    running: Vec<Server>,
    storage: String,
    directory: tempfile::TempDir,
}

impl Flux {
    /// Installs the controllers' own definitions. Nothing runs yet.
    pub fn install(cluster: &Cluster) -> Self {
        let directory = tempfile::Builder::new().prefix("driftless-flux-").tempdir();
        let directory = directory.expect("create the controllers' directory");
        std::fs::write(directory.path().join("config"), cluster.kubeconfig())
            .expect("write the kubeconfig");
        let definitions: Vec<String> = CONTROLLERS.iter().copied().flat_map(definitions).collect();
        let kubectl = Kubectl::new(&cluster.kubeconfig());
        kubectl.apply(&definitions.join("\n---\n"));
        until_served(cluster);
        Self {
            running: Vec::new(),
            storage: format!("127.0.0.1:{}", ports::free()),
            directory,
        }
    }

    /// Starts the controllers and waits until they are ready. They trust `authority` (PEM) in
    /// addition to the cluster's authority.
    pub fn start(&mut self, authority: &str) {
        let file = self.file("authority.pem");
        std::fs::write(&file, authority).expect("write the authority");
        let running = std::thread::scope(|scope| {
            let (flux, file) = (&*self, &file);
            let started = CONTROLLERS.map(|tool| scope.spawn(move || flux.run(tool, file)));
            started.map(|one| one.join().unwrap_or_else(|e| resume_unwind(e)))
        });
        self.running = running.into();
    }

    /// Ends the controllers.
    pub fn stop(&mut self) {
        self.running.clear();
    }

    /// Returns the processes of the controllers.
    pub fn processes(&self) -> Vec<u32> {
        self.running.iter().map(Server::process).collect()
    }

    fn run(&self, tool: &Tool, authority: &Path) -> Server {
        let health = format!("127.0.0.1:{}", ports::free());
        let mut arguments = vec![
            "--metrics-addr=0".to_owned(),
            format!("--health-addr={health}"),
            "--interval-jitter-percentage=0".to_owned(),
            "--requeue-dependency=1s".to_owned(),
            "--feature-gates=ObjectLevelWorkloadIdentity=true".to_owned(),
        ];
        if std::ptr::eq(tool, &SOURCE_CONTROLLER) {
            let storage = self.file("storage");
            std::fs::create_dir_all(&storage).expect("create the storage");
            arguments.extend([
                format!("--storage-path={}", storage.display()),
                format!("--storage-addr={}", self.storage),
                format!("--storage-adv-addr={}", self.storage),
            ]);
        }
        let variable = |name: &str, value: &Path| (name.to_owned(), value.display().to_string());
        let environment = [
            variable("KUBECONFIG", &self.file("config")),
            variable("HOME", self.directory.path()),
            variable("SSL_CERT_FILE", authority),
            ("RUNTIME_NAMESPACE".to_owned(), "flux-system".to_owned()),
        ];
        let log = self.file(&format!("{}.log", tool.name));
        let mut server = Server::start(tool.name, &tool.path(), arguments, &environment, &log);
        let url = format!("http://{health}/readyz");
        server.wait_ready(|| {
            let answer = Http::plain().send("GET", &url, &[], None);
            answer.is_ok_and(|answer| answer.status == 200)
        });
        server
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

/// Waits until discovery lists the resources that the controllers need at their start: they exit if
/// one is missing.
fn until_served(cluster: &Cluster) {
    let groups = [
        ("source", "v1", 6),
        ("kustomize", "v1", 1),
        ("helm", "v2", 1),
    ];
    let start = Instant::now();
    for (group, version, kinds) in groups {
        let path = format!("/apis/{group}.toolkit.fluxcd.io/{version}");
        let is_served = || {
            let found = cluster.api().find(&path).unwrap_or_default();
            let names = found["resources"].as_array().into_iter().flatten();
            let names = names.filter_map(|one| one["name"].as_str());
            names.filter(|name| !name.contains('/')).count() >= kinds
        };
        while !is_served() {
            assert!(start.elapsed() < PATIENCE, "{path} is not served");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Returns the CustomResourceDefinitions of a controller, each as a YAML document.
fn definitions(tool: &Tool) -> Vec<String> {
    let directory = tool.path().with_file_name("crds");
    let entries = std::fs::read_dir(&directory).expect("list the definitions");
    let text = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.expect("a definition").path();
        std::fs::read_to_string(path).expect("read a definition")
    };
    entries.map(text).collect()
}
