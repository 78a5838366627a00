//! Reviews: resources that are answered at once and not stored.

use serde_json::{Value, json};

use crate::authorization::{Attributes, decide, rules_of_user};
use crate::error::ApiError;
use crate::objects;
use crate::objects::Validation;
use crate::request::api::Api;
use crate::request::body::body_object;
use crate::request::call::Call;
use crate::request::message::Response;
use crate::request::tokens::review_token;
use crate::request::unstored::{user_info, with_managers};
use crate::store::state::State;
use crate::user::User;
use crate::values::texts;

/// Returns the answer to a review, which is not stored; `None` for a resource that is not a review.
///
/// # Errors
/// A body that is not an object of the kind.
pub(crate) fn answer(api: &Api, call: &Call<'_>) -> Result<Option<Response>, ApiError> {
    let state = &api.state;
    let resource = &call.target.resource;
    if resource.custom.is_some() || call.target.subresource.is_some() {
        return Ok(None);
    }
    let answer = match (resource.group.as_str(), resource.plural.as_str()) {
        (
            "authorization.k8s.io",
            "selfsubjectaccessreviews" | "subjectaccessreviews" | "localsubjectaccessreviews",
        ) => review(state, call)?,
        ("authorization.k8s.io", "selfsubjectrulesreviews") => rules_review(state, call)?,
        ("authentication.k8s.io", "selfsubjectreviews") => who_am_i(call)?,
        ("authentication.k8s.io", "tokenreviews") => review_token(api, call)?,
        ("", "componentstatuses") => Response::json(
            200,
            json!({"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": []}),
        ),
        _ => return Ok(None),
    };
    Ok(Some(answer))
}

fn who_am_i(call: &Call<'_>) -> Result<Response, ApiError> {
    let resource = &call.target.resource;
    body_object(call, resource)?;
    let mut object = objects::new_object(resource);
    object["metadata"] = json!({"creationTimestamp": call.clock.stamp()});
    object["status"] = json!({"userInfo": user_info(&call.user)});
    Ok(Response::json(201, object))
}

/// Answers a SubjectAccessReview, a LocalSubjectAccessReview or a SelfSubjectAccessReview.
fn review(state: &State, call: &Call<'_>) -> Result<Response, ApiError> {
    let resource = &call.target.resource;
    let document = body_object(call, resource)?.value;
    let mut warnings = Vec::new();
    let mut object = objects::read(resource, &document, Validation::Ignore, &mut warnings)?;
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
    let decision = decide(state, &user, &attributes);
    object["status"] = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        object["status"]["reason"] = decision.reason.into();
    }
    let object = with_managers(state, call, resource, object);
    call.object(resource, 201, object)
}

/// Returns all rules of a user in a namespace, for SelfSubjectRulesReview.
fn rules_review(state: &State, call: &Call<'_>) -> Result<Response, ApiError> {
    let resource = &call.target.resource;
    let document = body_object(call, resource)?.value;
    let namespace = document["spec"]["namespace"].as_str().unwrap_or_default();
    let found = rules_of_user(state, &call.user, namespace);
    let (urls, resources): (Vec<Value>, Vec<Value>) = found
        .into_iter()
        .partition(|rule| rule.get("nonResourceURLs").is_some());
    let object = json!({
        "kind": resource.kind, "apiVersion": resource.api_version(), "metadata": {}, "spec": {},
        "status": {"resourceRules": resources, "nonResourceRules": urls, "incomplete": false},
    });
    Ok(Response::json(201, object))
}
