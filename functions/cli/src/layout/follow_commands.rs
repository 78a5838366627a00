//! The commands that make a hub follow the directory of a new cluster, which does not happen
//! automatically.

use super::checkout::Checkout;
use super::environment::Environment;
use super::hub::{ClusterObjects, RemovalFlags};
use crate::error::Error;
use driftless_flux::FLUX_SYSTEM;
use driftless_manifest::Object;
use std::path::Path;

/// A command for the user to run next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// The hub for which the command is right.
    pub when: &'static str,
    /// The command line to run.
    pub command: String,
}

/// Returns the commands for a cluster on the branch that all environments share.
pub fn of_shared(url: Option<String>, branch: &str, directory: &str) -> Vec<Next> {
    let repository = url.unwrap_or_else(|| "OWNER/NAME".to_owned());
    let at = format!("--repository {repository} --branch {branch} --path clusters/{directory}");
    following(&at, directory)
}

/// Returns the commands for a cluster of an environment: a root in addition to those that the hub
/// has, or what the scripts apply once with kubectl.
///
/// # Errors
/// Fails if the branch is not an environment, or its source cannot be parsed.
pub fn of_environment(checkout: &Checkout, dir: &Path, hub: &str) -> Result<Vec<Next>, Error> {
    let environment = Environment::of(checkout)?;
    let (branch, root) = (environment.name(), environment.namespace());
    let directory = format!("clusters/{hub}");
    let url = Environment::url(checkout)?;
    let url = url.as_deref().unwrap_or("URL");
    let at = format!("--repository {url} --branch {branch} --path {directory} --root {root}");
    let mut next = following(&at, hub);
    next.push(Next {
        when: "a hub that is served already, as the repository's scripts do",
        command: format!(
            "driftless build {} | kubectl apply -f -",
            quoted(&dir.join(directory))
        ),
    });
    Ok(next)
}

/// Returns the commands that make a hub follow the root of these flags.
fn following(at: &str, hub: &str) -> Vec<Next> {
    vec![
        Next {
            when: "a hub for driftless serve",
            command: format!("driftless serve {at}"),
        },
        Next {
            when: "a hub of an installation on AWS",
            command: format!("driftless bootstrap --name {hub} {at}"),
        },
    ]
}

/// Returns the commands that delete the objects of a removed cluster from its hub, where `--apply`
/// has not done it.
pub fn of_removal(flags: &RemovalFlags, old: &ClusterObjects) -> Vec<Next> {
    let mut next = Vec::new();
    if flags.hub.apply() {
        return next;
    }
    // The root of a hub prunes the objects of a remote cluster.
    let Some(root) = &old.root else {
        next.extend(old.kubeconfigs.iter().map(|(namespace, secret)| Next {
            when: "the hub, after the objects on the remote cluster are pruned",
            command: format!("kubectl -n {namespace} delete secret {secret} --ignore-not-found"),
        }));
        return next;
    };
    let name = &root.name;
    next.push(Next {
        when: "a hub with this root, which must not prune its own namespace first",
        command: format!(
            "kubectl -n {name} patch kustomization {name} --type merge -p '{{\"spec\":{{\"prune\":false}}}}' && kubectl -n {name} delete kustomization {name}"
        ),
    });
    for sync in old.syncs() {
        next.push(Next {
            when: "the hub, in this order",
            command: format!("kubectl -n {name} delete kustomization {}", sync.name()),
        });
    }
    let is_own = |object: &Object| object.kind() == "Namespace" && object.name() == name;
    if old.objects.iter().any(is_own) && name != FLUX_SYSTEM {
        next.push(Next {
            when: "the hub, last",
            command: format!("kubectl delete namespace {name}"),
        });
    }
    next
}

/// Quotes a path for a shell, if needed.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let text = text.trim_start_matches("./");
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "/._-+=@%".contains(one);
    match text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}
