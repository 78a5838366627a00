//! Selects the policies, bindings and parameters that apply to a request.

use driftless_go::Error as GoError;
use std::sync::Arc;

use driftless_manifest::labels::LabelSelector;
use serde_json::Value;

use crate::objects::{self, convert};
use crate::resources::Resource;
use crate::store::state::State;
use crate::user::User;
use crate::values::{text, texts};

const GROUP: &str = "admissionregistration.k8s.io";

/// Resources that no policy applies to, so that a wrong policy can always be fixed.
const EXEMPT: [&str; 6] = [
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
];

/// A write that needs admission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub user: &'a User,
    pub resource: &'a Resource,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub operation: &'static str,
    pub object: Option<&'a Value>,
    pub old: Option<&'a Value>,
    pub dry_run: bool,
}

impl Request<'_> {
    pub(super) fn is_namespace(&self) -> bool {
        self.resource.is("", "namespaces")
    }

    /// Returns the namespace of the AdmissionRequest: for a Namespace, its own name.
    pub(super) fn namespace(&self) -> &str {
        if self.is_namespace() {
            self.name
        } else {
            self.namespace
        }
    }
}

/// A policy that concerns a request.
pub(super) struct Matched {
    pub policy: Arc<Value>,
    pub bindings: Vec<Arc<Value>>,
    /// The resource in the version that the policy names.
    pub resource: Arc<Resource>,
}

/// Returns the policies of a kind that apply to a request and have bindings. `kind` is `validating`
/// or `mutating`.
///
/// # Errors
/// The policy that cannot be matched, with the reason.
pub(super) fn matching(
    state: &State,
    request: &Request<'_>,
    kind: &str,
) -> Vec<(Arc<Value>, Result<Matched, GoError>)> {
    let key = (GROUP.to_owned(), format!("{kind}admissionpolicies"));
    let mut policies = state.store.list(&key, "", None).peekable();
    if policies.peek().is_none()
        || (request.resource.group == GROUP && EXEMPT.contains(&request.resource.plural.as_str()))
    {
        return Vec::new();
    }
    let of_bindings = (GROUP.to_owned(), format!("{kind}admissionpolicybindings"));
    let mut found = Vec::new();
    for ((_, name), policy) in policies {
        let bindings: Vec<Arc<Value>> = state
            .store
            .list(&of_bindings, "", None)
            .filter(|(_, binding)| text(binding, "/spec/policyName") == name)
            .map(|(_, binding)| Arc::clone(binding))
            .collect();
        if bindings.is_empty() {
            continue;
        }
        let matched = matches(state, request, &policy["spec"]["matchConstraints"]);
        match matched {
            Ok(None) => {}
            Ok(Some(resource)) => {
                let matched = Matched {
                    policy: Arc::clone(policy),
                    bindings,
                    resource,
                };
                found.push((Arc::clone(policy), Ok(matched)));
            }
            Err(detail) => found.push((Arc::clone(policy), Err(detail))),
        }
    }
    found
}

/// Returns the resource, in the version of the rule, if `matchConstraints` or `matchResources`
/// select the request.
///
/// # Errors
/// A selector that is not valid.
fn matches(
    state: &State,
    request: &Request<'_>,
    criteria: &Value,
) -> Result<Option<Arc<Resource>>, GoError> {
    let own = || Arc::new(request.resource.clone());
    if criteria.is_null() {
        return Ok(Some(own()));
    }
    let selects = |field: &str| match criteria.get(field).filter(|s| !s.is_null()) {
        None => Ok(LabelSelector::default()),
        Some(selector) => LabelSelector::of_object(selector),
    };
    let namespaces = selects("namespaceSelector")?;
    if !namespaces.is_empty() && !in_namespace(state, request, &namespaces) {
        return Ok(None);
    }
    let labels = selects("objectSelector")?;
    let chosen =
        |object: Option<&Value>| object.is_some_and(|object| labels.matches_object(object));
    if !labels.is_empty() && !chosen(request.object) && !chosen(request.old) {
        return Ok(None);
    }
    let exact = criteria["matchPolicy"] == "Exact";
    let rules = |field: &str| criteria[field].as_array().map_or(&[][..], Vec::as_slice);
    if covering_resource(state, request, rules("excludeResourceRules"), exact).is_some() {
        return Ok(None);
    }
    let wanted = rules("resourceRules");
    if wanted.is_empty() {
        return Ok(Some(own()));
    }
    Ok(covering_resource(state, request, wanted, exact))
}

/// Returns whether the selector selects the namespace of a request; a cluster-scoped object is
/// always selected.
fn in_namespace(state: &State, request: &Request<'_>, selector: &LabelSelector) -> bool {
    if request.is_namespace() {
        return request
            .object
            .or(request.old)
            .is_some_and(|object| selector.matches_object(object));
    }
    request.namespace.is_empty()
        || namespace(state, request.namespace).is_some_and(|found| selector.matches_object(found))
}

