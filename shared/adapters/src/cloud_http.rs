//! Services of clouds, whose hosts no user names: asked once, without a redirect, and their answers are short.

use crate::tenant_http::{self, Clients};
use bytes::Bytes;
use driftless_core::ports::{Connection, ErrorKind, PortError, Result};
use reqwest::{Request, Response, StatusCode};
use serde_json::Value;
use std::time::Duration;

/// How long a service may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an answer.
const ANSWER: u64 = 1 << 20;

/// The answer to a request. `allow_local`: the address is the operator's own word, such as an emulator's.
///
/// # Errors
/// No answer, or a refusal: with its code, and without its text, which may repeat what was sent.
pub(crate) async fn ask(
    clients: &Clients,
    request: http::Request<Vec<u8>>,
    allow_local: bool,
) -> Result<Bytes> {
    let place = request.uri().to_string();
    let place = place.split('?').next().unwrap_or_default();
    let broken = || PortError::new(ErrorKind::Invalid, format!("'{place}' is not a valid URL"));
    let request = Request::try_from(request).map_err(|_| broken())?;
    let how = Connection {
        timeout: TIMEOUT,
        allow_local,
        ..Connection::default()
    };
    let sent = clients.client(request.url(), &how)?.execute(request).await;
    let response = sent.map_err(|error| tenant_http::unreachable(&error, place))?;
    if response.status().is_success() {
        return tenant_http::body(response, ANSWER, place).await;
    }
    Err(refusal(response, place).await)
}

async fn refusal(response: Response, place: &str) -> PortError {
    let status = response.status();
    let mut error = tenant_http::refusal(&response, place);
    let body = tenant_http::body(response, ANSWER, place).await;
    let body = body
        .ok()
        .and_then(|body| serde_json::from_slice(&body).ok());
    if let Some(code) = body.as_ref().and_then(code) {
        error.message = format!("{} ({code})", error.message);
        if status == StatusCode::BAD_REQUEST && is_denial(&code) {
            error.kind = ErrorKind::Denied;
        }
    }
    error
}

/// What a service calls its refusal: Amazon in `__type`, OAuth in `error`, Google and Azure in `error.status` or `error.code`,
/// registries in `errors`. Entra ID has a number that says more.
fn code(body: &Value) -> Option<String> {
    let error = &body["error"];
    let told = [
        &body["__type"],
        error,
        &error["status"],
        &error["code"],
        &body["errors"][0]["code"],
    ];
    let told = told.into_iter().find_map(Value::as_str)?;
    let told = told.rsplit('#').next().unwrap_or_default();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let fits = (1..=64).contains(&told.len()) && told.bytes().all(is_plain);
    let number = body["error_codes"][0].as_u64();
    fits.then(|| match number {
        Some(number) => format!("{told}, AADSTS{number}"),
        None => told.to_owned(),
    })
}

/// Services of Amazon and token services say 400 to who may not.
fn is_denial(code: &str) -> bool {
    [
        "AccessDenied",
        "ExpiredToken",
        "invalid_client",
        "invalid_grant",
        "unauthorized_client",
    ]
    .iter()
    .any(|known| code.contains(known))
}

#[cfg(test)]
mod tests {
    use super::code;
    use serde_json::json;

    #[test]
    fn codes_without_texts() {
        for (body, expected) in [
            (
                json!({"__type": "com.amazon#AccessDeniedException", "message": "m"}),
                Some("AccessDeniedException"),
            ),
            (
                json!({"error": "invalid_client", "error_description": "d", "error_codes": [700213]}),
                Some("invalid_client, AADSTS700213"),
            ),
            (
                json!({"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "m"}}),
                Some("PERMISSION_DENIED"),
            ),
            (
                json!({"error": {"code": "AuthorizationFailed", "message": "m"}}),
                Some("AuthorizationFailed"),
            ),
            (
                json!({"errors": [{"code": "UNAUTHORIZED", "message": "m"}]}),
                Some("UNAUTHORIZED"),
            ),
            (json!({"error": "a text with a secret"}), None),
            (json!(["a"]), None),
        ] {
            assert_eq!(code(&body).as_deref(), expected);
        }
    }
}
