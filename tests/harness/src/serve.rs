//! A running `driftless serve`.

use crate::command::{driftless, program};
use crate::http::{Answer, Http};
use crate::ports;
use crate::process::{PATIENCE, Server, run, tail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A `driftless serve` process, ended when this value is dropped.
pub struct Serve {
    url: String,
    log: PathBuf,
    server: Server,
}

impl Serve {
    /// Starts `driftless serve` with this home directory, and waits until it answers.
    pub fn start(home: &Path, args: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::start_program(&program(), home, args, environment)
    }

    /// Starts this build of the command, as [`Serve::start`] does.
    pub fn start_program(
        program: &Path,
        home: &Path,
        args: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let port = ports::free();
        let address = format!("127.0.0.1:{port}");
        let url = format!("http://{address}");
        let log = home.join(format!("serve-{port}.log"));
        let mut all = vec!["serve", "--listen", &address];
        all.extend(args);
        let variables = [("HOME", home.to_str().expect("a path in UTF-8"))];
        let variables: Vec<(String, String)> = variables
            .iter()
            .chain(environment)
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let server = Server::start("driftless serve", program, all, &variables, &log);
        let serve = Self { url, log, server };
        serve.eventually("driftless serve answers", || {
            let answer = Http::plain().send("GET", &serve.url("/healthz"), &[], None);
            answer.map(|_| ()).map_err(|error| error.to_string())
        });
        serve
    }

    /// Returns the process.
    pub fn process(&self) -> u32 {
        self.server.process()
    }

    /// Returns the log until now.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).expect("read the log")
    }

    /// Returns the URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// Returns the address that the server listens on, as `HOST:PORT`.
    pub fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// Gets a path.
    pub fn get(&self, path: &str) -> Answer {
        Http::plain().get(&self.url(path))
    }

    /// Posts bytes with these headers.
    pub fn post(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let url = self.url(path);
        let answer = Http::plain().send("POST", &url, headers, Some(body));
        answer.unwrap_or_else(|error| panic!("POST {url}: {error}"))
    }

    /// Posts bytes with a client that gives up after `time`.
    pub fn post_within(
        &self,
        time: Duration,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let url = self.url(path);
        let answer = Http::patient(time).send("POST", &url, headers, Some(body));
        answer.unwrap_or_else(|error| panic!("POST {url}: {error}"))
    }

    /// Returns an object's entry in `GET /api/objects`, or null if it is not listed.
    pub fn object(&self, kind: &str, namespace: &str, name: &str) -> Value {
        let objects = self.get("/api/objects").json();
        let found = objects.as_array().into_iter().flatten().find(|object| {
            object["kind"] == kind && object["namespace"] == namespace && object["name"] == name
        });
        found.cloned().unwrap_or_default()
    }

    /// Checks that a Kustomization is ready at a revision that ends with `sha`; the error describes
    /// the object.
    pub fn is_ready(&self, namespace: &str, name: &str, sha: &str) -> Result<(), String> {
        let object = self.object("Kustomization", namespace, name);
        let revision = object["revision"].as_str().unwrap_or_default();
        if object["ready"] == "True" && revision.ends_with(sha) {
            Ok(())
        } else {
            Err(format!("{namespace}/{name}: {object}"))
        }
    }

    /// Waits until `check` succeeds; panics with its last error after [`PATIENCE`]. `description`
    /// names what is awaited.
    pub fn eventually(&self, description: &str, mut check: impl FnMut() -> Result<(), String>) {
        let start = Instant::now();
        loop {
            match check() {
                Ok(()) => break,
                Err(error) => assert!(
                    start.elapsed() < PATIENCE,
                    "{description}: {error}\n{}",
                    tail(&self.log, 60)
                ),
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        eprintln!("  {description}: {:.1} s", start.elapsed().as_secs_f64());
    }
}

/// A `driftless serve` that is ended by a signal, as an operator ends it.
pub struct Foreground {
    child: Child,
    log: PathBuf,
}

impl Foreground {
    /// Starts `driftless serve` with this home directory, and captures its stderr.
    pub fn start(home: &Path, args: &[&str]) -> Self {
        let mut command = driftless(home);
        let log = home.join("foreground.log");
        let file = std::fs::File::create(&log).expect("make the log");
        let child = command.arg("serve").args(args).stdout(Stdio::null());
        let child = child.stderr(file).spawn();
        Self {
            child: child.expect("start driftless serve"),
            log,
        }
    }

    /// Sends a signal and waits for the end. Returns the exit code and what was written to stderr.
    pub fn end(mut self, signal: &str) -> (Option<i32>, String) {
        run(Command::new("kill").args(["-s", signal, &self.child.id().to_string()]));
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("wait for the process") {
                break status;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "driftless serve does not end after SIG{signal}"
            );
            std::thread::sleep(Duration::from_millis(20));
        };
        let text = std::fs::read_to_string(&self.log).expect("read the log");
        (status.code(), text)
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- driftless serve:\n{}", tail(&self.log, 40));
        }
        // Already gone after `end`.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
