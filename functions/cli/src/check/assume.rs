//! What counts as ready because it cannot be looked at here, so that everything behind it is checked, too.

use super::cause::{Cause, Causes};
use super::lenient::Refused;
use super::make::MadeUp;
use crate::embedded::{Objects, Row, State, World, without_wait};
use crate::error::Error;
use driftless_adapters::git::BASE_NOT_FETCHED;
use driftless_adapters::offline::BEHIND_THE_NETWORK;
use driftless_core::flux::{FluxKind, ObjectRef, reason};
use driftless_core::ports::Patch;
use driftless_core::repository;
use driftless_manifest::Object;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The reason of what counts as ready because it cannot be looked at.
pub const ASSUMED: &str = "NotChecked";
const MANAGER: &str = "driftless-check";

/// What is said of a repository that no directory is given for.
const NO_DIRECTORY: &str = "no local directory is configured";

type Id = (String, ObjectRef);

/// Why an object counts as ready.
#[derive(Clone)]
enum Why {
    /// For a reason that others may have, too.
    Cause(Cause),
    /// What it takes its files from does.
    Source(ObjectRef),
}

/// What counts as ready.
#[derive(Default)]
pub struct Assumed {
    all: BTreeMap<Id, Why>,
    /// Whether sources of the kind ExternalArtifact were allowed or refused.
    external_artifacts: Option<bool>,
}

impl Assumed {
    /// Nothing yet.
    pub fn new(external_artifacts: Option<bool>) -> Self {
        Self {
            all: BTreeMap::new(),
            external_artifacts,
        }
    }

    /// Whether an object does.
    pub fn contains(&self, hub: &str, id: &ObjectRef) -> bool {
        self.all.contains_key(&(hub.to_owned(), id.clone()))
    }

    /// Takes whatever cannot be looked at as ready. Whether there was anything new.
    ///
    /// # Errors
    /// What a server refuses.
    pub async fn add(
        &mut self,
        world: &World,
        rows: &[Row],
        objects: &Objects,
        made: &MadeUp,
        refused: &Refused,
    ) -> Result<bool, Error> {
        let mut any = false;
        for row in rows.iter().filter(|row| is_open(row)) {
            if self.contains(&row.hub, &row.id) {
                continue;
            }
            let why = self
                .unreachable(row, objects)
                .or_else(|| self.unhealthy(row, made, refused));
            if let Some(why) = why {
                self.assume(world, row, objects, why).await?;
                any = true;
            }
        }
        Ok(any)
    }

    /// The same for what failed although everything was made up that could be.
    ///
    /// # Errors
    /// What a server refuses.
    pub async fn excuse(
        &mut self,
        world: &World,
        rows: &[Row],
        objects: &Objects,
        made: &MadeUp,
    ) -> Result<bool, Error> {
        let mut any = false;
        for row in rows.iter().filter(|row| row.state == State::Failed) {
            if self.contains(&row.hub, &row.id) {
                continue;
            }
            if let Some(cause) = made.excuse(row, objects) {
                self.assume(world, row, objects, Why::Cause(cause)).await?;
                any = true;
            }
        }
        Ok(any)
    }

    /// Forgets what was taken as ready and is not any more.
    pub fn forget_open(&mut self, rows: &[Row]) {
        for row in rows.iter().filter(|row| is_open(row)) {
            self.all.remove(&(row.hub.clone(), row.id.clone()));
        }
    }

    /// The same for sources that were asked of their hosts in vain.
    ///
    /// # Errors
    /// What a server refuses.
    pub async fn unreached(
        &mut self,
        world: &World,
        rows: &[Row],
        objects: &Objects,
    ) -> Result<bool, Error> {
        let mut any = false;
        let is_source = |row: &&Row| {
            let kind = row.id.kind;
            (kind.is_source() || kind == FluxKind::HelmRepository) && row.state == State::Failed
        };
        for row in rows.iter().filter(is_source) {
            let why = Why::Cause(Cause::unchecked(&row.id, &row.message));
            self.assume(world, row, objects, why).await?;
            any = true;
        }
        Ok(any)
    }

    /// Why an object has nothing to be checked by.
    fn unreachable(&self, row: &Row, objects: &Objects) -> Option<Why> {
        let artifact = FluxKind::ExternalArtifact;
        let source = row.source.as_ref();
        if source.is_some_and(|source| source.kind == artifact) {
            // Of those that there are, and of those that something else would make.
            return (self.external_artifacts != Some(false))
                .then(|| Why::Cause(not_served(artifact)));
        }
        if let Some(source) = source.filter(|source| self.contains(&row.hub, source)) {
            return Some(Why::Source(source.clone()));
        }
        if row.reason != reason::UNSUPPORTED {
            return None;
        }
        let cause = match row.id.kind {
            FluxKind::Kustomization => {
                let base = row
                    .message
                    .strip_suffix(BASE_NOT_FETCHED)?
                    .strip_suffix(": ")?;
                let why = "it was not fetched (give --allow-remote-bases, or --source URL=DIR)";
                Cause::unchecked(base, why)
            }
            FluxKind::Receiver | FluxKind::Provider | FluxKind::Alert => {
                Cause::unserved(row.id.kind, "nothing is done for objects of this kind")
            }
            FluxKind::ExternalArtifact => not_served(artifact),
            FluxKind::GitRepository if row.message.contains(NO_DIRECTORY) => {
                let object = objects.get(&(row.hub.clone(), row.id.clone()));
                match object.and_then(refused_address) {
                    Some(why) => Cause::unserved(&row.id, why),
                    None => {
                        let how = "give --source URL=DIR or URL@BRANCH=DIR";
                        Cause::unchecked(&row.id, format!("{} ({how})", row.message))
                    }
                }
            }
            // What an installation may allow is not known here.
            _ if row.message.contains("--allow-") => Cause::unchecked(&row.id, &row.message),
            _ => of_host(&row.message).unwrap_or_else(|| Cause::unserved(&row.id, &row.message)),
        };
        Some(Why::Cause(cause))
    }

