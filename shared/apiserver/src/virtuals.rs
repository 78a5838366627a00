//! Resources that are questions, and subresources that are created.

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::merge::managers;
use crate::ownership::writer;
use crate::rbac::{Attributes, decide, held};
use crate::registry::{Resource, texts};
use crate::request::{Response, User};
use crate::server::{Call, Server};
use crate::write::{set, take};

impl Server {
    /// Reviews answer at once and store nothing.
    pub(crate) fn virtual_resource(&self, call: &Call<'_>) -> Result<Option<Response>, ApiError> {
        let resource = &call.target.resource;
        if resource.custom.is_some() || call.target.subresource.is_some() {
            return Ok(None);
        }
        let answer = match (resource.group.as_str(), resource.plural.as_str()) {
            (
                "authorization.k8s.io",
                "selfsubjectaccessreviews" | "subjectaccessreviews" | "localsubjectaccessreviews",
            ) => review(self, call)?,
            ("authorization.k8s.io", "selfsubjectrulesreviews") => rules_review(self, call)?,
            ("authentication.k8s.io", "selfsubjectreviews") => who_am_i(self, call)?,
            ("authentication.k8s.io", "tokenreviews") => self.review_token(call)?,
            ("", "componentstatuses") => Response::json(
                200,
                json!({"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": []}),
            ),
            _ => return Ok(None),
        };
        Ok(Some(answer))
    }

    pub(crate) fn create_subresource(&mut self, call: &mut Call<'_>) -> Result<Response, ApiError> {
        if call.target.resource.is("", "serviceaccounts") && call.target.sub() == "token" {
            return self.request_token(call);
        }
        Err(ApiError::new(
            501,
            "NotImplemented",
            format!(
                "this server does not create {}/{}",
                call.target.resource.plural,
                call.target.sub()
            ),
        ))
    }
}

/// A user as the authentication API shows one.
pub(crate) fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        info["uid"] = user.uid.clone().into();
    }
    if !user.extra.is_empty() {
        let extra = user.extra.iter().map(|(k, v)| (k.clone(), json!(v)));
        info["extra"] = Value::Object(extra.collect());
    }
    info
}

/// The question with its owner, as if it had been created.
pub(crate) fn answered(
    server: &Server,
    call: &Call<'_>,
    resource: &Resource,
    mut object: Value,
) -> Value {
    let stamp = call.moment.stamp();
    let agent = call.request.header("user-agent").split('/').next();
    let sub = call.target.sub();
    let writer = writer(resource, sub, agent.unwrap_or_default(), &stamp);
    let without_status = |mut object: Value| {
        take(&mut object, &["status"]);
        object
    };
    let (old, new) = (server.fresh(resource), object.clone());
    let (old, new) = (without_status(old), without_status(new));
    let versions = server.versions(resource, sub);
    let known = managers::update(&versions, &old, &new, Vec::new(), &writer);
    set(
        &mut object,
        "metadata",
        "managedFields",
        managers::encode(known),
    );
    object
}

fn who_am_i(server: &Server, call: &Call<'_>) -> Result<Response, ApiError> {
    let resource = &call.target.resource;
    crate::body::body_object(call, resource)?;
    let mut object = server.fresh(resource);
    object["metadata"] = json!({"creationTimestamp": call.moment.stamp()});
    object["status"] = json!({"userInfo": user_info(&call.user)});
    Ok(Response::json(201, object))
}

/// Answers a SubjectAccessReview, a LocalSubjectAccessReview or a SelfSubjectAccessReview.
fn review(server: &Server, call: &Call<'_>) -> Result<Response, ApiError> {
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
    let attributes = Attributes {
        verb: of(&verb),
        group: of("/resourceAttributes/group"),
        resource: of("/resourceAttributes/resource"),
        subresource: of("/resourceAttributes/subresource"),
        namespace: of("/resourceAttributes/namespace"),
        name: of("/resourceAttributes/name"),
        path,
    };
    let decision = decide(server, &user, &attributes);
    object["status"] = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        object["status"]["reason"] = decision.reason.into();
    }
    let object = answered(server, call, resource, object);
    crate::table::Form::of(call).object(resource, 201, object)
}

/// All rules of a user in a namespace, for SelfSubjectRulesReview.
fn rules_review(server: &Server, call: &Call<'_>) -> Result<Response, ApiError> {
    let resource = &call.target.resource;
    let document = crate::body::body_object(call, resource)?.value;
    let namespace = document["spec"]["namespace"].as_str().unwrap_or_default();
    let found = held(server, &call.user, namespace);
    let (urls, resources): (Vec<Value>, Vec<Value>) = found
        .into_iter()
        .partition(|rule| rule.get("nonResourceURLs").is_some());
    let object = json!({
        "kind": resource.kind, "apiVersion": resource.api_version(), "metadata": {}, "spec": {},
        "status": {"resourceRules": resources, "nonResourceRules": urls, "incomplete": false},
    });
    Ok(Response::json(201, object))
}
