//! The facts that only a hub knows: the directory of its root, the keys of encrypted
//! files, and the ConfigMaps and Secrets that builds and releases read. Only the hub's own identity
//! reads them, and nothing of it is read for a fork.

use crate::work::ConcernedHub;
use driftless_core::kustomization::live_objects::OWNER_NAME;
use driftless_core::kustomization::opening;
use driftless_fleet::Blinder;
use driftless_fleet::embedded::needs::{self, NeededObject, Purpose};
use driftless_flux::{FluxKind, GitRepository, Kustomization, ObjectRef};
use driftless_kernel::context::Context;
use driftless_kernel::credentials;
use driftless_kernel::failure::Failure;
use driftless_kernel::hub::{self, Hub};
use driftless_kernel::ports::{PortError, Ports};
use driftless_manifest::{FileTree, InvalidObject, Object};
use driftless_sops::{Keyring, MasterKey};
use driftless_source::lookup::artifact_of;
use driftless_source::{files, index};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The time for all reads of a hub.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The most ConfigMaps and Secrets that are read of a hub, and their bytes.
const MAX_OBJECTS: usize = 200;
const MAX_BYTES: usize = 4 << 20;
/// The most other repositories, and their bytes.
const MAX_SOURCES: usize = 30;
const MAX_SOURCE_BYTES: usize = 64 << 20;
/// The facts of a hub.
#[derive(Default)]
pub struct HubFacts {
    /// The directories of the roots.
    pub paths: Vec<String>,
    /// The keys of the Kustomizations that decrypt.
    pub keys: Vec<Keyring>,
    /// The objects that builds and releases read. The values of Secrets are marks; all values are
    /// marks if everyone may read the plan.
    pub given: Vec<Object>,
    /// The files of the other repositories that the hub follows.
    pub sources: Vec<Source>,
    /// The reasons why something is missing, as plain text.
    pub notes: Vec<String>,
}

/// The files of another repository, as the hub has them.
pub struct Source {
    /// The address of the repository.
    pub url: String,
    /// The branch, tag or range that the hub follows.
    pub reference: String,
    /// The files, encrypted as in the repository.
    pub files: Arc<FileTree>,
}

/// The repository of a pull request.
#[derive(Clone, Copy)]
pub struct Own<'a> {
    /// The address of the repository.
    pub url: &'a str,
    /// The base branch.
    pub branch: &'a str,
    /// True if everyone may read it, and so the plan.
    pub is_public: bool,
}

/// Reads the facts of a hub. A hub that cannot be reached is a note.
pub async fn read(
    ports: &Ports,
    concerned: &ConcernedHub,
    own: Own<'_>,
    wanted: &[MasterKey],
    blinder: &Blinder,
) -> HubFacts {
    let name = &concerned.settings.name;
    let mut facts = HubFacts::default();
    let work = collect(ports, concerned, own, wanted, blinder, &mut facts);
    let done = match tokio::time::timeout(TIMEOUT, work).await {
        Ok(done) => done,
        Err(_) => Err(HubError::NoAnswer),
    };
    if let Err(problem) = done {
        tracing::warn!(hub = name, "the plan has nothing of the hub: {problem}");
        facts.notes.push(format!(
            "hub {name} cannot be read: its variables and values are placeholders, and encrypted files count as changed if they \
             were encrypted again"
        ));
    }
    facts
}

