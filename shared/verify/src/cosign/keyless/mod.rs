//! Signatures without keys: a short-lived certificate of an authority (Fulcio) names the signer,
//! and a log (Rekor) the time.
//!
//! They are checked as cosign 3.0 has sigstore-go check them for source-controller 1.9: the
//! certificate's chain to an authority of the trusted root at the time of the signature, the
//! promise of a certificate log in it, the signed time and, for a bundle, the inclusion of the
//! entry in the transparency log, that the entry is for this signature, and the identity in the
//! certificate. The library of the Sigstore project does all but the last. It checks bundles only:
//! a signature of cosign 2 is put into one. Such a signature has the log's promise and no proof;
//! Flux would query the log for an entry that is missing in the annotations, which driftless does
//! not.

mod identity;
mod rekor;
mod root;
#[cfg(test)]
mod tests;

use super::SignatureError;
use crate::key::first_block;
use driftless_flux::shorten;
use driftless_kernel::ports::Layer;
pub(crate) use identity::Identities;
pub(crate) use root::Root;
use sigstore_verify::types::{
    Bundle, CertificateContent, DerCertificate, DigestBytes, HashAlgorithm, MediaType,
    MessageDigest, MessageSignature, Sha256Hash, SignatureBytes, SignatureContent,
    TimestampVerificationData, VerificationMaterial, VerificationMaterialContent,
};
use sigstore_verify::{VerificationPolicy, VerificationResult};

/// Maximum number of log entries, and of time stamps, of a bundle; a signer makes one.
const MAX_EVIDENCE: usize = 8;
/// Maximum bytes of an annotation with a certificate.
const MAX_CERTIFICATE_BYTES: usize = 64 << 10;
/// Maximum bytes of a message of the library, and of an identity in a message.
const MAX_MESSAGE_BYTES: usize = 300;
/// The annotation of a layer with the signer's certificate, in PEM.
const CERTIFICATE: &str = "dev.sigstore.cosign/certificate";

/// The accepted identities, and the root that vouches for them.
pub(crate) struct Keyless {
    root: Root,
    identities: Identities,
}

impl Keyless {
    pub fn new(root: Root, identities: Identities) -> Self {
        Self { root, identities }
    }

    /// Checks a bundle of cosign 3 about the manifest with that digest (`sha256:…`).
    pub fn check_bundle(&self, bytes: &[u8], digest: &str) -> Result<(), SignatureError> {
        if !self.identities.are_named() {
            return Err(SignatureError::NoIdentity);
        }
        let bundle = read(bytes)?;
        let certificate = bundle
            .signing_certificate()
            .ok_or(SignatureError::NoCertificate)?;
        let digest = digest.strip_prefix("sha256:").unwrap_or_default();
        let digest = Sha256Hash::from_hex(digest).map_err(|_| SignatureError::Digest)?;
        let policy = VerificationPolicy::any_identity();
        let verified = self.root.verifier().verify(digest, &bundle, &policy);
        self.accept(certificate, &verified.map_err(refusal)?)
    }

    /// Checks a signature of cosign 2 over a statement, by the certificate and the log entry in a
    /// layer's annotations.
    pub fn check_simple(
        &self,
        layer: &Layer,
        statement: &[u8],
        signature: &[u8],
    ) -> Result<(), SignatureError> {
        let certificate = certificate(layer)?;
        let content = CertificateContent::new(certificate.clone());
        let content = VerificationMaterialContent::Certificate(content);
        let material =
            VerificationMaterial::new(content).with_tlog_entries(vec![rekor::entry(layer)?]);
        let hash = DigestBytes::new(super::Hash::Sha256.of(statement));
        let signed = MessageSignature::new(SignatureBytes::from_bytes(signature))
            .with_message_digest(MessageDigest::new(HashAlgorithm::Sha2256, hash));
        let signed = SignatureContent::MessageSignature(signed);
        let bundle = Bundle::new(MediaType::Bundle0_1, material, signed);
        // Only the proof of inclusion is skipped, which this form does not have: the log's promise
        // is checked.
        let policy = VerificationPolicy::any_identity().skip_tlog_unsafe();
        let verified = self.root.verifier().verify(statement, &bundle, &policy);
        self.accept(&certificate, &verified.map_err(refusal)?)
    }

    fn accept(
        &self,
        certificate: &DerCertificate,
        checked: &VerificationResult,
    ) -> Result<(), SignatureError> {
        let issuer = checked.issuer().unwrap_or_default();
        let subjects =
            identity::subjects(certificate.as_bytes()).ok_or(SignatureError::Unreadable)?;
        match self.identities.have(issuer, &subjects) {
            true => Ok(()),
            false => Err(SignatureError::OtherIdentity {
                subject: shorten(&subjects.join(", "), MAX_MESSAGE_BYTES),
                issuer: shorten(issuer, MAX_MESSAGE_BYTES),
            }),
        }
    }
}

/// Reads a bundle with a statement, and removes the time stamps that cosign does not check.
fn read(bytes: &[u8]) -> Result<Bundle, SignatureError> {
    let text = std::str::from_utf8(bytes).map_err(|_| SignatureError::Unreadable)?;
    let mut bundle = Bundle::from_json(text).map_err(|_| SignatureError::Unreadable)?;
    if !matches!(bundle.content, SignatureContent::DsseEnvelope(_)) {
        return Err(SignatureError::Unreadable);
    }
    let material = &mut bundle.verification_material;
    let stamps = &mut material.timestamp_verification_data;
    if material.tlog_entries.len() > MAX_EVIDENCE || stamps.rfc3161_timestamps.len() > MAX_EVIDENCE
    {
        return Err(SignatureError::TooMuch(
            "too many log entries or time stamps",
        ));
    }
    // The time of a log entry counts; time stamps are for logs that record no time.
    if (material.tlog_entries.iter()).any(|entry| entry.integrated_time.is_some()) {
        *stamps = TimestampVerificationData::default();
    }
    Ok(bundle)
}

/// Returns the first certificate of a layer's annotation. The chain annotation is not needed: the
/// trusted root has it.
fn certificate(layer: &Layer) -> Result<DerCertificate, SignatureError> {
    let text = layer.annotations.get(CERTIFICATE);
    let text = text.ok_or(SignatureError::NoCertificate)?;
    if text.len() > MAX_CERTIFICATE_BYTES {
        return Err(SignatureError::TooMuch("a certificate that is too large"));
    }
    match first_block(text.as_bytes()) {
        Some(("CERTIFICATE", bytes)) => Ok(DerCertificate::new(bytes)),
        _ => Err(SignatureError::Unreadable),
    }
}

fn refusal(error: sigstore_verify::Error) -> SignatureError {
    SignatureError::NotVerified(shorten(&error.to_string(), MAX_MESSAGE_BYTES))
}
