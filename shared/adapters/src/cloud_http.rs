//! Requests to cloud services, whose hosts are not named by users: without retries and redirects,
//! with short answers.

use crate::tenant_http::{self, Clients};
use bytes::Bytes;
use driftless_kernel::ports::{Connection, ErrorKind, PortError, Result};
use reqwest::{Request, Response, StatusCode};
use serde_json::Value;
use std::time::Duration;

/// The time limit for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The limit of an answer, in bytes.
const ANSWER_LIMIT: u64 = 1 << 20;

/// Sends a request and returns the body of the answer. `allow_local` is true if the operator
/// configured the address, such as an emulator's.
///
/// # Errors
/// Fails without an answer, and for an answer without success: the error has the answer's code but
/// not its message, which may repeat what was sent.
pub(crate) async fn ask(
    clients: &Clients,
    request: http::Request<Vec<u8>>,
    allow_local: bool,
) -> Result<Bytes> {
    let place = request.uri().to_string();
    let place = place.split('?').next().unwrap_or_default();
    let broken = || PortError::new(ErrorKind::Invalid, format!("'{place}' is not a valid URL"));
    let request = Request::try_from(request).map_err(|_| broken())?;
    let connection = Connection {
        timeout: TIMEOUT,
        allow_local,
        ..Connection::default()
    };
    let sent = clients
        .client(request.url(), &connection)?
        .execute(request)
        .await;
    let response = sent.map_err(|error| tenant_http::unreachable(&error, place))?;
    if response.status().is_success() {
        return tenant_http::body(response, ANSWER_LIMIT, place).await;
    }
    Err(refusal(response, place).await)
}

/// Converts an answer without success to an error with its code, but without its message.
pub(crate) async fn refusal(response: Response, place: &str) -> PortError {
    let status = response.status();
    let mut error = tenant_http::refusal(&response, place);
    let body = tenant_http::body(response, ANSWER_LIMIT, place).await;
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

/// Returns the code of a refusal: Amazon has it in `__type`, OAuth in `error`, Google and Azure in
/// `error.status` or `error.code`, registries in `errors`. Entra ID's more specific number is
/// appended.
fn code(body: &Value) -> Option<String> {
    let error = &body["error"];
    let codes = [
        &body["__type"],
        error,
        &error["status"],
        &error["code"],
        &body["errors"][0]["code"],
    ];
    let code = codes.into_iter().find_map(Value::as_str)?;
    let code = code.rsplit('#').next().unwrap_or_default();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let is_code = (1..=64).contains(&code.len()) && code.bytes().all(is_plain);
    let number = body["error_codes"][0].as_u64();
    is_code.then(|| match number {
        Some(number) => format!("{code}, AADSTS{number}"),
        None => code.to_owned(),
    })
}

/// Returns whether the code of an answer with status 400 is a denial: Amazon's services and token
/// services do not use 403.
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
