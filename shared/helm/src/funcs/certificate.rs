//! X.509 certificates as sprig creates them with Go's `crypto/x509`.

use super::Out;
use super::dates::now;
use super::private_key::Key;
use super::render_context::random;
use driftless_gotmpl::{Exec, FuncError, Object, Value};
use rsa::signature::{SignatureEncoding as _, Signer as _};
use sha2::{Digest as _, Sha256};
use std::any::Any;
use std::borrow::Cow;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::asn1::{
    BitString, GeneralizedTime, Ia5String, ObjectIdentifier, OctetString, SetOfVec, UtcTime,
    Utf8StringRef,
};
use x509_cert::der::{Any as DerAny, Decode as _, DecodePem as _, Encode as _, EncodePem as _};
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, KeyUsages,
    SubjectAltName, SubjectKeyIdentifier,
};
use x509_cert::name::{Name, RdnSequence, RelativeDistinguishedName};
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};
use x509_cert::time::{Time, Validity};
use x509_cert::{TbsCertificate, Version};

/// sprig's `certificate`: two PEM strings.
pub(super) struct Certificate {
    pub cert: String,
    pub key: String,
}

impl Certificate {
    /// Returns the certificate in a value.
    pub fn of(value: &Value) -> Option<&Certificate> {
        match value {
            Value::Object(o) => o.as_any().downcast_ref(),
            _ => None,
        }
    }
}

impl Object for Certificate {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed("sprig.certificate")
    }
    fn fields(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("Cert", Value::str(&self.cert)),
            ("Key", Value::str(&self.key)),
        ]
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Returns the value for templates.
pub(super) fn object(cert: String, key: String) -> Out {
    Ok(Value::Object(Rc::new(Certificate { cert, key })))
}

/// The subject of a certificate and its alternative names.
pub(super) struct Names {
    pub common: String,
    pub ips: Vec<IpAddr>,
    pub dns: Vec<String>,
    pub days: i64,
    pub authority: bool,
}

/// Parses a certificate in PEM.
pub(super) fn parse_certificate(
    pem: &str,
    field: &str,
) -> Result<x509_cert::Certificate, FuncError> {
    let (start, tail) = (pem.find("-----BEGIN "), "-----END CERTIFICATE-----");
    let end = pem.find(tail).map(|i| i + tail.len());
    let block = start.zip(end).and_then(|(start, end)| pem.get(start..end));
    let block = block.ok_or("unable to decode certificate")?;
    x509_cert::Certificate::from_pem(block)
        .map_err(|e| format!("error parsing certificate: {field}.Bytes: {e}").into())
}

fn failed(error: impl std::fmt::Display) -> FuncError {
    format!("error creating certificate: {error}").into()
}

/// Issues a certificate for a key, signed by the parent or by itself, and returns its PEM.
pub(super) fn issue(
    exec: &mut Exec<'_>,
    names: &Names,
    key: &Key,
    parent: Option<(&x509_cert::Certificate, &Key)>,
) -> Result<String, FuncError> {
    exec.charge(match parent.map_or(key, |(_, signer)| signer) {
        Key::Rsa(_) => 60_000,
        _ => 40_000,
    })?;
    let public = key.public()?;
    let signer = parent.map_or(key, |(_, signer)| signer);
    let subject = common_name(&names.common)?;
    let issuer = match parent {
        Some((certificate, signer)) => {
            if signer.public()? != certificate.tbs_certificate.subject_public_key_info {
                return Err(failed(
                    "x509: provided PrivateKey doesn't match parent's PublicKey",
                ));
            }
            certificate.tbs_certificate.subject.clone()
        }
        None => subject.clone(),
    };
    let authority_key = match parent {
        Some((certificate, _)) if issuer != subject => key_id_of(certificate)?,
        _ => None,
    };
    let mut serial = [0; 16];
    random(exec)?.fill(&mut serial);
    let tbs = TbsCertificate {
        version: Version::V3,
        serial_number: SerialNumber::new(positive(&serial)).map_err(failed)?,
        signature: signer.algorithm(),
        issuer,
        validity: validity(exec, names.days)?,
        subject,
        extensions: Some(extensions(names, &public, authority_key)?),
        subject_public_key_info: public,
        issuer_unique_id: None,
        subject_unique_id: None,
    };
    let signature = signer.sign(&tbs.to_der().map_err(failed)?)?;
    let certificate = x509_cert::Certificate {
        tbs_certificate: tbs,
        signature_algorithm: signer.algorithm(),
        signature: BitString::from_bytes(&signature).map_err(failed)?,
    };
    certificate
        .to_pem(p256::pkcs8::LineEnding::LF)
        .map_err(failed)
}

/// Returns the bytes of a number without leading zeros, at least one.
fn positive(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|b| **b == 0).count();
    &bytes[zeros.min(bytes.len() - 1)..]
}

fn common_name(text: &str) -> Result<Name, FuncError> {
    if text.is_empty() {
        return Ok(RdnSequence::default());
    }
    // Go writes a PrintableString if possible.
    let printable = |c: char| c.is_ascii_alphanumeric() || " '()+,-./:=?".contains(c);
    let value = if text.chars().all(printable) {
        let text = x509_cert::der::asn1::PrintableStringRef::new(text).map_err(failed)?;
        DerAny::from(text)
    } else {
        DerAny::from(Utf8StringRef::new(text).map_err(failed)?)
    };
    let attribute = AttributeTypeAndValue {
        oid: ObjectIdentifier::new_unwrap("2.5.4.3"),
        value,
    };
    let set = SetOfVec::try_from(vec![attribute]).map_err(failed)?;
    Ok(RdnSequence(vec![RelativeDistinguishedName(set)]))
}

