//! Certificates of signers: a chain as the Notary Project's specification requires it, up to a
//! trusted certificate.

use crate::key::{Hash, PublicKey, Scheme, first_block};
use driftless_flux::Invalid;
use std::time::Duration;
use x509_cert::Certificate;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode as _, Encode as _};
use x509_cert::ext::pkix::{
    AuthorityInfoAccessSyntax, BasicConstraints, CrlDistributionPoints, ExtendedKeyUsage, KeyUsage,
    KeyUsages,
};

/// Maximum number of certificates of one chain.
const MAX_LENGTH: usize = 10;

const OCSP: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.48.1");
/// The key purposes that a signer's certificate must not have: servers, clients, mail, time stamps,
/// OCSP.
const OTHER_PURPOSES: [ObjectIdentifier; 5] = [
    ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1"),
    ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2"),
    ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.4"),
    ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.8"),
    ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.9"),
];

/// A signer's certificate and those of its issuers, the root last. Each is verified to be issued by
/// the next one.
#[derive(Debug)]
pub(super) struct Chain(Vec<Certificate>);

/// Reads the certificate of an entry of a Secret: its first PEM block, or DER.
///
/// # Errors
/// The bytes are neither.
pub(super) fn trusted(text: &[u8]) -> Result<Certificate, &'static str> {
    let wrong = "is not a certificate: expected PEM (CERTIFICATE) or DER";
    let block = first_block(text);
    let bytes = match &block {
        Some(("CERTIFICATE", bytes)) => bytes,
        Some(_) => return Err(wrong),
        None => text,
    };
    Certificate::from_der(bytes).map_err(|_| wrong)
}

impl Chain {
    /// Reads and checks a chain: a signer's certificate, then authorities, each the issuer of the
    /// one before it, up to a self-signed one. The validity periods are not checked.
    ///
    /// # Errors
    /// A message about what is wrong with the chain.
    pub fn read(certificates: &[Vec<u8>]) -> Result<Self, Invalid> {
        if certificates.is_empty() || certificates.len() > MAX_LENGTH {
            return Err(format!("expected one to {MAX_LENGTH} certificates").into());
        }
        let read = |bytes: &Vec<u8>| Certificate::from_der(bytes);
        let chain = certificates.iter().map(read).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|_| "a certificate cannot be read")?;
        for (at, own) in chain.iter().enumerate() {
            let issuer = chain.get(at + 1);
            check_issuer(own, issuer, chain.len() == 1)?;
            match at {
                0 => check_signer(own)?,
                _ => check_authority(own, at - 1)?,
            }
        }
        Ok(Self(chain))
    }

    /// Returns the signer's certificate.
    pub fn signer(&self) -> &Certificate {
        &self.0[0]
    }

    /// Returns whether the chain has a trusted certificate.
    pub fn is_trusted(&self, trusted: &[Certificate]) -> bool {
        self.0.iter().any(|own| trusted.contains(own))
    }

    /// Returns a message about the first certificate that is not valid at a time (since 1970).
    pub fn invalid_at(&self, time: Duration) -> Option<String> {
        self.0.iter().find_map(|own| {
            let validity = &own.tbs_certificate.validity;
            let (from, to) = (validity.not_before, validity.not_after);
            let is_valid = from.to_unix_duration() <= time && time <= to.to_unix_duration();
            (!is_valid).then(|| {
                format!("a certificate of the signer's chain is valid from {from} to {to}")
            })
        })
    }

    /// Returns whether a certificate names a CRL or an OCSP service.
    pub fn is_revocable(&self) -> bool {
        let authorities = self.0.len().saturating_sub(1);
        self.0[..authorities].iter().any(|own| {
            let own = &own.tbs_certificate;
            let lists = !matches!(own.get::<CrlDistributionPoints>(), Ok(None));
            let services = match own.get::<AuthorityInfoAccessSyntax>() {
                Ok(None) => false,
                Ok(Some((_, places))) => places.0.iter().any(|one| one.access_method == OCSP),
                Err(_) => true,
            };
            lists || services
        })
    }
}

/// Reads the public key of a certificate.
pub(super) fn key(certificate: &Certificate) -> Option<PublicKey> {
    let info = &certificate.tbs_certificate.subject_public_key_info;
    PublicKey::from_der(&info.to_der().ok()?).ok()
}

