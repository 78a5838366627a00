//! Who asks: service accounts by their tokens, and users whom others impersonate.

pub(crate) mod impersonation;
pub(crate) mod tokens;
