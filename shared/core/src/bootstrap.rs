//! What a hub needs before its first reconciliation: Flux's definitions, its namespace and identities, and the root that
//! leads to everything else. Whatever is there already stays as it is.

use crate::flux::{FLUX_SYSTEM, FluxKind, custom_resource_definitions, is_current};
use crate::ports::{Apply, Clock, Cluster, ErrorKind, PortError, Resource, Result};
use driftless_manifest::{Gvk, Object};
use serde_json::{Value, json};
use std::time::Duration;

/// The field manager of what is created here.
const MANAGER: &str = "driftless";
/// How long the API server may take to serve a new definition.
const ESTABLISHED: Duration = Duration::from_secs(30);

/// The repository that leads to everything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Its address.
    pub url: String,
    /// The branch.
    pub branch: String,
    /// The folder in it, relative to the repository.
    pub path: String,
}

/// What was made, and what stands in the way, one line each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Created, as `Kind/name` or `Kind/namespace/name`.
    pub made: Vec<String>,
    /// There already, and brought up to date.
    pub updated: Vec<String>,
    /// There already, and not as asked for: left as it is.
    pub different: Vec<String>,
}

/// Installs Flux's definitions, its namespace, the service accounts of its controllers and their role, each only when it is
/// missing; definitions of ours are brought up to date.
///
/// # Errors
/// The cluster's.
pub async fn install(cluster: &dyn Cluster, clock: &dyn Clock) -> Result<Report> {
    let mut report = Report::default();
    let mut made = Vec::new();
    for definition in objects(
        custom_resource_definitions()
            .into_iter()
            .map(Object::into_value),
    )? {
        let resource = resource(cluster, &definition.gvk()).await?;
        let live = cluster.get(&resource, "", definition.name()).await?;
        if live
            .as_ref()
            .is_some_and(|live| !is_current(live) || serves(live, &definition))
        {
            continue;
        }
        let now = apply(cluster, &resource, &definition, live.is_some()).await?;
        match live {
            None => report.made.push(name(&definition)),
            Some(live) if live.meta("resourceVersion") != now.meta("resourceVersion") => {
                report.updated.push(name(&definition));
            }
            Some(_) => continue,
        }
        made.push((resource, definition));
    }
    for (resource, definition) in &made {
        established(cluster, clock, resource, definition.name()).await?;
    }
    for object in objects(identities())? {
        create_missing(cluster, &object, &mut report).await?;
    }
    Ok(report)
}

/// Creates the GitRepository and the Kustomization `flux-system/flux-system`, each only when it is missing.
///
/// # Errors
/// The cluster's, or that it does not serve Flux's definitions.
pub async fn create_root(cluster: &dyn Cluster, root: &Root) -> Result<Report> {
    let mut report = Report::default();
    for object in objects(root_objects(root))? {
        let Some(live) = create_missing(cluster, &object, &mut report).await? else {
            continue;
        };
        for field in ["/spec/url", "/spec/ref/branch", "/spec/path"] {
            let (want, have) = (object.pointer(field), live.pointer(field));
            if want.is_some() && want != have {
                let have = have.and_then(Value::as_str).unwrap_or("nothing");
                report.different.push(format!(
                    "{} has {} in {}",
                    name(&object),
                    have,
                    &field[1..].replace('/', ".")
                ));
            }
        }
    }
    Ok(report)
}

fn identities() -> Vec<Value> {
    let labels =
        json!({"app.kubernetes.io/instance": FLUX_SYSTEM, "app.kubernetes.io/part-of": "flux"});
    let account = |name: &str| {
        json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": FLUX_SYSTEM, "labels": labels}})
    };
    let subject =
        |name: &str| json!({"kind": "ServiceAccount", "name": name, "namespace": FLUX_SYSTEM});
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": FLUX_SYSTEM, "labels": labels}}),
        account("source-controller"),
        account("kustomize-controller"),
        account("helm-controller"),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": format!("cluster-reconciler-{FLUX_SYSTEM}"), "labels": labels},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [subject("kustomize-controller"), subject("helm-controller")]}),
    ]
}

fn root_objects(root: &Root) -> Vec<Value> {
    let api_version = |kind: FluxKind| {
        format!(
            "{}/{}",
            kind.group(),
            kind.versions().first().unwrap_or(&"v1")
        )
    };
    let metadata = json!({"name": FLUX_SYSTEM, "namespace": FLUX_SYSTEM});
    let path = root.path.trim_start_matches("./").trim_matches('/');
    vec![
        json!({"apiVersion": api_version(FluxKind::GitRepository), "kind": "GitRepository", "metadata": metadata,
            "spec": {"interval": "1m0s", "url": root.url, "ref": {"branch": root.branch}}}),
        json!({"apiVersion": api_version(FluxKind::Kustomization), "kind": "Kustomization", "metadata": metadata,
            "spec": {"interval": "10m0s", "path": format!("./{path}"), "prune": true,
                "sourceRef": {"kind": "GitRepository", "name": FLUX_SYSTEM}}}),
    ]
}

