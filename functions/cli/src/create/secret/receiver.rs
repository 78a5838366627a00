//! `driftless create secret receiver`.

use super::Secret;
use crate::create::flags::NonEmpty as _;
use crate::create::notification::SENDERS;
use crate::create::{Common, Named, names};
use crate::error::{EXIT_CODES, Error};
use sha2::{Digest as _, Sha256};

const EXAMPLES: &str = "Examples:
  driftless create secret receiver github-webhook --type github --hostname flux.example.com \\
    --export > webhook.yaml
  driftless create secret receiver gcr-webhook --type gcr --hostname flux.example.com \\
    --email-claim sa@project.iam.gserviceaccount.com

The webhook's address is the annotation notification.toolkit.fluxcd.io/webhook, for a Receiver with the name of the Secret.";

/// The annotation with the webhook's address.
const WEBHOOK: &str = "notification.toolkit.fluxcd.io/webhook";

/// Create or update a Secret with the token of a Receiver
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(flatten)]
    named: Named,
    /// The type of the sender
    #[arg(long, value_parser = SENDERS)]
    r#type: Option<String>,
    /// The token [default: a random one]
    #[arg(long, allow_hyphen_values = true)]
    token: Option<String>,
    /// The host that receives the webhooks
    #[arg(long, value_name = "HOST")]
    hostname: Option<String>,
    /// The service account that sends the webhooks, for the type gcr
    #[arg(long, value_name = "EMAIL")]
    email_claim: Option<String>,
    /// The audience of the sender's token, for the type gcr [default: the webhook's address]
    #[arg(long, value_name = "AUDIENCE")]
    audience_claim: Option<String>,
}

impl Args {
    /// Returns the Secret.
    ///
    /// # Errors
    /// Fails for flags that are missing or exclude each other, and if the system has no random
    /// numbers.
    pub fn secret(&self, common: &Common) -> Result<Secret, Error> {
        let required = |flag: &str| Error::usage(format!("{flag} is required"));
        let receiver_type = self.r#type.non_empty().ok_or_else(|| required("--type"))?;
        let host = self.hostname.non_empty();
        let host = host.ok_or_else(|| required("--hostname"))?;
        let (email, audience) = (
            self.email_claim.non_empty(),
            self.audience_claim.non_empty(),
        );
        let labels = names::labels(&self.named.labels)?;
        let token = match self.token.non_empty() {
            Some(token) => token.to_owned(),
            None => random()?,
        };
        let mut secret = Secret::new(&self.named.name, common, labels);
        let address = address(host, &token, &self.named.name, &common.scope.namespace);
        secret.annotate(WEBHOOK, &address);
        secret.set("token", token);
        match (receiver_type, email) {
            ("gcr", Some(email)) => {
                secret
                    .set("email", email)
                    .set("audience", audience.unwrap_or(&address));
            }
            ("gcr", None) => {
                let message = "--email-claim is required for gcr receiver type";
                return Err(Error::usage(message));
            }
            _ => {
                let claims = [("--email-claim", email), ("--audience-claim", audience)];
                if let Some((flag, _)) = claims.iter().find(|(_, value)| value.is_some()) {
                    let message =
                        format!("{flag} is not supported for {receiver_type} receiver type");
                    return Err(Error::usage(message));
                }
            }
        }
        Ok(secret)
    }
}

/// Returns the URL at which notification-controller receives the webhooks of a Receiver.
fn address(host: &str, token: &str, name: &str, namespace: &str) -> String {
    let digest = Sha256::digest(format!("{token}{name}{namespace}"));
    format!("https://{host}/hook/{}", hex::encode(digest))
}

fn random() -> Result<String, Error> {
    let mut bytes = [0; 32];
    let failed = |error| Error::caused_by(error).context("failed to generate random token");
    getrandom::fill(&mut bytes).map_err(failed)?;
    Ok(hex::encode(bytes))
}
