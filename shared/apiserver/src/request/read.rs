//! The verbs get and list.

use base64::Engine as _;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::objects;
use crate::objects::selector::Selector;
use crate::request::call::Call;
use crate::request::message::Response;
use crate::request::scale;
use crate::request::watch::{bad_version, too_old};
use crate::store::state::State;
use crate::store::{Name, range};

/// Answers with one object, or with its Scale.
///
/// # Errors
/// 404 if the object does not exist.
pub(crate) fn get(state: &State, call: &Call<'_>) -> Result<Response, ApiError> {
    let target = &call.target;
    let Some(object) = state.store.get(&target.resource.key(), &target.key()) else {
        return Err(ApiError::not_found(&target.resource, &target.name));
    };
    if target.sub() == "scale" {
        return Ok(Response::json(200, scale::of(&target.resource, object)));
    }
    let object = objects::in_version(&target.resource, object);
    call.object(&target.resource, 200, object)
}

/// Answers with a list, or with a page of one.
///
/// # Errors
/// Parameters that are not valid; 410 for a version that is no longer known.
pub(crate) fn list(state: &State, call: &Call<'_>) -> Result<Response, ApiError> {
    let query = &call.query;
    let target = &call.target;
    let resource = &target.resource;
    let limit: usize = match query.get("limit") {
        "" => 0,
        text => text.parse().map_err(|_| {
            ApiError::bad_request(format!(
                "strconv.ParseInt: parsing {text:?}: invalid syntax"
            ))
        })?,
    };
    let selector = Selector::parse(query.get("labelSelector"), query.get("fieldSelector"))?;
    let version = query.get("resourceVersion");
    let mode = query.get("resourceVersionMatch");
    check_match(mode, version, query.get("continue"))?;
    let selector = selector.of(resource, "")?;
    if !version.is_empty() && version.parse::<u64>().is_err() {
        return Err(ApiError::bad_request(format!(
            "invalid resource version: {}",
            bad_version(version)
        )));
    }
    if let Ok(wanted) = version.parse::<u64>()
        && wanted > state.store.version()
    {
        return Err(too_large(wanted, state.store.version()));
    }
    let newest = state.store.version();
    // With a limit and without a mode, the version is matched exactly.
    let exact = mode == "Exact" || (mode.is_empty() && limit > 0);
    let (after, at) = match (query.get("continue"), version.parse::<u64>()) {
        ("", Ok(wanted)) if exact && wanted > 0 => (None, wanted),
        ("", _) => (None, newest),
        (token, _) => {
            let (name, at) = read_token(token)?;
            (Some(name), at)
        }
    };
    let Some(objects) = state.store.at(&resource.key(), at) else {
        return Err(expired(after.is_some()));
    };
    let mut items = Vec::new();
    let mut last: Option<Name> = None;
    let mut remaining = 0_usize;
    for (name, object) in range(&objects, &target.namespace, after.as_ref()) {
        if limit > 0 && items.len() == limit {
            remaining += 1;
            continue;
        }
        if selector.matches(object) {
            items.push(objects::in_version(resource, object));
            last = Some(name.clone());
        }
    }
    let mut metadata = json!({"resourceVersion": at.to_string()});
    if remaining > 0 {
        if let Some(last) = last {
            metadata["continue"] = token(&last, at).into();
        }
        if selector.is_empty() {
            metadata["remainingItemCount"] = remaining.into();
        }
    }
    call.list(resource, metadata, items)
}

fn check_match(mode: &str, version: &str, token: &str) -> Result<(), ApiError> {
    use crate::error::FieldError;
    let problem = match mode {
        "" => return Ok(()),
        _ if !token.is_empty() => FieldError::forbidden(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden when continue is provided",
        ),
        _ if version.is_empty() => FieldError::forbidden(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        "NotOlderThan" => return Ok(()),
        "Exact" if version == "0" => FieldError::forbidden(
            "resourceVersionMatch",
            "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
        ),
        "Exact" => return Ok(()),
        other => FieldError::unsupported(
            "resourceVersionMatch",
            &other.into(),
            &["Exact", "NotOlderThan", ""],
        ),
    };
    Err(ApiError::invalid(
        "meta.k8s.io",
        "ListOptions",
        "",
        &[problem],
    ))
}

fn too_large(wanted: u64, newest: u64) -> ApiError {
    let mut error = ApiError::new(
        504,
        "Timeout",
        format!("Timeout: Too large resource version: {wanted}, current: {newest}"),
    );
    error.details.insert(
        "causes".into(),
        json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]),
    );
    error.details.insert("retryAfterSeconds".into(), 1.into());
    error.retry_after = Some(1);
    error
}

fn expired(paging: bool) -> ApiError {
    let mut error = too_old(0, 0);
    if !paging {
        error.message = "The resourceVersion for the provided list is too old.".to_owned();
        return error;
    }
    error.message = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.".to_owned();
    error
}

fn token(after: &Name, at: u64) -> String {
    let text = json!({"v": "meta.k8s.io/v1", "rv": at, "after": [after.0, after.1]}).to_string();
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text)
}

/// Returns the message about bytes that are not JSON: Go's own, as far as the first byte shows.
fn json_problem(first: Option<&u8>) -> String {
    match first {
        None => "unexpected end of JSON input".to_owned(),
        Some(b'{') => "not valid JSON".to_owned(),
        Some(&byte @ (b'\'' | b'"')) => {
            format!(
                "invalid character '{}' looking for beginning of value",
                char::from(byte)
            )
        }
        Some(&byte) => {
            let shown = match byte {
                0x20..=0x7e | 0xa1..=0xff => char::from(byte).to_string(),
                other => format!("\\u{other:04x}"),
            };
            format!("invalid character '{shown}' looking for beginning of value")
        }
    }
}

fn read_token(token: &str) -> Result<(Name, u64), ApiError> {
    let refusal = |detail: &str| {
        ApiError::bad_request(format!(
            "invalid continue token: continue key is not valid: {detail}"
        ))
    };
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD
        .decode(token.trim_end_matches('='))
        .map_err(|_| refusal("illegal base64 data at input byte 0"))?;
    let value: Value =
        serde_json::from_slice(&bytes).map_err(|_| refusal(&json_problem(bytes.first())))?;
    let part = |index: usize| {
        value["after"][index]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    if value["v"] != "meta.k8s.io/v1" {
        let version = value["v"].as_str().unwrap_or_default();
        return Err(refusal(&format!(
            "server does not recognize this encoded version {version}"
        )));
    }
    let at = value["rv"]
        .as_u64()
        .ok_or_else(|| refusal("incorrect encoded start resourceVersion"))?;
    Ok(((part(0), part(1)), at))
}
