//! The inputs of a build from the hub and the secret manager: variables and keys.

use super::build::Inputs;
use super::decrypt::Decryptor;
use super::keys;
use driftless_flux::{Kustomization, SubstituteFrom, reason};
use driftless_kernel::context::Context;
use driftless_kernel::credentials;
use driftless_kernel::failure::Failure;
use driftless_kernel::hub::Hub;
use driftless_plans::substitute;
use serde_json::Value;
use std::collections::BTreeMap;

/// Reads the variables and the keys of a Kustomization.
///
/// # Errors
/// An object that is not optional is missing or not valid.
pub async fn read(context: &Context<'_>, kustomization: &Kustomization) -> Result<Inputs, Failure> {
    Ok(Inputs {
        variables: variables(&context.hub, kustomization).await?,
        decryptor: decryptor(context, kustomization).await?,
        lenient: context.hub.settings.lenient_substitutions,
        fuel: context.fuel.clone(),
    })
}

/// Reads the variables of a Kustomization: those of its ConfigMaps and Secrets, then its own.
///
/// # Errors
/// An object that is not optional is missing or not valid, or a name is not one of a variable.
pub async fn variables(
    hub: &Hub,
    from: &Kustomization,
) -> Result<BTreeMap<String, String>, Failure> {
    let mut variables = BTreeMap::new();
    let Some(post_build) = &from.spec.post_build else {
        return Ok(variables);
    };
    for reference in &post_build.substitute_from {
        variables.extend(values(hub, &from.id.namespace, reference).await?);
    }
    variables.extend(post_build.substitute.clone());
    substitute::check_names(variables.keys())
        .map_err(|error| Failure::retry(reason::BUILD_FAILED, &error).caused_by(error))?;
    Ok(variables)
}

async fn values(
    hub: &Hub,
    namespace: &str,
    reference: &SubstituteFrom,
) -> Result<Vec<(String, String)>, Failure> {
    let SubstituteFrom {
        kind,
        name,
        optional,
    } = reference;
    let fail = |message: &str| {
        Failure::retry(
            reason::BUILD_FAILED,
            format!("substitute from '{kind}/{name}' error: {message}"),
        )
    };
    if !matches!(kind.as_str(), "ConfigMap" | "Secret") {
        return Err(Failure::terminal(
            reason::BUILD_FAILED,
            format!("spec.postBuild.substituteFrom: kind '{kind}' is not ConfigMap or Secret"),
        ));
    }
    let Some(object) = credentials::read(hub, kind, namespace, name).await? else {
        return if *optional {
            Ok(Vec::new())
        } else {
            let kinds = if kind == "Secret" {
                "secrets"
            } else {
                "configmaps"
            };
            Err(fail(&format!("{kinds} \"{name}\" not found")))
        };
    };
    let mut values = Vec::new();
    for key in credentials::keys(&object) {
        let value = if kind == "Secret" {
            let bytes = credentials::entry(&object, &key);
            bytes
                .and_then(|bytes| bytes.expose_str().map(str::to_owned))
                .ok_or_else(|| fail(&format!("the value of '{key}' is not UTF-8")))?
        } else {
            let value = object
                .pointer("/data")
                .and_then(|data| data.get(&key))
                .and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        // Flux removes line breaks: a trailing one belongs to the file and not to the variable.
        values.push((key, value.replace('\n', "")));
    }
    Ok(values)
}

/// Reads the keys of `spec.decryption.secretRef`, and those that the secret manager has for the
/// namespace.
async fn decryptor(
    context: &Context<'_>,
    from: &Kustomization,
) -> Result<Option<Decryptor>, Failure> {
    let Some(decryption) = &from.spec.decryption else {
        return Ok(None);
    };
    if decryption.provider != "sops" {
        let message = format!(
            "spec.decryption.provider '{}' is not sops",
            decryption.provider
        );
        return Err(Failure::terminal(reason::BUILD_FAILED, message));
    }
    keys::keyring(context, from, decryption)
        .await
        .map(|keys| Some(Decryptor::new(keys, &context.fuel)))
}
