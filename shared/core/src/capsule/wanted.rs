//! What an account shall have: its rights, its Secret, and the resource by which Capsule spreads it.

use super::{
    ACCOUNT_UID_ANNOTATION, EXPIRES_ANNOTATION, GLOBAL_ANNOTATION, LABEL, MANAGER, ON, Place,
    TOKEN_ANNOTATION,
};
use crate::failure::Failure;
use crate::flux::reason;
use crate::hub::CapsuleProxy;
use crate::kubeconfig;
use crate::ports::{Login, Secret};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use driftless_manifest::Object;
use serde_json::{Value, json};
use std::time::Duration;

/// Capsule's API.
pub const CAPSULE: &str = "capsule.clastix.io/v1beta2";
const RBAC: &str = "rbac.authorization.k8s.io/v1";
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
const KUBECONFIG: &str = "kubeconfig";

/// The kinds of what is made.
pub const KINDS: [(&str, &str); 5] = [
    ("v1", "Secret"),
    (RBAC, "RoleBinding"),
    (RBAC, "ClusterRole"),
    (RBAC, "ClusterRoleBinding"),
    (CAPSULE, "GlobalTenantResource"),
];

/// An account that owns Tenants.
#[derive(Clone, Debug)]
pub struct Owner {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Whether its token is that of a Secret.
    pub token_secret: bool,
    /// The Tenants over which its kubeconfig is spread.
    pub spread: Vec<String>,
}

/// The token in a kubeconfig.
#[derive(Clone, Debug)]
pub struct OwnerToken {
    /// The token.
    pub secret: Secret,
    /// When it expires, since 1970; never when absent.
    pub expires: Option<Duration>,
}

impl Owner {
    /// An account with the Tenants that it owns.
    pub fn new(account: &Object, tenants: Vec<String>) -> Self {
        let global = account.annotation(GLOBAL_ANNOTATION) == Some(ON);
        Self {
            namespace: account.namespace().to_owned(),
            name: account.name().to_owned(),
            uid: account.meta("uid").to_owned(),
            token_secret: account.annotation(TOKEN_ANNOTATION) == Some("secret"),
            spread: match global {
                true => tenants,
                false => Vec::new(),
            },
        }
    }

    /// `NAMESPACE/NAME`.
    pub fn shown(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// The user that an account is.
pub fn user(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

/// The accounts that own a Tenant, as users.
pub fn account_owners(tenant: &Object) -> Vec<String> {
    let owners = tenant.pointer("/spec/owners").and_then(Value::as_array);
    let accounts = owners.into_iter().flatten();
    let accounts = accounts.filter(|owner| owner["kind"] == "ServiceAccount");
    accounts
        .filter_map(|owner| owner["name"].as_str().map(str::to_owned))
        .collect()
}

/// Where an object of these kinds is.
pub fn place(object: &Object) -> Place {
    let kind = KINDS.iter().find(|(_, kind)| *kind == object.kind());
    let kind = kind.map_or("", |(_, kind)| *kind);
    (
        kind,
        object.namespace().to_owned(),
        object.name().to_owned(),
    )
}

/// Where the kubeconfig of an account is.
pub fn secret_place(owner: &Owner) -> Place {
    (
        "Secret",
        owner.namespace.clone(),
        format!("{}-{KUBECONFIG}", owner.name),
    )
}

/// The name of the Secret with a token that does not expire.
pub fn token_secret_name(owner: &Owner) -> String {
    format!("{}-token", owner.name)
}

/// The name of the role to act as the account.
fn impersonator(owner: &Owner) -> String {
    format!("{}-{}-impersonator", owner.namespace, owner.name)
}

fn global_name(owner: &Owner, tenant: &str) -> String {
    format!("{tenant}-{}-{KUBECONFIG}", owner.name)
}

/// Everything that an account shall have.
pub fn places(owner: &Owner) -> Vec<Place> {
    let of = |kind, name| (kind, owner.namespace.clone(), name);
    let wide = |kind, name| (kind, String::new(), name);
    let mut places = vec![
        secret_place(owner),
        of("RoleBinding", owner.name.clone()),
        wide("ClusterRole", impersonator(owner)),
        wide("ClusterRoleBinding", impersonator(owner)),
    ];
    if owner.token_secret {
        places.push(of("Secret", token_secret_name(owner)));
    }
    let spread = owner.spread.iter().map(|tenant| global_name(owner, tenant));
    places.extend(spread.map(|name| wide("GlobalTenantResource", name)));
    places
}

fn object(document: Value) -> Result<Object, Failure> {
    Object::new(document).map_err(|error| Failure::terminal(reason::FAILED, error))
}

/// All rights in its own namespace, and the right to act as itself.
///
/// # Errors
/// None: the objects are whole.
pub fn rights(owner: &Owner) -> Result<Vec<Object>, Failure> {
    let subjects =
        json!([{"kind": "ServiceAccount", "name": owner.name, "namespace": owner.namespace}]);
    let role = |name: &str| json!({"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": name});
    let (labels, impersonator) = (json!({LABEL: ON}), impersonator(owner));
    Ok(vec![
        object(json!({
            "apiVersion": RBAC, "kind": "RoleBinding",
            "metadata": {"name": owner.name, "namespace": owner.namespace, "labels": labels},
            "subjects": subjects, "roleRef": role("cluster-admin"),
        }))?,
        object(json!({
            "apiVersion": RBAC, "kind": "ClusterRole",
            "metadata": {"name": impersonator, "labels": labels},
            "rules": [{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"],
                "resourceNames": [user(&owner.namespace, &owner.name)]}],
        }))?,
        object(json!({
            "apiVersion": RBAC, "kind": "ClusterRoleBinding",
            "metadata": {"name": impersonator, "labels": labels},
            "subjects": subjects, "roleRef": role(&impersonator),
        }))?,
    ])
}

/// The Secret that the cluster fills with a token.
///
/// # Errors
/// None: the object is whole.
pub fn token_secret(owner: &Owner) -> Result<Object, Failure> {
    object(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": token_secret_name(owner), "namespace": owner.namespace, "labels": {LABEL: ON},
            "annotations": {"kubernetes.io/service-account.name": owner.name}},
    }))
}

