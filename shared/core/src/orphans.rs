//! State in the bucket that is no longer used, for `driftless doctor`: records and notes of
//! hubs that are not registered, and of objects that do not exist. They do no harm. Those of gone
//! objects are normally deleted by the last step or by a sweep.
//!
//! Only keys are read, and of each directory at most [`MOST`]. The audit log is not state: it is
//! kept although its hub is gone.

use driftless_flux::{FluxKind, ObjectRef};
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::{Blobs, Result};
use driftless_kernel::state::{self, decode_key_part};
use std::collections::{BTreeMap, BTreeSet};

/// The most keys of a directory that are read.
pub const MOST: usize = 50_000;
/// The directories whose keys continue with the hub and the object of a record.
const OF_OBJECTS: [&str; 3] = ["objects", "journal", WAITS];
/// The directory of the notes of waiting objects.
const WAITS: &str = "waits";
/// The directories whose keys continue with the hub alone.
const OF_HUBS: [&str; 2] = ["notifications", "schedule"];
/// The directories of notes, whose keys end with the hub and the object, and the kind of the
/// object. No lifecycle rule deletes them.
const OF_NOTES: [(&str, FluxKind); 2] = [
    ("index", FluxKind::GitRepository),
    ("receivers", FluxKind::Receiver),
];

/// Keys of one directory that nothing uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphans {
    /// The directory, such as `objects`.
    pub directory: &'static str,
    /// The hub that the keys name.
    pub hub: String,
    /// The keys, in order.
    pub keys: Vec<String>,
}

impl Orphans {
    /// Returns whether a lifecycle rule of the bucket deletes such keys.
    pub fn expire(&self) -> bool {
        !OF_NOTES.iter().any(|(name, _)| *name == self.directory)
    }
}

/// The keys of all directories.
pub struct State(Vec<(&'static str, Vec<String>)>);

impl State {
    /// Reads the keys.
    ///
    /// # Errors
    /// The store's.
    pub async fn read(blobs: &dyn Blobs) -> Result<Self> {
        let notes = OF_NOTES.map(|(directory, _)| directory);
        let directories = OF_OBJECTS.iter().chain(&OF_HUBS).chain(&notes);
        let mut all = Vec::new();
        for directory in directories {
            let found = blobs.list_some(&format!("{directory}/"), MOST).await?;
            let keys = found.into_iter().map(|entry| entry.key);
            all.push((*directory, keys.collect()));
        }
        Ok(Self(all))
    }

    /// Returns whether a directory has more keys than were read.
    pub fn is_cut_off(&self) -> bool {
        self.0.iter().any(|(_, keys)| keys.len() >= MOST)
    }

    /// Returns the keys of hubs that are not registered.
    pub fn of_unregistered_hubs(&self, registered: &BTreeSet<String>) -> Vec<Orphans> {
        self.select(|directory, key| {
            let hub = hub_of(directory, key)?;
            (!registered.contains(&hub)).then_some(hub)
        })
    }

    /// Returns the keys of objects that a hub no longer has. The keys must have been read before
    /// the objects: an object that is created meanwhile is not an orphan.
    ///
    /// # Errors
    /// The cluster's.
    pub async fn of_gone_objects(&self, hub: &Hub) -> Result<Vec<Orphans>> {
        let mut living = BTreeSet::new();
        for kind in FluxKind::ALL {
            let objects = hub.list(kind).await?;
            let ids = objects.iter();
            living.extend(ids.map(|one| ObjectRef::new(kind, one.namespace(), one.name())));
        }
        let name = &hub.settings.name;
        // An object that others wait for has a record before it exists.
        let notes = self.0.iter().filter(|(directory, _)| *directory == WAITS);
        let notes = notes.flat_map(|(_, keys)| keys);
        let awaited: BTreeSet<(String, ObjectRef)> = notes.filter_map(|key| awaited(key)).collect();
        Ok(self.select(|directory, key| {
            let found = object_of(directory, key)?;
            let is_used = living.contains(&found.1) || awaited.contains(&found);
            (found.0 == *name && !is_used).then_some(found.0)
        }))
    }

    /// Groups the keys for which `orphan` returns a hub.
    fn select(&self, orphan: impl Fn(&str, &str) -> Option<String>) -> Vec<Orphans> {
        let mut groups: BTreeMap<(&'static str, String), Vec<String>> = BTreeMap::new();
        for (directory, keys) in &self.0 {
            for key in keys {
                if let Some(hub) = orphan(directory, key) {
                    groups
                        .entry((*directory, hub))
                        .or_default()
                        .push(key.clone());
                }
            }
        }
        let groups = groups.into_iter();
        groups
            .map(|((directory, hub), keys)| Orphans {
                directory,
                hub,
                keys,
            })
            .collect()
    }
}

/// Returns the hub that a key of a directory names; `None` for a key of another form.
fn hub_of(directory: &str, key: &str) -> Option<String> {
    match OF_NOTES.iter().any(|(name, _)| *name == directory) {
        true => object_of(directory, key).map(|(hub, _)| hub),
        false => {
            let part = key.strip_prefix(directory)?.strip_prefix('/')?;
            let part = part.split('/').next()?;
            decode_key_part(part.strip_suffix(".json").unwrap_or(part))
        }
    }
}

/// Returns the hub and the object that another one waits for, from the key of the note.
fn awaited(key: &str) -> Option<(String, ObjectRef)> {
    let (record, _) = key
        .match_indices('/')
        .nth(4)
        .map(|(at, _)| key.split_at(at))?;
    state::object_of_key(WAITS, &format!("{record}.json"))
}

/// Returns the hub and the object that a key of a directory names; `None` for a key without an
/// object. The note of a waiting object is below the one that it waits for, which may not exist:
/// it is the waiting object's.
fn object_of(directory: &str, key: &str) -> Option<(String, ObjectRef)> {
    if let Some((_, kind)) = OF_NOTES.iter().find(|(name, _)| *name == directory) {
        return state::object_of_note(*kind, key);
    }
    match directory {
        WAITS => {
            let rest = key.strip_prefix(WAITS)?.strip_prefix('/')?;
            let mut parts = rest.splitn(5, '/');
            let hub = decode_key_part(parts.next()?)?;
            Some((hub, ObjectRef::from_key(parts.nth(3)?)?))
        }
        _ if OF_OBJECTS.contains(&directory) => state::object_of_key(directory, key),
        _ => None,
    }
}