fn objects(values: impl IntoIterator<Item = Value>) -> Result<Vec<Object>> {
    let object = |value| {
        Object::new(value).map_err(|error| PortError::new(ErrorKind::Invalid, error.to_string()))
    };
    values.into_iter().map(object).collect()
}

fn name(object: &Object) -> String {
    let parts = [object.kind(), object.namespace(), object.name()];
    parts
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("/")
}

async fn resource(cluster: &dyn Cluster, gvk: &Gvk) -> Result<Resource> {
    cluster.resource(gvk).await?.ok_or_else(|| {
        PortError::new(
            ErrorKind::NotFound,
            format!(
                "the cluster does not serve {} {}",
                gvk.api_version(),
                gvk.kind
            ),
        )
    })
}

async fn apply(
    cluster: &dyn Cluster,
    resource: &Resource,
    object: &Object,
    force: bool,
) -> Result<Object> {
    let how = Apply {
        manager: MANAGER,
        force,
        dry_run: false,
    };
    cluster.apply(resource, object, how).await
}

/// Returns the live object if there is one already.
async fn create_missing(
    cluster: &dyn Cluster,
    object: &Object,
    report: &mut Report,
) -> Result<Option<Object>> {
    let resource = resource(cluster, &object.gvk()).await?;
    let live = cluster
        .get(&resource, object.namespace(), object.name())
        .await?;
    if live.is_none() {
        apply(cluster, &resource, object, false).await?;
        report.made.push(name(object));
    }
    Ok(live)
}

/// Whether a definition of ours says all that the newest one says. The server adds fields of its own.
fn serves(live: &Object, newest: &Object) -> bool {
    live.pointer("/spec")
        .zip(newest.pointer("/spec"))
        .is_some_and(|(live, newest)| contains(live, newest))
}

fn contains(live: &Value, part: &Value) -> bool {
    match (live, part) {
        (Value::Object(live), Value::Object(part)) => {
            part.iter().all(|(key, value)| match live.get(key) {
                Some(live) => contains(live, value),
                // The server leaves an empty list out.
                None => value.as_array().is_some_and(Vec::is_empty),
            })
        }
        (Value::Array(live), Value::Array(part)) => {
            live.len() == part.len()
                && live
                    .iter()
                    .zip(part)
                    .all(|(live, part)| contains(live, part))
        }
        _ => live == part,
    }
}

/// Waits until a new definition is served.
async fn established(
    cluster: &dyn Cluster,
    clock: &dyn Clock,
    resource: &Resource,
    name: &str,
) -> Result<()> {
    let until = clock.now() + ESTABLISHED;
    loop {
        let live = cluster.get(resource, "", name).await?;
        let conditions = live
            .as_ref()
            .and_then(|live| live.pointer("/status/conditions"))
            .and_then(Value::as_array);
        let established =
            |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
        if conditions.is_some_and(|conditions| conditions.iter().any(established)) {
            return Ok(());
        }
        if clock.now() >= until {
            let why = format!(
                "the definition {name} is not established after {} s",
                ESTABLISHED.as_secs()
            );
            return Err(PortError::new(ErrorKind::Unavailable, why));
        }
        clock.sleep(Duration::from_millis(100)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_as_flux_bootstraps_it() {
        let root = Root {
            url: "https://github.com/acme/fleet".into(),
            branch: "main".into(),
            path: "clusters/a/".into(),
        };
        let objects = objects(root_objects(&root)).unwrap();
        assert_eq!(name(&objects[0]), "GitRepository/flux-system/flux-system");
        assert_eq!(objects[0].pointer("/spec/ref/branch").unwrap(), "main");
        assert_eq!(objects[1].api_version(), "kustomize.toolkit.fluxcd.io/v1");
        assert_eq!(objects[1].pointer("/spec/path").unwrap(), "./clusters/a");
        let at_the_top = Root {
            path: "./".into(),
            ..root
        };
        assert_eq!(root_objects(&at_the_top)[1]["spec"]["path"], "./");
    }

    #[test]
    fn definitions_are_compared_without_what_the_server_adds() {
        let newest = json!({"spec": {"names": {"kind": "A"}, "versions": [{"name": "v1"}]}});
        let live = json!({"spec": {"names": {"kind": "A", "listKind": "AList"}, "versions": [{"name": "v1", "x": 1}], "y": 1}});
        assert!(contains(&live, &newest));
        let empty = json!({"spec": {"names": {"kind": "A", "shortNames": []}}});
        assert!(
            contains(&live, &empty),
            "the server leaves an empty list out"
        );
        assert!(!contains(
            &live,
            &json!({"spec": {"names": {"shortNames": ["a"]}}})
        ));
        assert!(!contains(
            &live,
            &json!({"spec": {"versions": [{"name": "v1"}, {"name": "v2"}]}})
        ));
        assert!(!contains(&live, &json!({"spec": {"names": {"kind": "B"}}})));
    }
}
