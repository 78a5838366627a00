//! The checks of a cluster.

use super::definitions;
use super::report::Report;
use crate::error::Error;
use crate::hub::apply;
use crate::ready::ready;
use driftless_core::bootstrap::{self, Definitions};
use driftless_flux::{FluxKind, is_suspended, parse_rfc3339};
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::Cluster;
use driftless_manifest::Object;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The oldest Kubernetes version that driftless is tested with: it has server-side apply, CEL in
/// definitions and selectable fields.
const MIN_VERSION: (u64, u64) = (1, 31);
/// The highest accepted difference of a cluster's clock, which is compared with times of
/// annotations, leases and tokens.
const SKEW: Duration = Duration::from_secs(30);
/// The highest number of objects that a check lists.
const LISTED: usize = 5;

/// Checks a cluster; `of` is its name in the report.
pub async fn check(hub: &Hub, of: &str, report: &mut Report) {
    let cluster = hub.cluster.as_ref();
    match cluster.abilities().await {
        Ok(found) => version(&found.version, of, report),
        Err(error) => {
            let next = "check that the API server can be reached from here, and the kubeconfig's credentials";
            report.fail(&format!("{of}: reachable"), error, next);
            return;
        }
    }
    rights(cluster, of, report).await;
    clock(cluster, of, report).await;
    installed(cluster, of, report).await;
    let found = listed(hub).await;
    definitions::check(&found, of, report).await;
    objects(&found, of, report);
}

/// Returns the Flux objects of a hub. Kinds that cannot be listed are reported by the check of the
/// definitions.
async fn listed(hub: &Hub) -> Vec<Object> {
    let mut all = Vec::new();
    for kind in FluxKind::ALL {
        all.extend(hub.list(kind).await.unwrap_or_default());
    }
    all
}

fn version(found: &str, of: &str, report: &mut Report) {
    let check = format!("{of}: version");
    let plain = found.strip_prefix('v').unwrap_or(found);
    let mut parts = plain.split(['.', '-', '+']).map(str::parse::<u64>);
    let (oldest, minor) = MIN_VERSION;
    match (parts.next(), parts.next()) {
        (Some(Ok(a)), Some(Ok(b))) if (a, b) < MIN_VERSION => {
            let next =
                format!("driftless is tested with {oldest}.{minor} and later: upgrade the cluster");
            report.fail(&check, found, &next);
        }
        _ => report.pass(&check, found),
    }
}

/// Checks that the user has the rights of cluster-admin, as Flux's controllers have: only such a
/// user may bind that role.
async fn rights(cluster: &dyn Cluster, of: &str, report: &mut Report) {
    let check = format!("{of}: rights");
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "driftless-doctor"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}});
    match apply(cluster, binding, true).await {
        Ok(_) => report.pass(&check, "those of cluster-admin"),
        Err(error) => {
            let next = "bind the kubeconfig's user to the cluster role cluster-admin; tenants act as their service accounts";
            report.fail(&check, error.message, next);
        }
    }
}

/// Checks the cluster's clock, by the creation time in the response to a dry run.
async fn clock(cluster: &dyn Cluster, of: &str, report: &mut Report) {
    let check = format!("{of}: clock");
    let next = "set both clocks by NTP";
    let now = SystemTime::now();
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    match server_time(cluster).await {
        Ok(Some(time)) => {
            let skew = now.abs_diff(time);
            let found = format!("differs by {} s", skew.as_secs());
            match skew > SKEW {
                true => report.fail(&check, found, next),
                false => report.pass(&check, found),
            }
        }
        Ok(None) => report.note(&check, "the answer has no time", next),
        Err(error) => report.note(&check, error.message, "check the rights of the user"),
    }
}

async fn server_time(cluster: &dyn Cluster) -> Result<Option<Duration>, Error> {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "driftless-doctor", "namespace": "default"}});
    let answer = apply(cluster, object, true).await?;
    let time = answer.meta("creationTimestamp");
    Ok(parse_rfc3339(time))
}

async fn installed(cluster: &dyn Cluster, of: &str, report: &mut Report) {
    let check = format!("{of}: definitions");
    let next = "run driftless bootstrap, or start driftless serve: both install them";
    match bootstrap::definitions(cluster).await {
        Err(error) => report.fail(&check, error, next),
        Ok(Definitions {
            missing,
            old,
            foreign,
        }) => {
            if !missing.is_empty() {
                report.fail(
                    &check,
                    format!("not installed: {}", missing.join(", ")),
                    next,
                );
            } else if !old.is_empty() {
                report.fail(
                    &check,
                    format!("of an older version: {}", old.join(", ")),
                    next,
                );
            } else if foreign > 0 {
                report.pass(&check, format!("installed, {foreign} of them by Flux"));
            } else {
                report.pass(&check, "installed");
            }
        }
    }
}

/// Checks that all objects are ready or suspended.
fn objects(all: &[Object], of: &str, report: &mut Report) {
    let check = format!("{of}: objects");
    let mut open = BTreeSet::new();
    for object in all {
        let (status, message) = ready(object);
        if status != "True" && !is_suspended(object) {
            open.insert(format!("{}: {message}", definitions::name_of(object)));
        }
    }
    let all = all.len();
    if open.is_empty() {
        report.pass(
            &check,
            format!("{all} Flux objects, all ready or suspended"),
        );
        return;
    }
    let mut found = format!("{} of {all} Flux objects are not ready", open.len());
    for line in open.iter().take(LISTED) {
        found.push_str("\n    ");
        found.push_str(line);
    }
    report.note(
        &check,
        found,
        "driftless get all -A --status-selector ready=false",
    );
}
