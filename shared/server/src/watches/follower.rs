//! One watch of a hub or a remote cluster, which is started again after each failure.

use super::polling;
use super::topic::Topic;
use super::wanted::Wanted;
use driftless_kernel::failure::Failure;
use driftless_kernel::ports::{ErrorKind, FollowEvent, PortError, Ports};
use futures::StreamExt as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::Sender;
use tokio::task::{AbortHandle, JoinSet};

/// The delay before a watch is started again; it doubles for each further failure.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest delay.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// The delay if the user may not watch.
const REFUSED_WAIT: Duration = Duration::from_secs(600);
/// The delay before the LIST, if the API server no longer has the changes.
const EXPIRED_WAIT: Duration = Duration::from_millis(100);

/// A message of a watch.
pub(super) enum Message {
    /// An event of the watch of a topic.
    Seen(Topic, FollowEvent),
    /// The watch of the topic is interrupted: it begins again with a LIST.
    Interrupted(Topic),
    /// The cluster of the topic cannot be watched by this process.
    Unsupported(Topic),
}

/// The watches of a hub, which end with this value.
pub(super) struct Followers {
    ports: Ports,
    hub: String,
    sender: Sender<Message>,
    tasks: JoinSet<()>,
}

impl Followers {
    /// Returns no watches. Those that are started send their messages to `sender`.
    pub(super) fn new(ports: Ports, hub: String, sender: Sender<Message>) -> Self {
        Self {
            ports,
            hub,
            sender,
            tasks: JoinSet::new(),
        }
    }

    /// Starts the watch of a topic.
    pub(super) fn follow(&mut self, topic: Topic) -> AbortHandle {
        let (ports, hub, sender) = (self.ports.clone(), self.hub.clone(), self.sender.clone());
        self.tasks.spawn(follow(ports, hub, topic, sender))
    }

    /// Reads the hub repeatedly, because it cannot be watched.
    pub(super) fn poll(&mut self, wanted: Arc<Wanted>) {
        let (ports, hub) = (self.ports.clone(), self.hub.clone());
        self.tasks.spawn(polling::poll(ports, hub, wanted));
    }

    /// Waits until a watch has ended; `None` if nothing is watched.
    pub(super) async fn join_next(&mut self) -> Option<()> {
        self.tasks.join_next().await.map(|_| ())
    }
}

/// Sends the events of a topic until the receiver is gone.
async fn follow(ports: Ports, hub: String, topic: Topic, sender: Sender<Message>) {
    let mut follower = Follower {
        hub,
        topic,
        wait: FIRST_WAIT,
        is_refused: false,
        failures: 0,
    };
    loop {
        match follower.run(&ports, &sender).await {
            None => return,
            Some(error) if error.kind == ErrorKind::Unsupported => {
                let message = Message::Unsupported(follower.topic);
                // Without a receiver, the watches have ended.
                let _ = sender.send(message).await;
                return;
            }
            Some(error) => {
                let wait = follower.wait_after(&error);
                let message = Message::Interrupted(follower.topic.clone());
                if sender.send(message).await.is_err() {
                    return;
                }
                tokio::time::sleep(wait).await;
            }
        }
    }
}

struct Follower {
    hub: String,
    topic: Topic,
    /// The delay after the next failure.
    wait: Duration,
    /// True if a warning was logged that the user may not watch.
    is_refused: bool,
    /// The number of failures since the last LIST.
    failures: u32,
}

impl Follower {
    /// Sends events until an error, which it returns; `None` if the receiver is gone.
    async fn run(&mut self, ports: &Ports, sender: &Sender<Message>) -> Option<PortError> {
        let mut events = match self.topic.open(ports, &self.hub).await {
            Ok(Some(events)) => events,
            Ok(None) => {
                let message = "the cluster does not serve the kind";
                return Some(PortError::new(ErrorKind::NotFound, message));
            }
            Err(failure) => return Some(error_of(failure)),
        };
        while let Some(event) = events.next().await {
            let event = match event {
                Ok(event) => event,
                Err(error) => return Some(error),
            };
            if event == FollowEvent::Synced {
                self.wait = FIRST_WAIT;
                self.failures = 0;
            }
            let message = Message::Seen(self.topic.clone(), event);
            if sender.send(message).await.is_err() {
                return None;
            }
        }
        Some(PortError::new(ErrorKind::Unavailable, "the watch ended"))
    }

    /// Logs an error. Returns the delay before the watch is started again.
    fn wait_after(&mut self, error: &PortError) -> Duration {
        let (hub, topic) = (&self.hub, &self.topic);
        if error.is_expired() {
            tracing::debug!(hub, %topic, %error, "listed again");
            return EXPIRED_WAIT;
        }
        if error.kind == ErrorKind::Denied {
            if !self.is_refused {
                tracing::warn!(hub, %topic, %error,
                    "not watched, so that changes wait for the sweep: the user needs the verbs 'list' and 'watch'");
            }
            self.is_refused = true;
            return REFUSED_WAIT;
        }
        self.failures += 1;
        match self.failures {
            1 if error.kind != ErrorKind::NotFound => {
                tracing::info!(hub, %topic, %error, "the watch is started again");
            }
            _ => tracing::debug!(hub, %topic, %error, "not watched"),
        }
        let wait = self.wait;
        self.wait = (wait * 2).min(MAX_WAIT);
        wait
    }
}

fn error_of(failure: Failure) -> PortError {
    PortError::new(ErrorKind::Unavailable, failure.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_and_a_refusal_is_warned_of_once() {
        let mut follower = Follower {
            hub: "hub".to_owned(),
            topic: Topic::Reference("Secret"),
            wait: FIRST_WAIT,
            is_refused: false,
            failures: 0,
        };
        let lost = PortError::new(ErrorKind::Unavailable, "lost");
        let waits: Vec<u64> = (0..8)
            .map(|_| follower.wait_after(&lost).as_secs())
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        let mut gone = PortError::new(ErrorKind::Invalid, "too old");
        gone.reason = "Expired".to_owned();
        assert_eq!(follower.wait_after(&gone), EXPIRED_WAIT);
        let refused = PortError::new(ErrorKind::Denied, "forbidden");
        assert_eq!(follower.wait_after(&refused), REFUSED_WAIT);
        assert!(follower.is_refused);
    }
}
