//! MiniStack: S3, SQS, Secrets Manager, CloudFormation, EventBridge, and Lambda
//! functions as processes of this machine. IAM policies are enforced.

use std::path::PathBuf;

use super::Aws;
use crate::http::Http;
use crate::process::Server;
use crate::{ports, tools};

/// The region of all resources.
pub const REGION: &str = "us-east-1";

/// The file of the recorded calls in MiniStack's directory.
const CALLS: &str = "calls.jsonl";

/// A running MiniStack, ended when it is dropped, functions included.
pub struct MiniStack {
    port: u16,
    aws: Aws,
    server: Server,
    directory: tempfile::TempDir,
}

impl MiniStack {
    /// Starts an empty account and waits until it answers.
    pub fn start() -> Self {
        let directory = tempfile::Builder::new()
            .prefix("driftless-aws-")
            .tempdir()
            .expect("create MiniStack's directory");
        let port = ports::free();
        let temporary = directory.path().join("tmp");
        std::fs::create_dir(&temporary).expect("create MiniStack's temp directory");
        let mut environment = client_environment(port);
        environment.extend(pairs(&[
            ("BIND_HOST", "127.0.0.1"),
            ("GATEWAY_PORT", &port.to_string()),
            ("MINISTACK_HOST", "127.0.0.1"),
            ("MINISTACK_REGION", REGION),
            // Each function gets a session of its role, and a call that the
            // role does not allow is denied.
            ("AUTH", "true"),
            ("LAMBDA_EXECUTOR", "local"),
            ("TMPDIR", &temporary.display().to_string()),
            ("RUST_BACKTRACE", "1"),
        ]));
        let log = directory.path().join("ministack.log");
        let record = tools::tests().join("harness/src/aws/record.py");
        let arguments = [record, directory.path().join(CALLS)];
        let program = tools::MINISTACK.python();
        let mut server = Server::start("MiniStack", &program, arguments, &environment, &log);
        let health = format!("http://127.0.0.1:{port}/_ministack/ready");
        server.wait_ready(|| {
            let answer = Http::plain().send("GET", &health, &[], None);
            answer.is_ok_and(|answer| answer.status == 200)
        });
        Self {
            port,
            aws: Aws::new(&client_environment(port)),
            server,
            directory,
        }
    }

    /// Returns the endpoint of all services, `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns the AWS client of the account's root user.
    pub fn aws(&self) -> &Aws {
        &self.aws
    }

    /// Returns the environment variables that make an SDK use this server as the account's root
    /// user.
    pub fn environment(&self) -> Vec<(String, String)> {
        client_environment(self.port)
    }

    /// Returns the file with the calls that roles made.
    pub(super) fn calls_file(&self) -> PathBuf {
        self.directory.path().join(CALLS)
    }

    /// Removes everything in the account.
    pub fn reset(&self) {
        let answer = Http::plain()
            .send(
                "POST",
                &format!("{}/_ministack/reset", self.url()),
                &[],
                Some(b""),
            )
            .expect("reset MiniStack");
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    /// Returns the loopback address of a function's URL (`https://ID.lambda-url...`).
    pub fn reach(&self, function_url: &str) -> String {
        let host = function_url.trim_start_matches("https://");
        let id = host.split('.').next().unwrap_or_default();
        format!("{}/_aws/lambda-url/{id}/", self.url())
    }

    /// Returns the process id and the function's name of each function process that runs now.
    pub fn functions(&self) -> Vec<(u32, String)> {
        let endpoint = format!("AWS_ENDPOINT_URL={}", self.url());
        let of_this = |process: PathBuf| {
            let number = process.file_name()?.to_str()?.parse().ok()?;
            let program = std::fs::read_link(process.join("exe")).ok()?;
            let environment = std::fs::read(process.join("environ")).ok()?;
            let environment = String::from_utf8_lossy(&environment);
            let mut variables = environment.split('\0');
            let name = "AWS_LAMBDA_FUNCTION_NAME=";
            let name = variables.clone().find_map(|one| one.strip_prefix(name))?;
            let is_ours = program.ends_with("bootstrap") && variables.any(|one| one == endpoint);
            is_ours.then(|| (number, name.to_owned()))
        };
        let processes = std::fs::read_dir("/proc").expect("the processes");
        let processes = processes.filter_map(|entry| Some(entry.ok()?.path()));
        processes.filter_map(of_this).collect()
    }

    /// Returns the number of invocations that ended because their process exited.
    pub fn cut_off(&self) -> usize {
        let text = std::fs::read(self.server.log()).expect("read MiniStack's log");
        let text = String::from_utf8_lossy(&text);
        let exits = text
            .lines()
            .filter(|line| line.contains("Runtime exited before returning a response"));
        exits.count()
    }

    /// Returns the last lines of MiniStack's own log.
    pub fn log_tail(&self) -> String {
        self.server.log_tail()
    }
}

fn client_environment(port: u16) -> Vec<(String, String)> {
    pairs(&[
        ("AWS_ENDPOINT_URL", &format!("http://127.0.0.1:{port}")),
        ("AWS_REGION", REGION),
        ("AWS_DEFAULT_REGION", REGION),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_CONFIG_FILE", "/dev/null"),
        ("AWS_SHARED_CREDENTIALS_FILE", "/dev/null"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ])
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    list.iter().map(owned).collect()
}
