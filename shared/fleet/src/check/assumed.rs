//! Objects that count as ready because they cannot be checked offline, so that the check continues
//! with their dependents.

use super::diagnostic::{Diagnostic, Diagnostics};
use super::lenient_clusters::LenientState;
use super::missing_objects::MadeUp;
use super::observed::Observed;
use crate::embedded::{Objects, Row, State, World, without_wait};
use crate::error::Error;
use driftless_adapters::git::BASE_NOT_FETCHED;
use driftless_adapters::offline::BEHIND_THE_NETWORK;
use driftless_flux::{ArtifactGenerator, FluxKind, GENERATOR_UID, ObjectRef, reason};
use driftless_kernel::ports::{Patch, PatchRequest};
use driftless_kernel::repository;
use driftless_manifest::Object;
use driftless_source::consumers;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The reason in the `Ready` condition of an object that is assumed to be ready.
pub const ASSUMED: &str = "NotChecked";
const MANAGER: &str = "driftless-check";

/// A part of the message about a repository without a `--source` directory.
const NO_DIRECTORY: &str = "no local directory is configured";

type Id = (String, ObjectRef);

/// The reason why an object is assumed to be ready.
#[derive(Clone)]
enum Reason {
    /// A reason that other objects may share.
    Diagnostic(Diagnostic),
    /// Its source is assumed to be ready.
    Source(ObjectRef),
}

/// The objects that are assumed to be ready.
#[derive(Default)]
pub struct AssumedReady {
    all: BTreeMap<Id, Reason>,
    /// The value of the feature gate ExternalArtifact, if it is set.
    external_artifacts: Option<bool>,
}

impl AssumedReady {
    /// Creates an empty set.
    pub fn new(external_artifacts: Option<bool>) -> Self {
        Self {
            all: BTreeMap::new(),
            external_artifacts,
        }
    }

    /// Returns whether an object is assumed to be ready.
    pub fn contains(&self, hub: &str, id: &ObjectRef) -> bool {
        self.all.contains_key(&(hub.to_owned(), id.clone()))
    }

    /// Assumes that every object that cannot be checked is ready. Returns whether it added any
    /// object.
    ///
    /// # Errors
    /// A server refuses a request.
    pub async fn add(
        &mut self,
        observed: Observed<'_>,
        made: &MadeUp,
        refused: &LenientState,
    ) -> Result<bool, Error> {
        let Observed {
            world,
            rows,
            objects,
        } = observed;
        let mut any = false;
        for row in rows.iter().filter(|row| is_open(row)) {
            if self.contains(&row.hub, &row.id) {
                continue;
            }
            let reason = self
                .unreachable(row, objects)
                .or_else(|| self.unhealthy(row, made, refused));
            if let Some(reason) = reason {
                self.assume(world, row, objects, reason).await?;
                any = true;
            }
        }
        Ok(any)
    }

    /// Assumes that objects which failed because of placeholders are ready. Returns whether it
    /// added any object.
    ///
    /// # Errors
    /// A server refuses a request.
    pub async fn assume_failed_ready(
        &mut self,
        observed: Observed<'_>,
        made: &MadeUp,
    ) -> Result<bool, Error> {
        let Observed { world, objects, .. } = observed;
        let mut any = false;
        for row in observed.failed() {
            if self.contains(&row.hub, &row.id) {
                continue;
            }
            if let Some(diagnostic) = made.external_cause(row, objects) {
                self.assume(world, row, objects, Reason::Diagnostic(diagnostic))
                    .await?;
                any = true;
            }
        }
        Ok(any)
    }

    /// Forgets the objects whose status no longer has the assumed condition.
    pub fn forget_open(&mut self, rows: &[Row]) {
        for row in rows.iter().filter(|row| is_open(row)) {
            self.all.remove(&(row.hub.clone(), row.id.clone()));
        }
    }

