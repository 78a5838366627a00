//! A running `driftless worker`.

use crate::command::program;
use crate::http::{Answer, Http};
use crate::ports;
use crate::process::{PATIENCE, Server, kill, run, tail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A `driftless worker` process, ended when this value is dropped. It can be killed and started
/// again with the same arguments.
pub struct Worker {
    address: String,
    args: Vec<String>,
    variables: Vec<(String, String)>,
    log: PathBuf,
    server: Option<Server>,
}

impl Worker {
    /// Starts `driftless worker` with this home directory, and waits until it answers.
    pub fn start(home: &Path, args: &[&str], environment: &[(&str, &str)]) -> Self {
        let port = ports::free();
        let address = format!("127.0.0.1:{port}");
        let mut all = vec!["worker", "--listen", &address];
        all.extend(args);
        let home_variable = [("HOME", home.to_str().expect("a path in UTF-8"))];
        let variables = home_variable.iter().chain(environment);
        let mut worker = Self {
            args: all.into_iter().map(str::to_owned).collect(),
            variables: variables
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            log: home.join(format!("worker-{port}.log")),
            server: None,
            address,
        };
        worker.resume();
        worker
    }

    /// Starts the process again after [`Worker::kill`], and waits until it answers.
    pub fn resume(&mut self) {
        let (program, log) = (program(), &self.log);
        let mut server = Server::start(
            "driftless worker",
            &program,
            &self.args,
            &self.variables,
            log,
        );
        server.wait_ready(|| self.find("/healthz").is_some());
        self.server = Some(server);
    }

    /// Ends the process with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            kill(server.process());
            server.stop();
        }
    }

    /// Ends the process with SIGTERM, and waits for its end. Returns the time that it took.
    pub fn terminate(&mut self) -> Duration {
        let start = Instant::now();
        let server = self.server.take();
        let mut server = server.expect("a running worker");
        let process = server.process().to_string();
        run(Command::new("kill").args(["-s", "TERM", &process]));
        while Path::new("/proc").join(&process).join("exe").exists() {
            assert!(start.elapsed() < PATIENCE, "driftless worker does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        server.stop();
        start.elapsed()
    }

    /// Returns the URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Gets a path.
    pub fn get(&self, path: &str) -> Answer {
        Http::plain().get(&self.url(path))
    }

    /// Gets a path; `None` if the worker does not answer.
    pub fn find(&self, path: &str) -> Option<Answer> {
        let answer = Http::plain().send("GET", &self.url(path), &[], None);
        answer.ok()
    }

    /// Returns the value of a metric with these labels, as `NAME{LABELS}`; 0 if it has none yet.
    pub fn metric(&self, name: &str) -> u64 {
        let text = self.get("/metrics").text();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let value = line.and_then(|value| value.trim().parse().ok());
        value.unwrap_or_default()
    }

    /// Returns the last lines of the log.
    pub fn log_tail(&self) -> String {
        tail(&self.log, 60)
    }

    /// Returns the whole log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}
