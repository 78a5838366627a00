//! The credential plugin of the user's own kubeconfig, which is removed from it, so that the strict
//! parser accepts the rest.

use super::kubeconfig::{access, document};
use crate::error::Error;
use async_trait::async_trait;
use driftless_adapters::cluster::Plugin;
use driftless_kernel::ports::{
    Access, Cluster, Clusters, Impersonation, Login, Result as PortResult, Secret,
};
use driftless_manifest::yaml;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The extension of a cluster's entry with the settings of the plugin.
const SETTINGS: &str = "client.authentication.k8s.io/exec";
/// The fields of the other credentials that a user may have instead.
const OTHER_CREDENTIAL_FIELDS: [&str; 5] = [
    "token",
    "username",
    "password",
    "client-certificate-data",
    "client-key-data",
];

/// Removes the credential plugin of the user from a kubeconfig of [`super::load`]. Returns the rest
/// and the plugin. Only for commands that run with the user's own kubeconfig, because the plugin is
/// a program.
pub fn take(text: Vec<u8>) -> Result<(Vec<u8>, Option<Plugin>), Error> {
    let refuse = |problem: &str| Error::new(format!("kubeconfig: {problem}"));
    let mut config =
        document(&text).ok_or_else(|| refuse("expected a single YAML document with a map"))?;
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
    if let Some(other) = OTHER_CREDENTIAL_FIELDS
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

/// Returns the first entry of a list with this name.
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

/// Returns the settings of the plugin in a cluster's entry.
fn settings(cluster: &mut Map<String, Value>) -> Option<Value> {
    let extensions = cluster.get("extensions")?.as_array()?;
    let found = extensions.iter().find(|one| one["name"] == SETTINGS)?;
    found.get("extension").cloned()
}

/// Clusters, of which those of the user's own kubeconfig may need its credential plugins.
pub struct UserClusters {
    /// The login that stands for a plugin, with the access and the plugin.
    plugins: Vec<(Login, Access, Plugin)>,
    others: Arc<dyn Clusters>,
}

impl UserClusters {
    /// Returns clusters without a plugin so far.
    pub fn new(others: Arc<dyn Clusters>) -> Self {
        Self {
            plugins: Vec::new(),
            others,
        }
    }

    /// Returns the access of a kubeconfig of [`super::load`]. If its user has a plugin, the login
    /// is the nonce: no kubeconfig of a tenant can have it.
    ///
    /// # Errors
    /// The kubeconfig is refused.
    pub fn open(&mut self, text: Vec<u8>, nonce: [u8; 16]) -> Result<Access, Error> {
        let (text, plugin) = take(text)?;
        let mut access = access(&text)?;
        if let Some(plugin) = plugin {
            let login = Login::Token(Secret::new(nonce.to_vec()));
            self.plugins.push((login.clone(), access.clone(), plugin));
            access.login = login;
        }
        Ok(access)
    }
}

#[async_trait]
impl Clusters for UserClusters {
    async fn connect(
        &self,
        access: &Access,
        user: Option<&Impersonation>,
    ) -> PortResult<Arc<dyn Cluster>> {
        let mut plugins = self.plugins.iter();
        match plugins.find(|(login, _, _)| *login == access.login) {
            Some((_, access, plugin)) => Ok(Arc::new(plugin.connect_as(access, user)?)),
            None => self.others.connect(access, user).await,
        }
    }
}
