//! `driftless create secret tls`, and the certificates of other Secrets.

use super::{Secret, read};
use crate::create::flags::Given as _;
use crate::create::{Common, Named, names};
use crate::error::{EXIT_CODES, Error};
use rustls::crypto::aws_lc_rs;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

const EXAMPLES: &str = "Examples:
  driftless create secret tls certs --tls-crt-file client.crt --tls-key-file client.key \\
    --ca-crt-file ca.crt --export > certs.yaml";

/// Create or update a Secret with certificates
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    flags: TlsFlags,
}

/// The flags for certificates.
#[derive(clap::Args)]
pub struct TlsFlags {
    /// The file with the client's certificate
    #[arg(long, value_name = "FILE")]
    tls_crt_file: Option<String>,
    /// The file with the client's key
    #[arg(long, value_name = "FILE")]
    tls_key_file: Option<String>,
    /// The file with the certificates of authorities
    #[arg(long, value_name = "FILE")]
    ca_crt_file: Option<String>,
}

impl TlsFlags {
    /// The files.
    pub fn files(&self) -> Files<'_> {
        Files {
            certificate: self.tls_crt_file.given(),
            key: self.tls_key_file.given(),
            authorities: self.ca_crt_file.given(),
        }
    }
}

/// Files with certificates.
pub struct Files<'a> {
    /// The client's certificate.
    pub certificate: Option<&'a str>,
    /// The client's key.
    pub key: Option<&'a str>,
    /// The certificates of authorities.
    pub authorities: Option<&'a str>,
}

impl Args {
    /// The Secret.
    ///
    /// # Errors
    /// Files that cannot be read or do not fit together.
    pub fn secret(&self, common: &Common) -> Result<Secret, Error> {
        let labels = names::labels(&self.named.labels)?;
        let secret = Secret::new(&self.named.name, common, labels);
        let files = self.flags.files();
        if !files.are_a_pair()? && files.authorities.is_none() {
            let what = "no CA certificate or client certificate pair found";
            return Err(
                Error::usage(what).next("give --ca-crt-file, or --tls-crt-file and --tls-key-file")
            );
        }
        fill(secret, &files)
    }
}

impl Files<'_> {
    /// Whether there is a certificate with its key.
    ///
    /// # Errors
    /// There is only one of them.
    pub fn are_a_pair(&self) -> Result<bool, Error> {
        match (self.certificate, self.key) {
            (None, None) => Ok(false),
            (Some(_), Some(_)) => Ok(true),
            (Some(_), None) => Err(Error::usage("found certificate but missing private key")),
            (None, Some(_)) => Err(Error::usage("found private key but missing certificate")),
        }
    }
}

/// Puts the files into a Secret, whose type they decide.
///
/// # Errors
/// Files that cannot be read or do not fit together.
pub fn fill(secret: Secret, files: &Files<'_>) -> Result<Secret, Error> {
    let mut secret = match (files.certificate, files.key) {
        (Some(certificate), Some(key)) => {
            let (certificate, key) = (
                read("the certificate", certificate)?,
                read("the private key", key)?,
            );
            check_pair(&certificate, &key)?;
            let mut secret = secret.of("kubernetes.io/tls");
            secret.set("tls.crt", certificate).set("tls.key", key);
            secret
        }
        _ => secret.of("Opaque"),
    };
    if let Some(file) = files.authorities {
        secret.set("ca.crt", read("the CA certificates", file)?);
    }
    Ok(secret)
}

fn check_pair(certificate: &str, key: &str) -> Result<(), Error> {
    let wrong = |why: String| Error::new(format!("invalid TLS certificate and key pair: {why}"));
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect();
    let chain = chain.map_err(|error| wrong(format!("the certificate: {error}")))?;
    if chain.is_empty() {
        return Err(wrong(
            "the certificate's file has no PEM certificate".to_owned(),
        ));
    }
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
        .map_err(|error| wrong(format!("the key: {error}")))?;
    CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())
        .map(|_| ())
        .map_err(|error| wrong(error.to_string()))
}
