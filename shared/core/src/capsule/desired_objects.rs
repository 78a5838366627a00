//! The desired objects of an account: its rights, its Secret, and the resource by which Capsule
//! copies the Secret.

use super::{
    ACCOUNT_UID_ANNOTATION, EXPIRES_ANNOTATION, GLOBAL_ANNOTATION, LABEL, MANAGER, ON, Place,
    TOKEN_ANNOTATION,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use driftless_flux::reason;
use driftless_kernel::failure::Failure;
use driftless_kernel::hub::CapsuleProxy;
use driftless_kernel::kubeconfig;
use driftless_kernel::ports::{Login, Secret};
use driftless_manifest::Object;
use serde_json::{Value, json};
use std::time::Duration;

/// The `apiVersion` of Capsule's kinds.
pub const CAPSULE: &str = "capsule.clastix.io/v1beta2";
/// The kind of Capsule's Tenants.
pub const TENANT_KIND: &str = "Tenant";
const RBAC: &str = "rbac.authorization.k8s.io/v1";
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
const KUBECONFIG: &str = "kubeconfig";

/// The `apiVersion`s and kinds of the created objects.
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
    /// The namespace of the account.
    pub namespace: String,
    /// The name of the account.
    pub name: String,
    /// The uid of the account.
    pub uid: String,
    /// True if its token is that of the Secret `NAME-token`.
    pub token_secret: bool,
    /// The Tenants that it owns, by name.
    pub tenants: Vec<TenantId>,
    /// The Tenants to whose namespaces its kubeconfig is copied.
    pub copied_to: Vec<String>,
}

/// The name and uid of a Tenant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TenantId {
    /// The name of the Tenant.
    pub name: String,
    /// The uid of the Tenant.
    pub uid: String,
}

impl TenantId {
    /// Returns the name and uid of a Tenant.
    pub fn of(tenant: &Object) -> Self {
        Self {
            name: tenant.name().to_owned(),
            uid: tenant.meta("uid").to_owned(),
        }
    }
}

/// The token in a kubeconfig.
#[derive(Clone, Debug)]
pub struct OwnerToken {
    /// The bearer token itself.
    pub secret: Secret,
    /// The time of its expiry, since 1970; `None` if it does not expire.
    pub expires: Option<Duration>,
}

impl Owner {
    /// Creates the owner of an account and the Tenants that it owns.
    pub fn new(account: &Object, mut tenants: Vec<TenantId>) -> Self {
        tenants.sort();
        let names = tenants.iter().map(|tenant| tenant.name.clone()).collect();
        let global = account.annotation(GLOBAL_ANNOTATION) == Some(ON);
        Self {
            namespace: account.namespace().to_owned(),
            name: account.name().to_owned(),
            uid: account.meta("uid").to_owned(),
            token_secret: account.annotation(TOKEN_ANNOTATION) == Some("secret"),
            tenants,
            copied_to: match global {
                true => names,
                false => Vec::new(),
            },
        }
    }

    /// Returns the account as `NAMESPACE/NAME`.
    pub fn display_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// Returns the user name of an account.
pub fn user(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

/// Returns the user names of the accounts that own a Tenant.
pub fn account_owners(tenant: &Object) -> Vec<String> {
    let owners = tenant.pointer("/spec/owners").and_then(Value::as_array);
    let accounts = owners.into_iter().flatten();
    let accounts = accounts.filter(|owner| owner["kind"] == "ServiceAccount");
    accounts
        .filter_map(|owner| owner["name"].as_str().map(str::to_owned))
        .collect()
}

/// Returns the place of an object of these kinds.
pub fn place(object: &Object) -> Place {
    let kind = KINDS.iter().find(|(_, kind)| *kind == object.kind());
    let kind = kind.map_or("", |(_, kind)| *kind);
    (
        kind,
        object.namespace().to_owned(),
        object.name().to_owned(),
    )
}

/// Returns the place of the Secret with an account's kubeconfig.
pub fn secret_place(owner: &Owner) -> Place {
    (
        "Secret",
        owner.namespace.clone(),
        format!("{}-{KUBECONFIG}", owner.name),
    )
}

/// Returns the name of the Secret with a token that does not expire.
pub fn token_secret_name(owner: &Owner) -> String {
    format!("{}-token", owner.name)
}

/// Returns the name of the role that may impersonate the account.
fn impersonator(owner: &Owner) -> String {
    format!("{}-{}-impersonator", owner.namespace, owner.name)
}

fn global_name(owner: &Owner, tenant: &str) -> String {
    format!("{tenant}-{}-{KUBECONFIG}", owner.name)
}

/// Returns the places of all objects of an account.
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
    let copied_to = owner
        .copied_to
        .iter()
        .map(|tenant| global_name(owner, tenant));
    places.extend(copied_to.map(|name| wide("GlobalTenantResource", name)));
    places
}

fn object(document: Value) -> Result<Object, Failure> {
    Object::new(document)
        .map_err(|error| Failure::terminal(reason::FAILED, &error).caused_by(error))
}

/// Creates the RBAC objects: all rights in the account's namespace, and the right to impersonate
/// itself.
///
/// # Errors
/// Never: the objects are complete.
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

/// Creates the Secret that the cluster fills with a token.
///
/// # Errors
/// Never: the object is complete.
pub fn token_secret(owner: &Owner) -> Result<Object, Failure> {
    object(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": token_secret_name(owner), "namespace": owner.namespace, "labels": {LABEL: ON},
            "annotations": {"kubernetes.io/service-account.name": owner.name}},
    }))
}

