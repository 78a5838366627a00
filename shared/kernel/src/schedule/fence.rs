//! A worker whose lease is over writes nothing to a cluster.
//!
//! A function may be frozen and continue after another worker has taken its object. Its writes
//! would then be older than the live state, and an API server accepts the last apply. So a worker
//! checks its own clock before each write. A request that was already sent is not covered: only the
//! API server could refuse it.

use crate::ports::{Clock, ErrorKind, Gate, GatedClusters, PortError, Ports, Result};
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;

/// Returns the ports of a worker that may write until `end`, by its own clock.
pub fn fenced(ports: &Ports, end: Duration) -> Ports {
    let fence = Fence {
        clock: ports.clock.clone(),
        end,
    };
    let clusters = GatedClusters {
        clusters: ports.clusters.clone(),
        gate: Arc::new(fence),
    };
    Ports {
        clusters: Arc::new(clusters),
        ..ports.clone()
    }
}

struct Fence {
    clock: Arc<dyn Clock>,
    end: Duration,
}

#[async_trait]
impl Gate for Fence {
    async fn pass(&self) -> Result<()> {
        if self.clock.now() < self.end {
            return Ok(());
        }
        let message =
            "not written: the lease of this worker is over; another worker may have the object";
        Err(PortError::new(ErrorKind::Unavailable, message))
    }
}
