//! What a user sees, and what a user may do.

use crate::model::Snapshot;
use driftless_kernel::journal::Push;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The namespaces that a user sees.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// True if all namespaces are seen.
    pub all: bool,
    /// The namespaces, as `NAMESPACE` on every hub or `HUB/NAMESPACE` on one.
    pub namespaces: BTreeSet<String>,
}

/// The person who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name: the login at GitHub, or the `email` or `sub` of a token.
    pub name: String,
    /// The namespaces that the user sees.
    pub reads: Scope,
    /// The namespaces in which the user may act.
    pub acts: Scope,
}

/// A rule of the configuration: who sees which namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Rule {
    /// The users that the rule is for.
    pub users: Vec<String>,
    /// The groups that the rule is for: `groups` of a token, or `ORGANISATION/TEAM` of GitHub.
    pub groups: Vec<String>,
    /// The namespaces: `NAMESPACE`, `HUB/NAMESPACE`, or `*` for all.
    pub namespaces: Vec<String>,
    /// True if the users may also reconcile, suspend, resume and approve there.
    pub actions: bool,
}

/// The form of the rules in errors.
const EXPECTED: &str = "expected a JSON list such as \
                        [{\"groups\": [\"acme/web\"], \"namespaces\": [\"web\"], \"actions\": true}]";

/// The reason that rules are not valid; rules are counted from zero.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// The text is not a list of rules.
    #[error("{0}; {expected}", expected = EXPECTED)]
    Json(#[from] serde_json::Error),
    /// A rule names no user and no group.
    #[error("rule {0} has no users and no groups; {expected}", expected = EXPECTED)]
    NoUsers(usize),
    /// A rule gives nothing.
    #[error("rule {0} has no namespaces; {expected}", expected = EXPECTED)]
    NoNamespaces(usize),
}

/// Reads the rules of the configuration, a JSON list.
///
/// # Errors
/// The text is not such a list, or a rule has no users or no namespaces.
pub fn rules(text: &str) -> Result<Vec<Rule>, RulesError> {
    let rules: Vec<Rule> = serde_json::from_str(text)?;
    for (at, rule) in rules.iter().enumerate() {
        if rule.users.is_empty() && rule.groups.is_empty() {
            return Err(RulesError::NoUsers(at));
        }
        if rule.namespaces.is_empty() {
            return Err(RulesError::NoNamespaces(at));
        }
    }
    Ok(rules)
}

impl User {
    /// Returns the user of this machine, who sees and may do everything.
    pub fn local() -> Self {
        let all = Scope {
            all: true,
            ..Scope::default()
        };
        Self {
            name: "local".to_owned(),
            reads: all.clone(),
            acts: all,
        }
    }

    /// Returns the user that rules give these rights; one without any rule sees nothing.
    pub fn by_rules(name: &str, groups: &[String], rules: &[Rule]) -> Self {
        let mut user = Self {
            name: name.to_owned(),
            ..Self::default()
        };
        for rule in rules {
            let is_named = rule.users.iter().any(|one| one == name);
            if !is_named && !rule.groups.iter().any(|one| groups.contains(one)) {
                continue;
            }
            user.reads.add(&rule.namespaces);
            if rule.actions {
                user.acts.add(&rule.namespaces);
            }
        }
        user
    }
}

impl Scope {
    fn add(&mut self, namespaces: &[String]) {
        for namespace in namespaces {
            match namespace.as_str() {
                "*" => self.all = true,
                _ => {
                    self.namespaces.insert(namespace.clone());
                }
            }
        }
    }

    /// Returns whether nothing is seen.
    pub fn is_empty(&self) -> bool {
        !self.all && self.namespaces.is_empty()
    }

    /// Returns whether a namespace of a hub is seen.
    pub fn has(&self, hub: &str, namespace: &str) -> bool {
        self.all
            || self.namespaces.contains(namespace)
            || self.namespaces.contains(&format!("{hub}/{namespace}"))
    }

    /// Returns whether anything of a hub may be seen, by its name alone.
    fn names_hub(&self, hub: &str) -> bool {
        let prefix = format!("{hub}/");
        self.all || self.namespaces.iter().any(|one| one.starts_with(&prefix))
    }

    /// Returns what is seen of a snapshot: the objects of the namespaces, and the hubs that have
    /// some of them. References to objects that are not seen are removed.
    pub fn of(&self, snapshot: &Arc<Snapshot>) -> Arc<Snapshot> {
        if self.all {
            return snapshot.clone();
        }
        let mut objects = Vec::new();
        for row in &snapshot.objects {
            if !self.has(&row.hub, &row.id.namespace) {
                continue;
            }
            let mut row = row.clone();
            let hub = row.hub.clone();
            let sees = |namespace: &str| self.has(&hub, namespace);
            row.owner.take_if(|owner| !sees(&owner.namespace));
            row.source.take_if(|source| !sees(&source.namespace));
            row.depends_on.retain(|one| sees(&one.namespace));
            objects.push(row);
        }
        let has_objects = |hub: &str| objects.iter().any(|row| row.hub == hub);
        let hubs = snapshot.hubs.iter();
        let hubs = hubs.filter(|hub| has_objects(&hub.name) || self.names_hub(&hub.name));
        let hubs = hubs.map(|hub| crate::model::Hub {
            name: hub.name.clone(),
            // The address and the errors of a hub are its operator's.
            fleet: String::new(),
            error: hub.error.as_ref().map(|_| "not reachable".to_owned()),
        });
        Arc::new(Snapshot {
            taken: snapshot.taken,
            hubs: hubs.collect(),
            objects,
        })
    }

    /// Returns what is seen of a push: its landings in the namespaces, and its sources there. The
    /// message is the source's.
    pub fn of_push(&self, mut push: Push) -> Option<Push> {
        if self.all {
            return Some(push);
        }
        push.landings
            .retain(|landing| self.has(&landing.hub, &landing.object.namespace));
        push.sources
            .retain(|(hub, source)| self.has(hub, &source.namespace));
        if push.sources.is_empty() {
            push.message.clear();
        }
        (!push.landings.is_empty() || !push.sources.is_empty()).then_some(push)
    }
}
