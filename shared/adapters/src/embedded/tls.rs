//! Creates the certificate of a listener: a new certificate authority signs it, and its key is then
//! dropped.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::net::IpAddr;
use std::sync::Arc;

/// The TLS configuration of a listener.
pub(super) struct Tls {
    /// The authority's certificate as PEM.
    pub authority: String,
    pub config: Arc<ServerConfig>,
}

impl Tls {
    /// Creates a certificate for an address and `localhost`, signed by a new authority.
    pub(super) fn new(address: IpAddr) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let (authority, issuer) = authority()?;
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![address.to_string(), "localhost".to_owned()])?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params
            .distinguished_name
            .push(DnType::CommonName, "driftless API server");
        let certificate = params.signed_by(&key, &issuer)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            authority,
            config: Arc::new(config),
        })
    }
}

fn authority() -> Result<(String, Issuer<'static, KeyPair>), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::new())?;
    params
        .distinguished_name
        .push(DnType::CommonName, "driftless embedded authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let certificate = params.self_signed(&key)?;
    Ok((certificate.pem(), Issuer::new(params, key)))
}