    /// What driftless refuses to serve: by cause, the objects.
    pub fn unserved(&self) -> BTreeMap<Cause, Vec<(&str, &ObjectRef)>> {
        let mut all: BTreeMap<Cause, Vec<(&str, &ObjectRef)>> = BTreeMap::new();
        for ((hub, id), why) in &self.all {
            if let Why::Cause(cause) = why
                && cause.is_unserved()
            {
                all.entry(cause.clone()).or_default().push((hub, id));
            }
        }
        all
    }

    /// Whether something that was not checked may bring Flux objects to a hub.
    pub fn brings_objects(&self, hub: &str) -> bool {
        let mut all = self.all.keys();
        all.any(|(of, id)| of == hub && id.kind == FluxKind::Kustomization)
    }

    /// Why an object is not healthy without being wrong.
    fn unhealthy(&self, row: &Row, made: &MadeUp, refused: &Refused) -> Option<Why> {
        if row.reason != reason::HEALTH_CHECK_FAILED {
            return None;
        }
        let texts = refused.objects();
        let mut applied = row.inventory.iter().filter_map(|(id, _)| texts.get(id));
        if let Some(cause) = applied.find_map(|text| made.values.in_text(text)) {
            return Some(Why::Cause(cause));
        }
        let is_absent = row.message.contains("status: 'NotFound'");
        let what = format!(
            "its objects are not ready, and what makes them ready is not applied here: {}",
            without_wait(&row.message)
        );
        (!is_absent || self.brings_unknown(row) || !made.definitions.is_empty())
            .then(|| Why::Cause(Cause::unchecked(&row.id, what)))
    }

    /// Whether something that was not checked may bring more to the cluster of an object.
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
        why: Why,
    ) -> Result<(), Error> {
        let key = (row.hub.clone(), row.id.clone());
        if let Some(object) = objects.get(&key) {
            let hub = world.hub(&row.hub).await?;
            let resource = hub.resource(row.id.kind).await?;
            let patch = Patch::Merge(ready(object));
            let (namespace, name) = (&row.id.namespace, &row.id.name);
            hub.cluster
                .patch(&resource, namespace, name, Some("status"), &patch, MANAGER)
                .await?;
        }
        self.all.insert(key, why);
        Ok(())
    }

    /// Tells each reason once, with the objects that it holds for. A chart that was made for a release is told by that.
    pub fn tell(&self, rows: &[Row], causes: &mut Causes) {
        let charts: BTreeSet<(&str, &ObjectRef)> = rows
            .iter()
            .filter(|row| row.id.kind == FluxKind::HelmRelease)
            .filter_map(|row| Some((row.hub.as_str(), row.source.as_ref()?)))
            .filter(|(_, source)| source.kind == FluxKind::HelmChart)
            .collect();
        for (hub, id) in self.all.keys() {
            let Some(cause) = self.cause(hub, id).filter(|cause| !cause.is_unserved()) else {
                continue;
            };
            let is_itself = cause.about.as_deref() == Some(&id.to_string());
            let met = causes.entry(cause).or_default();
            met.hubs.insert(hub.clone());
            if !is_itself && !charts.contains(&(hub.as_str(), id)) {
                met.users.insert(id.to_string());
            }
        }
    }

    /// The reason at the end of a way of sources.
    fn cause(&self, hub: &str, id: &ObjectRef) -> Option<Cause> {
        let mut at = id.clone();
        // A release, its chart, the chart's source.
        for _ in 0..4 {
            match self.all.get(&(hub.to_owned(), at))? {
                Why::Cause(cause) => return Some(cause.clone()),
                Why::Source(source) => at = source.clone(),
            }
        }
        None
    }
}

/// Why a hub refuses the address of a GitRepository, whatever is behind it.
fn refused_address(object: &Object) -> Option<String> {
    let url = object.pointer("/spec/url").and_then(Value::as_str)?;
    let refused = repository::place(url).err()?;
    Some(format!("spec.url: {refused}"))
}

fn is_open(row: &Row) -> bool {
    !matches!(row.state, State::Ready | State::Suspended)
}

fn not_served(kind: FluxKind) -> Cause {
    Cause::unchecked(
        kind,
        "the kind is not served: nothing is done for these objects",
    )
}

/// What keeps a source or a chart from being looked at is the same for all of its host.
fn of_host(message: &str) -> Option<Cause> {
    let (before, _) = message.split_once(&format!("' {BEHIND_THE_NETWORK}"))?;
    let (_, place) = before.rsplit_once('\'')?;
    let (scheme, rest) = place.split_once("://")?;
    let host = rest.split('/').next().unwrap_or_default();
    Some(Cause::unchecked(
        format!("{scheme}://{host}"),
        format!("it {BEHIND_THE_NETWORK}"),
    ))
}

/// The status of an object that counts as ready.
fn ready(object: &Object) -> Value {
    let generation = driftless_core::flux::generation(object);
    let attempted = object
        .pointer("/status/lastAttemptedRevision")
        .cloned()
        .unwrap_or_default();
    let condition = json!({"type": "Ready", "status": "True", "reason": ASSUMED, "message": "not checked, taken as ready",
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
        let host = |message: &str| of_host(message).and_then(|cause| cause.about);
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