    /// Assumes that sources whose hosts did not answer are ready. Returns whether it added any
    /// object.
    ///
    /// # Errors
    /// A server refuses a request.
    pub async fn unreached(&mut self, observed: Observed<'_>) -> Result<bool, Error> {
        let Observed { world, objects, .. } = observed;
        let mut any = false;
        let is_source = |row: &&Row| {
            let kind = row.id.kind;
            kind.is_source() || kind == FluxKind::HelmRepository
        };
        for row in observed.failed().filter(is_source) {
            let reason = Reason::Diagnostic(Diagnostic::unchecked(&row.id, &row.message));
            self.assume(world, row, objects, reason).await?;
            any = true;
        }
        Ok(any)
    }

    /// Returns the reason why an object cannot be checked offline.
    fn unreachable(&self, row: &Row, objects: &Objects) -> Option<Reason> {
        let artifact = FluxKind::ExternalArtifact;
        let source = row.source.as_ref();
        let generator = source.and_then(|source| generator(&row.hub, source, objects));
        if let Some(generator) = generator {
            let is_assumed = self.contains(&row.hub, &generator);
            return is_assumed.then_some(Reason::Source(generator));
        }
        if source.is_some_and(|source| source.kind == artifact) {
            // Both existing ones and those that another controller would create.
            return (self.external_artifacts != Some(false))
                .then(|| Reason::Diagnostic(external(artifact)));
        }
        if let Some(source) = source.filter(|source| self.contains(&row.hub, source)) {
            return Some(Reason::Source(source.clone()));
        }
        if row.id.kind == FluxKind::ArtifactGenerator {
            let object = objects.get(&(row.hub.clone(), row.id.clone()));
            let sources = object.map(|object| consumers::sources_of(object.clone()));
            let mut sources = sources.unwrap_or_default().into_iter();
            let source = sources.find(|source| self.contains(&row.hub, source));
            if let Some(source) = source {
                return Some(Reason::Source(source));
            }
        }
        if row.reason == reason::TOKEN_NOT_FOUND {
            // Tokens are not part of a fleet repository.
            let diagnostic = Diagnostic::unchecked(&row.id, &row.message);
            return Some(Reason::Diagnostic(diagnostic));
        }
        if row.reason != reason::UNSUPPORTED {
            return None;
        }
        let diagnostic = match row.id.kind {
            FluxKind::Kustomization => {
                let base = row
                    .message
                    .strip_suffix(BASE_NOT_FETCHED)?
                    .strip_suffix(": ")?;
                let message =
                    "the base is not fetched (give --allow-remote-bases, or --source URL=DIR)";
                Diagnostic::unchecked(base, message)
            }
            FluxKind::GitRepository if row.message.contains(NO_DIRECTORY) => {
                let object = objects.get(&(row.hub.clone(), row.id.clone()));
                match object.and_then(refused_address) {
                    Some(error) => Diagnostic::unserved(&row.id, error),
                    None => {
                        let remedy = "give --source URL=DIR or URL@BRANCH=DIR";
                        Diagnostic::unchecked(&row.id, format!("{} ({remedy})", row.message))
                    }
                }
            }
            // The settings of a real installation are not known here.
            _ if row.message.contains("--allow-") => Diagnostic::unchecked(&row.id, &row.message),
            _ => {
                let remedy = match row.id.kind {
                    FluxKind::Bucket => "",
                    _ => " (give --source URL=DIR, or --allow-charts)",
                };
                of_host(&row.message, remedy)
                    .unwrap_or_else(|| Diagnostic::unserved(&row.id, &row.message))
            }
        };
        Some(Reason::Diagnostic(diagnostic))
    }

    /// Returns what driftless refuses to serve: the objects by diagnostic.
    pub fn unserved(&self) -> BTreeMap<Diagnostic, Vec<(&str, &ObjectRef)>> {
        let mut all: BTreeMap<Diagnostic, Vec<(&str, &ObjectRef)>> = BTreeMap::new();
        for ((hub, id), reason) in &self.all {
            if let Reason::Diagnostic(diagnostic) = reason
                && diagnostic.is_unserved()
            {
                all.entry(diagnostic.clone()).or_default().push((hub, id));
            }
        }
        all
    }

