//! Helm's command lines, on a real API server.

use driftless_harness::cluster::Cluster;
use driftless_harness::process::run;
use driftless_harness::tools::Tool;
use driftless_manifest::FileTree;
use driftless_source::archive;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// A Helm with its own home directory, which has the charts.
pub struct Helm<'c> {
    tool: &'static Tool,
    pub cluster: &'c Cluster,
    directory: tempfile::TempDir,
    namespace: String,
}

impl<'c> Helm<'c> {
    pub fn new(tool: &'static Tool, cluster: &'c Cluster, namespace: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("kubeconfig"), cluster.kubeconfig()).expect("written");
        Self {
            tool,
            cluster,
            directory,
            namespace: namespace.to_owned(),
        }
    }

    /// Writes a packed chart to the home directory.
    pub fn add(&self, name: &str, chart: &FileTree) {
        let packed = archive::pack(chart).expect("packed");
        std::fs::write(self.directory.path().join(name), packed).expect("written");
    }

    pub fn run(&self, arguments: &[&str]) -> String {
        run(&mut self.command(arguments))
    }

    /// Runs Helm. Returns whether it succeeds.
    pub fn succeeds(&self, arguments: &[&str]) -> bool {
        let ended = self.command(arguments).output().expect("started");
        ended.status.success()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let home: &Path = self.directory.path();
        let mut command = Command::new(self.tool.path());
        command.env_clear().env("HOME", home).current_dir(home);
        command.env("KUBECONFIG", home.join("kubeconfig"));
        command
            .args(arguments)
            .args(["--namespace", &self.namespace]);
        command
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        let text = self.run(&[arguments, &["-o", "json"]].concat());
        serde_json::from_str(&text).expect("JSON")
    }
}
