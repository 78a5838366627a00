//! The connection to a server of NATS that needs TLS and a login.

use driftless_harness::nats::NatsServer;
use driftless_kernel::ports::{Blobs as _, Precondition};
use driftless_nats::{NatsBlobs, NatsOptions, connect};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

fn options(server: String) -> NatsOptions {
    NatsOptions {
        servers: vec![server],
        credentials: None,
        certificate_authority: None,
        prefix: "secure".to_owned(),
        replicas: 1,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_and_a_login() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name);
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).expect("an authority");
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().expect("a key");
    let own = CertificateParams::new(vec!["127.0.0.1".to_owned()]);
    let own = own.and_then(|params| params.signed_by(&key, &issuer));
    for (name, text) in [
        ("ca.pem", authority.pem()),
        ("server.pem", own.expect("a certificate").pem()),
        ("server.key", key.serialize_pem()),
    ] {
        std::fs::write(file(name), text).expect("write");
    }
    let path = |name: &str| file(name).display().to_string();
    let server = NatsServer::start_with(&[
        "--tls",
        "--tlscert",
        &path("server.pem"),
        "--tlskey",
        &path("server.key"),
        "--user",
        "worker",
        "--pass",
        "hidden",
    ]);
    let host = server.url().replace("nats://", "");
    let address = |login: &str| format!("tls://{login}{host}");
    let trusting = |login: &str| NatsOptions {
        certificate_authority: Some(file("ca.pem")),
        ..options(address(login))
    };
    let nats = connect(&trusting("worker:hidden@")).await.expect("connect");
    let blobs = NatsBlobs::new(&nats);
    let written = blobs.put("a", "b".into(), Precondition::Absent).await;
    written.expect("write");
    assert!(blobs.get("a").await.expect("read").is_some());
    for refused in [
        trusting("worker:wrong@"),
        trusting(""),
        options(address("worker:hidden@")),
    ] {
        let refused = connect(&refused).await.err().expect("a refusal");
        let text = refused.to_string();
        assert!(text.starts_with("connect to NATS"), "{text}");
        assert!(!text.contains("hidden"), "{text}");
    }
}
