//! The documents that applied objects are made from.

use super::findings::id_of;
use super::{Row, World};
use crate::error::Error;
use crate::fleet::{Build, Files, Location};
use driftless_flux::{FluxKind, ObjectRef};
use driftless_manifest::ObjectId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The files of every Kustomization, and the owner of every other Flux object.
#[derive(Default)]
pub struct Places {
    builds: BTreeMap<(String, ObjectRef), (Arc<Files>, Build)>,
    owners: BTreeMap<(String, ObjectRef), ObjectRef>,
}

impl World {
    /// Returns the files of the Kustomizations of the rows.
    ///
    /// # Errors
    /// A server refuses a request.
    pub async fn places(&self, rows: &[Row]) -> Result<Places, Error> {
        let mut places = Places::default();
        for row in rows {
            let key = (row.hub.clone(), row.id.clone());
            if let Some(owner) = &row.owner {
                places.owners.insert(key.clone(), owner.clone());
            }
            if row.id.kind == FluxKind::Kustomization {
                let hub = self.hub(&row.hub).await?;
                let built = self.files(&hub, &row.id).await?;
                places.builds.extend(built.map(|built| (key, built)));
            }
        }
        Ok(places)
    }
}

impl Places {
    /// Returns the file and line of the document that an object is made from; for an object of a
    /// HelmRelease those of the release.
    pub fn of(&self, hub: &str, owner: &ObjectRef, id: &ObjectId) -> Option<Location> {
        let key = (hub.to_owned(), owner.clone());
        if let Some((files, build)) = self.builds.get(&key) {
            return files.of_object(build, id, "");
        }
        let above = (hub.to_owned(), self.owners.get(&key)?.clone());
        let (files, build) = self.builds.get(&above)?;
        files.of_object(build, &id_of(owner), "")
    }
}