/// The token that the cluster has filled in for this account.
pub fn filled_token(owner: &Owner, secret: &Object) -> Option<OwnerToken> {
    // One of an account of the same name that is gone is not taken.
    if secret.annotation("kubernetes.io/service-account.uid") != Some(owner.uid.as_str()) {
        return None;
    }
    let text = secret.pointer("/data/token").and_then(Value::as_str)?;
    Some(OwnerToken {
        secret: Secret::new(STANDARD.decode(text).ok()?),
        expires: None,
    })
}

/// The token in an account's kubeconfig, when it is one that expires and of this account.
pub fn known_token(owner: &Owner, secret: &Object) -> Option<OwnerToken> {
    if secret.annotation(ACCOUNT_UID_ANNOTATION) != Some(owner.uid.as_str()) {
        return None;
    }
    let expires = secret.annotation(EXPIRES_ANNOTATION)?.parse().ok()?;
    let text = secret.pointer(&format!("/data/{KUBECONFIG}"))?.as_str()?;
    let options = kubeconfig::Options {
        allow_insecure: false,
        allow_local: true,
    };
    match kubeconfig::parse(&STANDARD.decode(text).ok()?, &options)
        .ok()?
        .login
    {
        Login::Token(secret) => Some(OwnerToken {
            secret,
            expires: Some(Duration::from_secs(expires)),
        }),
        _ => None,
    }
}

/// The Secret with the kubeconfig, in client-go's form.
///
/// # Errors
/// The token is not text.
pub fn kubeconfig(
    owner: &Owner,
    proxy: &CapsuleProxy,
    token: &OwnerToken,
) -> Result<Object, Failure> {
    let secret = token.secret.expose_str().ok_or_else(|| {
        Failure::retry(
            reason::FAILED,
            "the token of the service account is not text",
        )
    })?;
    let authority = proxy.certificate_authority.as_ref();
    let authority = authority.map_or_else(String::new, |authority| {
        let encoded = STANDARD.encode(authority);
        format!("    certificate-authority-data: {encoded}\n")
    });
    let (server, secret) = (plain(&proxy.url), plain(secret));
    let config = format!(
        "apiVersion: v1\nclusters:\n- cluster:\n{authority}    server: {server}\n  name: default\ncontexts:\n- context:\n    \
         cluster: default\n    namespace: default\n    user: default\n  name: default\ncurrent-context: default\nkind: Config\n\
         users:\n- name: default\n  user:\n    token: {secret}\n"
    );
    let mut annotations = json!({ACCOUNT_UID_ANNOTATION: owner.uid});
    if let Some(expires) = token.expires {
        annotations[EXPIRES_ANNOTATION] = expires.as_secs().to_string().into();
    }
    let (_, namespace, name) = secret_place(owner);
    object(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": name, "namespace": namespace, "labels": {LABEL: ON}, "annotations": annotations},
        "data": {KUBECONFIG: STANDARD.encode(config)},
    }))
}

/// A text as a YAML scalar: quoted where it must be.
fn plain(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:".contains(&byte);
    match text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.bytes().all(is_plain)
    {
        true => text.to_owned(),
        false => Value::from(text).to_string(),
    }
}

/// Whether an object that has no label of ours may be taken over as `wanted`: the addon made it, or somebody gave it the same
/// content.
pub fn is_ours(there: &Object, wanted: &Object) -> bool {
    let same = |pointer: &str| there.pointer(pointer) == wanted.pointer(pointer);
    let only = |pointer: &str, key: &str| {
        let map = there.pointer(pointer).and_then(Value::as_object);
        map.is_some_and(|map| map.keys().all(|one| one == key))
    };
    if there.label(LABEL) == Some(ON) {
        return true;
    }
    match wanted.kind() {
        "Secret" if wanted.pointer("/data").is_none() => {
            let account = "kubernetes.io/service-account.name";
            same("/type") && there.annotation(account) == wanted.annotation(account)
        }
        "Secret" => same("/type") && only("/data", KUBECONFIG),
        "ClusterRole" => same("/rules"),
        "RoleBinding" | "ClusterRoleBinding" => same("/roleRef") && same("/subjects"),
        _ => there.label("app.kubernetes.io/managed-by") == Some(MANAGER),
    }
}

/// What spreads the Secret over the namespaces of the Tenants.
///
/// # Errors
/// None: the objects are whole.
pub fn global_resources(owner: &Owner, secret: &Object) -> Result<Vec<Object>, Failure> {
    // Copies are Capsule's: without our label nobody takes them for ours.
    let copy = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": secret.name(), "namespace": secret.namespace()},
        "data": secret.pointer("/data"),
    });
    let one = |tenant: &String| {
        object(json!({
            "apiVersion": CAPSULE, "kind": "GlobalTenantResource",
            "metadata": {"name": global_name(owner, tenant),
                "labels": {LABEL: ON, "app.kubernetes.io/managed-by": MANAGER}},
            "spec": {
                "tenantSelector": {"matchLabels": {"kubernetes.io/metadata.name": tenant}},
                "resources": [{"rawItems": [copy]}],
            },
        }))
    };
    owner.spread.iter().map(one).collect()
}
