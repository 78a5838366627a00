use super::*;
use crate::ports::Secret;
use crate::testing::{self, MemoryBlobs, MemoryQueue, TestClock};
use futures::FutureExt as _;
use std::sync::atomic::{AtomicUsize, Ordering};

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
        let mut ports = testing::ports(blobs, Arc::<MemoryQueue>::default(), clock.clone());
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

#[test]
fn hosts() {
    for (address, host) in [
        ("https://git.example/a/b", "git.example"),
        ("https://u:p@git.example:8443/a", "git.example:8443"),
        ("ghcr.io/acme/app", "ghcr.io"),
        ("oci://ghcr.io/acme", "ghcr.io"),
        ("https://git.example?x=@y", "git.example"),
    ] {
        assert_eq!(host_of(address), host, "{address}");
    }
}
