//! The identity in a signer's certificate, and the identities that are accepted.

use driftless_flux::{Invalid, OidcIdentity};
use driftless_kernel::pattern;
use regex::Regex;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::der::asn1::{ObjectIdentifier, Utf8StringRef};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// Maximum number of identities in `spec.verify`.
const MAX_IDENTITIES: usize = 64;
/// Fulcio's type of name for a user of an issuer without mail addresses.
const USER_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.57264.1.7");

/// The accepted identities; an empty list accepts all.
#[derive(Debug, Default)]
pub(crate) struct Identities(Vec<Identity>);

#[derive(Debug)]
struct Identity {
    issuer: Option<Regex>,
    subject: Option<Regex>,
}

impl Identities {
    /// Compiles `spec.verify.matchOIDCIdentity`.
    ///
    /// # Errors
    /// A message about an invalid expression, or about too many identities.
    pub fn compile(wanted: &[OidcIdentity]) -> Result<Self, Invalid> {
        if wanted.len() > MAX_IDENTITIES {
            return Err(format!(
                "spec.verify.matchOIDCIdentity has more than {MAX_IDENTITIES} identities"
            )
            .into());
        }
        let identity = |wanted: &OidcIdentity| {
            let issuer = compile("issuer", &wanted.issuer)?;
            let subject = compile("subject", &wanted.subject)?;
            Ok(Identity { issuer, subject })
        };
        wanted
            .iter()
            .map(identity)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Returns whether there are identities and each has an issuer and a subject: cosign refuses
    /// bundles without them.
    pub fn are_named(&self) -> bool {
        let named = |one: &Identity| one.issuer.is_some() && one.subject.is_some();
        !self.0.is_empty() && self.0.iter().all(named)
    }

    /// Returns whether a certificate of this issuer and these subjects is accepted.
    pub fn have(&self, issuer: &str, subjects: &[String]) -> bool {
        let is_theirs = |one: &Identity| {
            let subject = |wanted: &Regex| subjects.iter().any(|own| wanted.is_match(own));
            (one.issuer.as_ref()).is_none_or(|wanted| wanted.is_match(issuer))
                && one.subject.as_ref().is_none_or(subject)
        };
        self.0.is_empty() || self.0.iter().any(is_theirs)
    }
}

/// Compiles an expression in Go's syntax; returns nothing if it is empty.
fn compile(field: &str, expression: &str) -> Result<Option<Regex>, Invalid> {
    if expression.is_empty() {
        return Ok(None);
    }
    let compiled = pattern(expression);
    compiled
        .map(Some)
        .map_err(|error| Invalid::from(format!("malformed {field} in identity: {error}")))
}

/// Returns the names of a certificate's subject: mail addresses, URIs, hosts and user names.
pub(super) fn subjects(certificate: &[u8]) -> Option<Vec<String>> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let names = certificate.tbs_certificate.get::<SubjectAltName>().ok()?;
    let names = names.map(|(_, names)| names.0).unwrap_or_default();
    Some(names.iter().filter_map(subject).collect())
}

fn subject(name: &GeneralName) -> Option<String> {
    match name {
        GeneralName::Rfc822Name(text) | GeneralName::DnsName(text) => Some(text.to_string()),
        GeneralName::UniformResourceIdentifier(text) => Some(text.to_string()),
        GeneralName::OtherName(other) if other.type_id == USER_NAME => {
            Some(Utf8StringRef::try_from(&other.value).ok()?.to_string())
        }
        _ => None,
    }
}
