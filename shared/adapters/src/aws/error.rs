//! Converts errors of AWS SDKs to errors of ports.

use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use driftless_kernel::ports::{ErrorKind, PortError};

/// Converts an SDK's error to an error of ports. The message begins with the operation, such as
/// `send to the queue`.
pub fn to_error<E: ProvideErrorMetadata>(
    operation: &str,
    error: &SdkError<E, HttpResponse>,
) -> PortError {
    let SdkError::ServiceError(answer) = error else {
        let (kind, reason) = match error {
            SdkError::ConstructionFailure(_) => (ErrorKind::Invalid, "the request cannot be made"),
            SdkError::TimeoutError(_) => (ErrorKind::Unavailable, "no answer in time"),
            SdkError::ResponseError(_) => (ErrorKind::Unavailable, "the answer is not valid"),
            _ => (
                ErrorKind::Unavailable,
                "no connection, or no credentials for it",
            ),
        };
        return PortError::new(kind, format!("{operation}: {reason}"));
    };
    let status = answer.raw().status().as_u16();
    let code = answer.err().code().unwrap_or("no code");
    let kind = match status {
        429 => ErrorKind::RateLimited,
        500..=599 => ErrorKind::Unavailable,
        _ if code.contains("Throttl") || code == "RequestLimitExceeded" => ErrorKind::RateLimited,
        401 | 403 => ErrorKind::Denied,
        // Secrets Manager and SQS answer 400 in cases for which S3 has other statuses.
        _ if code.contains("AccessDenied") || code.contains("ExpiredToken") => ErrorKind::Denied,
        404 => ErrorKind::NotFound,
        _ if code.contains("NotFound") || code.contains("NonExistent") => ErrorKind::NotFound,
        409 | 412 => ErrorKind::Conflict,
        _ => ErrorKind::Invalid,
    };
    // Only the code: a service's message can contain accounts and roles.
    PortError::new(kind, format!("{operation}: {status} {code}"))
}

/// Returns the HTTP status and the error code of a service's answer; `None` without an answer.
pub fn status_and_code<E: ProvideErrorMetadata>(
    error: &SdkError<E, HttpResponse>,
) -> Option<(u16, &str)> {
    match error {
        SdkError::ServiceError(answer) => Some((
            answer.raw().status().as_u16(),
            answer.err().code().unwrap_or_default(),
        )),
        _ => None,
    }
}
