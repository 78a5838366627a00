//! The functions under `cargo lambda watch`, as a developer runs them.

use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::process::Server;
use crate::{ports, tools};

/// The workspace's functions behind a local invoke address, built on first use.
pub struct LocalFunctions {
    url: String,
    _server: Server,
    _directory: tempfile::TempDir,
}

impl LocalFunctions {
    /// Starts `cargo lambda watch` on the workspace, with these environment
    /// variables for the functions.
    pub fn start(environment: &[(&str, &str)]) -> Self {
        Self::start_in(&tools::workspace().join("Cargo.toml"), environment)
    }

    /// Starts `cargo lambda watch` for the functions of another Cargo.toml.
    pub fn start_in(manifest: &Path, environment: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let port = ports::free();
        let file = directory.path().join("environment");
        let lines: String = environment
            .iter()
            .map(|(k, v)| format!("{k}={v}\n"))
            .collect();
        std::fs::write(&file, lines).expect("write the environment");
        let program = tools::CARGO_LAMBDA.path();
        let arguments = [
            "lambda".to_owned(),
            "watch".to_owned(),
            "--ignore-changes".to_owned(),
            "--invoke-address".to_owned(),
            "127.0.0.1".to_owned(),
            "--invoke-port".to_owned(),
            port.to_string(),
            "--manifest-path".to_owned(),
            manifest.display().to_string(),
            "--env-file".to_owned(),
            file.display().to_string(),
        ];
        let log = directory.path().join("watch.log");
        let mut server = Server::start("cargo lambda watch", &program, arguments, &[], &log);
        let url = format!("http://127.0.0.1:{port}");
        // A request to `/` would start a function; an open port is enough.
        server.wait_ready(|| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
        Self {
            url,
            _server: server,
            _directory: directory,
        }
    }

    /// Returns the address of a function's URL; a path and a query may be appended.
    pub fn function_url(&self, function: &str) -> String {
        format!("{}/lambda-url/{function}/", self.url)
    }

    /// Runs `cargo lambda invoke`. Returns the function's answer, or the output of the failed
    /// command.
    pub fn invoke(&self, function: &str, event: &Value) -> Result<Value, String> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), event.to_string()).expect("write the event");
        let port = self.url.rsplit(':').next().unwrap_or_default();
        let output = Command::new(tools::CARGO_LAMBDA.path())
            .args([
                "lambda",
                "invoke",
                function,
                "--invoke-address",
                "127.0.0.1",
            ])
            .args(["--invoke-port", port, "--data-file"])
            .arg(file.path())
            .output()
            .expect("run cargo lambda invoke");
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.success() {
            Ok(serde_json::from_str(&text).unwrap_or(Value::String(text)))
        } else {
            Err(text + String::from_utf8_lossy(&output.stderr).trim())
        }
    }
}
