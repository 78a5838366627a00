//! A queue of files, for single functions under `cargo lambda invoke`.

use super::directory::write_whole;
use async_trait::async_trait;
use driftless_kernel::document;
use driftless_kernel::ports::{ErrorKind, PlanRequest, PortError, Queue, Request, Result};
use serde::Serialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A queue without workers: each request is a file with an SQS event for the reconcile function,
/// or for the plan function.
///
/// It is for a single function on a developer's machine: the queued requests can be read, and
/// passed on with `cargo lambda invoke reconcile --data-file FILE`. A file's name begins with the
/// time at which the request is due, in milliseconds since 1970.
#[derive(Debug)]
pub struct OutboxQueue {
    directory: PathBuf,
    count: AtomicU64,
}

impl OutboxQueue {
    /// Opens a directory, and creates it if it does not exist.
    ///
    /// # Errors
    /// Fails if the directory cannot be created.
    pub fn open(directory: &Path) -> Result<Self> {
        std::fs::create_dir_all(directory).map_err(|error| {
            let message = format!("open the queue in {}: {error}", directory.display());
            PortError::new(ErrorKind::Invalid, message)
        })?;
        Ok(Self {
            directory: directory.to_owned(),
            count: AtomicU64::new(0),
        })
    }

    fn put(&self, request: &impl Serialize, delay: Duration) -> Result<()> {
        self.write(request, delay).map_err(|error| {
            let message = format!("write a request into {}: {error}", self.directory.display());
            PortError::new(ErrorKind::Unavailable, message)
        })
    }

    fn write(&self, request: &impl Serialize, delay: Duration) -> std::io::Result<()> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let id = format!(
            "{:013}-{}-{number:06}",
            (now + delay).as_millis(),
            std::process::id()
        );
        let event = event(&id, &document::encode(request)?);
        // Rename the file when it is complete, so that readers never see a part of it.
        let part = self.directory.join(format!("{id}.part"));
        write_whole(&part, event.to_string().as_bytes(), false)?;
        std::fs::rename(part, self.directory.join(format!("{id}.json")))
    }
}

fn event(id: &str, body: &str) -> Value {
    json!({"Records": [{"messageId": id, "body": body, "eventSource": "aws:sqs", "attributes": {}, "messageAttributes": {}}]})
}

#[async_trait]
impl Queue for OutboxQueue {
    async fn send(&self, requests: Vec<(Request, Duration)>) -> Result<()> {
        for (request, delay) in &requests {
            self.put(request, *delay)?;
        }
        Ok(())
    }

    async fn plan(&self, request: &PlanRequest) -> Result<bool> {
        self.put(request, Duration::ZERO)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_flux::{FluxKind, ObjectRef};
    use driftless_kernel::ports::Cause;

    #[tokio::test]
    async fn sent_requests_are_events_of_sqs() {
        let directory = tempfile::tempdir().unwrap();
        let queue = OutboxQueue::open(&directory.path().join("queue")).unwrap();
        let request = |name: &str| {
            let object = ObjectRef::new(FluxKind::Kustomization, "apps", name);
            Request::new("staging", object, Cause::Push)
        };
        let later = Duration::from_secs(60);
        queue
            .send(vec![
                (request("later"), later),
                (request("now"), Duration::ZERO),
            ])
            .await
            .unwrap();
        let files = std::fs::read_dir(directory.path().join("queue")).unwrap();
        let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
        files.sort();
        let body = |file: &PathBuf| {
            let event: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
            serde_json::from_str::<Request>(event["Records"][0]["body"].as_str().unwrap()).unwrap()
        };
        let sent: Vec<Request> = files.iter().map(body).collect();
        assert_eq!(
            sent,
            [request("now"), request("later")],
            "in the order of their times"
        );
    }
}
