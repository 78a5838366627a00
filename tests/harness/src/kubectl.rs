//! kubectl with one kubeconfig, in its own directory.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::tools;

/// One kubectl user with one kubeconfig.
pub struct Kubectl {
    program: PathBuf,
    directory: tempfile::TempDir,
}

impl Kubectl {
    /// Writes the kubeconfig into a new directory.
    pub fn new(kubeconfig: &str) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("driftless-kubectl-")
            .tempdir()
            .expect("create kubectl's directory");
        std::fs::write(directory.path().join("config"), kubeconfig).expect("write the kubeconfig");
        Self {
            program: tools::KUBECTL.path(),
            directory,
        }
    }

    /// Returns a command that reads no settings of the caller and is ended after `seconds`: one
    /// that waits forever fails with an exit code.
    pub fn command<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        seconds: u32,
    ) -> Command {
        let home = self.directory.path();
        let mut command = Command::new("timeout");
        command
            .arg(seconds.to_string())
            .arg(&self.program)
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", home)
            .env("KUBECONFIG", home.join("config"))
            .stdin(Stdio::null());
        command
    }

    /// Runs a command. Returns its standard output, or its standard error if it fails.
    pub fn run(&self, arguments: &[&str]) -> Result<String, String> {
        let output = self.command(arguments, 120).output().expect("run kubectl");
        into_result(&output)
    }

    /// Runs `kubectl apply` with the manifests; panics if it fails.
    pub fn apply(&self, manifests: &str) {
        let file = self.directory.path().join("manifests.yaml");
        std::fs::write(&file, manifests).expect("write the manifests");
        let file = file.to_str().expect("UTF-8");
        if let Err(error) = self.run(&["apply", "-f", file]) {
            panic!("kubectl apply: {error}");
        }
    }
}

fn into_result(output: &Output) -> Result<String, String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr)),
    }
}
