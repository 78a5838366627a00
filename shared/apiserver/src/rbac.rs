//! Impersonation and RBAC.

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::registry::{Resource, texts};
use crate::request::{Request, Response, User};
use crate::server::{Call, Server};
use crate::target::Place;

const GROUP: &str = "rbac.authorization.k8s.io";

/// One question to RBAC.
#[derive(Clone, Debug, Default)]
pub(crate) struct Question<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    /// A path instead of a resource.
    pub path: Option<&'a str>,
}

impl Question<'_> {
    fn combined(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.to_owned()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }
}

/// May the user? With the binding that says so, for the reason's text.
pub(crate) fn allowed(server: &Server, user: &User, question: &Question<'_>) -> Option<String> {
    if user.groups.iter().any(|group| group == "system:masters") {
        return Some(String::new());
    }
    let key = |plural: &str| (GROUP.to_owned(), plural.to_owned());
    for ((_, name), binding) in server.store.list(&key("clusterrolebindings"), "", None) {
        if let Some(subject) = applies(binding, user)
            && rules(server, "", binding)
                .iter()
                .any(|rule| permits(rule, question))
        {
            return Some(because("ClusterRoleBinding", name, binding, &subject));
        }
    }
    if question.path.is_some() || question.namespace.is_empty() {
        return None;
    }
    for ((_, name), binding) in server
        .store
        .list(&key("rolebindings"), question.namespace, None)
    {
        if let Some(subject) = applies(binding, user)
            && rules(server, question.namespace, binding)
                .iter()
                .any(|rule| permits(rule, question))
        {
            let name = format!("{name}/{}", question.namespace);
            return Some(because("RoleBinding", &name, binding, &subject));
        }
    }
    None
}

fn because(kind: &str, name: &str, binding: &Value, subject: &str) -> String {
    format!(
        "RBAC: allowed by {kind} {name:?} of {} {:?} to {subject}",
        binding["roleRef"]["kind"].as_str().unwrap_or_default(),
        binding["roleRef"]["name"].as_str().unwrap_or_default()
    )
}

fn applies(binding: &Value, user: &User) -> Option<String> {
    let namespace = binding["metadata"]["namespace"]
        .as_str()
        .unwrap_or_default();
    binding["subjects"].as_array()?.iter().find_map(|subject| {
        let name = subject["name"].as_str().unwrap_or_default();
        let found = match subject["kind"].as_str().unwrap_or_default() {
            "User" => user.name == name,
            "Group" => user.groups.iter().any(|group| group == name),
            "ServiceAccount" => {
                let of = subject["namespace"].as_str().unwrap_or(namespace);
                user.name == format!("system:serviceaccount:{of}:{name}")
            }
            _ => false,
        };
        found.then(|| {
            let kind = subject["kind"].as_str().unwrap_or_default();
            match subject["namespace"].as_str() {
                Some(of) => format!("{kind} \"{name}/{of}\""),
                None => format!("{kind} {name:?}"),
            }
        })
    })
}

fn rules(server: &Server, namespace: &str, binding: &Value) -> Vec<Value> {
    rules_of(server, namespace, binding).unwrap_or_default()
}

