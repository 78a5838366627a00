//! What stands in while a fleet runs for people, as `demo --fleet` has it: the same that a check makes up, and takes as ready.

use super::apiserver::ApiServer;
use super::assume::Assumed;
use super::lenient::{Lenient, Refused};
use super::make::MadeUp;
use crate::embedded::{Row, State, World};
use crate::error::Error;
use crate::fleet::Fleet;
use driftless_core::ports::Cause;
use std::sync::Arc;

/// What was made up for a fleet so far.
pub struct StandIns {
    fleet: Fleet,
    made: MadeUp,
    assumed: Assumed,
    refused: Refused,
    /// What was not ready when everything was asked for the last time.
    asked: Vec<Row>,
}

impl StandIns {
    /// Nothing yet. The world's clusters take objects with placeholders from now on, although they refuse them.
    ///
    /// # Errors
    /// A directory that cannot be read.
    pub fn new(fleet: Fleet, world: &mut World) -> Result<Self, Error> {
        let refused = Refused::default();
        let servers = ApiServer::of_fleet(&fleet)?;
        world.ports.clusters = Arc::new(Lenient {
            inner: world.ports.clusters.clone(),
            refused: refused.clone(),
            servers: Arc::new(servers),
        });
        Ok(Self {
            fleet,
            made: MadeUp::new(refused.clone()),
            assumed: Assumed::new(None),
            refused,
            asked: Vec::new(),
        })
    }

    /// Makes up what objects of a world at rest failed for, takes as ready what cannot be looked at, and asks for what is not ready
    /// once more. Whether anything may change by that.
    ///
    /// # Errors
    /// What a server refuses.
    pub async fn add(&mut self, world: &World) -> Result<bool, Error> {
        let objects = world.objects().await?;
        let rows = world.rows(&objects);
        // A source that was taken as ready is looked at again in its interval, and fails again.
        self.assumed.forget_open(&rows);
        let assumed = &mut self.assumed;
        let is_new = assumed
            .add(world, &rows, &objects, &self.made, &self.refused)
            .await?
            || assumed.unreached(world, &rows, &objects).await?
            || world.capsule(&rows).await?
            || self.made.add(world, &self.fleet, &rows, &objects).await?
            || assumed.excuse(world, &rows, &objects, &self.made).await?;
        let open = |row: &Row| {
            !matches!(row.state, State::Ready | State::Suspended)
                && !assumed.contains(&row.hub, &row.id)
        };
        let open: Vec<Row> = rows.into_iter().filter(open).collect();
        if !is_new && open == self.asked {
            return Ok(false);
        }
        for row in &open {
            world.ask(&row.hub, &row.id, Cause::Requeue).await?;
        }
        let is_any = is_new || !open.is_empty();
        self.asked = open;
        Ok(is_any)
    }
}
