//! A worker whose lease is over changes nothing on a cluster any more.
//!
//! A function may stand still and go on when another worker has long had its object. What it would write then is older than
//! what stands there, and an API server takes an apply from whoever sends it last. So a worker looks at its own clock before
//! each write. What is left is a request that was on its way already: that only the API server could refuse.

use crate::ports::{Clock, ErrorKind, Gate, GatedClusters, PortError, Ports, Result};
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;

/// The ports of a worker that may write until `end`, by its own clock.
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
        let what = "not written: the lease of this worker is over, another one may have the object";
        Err(PortError::new(ErrorKind::Unavailable, what))
    }
}
