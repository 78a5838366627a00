//! `driftless create secret tls`, and the certificates of other Secrets.

use super::{Secret, read};
use crate::create::flags::NonEmpty as _;
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
    /// Returns the files that were given.
    pub fn files(&self) -> Files<'_> {
        Files {
            certificate: self.tls_crt_file.non_empty(),
            key: self.tls_key_file.non_empty(),
            authorities: self.ca_crt_file.non_empty(),
        }
    }
}

/// The names of files with certificates.
pub struct Files<'a> {
    /// The file with the client's certificate.
    pub certificate: Option<&'a str>,
    /// The file with the client's key.
    pub key: Option<&'a str>,
    /// The file with the certificates of authorities.
    pub authorities: Option<&'a str>,
}

impl Args {
    /// Returns the Secret.
    ///
    /// # Errors
    /// Fails for files that are missing, cannot be read or do not belong together.
    pub fn secret(&self, common: &Common) -> Result<Secret, Error> {
        let labels = names::labels(&self.named.labels)?;
        let secret = Secret::new(&self.named.name, common, labels);
        let files = self.flags.files();
        if !files.are_a_pair()? && files.authorities.is_none() {
            let message = "no CA certificate or client certificate pair found";
            return Err(Error::usage(message)
                .next("give --ca-crt-file, or --tls-crt-file and --tls-key-file"));
        }
        fill(secret, &files)
    }
}

impl Files<'_> {
    /// Returns whether a certificate with its key is given.
    ///
    /// # Errors
    /// Fails if only one of them is given.
    pub fn are_a_pair(&self) -> Result<bool, Error> {
        match (self.certificate, self.key) {
            (None, None) => Ok(false),
            (Some(_), Some(_)) => Ok(true),
            (Some(_), None) => Err(Error::usage("found certificate but missing private key")),
            (None, Some(_)) => Err(Error::usage("found private key but missing certificate")),
        }
    }
}

/// Adds the files to a Secret, and sets its type.
///
/// # Errors
/// Fails for files that cannot be read or do not belong together.
pub fn fill(secret: Secret, files: &Files<'_>) -> Result<Secret, Error> {
    let mut secret = match (files.certificate, files.key) {
        (Some(certificate), Some(key)) => {
            let (certificate, key) = (
                read("the certificate", certificate)?,
                read("the private key", key)?,
            );
            check_pair(&certificate, &key)?;
            let mut secret = secret.with_type("kubernetes.io/tls");
            secret.set("tls.crt", certificate).set("tls.key", key);
            secret
        }
        _ => secret.with_type("Opaque"),
    };
    if let Some(file) = files.authorities {
        secret.set("ca.crt", read("the CA certificates", file)?);
    }
    Ok(secret)
}

fn check_pair(certificate: &str, key: &str) -> Result<(), Error> {
    let wrong =
        |error: String| Error::caused_by(error).context("invalid TLS certificate and key pair");
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
