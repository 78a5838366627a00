//! Notices edits of the directories and changes on the clusters.

use crate::embedded::World;
use crate::error::Error;
use driftless_core::flux::{FluxKind, GitRepository};
use driftless_core::ports::Cause;
use driftless_core::source::index;

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
        let versions = self.world.versions();
        let moved = versions != self.versions;
        self.versions = versions;
        if moved {
            for hub in &self.world.hubs {
                for made in self.world.stand_in(&hub.name).await? {
                    self.world
                        .ask(&hub.name, &made.object, Cause::Changed)
                        .await?;
                }
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
            for source in sources
                .into_iter()
                .filter_map(|object| GitRepository::from_object(object).ok())
            {
                let follows = index::repository(&source.spec.url)
                    .is_some_and(|url| repositories.contains(&url));
                if follows {
                    self.world.ask(&hub.name, &source.id, Cause::Push).await?;
                }
            }
        }
        Ok(())
    }
}
