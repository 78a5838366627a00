//! TLS of the servers of tests, with a certificate that signs itself.

use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// Returns the certificate for a name as PEM, and TLS with it. `protocols` are those that the
/// server can speak, the preferred one first.
pub fn server(name: &str, protocols: &[&str]) -> (String, TlsAcceptor) {
    let own = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let key = PrivateKeyDer::from_pem_slice(own.signing_key.serialize_pem().as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .unwrap();
    let protocols = protocols.iter().map(|name| name.as_bytes().to_vec());
    config.alpn_protocols = protocols.collect();
    (own.cert.pem(), TlsAcceptor::from(Arc::new(config)))
}