fn check_issuer(
    own: &Certificate,
    issuer: Option<&Certificate>,
    alone: bool,
) -> Result<(), Invalid> {
    let issued_itself = is_issued_by(own, own);
    match issuer {
        None if issued_itself && (alone || is_authority(own)) => Ok(()),
        None => Err("the last certificate is not self-signed".into()),
        Some(_) if issued_itself && is_authority(own) => {
            Err("a certificate before the last one is self-signed".into())
        }
        Some(issuer) if is_authority(issuer) && is_issued_by(own, issuer) => Ok(()),
        Some(_) => Err("a certificate was not issued by the next one".into()),
    }
}

fn is_issued_by(own: &Certificate, issuer: &Certificate) -> bool {
    let scheme = match own.signature_algorithm.oid.to_string().as_str() {
        "1.2.840.113549.1.1.11" => Scheme::Pkcs1(Hash::Sha256),
        "1.2.840.113549.1.1.12" => Scheme::Pkcs1(Hash::Sha384),
        "1.2.840.113549.1.1.13" => Scheme::Pkcs1(Hash::Sha512),
        "1.2.840.10045.4.3.2" => Scheme::EcdsaDer(Hash::Sha256),
        "1.2.840.10045.4.3.3" => Scheme::EcdsaDer(Hash::Sha384),
        "1.2.840.10045.4.3.4" => Scheme::EcdsaDer(Hash::Sha512),
        "1.3.101.112" => Scheme::Ed25519,
        _ => return false,
    };
    let (tbs, names) = (&own.tbs_certificate, &issuer.tbs_certificate.subject);
    // The parsed certificate is encoded again, so that the checked bytes are exactly what was read.
    let signed = tbs.to_der().ok();
    let checked = signed.zip(own.signature.as_bytes()).zip(key(issuer));
    tbs.signature == own.signature_algorithm
        && tbs.issuer == *names
        && checked
            .is_some_and(|((signed, signature), key)| key.verifies(scheme, &signed, signature))
}

fn constraints(certificate: &Certificate) -> Option<BasicConstraints> {
    let found = certificate.tbs_certificate.get::<BasicConstraints>();
    found.ok().flatten().map(|(_, constraints)| constraints)
}

fn is_authority(certificate: &Certificate) -> bool {
    constraints(certificate).is_some_and(|constraints| constraints.ca)
}

fn usage(certificate: &Certificate) -> Result<KeyUsage, Invalid> {
    let found = certificate.tbs_certificate.get::<KeyUsage>();
    match found {
        Ok(Some((true, usage))) => Ok(usage),
        _ => Err("a certificate has no critical key usage".into()),
    }
}

fn check_authority(own: &Certificate, below: usize) -> Result<(), Invalid> {
    let constraints = constraints(own).filter(|constraints| constraints.ca);
    let constraints = constraints.ok_or("an issuer is not a certificate authority")?;
    if constraints
        .path_len_constraint
        .is_some_and(|limit| usize::from(limit) < below)
    {
        return Err("the chain below an issuer is longer than the issuer allows".into());
    }
    match usage(own)?.key_cert_sign() {
        true => Ok(()),
        false => Err("an issuer may not sign certificates".into()),
    }
}

fn check_signer(own: &Certificate) -> Result<(), Invalid> {
    if is_authority(own) {
        return Err("the signer's certificate is a certificate authority's".into());
    }
    let allowed = KeyUsages::DigitalSignature | KeyUsages::NonRepudiation;
    let usage = usage(own)?;
    if !usage.digital_signature() || !(usage.0 & !allowed).is_empty() {
        return Err("the signer's certificate must be for digital signatures alone".into());
    }
    let purposes = own.tbs_certificate.get::<ExtendedKeyUsage>();
    let purposes = purposes.map_err(|_| "the signer's certificate cannot be read")?;
    let others = purposes
        .is_some_and(|(_, all)| all.0.iter().any(|purpose| OTHER_PURPOSES.contains(purpose)));
    match others {
        true => Err("the signer's certificate is for another purpose than code signing".into()),
        false => Ok(()),
    }
}
