//! Any AWS call, through botocore in MiniStack's Python environment. Compiling
//! an SDK crate for each service that a test reads would take minutes.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::process::run;
use crate::tools;

/// A client for one endpoint with one set of credentials.
pub struct Aws {
    worker: Mutex<Worker>,
}

struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// The numbers of messages in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// Messages that a consumer can receive now.
    pub visible: u64,
    /// Messages whose delay is not over.
    pub delayed: u64,
    /// Messages that were received and not yet deleted.
    pub in_flight: u64,
}

/// An error that AWS answered.
#[derive(Clone, Debug)]
pub struct AwsError {
    /// The error code: `NoSuchKey`, `AccessDenied` …
    pub code: String,
    /// The error message.
    pub message: String,
}

impl fmt::Display for AwsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

/// Returns the presigned `GetCallerIdentity` URL of STS that an EKS cluster accepts as a token, as
/// botocore signs it for `aws eks get-token`, and the time of the signature since the Unix epoch.
pub fn presigned_identity(
    region: &str,
    cluster: &str,
    key_id: &str,
    key: &str,
) -> (String, Duration) {
    let mut command = Command::new(tools::MINISTACK.python());
    command.arg(tools::tests().join("harness/src/aws/presign.py"));
    let printed = run(command.args([region, cluster, key_id, key]));
    let (url, time) = printed.trim().split_once(' ').expect("a URL and a time");
    (
        url.to_owned(),
        Duration::from_secs(time.parse().expect("seconds")),
    )
}

impl Aws {
    pub(super) fn new(environment: &[(String, String)]) -> Self {
        let mut child = Command::new(tools::MINISTACK.python())
            .arg("-u")
            .arg(tools::tests().join("harness/src/aws/client.py"))
            .envs(environment.iter().map(|(k, v)| (k, v)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start the AWS client");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Self {
            worker: Mutex::new(Worker {
                child,
                input,
                output,
            }),
        }
    }

    /// Calls an operation by its names in botocore, such as `s3`,
    /// `list_objects_v2`, `{"Bucket": "b"}`. Bytes travel as `{"$base64": ..}`.
    pub fn call(
        &self,
        service: &str,
        operation: &str,
        parameters: &Value,
    ) -> Result<Value, AwsError> {
        let request = json!({"service": service, "operation": operation, "parameters": parameters});
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        let input = worker.input.as_mut().expect("the client runs");
        writeln!(input, "{request}").expect("write to the AWS client");
        let mut line = String::new();
        worker
            .output
            .read_line(&mut line)
            .expect("read from the AWS client");
        let mut answer: Value = serde_json::from_str(&line)
            .unwrap_or_else(|e| panic!("{service} {operation}: no answer ({e}): {line}"));
        match answer.get("error") {
            None => Ok(answer["result"].take()),
            Some(error) => Err(AwsError {
                code: error["code"].as_str().unwrap_or_default().to_owned(),
                message: error["message"].as_str().unwrap_or_default().to_owned(),
            }),
        }
    }

    /// Calls an operation; panics if AWS answers with an error.
    pub fn must(&self, service: &str, operation: &str, parameters: Value) -> Value {
        self.call(service, operation, &parameters)
            .unwrap_or_else(|e| panic!("{service} {operation} {parameters}: {e}"))
    }

    /// Creates a secret, or sets the value of an existing one.
    pub fn put_secret(&self, name: &str, value: &str) {
        let created = self.call(
            "secretsmanager",
            "create_secret",
            &json!({"Name": name, "SecretString": value}),
        );
        if created.is_err() {
            let update = json!({"SecretId": name, "SecretString": value});
            self.must("secretsmanager", "put_secret_value", update);
        }
    }

    /// Writes an object.
    pub fn put_object(&self, bucket: &str, key: &str, content: &[u8]) {
        let body = json!({"$base64": STANDARD.encode(content)});
        let parameters = json!({"Bucket": bucket, "Key": key, "Body": body});
        self.must("s3", "put_object", parameters);
    }

    /// Reads an object; `None` when it does not exist.
    pub fn object(&self, bucket: &str, key: &str) -> Option<Vec<u8>> {
        match self.call("s3", "get_object", &json!({"Bucket": bucket, "Key": key})) {
            Ok(found) => {
                let text = found["Body"]["$base64"].as_str().unwrap_or_default();
                Some(STANDARD.decode(text).expect("Base64"))
            }
            Err(error) if error.code == "NoSuchKey" => None,
            Err(error) => panic!("read {key}: {error}"),
        }
    }

    /// Returns the keys below a prefix (the first 1000).
    pub fn keys(&self, bucket: &str, prefix: &str) -> Vec<String> {
        let parameters = json!({"Bucket": bucket, "Prefix": prefix});
        let list = self.must("s3", "list_objects_v2", parameters);
        let contents = list["Contents"].as_array().cloned().unwrap_or_default();
        let key = |item: &Value| item["Key"].as_str().map(str::to_owned);
        contents.iter().filter_map(key).collect()
    }

    /// Returns the numbers of messages in a queue.
    pub fn messages(&self, queue_url: &str) -> Messages {
        let parameters = json!({"QueueUrl": queue_url, "AttributeNames": ["All"]});
        let answer = self.must("sqs", "get_queue_attributes", parameters);
        let number = |name: &str| -> u64 {
            let text = answer["Attributes"][name].as_str().unwrap_or("0");
            text.parse().unwrap_or_default()
        };
        Messages {
            visible: number("ApproximateNumberOfMessages"),
            delayed: number("ApproximateNumberOfMessagesDelayed"),
            in_flight: number("ApproximateNumberOfMessagesNotVisible"),
        }
    }

    /// Puts a message into a queue.
    pub fn send(&self, queue_url: &str, body: &str) {
        let message = json!({"QueueUrl": queue_url, "MessageBody": body});
        self.must("sqs", "send_message", message);
    }

    /// Invokes a function and waits. Returns its payload, or the payload of its error.
    pub fn invoke(&self, function: &str, event: &Value) -> Result<Value, Value> {
        let payload = json!({"$base64": STANDARD.encode(event.to_string())});
        let parameters = json!({"FunctionName": function, "Payload": payload});
        let answer = self.must("lambda", "invoke", parameters);
        let text = answer["Payload"]["$base64"].as_str().unwrap_or_default();
        let bytes = STANDARD.decode(text).expect("Base64");
        let payload = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        match answer.get("FunctionError") {
            None => Ok(payload),
            Some(_) => Err(payload),
        }
    }

    /// Returns all log lines of a log group, oldest first.
    pub fn logs(&self, group: &str) -> Vec<String> {
        let parameters = json!({"logGroupName": group});
        let answer = self.call("logs", "filter_log_events", &parameters);
        let events = answer.unwrap_or_default()["events"].take();
        let text = |event: &Value| event["message"].as_str().map(str::to_owned);
        events
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(text)
            .collect()
    }
}

impl Drop for Aws {
    fn drop(&mut self) {
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        // The worker ends at the end of its input.
        worker.input = None;
        let _ = worker.child.wait();
    }
}
