//! `driftless create secret sops`. Flux has no such command: its documentation uses kubectl.

use super::{Secret, read};
use crate::create::flags::NonEmpty as _;
use crate::create::{Common, Named, names};
use crate::error::{EXIT_CODES, Error};
use crate::term;
use driftless_sops::Keyring;

const EXAMPLES: &str = "Examples:
  driftless create secret sops sops-keys --age-key-file age.agekey
  driftless create secret sops sops-keys --pgp-key-file key.asc -n team-a --export > keys.yaml
  driftless create kustomization apps --source fleet --decryption-provider sops \\
    --decryption-secret sops-keys

The key in the Secret is identity.agekey or sops.asc. flux has no such command.";

/// Create or update a Secret with the keys that decrypt SOPS files
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(flatten)]
    named: Named,
    /// The file with age identities, as age-keygen writes it
    #[arg(long, value_name = "FILE")]
    age_key_file: Option<String>,
    /// The file with OpenPGP secret keys without a passphrase, as gpg --export-secret-keys --armor
    /// writes it
    #[arg(long, value_name = "FILE")]
    pgp_key_file: Option<String>,
}

impl Args {
    /// Returns the Secret, and prints the recipients that its keys decrypt for.
    ///
    /// # Errors
    /// Fails without a key file, and for a file that cannot be read or has no secret key.
    pub fn secret(&self, common: &Common) -> Result<Secret, Error> {
        let labels = names::labels(&self.named.labels)?;
        let mut secret = Secret::new(&self.named.name, common, labels);
        let mut keys = Keyring::new();
        if let Some(file) = self.age_key_file.non_empty() {
            let text = read("--age-key-file", file)?;
            match keys.add_age(&text, file) {
                Ok(0) => Err(Error::new(format!("{file}: the file has no age identity"))),
                Ok(_) => Ok(()),
                Err(error) => Err(Error::new(error)),
            }
            .map_err(|error| error.next("make one with age-keygen -o FILE"))?;
            secret.set("identity.agekey", text);
        }
        if let Some(file) = self.pgp_key_file.non_empty() {
            let text = read("--pgp-key-file", file)?;
            keys.add_pgp(&text, file).map_err(|error| {
                Error::new(error).next(
                    "export a key that has no passphrase: gpg --export-secret-keys --armor FINGERPRINT",
                )
            })?;
            secret.set("sops.asc", text);
        }
        if secret.is_empty() {
            return Err(Error::usage("a key file is required")
                .next("add --age-key-file FILE or --pgp-key-file FILE"));
        }
        for recipient in keys.recipients() {
            term::action(&format!("recipient for .sops.yaml: {recipient}"));
        }
        Ok(secret)
    }
}
