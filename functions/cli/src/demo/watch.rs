//! Notices edits of the folders and changes on the clusters.

use crate::embedded::World;
use crate::error::Error;
use driftless_core::flux::{FluxKind, GitRepository, ObjectRef};
use driftless_core::ports::{Cause, Request};
use driftless_core::source::index;
use std::time::Duration;

/// What was seen the last time.
pub struct Watch<'a> {
    world: &'a World,
    versions: Vec<u64>,
}

impl<'a> Watch<'a> {
    /// Nothing was seen yet.
    pub fn new(world: &'a World) -> Self {
        Self {
            world,
            versions: Vec::new(),
        }
    }

    /// Queues what follows from edits, makes up what is missing, and says whether anything moved on a hub.
    ///
    /// # Errors
    /// What a server refuses.
    pub async fn look(&mut self) -> Result<bool, Error> {
        let edited = self.world.git.changed().await;
        if !edited.is_empty() {
            self.push(&edited).await?;
        }
        let versions: Vec<u64> = self
            .world
            .hubs
            .iter()
            .map(|hub| *hub.server.versions().borrow())
            .collect();
        let moved = versions != self.versions;
        self.versions = versions;
        if moved {
            for hub in &self.world.hubs {
                let made = self.world.stand_in(&hub.name).await?;
                let asks = made
                    .into_iter()
                    .map(|one| (hub.name.as_str(), one.object, Cause::Changed));
                self.queue(asks).await?;
            }
        }
        Ok(moved)
    }

    /// As a webhook does for a push: a request for each source that follows one of the repositories.
    async fn push(&self, repositories: &[String]) -> Result<(), Error> {
        for hub in &self.world.hubs {
            let sources = self
                .world
                .hub(&hub.name)
                .await?
                .list(FluxKind::GitRepository)
                .await?;
            let follows = |source: &GitRepository| {
                index::repository(&source.spec.url).is_some_and(|url| repositories.contains(&url))
            };
            let sources = sources
                .into_iter()
                .filter_map(|object| GitRepository::from_object(object).ok());
            let asks = sources
                .filter(follows)
                .map(|source| (hub.name.as_str(), source.id, Cause::Push));
            self.queue(asks).await?;
        }
        Ok(())
    }

    async fn queue(
        &self,
        asks: impl Iterator<Item = (&str, ObjectRef, Cause)>,
    ) -> Result<(), Error> {
        let request = |(hub, object, cause): (&str, ObjectRef, Cause)| {
            let hub = hub.to_owned();
            (Request { hub, object, cause }, Duration::ZERO)
        };
        self.world
            .ports
            .queue
            .send(asks.map(request).collect())
            .await?;
        Ok(())
    }
}
