//! Kinds that nothing in the repository defines: each gets a definition that allows everything, so that the objects beside
//! it are checked, and is remembered.

use crate::embedded::{Row, State, Told, World};
use crate::error::Error;
use driftless_core::ports::Apply;
use driftless_manifest::{Gvk, Object};
use regex::Regex;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Kinds without a definition, by cluster and API type.
#[derive(Default)]
pub struct Definitions(BTreeMap<(String, String, String), Missing>);

/// A kind without a definition.
pub struct Missing {
    /// The first object that was refused for it.
    pub row: Row,
    /// Each object of the kind.
    pub told: Vec<Told>,
    what: String,
}

impl Missing {
    /// For a cluster where something that was not checked may bring the definition.
    pub fn why(&self) -> String {
        format!(
            "the repository does not define {}; what was not checked may",
            self.what
        )
    }
}

impl Definitions {
    /// Defines what an object was refused for. Whether there was anything new.
    ///
    /// # Errors
    /// What a server refuses.
    pub async fn add(&mut self, world: &World, row: &Row) -> Result<bool, Error> {
        if row.state != State::Failed {
            return Ok(false);
        }
        let mut any = false;
        for (line, told) in row.message.lines().zip(&row.told) {
            let Some((gvk, namespaced)) = undefined(line) else {
                continue;
            };
            let key = (row.cluster.clone(), gvk.group.clone(), gvk.kind.clone());
            let told = Told {
                place: told.place.clone(),
                message: format!(
                    "no definition of {} {} in cluster {}",
                    gvk.api_version(),
                    gvk.kind,
                    row.cluster
                ),
            };
            if let Some(known) = self.0.get_mut(&key) {
                if !known.told.contains(&told) {
                    known.told.push(told);
                }
                continue;
            }
            define(world, row, &gvk, namespaced).await?;
            let missing = Missing {
                row: row.clone(),
                told: vec![told],
                what: format!("{} {}", gvk.api_version(), gvk.kind),
            };
            self.0.insert(key, missing);
            any = true;
        }
        Ok(any)
    }

    /// What was defined.
    pub fn missing(&self) -> impl Iterator<Item = &Missing> {
        self.0.values()
    }
}

/// The type that an apply was refused for, and whether its objects live in namespaces.
fn undefined(line: &str) -> Option<(Gvk, bool)> {
    static FORM: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r#"^([^ ]+) .*no matches for kind "([^"]+)" in version "([^"]+)""#).ok()
    });
    let found = FORM.as_ref()?.captures(line)?;
    let gvk = Gvk::new(&found[3], &found[2]);
    // Kubernetes' own groups are served in all versions that there are.
    let custom = gvk.group.contains('.') && !gvk.group.ends_with(".k8s.io");
    custom.then(|| (gvk, found[1].matches('/').count() > 1))
}

async fn define(world: &World, row: &Row, gvk: &Gvk, namespaced: bool) -> Result<(), Error> {
    let hub = world.hub(&row.hub).await?;
    let Some(target) = world.target_of(&hub, &row.id).await? else {
        return Ok(());
    };
    let plural = format!("{}s", gvk.kind.to_lowercase());
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{}", gvk.group)},
        "spec": {
            "group": gvk.group, "scope": if namespaced { "Namespaced" } else { "Cluster" },
            "names": {"kind": gvk.kind, "listKind": format!("{}List", gvk.kind), "plural": plural, "singular": gvk.kind.to_lowercase()},
            "versions": [{"name": gvk.version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    let definition = Object::new(definition).map_err(Error::new)?;
    let resource = target.cluster.resource(&definition.gvk()).await?;
    if let Some(resource) = resource {
        let how = Apply {
            manager: "driftless-check",
            force: true,
            dry_run: false,
        };
        target.cluster.apply(&resource, &definition, how).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals() {
        let line = |id: &str, version: &str| {
            let line = format!(
                "{id} dry-run failed: no matches for kind \"ClusterPolicy\" in version \"{version}\""
            );
            undefined(&line).map(|(gvk, namespaced)| (gvk.group, namespaced))
        };
        assert_eq!(
            line("ClusterPolicy/a", "kyverno.io/v1"),
            Some(("kyverno.io".into(), false))
        );
        assert_eq!(
            line("ClusterPolicy/ns/a", "kyverno.io/v1"),
            Some(("kyverno.io".into(), true))
        );
        assert_eq!(line("ClusterPolicy/ns/a", "policy/v1beta1"), None);
        assert_eq!(
            line("ClusterPolicy/ns/a", "networking.k8s.io/v1beta1"),
            None
        );
        assert!(undefined("Deployment/a dry-run failed: invalid").is_none());
    }
}