/// The rules of the role that a binding names; `None` when there is no such role.
pub(crate) fn rules_of(server: &Server, namespace: &str, binding: &Value) -> Option<Vec<Value>> {
    let name = binding["roleRef"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let (plural, of) = match binding["roleRef"]["kind"].as_str() {
        Some("Role") => ("roles", namespace),
        _ => ("clusterroles", ""),
    };
    let key = (GROUP.to_owned(), plural.to_owned());
    let role = server.store.get(&key, &(of.to_owned(), name))?;
    let mut out = role["rules"].as_array().cloned().unwrap_or_default();
    for aggregated in aggregated(server, role) {
        out.extend(aggregated);
    }
    Some(out)
}

/// All rules that a user has in a namespace, the cluster's among them.
pub(crate) fn held(server: &Server, user: &User, namespace: &str) -> Vec<Value> {
    if user.groups.iter().any(|group| group == "system:masters") {
        return vec![json!({
            "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "nonResourceURLs": ["*"],
        })];
    }
    let key = |plural: &str| (GROUP.to_owned(), plural.to_owned());
    let mut out = Vec::new();
    let cluster = server.store.list(&key("clusterrolebindings"), "", None);
    for (_, binding) in cluster.filter(|(_, binding)| applies(binding, user).is_some()) {
        out.extend(rules(server, "", binding));
    }
    if !namespace.is_empty() {
        let local = server.store.list(&key("rolebindings"), namespace, None);
        for (_, binding) in local.filter(|(_, binding)| applies(binding, user).is_some()) {
            out.extend(rules(server, namespace, binding));
        }
    }
    out
}

/// The rules of an aggregated role come from the roles that its selectors find.
fn aggregated(server: &Server, role: &Value) -> Vec<Vec<Value>> {
    let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array();
    let Some(selectors) = selectors else {
        return Vec::new();
    };
    let key = (GROUP.to_owned(), "clusterroles".to_owned());
    server
        .store
        .list(&key, "", None)
        .filter(|(_, other)| {
            selectors.iter().any(|selector| {
                let wanted = selector["matchLabels"].as_object();
                wanted.is_some_and(|wanted| {
                    !wanted.is_empty()
                        && wanted
                            .iter()
                            .all(|(k, v)| other["metadata"]["labels"].get(k) == Some(v))
                })
            })
        })
        .map(|(_, other)| other["rules"].as_array().cloned().unwrap_or_default())
        .collect()
}

fn permits(rule: &Value, question: &Question<'_>) -> bool {
    let has = |key: &str, wanted: &str| {
        texts(&rule[key])
            .iter()
            .any(|known| known == "*" || known == wanted)
    };
    if !has("verbs", question.verb) {
        return false;
    }
    if let Some(path) = question.path {
        return texts(&rule["nonResourceURLs"]).iter().any(|known| {
            known == "*"
                || known == path
                || known
                    .strip_suffix('*')
                    .is_some_and(|prefix| path.starts_with(prefix))
        });
    }
    let combined = question.combined();
    let resource = texts(&rule["resources"]).iter().any(|known| {
        known == "*"
            || *known == combined
            || (!question.subresource.is_empty() && *known == format!("*/{}", question.subresource))
    });
    let names = texts(&rule["resourceNames"]);
    has("apiGroups", question.group)
        && resource
        && (names.is_empty() || names.iter().any(|known| known == question.name))
}

/// The user whom the request is for: impersonation headers are checked and followed.
pub(crate) fn impersonate(server: &Server, request: &Request) -> Result<User, ApiError> {
    let name = request.header("impersonate-user");
    let groups: Vec<String> = request
        .header_all("impersonate-group")
        .map(str::to_owned)
        .collect();
    let uid = request.header("impersonate-uid");
    let mut extra: Vec<(String, Vec<String>)> = Vec::new();
    for (header, value) in &request.headers {
        let lower = header.to_ascii_lowercase();
        if let Some(key) = lower.strip_prefix("impersonate-extra-") {
            let key = crate::request::decode(key);
            match extra.iter_mut().find(|(known, _)| *known == key) {
                Some((_, values)) => values.push(value.clone()),
                None => extra.push((key, vec![value.clone()])),
            }
        }
    }
    let mut real = request.user.clone();
    if name.is_empty() {
        if groups.is_empty() && uid.is_empty() && extra.is_empty() {
            return Ok(real);
        }
        let list: Vec<String> = groups.iter().map(|group| format!("{group:?}")).collect();
        let groups = if list.is_empty() {
            "[]string(nil)".to_owned()
        } else {
            format!("[]string{{{}}}", list.join(", "))
        };
        return Err(ApiError::bad_request(format!(
            "requested &user.DefaultInfo{{Name:\"\", UID:{uid:?}, Groups:{groups}, Extra:map[string][]string(nil)}} without impersonating a user name"
        )));
    }
    let account = name
        .strip_prefix("system:serviceaccount:")
        .and_then(|rest| rest.split_once(':'));
    let mut questions: Vec<(&str, &str, String, String)> = vec![match account {
        Some((namespace, account)) => (
            "",
            "serviceaccounts",
            namespace.to_owned(),
            account.to_owned(),
        ),
        None => ("", "users", String::new(), name.to_owned()),
    }];
    questions.extend(
        groups
            .iter()
            .map(|g| ("", "groups", String::new(), g.clone())),
    );
    for (group, resource, namespace, name) in &questions {
        let question = Question {
            verb: "impersonate",
            group,
            resource,
            namespace,
            name,
            ..Question::default()
        };
        if allowed(server, &real, &question).is_none() {
            return Err(denied(server, &real, &question));
        }
    }
    let mut all = groups;
    if let Some((namespace, _)) = account
        && all.is_empty()
    {
        all.push("system:serviceaccounts".to_owned());
        all.push(format!("system:serviceaccounts:{namespace}"));
    }
    let anonymous = name == "system:anonymous";
    if !anonymous && !all.iter().any(|g| g == "system:authenticated") {
        all.push("system:authenticated".to_owned());
    }
    if anonymous && !all.iter().any(|g| g == "system:unauthenticated") {
        all.push("system:unauthenticated".to_owned());
    }
    real.name = name.to_owned();
    real.uid = uid.to_owned();
    real.groups = all;
    real.extra = extra;
    Ok(real)
}

fn denied(server: &Server, user: &User, question: &Question<'_>) -> ApiError {
    let combined = question.combined();
    let scope = if question.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {:?}", question.namespace)
    };
    let what = format!(
        "User {:?} cannot {} resource {combined:?} in API group {:?} {scope}",
        user.name, question.verb, question.group
    );
    let what = format!("{what}{}", missing_roles(server, user, question));
    let of = if question.group.is_empty() {
        question.resource.to_owned()
    } else {
        format!("{}.{}", question.resource, question.group)
    };
    let message = if question.name.is_empty() {
        format!("{of} is forbidden: {what}")
    } else {
        format!("{of} {:?} is forbidden: {what}", question.name)
    };
    let mut error = ApiError::new(403, "Forbidden", message);
    if !question.name.is_empty() {
        error.details.insert("name".into(), question.name.into());
    }
    if !question.group.is_empty() {
        error.details.insert("group".into(), question.group.into());
    }
    error
        .details
        .insert("kind".into(), question.resource.into());
    error
}

