//! The events to print: those of Flux's kinds, or of one kind, or of one object and its source.

use crate::error::Error;
use crate::hub;
use driftless_flux::{FluxKind, ObjectRef};
use driftless_kernel::hub::Hub;
use driftless_manifest::Object;
use std::collections::BTreeSet;

/// The kinds of Flux that driftless does not reconcile, but whose events may be on the hub.
const OTHER_KINDS: [&str; 4] = [
    "ImagePolicy",
    "ImageRepository",
    "ImageUpdateAutomation",
    "ArtifactGenerator",
];

/// An object whose events are printed.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    kind: String,
    /// The object; every object of the kind without a name.
    name: Option<String>,
    /// Empty for all namespaces.
    namespace: String,
}

/// The events to print.
pub struct Selection {
    /// The objects; every object of Flux's kinds if the list is empty.
    wanted: Vec<Wanted>,
    /// The namespace of the command; empty for all.
    place: String,
}

impl Selection {
    /// Selects the events of every kind.
    pub fn all(place: &str) -> Self {
        Self {
            wanted: Vec::new(),
            place: place.to_owned(),
        }
    }

    /// Selects the events of `KIND` or `KIND/NAME`. `place` is empty for all namespaces.
    ///
    /// # Errors
    /// The kind is not one of Flux, or the object does not exist.
    pub async fn of(hub: &Hub, of: &str, namespace: &str, place: &str) -> Result<Self, Error> {
        let (kind, name) = match of.split_once('/') {
            Some((kind, name)) => (kind, Some(name).filter(|name| !name.is_empty())),
            None => (of, None),
        };
        let known = kinds().find(|known| known.eq_ignore_ascii_case(kind));
        let Some(known) = known else {
            let kinds: Vec<&str> = kinds().collect();
            return Err(
                Error::usage(format!("--for: '{kind}' is not a recognized Flux kind"))
                    .next(format!("give one of: {}", kinds.join(", "))),
            );
        };
        let mut wanted = vec![Wanted {
            kind: known.to_owned(),
            name: name.map(str::to_owned),
            namespace: place.to_owned(),
        }];
        if let (Some(kind), Some(name)) = (FluxKind::parse(known), name) {
            let object = hub::object(hub, kind, namespace, name).await?;
            wanted.extend(sources(kind, &object));
        }
        Ok(Self {
            wanted,
            place: place.to_owned(),
        })
    }

    /// Returns the namespaces whose events are listed; one empty one for all.
    pub fn namespaces(&self) -> BTreeSet<String> {
        if self.place.is_empty() {
            return BTreeSet::from([String::new()]);
        }
        let others = self.wanted.iter().map(|one| one.namespace.clone());
        others.chain([self.place.clone()]).collect()
    }

    /// Returns whether the table has a column for the namespace.
    pub fn shows_namespace(&self) -> bool {
        self.place.is_empty() || self.wanted.iter().any(|one| one.namespace != self.place)
    }

    /// Returns whether an event is printed.
    pub fn has(&self, event: &Object) -> bool {
        let text = |pointer: &str| {
            let text = event.pointer(pointer).and_then(|one| one.as_str());
            text.unwrap_or_default()
        };
        let kind = text("/involvedObject/kind");
        if self.wanted.is_empty() {
            return kinds().any(|known| known == kind);
        }
        self.wanted.iter().any(|one| {
            one.kind == kind
                && one
                    .name
                    .as_ref()
                    .is_none_or(|name| name == text("/involvedObject/name"))
                && (one.namespace.is_empty() || one.namespace == event.namespace())
        })
    }
}

fn kinds() -> impl Iterator<Item = &'static str> {
    FluxKind::ALL
        .into_iter()
        .map(FluxKind::as_str)
        .chain(OTHER_KINDS)
}

/// Returns the objects that an object reads: its source, the chart of a release, the Provider of an
/// Alert.
fn sources(kind: FluxKind, object: &Object) -> Vec<Wanted> {
    let (field, fixed) = match kind {
        FluxKind::Kustomization | FluxKind::HelmChart => ("/spec/sourceRef", None),
        FluxKind::HelmRelease if object.pointer("/spec/chart").is_none() => {
            ("/spec/chartRef", None)
        }
        FluxKind::HelmRelease => ("/spec/chart/spec/sourceRef", None),
        FluxKind::Alert => ("/spec/providerRef", Some(FluxKind::Provider.as_str())),
        _ => return Vec::new(),
    };
    let Some(reference) = object.pointer(field) else {
        return Vec::new();
    };
    let text = |name: &str| reference[name].as_str().filter(|text| !text.is_empty());
    let namespace = text("namespace").filter(|_| fixed.is_none());
    let namespace = namespace.unwrap_or_else(|| object.namespace());
    let mut found = Vec::new();
    if let (Some(kind), Some(name)) = (fixed.or(text("kind")), text("name")) {
        found.push(Wanted {
            kind: kind.to_owned(),
            name: Some(name.to_owned()),
            namespace: namespace.to_owned(),
        });
    }
    if kind == FluxKind::HelmRelease && object.pointer("/spec/chart").is_some() {
        let chart = ObjectRef::new(
            FluxKind::HelmChart,
            namespace,
            format!("{}-{}", object.namespace(), object.name()),
        );
        found.push(Wanted {
            kind: chart.kind.as_str().to_owned(),
            name: Some(chart.name),
            namespace: chart.namespace,
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_release_has_its_chart_and_repository() {
        let release = json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "metadata": {"name": "web", "namespace": "team-a"},
            "spec": {"chart": {"spec": {"sourceRef": {"kind": "HelmRepository", "name": "charts", "namespace": "flux-system"}}}}});
        let found = sources(FluxKind::HelmRelease, &Object::new(release).unwrap());
        let names: Vec<String> = found
            .iter()
            .map(|one| {
                format!(
                    "{}/{}/{}",
                    one.kind,
                    one.namespace,
                    one.name.as_deref().unwrap()
                )
            })
            .collect();
        assert_eq!(
            names,
            [
                "HelmRepository/flux-system/charts",
                "HelmChart/flux-system/team-a-web"
            ]
        );
    }

    #[test]
    fn events_of_other_objects_are_left_out() {
        let event = |kind: &str, name: &str, namespace: &str| {
            Object::new(json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": namespace},
                "involvedObject": {"kind": kind, "name": name}}))
            .unwrap()
        };
        let all = Selection::all("");
        assert!(all.has(&event("Kustomization", "a", "x")));
        assert!(all.has(&event("ImagePolicy", "a", "x")));
        assert!(!all.has(&event("Pod", "a", "x")));
        let one = Selection {
            wanted: vec![Wanted {
                kind: "Kustomization".to_owned(),
                name: Some("a".to_owned()),
                namespace: "x".to_owned(),
            }],
            place: "x".to_owned(),
        };
        assert!(one.has(&event("Kustomization", "a", "x")));
        assert!(!one.has(&event("Kustomization", "b", "x")));
        assert!(!one.has(&event("Kustomization", "a", "y")));
    }
}