    /// Checks whether an object that was not checked may create Flux objects on a hub.
    pub fn brings_objects(&self, hub: &str) -> bool {
        let mut all = self.all.keys();
        all.any(|(of, id)| of == hub && id.kind == FluxKind::Kustomization)
    }

    /// Returns the reason why an object's failed health check is not its own mistake.
    fn unhealthy(&self, row: &Row, made: &MadeUp, refused: &LenientState) -> Option<Reason> {
        if row.reason != reason::HEALTH_CHECK_FAILED {
            return None;
        }
        let texts = refused.objects();
        let mut applied = row.inventory.iter().filter_map(|(id, _)| texts.get(id));
        if let Some(diagnostic) = applied.find_map(|text| made.values.placeholder_in(text)) {
            return Some(Reason::Diagnostic(diagnostic));
        }
        let is_absent = row.message.contains("status: 'NotFound'");
        let message = format!(
            "applied objects are not ready, and what makes them ready is not part of the check: {}",
            without_wait(&row.message)
        );
        (!is_absent || self.brings_unknown(row) || !made.definitions.is_empty())
            .then(|| Reason::Diagnostic(Diagnostic::unchecked(&row.id, message)))
    }

    /// Checks whether an object that was not checked may apply more to the cluster of an object.
    fn brings_unknown(&self, row: &Row) -> bool {
        self.all.keys().any(|(hub, id)| {
            *hub == row.hub
                && !matches!(
                    id.kind,
                    FluxKind::Receiver | FluxKind::Provider | FluxKind::Alert
                )
        })
    }

    async fn assume(
        &mut self,
        world: &World,
        row: &Row,
        objects: &Objects,
        reason: Reason,
    ) -> Result<(), Error> {
        let key = (row.hub.clone(), row.id.clone());
        if let Some(object) = objects.get(&key) {
            let hub = world.hub(&row.hub).await?;
            let resource = hub.resource(row.id.kind).await?;
            let patch = Patch::Merge(ready(object));
            let (namespace, name) = (&row.id.namespace, &row.id.name);
            hub.cluster
                .patch(&PatchRequest {
                    resource: &resource,
                    namespace,
                    name,
                    subresource: Some("status"),
                    patch: &patch,
                    manager: MANAGER,
                })
                .await?;
        }
        self.all.insert(key, reason);
        Ok(())
    }

    /// Adds a note for each reason, with the objects that it holds for. A chart that was created
    /// for a release is listed as that release.
    pub fn add_notes(&self, rows: &[Row], diagnostics: &mut Diagnostics) {
        let charts: BTreeSet<(&str, &ObjectRef)> = rows
            .iter()
            .filter(|row| row.id.kind == FluxKind::HelmRelease)
            .filter_map(|row| Some((row.hub.as_str(), row.source.as_ref()?)))
            .filter(|(_, source)| source.kind == FluxKind::HelmChart)
            .collect();
        for (hub, id) in self.all.keys() {
            let Some(diagnostic) = self
                .diagnostic(hub, id)
                .filter(|diagnostic| !diagnostic.is_unserved())
            else {
                continue;
            };
            let is_itself = diagnostic.about.as_deref() == Some(&id.to_string());
            let occurrences = diagnostics.entry(diagnostic).or_default();
            occurrences.hubs.insert(hub.clone());
            if !is_itself && !charts.contains(&(hub.as_str(), id)) {
                occurrences.users.insert(id.to_string());
            }
        }
    }