/// Bindings of the user to roles that do not exist, as a denial mentions them.
fn missing_roles(server: &Server, user: &User, question: &Question<'_>) -> String {
    let key = |plural: &str| (GROUP.to_owned(), plural.to_owned());
    let mut found = Vec::new();
    let cluster = server.store.list(&key("clusterrolebindings"), "", None);
    let mut bindings: Vec<&Value> = cluster.map(|(_, binding)| binding.as_ref()).collect();
    if !question.namespace.is_empty() {
        let local = server
            .store
            .list(&key("rolebindings"), question.namespace, None);
        bindings.extend(local.map(|(_, binding)| binding.as_ref()));
    }
    for binding in bindings
        .into_iter()
        .filter(|binding| applies(binding, user).is_some())
    {
        let kind = binding["roleRef"]["kind"].as_str().unwrap_or_default();
        let name = binding["roleRef"]["name"].as_str().unwrap_or_default();
        let (plural, of) = match kind {
            "Role" => ("roles", question.namespace),
            _ => ("clusterroles", ""),
        };
        if server
            .store
            .get(&key(plural), &(of.to_owned(), name.to_owned()))
            .is_none()
        {
            found.push(format!(
                "{}.{GROUP} {name:?} not found",
                kind.to_lowercase()
            ));
        }
    }
    match found.as_slice() {
        [] => String::new(),
        [one] => format!(": RBAC: {one}"),
        many => format!(": RBAC: [{}]", many.join(", ")),
    }
}

