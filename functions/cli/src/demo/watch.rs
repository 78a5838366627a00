//! Detects edits of the directories and changes on the clusters.

use crate::error::Error;
use driftless_fleet::embedded::World;
use driftless_flux::{FluxKind, GitRepository};
use driftless_kernel::ports::Cause;
use driftless_source::index;

/// The state at the last poll.
pub struct Watch<'a> {
    world: &'a World,
    versions: Vec<u64>,
}

impl<'a> Watch<'a> {
    /// Creates a watch before its first poll.
    pub fn new(world: &'a World) -> Self {
        Self {
            world,
            versions: Vec::new(),
        }
    }

    /// Queues the sources of edited directories, creates stand-ins, and returns whether a hub
    /// changed.
    ///
    /// # Errors
    /// A server refuses a request.
    pub async fn poll(&mut self) -> Result<bool, Error> {
        let edited = self.world.git.changed().await;
        if !edited.is_empty() {
            self.push(&edited).await?;
        }
        let versions = self.world.versions();
        let moved = versions != self.versions;
        self.versions = versions;
        if moved {
            for hub in &self.world.hubs {
                for made in self.world.stand_in(&hub.name).await? {
                    self.world
                        .queue(&hub.name, &made.object, Cause::Changed)
                        .await?;
                }
            }
        }
        Ok(moved)
    }

    /// Queues each source that follows one of the repositories, as a webhook does for a push.
    async fn push(&self, repositories: &[String]) -> Result<(), Error> {
        for hub in &self.world.hubs {
            let sources = self
                .world
                .hub(&hub.name)
                .await?
                .list(FluxKind::GitRepository)
                .await?;
            for source in sources
                .into_iter()
                .filter_map(|object| GitRepository::from_object(object).ok())
            {
                let follows = index::repository(&source.spec.url)
                    .is_some_and(|url| repositories.contains(&url));
                if follows {
                    self.world.queue(&hub.name, &source.id, Cause::Push).await?;
                }
            }
        }
        Ok(())
    }
}
