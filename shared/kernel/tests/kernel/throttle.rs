//! The limits on failing requests of tenants, and the waits that hosts name.

use async_trait::async_trait;
use driftless_flux::GitReference;
use driftless_kernel::ports::{
    Commit, ErrorKind, FetchLimits, Git, GitAuth, PortError, Ports, Precondition, Result, Secret,
};
use driftless_manifest::FileTree;
use driftless_memory::{MemoryBlobs, MemoryQueue, TestClock};
use futures::FutureExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A host that fails and counts each request.
struct Failing {
    error: PortError,
    requests: AtomicUsize,
}

#[async_trait]
impl Git for Failing {
    async fn resolve(
        &self,
        _: &str,
        _: &GitReference,
        _: &GitAuth,
        _: Option<&Commit>,
    ) -> Result<Commit> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        Err(self.error.clone())
    }

    async fn fetch(&self, _: &str, _: &Commit, _: &GitAuth, _: FetchLimits) -> Result<FileTree> {
        Err(self.error.clone())
    }
}

struct World {
    ports: Ports,
    clock: Arc<TestClock>,
    host: Arc<Failing>,
}

impl World {
    fn new(error: PortError) -> Self {
        let clock = Arc::<TestClock>::default();
        let host = Arc::new(Failing {
            error,
            requests: AtomicUsize::new(0),
        });
        let blobs = Arc::<MemoryBlobs>::default();
        let mut ports =
            driftless_memory::ports(blobs, Arc::<MemoryQueue>::default(), clock.clone());
        ports.git = host.clone();
        Self { ports, clock, host }
    }

    fn ask(&self, namespace: &str, url: &str, auth: &GitAuth) -> PortError {
        let ports = self.ports.of_tenant("hub", namespace);
        let reference = GitReference::default();
        let answer = ports.git.resolve(url, &reference, auth, None);
        answer.now_or_never().unwrap().unwrap_err()
    }

    fn take_count(&self) -> usize {
        self.host.requests.swap(0, Ordering::Relaxed)
    }
}

const URL: &str = "https://git.example/acme/fleet";

#[test]
fn failing_sources_of_a_tenant_take_nothing_from_another() {
    let world = World::new(PortError::new(ErrorKind::NotFound, "no such repository"));
    let anyone = GitAuth::Anonymous;
    for _ in 0..500 {
        world.ask("team-a", URL, &anyone);
    }
    assert_eq!(world.take_count(), 100);
    let error = world.ask("team-a", URL, &anyone);
    assert_eq!(
        error.message,
        "request not sent: too many requests of namespace 'team-a' to git.example failed; the next request is possible in 6 s"
    );
    assert_eq!(error.kind, ErrorKind::RateLimited);
    assert!(error.retry_after.is_some());
    // Another tenant, and another host.
    assert_eq!(
        world.ask("team-b", URL, &anyone).message,
        "no such repository"
    );
    let other = "https://u:p@other.example/acme/fleet";
    assert_eq!(
        world.ask("team-a", other, &anyone).message,
        "no such repository"
    );
    assert_eq!(world.take_count(), 2);
    // An hour later 600 more.
    world.clock.advance(Duration::from_secs(60));
    for _ in 0..50 {
        world.ask("team-a", URL, &anyone);
    }
    assert_eq!(world.take_count(), 10);
}

#[test]
fn a_host_that_asks_for_fewer_requests_is_left_alone_by_that_login() {
    let error = PortError {
        retry_after: Some(Duration::from_secs(300)),
        ..PortError::new(ErrorKind::RateLimited, "403: rate limit")
    };
    let world = World::new(error);
    let anyone = GitAuth::Anonymous;
    let token = GitAuth::Bearer(Secret::new("t"));
    world.ask("team-a", URL, &anyone);
    world.ask("team-a", URL, &anyone);
    assert_eq!(world.take_count(), 1);
    world.ask("team-a", URL, &token);
    world.ask("team-b", URL, &anyone);
    assert_eq!(world.take_count(), 2);
    world.clock.advance(Duration::from_secs(301));
    world.ask("team-a", URL, &anyone);
    assert_eq!(world.take_count(), 1);
}

/// Returns the ports of another process over the same bucket, at the same time, and the host that
/// it reaches.
fn another_process(world: &World) -> World {
    let host = Arc::new(Failing {
        error: world.host.error.clone(),
        requests: AtomicUsize::new(0),
    });
    let ports = Ports {
        git: host.clone(),
        throttle: Arc::default(),
        ..world.ports.clone()
    };
    World {
        ports,
        clock: world.clock.clone(),
        host,
    }
}

