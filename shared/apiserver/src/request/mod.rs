//! Handles requests: impersonation, authorization, then the handler of the verb.

pub(crate) mod api;
mod apply;
mod body;
mod call;
mod checks;
mod delete;
mod discovery;
pub(crate) mod message;
mod openapi;
mod options;
mod patch;
mod query;
mod read;
mod reviews;
mod scale;
mod target;
mod tokens;
mod unstored;
pub(crate) mod watch;
mod write;

use crate::authentication::impersonation::effective_user;
use crate::authorization::authorize;
use crate::error::ApiError;
use crate::resources::Resource;
use crate::values::clock::Clock;

use api::Api;
use call::Call;
use message::{Request, Response};
use query::Query;
use target::{RequestInfo, Target, selected_name};

/// Subresources that need a node.
const NOT_SERVED: [&str; 7] = [
    "attach",
    "binding",
    "eviction",
    "exec",
    "log",
    "portforward",
    "proxy",
];

/// Answers a request.
///
/// # Errors
/// The error whose Status is the answer.
pub(crate) fn answer(api: &mut Api, request: &Request, clock: Clock) -> Result<Response, ApiError> {
    let place = RequestInfo::parse(&request.path);
    let query = Query::parse(&request.query);
    let verb = place.verb(&request.method, &query);
    let name = selected_name(&query);
    let attributes = place.attributes(verb, name.as_deref());
    let user = effective_user(
        &api.state,
        &mut api.impersonation,
        &request.user,
        &request.headers,
        &attributes,
    )?;
    authorize(&api.state, &user, &attributes)?;
    let found = match &place {
        RequestInfo::Other(path) => return discovery::answer(&api.state, request, path),
        RequestInfo::Resource {
            api_version,
            plural,
            ..
        } => api.state.resource(api_version, plural),
    };
    let Some(resource) = found else {
        return match &place {
            RequestInfo::Resource { api_version, .. } if !api.state.is_builtin(api_version) => {
                Ok(discovery::not_found())
            }
            _ => Err(ApiError::no_such_path()),
        };
    };
    let Some(target) = Target::new(place, resource) else {
        return Ok(discovery::not_found());
    };
    let mut call = Call {
        request,
        query,
        target,
        clock,
        warnings: Vec::new(),
        user,
    };
    let mut response = dispatch(api, verb, &mut call).unwrap_or_else(Response::from);
    for warning in call.warnings {
        let text = warning.replace('\\', "\\\\").replace('"', "\\\"");
        response
            .headers
            .push(("Warning".into(), format!("299 - \"{text}\"")));
    }
    Ok(response)
}

/// Calls the handler of a verb, if the resource supports the verb.
fn dispatch(api: &mut Api, verb: &str, call: &mut Call<'_>) -> Result<Response, ApiError> {
    let target = &call.target;
    let allowed =
        match &target.subresource {
            Some(sub) => target.resource.subresources.get(sub).ok_or_else(|| {
                match target.resource.custom {
                    Some(_) => ApiError::not_found(&target.resource, &target.name),
                    None => ApiError::no_such_path(),
                }
            })?,
            None => &target.resource.verbs,
        };
    let named = match verb {
        "create" => target.name.is_empty() || target.subresource.is_some(),
        "update" | "patch" => !target.name.is_empty(),
        _ => true,
    };
    if !named || !allowed.iter().any(|known| known == verb) {
        return Err(ApiError::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        ));
    }
    if target.resource.custom.is_none() && NOT_SERVED.contains(&target.sub()) {
        return Err(ApiError::new(
            501,
            "NotImplemented",
            format!(
                "this server has no nodes: {}/{} is not served",
                target.resource.plural,
                target.sub()
            ),
        ));
    }
    let warning = deprecation(&target.resource);
    call.warnings.extend(warning);
    if let Some(response) = reviews::answer(api, call)? {
        return Ok(response);
    }
    let state = &mut api.state;
    match verb {
        "get" => read::get(state, call),
        "list" => read::list(state, call),
        "watch" => {
            let watch = watch::open(state, &call.target, &call.query, call.form())?;
            Ok(Response::watch(watch))
        }
        "create" => match &call.target.subresource {
            None => write::create(state, call),
            Some(sub) if call.target.resource.is("", "serviceaccounts") && sub == "token" => {
                tokens::request_token(api, call)
            }
            Some(sub) => Err(ApiError::new(
                501,
                "NotImplemented",
                format!(
                    "this server does not create {}/{sub}",
                    call.target.resource.plural
                ),
            )),
        },
        "update" => write::update(state, call),
        "patch" => patch::patch(state, call),
        "delete" => delete::delete(state, call),
        "deletecollection" => delete::delete_collection(state, call),
        other => Err(ApiError::new(
            405,
            "MethodNotAllowed",
            format!("{other} is not supported"),
        )),
    }
}

/// Returns the deprecation warning of a resource.
fn deprecation(resource: &Resource) -> Option<String> {
    if let Some(custom) = &resource.custom {
        return custom.deprecation(&resource.version);
    }
    resource.is("", "endpoints").then(|| {
        "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned()
    })
}
