//! Stand-ins for what objects failed for: things that no applied object creates and that a real
//! cluster has without Git.

use super::definitions::Definitions;
use super::diagnostic::{Diagnostic, Diagnostics, REPLACES};
use super::lenient_clusters::LenientState;
use super::observed::Observed;
use super::values::{self, Users, Values};
use crate::embedded::needs;
use crate::embedded::{Objects, Row, StandIn, StandInKind, World};
use crate::error::Error;
use crate::fleet::Fleet;
use driftless_flux::{FluxKind, Kustomization, ObjectRef, reason};
use driftless_manifest::{Object, TreePath};
use driftless_source::index;
use regex::Regex;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// The stand-ins of a check.
pub struct MadeUp {
    /// Definitions that allow every field.
    pub definitions: Definitions,
    /// ConfigMaps and Secrets with placeholders.
    pub values: Values,
    /// Logins, keys and clusters.
    pub stand_ins: Vec<StandIn>,
    /// The hubs whose objects need a namespace, by cluster and name.
    namespaces: BTreeMap<(String, String), BTreeSet<String>>,
    /// GitRepositories in place of the fleet repository's own, by hub.
    sources: BTreeSet<(String, ObjectRef)>,
}

impl MadeUp {
    /// Creates an empty set. `refused` learns each placeholder.
    pub fn new(refused: LenientState) -> Self {
        Self {
            definitions: Definitions::default(),
            values: Values::new(refused),
            stand_ins: Vec::new(),
            namespaces: BTreeMap::new(),
            sources: BTreeSet::new(),
        }
    }

    /// Creates stand-ins for what objects failed for. Returns whether it created any.
    ///
    /// # Errors
    /// A server refuses a request.
    pub async fn add(&mut self, fleet: &Fleet, observed: Observed<'_>) -> Result<bool, Error> {
        // The objects that are applied next may create what else is missing.
        let mut any = self.definitions.add(observed).await?;
        any |= self.namespaces(observed).await?;
        if any {
            return Ok(true);
        }
        any |= self.stand_in(observed).await?;
        any |= self.values.add(observed).await?;
        any |= self.sources(fleet, observed).await?;
        Ok(any)
    }

    async fn stand_in(&mut self, observed: Observed<'_>) -> Result<bool, Error> {
        let Observed { world, objects, .. } = observed;
        let before = self.stand_ins.len();
        for row in observed.failed() {
            let hub = world.hub(&row.hub).await?;
            // A chart is fetched with the login of its HelmRepository.
            let source = row
                .source
                .clone()
                .filter(|_| row.id.kind == FluxKind::HelmChart);
            for id in std::iter::once(row.id.clone()).chain(source) {
                if let Some(object) = objects.get(&(row.hub.clone(), id)) {
                    self.stand_ins
                        .extend(world.stand_in_for(&hub, object).await?);
                }
            }
        }
        Ok(self.stand_ins.len() > before)
    }

