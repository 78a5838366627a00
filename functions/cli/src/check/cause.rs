//! Why things could not be looked at, or what stands in for them: once for all objects that it concerns.

use crate::embedded::needs::{Place, Purpose};
use crate::fleet::Place as File;
use std::collections::{BTreeMap, BTreeSet};

/// What a note of something that could not be checked begins with.
pub const UNCHECKED: &str = "not checked: ";

/// What a note of a cluster that stands in for another one says.
pub const STANDS_IN: &str = " stands in for that of ";
const CLUSTERS: &str =
    "clusters in this process stand in for those of kubeconfigs that are not here";

/// What an error of something that driftless refuses begins with.
pub const UNSERVED: &str = "not served: ";

/// Something that a reader should know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    /// The file.
    pub place: Option<File>,
    /// What it is about: an object, a kind, a remote base.
    pub about: Option<String>,
    /// What there is to know.
    pub message: String,
}

impl Cause {
    /// Something to know.
    pub fn note(about: impl ToString, message: impl Into<String>) -> Self {
        Self {
            place: None,
            about: Some(about.to_string()),
            message: message.into(),
        }
    }

    /// Something that could not be checked.
    pub fn unchecked(about: impl ToString, why: impl std::fmt::Display) -> Self {
        Self::note(about, format!("{UNCHECKED}{why}"))
    }

    /// Something that driftless refuses to serve.
    pub fn unserved(about: impl ToString, why: impl std::fmt::Display) -> Self {
        Self::note(about, format!("{UNSERVED}{why}"))
    }

    /// Whether it is about something that driftless refuses to serve.
    pub fn is_unserved(&self) -> bool {
        self.message.starts_with(UNSERVED)
    }

    /// A Secret, a ConfigMap or a service account that nothing makes.
    pub fn missing(place: &Place, purpose: &Purpose) -> Self {
        match purpose {
            Purpose::Variables => Self::unchecked(
                place,
                "nothing that was applied makes it, placeholders stand in for its values (give --with)",
            ),
            Purpose::Values { .. } => Self::unchecked(
                place,
                "nothing that was applied makes it, releases go without its values (give --with)",
            ),
            Purpose::Keys => Self::note(
                place,
                "nothing that was applied makes it, encrypted values are placeholders (give --sops-key)",
            ),
            Purpose::Login | Purpose::Certificates | Purpose::Cluster => Self::note(
                place,
                "nothing that was applied makes it, a stand-in is used",
            ),
        }
    }

    /// `HUBS: OBJECT: MESSAGE` in one line, as far as there is each of them.
    pub fn text(&self, met: &Met) -> String {
        let hubs = met.hubs.iter().map(String::as_str).collect::<Vec<_>>();
        let message = self.message.replace('\n', " ");
        let about = self.about.clone().unwrap_or_default();
        let parts = [hubs.join(", "), about, message + &met.text(self)];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(": ")
    }

    /// What notes that are told in one line have in common.
    pub fn group(&self) -> &str {
        // What stands in for one thing or another differs in names alone.
        match self.message.split_once(STANDS_IN) {
            Some(_) => CLUSTERS,
            None => &self.message,
        }
    }

    /// Whether it is about something that was not checked.
    pub fn is_unchecked(&self) -> bool {
        self.message.starts_with(UNCHECKED)
    }
}

/// Where a cause was met.
#[derive(Clone, Debug, Default)]
pub struct Met {
    /// On which hubs: what two hubs share is told once.
    pub hubs: BTreeSet<String>,
    /// What it concerns.
    pub users: BTreeSet<String>,
    /// The entries of a Secret or ConfigMap that something stands in for.
    pub keys: BTreeSet<String>,
}

/// Causes, and where each was met.
pub type Causes = BTreeMap<Cause, Met>;

/// The most names that a line lists.
const LISTED: usize = 3;

/// `A, B, C and 9 more`.
pub fn list(names: &BTreeSet<String>) -> String {
    let mut text = names
        .iter()
        .take(LISTED)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > LISTED {
        text.push_str(&format!(" and {} more", names.len() - LISTED));
    }
    text
}

impl Met {
    /// What a line says of it behind the message.
    pub fn text(&self, cause: &Cause) -> String {
        let mut text = String::new();
        if !self.keys.is_empty() {
            text.push_str(&format!("; keys: {}", list(&self.keys)));
        }
        let users = match (self.users.len(), cause.place.is_some()) {
            (0, _) => return text,
            (count, true) => format!("; and so for {count} more: "),
            (1, _) => "; concerns 1 object: ".to_owned(),
            (count, _) => format!("; concerns {count} objects: "),
        };
        text.push_str(&users);
        text.push_str(&list(&self.users));
        text
    }
}
