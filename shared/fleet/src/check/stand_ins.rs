//! Stand-ins for a fleet in `demo --fleet`, the same as in a check.

use super::apiserver::ApiServer;
use super::assumed::AssumedReady;
use super::lenient_clusters::{LenientClusters, LenientState};
use super::missing_objects::MadeUp;
use super::observed::Observed;
use crate::embedded::{Row, State, World};
use crate::error::Error;
use crate::fleet::Fleet;
use driftless_kernel::ports::Cause;
use std::sync::Arc;

/// The stand-ins of a running fleet.
pub struct StandIns {
    fleet: Fleet,
    made: MadeUp,
    assumed: AssumedReady,
    refused: LenientState,
    /// The objects that were not ready at the last request.
    queued: Vec<Row>,
}

impl StandIns {
    /// Creates an empty set. From now on the world's clusters accept objects with placeholders that
    /// they would refuse.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn new(fleet: Fleet, world: &mut World) -> Result<Self, Error> {
        let refused = LenientState::default();
        let servers = ApiServer::of_fleet(&fleet)?;
        world.ports.clusters = Arc::new(LenientClusters {
            inner: world.ports.clusters.clone(),
            refused: refused.clone(),
            servers: Arc::new(servers),
        });
        Ok(Self {
            fleet,
            made: MadeUp::new(refused.clone()),
            assumed: AssumedReady::new(None),
            refused,
            queued: Vec::new(),
        })
    }

    /// Creates stand-ins for what objects of an idle world failed for, assumes that objects which
    /// cannot be checked are ready, and queues those that are not ready. Returns whether the world
    /// may change because of it.
    ///
    /// # Errors
    /// A server refuses a request.
    pub async fn add(&mut self, world: &World) -> Result<bool, Error> {
        let objects = world.objects().await?;
        let rows = world.rows(&objects);
        // A source that was assumed to be ready is reconciled again at its interval, and fails
        // again.
        self.assumed.forget_open(&rows);
        let assumed = &mut self.assumed;
        let observed = Observed {
            world,
            rows: &rows,
            objects: &objects,
        };
        let is_new = assumed.add(observed, &self.made, &self.refused).await?
            || assumed.unreached(observed).await?
            || world.capsule(&rows).await?
            || self.made.add(&self.fleet, observed).await?
            || assumed.assume_failed_ready(observed, &self.made).await?;
        let open = |row: &Row| {
            !matches!(row.state, State::Ready | State::Suspended)
                && !assumed.contains(&row.hub, &row.id)
        };
        let open: Vec<Row> = rows.into_iter().filter(open).collect();
        if !is_new && open == self.queued {
            return Ok(false);
        }
        for row in &open {
            world.queue(&row.hub, &row.id, Cause::Requeue).await?;
        }
        let is_any = is_new || !open.is_empty();
        self.queued = open;
        Ok(is_any)
    }
}