    async fn namespaces(&mut self, observed: Observed<'_>) -> Result<bool, Error> {
        static FORM: LazyLock<Option<Regex>> =
            LazyLock::new(|| Regex::new(r#"namespaces "([^"]+)" not found"#).ok());
        let mut any = false;
        for row in observed.failed() {
            let form = FORM.iter();
            for name in form.flat_map(|form| form.captures_iter(&row.message)) {
                let made = observed
                    .world
                    .ensure_namespace(&row.cluster, &name[1])
                    .await?;
                let place = (row.cluster.clone(), name[1].to_owned());
                if made || self.namespaces.contains_key(&place) {
                    self.namespaces
                        .entry(place)
                        .or_default()
                        .insert(row.hub.clone());
                }
                any |= made;
            }
        }
        Ok(any)
    }

    /// Creates a GitRepository of the fleet repository, with the name that its Kustomizations
    /// reference, if no file has one.
    async fn sources(&mut self, fleet: &Fleet, observed: Observed<'_>) -> Result<bool, Error> {
        if fleet.is_stated {
            return Ok(false);
        }
        let world = observed.world;
        let mut any = false;
        for hub in world.hubs.iter().map(|hub| hub.name.as_str()) {
            let is_made = self.sources.iter().any(|(of, _)| of == hub);
            if is_made || uses_fleet(hub, fleet, observed) {
                // A reference to another name is a mistake in the fleet.
                continue;
            }
            let Some(source) = missing_source(hub, observed) else {
                continue;
            };
            self.sources.insert((hub.to_owned(), source.clone()));
            world.give(hub, &repository(fleet, &source)?).await?;
            any = true;
        }
        Ok(any)
    }

    /// Returns the reason why an object's failure is not its own mistake: it uses values that are
    /// not known, or a login that is a stand-in.
    pub fn external_cause(&self, row: &Row, objects: &Objects) -> Option<Diagnostic> {
        let object = objects.get(&(row.hub.clone(), row.id.clone()))?;
        let spec = object.pointer("/spec").map(ToString::to_string);
        if let Some(diagnostic) = spec.and_then(|spec| self.values.placeholder_in(&spec)) {
            return Some(diagnostic);
        }
        match row.id.kind {
            FluxKind::Kustomization => None,
            FluxKind::HelmRelease => self.values.release_diagnostic(row, objects),
            _ if !is_about_login(row) => None,
            _ => needs::of(object).into_iter().find_map(|need| {
                let reference = need.object.to_string();
                let mut made = self.stand_ins.iter();
                made.any(|one| one.hub == row.hub && one.reference == reference)
                    .then(|| Diagnostic::missing(&need.object, &need.purpose))
            }),
        }
    }

    /// Adds a note for each stand-in, with the objects that use it.
    pub fn add_notes(
        &self,
        rows: &[Row],
        objects: &Objects,
        has_keys: bool,
        diagnostics: &mut Diagnostics,
    ) {
        self.definitions.add_notes(rows, diagnostics);
        let all = values::users(objects);
        self.values.add_notes(&all, diagnostics);
        for one in &self.stand_ins {
            if has_keys && one.kind == StandInKind::Keys {
                // Real keys were given.
                continue;
            }
            let diagnostic = match &one.kind {
                StandInKind::Cluster(name) => {
                    let text = format!("cluster {name}{REPLACES}{}", one.reference);
                    Diagnostic::note(&one.object, text)
                }
                StandInKind::Keys | StandInKind::Login => self.stand_in_diagnostic(one, objects),
            };
            let is_cluster = matches!(one.kind, StandInKind::Cluster(_));
            let occurrences = diagnostics.entry(diagnostic).or_default();
            occurrences.hubs.insert(one.hub.clone());
            if !is_cluster {
                occurrences.users.extend(users(one, objects, &all));
            }
        }
        for ((cluster, name), hubs) in &self.namespaces {
            if self.values.placeholder_in(name).is_some() {
                continue;
            }
            let text = "no applied object creates it; the check creates it";
            let occurrences = diagnostics
                .entry(Diagnostic::note(format!("Namespace/{name}"), text))
                .or_default();
            occurrences.hubs.extend(hubs.iter().cloned());
            let uses = |row: &&Row| {
                row.cluster == *cluster && row.inventory.iter().any(|(id, _)| id.namespace == *name)
            };
            occurrences
                .users
                .extend(rows.iter().filter(uses).map(|row| row.id.to_string()));
        }
        for (hub, id) in &self.sources {
            let text = "no applied object creates it; the fleet repository is used";
            let occurrences = diagnostics.entry(Diagnostic::note(id, text)).or_default();
            occurrences.hubs.insert(hub.clone());
            let uses = |row: &&Row| row.hub == *hub && row.source.as_ref() == Some(id);
            occurrences
                .users
                .extend(rows.iter().filter(uses).map(|row| row.id.to_string()));
        }
    }

    fn stand_in_diagnostic(&self, one: &StandIn, objects: &Objects) -> Diagnostic {
        let needs = objects
            .get(&(one.hub.clone(), one.object.clone()))
            .map(needs::of);
        let need = needs
            .into_iter()
            .flatten()
            .find(|need| need.object.to_string() == one.reference);
        match need {
            Some(need) => Diagnostic::missing(&need.object, &need.purpose),
            None => Diagnostic::note(
                &one.reference,
                "no applied object creates it; a placeholder is used",
            ),
        }
    }
}

/// Checks whether a source failed because of the content of a Secret.
fn is_about_login(row: &Row) -> bool {
    [reason::AUTHENTICATION_FAILED, reason::VERIFICATION_ERROR].contains(&&*row.reason)
        || ["401 Unauthorized", "403 Forbidden"]
            .iter()
            .any(|status| row.message.ends_with(status))
}

fn users(one: &StandIn, objects: &Objects, all: &Users) -> BTreeSet<String> {
    let needs = objects
        .get(&(one.hub.clone(), one.object.clone()))
        .map(needs::of);
    let mut needs = needs.into_iter().flatten();
    let need = needs.find(|need| need.object.to_string() == one.reference);
    let users = need.and_then(|need| all.get(&(one.hub.clone(), need.object)));
    users.cloned().unwrap_or_default()
}

/// Checks whether a Kustomization of the fleet uses an existing source of the fleet repository.
fn uses_fleet(hub: &str, fleet: &Fleet, observed: Observed<'_>) -> bool {
    let Observed { rows, objects, .. } = observed;
    let fleet = index::repository(&fleet.url);
    let of_hub = rows
        .iter()
        .filter(|row| row.hub == hub && row.owner.is_some());
    let mut sources = of_hub.filter_map(|row| {
        let source = objects.get(&(row.hub.clone(), row.source.clone()?))?;
        source.pointer("/spec/url").and_then(Value::as_str)
    });
    sources.any(|url| index::repository(url) == fleet)
}

/// Returns the missing GitRepository that most Kustomizations of the fleet's directories reference.
fn missing_source(hub: &str, observed: Observed<'_>) -> Option<ObjectRef> {
    let Observed { world, objects, .. } = observed;
    let mut named: BTreeMap<&ObjectRef, usize> = BTreeMap::new();
    for row in observed.failed().filter(|row| row.hub == hub) {
        let key = |id: &ObjectRef| (row.hub.clone(), id.clone());
        let source = row.source.as_ref();
        let source = source.filter(|id| id.kind == FluxKind::GitRepository);
        let Some(source) = source.filter(|id| !objects.contains_key(&key(id))) else {
            continue;
        };
        let owner = objects.get(&key(&row.id)).cloned();
        let owner = owner.map(Kustomization::from_object).and_then(Result::ok);
        if owner.is_some_and(|owner| is_directory(world, &owner)) {
            *named.entry(source).or_default() += 1;
        }
    }
    let most = named.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(source, _)| source.clone())
}

/// Checks whether a Kustomization's path is a directory of the fleet repository.
fn is_directory(world: &World, owner: &Kustomization) -> bool {
    let Ok(path) = TreePath::secure_join(&owner.spec.path) else {
        return false;
    };
    let mut trees = world.git.trees().into_iter();
    trees.any(|(_, tree)| !path.is_root() && tree.index().is_dir(&path))
}

fn repository(fleet: &Fleet, id: &ObjectRef) -> Result<Object, Error> {
    Object::new(json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
        "metadata": {"name": id.name, "namespace": id.namespace},
        "spec": {"interval": "1m", "url": fleet.url, "ref": {"branch": fleet.branch}},
    }))
    .map_err(Error::new)
}