fn validity(exec: &Exec<'_>, days: i64) -> Result<Validity, FuncError> {
    let from = now(exec)?;
    let span = days.wrapping_mul(86_400_000_000_000);
    let to = from.plus(span);
    let time = |seconds: i64| -> Result<Time, FuncError> {
        let since = Duration::from_secs(u64::try_from(seconds).map_err(failed)?);
        match UtcTime::from_unix_duration(since) {
            Ok(time) => Ok(Time::UtcTime(time)),
            Err(_) => GeneralizedTime::from_unix_duration(since)
                .map(Time::GeneralTime)
                .map_err(failed),
        }
    };
    Ok(Validity {
        not_before: time(from.seconds)?,
        not_after: time(to.seconds)?,
    })
}

fn extension(oid: &str, critical: bool, value: Vec<u8>) -> Result<Extension, FuncError> {
    Ok(Extension {
        extn_id: ObjectIdentifier::new(oid).map_err(failed)?,
        critical,
        extn_value: OctetString::new(value).map_err(failed)?,
    })
}

const SUBJECT_KEY_ID: &str = "2.5.29.14";

fn extensions(
    names: &Names,
    public: &SubjectPublicKeyInfoOwned,
    authority_key: Option<OctetString>,
) -> Result<Vec<Extension>, FuncError> {
    let mut usage = KeyUsages::DigitalSignature | KeyUsages::KeyEncipherment;
    if names.authority {
        usage |= KeyUsages::KeyCertSign;
    }
    let purposes = ExtendedKeyUsage(vec![
        ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1"),
        ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2"),
    ]);
    let constraints = BasicConstraints {
        ca: names.authority,
        path_len_constraint: None,
    };
    let der = |d: x509_cert::der::Result<Vec<u8>>| d.map_err(failed);
    let mut all = vec![
        extension("2.5.29.15", true, der(KeyUsage(usage).to_der())?)?,
        extension("2.5.29.37", false, der(purposes.to_der())?)?,
        extension("2.5.29.19", true, der(constraints.to_der())?)?,
    ];
    if names.authority {
        let key = public.subject_public_key.raw_bytes();
        let id = OctetString::new(&Sha256::digest(key)[..20]).map_err(failed)?;
        all.push(extension(
            SUBJECT_KEY_ID,
            false,
            der(SubjectKeyIdentifier(id).to_der())?,
        )?);
    }
    if let Some(id) = authority_key {
        let id = AuthorityKeyIdentifier {
            key_identifier: Some(id),
            ..Default::default()
        };
        all.push(extension("2.5.29.35", false, der(id.to_der())?)?);
    }
    let mut alternatives = Vec::new();
    for name in &names.dns {
        alternatives.push(GeneralName::DnsName(Ia5String::new(name).map_err(failed)?));
    }
    for ip in &names.ips {
        let bytes = match ip {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
                Some(ip) => ip.octets().to_vec(),
                None => ip.octets().to_vec(),
            },
        };
        alternatives.push(GeneralName::IpAddress(
            OctetString::new(bytes).map_err(failed)?,
        ));
    }
    if !alternatives.is_empty() {
        let critical = names.common.is_empty();
        all.push(extension(
            "2.5.29.17",
            critical,
            der(SubjectAltName(alternatives).to_der())?,
        )?);
    }
    Ok(all)
}

/// Returns a certificate's own key identifier.
fn key_id_of(certificate: &x509_cert::Certificate) -> Result<Option<OctetString>, FuncError> {
    let mut all = certificate.tbs_certificate.extensions.iter().flatten();
    let Some(found) = all.find(|e| e.extn_id.to_string() == SUBJECT_KEY_ID) else {
        return Ok(None);
    };
    let id = SubjectKeyIdentifier::from_der(found.extn_value.as_bytes()).map_err(failed)?;
    Ok(Some(id.0))
}

impl Key {
    fn public(&self) -> Result<SubjectPublicKeyInfoOwned, FuncError> {
        use rsa::pkcs8::EncodePublicKey as _;
        let document = match self {
            Key::Rsa(key) => key.to_public_key().to_public_key_der(),
            Key::Ec(key) => key.public_key().to_public_key_der(),
            Key::Ed(key) => key.verifying_key().to_public_key_der(),
        };
        SubjectPublicKeyInfoOwned::from_der(document.map_err(failed)?.as_bytes()).map_err(failed)
    }

    fn algorithm(&self) -> AlgorithmIdentifierOwned {
        let (oid, parameters) = match self {
            Key::Rsa(_) => ("1.2.840.113549.1.1.11", Some(DerAny::null())),
            Key::Ec(_) => ("1.2.840.10045.4.3.2", None),
            Key::Ed(_) => ("1.3.101.112", None),
        };
        AlgorithmIdentifierOwned {
            oid: ObjectIdentifier::new_unwrap(oid),
            parameters,
        }
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, FuncError> {
        Ok(match self {
            Key::Rsa(key) => {
                let key = rsa::pkcs1v15::SigningKey::<rsa::sha2::Sha256>::new((**key).clone());
                key.try_sign(message).map_err(failed)?.to_vec()
            }
            Key::Ec(key) => {
                let key = p256::ecdsa::SigningKey::from(key);
                let signature: p256::ecdsa::DerSignature = key.try_sign(message).map_err(failed)?;
                signature.to_vec()
            }
            Key::Ed(key) => {
                use ed25519_dalek::Signer as _;
                key.try_sign(message).map_err(failed)?.to_vec()
            }
        })
    }
}
