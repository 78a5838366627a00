//! ConfigMaps and Secrets that provide values and that no applied object creates: they get
//! placeholders for the variables that a Kustomization's build uses.

use super::diagnostic::{Diagnostic, Diagnostics};
use super::lenient_clusters::LenientState;
use super::observed::Observed;
use crate::embedded::needs::{self, NeededObject, Purpose};
use crate::embedded::{Objects, Row, World};
use crate::error::Error;
use driftless_core::kustomization::variables;
use driftless_flux::{Kustomization, ObjectRef};
use driftless_kernel::context::{Context, Recorder, step_fuel};
use driftless_kernel::ports::Cause as RequestCause;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The prefix of every placeholder.
const MARK: &str = "placeholder-";
/// The maximum length of a placeholder: shorter than a DNS label, because it may be a part of one.
const MAX_PLACEHOLDER_LENGTH: usize = 40;

/// Returns the placeholder of a variable: a word that is valid as a name or as a part of one.
fn placeholder(variable: &str) -> String {
    let name: String = variable
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '-'
            }
        })
        .collect();
    let mut text = format!("{MARK}{}", name.trim_matches('-'));
    text.truncate(MAX_PLACEHOLDER_LENGTH);
    text.trim_end_matches('-').to_owned()
}

/// The ConfigMaps and Secrets with placeholders.
pub struct Values {
    made: BTreeMap<(String, NeededObject), PlaceholderObject>,
    refused: LenientState,
}

struct PlaceholderObject {
    purpose: Purpose,
    entries: BTreeMap<String, String>,
}

impl Values {
    /// Creates an empty set. `refused` learns each placeholder.
    pub fn new(refused: LenientState) -> Self {
        Self {
            made: BTreeMap::new(),
            refused,
        }
    }

    /// Creates placeholders for what objects failed for. Returns whether it created any.
    ///
    /// # Errors
    /// A server refuses a request.
    pub async fn add(&mut self, observed: Observed<'_>) -> Result<bool, Error> {
        let Observed { world, objects, .. } = observed;
        let mut any = false;
        for row in observed.failed() {
            let Some(object) = objects.get(&(row.hub.clone(), row.id.clone())) else {
                continue;
            };
            let mut of_build = None;
            for need in needs::of(object) {
                let entries = match need.purpose {
                    Purpose::Variables => BTreeMap::new(),
                    Purpose::Values { ref key, is_one } => BTreeMap::from([(
                        key.clone(),
                        if is_one {
                            placeholder(key)
                        } else {
                            "{}\n".to_owned()
                        },
                    )]),
                    _ => continue,
                };
                let place = (row.hub.clone(), need.object.clone());
                let is_variables = need.purpose == Purpose::Variables;
                if !self.made.contains_key(&place) && world.has(&row.hub, &need.object).await? {
                    continue;
                }
                any |= self.put(world, &place, need.purpose, entries).await?;
                if is_variables {
                    of_build = Some(place);
                }
            }
            if let Some(place) = of_build {
                let entries = unset(world, row, objects).await?;
                any |= self.put(world, &place, Purpose::Variables, entries).await?;
            }
        }
        Ok(any)
    }

    /// Adds entries to the stand-in of an object. Returns whether they are new.
    async fn put(
        &mut self,
        world: &World,
        place: &(String, NeededObject),
        purpose: Purpose,
        entries: BTreeMap<String, String>,
    ) -> Result<bool, Error> {
        let is_new = !self.made.contains_key(place);
        let made = self
            .made
            .entry(place.clone())
            .or_insert_with(|| PlaceholderObject {
                purpose,
                entries: BTreeMap::new(),
            });
        let before = made.entries.len();
        let values = entries.values().filter(|value| value.starts_with(MARK));
        self.refused.add_placeholders(values.cloned());
        made.entries.extend(entries);
        if !is_new && before == made.entries.len() {
            return Ok(false);
        }
        world.put(&place.0, &place.1, json!(made.entries)).await?;
        Ok(true)
    }

    /// Returns the diagnostic for the placeholder that a string contains.
    pub fn placeholder_in(&self, text: &str) -> Option<Diagnostic> {
        let found = self.made.iter().find(|(_, made)| {
            made.entries
                .values()
                .any(|value| value.starts_with(MARK) && text.contains(value.as_str()))
        });
        found.map(|((_, place), made)| Diagnostic::missing(place, &made.purpose))
    }

    /// Returns the diagnostic for values of a release that are not known.
    pub fn release_diagnostic(&self, row: &Row, objects: &Objects) -> Option<Diagnostic> {
        let object = objects.get(&(row.hub.clone(), row.id.clone()))?;
        let needs = needs::of(object).into_iter();
        let mut needs = needs.filter(|need| matches!(need.purpose, Purpose::Values { .. }));
        needs.find_map(|need| {
            let made = self.made.get(&(row.hub.clone(), need.object.clone()))?;
            Some(Diagnostic::missing(&need.object, &made.purpose))
        })
    }

    /// Adds a note for each stand-in, with the objects that use it.
    pub fn add_notes(&self, users: &Users, diagnostics: &mut Diagnostics) {
        for (place, made) in &self.made {
            let diagnostic = Diagnostic::missing(&place.1, &made.purpose);
            let occurrences = diagnostics.entry(diagnostic).or_default();
            occurrences.hubs.insert(place.0.clone());
            occurrences.keys.extend(made.entries.keys().cloned());
            occurrences
                .users
                .extend(users.get(place).into_iter().flatten().cloned());
        }
    }
}

/// The objects that need an object, by hub and needed object.
pub type Users = BTreeMap<(String, NeededObject), BTreeSet<String>>;

/// Returns the needed objects with the objects that need them.
pub fn users(objects: &Objects) -> Users {
    let mut users = Users::new();
    for ((hub, id), object) in objects {
        for need in needs::of(object) {
            let place = (hub.clone(), need.object);
            users.entry(place).or_default().insert(id.to_string());
        }
    }
    users
}

/// Returns a placeholder for each variable without a value that the build of a Kustomization uses.
/// Errors of the build are reported by its step.
async fn unset(
    world: &World,
    row: &Row,
    objects: &Objects,
) -> Result<BTreeMap<String, String>, Error> {
    let object = objects.get(&(row.hub.clone(), row.id.clone()));
    let Some(Ok(owner)) = object.map(|object| Kustomization::from_object(object.clone())) else {
        return Ok(BTreeMap::new());
    };
    let context = Context {
        ports: &world.ports,
        hub: world.hub(&row.hub).await?,
        id: ObjectRef::clone(&row.id),
        cause: RequestCause::Requeue,
        wait_budget: Duration::ZERO,
        events: Recorder::default(),
        fuel: step_fuel(),
        is_rehearsal: false,
        only_moves_revision: false,
    };
    let unset = variables::unset(&context, &owner).await.unwrap_or_default();
    let value = |name: String| (name.clone(), placeholder(&name));
    Ok(unset.into_iter().map(value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_may_be_names() {
        for (variable, value) in [
            ("DOMAIN", "placeholder-domain"),
            ("_CLUSTER_NAME_", "placeholder-cluster-name"),
            (
                "A_VERY_LONG_NAME_OF_A_VARIABLE_THAT_DOES_NOT_END",
                "placeholder-a-very-long-name-of-a-variab",
            ),
        ] {
            assert_eq!(placeholder(variable), value);
        }
    }
}