    /// Follows the sources of an object to the first one whose reason is a diagnostic.
    fn diagnostic(&self, hub: &str, id: &ObjectRef) -> Option<Diagnostic> {
        let mut at = id.clone();
        // At most a release, its chart and the chart's source.
        for _ in 0..4 {
            match self.all.get(&(hub.to_owned(), at))? {
                Reason::Diagnostic(diagnostic) => return Some(diagnostic.clone()),
                Reason::Source(source) => at = source.clone(),
            }
        }
        None
    }
}

/// Returns the reason why a hub refuses the URL of a GitRepository, or `None` if the URL is valid.
/// A check does not know whether the hub is registered for local addresses.
fn refused_address(object: &Object) -> Option<String> {
    let url = object.pointer("/spec/url").and_then(Value::as_str)?;
    if url.starts_with("http://") {
        return Some(format!("spec.url: {}", repository::PLAIN));
    }
    let refused = repository::place(url).err()?;
    Some(format!("spec.url: {refused}"))
}

fn is_open(row: &Row) -> bool {
    !matches!(row.state, State::Ready | State::Suspended)
}

/// Returns the generator of the fleet that makes an ExternalArtifact.
fn generator(hub: &str, source: &ObjectRef, objects: &Objects) -> Option<ObjectRef> {
    let of_hub = objects.iter().filter(|((of, _), _)| of == hub);
    let made = objects.get(&(hub.to_owned(), source.clone()));
    let uid = made.and_then(|made| made.label(GENERATOR_UID));
    let makes = |object: &Object| {
        uid == Some(object.meta("uid"))
            || ArtifactGenerator::from_object(object.clone())
                .is_ok_and(|generator| generator.artifacts().contains(source))
    };
    let mut generators = of_hub.filter(|((_, id), object)| {
        id.kind == FluxKind::ArtifactGenerator
            && source.kind == FluxKind::ExternalArtifact
            && makes(object)
    });
    generators.next().map(|((_, id), _)| id.clone())
}

fn external(kind: FluxKind) -> Diagnostic {
    Diagnostic::unchecked(
        kind,
        "another controller makes the artifact, which is not part of the repository",
    )
}

/// Returns the diagnostic for the host in a message, because no source or chart of this host can be
/// checked.
fn of_host(message: &str, remedy: &str) -> Option<Diagnostic> {
    let (before, _) = message.split_once(&format!("' {BEHIND_THE_NETWORK}"))?;
    let (_, place) = before.rsplit_once('\'')?;
    let (scheme, rest) = place.split_once("://")?;
    let host = rest.split('/').next().unwrap_or_default();
    Some(Diagnostic::unchecked(
        format!("{scheme}://{host}"),
        format!("the host {BEHIND_THE_NETWORK}{remedy}"),
    ))
}

/// Renders the status of an object that is assumed to be ready.
fn ready(object: &Object) -> Value {
    let generation = driftless_flux::generation(object);
    let attempted = object
        .pointer("/status/lastAttemptedRevision")
        .cloned()
        .unwrap_or_default();
    let condition = json!({"type": "Ready", "status": "True", "reason": ASSUMED, "message": "not checked, assumed to be ready",
        "observedGeneration": generation, "lastTransitionTime": "1970-01-01T00:00:00Z"});
    let mut status = json!({"observedGeneration": generation, "conditions": [condition]});
    if attempted.is_string() {
        status["lastAppliedRevision"] = attempted;
    }
    json!({"status": status})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_messages() {
        let host = |message: &str| of_host(message, "").and_then(|diagnostic| diagnostic.about);
        for (message, expected) in [
            (
                format!(
                    "failed to fetch Helm repository index: 'https://charts.example/a/index.yaml' {BEHIND_THE_NETWORK}"
                ),
                Some("https://charts.example"),
            ),
            (
                format!("'oci://ghcr.io' {BEHIND_THE_NETWORK}"),
                Some("oci://ghcr.io"),
            ),
            ("failed to get secret".to_owned(), None),
        ] {
            assert_eq!(host(&message).as_deref(), expected, "{message}");
        }
    }
}
