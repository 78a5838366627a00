//! The user of a request: tokens of service accounts, and impersonation.

pub(crate) mod impersonation;
pub(crate) mod tokens;
