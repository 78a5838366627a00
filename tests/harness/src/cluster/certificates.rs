//! A certificate authority, the server's certificate for 127.0.0.1, the key
//! that signs service account tokens, and the authority of the clients.

use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// The authority of the client certificates that the server accepts.
pub(super) struct ClientAuthority(Issuer<'static, KeyPair>);

impl ClientAuthority {
    /// Replaces the authority by a new one: the server reads `clients.crt` again when it changes.
    pub fn write(directory: &Path) -> Self {
        let (certificate, issuer) = authority();
        let new = directory.join("clients.crt.new");
        std::fs::write(&new, certificate).expect("write the clients' authority");
        std::fs::rename(&new, directory.join("clients.crt"))
            .expect("replace the clients' authority");
        Self(issuer)
    }

    /// Returns a certificate and its key (PEM) for a user in a group.
    pub fn sign(&self, user: &str, group: &str) -> (String, String) {
        let key = KeyPair::generate().expect("generate a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names to refuse");
        params.distinguished_name.push(DnType::CommonName, user);
        params
            .distinguished_name
            .push(DnType::OrganizationName, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.0);
        let certificate = certificate.expect("sign the client's certificate");
        (certificate.pem(), key.serialize_pem())
    }
}

/// Writes `server.crt`, `server.key`, `sa.key` and `sa.pub`; returns the authority as PEM.
pub(super) fn write(directory: &Path) -> String {
    let put = |name: &str, text: String| {
        std::fs::write(directory.join(name), text).unwrap_or_else(|e| panic!("write {name}: {e}"));
    };
    let (authority, issuer) = authority();
    let key = KeyPair::generate().expect("generate a key");
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let server = CertificateParams::new(names)
        .and_then(|params| params.signed_by(&key, &issuer))
        .expect("sign the server's certificate");
    put("server.crt", server.pem());
    put("server.key", key.serialize_pem());

    let accounts = KeyPair::generate().expect("generate a key");
    put("sa.key", accounts.serialize_pem());
    put("sa.pub", accounts.public_key_pem());
    authority
}

fn authority() -> (String, Issuer<'static, KeyPair>) {
    let key = KeyPair::generate().expect("generate a key");
    let mut params = CertificateParams::new(Vec::new()).expect("no names to refuse");
    params
        .distinguished_name
        .push(DnType::CommonName, "driftless test authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let certificate = params.self_signed(&key).expect("sign the authority");
    (certificate.pem(), Issuer::new(params, key))
}
