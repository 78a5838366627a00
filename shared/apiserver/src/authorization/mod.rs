//! RBAC, as the RBAC authorizer of Kubernetes 1.36 decides.

pub(crate) mod escalation;

use std::fmt;

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::store::Key;
use crate::store::state::State;
use crate::user::User;

const GROUP: &str = "rbac.authorization.k8s.io";

/// The attributes of a request that authorization depends on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attributes<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    /// The path of a request that is not for a resource.
    pub path: Option<&'a str>,
}

impl Attributes<'_> {
    fn combined(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.to_owned()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }
}

/// The decision of RBAC.
#[derive(Clone, Debug)]
pub(crate) struct Decision {
    pub allowed: bool,
    /// The binding that allows it, or the missing roles of bindings; can be empty.
    pub reason: String,
}

/// Decides whether a user is allowed to do something.
pub(crate) fn decide(state: &State, user: &User, attributes: &Attributes<'_>) -> Decision {
    if is_privileged(user) {
        return Decision {
            allowed: true,
            reason: String::new(),
        };
    }
    let mut missing = Vec::new();
    for binding in bindings(state, user, attributes.namespace) {
        match binding.rules(state) {
            Some(rules) if rules.iter().any(|rule| rule_allows(rule, attributes)) => {
                return Decision {
                    allowed: true,
                    reason: format!("RBAC: allowed by {binding}"),
                };
            }
            Some(_) => {}
            None => {
                let problem = binding.missing();
                if !missing.contains(&problem) {
                    missing.push(problem);
                }
            }
        }
    }
    let reason = match missing.as_slice() {
        [] => String::new(),
        [one] => format!("RBAC: {one}"),
        many => format!("RBAC: [{}]", many.join(", ")),
    };
    Decision {
        allowed: false,
        reason,
    }
}

/// Refuses what RBAC does not allow.
///
/// # Errors
/// 403 with the attributes and RBAC's reason.
pub(crate) fn authorize(
    state: &State,
    user: &User,
    attributes: &Attributes<'_>,
) -> Result<(), ApiError> {
    let decision = decide(state, user, attributes);
    if decision.allowed {
        return Ok(());
    }
    Err(forbidden(user, attributes, &decision.reason))
}

/// Returns the error of a request that is not allowed.
pub(crate) fn forbidden(user: &User, attributes: &Attributes<'_>, reason: &str) -> ApiError {
    let verb = attributes.verb;
    let denial = match attributes.path {
        Some(path) => format!("User {:?} cannot {verb} path {path:?}", user.name),
        None => {
            let scope = match attributes.namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {namespace:?}"),
            };
            format!(
                "User {:?} cannot {verb} resource {:?} in API group {:?} {scope}",
                user.name,
                attributes.combined(),
                attributes.group
            )
        }
    };
    // Escaped as in the real server, so that a browser does not read it as HTML.
    let mut denial = denial
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    if !reason.is_empty() {
        denial.push_str(": ");
        denial.push_str(reason);
    }
    let of = match (attributes.resource, attributes.group) {
        (resource, "") => resource.to_owned(),
        (resource, group) => format!("{resource}.{group}"),
    };
    let message = match (of.as_str(), attributes.name) {
        ("", _) => format!("forbidden: {denial}"),
        (of, "") => format!("{of} is forbidden: {denial}"),
        (of, name) => format!("{of} {name:?} is forbidden: {denial}"),
    };
    let mut error = ApiError::new(403, "Forbidden", message).with_details();
    let details = [
        ("name", attributes.name),
        ("group", attributes.group),
        ("kind", attributes.resource),
    ];
    for (key, value) in details.into_iter().filter(|(_, value)| !value.is_empty()) {
        error.details.insert(key.into(), value.into());
    }
    error
}

/// Returns whether a user is in the group that is allowed to do everything.
fn is_privileged(user: &User) -> bool {
    user.groups.iter().any(|group| group == "system:masters")
}

fn key(plural: &str) -> Key {
    (GROUP.to_owned(), plural.to_owned())
}

/// A binding with a user among its subjects.
struct Binding<'a> {
    object: &'a Value,
    name: &'a str,
    /// Empty for a ClusterRoleBinding.
    namespace: &'a str,
    subject: &'a Value,
}

