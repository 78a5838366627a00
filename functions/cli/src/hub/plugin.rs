//! The credential plugin of a person's own kubeconfig: taken out of it, so that the strict parser reads the rest.

use super::kubeconfig::document;
use crate::error::Error;
use driftless_adapters::cluster::Plugin;
use driftless_manifest::yaml;
use serde_json::{Map, Value};

/// The extension of a cluster's entry that is for its plugin.
const SETTINGS: &str = "client.authentication.k8s.io/exec";
/// Other ways to log in, that a user may have instead.
const OTHERS: [&str; 5] = [
    "token",
    "username",
    "password",
    "client-certificate-data",
    "client-key-data",
];

/// A kubeconfig from [`super::load`] without the credential plugin of its user, and the plugin. Only for a command that a person
/// runs with their own kubeconfig: the plugin is a program.
pub fn take(text: Vec<u8>) -> Result<(Vec<u8>, Option<Plugin>), Error> {
    let refuse = |what: &str| Error::new(format!("kubeconfig: {what}"));
    let mut config = document(&text).ok_or_else(|| refuse("it is not a YAML document"))?;
    let current = config.get("current-context").cloned().unwrap_or_default();
    let context =
        entry(&mut config, "contexts", "context", &current).map(|context| context.clone());
    let context = context.unwrap_or_default();
    let part = |name: &str| context.get(name).cloned().unwrap_or_default();
    let settings = entry(&mut config, "clusters", "cluster", &part("cluster")).and_then(settings);
    let Some(user) = entry(&mut config, "users", "user", &part("user")) else {
        return Ok((text, None));
    };
    let Some(exec) = user.remove("exec").filter(|exec| !exec.is_null()) else {
        return Ok((text, None));
    };
    let is_set = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    if let Some(other) = OTHERS
        .iter()
        .find(|name| user.get(**name).is_some_and(is_set))
    {
        return Err(refuse(&format!(
            "the user has both exec and {other}: keep one"
        )));
    }
    let plugin = Plugin::new(exec, settings);
    let plugin =
        plugin.ok_or_else(|| refuse("user.exec is not a credential plugin with a command"))?;
    Ok((
        yaml::to_string(&Value::Object(config)).into_bytes(),
        Some(plugin),
    ))
}

/// The first entry of a name.
fn entry<'a>(
    config: &'a mut Map<String, Value>,
    list: &str,
    entry: &str,
    name: &Value,
) -> Option<&'a mut Map<String, Value>> {
    let mut items = config.get_mut(list)?.as_array_mut()?.iter_mut();
    let item = items.find(|item| item["name"] == *name)?;
    item.get_mut(entry)?.as_object_mut()
}

/// What a cluster's entry has for the plugin.
fn settings(cluster: &mut Map<String, Value>) -> Option<Value> {
    let extensions = cluster.get("extensions")?.as_array()?;
    let found = extensions.iter().find(|one| one["name"] == SETTINGS)?;
    found.get("extension").cloned()
}
