//! The comparison of a built object with the live one, by a server-side dry run.

use crate::error::Error;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use driftless_flux::Kustomization;
use driftless_kernel::applier::{Applier, Strategy};
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::{ErrorKind, PortError};
use driftless_manifest::Object;
use driftless_plans::apply::annotations::Policy;
use driftless_plans::apply::change_detection::is_same;
use driftless_plans::apply::ignore_rules::IgnoreRules;
use driftless_plans::apply::is_immutable_error;
use serde_json::Value;
use std::collections::BTreeSet;

/// The result of a comparison.
pub enum Outcome {
    /// An apply would change nothing.
    Unchanged,
    /// A label or annotation keeps the object from being applied.
    Skipped,
    /// The object does not exist.
    Created,
    /// The object would be deleted and created again.
    Recreated,
    /// An apply would change the object.
    Drifted {
        /// The live object.
        live: Box<Object>,
        /// The object that an apply would store.
        applied: Box<Object>,
    },
}

impl Outcome {
    /// Returns whether an apply would change something.
    pub fn is_difference(&self) -> bool {
        !matches!(self, Self::Unchanged | Self::Skipped)
    }
}

/// The common inputs of the comparisons of one build.
pub struct Comparison<'a> {
    hub: &'a Hub,
    ignore: IgnoreRules,
    force: bool,
    /// The namespaces and kinds that the build itself creates.
    namespaces: BTreeSet<&'a str>,
    kinds: BTreeSet<(String, String)>,
}

impl<'a> Comparison<'a> {
    /// Prepares the comparisons.
    ///
    /// # Errors
    /// A rule of `spec.ignore` is not valid.
    pub fn new(hub: &'a Hub, owner: &Kustomization, objects: &'a [Object]) -> Result<Self, Error> {
        let place = format!("{}: spec.ignore", owner.id);
        let ignore = IgnoreRules::new(&owner.spec.ignore, &place).map_err(Error::caused_by)?;
        let of_kind = |kind: &'static str| objects.iter().filter(move |one| one.kind() == kind);
        let kinds = of_kind("CustomResourceDefinition").filter_map(|one| {
            let text = |pointer: &str| Some(one.pointer(pointer)?.as_str()?.to_owned());
            Some((text("/spec/group")?, text("/spec/names/kind")?))
        });
        Ok(Self {
            hub,
            ignore,
            force: owner.spec.force,
            namespaces: of_kind("Namespace").map(Object::name).collect(),
            kinds: kinds.collect(),
        })
    }

    /// Compares one object.
    ///
    /// # Errors
    /// The hub refuses the object, or cannot be read.
    pub async fn outcome(&self, desired: &Object) -> Result<Outcome, Error> {
        let id = desired.id();
        let failed = |error: PortError| {
            let mut error = Error::from(error);
            error.message = format!("{id} dry-run failed: {}", error.message);
            // The API server answers with an internal error.
            match error
                .message
                .contains("failed to create typed patch object")
            {
                true => error.next("correct the field in the file that the object is in"),
                false => error,
            }
        };
        let gvk = desired.gvk();
        let Some(resource) = self.hub.cluster.resource(&gvk).await.map_err(failed)? else {
            return match self.kinds.contains(&(gvk.group.clone(), gvk.kind.clone())) {
                true => Ok(Outcome::Created),
                false => Err(Error::new(format!(
                    "{id} dry-run failed: no matches for kind \"{}\" in version \"{}\"",
                    gvk.kind,
                    gvk.api_version()
                ))
                .next("install the definition of the kind first")),
            };
        };
        let live = self
            .hub
            .cluster
            .get(&resource, desired.namespace(), desired.name());
        let live = live.await.map_err(failed)?;
        if Policy::of(desired).skip(live.as_ref()).is_some() {
            return Ok(Outcome::Skipped);
        }
        let mut desired = desired.clone();
        if let Some(live) = &live {
            keep_encrypted(&mut desired, live);
            if let Some(ignoring) = self.ignore.with_live_values(&desired, live) {
                desired = ignoring;
            }
        }
        let applier = Applier::new(self.hub.cluster.as_ref(), Strategy::KUSTOMIZE);
        match (applier.dry_run(&resource, &desired).await, live) {
            (Ok(_), None) => Ok(Outcome::Created),
            (Ok(applied), Some(live)) => Ok(match is_same(&applied, &live) {
                true => Outcome::Unchanged,
                false => Outcome::Drifted {
                    live: Box::new(live),
                    applied: Box::new(applied),
                },
            }),
            // The namespace comes with the same apply.
            (Err(error), None)
                if error.kind == ErrorKind::NotFound
                    && self.namespaces.contains(desired.namespace()) =>
            {
                Ok(Outcome::Created)
            }
            (Err(error), Some(live)) if is_immutable_error(&error.message) => {
                let recreates = self.force || Policy::of(&desired).recreates(Some(&live));
                match recreates {
                    true => Ok(Outcome::Recreated),
                    false => Err(failed(error).next(
                        "change the name of the object, or set spec.force or the annotation kustomize.toolkit.fluxcd.io/force: Enabled",
                    )),
                }
            }
            (Err(error), _) => Err(failed(error)),
        }
    }
}

/// Gives encrypted values of a Secret their live values: only their keys can be compared.
fn keep_encrypted(desired: &mut Object, live: &Object) {
    if desired.kind() != "Secret" {
        return;
    }
    let Some(Value::Object(data)) = desired.as_map_mut().get_mut("data") else {
        return;
    };
    for (key, value) in data {
        let decoded = value.as_str().and_then(|text| STANDARD.decode(text).ok());
        let is_hidden = decoded
            .is_some_and(|bytes| matches!(bytes.as_slice(), b"placeholder" | b"# placeholder"));
        let there = live
            .pointer("/data")
            .and_then(|data| data.get(key.as_str()));
        if let Some(there) = there.filter(|_| is_hidden) {
            *value = there.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn encrypted_values_count_as_equal() {
        let secret = |data: Value| {
            Object::new(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": data})).unwrap()
        };
        let mut desired =
            secret(json!({"a": "cGxhY2Vob2xkZXI=", "b": "Yg==", "new": "cGxhY2Vob2xkZXI="}));
        keep_encrypted(
            &mut desired,
            &secret(json!({"a": "bGl2ZQ==", "b": "bGl2ZQ=="})),
        );
        assert_eq!(
            desired.pointer("/data"),
            Some(&json!({"a": "bGl2ZQ==", "b": "Yg==", "new": "cGxhY2Vob2xkZXI="}))
        );
    }
}
