//! Privilege escalation: the rules of roles and bindings are checked against
//! the rights of the user that writes them.

use serde_json::Value;

use crate::authorization::{Attributes, decide, rules_of, rules_of_user};
use crate::error::ApiError;
use crate::resources::Resource;
use crate::store::state::State;
use crate::user::User;
use crate::values::{text, texts};

const GROUP: &str = "rbac.authorization.k8s.io";

/// One right of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Permission {
    group: String,
    resource: String,
    verb: String,
    name: String,
    path: Option<String>,
}

/// Refuses a role or a binding that grants more than the user holds.
pub(crate) fn check(
    state: &State,
    user: &User,
    resource: &Resource,
    object: &Value,
    live: Option<&Value>,
) -> Result<(), ApiError> {
    if resource.group != GROUP || resource.custom.is_some() {
        return Ok(());
    }
    let namespace = text(object, "/metadata/namespace");
    let name = text(object, "/metadata/name");
    let bindings = resource.plural.ends_with("bindings");
    let field = if bindings { "roleRef" } else { "rules" };
    let subjects = live.is_some_and(|live| live["subjects"] == object["subjects"]);
    if live.is_some_and(|live| live[field] == object[field]) && (!bindings || subjects) {
        return Ok(());
    }
    let (verb, plural, of) = if bindings {
        let plural = match text(object, "/roleRef/kind") {
            "Role" => "roles",
            _ => "clusterroles",
        };
        ("bind", plural, text(object, "/roleRef/name"))
    } else {
        ("escalate", resource.plural.as_str(), name)
    };
    let attributes = Attributes {
        verb,
        group: GROUP,
        resource: plural,
        namespace,
        name: of,
        ..Attributes::default()
    };
    if decide(state, user, &attributes).allowed {
        return Ok(());
    }
    let rules = if bindings {
        rules_of(state, namespace, object)
            .ok_or_else(|| ApiError::not_found(resource, text(object, "/roleRef/name")))?
            .to_vec()
    } else {
        object["rules"].as_array().cloned().unwrap_or_default()
    };
    let own = rules_of_user(state, user, namespace);
    let missing: Vec<Permission> = rules
        .iter()
        .flat_map(rights)
        .filter(|right| !own.iter().any(|rule| covers(rule, right)))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let groups: Vec<String> = user
        .groups
        .iter()
        .map(|group| format!("{group:?}"))
        .collect();
    let detail = format!(
        "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
        user.name,
        groups.join(" "),
        compact(&missing).join("\n")
    );
    let message = format!(
        "{}.{GROUP} {name:?} is forbidden: {detail}",
        resource.plural
    );
    let mut error = ApiError::new(403, "Forbidden", message);
    error.details.insert("name".into(), name.into());
    error.details.insert("group".into(), GROUP.into());
    error
        .details
        .insert("kind".into(), resource.plural.clone().into());
    Err(error)
}

fn rights(rule: &Value) -> Vec<Permission> {
    let mut out = Vec::new();
    let names = match texts(&rule["resourceNames"]) {
        names if names.is_empty() => vec![String::new()],
        names => names,
    };
    let verbs = texts(&rule["verbs"]);
    for group in texts(&rule["apiGroups"]) {
        for resource in texts(&rule["resources"]) {
            for verb in &verbs {
                out.extend(names.iter().map(|name| Permission {
                    group: group.clone(),
                    resource: resource.clone(),
                    verb: verb.clone(),
                    name: name.clone(),
                    path: None,
                }));
            }
        }
    }
    for path in texts(&rule["nonResourceURLs"]) {
        out.extend(verbs.iter().map(|verb| Permission {
            group: String::new(),
            resource: String::new(),
            verb: verb.clone(),
            name: String::new(),
            path: Some(path.clone()),
        }));
    }
    out
}

fn covers(rule: &Value, right: &Permission) -> bool {
    let has = |key: &str, wanted: &str| {
        texts(&rule[key])
            .iter()
            .any(|known| known == "*" || known == wanted)
    };
    if !has("verbs", &right.verb) {
        return false;
    }
    if let Some(path) = &right.path {
        return texts(&rule["nonResourceURLs"]).iter().any(|known| {
            known == path
                || known
                    .strip_suffix('*')
                    .is_some_and(|prefix| path.starts_with(prefix))
        });
    }
    let sub = right
        .resource
        .split_once('/')
        .map(|(_, sub)| format!("*/{sub}"));
    let resource = has("resources", &right.resource)
        || sub.is_some_and(|sub| texts(&rule["resources"]).contains(&sub));
    let names = texts(&rule["resourceNames"]);
    has("apiGroups", &right.group) && resource && (names.is_empty() || names.contains(&right.name))
}

/// Returns the rights as rules, with the verbs of one resource together.
fn compact(missing: &[Permission]) -> Vec<String> {
    let mut lines: Vec<(Permission, Vec<String>)> = Vec::new();
    for right in missing {
        let same = lines.iter_mut().find(|(known, _)| {
            known.group == right.group
                && known.resource == right.resource
                && known.name == right.name
                && known.path == right.path
        });
        match same {
            Some((_, verbs)) => verbs.push(right.verb.clone()),
            None => lines.push((right.clone(), vec![right.verb.clone()])),
        }
    }
    let mut out: Vec<String> = lines
        .iter()
        .map(|(right, verbs)| {
            let verbs: Vec<String> = verbs.iter().map(|verb| format!("{verb:?}")).collect();
            let verbs = verbs.join(" ");
            if let Some(path) = &right.path {
                return format!("{{NonResourceURLs:[{path:?}], Verbs:[{verbs}]}}");
            }
            let names = if right.name.is_empty() {
                String::new()
            } else {
                format!(", ResourceNames:[{:?}]", right.name)
            };
            format!(
                "{{APIGroups:[{:?}], Resources:[{:?}]{names}, Verbs:[{verbs}]}}",
                right.group, right.resource
            )
        })
        .collect();
    out.sort();
    out
}
