//! kubectl of one user at one cluster.

use std::path::{Path, PathBuf};
use std::process::Command;

use driftless_harness::kubectl::Kubectl;

use crate::normal;

/// One user at one cluster.
pub struct Session(Kubectl);

/// The output of a command, without the parts that differ between any two servers.
#[derive(Debug, PartialEq, Eq)]
pub struct Output {
    pub code: i32,
    /// Standard output, then standard error.
    pub text: String,
}

impl Session {
    pub fn new(kubeconfig: &str) -> Self {
        Self(Kubectl::new(kubeconfig))
    }

    pub fn run(&self, arguments: &[String]) -> Output {
        run(self.command(arguments, 40))
    }

    /// Runs a command that never ends for some seconds, and returns its output.
    pub fn listen(&self, arguments: &[&str], seconds: u32) -> Output {
        let arguments: Vec<String> = arguments.iter().map(|&a| a.to_owned()).collect();
        run(self.command(&arguments, seconds))
    }

    fn command(&self, arguments: &[String], seconds: u32) -> Command {
        let mut command = self.0.command(arguments, seconds);
        command
            .env("KUBE_EDITOR", "sed -i -e s/green/yellow/ -e s/info/warn/")
            .current_dir(files());
        command
    }
}

fn run(mut command: Command) -> Output {
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
