//! A queue of files, for functions that run alone with `cargo lambda invoke`.

use super::directory::write_whole;
use async_trait::async_trait;
use driftless_core::ports::{ErrorKind, PortError, Queue, Request, Result};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A queue that nobody works on by itself: each request is a file, an event of SQS as the reconcile function takes it.
///
/// It is for a function that runs alone on a developer's machine: what it queued can be looked at, and handed on with
/// `cargo lambda invoke reconcile --data-file FILE`. A file's name begins with the time from which on it is due, in
/// milliseconds since 1970.
#[derive(Debug)]
pub struct OutboxQueue {
    directory: PathBuf,
    count: AtomicU64,
}

impl OutboxQueue {
    /// Opens a directory, and makes it if need be.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn open(directory: &Path) -> Result<Self> {
        std::fs::create_dir_all(directory).map_err(|error| {
            let what = format!("open the queue in {}: {error}", directory.display());
            PortError::new(ErrorKind::Invalid, what)
        })?;
        Ok(Self {
            directory: directory.to_owned(),
            count: AtomicU64::new(0),
        })
    }

    fn put(&self, request: &Request, delay: Duration) -> std::io::Result<()> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let id = format!(
            "{:013}-{}-{number:06}",
            (now + delay).as_millis(),
            std::process::id()
        );
        let event = event(&id, &serde_json::to_string(request)?);
        // A file that is there is whole.
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
            self.put(request, *delay).map_err(|error| {
                let what = format!("write a request into {}: {error}", self.directory.display());
                PortError::new(ErrorKind::Unavailable, what)
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_core::flux::{FluxKind, ObjectRef};
    use driftless_core::ports::Cause;

    #[tokio::test]
    async fn what_is_sent_can_be_handed_on() {
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
