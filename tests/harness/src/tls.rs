//! TLS on loopback, with a certificate of a generated authority.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::server::WebPkiClientVerifier;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A server's certificate and the authority that signed it.
pub(crate) struct Identity {
    pub authority: String,
    acceptor: TlsAcceptor,
}

/// A certificate of a client and its key, as PEM.
pub struct ClientCertificate {
    /// The authority that signed the certificates of the client and of the server.
    pub authority: String,
    /// The certificate of the client.
    pub certificate: String,
    /// The key of the client.
    pub key: String,
}

impl Identity {
    /// Generates an authority and a certificate for 127.0.0.1.
    pub fn new() -> Self {
        Self::generate(false).0
    }

    /// Generates an authority, a certificate for 127.0.0.1, and one for the only client that the
    /// server accepts.
    pub fn mutual() -> (Self, ClientCertificate) {
        Self::generate(true)
    }

    fn generate(asks_client: bool) -> (Self, ClientCertificate) {
        let key = KeyPair::generate().expect("generate a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names to refuse");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = params.self_signed(&key).expect("sign the authority");
        let issuer = Issuer::new(params, key);
        let client_key = KeyPair::generate().expect("generate a key");
        let client = CertificateParams::new(vec!["client".to_owned()])
            .and_then(|params| params.signed_by(&client_key, &issuer))
            .expect("sign the certificate");
        let key = KeyPair::generate().expect("generate a key");
        let own = CertificateParams::new(vec!["127.0.0.1".to_owned()])
            .and_then(|params| params.signed_by(&key, &issuer))
            .expect("sign the certificate");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der());
        let builder = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("the default versions");
        let builder = match asks_client {
            false => builder.with_no_client_auth(),
            true => {
                let mut roots = rustls::RootCertStore::empty();
                roots.add(authority.der().clone()).expect("an authority");
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
                builder.with_client_cert_verifier(verifier.build().expect("a verifier"))
            }
        };
        let config = builder
            .with_single_cert(vec![own.der().clone()], key.expect("a key"))
            .expect("a certificate and its key");
        let identity = Self {
            authority: authority.pem(),
            acceptor: TlsAcceptor::from(Arc::new(config)),
        };
        let client = ClientCertificate {
            authority: authority.pem(),
            certificate: client.pem(),
            key: client_key.serialize_pem(),
        };
        (identity, client)
    }

    /// Wraps a listener in TLS.
    pub fn listen(self, listener: TcpListener) -> TlsListener {
        let acceptor = self.acceptor;
        TlsListener { listener, acceptor }
    }
}

/// Accepts connections behind TLS.
pub(crate) struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

impl axum::serve::Listener for TlsListener {
    type Io = Box<dyn Stream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok((stream, address)) = self.listener.accept().await else {
                continue;
            };
            // A client that does not trust the certificate closes the connection.
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (Box::new(stream), address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
