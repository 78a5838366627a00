//! Resources that are questions, and subresources that are created.

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::options::Options;
use crate::rbac;
use crate::request::Response;
use crate::server::{Call, Server};

impl Server {
    /// Reviews answer at once and store nothing.
    pub(crate) fn virtual_resource(
        &self,
        verb: &str,
        call: &Call<'_>,
    ) -> Result<Option<Response>, ApiError> {
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
            ("authentication.k8s.io", "tokenreviews") => {
                return Err(ApiError::new(
                    501,
                    "NotImplemented",
                    "this server has no tokens of its own to review",
                ));
            }
            ("", "componentstatuses") => Response::json(
                200,
                json!({"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": []}),
            ),
            _ => return Ok(None),
        };
        let _ = verb;
        Ok(Some(answer))
    }

    pub(crate) fn create_subresource(
        &mut self,
        call: &mut Call<'_>,
        options: &Options,
    ) -> Result<Response, ApiError> {
        let _ = options;
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

fn who_am_i(server: &Server, call: &Call<'_>) -> Result<Response, ApiError> {
    let resource = &call.target.resource;
    crate::write::body_object(call, resource)?;
    let mut object = server.fresh(resource);
    let mut info = json!({"username": call.user.name, "groups": call.user.groups});
    if !call.user.uid.is_empty() {
        info["uid"] = call.user.uid.clone().into();
    }
    if !call.user.extra.is_empty() {
        let extra = call.user.extra.iter().map(|(k, v)| (k.clone(), json!(v)));
        info["extra"] = Value::Object(extra.collect());
    }
    object["metadata"] = json!({"creationTimestamp": call.moment.stamp()});
    object["status"] = json!({"userInfo": info});
    Ok(Response::json(201, object))
}