/// Returns the token that the cluster has filled in for this account.
pub fn filled_token(owner: &Owner, secret: &Object) -> Option<OwnerToken> {
    // The token may be of a deleted account of the same name.
    if secret.annotation("kubernetes.io/service-account.uid") != Some(owner.uid.as_str()) {
        return None;
    }
    let text = secret.pointer("/data/token").and_then(Value::as_str)?;
    Some(OwnerToken {
        secret: Secret::new(STANDARD.decode(text).ok()?),
        expires: None,
    })
}

/// Returns the token in an account's kubeconfig, if it expires and belongs to this account.
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

/// Creates the Secret with the kubeconfig, in client-go's format.
///
/// # Errors
/// The token is not UTF-8.
pub fn kubeconfig(
    owner: &Owner,
    proxy: &CapsuleProxy,
    token: &OwnerToken,
) -> Result<Object, Failure> {
    let secret = token.secret.expose_str().ok_or_else(|| {
        Failure::retry(
            reason::FAILED,
            "the token of the service account is not UTF-8",
        )
    })?;
    let authority = proxy.certificate_authority.as_ref();
    let authority = authority.map_or_else(String::new, |authority| {
        let encoded = STANDARD.encode(authority);
        format!("    certificate-authority-data: {encoded}\n")
    });
    let (server, secret) = (scalar(&proxy.url), scalar(secret));
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

/// Renders a string as a YAML scalar, quoted if necessary.
fn scalar(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:".contains(&byte);
    match text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.bytes().all(is_plain)
    {
        true => text.to_owned(),
        false => Value::from(text).to_string(),
    }
}

/// Creates the Namespace of an account with a Tenant as its controller.
///
/// # Errors
/// Never: the object is complete.
pub fn owned_namespace(owner: &Owner, tenant: &TenantId) -> Result<Object, Failure> {
    object(json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": owner.namespace, "labels": {LABEL: ON}, "ownerReferences": [{
            "apiVersion": CAPSULE, "kind": TENANT_KIND, "name": tenant.name, "uid": tenant.uid,
            "controller": true, "blockOwnerDeletion": true,
        }]},
    }))
}

/// Creates a Namespace with none of our fields.
///
/// # Errors
/// Never: the object is complete.
pub fn released_namespace(name: &str) -> Result<Object, Failure> {
    object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
}

/// Returns the owner reference of an object's controller.
pub fn controller(object: &Object) -> Option<&Value> {
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    owners.iter().find(|owner| owner["controller"] == true)
}

/// Checks whether an existing object may become `desired`: it has our label, the addon created it,
/// or it has the same content.
pub fn is_ours(existing: &Object, desired: &Object) -> bool {
    let same = |pointer: &str| existing.pointer(pointer) == desired.pointer(pointer);
    let only = |pointer: &str, key: &str| {
        let map = existing.pointer(pointer).and_then(Value::as_object);
        map.is_some_and(|map| map.keys().all(|one| one == key))
    };
    if existing.label(LABEL) == Some(ON) {
        return true;
    }
    match desired.kind() {
        "Secret" if desired.pointer("/data").is_none() => {
            let account = "kubernetes.io/service-account.name";
            same("/type") && existing.annotation(account) == desired.annotation(account)
        }
        "Secret" => same("/type") && only("/data", KUBECONFIG),
        "ClusterRole" => same("/rules"),
        "RoleBinding" | "ClusterRoleBinding" => same("/roleRef") && same("/subjects"),
        _ => existing.label("app.kubernetes.io/managed-by") == Some(MANAGER),
    }
}

/// Creates the resources by which Capsule copies the Secret to the namespaces of the Tenants.
///
/// # Errors
/// Never: the objects are complete.
pub fn global_resources(owner: &Owner, secret: &Object) -> Result<Vec<Object>, Failure> {
    // The copies belong to Capsule, so they do not get our label.
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
    owner.copied_to.iter().map(one).collect()
}
