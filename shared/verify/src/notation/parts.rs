//! The parts of a signature of notation, as either encoding has them.

use std::time::Duration;

pub(super) const SCHEME: &str = "io.cncf.notary.signingScheme";
pub(super) const EXPIRY: &str = "io.cncf.notary.expiry";
pub(super) const SIGNING_TIME: &str = "io.cncf.notary.signingTime";
pub(super) const AUTHENTIC_TIME: &str = "io.cncf.notary.authenticSigningTime";
pub(super) const PLUGIN: &str = "io.cncf.notary.verificationPlugin";

/// The parts of an envelope; nothing in them has been checked.
pub(super) struct Parts {
    /// The signer's certificate and its issuers, DER.
    pub certificates: Vec<Vec<u8>>,
    pub attributes: Attributes,
    pub payload: Vec<u8>,
    /// The signed bytes.
    pub message: Vec<u8>,
    pub signature: Vec<u8>,
}

/// The signed attributes. Times are since 1970.
#[derive(Default)]
pub(super) struct Attributes {
    /// The algorithm's name in JWS, such as `ES256`.
    pub algorithm: String,
    pub content_type: String,
    pub scheme: String,
    pub signing_time: Option<Duration>,
    pub authentic_time: Option<Duration>,
    pub expiry: Option<Duration>,
    /// The names of the attributes that a verifier must support.
    pub critical: Vec<String>,
    /// True if the signature requires a verification plugin.
    pub wants_plugin: bool,
}
