//! `driftless create secret githubapp`.

use super::{Secret, read};
use crate::create::flags::NonEmpty as _;
use crate::create::{Common, Named, names};
use crate::error::{EXIT_CODES, Error};

const EXAMPLES: &str = "Examples:
  driftless create secret githubapp fleet-app --app-id 1 --app-installation-id 2 \\
    --app-private-key key.pem --export > app.yaml
  driftless create secret githubapp fleet-app --app-id 1 --app-installation-owner acme \\
    --app-private-key key.pem";

/// Create or update a Secret with a GitHub App's key
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(flatten)]
    named: Named,
    /// The app's id
    #[arg(long, value_name = "ID")]
    app_id: Option<String>,
    /// The organization or user that has the app installed; this or --app-installation-id
    #[arg(long, value_name = "NAME")]
    app_installation_owner: Option<String>,
    /// The installation's id
    #[arg(long, value_name = "ID")]
    app_installation_id: Option<String>,
    /// The file with the app's private key
    #[arg(long, value_name = "FILE")]
    app_private_key: Option<String>,
    /// The URL of the API of GitHub Enterprise
    #[arg(long, value_name = "URL")]
    app_base_url: Option<String>,
}

impl Args {
    /// Returns the Secret.
    ///
    /// # Errors
    /// Fails for flags that are missing or exclude each other, and for a file that cannot be read.
    pub fn secret(&self, common: &Common) -> Result<Secret, Error> {
        let Some(file) = self.app_private_key.non_empty() else {
            return Err(Error::usage("--app-private-key is required"));
        };
        let key = read("--app-private-key", file)?;
        let Some(id) = self.app_id.non_empty() else {
            return Err(Error::usage("githubAppID is required").next("add --app-id"));
        };
        let installation = [
            ("githubAppInstallationOwner", &self.app_installation_owner),
            ("githubAppInstallationID", &self.app_installation_id),
        ];
        let installation = installation.map(|(key, flag)| (key, flag.non_empty()));
        let ([(key_of, Some(value)), (_, None)] | [(_, None), (key_of, Some(value))]) =
            installation
        else {
            return Err(Error::usage(
                "exactly one of githubAppInstallationOwner or githubAppInstallationID must be provided",
            )
            .next("add --app-installation-owner or --app-installation-id"));
        };
        // Flux drops the labels.
        let labels = names::labels(&self.named.labels)?;
        let mut secret = Secret::new(&self.named.name, common, labels).with_type("Opaque");
        secret
            .set("githubAppID", id)
            .set("githubAppPrivateKey", key)
            .set(key_of, value);
        if let Some(url) = self.app_base_url.non_empty() {
            secret.set("githubAppBaseURL", url);
        }
        Ok(secret)
    }
}
