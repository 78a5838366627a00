//! The changes of an apply or a prune, as data.

use driftless_manifest::ObjectId;
use std::collections::BTreeMap;
use std::fmt;

/// The action of an apply or a prune on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// The object was created.
    Created,
    /// The object was changed.
    Configured,
    /// The object was already as desired.
    Unchanged,
    /// The object was deleted.
    Deleted,
    /// The object was left alone, because its options or those of the live object demand it.
    Skipped,
}

impl Action {
    /// Checks whether the action changed the cluster.
    pub fn is_change(self) -> bool {
        matches!(self, Self::Created | Self::Configured | Self::Deleted)
    }
}

/// Renders Flux's terms: `created`, `configured`, `unchanged`, `deleted`, `skipped`.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Created => "created",
            Self::Configured => "configured",
            Self::Unchanged => "unchanged",
            Self::Deleted => "deleted",
            Self::Skipped => "skipped",
        })
    }
}

/// One object with its action. Displayed as `Kind/namespace/name action`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The identity of the object.
    pub id: ObjectId,
    /// The action on the object.
    pub action: Action,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id, self.action)
    }
}

/// Changes in the order in which they were made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangeSet(Vec<Change>);

impl ChangeSet {
    /// Adds the action of one object.
    pub fn push(&mut self, id: ObjectId, action: Action) {
        self.0.push(Change { id, action });
    }

    /// Adds all of another set.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Iterates over the changes.
    pub fn iter(&self) -> impl Iterator<Item = &Change> {
        self.0.iter()
    }

    /// Returns the number of changes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Checks whether the set has no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the changes that changed the cluster.
    #[must_use]
    pub fn changed(&self) -> Self {
        let changes = self.0.iter().filter(|change| change.action.is_change());
        Self(changes.cloned().collect())
    }

    /// Groups the objects by action, as Flux logs them with `GroupChangeLog`.
    pub fn grouped(&self) -> BTreeMap<Action, Vec<String>> {
        let mut groups: BTreeMap<Action, Vec<String>> = BTreeMap::new();
        for change in &self.0 {
            groups
                .entry(change.action)
                .or_default()
                .push(change.id.to_string());
        }
        groups
    }

    /// Returns one line with numbers: `2 created, 1 deleted`, or `no changes`.
    pub fn summary(&self) -> String {
        let count = |(action, ids): (&Action, &Vec<String>)| format!("{} {action}", ids.len());
        let groups = self.grouped();
        let words: Vec<String> = groups
            .iter()
            .filter(|(action, _)| action.is_change())
            .map(count)
            .collect();
        if words.is_empty() {
            "no changes".to_owned()
        } else {
            words.join(", ")
        }
    }
}

/// Renders one line per object.
impl fmt::Display for ChangeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = self.0.iter();
        if let Some(first) = lines.next() {
            write!(f, "{first}")?;
        }
        lines.try_for_each(|line| write!(f, "\n{line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let id = |namespace: &str, kind: &str, name: &str| ObjectId {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            group: String::new(),
            kind: kind.to_owned(),
        };
        let mut set = ChangeSet::default();
        assert_eq!(
            (set.to_string().as_str(), set.summary().as_str()),
            ("", "no changes")
        );
        set.push(id("", "Namespace", "apps"), Action::Created);
        set.push(id("apps", "ConfigMap", "a"), Action::Unchanged);
        set.push(id("apps", "Service", "b"), Action::Configured);
        set.push(id("apps", "Secret", "c"), Action::Skipped);
        set.push(id("apps", "Secret", "d"), Action::Deleted);
        assert_eq!(
            set.changed().to_string(),
            "Namespace/apps created\nService/apps/b configured\nSecret/apps/d deleted"
        );
        assert_eq!(set.summary(), "1 created, 1 configured, 1 deleted");
        assert_eq!(set.grouped()[&Action::Unchanged], ["ConfigMap/apps/a"]);
    }
}
