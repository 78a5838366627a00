//! What a hub knows that its repository does not: the directory of its root, the keys of encrypted
//! files, and the ConfigMaps and Secrets that builds and releases read. Only the hub's own identity
//! reads them, and nothing of it is read for a fork.

use crate::course::ConcernedHub;
use driftless_core::credentials;
use driftless_core::flux::{FluxKind, Kustomization, ObjectRef};
use driftless_core::hub::{self, Hub};
use driftless_core::kustomization::opening;
use driftless_core::ports::Ports;
use driftless_fleet::Blinder;
use driftless_fleet::embedded::needs::{self, NeededObject, Purpose};
use driftless_manifest::Object;
use driftless_sops::{Keyring, MasterKey};
use std::collections::BTreeSet;
use std::time::Duration;

/// The time for all reads of a hub.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The most ConfigMaps and Secrets that are read of a hub, and their bytes.
const MAX_OBJECTS: usize = 200;
const MAX_BYTES: usize = 4 << 20;
/// The label of objects that a Kustomization applies: the repository has them.
const APPLIED: &str = "/metadata/labels/kustomize.toolkit.fluxcd.io~1name";

/// What a hub knows.
#[derive(Default)]
pub struct HubFacts {
    /// The directories of the roots.
    pub paths: Vec<String>,
    /// The keys of the Kustomizations that decrypt.
    pub keys: Vec<Keyring>,
    /// The objects that builds and releases read; the values of Secrets are marks.
    pub given: Vec<Object>,
    /// Why something is missing, in plain text.
    pub notes: Vec<String>,
}

/// Reads what a hub knows. A hub that cannot be reached is a note.
pub async fn read(
    ports: &Ports,
    concerned: &ConcernedHub,
    wanted: &[MasterKey],
    blinder: &Blinder,
) -> HubFacts {
    let name = &concerned.settings.name;
    let mut facts = HubFacts::default();
    let work = collect(ports, concerned, wanted, blinder, &mut facts);
    let done = match tokio::time::timeout(TIMEOUT, work).await {
        Ok(done) => done,
        Err(_) => Err(format!("no answer within {} s", TIMEOUT.as_secs())),
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

async fn collect(
    ports: &Ports,
    concerned: &ConcernedHub,
    wanted: &[MasterKey],
    blinder: &Blinder,
    facts: &mut HubFacts,
) -> Result<(), String> {
    let name = &concerned.settings.name;
    let hub = hub::connect(ports, name)
        .await
        .map_err(|failure| failure.message)?;
    let mut needed: BTreeSet<NeededObject> = BTreeSet::new();
    for kind in [FluxKind::Kustomization, FluxKind::HelmRelease] {
        let objects = hub.list(kind).await.map_err(|error| error.message)?;
        for object in objects {
            let all = needs::of(&object).into_iter();
            let read = all.filter(|need| {
                matches!(need.purpose, Purpose::Variables | Purpose::Values { .. })
            });
            needed.extend(read.map(|need| need.object));
            // An object that cannot be parsed has its failure in its status.
            if kind == FluxKind::Kustomization
                && let Ok(kustomization) = Kustomization::from_object(object)
            {
                add_kustomization(ports, &hub, concerned, &kustomization, wanted, facts).await;
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
        let found = credentials::read(&hub, kind, namespace, object).await;
        let found = found.map_err(|failure| failure.message)?;
        let Some(found) = found.filter(|found| found.pointer(APPLIED).is_none()) else {
            continue;
        };
        bytes += found.clone().into_value().to_string().len();
        if bytes > MAX_BYTES {
            let message = format!("hub {name}: the variables and values are too large");
            facts.notes.push(message);
            break;
        }
        facts.given.push(match *kind {
            "Secret" => blinder.secret(name, &found)?,
            _ => found,
        });
    }
    Ok(())
}

/// Adds the path of a root, and the keys of a Kustomization.
async fn add_kustomization(
    ports: &Ports,
    hub: &Hub,
    concerned: &ConcernedHub,
    kustomization: &Kustomization,
    wanted: &[MasterKey],
    facts: &mut HubFacts,
) {
    let ObjectRef {
        namespace, name, ..
    } = &kustomization.id;
    if namespace == name && concerned.roots.contains(name) {
        let path = kustomization.spec.path.trim_start_matches("./");
        facts.paths.push(path.trim_matches('/').to_owned());
    }
    if kustomization.spec.decryption.is_none() {
        return;
    }
    match opening::keyring(ports, hub, kustomization, wanted).await {
        Ok(keyring) => facts.keys.push(keyring),
        Err(failure) => {
            let hub = &concerned.settings.name;
            tracing::warn!(hub, object = %kustomization.id, "no keys for the plan: {failure}");
            facts.notes.push(format!(
                "hub {hub}: the keys of {} cannot be read: its encrypted files count as changed if they were encrypted again",
                kustomization.id
            ));
        }
    }
}
