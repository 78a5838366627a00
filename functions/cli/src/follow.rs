//! Follows the objects of a kind: a watch of all namespaces, or repeated LISTs of one namespace.

use crate::error::Error;
use driftless_kernel::ports::{Change, Cluster, ErrorKind, ListRequest, Resource};
use driftless_manifest::Object;
use std::collections::BTreeMap;
use std::time::Duration;

/// The time between two LISTs, and the longest time until a change in a watch is seen.
const POLL: Duration = Duration::from_secs(2);
const WATCH: Duration = Duration::from_secs(1);

type Key = (String, String);

/// The objects of a kind, as they change.
pub struct Follow<'c> {
    cluster: &'c dyn Cluster,
    resource: Resource,
    /// Empty for all namespaces.
    namespace: String,
    /// The resourceVersion from which the watch continues; none if LISTs are repeated.
    version: Option<String>,
    known: BTreeMap<Key, Object>,
}

fn key(object: &Object) -> Key {
    (object.namespace().to_owned(), object.name().to_owned())
}

impl<'c> Follow<'c> {
    /// Lists the objects.
    ///
    /// # Errors
    /// The cluster's.
    pub async fn start(
        cluster: &'c dyn Cluster,
        resource: Resource,
        namespace: &str,
    ) -> Result<Self, Error> {
        let mut follow = Self {
            cluster,
            resource,
            namespace: namespace.to_owned(),
            version: None,
            known: BTreeMap::new(),
        };
        follow.known = follow.list().await?;
        Ok(follow)
    }

    /// Returns the objects of the last LIST and the changes since.
    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        self.known.values()
    }

    /// Waits a moment and returns the objects that are new or have changed, and those that are
    /// gone.
    ///
    /// # Errors
    /// The cluster's.
    pub async fn next(&mut self) -> Result<Vec<Change>, Error> {
        if let Some(version) = &self.version {
            let changes = self.cluster.watch(&self.resource, "", version, WATCH).await;
            match changes {
                Ok(changes) => {
                    self.version = Some(changes.version);
                    for change in &changes.changes {
                        match change {
                            Change::Written(object) => {
                                self.known.insert(key(object), object.clone());
                            }
                            Change::Deleted(object) => {
                                self.known.remove(&key(object));
                            }
                        }
                    }
                    return Ok(changes.changes);
                }
                // The user may list, but not watch.
                Err(error) if matches!(error.kind, ErrorKind::Denied | ErrorKind::Unsupported) => {
                    self.version = None;
                }
                Err(error) if error.is_expired() => {}
                Err(error) => return Err(error.into()),
            }
        } else {
            tokio::time::sleep(POLL).await;
        }
        let now = self.list().await?;
        let before = std::mem::replace(&mut self.known, now);
        Ok(changes(&before, &self.known))
    }

    async fn list(&mut self) -> Result<BTreeMap<Key, Object>, Error> {
        if !self.namespace.is_empty() {
            let request = ListRequest {
                namespace: &self.namespace,
                ..ListRequest::all(&self.resource)
            };
            let objects = self.cluster.list(&request).await?;
            return Ok(objects.into_iter().map(|one| (key(&one), one)).collect());
        }
        let (mut all, mut next) = (BTreeMap::new(), String::new());
        let mut version = String::new();
        loop {
            let page = self.cluster.page(&self.resource, "", &next).await?;
            all.extend(page.objects.into_iter().map(|one| (key(&one), one)));
            if version.is_empty() {
                version = page.version;
            }
            next = page.next;
            if next.is_empty() {
                break;
            }
        }
        self.version = Some(version).filter(|version| !version.is_empty());
        Ok(all)
    }
}

/// Returns the changes between two LISTs.
fn changes(before: &BTreeMap<Key, Object>, now: &BTreeMap<Key, Object>) -> Vec<Change> {
    let version = |object: &Object| object.meta("resourceVersion").to_owned();
    let written = now.iter().filter(|(key, object)| {
        before
            .get(*key)
            .is_none_or(|before| version(before) != version(object))
    });
    let gone = before.iter().filter(|(key, _)| !now.contains_key(*key));
    let written = written.map(|(_, object)| Change::Written(object.clone()));
    written
        .chain(gone.map(|(_, object)| Change::Deleted(object.clone())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn two_lists_are_compared() {
        let list = |objects: &[(&str, &str)]| {
            let object = |(name, version): &(&str, &str)| {
                Object::new(json!({"apiVersion": "v1", "kind": "Event",
                    "metadata": {"namespace": "a", "name": name, "resourceVersion": version}}))
                .unwrap()
            };
            let objects = objects.iter().map(object);
            objects.map(|one| (key(&one), one)).collect()
        };
        let found = changes(
            &list(&[("same", "1"), ("changed", "1"), ("gone", "1")]),
            &list(&[("same", "1"), ("changed", "2"), ("new", "3")]),
        );
        let found: Vec<(bool, &str)> = found
            .iter()
            .map(|change| match change {
                Change::Written(object) => (true, object.name()),
                Change::Deleted(object) => (false, object.name()),
            })
            .collect();
        assert_eq!(found, [(true, "changed"), (true, "new"), (false, "gone")]);
    }
}
