//! Resources that are questions, and subresources that are created.

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::merge::managers;
use crate::ownership::writer;
use crate::rbac;
use crate::registry::Resource;
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
            ) => rbac::review(self, call)?,
            ("authorization.k8s.io", "selfsubjectrulesreviews") => rbac::rules_review(self, call)?,
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
