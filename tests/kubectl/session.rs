//! kubectl with one kubeconfig, in a folder of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use driftless_tests::tools;

use crate::normal;

/// One person at one cluster.
pub struct Session {
    kubectl: PathBuf,
    folder: tempfile::TempDir,
}

/// What a command said, without what no two servers share.
#[derive(Debug, PartialEq, Eq)]
pub struct Output {
    pub code: i32,
    /// Standard output, then standard error.
    pub text: String,
}

impl Session {
    pub fn new(kubeconfig: &str) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("driftless-kubectl-")
            .tempdir()
            .expect("create the session's folder");
        std::fs::write(folder.path().join("config"), kubeconfig).expect("write the kubeconfig");
        Self {
            kubectl: tools::KUBECTL.path(),
            folder,
        }
    }

    pub fn run(&self, arguments: &[String]) -> Output {
        said(self.command(arguments, 40))
    }

    /// What a command that never ends says in some seconds.
    pub fn listen(&self, arguments: &[&str], seconds: u32) -> Output {
        let arguments: Vec<String> = arguments.iter().map(|&a| a.to_owned()).collect();
        said(self.command(&arguments, seconds))
    }

    fn command(&self, arguments: &[String], seconds: u32) -> Command {
        let home = self.folder.path();
        // A command that waits for what does not come fails by its exit code.
        let mut command = Command::new("timeout");
        command
            .arg(seconds.to_string())
            .arg(&self.kubectl)
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", home)
            .env("KUBECONFIG", home.join("config"))
            .env("KUBE_EDITOR", "sed -i -e s/green/yellow/ -e s/info/warn/")
            .current_dir(files())
            .stdin(Stdio::null());
        command
    }
}

fn said(mut command: Command) -> Output {
    let output = command.output().expect("run kubectl");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Output {
        code: output.status.code().unwrap_or(-1),
        text: normal::output(&format!("{}{}", text(&output.stdout), text(&output.stderr))),
    }
}

fn files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kubectl/files")
}
