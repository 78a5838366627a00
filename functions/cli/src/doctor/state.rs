//! The checks of an installation's state: what is no longer used, and whether a lost bucket can
//! be restored.

use super::report::Report;
use driftless_adapters::aws::SecretsManager;
use driftless_core::orphans::{MOST, Orphans, State};
use driftless_kernel::hub::{self, Hub};
use driftless_kernel::ports::Ports;
use driftless_kernel::state::key_part;
use std::collections::BTreeSet;

const CHECK: &str = "state";

/// Reads the keys of the bucket, before the objects of the hubs are read.
pub async fn read(ports: &Ports, report: &mut Report) -> Option<State> {
    match State::read(ports.blobs.as_ref()).await {
        Ok(state) => Some(state),
        Err(error) => {
            report.fail(CHECK, error, "check the right s3:ListBucket on the bucket");
            None
        }
    }
}

/// Checks that the bucket has no state of hubs that are not registered.
pub fn of_hubs(state: &State, names: &[String], bucket: &str, report: &mut Report) {
    if state.is_cut_off() {
        let found = format!("only the first {MOST} keys of each directory were read");
        report.note(CHECK, found, "orphans among the others are not reported");
    }
    let names: BTreeSet<String> = names.iter().cloned().collect();
    let orphans = state.of_unregistered_hubs(&names);
    for group in &orphans {
        let Orphans {
            directory,
            hub,
            keys,
        } = group;
        let count = count_of(keys.len());
        let found = format!("{directory}/ has {count} of the hub '{hub}', which is not registered");
        let part = key_part(hub);
        let place = match (group.expire(), *directory) {
            (false, _) => {
                format!(
                    "--recursive s3://{bucket}/{directory}/ --exclude '*' --include '*/{part}+*'"
                )
            }
            (true, "schedule") => format!("s3://{bucket}/schedule/{part}.json"),
            (true, _) => format!("--recursive s3://{bucket}/{directory}/{part}/"),
        };
        report.note(CHECK, found, &next(group, &format!("aws s3 rm {place}")));
    }
    if orphans.is_empty() {
        report.pass(CHECK, "no hub that is not registered has records");
    }
}

/// Checks that the bucket has no state of objects that a hub no longer has.
pub async fn of_objects(state: &State, hub: &Hub, bucket: &str, report: &mut Report) {
    let check = format!("hub {}: {CHECK}", hub.settings.name);
    let orphans = match state.of_gone_objects(hub).await {
        Ok(orphans) => orphans,
        Err(error) => {
            report.fail(
                &check,
                error,
                "check the rights of the hub's user on Flux's kinds",
            );
            return;
        }
    };
    for group in &orphans {
        let Orphans {
            directory, keys, ..
        } = group;
        let first = keys.first().map(String::as_str).unwrap_or_default();
        let found = format!(
            "{directory}/ has {} of objects that do not exist, such as {first}",
            count_of(keys.len())
        );
        let command = format!("aws s3 rm s3://{bucket}/{first}");
        report.note(&check, found, &next(group, &command));
    }
    if orphans.is_empty() {
        report.pass(&check, "each record is of an object that exists");
    }
}

/// Returns a number of keys as text.
fn count_of(keys: usize) -> String {
    match keys {
        1 => "1 key".to_owned(),
        _ => format!("{keys} keys"),
    }
}

/// Returns what removes a group of keys.
fn next(group: &Orphans, command: &str) -> String {
    match group.expire() {
        true => format!("the lifecycle rules of the bucket delete them; at once: {command}"),
        false => format!("no lifecycle rule deletes them: {command}"),
    }
}

/// Checks that each kubeconfig in the secret manager is that of a registered hub. Those of other
/// hubs than the `only` one of an installation are another installation's.
pub async fn kubeconfigs(
    secrets: &SecretsManager,
    names: &[String],
    only: Option<&str>,
    report: &mut Report,
) {
    const CHECK: &str = "kubeconfigs";
    let stored = match secrets.names("hubs/").await {
        Ok(stored) => stored,
        Err(error) => {
            let found = format!("secrets without a registered hub are not searched: {error}");
            report.note(CHECK, found, "allow secretsmanager:ListSecrets");
            return;
        }
    };
    let is_own = |name: &&String| only.is_none_or(|only| only == name.as_str());
    let stored = stored.iter().filter(is_own);
    let unknown: Vec<&String> = stored.filter(|name| !names.contains(name)).collect();
    for name in &unknown {
        let found = format!("the secret manager has hubs/{name}, and the hub is not registered");
        let next = format!(
            "driftless bootstrap restore {name} registers it again; or delete the secret with aws secretsmanager delete-secret"
        );
        report.note(CHECK, found, &next);
    }
    if unknown.is_empty() {
        report.pass(CHECK, "each is that of a registered hub");
    }
}

/// Checks that the registration of a hub can be restored if the bucket is lost.
pub async fn copy(ports: &Ports, hub: &Hub, report: &mut Report) {
    let name = &hub.settings.name;
    let check = format!("hub {name}: copy of the settings");
    let next = format!("driftless bootstrap --name {name} with all flags of the hub stores it");
    let secret = ports.secrets.secret(&format!("hubs/{name}")).await;
    let copy = match secret {
        Ok(Some(text)) => hub::settings_in(text.expose()),
        // The connection to the hub has reported it.
        Ok(None) | Err(_) => return,
    };
    match copy {
        Ok(Some(settings)) if settings == hub.settings => {
            report.pass(&check, "a lost bucket can be restored");
        }
        Ok(Some(_)) => report.note(
            &check,
            "the secret has other settings than the registration",
            &next,
        ),
        Ok(None) => report.note(
            &check,
            "the secret has no settings: if the bucket is lost, driftless bootstrap restore refuses the hub",
            &next,
        ),
        Err(failure) => report.note(&check, failure, &next),
    }
}