/// Refuses what RBAC does not allow.
pub(crate) fn authorize(
    server: &Server,
    user: &User,
    verb: &str,
    place: &Place,
    resource: Option<&Resource>,
) -> Result<(), ApiError> {
    let Place::Resource {
        api_version,
        namespace,
        plural,
        name,
        subresource,
        ..
    } = place
    else {
        return Ok(());
    };
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let _ = resource;
    let question = Question {
        verb,
        group,
        resource: plural,
        subresource,
        namespace,
        name,
        path: None,
    };
    match allowed(server, user, &question) {
        Some(_) => Ok(()),
        None => Err(denied(server, user, &question)),
    }
}

/// An apply that creates needs the right to create.
pub(crate) fn authorize_create(server: &Server, call: &Call<'_>) -> Result<(), ApiError> {
    let target = &call.target;
    let question = Question {
        verb: "create",
        group: &target.resource.group,
        resource: &target.resource.plural,
        subresource: target.sub(),
        namespace: &target.namespace,
        name: &target.name,
        path: None,
    };
    match allowed(server, &call.user, &question) {
        Some(_) => Ok(()),
        None => Err(denied(server, &call.user, &question)),
    }
}

/// Refuses paths outside of resources.
pub(crate) fn authorize_path(
    server: &Server,
    user: &User,
    method: &str,
    path: &str,
) -> Result<(), ApiError> {
    let verb = match method {
        "GET" => "get",
        "HEAD" => "head",
        "POST" => "post",
        "PUT" => "put",
        "PATCH" => "patch",
        "DELETE" => "delete",
        "OPTIONS" => "options",
        _ => "",
    };
    let question = Question {
        verb,
        path: Some(path),
        ..Question::default()
    };
    if allowed(server, user, &question).is_some() {
        return Ok(());
    }
    let message = format!(
        "forbidden: User {:?} cannot {verb} path {path:?}",
        user.name
    );
    let mut error = ApiError::new(403, "Forbidden", message);
    error.detailed = true;
    Err(error)
}

/// SubjectAccessReview and its sisters.
pub(crate) fn review(server: &Server, call: &Call<'_>) -> Result<Response, ApiError> {
    let resource = &call.target.resource;
    let document = crate::body::body_object(call, resource)?.value;
    let mut warnings = Vec::new();
    let mut object = server.read_object(
        resource,
        &document,
        crate::options::Validation::Ignore,
        &mut warnings,
    )?;
    let spec = object["spec"].clone();
    let user = if resource.plural.starts_with("self") {
        call.user.clone()
    } else {
        User {
            name: spec["user"].as_str().unwrap_or_default().to_owned(),
            groups: texts(&spec["groups"]),
            ..User::default()
        }
    };
    let of = |pointer: &str| {
        spec.pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let path = spec
        .pointer("/nonResourceAttributes/path")
        .and_then(Value::as_str);
    let base = if path.is_some() {
        "/nonResourceAttributes"
    } else {
        "/resourceAttributes"
    };
    let verb = format!("{base}/verb");
    let question = Question {
        verb: of(&verb),
        group: of("/resourceAttributes/group"),
        resource: of("/resourceAttributes/resource"),
        subresource: of("/resourceAttributes/subresource"),
        namespace: of("/resourceAttributes/namespace"),
        name: of("/resourceAttributes/name"),
        path,
    };
    object["status"] = match allowed(server, &user, &question) {
        Some(reason) if reason.is_empty() => json!({"allowed": true}),
        Some(reason) => json!({"allowed": true, "reason": reason}),
        None => json!({"allowed": false}),
    };
    let object = crate::virtuals::answered(server, call, resource, object);
    crate::table::Form::of(call).object(resource, 201, object)
}

/// All rules of a user in a namespace, for SelfSubjectRulesReview.
pub(crate) fn rules_review(server: &Server, call: &Call<'_>) -> Result<Response, ApiError> {
    let document = crate::body::body_object(call, &call.target.resource)?.value;
    let namespace = document["spec"]["namespace"].as_str().unwrap_or_default();
    let found = held(server, &call.user, namespace);
    let (urls, resources): (Vec<Value>, Vec<Value>) = found
        .into_iter()
        .partition(|rule| rule.get("nonResourceURLs").is_some());
    let mut object = document.clone();
    object["status"] =
        json!({"resourceRules": resources, "nonResourceRules": urls, "incomplete": false});
    Ok(Response::json(201, object))
}
