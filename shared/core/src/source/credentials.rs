//! The credentials of a source, from the Secret that `spec.secretRef` names.

use crate::failure::Failure;
use crate::flux::{GitRepository, reason};
use crate::hub::Hub;
use crate::ports::{GitAuth, Secret};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use driftless_manifest::{Gvk, Object};
use serde_json::Value;

/// Reads a Secret of the hub, in the hub's own identity.
///
/// # Errors
/// It does not exist, or cannot be read.
pub async fn secret(hub: &Hub, namespace: &str, name: &str) -> Result<Option<Object>, Failure> {
    read(hub, "Secret", namespace, name).await
}

/// Reads a core object (`Secret`, `ConfigMap`) of the hub, in the hub's own identity.
///
/// # Errors
/// The cluster's.
pub async fn read(
    hub: &Hub,
    kind: &str,
    namespace: &str,
    name: &str,
) -> Result<Option<Object>, Failure> {
    let resource = hub.cluster.resource(&Gvk::new("v1", kind)).await?;
    match resource {
        Some(resource) => Ok(hub.cluster.get(&resource, namespace, name).await?),
        None => Err(Failure::retry(
            reason::FAILED,
            format!("the hub's API server does not serve {kind}"),
        )),
    }
}

/// One entry of a Secret, decoded.
pub fn entry(secret: &Object, key: &str) -> Option<Secret> {
    let text = secret.pointer("/data")?.get(key)?.as_str()?;
    STANDARD.decode(text).ok().map(Secret::new)
}

/// The names of a Secret's or ConfigMap's entries.
pub fn keys(object: &Object) -> Vec<String> {
    let data = object.pointer("/data").and_then(Value::as_object);
    data.map(|data| data.keys().cloned().collect())
        .unwrap_or_default()
}

/// How a GitRepository logs in: Flux's keys of its Secret, or the installation's own credentials.
///
/// # Errors
/// The Secret is missing or has none of the keys.
pub async fn git(hub: &Hub, source: &GitRepository) -> Result<GitAuth, Failure> {
    let Some(reference) = &source.spec.secret_ref else {
        return Ok(GitAuth::Installation);
    };
    let place = format!("Secret/{}/{}", source.id.namespace, reference.name);
    let fail =
        |what: &str| Failure::retry(reason::AUTHENTICATION_FAILED, format!("{place}: {what}"));
    let secret = secret(hub, &source.id.namespace, &reference.name)
        .await?
        .ok_or_else(|| {
            let (namespace, name) = (&source.id.namespace, &reference.name);
            let lead = format!("failed to get secret '{namespace}/{name}'");
            let what = format!("{lead}: {lead}: secrets \"{name}\" not found");
            Failure::retry(reason::AUTHENTICATION_FAILED, what)
        })?;
    let text =
        |key: &str| entry(&secret, key).and_then(|value| value.expose_str().map(str::to_owned));
    if let Some(app_id) = text("githubAppID") {
        return Ok(GitAuth::App {
            app_id,
            installation_id: text("githubAppInstallationID").unwrap_or_default(),
            private_key: entry(&secret, "githubAppPrivateKey")
                .ok_or_else(|| fail("has no githubAppPrivateKey"))?,
            base_url: text("githubAppBaseURL"),
        });
    }
    if let Some(token) = entry(&secret, "bearerToken") {
        return Ok(GitAuth::Bearer(token));
    }
    if let Some(username) = text("username") {
        let password =
            entry(&secret, "password").ok_or_else(|| fail("has a username and no password"))?;
        return Ok(GitAuth::Basic { username, password });
    }
    if entry(&secret, "identity").is_some() {
        // A deploy key works over SSH alone; the repository is read through the installation's own access.
        return Ok(GitAuth::Installation);
    }
    Err(fail(
        "has none of username and password, bearerToken, githubAppID, identity",
    ))
}