fn limited(seconds: u64) -> PortError {
    PortError {
        retry_after: Some(Duration::from_secs(seconds)),
        ..PortError::new(ErrorKind::RateLimited, "429: too many requests")
    }
}

fn records(world: &World) -> Vec<String> {
    let listed = world.ports.blobs.list("limits/").now_or_never().unwrap();
    let listed = listed.unwrap().into_iter();
    listed.map(|entry| entry.key).collect()
}

#[test]
fn a_wait_holds_for_all_processes() {
    let one = World::new(limited(300));
    let other = another_process(&one);
    let login = GitAuth::Basic {
        username: "ann".to_owned(),
        password: Secret::new("ghp_secret"),
    };
    one.ask("team-a", URL, &login);
    assert_eq!(one.take_count(), 1);
    // The other process asks nothing, for any of the login's tenants, until the wait is over.
    for second in 0..301 {
        let error = other.ask("team-b", URL, &login);
        assert_eq!(error.kind, ErrorKind::RateLimited);
        let left = error.retry_after.unwrap();
        assert_eq!(left, Duration::from_secs(301 - second));
        other.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(other.take_count(), 0);
    other.ask("team-b", URL, &login);
    assert_eq!(other.take_count(), 1, "the wait is over");
    // And the wait that this request was given holds the first process.
    one.ask("team-a", URL, &login);
    assert_eq!(one.take_count(), 0);

    // The record names the host, and contains nothing of the login.
    let keys = records(&one);
    assert_eq!(keys.len(), 1);
    assert!(keys[0].starts_with("limits/git.example/"), "{keys:?}");
    let (record, _) = one
        .ports
        .blobs
        .get(&keys[0])
        .now_or_never()
        .unwrap()
        .unwrap()
        .unwrap();
    let record = String::from_utf8(record.to_vec()).unwrap();
    assert!(record.starts_with(r#"{"format":1,"until":"#), "{record}");
    assert!(!keys[0].contains("ann") && !record.contains("ghp"));
}

#[test]
fn a_wait_holds_neither_other_logins_nor_other_anonymous_tenants() {
    let one = World::new(limited(300));
    let other = another_process(&one);
    let token = |text: &'static str| GitAuth::Bearer(Secret::new(text));
    one.ask("team-a", URL, &GitAuth::Anonymous);
    one.ask("team-a", URL, &token("t"));
    for (namespace, url, auth, requests) in [
        ("team-a", URL, GitAuth::Anonymous, 0),
        ("team-a", URL, token("t"), 0),
        ("team-b", URL, token("t"), 0),
        ("team-a", URL, token("u"), 1),
        ("team-b", URL, GitAuth::Anonymous, 1),
        ("team-a", "https://other.example/a", token("t"), 1),
    ] {
        other.ask(namespace, url, &auth);
        assert_eq!(other.take_count(), requests, "{namespace} {url}");
    }
}

/// The bucket is read at most every half a minute for a login, and written once for a wait. A
/// damaged record counts as absent.
#[test]
fn waits_are_read_rarely_and_written_once() {
    let world = World::new(PortError::new(ErrorKind::NotFound, "no such repository"));
    let late = another_process(&World {
        host: Arc::new(Failing {
            error: limited(60),
            requests: AtomicUsize::new(0),
        }),
        ports: world.ports.clone(),
        clock: world.clock.clone(),
    });
    let token = GitAuth::Bearer(Secret::new("t"));
    world.ask("team-a", URL, &token);
    late.ask("team-a", URL, &token);
    let key = records(&world).remove(0);
    let version = || {
        world
            .ports
            .blobs
            .get(&key)
            .now_or_never()
            .unwrap()
            .unwrap()
            .unwrap()
            .1
    };
    let first = version();
    // A process that has just read the bucket without finding a wait does not read again at once.
    world.clock.advance(Duration::from_secs(29));
    world.ask("team-a", URL, &token);
    assert_eq!(world.take_count(), 2);
    world.clock.advance(Duration::from_secs(1));
    world.ask("team-a", URL, &token);
    assert_eq!(world.take_count(), 0);
    late.ask("team-a", URL, &token);
    assert_eq!(version(), first);

    let damaged = world.ports.blobs.put(&key, "{".into(), Precondition::None);
    damaged.now_or_never().unwrap().unwrap();
    let third = another_process(&world);
    third.ask("team-a", URL, &token);
    assert_eq!(third.take_count(), 1);
}