/// Returns the stored Namespace object.
pub(super) fn namespace<'s>(state: &'s State, name: &str) -> Option<&'s Value> {
    let key = (String::new(), "namespaces".to_owned());
    let found = state.store.get(&key, &(String::new(), name.to_owned()));
    found.map(AsRef::as_ref)
}

/// Returns the resource in the version of the first rule that covers a request.
fn covering_resource(
    state: &State,
    request: &Request<'_>,
    rules: &[Value],
    exact: bool,
) -> Option<Arc<Resource>> {
    let own = request.resource;
    if rules.iter().any(|rule| covers(rule, request, own)) {
        return Some(Arc::new(own.clone()));
    }
    if exact {
        return None;
    }
    let mut others = state
        .resources()
        .filter(|other| other.key() == own.key() && other.api_version != own.api_version);
    others
        .find(|other| rules.iter().any(|rule| covers(rule, request, other)))
        .cloned()
}

fn covers(rule: &Value, request: &Request<'_>, resource: &Resource) -> bool {
    let has = |field: &str, wanted: &str| {
        let known = rule[field].as_array().into_iter().flatten();
        known
            .filter_map(Value::as_str)
            .any(|known| known == "*" || known == wanted)
    };
    let scope = match text(rule, "/scope") {
        "Namespaced" => !request.namespace.is_empty() && !request.is_namespace(),
        "Cluster" => request.namespace.is_empty(),
        _ => true,
    };
    let names = texts(&rule["resourceNames"]);
    scope
        && has("operations", request.operation)
        && has("apiGroups", &resource.group)
        && has("apiVersions", &resource.version)
        && texts(&rule["resources"]).iter().any(|known| {
            let (plural, sub) = known.split_once('/').unwrap_or((known, ""));
            (plural == "*" || plural == resource.plural)
                && (sub == "*" || sub == request.subresource)
        })
        && (names.is_empty() || names.iter().any(|name| name == request.name))
}

/// Converts an object of a request to the version that a policy names.
pub(super) fn to_version(request: &Request<'_>, to: &Resource, object: &Value) -> Value {
    if to.api_version == request.resource.api_version {
        return object.clone();
    }
    let stored = convert::to_stored(request.resource, object.clone());
    objects::in_version(to, &stored)
}

/// Returns the parameters of a binding: one `None` if the policy has no `paramKind`, an empty list
/// if the binding does not match the request, or if they are missing and the binding allows that.
///
/// # Errors
/// A kind that is not served, a reference that does not fit, and missing parameters that the
/// binding denies.
pub(super) fn params(
    state: &State,
    request: &Request<'_>,
    policy: &Value,
    binding: &Value,
) -> Result<Vec<Option<Arc<Value>>>, GoError> {
    if matches(state, request, &binding["spec"]["matchResources"])?.is_none() {
        return Ok(Vec::new());
    }
    let namespace = request.namespace;
    let kind = &policy["spec"]["paramKind"];
    let reference = &binding["spec"]["paramRef"];
    if kind.is_null() || reference.is_null() {
        return Ok(vec![None]);
    }
    let (version, name) = (text(kind, "/apiVersion"), text(kind, "/kind"));
    let resource = state
        .resources()
        .find(|resource| resource.api_version == version && resource.kind == name)
        .ok_or_else(|| {
            let kind = go_kind(version, name);
            GoError::new(format!(
                "failed to find resource referenced by paramKind: '{kind}'"
            ))
        })?;
    let within = text(reference, "/namespace");
    let within = match (resource.namespaced, within) {
        (false, "") => "",
        (false, _) => {
            return Err(
                "paramRef.namespace must not be provided for a cluster-scoped `paramKind`".into(),
            );
        }
        (true, "") if namespace.is_empty() => {
            return Err(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                    .into(),
            );
        }
        (true, "") => namespace,
        (true, own) => own,
    };
    let wanted = text(reference, "/name");
    let stored = if wanted.is_empty() {
        let selector = LabelSelector::of_object(&reference["selector"])?;
        let all = state.store.list(&resource.key(), within, None);
        all.filter(|(_, object)| selector.matches_object(object))
            .map(|(_, object)| Arc::clone(object))
            .collect()
    } else {
        let key = (within.to_owned(), wanted.to_owned());
        Vec::from_iter(state.store.get(&resource.key(), &key).cloned())
    };
    if stored.is_empty() && text(reference, "/parameterNotFoundAction") == "Deny" {
        return Err(
            "no params found for policy binding with `Deny` parameterNotFoundAction".into(),
        );
    }
    let found = stored
        .iter()
        .map(|object| Some(Arc::new(objects::in_version(resource, object))));
    Ok(found.collect())
}

/// Formats a kind as Go does: `v1, Kind=ConfigMap`.
fn go_kind(version: &str, kind: &str) -> String {
    let group = if version.contains('/') { "" } else { "/" };
    format!("{group}{version}, Kind={kind}")
}