/// The reason that a hub cannot be read.
#[derive(Debug, thiserror::Error)]
enum HubError {
    #[error("no answer within {} s", TIMEOUT.as_secs())]
    NoAnswer,
    #[error(transparent)]
    Failure(#[from] Failure),
    #[error(transparent)]
    Port(#[from] PortError),
    #[error(transparent)]
    Object(#[from] InvalidObject),
}

async fn collect(
    ports: &Ports,
    concerned: &ConcernedHub,
    own: Own<'_>,
    wanted: &[MasterKey],
    blinder: &Blinder,
    facts: &mut HubFacts,
) -> Result<(), HubError> {
    let name = &concerned.settings.name;
    let hub = hub::connect(ports, name).await?;
    let repositories = repositories(&hub, own).await?;
    let is_root = |id: &ObjectRef| {
        let mut followed = repositories.iter().filter(|one| one.is_base);
        let has_source =
            followed.any(|one| one.object.id.name == id.name && one.object.id.namespace == id.name);
        id.namespace == id.name && concerned.roots.contains(&id.name) && has_source
    };
    let mut needed: BTreeSet<NeededObject> = BTreeSet::new();
    for kind in [FluxKind::Kustomization, FluxKind::HelmRelease] {
        let objects = hub.list(kind).await?;
        for object in objects {
            let all = needs::of(&object).into_iter();
            let read = all
                .filter(|need| matches!(need.purpose, Purpose::Variables | Purpose::Values { .. }));
            needed.extend(read.map(|need| need.object));
            // An object that cannot be parsed has its failure in its status.
            if kind == FluxKind::Kustomization
                && let Ok(kustomization) = Kustomization::from_object(object)
            {
                if is_root(&kustomization.id) {
                    let path = kustomization.spec.path.trim_start_matches("./");
                    facts.paths.push(path.trim_matches('/').to_owned());
                }
                add_keys(ports, &hub, &kustomization, wanted, facts).await;
            }
        }
    }
    let mut bytes = 0;
    for place in needed.into_iter().take(MAX_OBJECTS) {
        let NeededObject {
            kind,
            namespace,
            name: object,
        } = &place;
        let found = credentials::read(&hub, kind, namespace, object).await?;
        // The repository has the objects that a Kustomization applies.
        let Some(found) = found.filter(|found| found.label(OWNER_NAME).is_none()) else {
            continue;
        };
        bytes += found.clone().into_value().to_string().len();
        if bytes > MAX_BYTES {
            let message = format!("hub {name}: the variables and values are too large");
            facts.notes.push(message);
            break;
        }
        facts.given.push(match *kind == "Secret" || own.is_public {
            true => blinder.object(name, &found)?,
            false => found,
        });
    }
    add_sources(ports, &hub, own, repositories, facts).await;
    Ok(())
}

/// A Git repository that a hub follows.
struct Followed {
    object: GitRepository,
    /// The branch, tag or range.
    reference: String,
    /// True if it is the repository of the pull request.
    is_same: bool,
    /// True if it is the base branch of the pull request.
    is_base: bool,
}

/// Lists the Git repositories that the hub follows.
async fn repositories(hub: &Hub, own: Own<'_>) -> Result<Vec<Followed>, PortError> {
    let objects = hub.list(FluxKind::GitRepository).await?;
    let parsed = objects
        .into_iter()
        .filter_map(|object| GitRepository::from_object(object).ok());
    let followed = parsed.map(|object| {
        let reference = object.spec.reference.clone().unwrap_or_default();
        let names = [
            reference.name,
            reference.semver,
            reference.tag,
            reference.branch,
        ];
        let name = names.into_iter().find(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| "master".to_owned());
        let reference = name.strip_prefix("refs/heads/").unwrap_or(&name).to_owned();
        let is_same = index::repository(&object.spec.url) == index::repository(own.url);
        Followed {
            is_base: is_same && reference == own.branch,
            is_same,
            reference,
            object,
        }
    });
    Ok(followed.collect())
}

/// Adds the files of the other Git repositories that the hub follows, from their artifacts. If
/// everyone may read the plan, only those of other branches of its repository.
async fn add_sources(
    ports: &Ports,
    hub: &Hub,
    own: Own<'_>,
    repositories: Vec<Followed>,
    facts: &mut HubFacts,
) {
    let (mut count, mut bytes) = (0, 0);
    for one in repositories {
        let source = one.object;
        let is_wanted = match one.is_same {
            true => !one.is_base,
            false => !own.is_public,
        };
        let Some(artifact) = artifact_of(&source.object).filter(|_| is_wanted) else {
            continue;
        };
        if count == MAX_SOURCES || bytes > MAX_SOURCE_BYTES {
            let message = format!(
                "hub {}: only {count} other repositories are compared",
                hub.settings.name
            );
            facts.notes.push(message);
            break;
        }
        let context = Context::rehearsal(ports, hub.clone(), source.id.clone());
        match files::load_of(&context, &source.id, &artifact).await {
            Ok(files) => {
                count += 1;
                bytes += files
                    .index()
                    .iter()
                    .filter_map(|(path, _)| files.content(path))
                    .map(|content| content.len())
                    .sum::<usize>();
                facts.sources.push(Source {
                    url: source.spec.url.clone(),
                    reference: one.reference,
                    files,
                });
            }
            Err(error) => {
                tracing::warn!(object = %source.id, %error, "the plan has no files of the source");
            }
        }
    }
}

/// Adds the keys of a Kustomization.
async fn add_keys(
    ports: &Ports,
    hub: &Hub,
    kustomization: &Kustomization,
    wanted: &[MasterKey],
    facts: &mut HubFacts,
) {
    if kustomization.spec.decryption.is_none() {
        return;
    }
    match opening::keyring(ports, hub, kustomization, wanted).await {
        Ok(keyring) => facts.keys.push(keyring),
        Err(failure) => {
            let hub = &hub.settings.name;
            tracing::warn!(hub, object = %kustomization.id, "no keys for the plan: {failure}");
            facts.notes.push(format!(
                "hub {hub}: the keys of {} cannot be read: its encrypted files count as changed if they were encrypted again",
                kustomization.id
            ));
        }
    }
}
