//! `driftless create secret notation`.

use super::{Secret, read};
use crate::create::flags::{List, NonEmpty as _, items};
use crate::create::{Common, Named, names};
use crate::error::{EXIT_CODES, Error};
use std::path::Path;

const EXAMPLES: &str = "Examples:
  driftless create secret notation signers --trust-policy-file trustpolicy.json \\
    --ca-cert-file ca.crt --export > signers.yaml";

/// Create or update a Secret for the verification of Notation signatures
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(flatten)]
    named: Named,
    /// The file with the trust policy
    #[arg(long, value_name = "FILE")]
    trust_policy_file: Option<String>,
    /// Files with certificates of authorities: *.crt or *.pem
    #[arg(long, value_name = "FILES")]
    ca_cert_file: Vec<List>,
}

impl Args {
    /// Returns the Secret.
    ///
    /// # Errors
    /// Fails for missing flags, and for files that cannot be read or are not valid.
    pub fn secret(&self, common: &Common) -> Result<Secret, Error> {
        let files = items(&self.ca_cert_file);
        if files.is_empty() {
            return Err(Error::usage("--ca-cert-file is required"));
        }
        let Some(policy_file) = self.trust_policy_file.non_empty() else {
            return Err(Error::usage("--trust-policy-file is required"));
        };
        let labels = names::labels(&self.named.labels)?;
        let policy = read("--trust-policy-file", policy_file)?;
        let mut secret = Secret::new(&self.named.name, common, labels);
        let mut certificates = Vec::new();
        for file in files {
            let name = Path::new(file).file_name().and_then(|name| name.to_str());
            let name = name.unwrap_or(file);
            if ![".crt", ".pem"].iter().any(|end| name.ends_with(end)) {
                let message = format!("{name} must end with either .crt or .pem");
                return Err(Error::usage(message));
            }
            if secret.get(name).is_some() {
                return Err(Error::usage(format!(
                    "--ca-cert-file: two files have the name {name}"
                )));
            }
            let text = read("--ca-cert-file", file)?;
            certificates.push((name.to_owned(), text.clone().into_bytes()));
            secret.set(name, text);
        }
        driftless_verify::check_notation(policy.as_bytes(), &certificates).map_err(|error| {
            Error::caused_by(error).context("invalid trust policy or certificate")
        })?;
        secret.set("trustpolicy.json", policy);
        Ok(secret)
    }
}
