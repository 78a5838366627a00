//! A kubeconfig for kubectl with a context for each cluster.

use crate::error::Error;
use driftless_fleet::embedded::{Cluster, World};
use driftless_manifest::yaml;
use serde_json::{Map, Value, json};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Writes `DIR/kubeconfig`, readable by its owner only, with the first hub as the current context.
///
/// # Errors
/// The file cannot be written.
pub fn write(dir: &Path, world: &World) -> Result<PathBuf, Error> {
    let remotes = world.remotes();
    let clusters: Vec<&Cluster> = world.hubs.iter().chain(&remotes).collect();
    let text = merged(&clusters)?;
    let file = dir.join("kubeconfig");
    let aside = dir.join(".kubeconfig.new");
    let write = || {
        fs::create_dir_all(dir)?;
        let mut options = OpenOptions::new();
        let mut out = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&aside)?;
        out.write_all(text.as_bytes())?;
        fs::rename(&aside, &file)
    };
    write().map_err(|error: std::io::Error| {
        Error::caused_by(error).context(format!("write {}", file.display()))
    })?;
    Ok(file)
}

/// Merges the kubeconfigs of the clusters; the entries are named after the clusters.
fn merged(clusters: &[&Cluster]) -> Result<String, Error> {
    let mut lists: Map<String, Value> = Map::new();
    for cluster in clusters {
        let text = cluster.kubeconfig.expose();
        let limits = yaml::Limits::default();
        let documents = yaml::documents(text, "kubeconfig", yaml::Dialect::V2, &limits);
        let document = documents
            .map_err(Error::caused_by)?
            .pop()
            .unwrap_or_default();
        let name = &cluster.name;
        let entries = [
            (
                "clusters",
                json!({"name": name, "cluster": document["clusters"][0]["cluster"]}),
            ),
            (
                "users",
                json!({"name": name, "user": document["users"][0]["user"]}),
            ),
            (
                "contexts",
                json!({"name": name, "context": {"cluster": name, "user": name}}),
            ),
        ];
        for (list, entry) in entries {
            if let Value::Array(list) = lists.entry(list).or_insert_with(|| json!([])) {
                list.push(entry);
            }
        }
    }
    let mut whole = json!({"apiVersion": "v1", "kind": "Config", "current-context": clusters.first().map(|first| &first.name)});
    if let Value::Object(whole) = &mut whole {
        whole.extend(lists);
    }
    Ok(yaml::to_string(&whole))
}
