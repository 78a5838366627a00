//! Errors of AWS SDKs as errors of ports.

use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use driftless_core::ports::{ErrorKind, PortError};

/// What a service said, in the core's words. `what` says what was tried.
pub fn to_error<E: ProvideErrorMetadata>(
    what: &str,
    error: &SdkError<E, HttpResponse>,
) -> PortError {
    let SdkError::ServiceError(said) = error else {
        let (kind, why) = match error {
            SdkError::ConstructionFailure(_) => (ErrorKind::Invalid, "the request cannot be made"),
            SdkError::TimeoutError(_) => (ErrorKind::Unavailable, "no answer in time"),
            SdkError::ResponseError(_) => (ErrorKind::Unavailable, "the answer is broken"),
            _ => (
                ErrorKind::Unavailable,
                "no connection, or no credentials for it",
            ),
        };
        return PortError::new(kind, format!("{what}: {why}"));
    };
    let status = said.raw().status().as_u16();
    let code = said.err().code().unwrap_or("no code");
    let kind = match status {
        429 => ErrorKind::RateLimited,
        500..=599 => ErrorKind::Unavailable,
        _ if code.contains("Throttl") || code == "RequestLimitExceeded" => ErrorKind::RateLimited,
        401 | 403 => ErrorKind::Denied,
        // Secrets Manager and SQS say 400 for what S3 has codes for.
        _ if code.contains("AccessDenied") || code.contains("ExpiredToken") => ErrorKind::Denied,
        404 => ErrorKind::NotFound,
        _ if code.contains("NotFound") || code.contains("NonExistent") => ErrorKind::NotFound,
        409 | 412 => ErrorKind::Conflict,
        _ => ErrorKind::Invalid,
    };
    // The code alone: a service's text can name accounts and roles.
    PortError::new(kind, format!("{what}: {status} {code}"))
}

/// The HTTP status and the code of what a service said, if it said something.
pub fn said<E: ProvideErrorMetadata>(error: &SdkError<E, HttpResponse>) -> Option<(u16, &str)> {
    match error {
        SdkError::ServiceError(said) => Some((
            said.raw().status().as_u16(),
            said.err().code().unwrap_or_default(),
        )),
        _ => None,
    }
}
