//! A queue that adds the origin to the requests that are sent.

use async_trait::async_trait;
use driftless_kernel::ports::{PlanRequest, Queue, Request, Result};
use std::sync::Arc;
use std::time::Duration;

/// A queue that adds the origin of the current work to each request that has none.
pub struct TracedQueue(Arc<dyn Queue>);

impl TracedQueue {
    /// Returns a queue in front of another one.
    pub fn new(queue: Arc<dyn Queue>) -> Self {
        Self(queue)
    }
}

#[async_trait]
impl Queue for TracedQueue {
    async fn send(&self, mut requests: Vec<(Request, Duration)>) -> Result<()> {
        if let Some(origin) = super::origin() {
            for (request, _) in &mut requests {
                request.origin.get_or_insert_with(|| origin.clone());
            }
        }
        self.0.send(requests).await
    }

    async fn redeliver(&self, source: &str, receipt: &str, after: Duration) -> Result<()> {
        self.0.redeliver(source, receipt, after).await
    }

    async fn sweep(&self, hubs: &[String]) -> Result<bool> {
        self.0.sweep(hubs).await
    }

    async fn plan(&self, request: &PlanRequest) -> Result<bool> {
        self.0.plan(request).await
    }
}