/// Returns the bindings of a user in a namespace, those of the cluster first.
fn bindings<'a>(
    state: &'a State,
    user: &'a User,
    namespace: &'a str,
) -> impl Iterator<Item = Binding<'a>> {
    let cluster = state.store.list(&key("clusterrolebindings"), "", None);
    let local =
        (!namespace.is_empty()).then(|| state.store.list(&key("rolebindings"), namespace, None));
    let all = cluster.chain(local.into_iter().flatten());
    all.filter_map(move |((of, name), object)| {
        let subjects = object["subjects"].as_array()?;
        let subject = subjects
            .iter()
            .find(|subject| is_subject(subject, of, user))?;
        Some(Binding {
            object,
            name,
            namespace: of,
            subject,
        })
    })
}

fn is_subject(subject: &Value, namespace: &str, user: &User) -> bool {
    let name = subject["name"].as_str().unwrap_or_default();
    match subject["kind"].as_str().unwrap_or_default() {
        "User" => user.name == name,
        "Group" => user.groups.iter().any(|group| group == name),
        "ServiceAccount" => {
            let of = subject["namespace"].as_str().unwrap_or(namespace);
            user.name
                .strip_prefix("system:serviceaccount:")
                .and_then(|rest| rest.split_once(':'))
                .is_some_and(|account| account == (of, name))
        }
        _ => false,
    }
}

impl Binding<'_> {
    fn role(&self) -> (&str, &str) {
        let text = |key: &str| self.object["roleRef"][key].as_str().unwrap_or_default();
        (text("kind"), text("name"))
    }

    fn rules<'s>(&self, state: &'s State) -> Option<&'s [Value]> {
        rules_of(state, self.namespace, self.object)
    }

    fn missing(&self) -> String {
        let (kind, name) = self.role();
        format!("{}.{GROUP} {name:?} not found", kind.to_lowercase())
    }
}

impl fmt::Display for Binding<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace {
            "" => write!(f, "ClusterRoleBinding {:?}", self.name)?,
            namespace => write!(f, "RoleBinding \"{}/{namespace}\"", self.name)?,
        }
        let (kind, name) = self.role();
        let text = |key: &str| self.subject[key].as_str().unwrap_or_default();
        write!(f, " of {kind} {name:?} to {} ", text("kind"))?;
        match self.subject["namespace"].as_str() {
            Some(namespace) => write!(f, "\"{}/{namespace}\"", text("name")),
            None => write!(f, "{:?}", text("name")),
        }
    }
}

/// Returns the rules of the role that a binding names; `None` if the role does not exist.
pub(crate) fn rules_of<'a>(
    state: &'a State,
    namespace: &str,
    binding: &Value,
) -> Option<&'a [Value]> {
    let name = binding["roleRef"]["name"].as_str().unwrap_or_default();
    let (plural, of) = match binding["roleRef"]["kind"].as_str() {
        Some("Role") => ("roles", namespace),
        _ => ("clusterroles", ""),
    };
    let role = state
        .store
        .get(&key(plural), &(of.to_owned(), name.to_owned()))?;
    Some(role["rules"].as_array().map_or(&[][..], Vec::as_slice))
}

/// Returns all rules that a user has in a namespace, the cluster's among them.
pub(crate) fn rules_of_user(state: &State, user: &User, namespace: &str) -> Vec<Value> {
    if is_privileged(user) {
        return vec![json!({
            "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "nonResourceURLs": ["*"],
        })];
    }
    let rules = bindings(state, user, namespace).filter_map(|binding| binding.rules(state));
    rules.flatten().cloned().collect()
}

/// Returns the strings of a list; an empty iterator if the value is not a list.
fn each<'a>(rule: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    let list = rule[key].as_array().into_iter().flatten();
    list.filter_map(Value::as_str)
}

fn rule_allows(rule: &Value, attributes: &Attributes<'_>) -> bool {
    let has =
        |key: &str, wanted: &str| each(rule, key).any(|known| known == "*" || known == wanted);
    if !has("verbs", attributes.verb) {
        return false;
    }
    if let Some(path) = attributes.path {
        return each(rule, "nonResourceURLs").any(|known| covers_path(known, path));
    }
    if !has("apiGroups", attributes.group) {
        return false;
    }
    let combined = attributes.combined();
    let resource = each(rule, "resources").any(|known| {
        let of_any = known.strip_prefix("*/");
        known == "*"
            || known == combined
            || (!attributes.subresource.is_empty() && of_any == Some(attributes.subresource))
    });
    let mut names = each(rule, "resourceNames").peekable();
    resource && (names.peek().is_none() || names.any(|known| known == attributes.name))
}

/// Returns whether the path of a rule, which may end with `*`, covers a path.
pub(crate) fn covers_path(rule: &str, path: &str) -> bool {
    rule == path || (rule.ends_with('*') && path.starts_with(rule.trim_end_matches('*')))
}
