//! Git servers as teams run them themselves: OpenSSH's `sshd`, and `git http-backend` over HTTPS.
//! Both serve the bare repositories of one directory.

mod backend;
mod sshd;

use crate::process::run;
pub use backend::HttpServer;
pub use sshd::SshServer;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A directory of bare repositories.
pub struct Repositories(TempDir);

impl Default for Repositories {
    fn default() -> Self {
        Self(TempDir::new().expect("a directory"))
    }
}

impl Repositories {
    /// Creates an empty bare repository.
    pub fn create(&self, name: &str) {
        let mut git = Command::new("git");
        git.args(["init", "-q", "--bare", "-b", "main"]);
        run(git.arg(self.0.path().join(name)));
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns the path of a repository.
    pub fn repository(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns the commit that a branch of a repository leads to.
    pub fn head(&self, name: &str, branch: &str) -> String {
        let mut git = Command::new("git");
        git.arg("-C").arg(self.repository(name));
        run(git.args(["rev-parse", branch])).trim().to_owned()
    }
}
