//! The release records of one release: Secrets in the target cluster in Helm's format.

use driftless_flux::HELM_CONTROLLER;
use driftless_helm::record::{OWNER_LABELS, RecordLimits, Release, Stamp, Status, secret_name};
use driftless_kernel::ports::{
    Cluster, Delete, ErrorKind, ListRequest, Patch, PatchRequest, PortError, Resource,
};
use driftless_kernel::target::Target;
use driftless_manifest::{Gvk, Object};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// The records of a release: those that were read, and those that were written since.
pub struct Storage {
    namespace: String,
    name: String,
    secrets: Resource,
    records: BTreeMap<i64, Release>,
    /// The version of the Secret of each record, as it was read or written last.
    identities: BTreeMap<i64, Identity>,
}

/// One version of one Secret. It is a precondition of writes and deletes, so that they never touch
/// a record that another client, such as `helm rollback`, has changed or created in the meantime.
#[derive(Clone, Debug)]
struct Identity {
    uid: String,
    resource_version: String,
}

impl Identity {
    fn of(secret: &Object) -> Self {
        Self {
            uid: secret.meta("uid").to_owned(),
            resource_version: secret.meta("resourceVersion").to_owned(),
        }
    }
}

impl Storage {
    /// Reads all records of a release with one LIST. As in Helm, a Secret without a valid record is
    /// skipped.
    ///
    /// # Errors
    /// The cluster's.
    pub async fn read(target: &Target, namespace: &str, name: &str) -> Result<Self, PortError> {
        let secrets = secrets(target.cluster.as_ref()).await?;
        let selector = format!("name={name},{}={}", OWNER_LABELS.0, OWNER_LABELS.1);
        let request = ListRequest {
            resource: &secrets,
            namespace,
            selector: &selector,
        };
        let found = target.cluster.list(&request).await?;
        let (mut records, mut identities) = (BTreeMap::new(), BTreeMap::new());
        for secret in &found {
            match Release::from_secret(secret, &RecordLimits::default()) {
                Ok(record) => {
                    identities.insert(record.version, Identity::of(secret));
                    records.insert(record.version, record);
                }
                Err(error) => {
                    tracing::warn!(%error, "skipped a Secret without a valid release record")
                }
            }
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            secrets,
            records,
            identities,
        })
    }

    /// Returns the newest record.
    pub fn last(&self) -> Option<&Release> {
        self.records.values().next_back()
    }

    /// Returns a record by its revision.
    pub fn get(&self, version: i64) -> Option<&Release> {
        self.records.get(&version)
    }

    /// Returns the newest record with the status deployed.
    pub fn deployed(&self) -> Option<&Release> {
        let mut newest = self.records.values().rev();
        newest.find(|record| record.info.status == Status::Deployed)
    }

    /// Returns the records whose objects may exist, the newest first: back to the newest with the
    /// status deployed, without those that a later one has superseded and those of releases that
    /// were uninstalled.
    pub fn since_deployed(&self) -> impl Iterator<Item = &Release> {
        let oldest = self.deployed().map_or(i64::MIN, |record| record.version);
        let since = self.records.range(oldest..).rev().map(|(_, record)| record);
        since.filter(|record| {
            !matches!(record.info.status, Status::Superseded | Status::Uninstalled)
        })
    }

    /// Returns the revisions of all records with the status deployed.
    pub fn all_deployed(&self) -> Vec<i64> {
        let deployed = self.records.values();
        deployed
            .filter(|record| record.info.status == Status::Deployed)
            .map(|record| record.version)
            .collect()
    }

    /// Writes a record: creates a Secret, or updates the existing one if no other client has
    /// written it since it was read.
    ///
    /// # Errors
    /// `Conflict` if another client wrote this record in the meantime; the cluster's; a record that
    /// is too large for a Secret.
    pub async fn write(
        &mut self,
        target: &Target,
        record: Release,
        now: Duration,
    ) -> Result<(), PortError> {
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let known = self.identities.get(&record.version);
        let stamp = match known {
            Some(_) => Stamp::Modified(seconds),
            None => Stamp::Created(seconds),
        };
        let secret = record
            .to_secret(&self.namespace, stamp)
            .map_err(|error| PortError::new(ErrorKind::Invalid, error.to_string()))?;
        let written = match known {
            Some(known) => self.update(target, &secret, known).await?,
            None => {
                let cluster = target.cluster.as_ref();
                cluster
                    .create(&self.secrets, &secret, HELM_CONTROLLER)
                    .await?
            }
        };
        self.identities
            .insert(record.version, Identity::of(&written));
        self.records.insert(record.version, record);
        Ok(())
    }

    async fn update(
        &self,
        target: &Target,
        secret: &Object,
        known: &Identity,
    ) -> Result<Object, PortError> {
        let mut labels = secret.meta_map("labels").cloned().unwrap_or_default();
        labels.insert("createdAt".to_owned(), Value::Null);
        let data = secret.pointer("/data");
        let metadata =
            json!({"labels": labels, "uid": known.uid, "resourceVersion": known.resource_version});
        let patch = Patch::Merge(json!({"metadata": metadata, "data": data}));
        let name = secret.name();
        target
            .cluster
            .patch(&PatchRequest {
                resource: &self.secrets,
                namespace: &self.namespace,
                name,
                subresource: None,
                patch: &patch,
                manager: HELM_CONTROLLER,
            })
            .await
    }

    /// Makes room for one more record: deletes the oldest until fewer than `most` are left, but
    /// never the deployed one.
    ///
    /// # Errors
    /// The cluster's.
    pub async fn make_room(
        &mut self,
        target: &Target,
        most: Option<usize>,
    ) -> Result<(), PortError> {
        let Some(most) = most else {
            return Ok(());
        };
        let too_many = (self.records.len() + 1).saturating_sub(most);
        let deployed = self.deployed().map(|record| record.version);
        let oldest: Vec<i64> = self
            .records
            .keys()
            .copied()
            .filter(|version| Some(*version) != deployed)
            .take(too_many)
            .collect();
        for version in oldest {
            self.delete(target, version).await?;
        }
        Ok(())
    }

    /// Deletes every record and returns them.
    ///
    /// # Errors
    /// The cluster's.
    pub async fn purge(&mut self, target: &Target) -> Result<Vec<Release>, PortError> {
        let mut purged = Vec::new();
        for version in self.records.keys().copied().collect::<Vec<_>>() {
            purged.extend(self.delete(target, version).await?);
        }
        Ok(purged)
    }

    async fn delete(
        &mut self,
        target: &Target,
        version: i64,
    ) -> Result<Option<Release>, PortError> {
        let name = secret_name(&self.name, version);
        let known = self.identities.get(&version);
        let options = Delete {
            uid: known.map(|known| known.uid.clone()),
            resource_version: known.map(|known| known.resource_version.clone()),
            ..Delete::default()
        };
        target
            .cluster
            .delete(&self.secrets, &self.namespace, &name, &options)
            .await?;
        self.identities.remove(&version);
        Ok(self.records.remove(&version))
    }

    /// Returns a record to change in memory; a later [`Storage::write`] stores the change.
    pub fn get_mut(&mut self, version: i64) -> Option<&mut Release> {
        self.records.get_mut(&version)
    }
}

async fn secrets(cluster: &dyn Cluster) -> Result<Resource, PortError> {
    let found = cluster.resource(&Gvk::new("v1", "Secret")).await?;
    found.ok_or_else(|| {
        PortError::new(
            ErrorKind::Unsupported,
            "the API server does not serve Secrets",
        )
    })
}
