//! Checks that a cluster's Flux objects are valid under the current definitions. An object that is
//! older than a stricter definition stays on the cluster, but its next change is refused.

use super::report::Report;
use driftless_adapters::embedded::Embedded;
use driftless_adapters::local::SystemClock;
use driftless_apiserver::User;
use driftless_core::bootstrap;
use driftless_kernel::applier::{Applier, Strategy};
use driftless_kernel::ports::{Cluster, ErrorKind, PortError, Result};
use driftless_manifest::{Gvk, Object};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The user on the embedded server.
const USER: &str = "driftless-doctor";
/// The highest number of objects that the check lists.
const LISTED: usize = 20;

/// Reports the objects that the definitions of this program refuse. An embedded API server
/// validates them: the cluster may have older definitions, and does not validate stored objects.
pub async fn check(objects: &[Object], of: &str, report: &mut Report) {
    let check = format!("{of}: fields");
    let refused = match refused(objects).await {
        Ok(refused) => refused,
        Err(error) => return report.fail(&check, error, "report this as an error of driftless"),
    };
    if refused.is_empty() {
        report.pass(&check, "the definitions accept every Flux object");
        return;
    }
    let mut found = format!(
        "the definitions refuse {} of {} Flux objects",
        refused.len(),
        objects.len()
    );
    for line in refused.iter().take(LISTED) {
        found.push_str("\n    ");
        found.push_str(line);
    }
    if refused.len() > LISTED {
        found.push_str(&format!("\n    and {} more", refused.len() - LISTED));
    }
    let next = "correct the fields in the repository that the objects come from";
    report.fail(&check, found, next);
}

/// Returns the refused objects, each with the API server's reason.
async fn refused(objects: &[Object]) -> Result<Vec<String>> {
    let clock = Arc::new(SystemClock);
    let judge = Embedded::new(clock.clone()).cluster(User::admin(USER), "the definitions")?;
    bootstrap::install(&judge, clock.as_ref()).await?;
    let namespaces: BTreeSet<&str> = objects.iter().map(Object::namespace).collect();
    for name in namespaces {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        apply(&judge, namespace).await?;
    }
    let mut refused = Vec::new();
    for object in objects {
        if let Err(error) = apply(&judge, as_written(object)).await {
            refused.push(format!("{}: {error}", name_of(object)));
        }
    }
    Ok(refused)
}

/// Returns the name of an object as `Kind/namespace/name`.
pub(super) fn name_of(object: &Object) -> String {
    format!("{}/{}/{}", object.kind(), object.namespace(), object.name())
}

/// Returns the fields of an object that a file would have.
fn as_written(object: &Object) -> Value {
    let mut written = json!({"apiVersion": object.api_version(), "kind": object.kind(),
        "metadata": {"name": object.name(), "namespace": object.namespace()}});
    if let Some(spec) = object.pointer("/spec") {
        written["spec"] = spec.clone();
    }
    written
}

async fn apply(judge: &dyn Cluster, object: Value) -> Result<Object> {
    let invalid = |message: String| PortError::new(ErrorKind::Invalid, message);
    let object = Object::new(object).map_err(|error| invalid(error.to_string()))?;
    let gvk: Gvk = object.gvk();
    let resource = judge.resource(&gvk).await?;
    let resource =
        resource.ok_or_else(|| invalid(format!("{} is not served", gvk.api_version())))?;
    let applier = Applier::new(judge, Strategy::forcing(USER));
    applier.apply(&resource, &object).await
}
