//! TokenRequest and TokenReview.

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::authentication::tokens::Issued;
use crate::error::{ApiError, FieldError};
use crate::objects;
use crate::objects::Validation;
use crate::request::api::Api;
use crate::request::body::body_object;
use crate::request::call::Call;
use crate::request::message::Response;
use crate::request::unstored::{user_info, with_managers};
use crate::resources::Resource;
use crate::store::state::State;
use crate::values::{join, text, texts};

const GROUP: &str = "authentication.k8s.io";
/// The audience of a token if the request has none.
const AUDIENCE: &str = "https://kubernetes.default.svc";
/// The allowed lifetime of a token, in seconds.
const LIFETIME: std::ops::RangeInclusive<i64> = 600..=1 << 32;

/// Handles `POST serviceaccounts/NAME/token`.
///
/// # Errors
/// An account that does not exist, and a request that is not valid.
pub(crate) fn request_token(api: &mut Api, call: &mut Call<'_>) -> Result<Response, ApiError> {
    let live = call.live(&api.state)?;
    let resource = request_resource(&call.target.resource);
    let document = body_object(call, &resource)?.value;
    let mut object = objects::read(&resource, &document, Validation::Warn, &mut call.warnings)?;
    let seconds = object["spec"]["expirationSeconds"].as_i64().unwrap_or(3600);
    check(seconds)?;
    object["spec"]["expirationSeconds"] = seconds.into();
    check_bound(
        &api.state,
        &object["spec"]["boundObjectRef"],
        &call.target.namespace,
    )?;
    let expires = call.clock.now + SignedDuration::from_secs(seconds);
    let metadata = &mut object["metadata"];
    metadata["name"] = call.target.name.clone().into();
    metadata["namespace"] = call.target.namespace.clone().into();
    metadata["uid"] = call.clock.uid().into();
    metadata["creationTimestamp"] = call.clock.stamp().into();
    let mut object = with_managers(&api.state, call, &resource, object);
    if object["spec"]["audiences"]
        .as_array()
        .is_none_or(Vec::is_empty)
    {
        object["spec"]["audiences"] = json!([AUDIENCE]);
    }
    let issued = Issued {
        namespace: call.target.namespace.clone(),
        account: call.target.name.clone(),
        uid: text(&live, "/metadata/uid").to_owned(),
        id: call.clock.uid(),
        audiences: texts(&object["spec"]["audiences"]),
        expires,
    };
    let token = api.tokens.issue(issued, &mut call.clock);
    object["status"] = json!({
        "token": token, "expirationTimestamp": crate::values::clock::seconds(expires),
    });
    Ok(Response::json(201, object))
}

/// Refuses a token that is bound to an object which does not exist.
fn check_bound(state: &State, bound: &Value, namespace: &str) -> Result<(), ApiError> {
    let kind = match text(bound, "/kind") {
        "" => return Ok(()),
        "Pod" => ("pods", namespace),
        "Secret" => ("secrets", namespace),
        "Node" => ("nodes", ""),
        other => {
            return Err(ApiError::bad_request(format!(
                "cannot bind token for object of type /v1, Kind={other}"
            )));
        }
    };
    let (plural, namespace) = kind;
    let name = text(bound, "/name");
    let key = (String::new(), plural.to_owned());
    if state
        .store
        .get(&key, &(namespace.to_owned(), name.to_owned()))
        .is_some()
    {
        return Ok(());
    }
    match state.resource("v1", plural) {
        Some(resource) => Err(ApiError::not_found(&resource, name)),
        None => Err(ApiError::no_such_path()),
    }
}

/// Answers a TokenReview.
///
/// # Errors
/// A body that is not a TokenReview.
pub(crate) fn review_token(api: &Api, call: &Call<'_>) -> Result<Response, ApiError> {
    let resource = &call.target.resource;
    let document = body_object(call, resource)?.value;
    let object = objects::read(resource, &document, Validation::Ignore, &mut Vec::new())?;
    let mut object = with_managers(&api.state, call, resource, object);
    let token = text(&object, "/spec/token");
    object["status"] = match api.tokens.find(&api.state, token, call.clock.now) {
        Some(issued) => {
            let user = user_info(&issued.user());
            json!({"authenticated": true, "user": user, "audiences": issued.audiences})
        }
        None => json!({"user": {}, "error": "invalid bearer token"}),
    };
    call.object(resource, 201, object)
}

fn check(seconds: i64) -> Result<(), ApiError> {
    if LIFETIME.contains(&seconds) {
        return Ok(());
    }
    let detail = if seconds < *LIFETIME.start() {
        "may not specify a duration less than 10 minutes"
    } else {
        "may not specify a duration larger than 2^32 seconds"
    };
    let problem = FieldError::invalid("spec.expirationSeconds", &seconds.into(), detail);
    Err(ApiError::invalid(GROUP, "TokenRequest", "", &[problem]))
}

/// Returns the type of the subresource's body.
fn request_resource(accounts: &Resource) -> Resource {
    let (version, kind) = ("v1", "TokenRequest");
    let api_version = join(GROUP, version);
    let id = accounts.schema.kinds.get(&format!("{api_version}/{kind}"));
    Resource {
        group: GROUP.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        plural: "tokenrequests".to_owned(),
        id: id.copied().unwrap_or(crate::schema::UNTYPED_GRANULAR),
        api_version,
        ..accounts.clone()
    }
}
