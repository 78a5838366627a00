//! Diagnostics of a check: errors and notes, each with all objects that it concerns.

use crate::embedded::needs::{NeededObject, Purpose};
use crate::fleet::Location as File;
use std::collections::{BTreeMap, BTreeSet};

/// The prefix of a note about something that could not be checked.
pub const UNCHECKED: &str = "not checked: ";

/// The part of a note between an embedded cluster and the reference that it was created for.
pub const REPLACES: &str = " replaces that of ";
const CLUSTERS: &str = "clusters in this process replace those of kubeconfigs";

/// The prefix of an error about something that driftless refuses to serve.
pub const UNSERVED: &str = "not served: ";

/// An error or a note.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// The file, and the line if it is known.
    pub place: Option<File>,
    /// The subject: an object, a kind or a remote base.
    pub about: Option<String>,
    /// The message without the subject.
    pub message: String,
}

impl Diagnostic {
    /// Creates a note.
    pub fn note(about: impl ToString, message: impl Into<String>) -> Self {
        Self {
            place: None,
            about: Some(about.to_string()),
            message: message.into(),
        }
    }

    /// Creates a note about something that could not be checked.
    pub fn unchecked(about: impl ToString, reason: impl std::fmt::Display) -> Self {
        Self::note(about, format!("{UNCHECKED}{reason}"))
    }

    /// Creates a diagnostic about something that driftless refuses to serve.
    pub fn unserved(about: impl ToString, reason: impl std::fmt::Display) -> Self {
        Self::note(about, format!("{UNSERVED}{reason}"))
    }

    /// Returns whether it is about something that driftless refuses to serve.
    pub fn is_unserved(&self) -> bool {
        self.message.starts_with(UNSERVED)
    }

    /// Creates a note about a Secret, ConfigMap or service account that no applied object creates.
    pub fn missing(place: &NeededObject, purpose: &Purpose) -> Self {
        match purpose {
            Purpose::Variables => Self::unchecked(
                place,
                "no applied object creates it; its values are placeholders (give --with)",
            ),
            Purpose::Values { .. } => Self::unchecked(
                place,
                "no applied object creates it; releases are rendered without its values (give --with)",
            ),
            Purpose::Keys => Self::note(
                place,
                "no applied object creates it; encrypted values are placeholders (give --sops-key)",
            ),
            Purpose::Login | Purpose::Certificates | Purpose::Cluster => {
                Self::note(place, "no applied object creates it; a placeholder is used")
            }
        }
    }

    /// Renders `HUBS: OBJECT: MESSAGE` in one line, without the parts that are empty.
    pub fn text(&self, occurrences: &Occurrences) -> String {
        let hubs = occurrences
            .hubs
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>();
        let message = self.message.replace('\n', " ");
        let about = self.about.clone().unwrap_or_default();
        let parts = [hubs.join(", "), about, message + &occurrences.text(self)];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(": ")
    }

    /// Returns the message by which notes are grouped into one line.
    pub fn group(&self) -> &str {
        // Notes about embedded clusters differ only in names.
        match self.message.split_once(REPLACES) {
            Some(_) => CLUSTERS,
            None => &self.message,
        }
    }

    /// Returns whether it is about something that was not checked.
    pub fn is_unchecked(&self) -> bool {
        self.message.starts_with(UNCHECKED)
    }
}

/// The hubs and objects that a diagnostic concerns.
#[derive(Clone, Debug, Default)]
pub struct Occurrences {
    /// The hubs: a diagnostic of two hubs is one line.
    pub hubs: BTreeSet<String>,
    /// The objects that it concerns.
    pub users: BTreeSet<String>,
    /// The entries of a Secret or ConfigMap that have placeholders.
    pub keys: BTreeSet<String>,
}

/// Diagnostics with their occurrences.
pub type Diagnostics = BTreeMap<Diagnostic, Occurrences>;

/// The highest number of names that a line lists.
const LISTED: usize = 3;

/// Renders `A, B, C and 9 more`.
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

impl Occurrences {
    /// Renders the part of a line that follows the message.
    pub fn text(&self, diagnostic: &Diagnostic) -> String {
        let mut text = String::new();
        if !self.keys.is_empty() {
            text.push_str(&format!("; keys: {}", list(&self.keys)));
        }
        let users = match (self.users.len(), diagnostic.place.is_some()) {
            (0, _) => return text,
            (count, true) => format!("; the same for {count} more: "),
            (1, _) => "; concerns 1 object: ".to_owned(),
            (count, _) => format!("; concerns {count} objects: "),
        };
        text.push_str(&users);
        text.push_str(&list(&self.users));
        text
    }
}
