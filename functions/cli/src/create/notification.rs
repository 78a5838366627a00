//! `driftless create receiver`, `alert` and `alert-provider`: objects of Flux's notification
//! controller, of which driftless serves only Receivers.

use super::flags::{self, List, NonEmpty as _, Reference, items};
use super::object::{AwaitedState, Fields, NewObject, object};
use super::{Common, Named};
use crate::error::{EXIT_CODES, Error};
use serde_json::{Value, json};

/// The types of receivers.
pub const SENDERS: [&str; 12] = [
    "generic",
    "generic-hmac",
    "github",
    "gitlab",
    "bitbucket",
    "harbor",
    "dockerhub",
    "quay",
    "gcr",
    "nexus",
    "acr",
    "cdevents",
];

const RECEIVER: &str = "Examples:
  driftless create receiver github --type github --event ping,push --secret-ref webhook-token \\
    --resource GitRepository/webapp";
const ALERT: &str = "Examples:
  driftless create alert apps --event-severity info --event-source 'Kustomization/*' \\
    --provider-ref slack";
const PROVIDER: &str = "Examples:
  driftless create alert-provider slack --type slack --channel general \\
    --address https://hooks.slack.com/services/T/B/X
  driftless create alert-provider github --type github --address https://github.com/acme/fleet \\
    --secret-ref github-token";

/// Create or update a Receiver of webhooks
#[derive(clap::Args)]
#[command(after_help = format!("{RECEIVER}\n\n{EXIT_CODES}"))]
pub struct Receiver {
    #[command(flatten)]
    named: Named,
    /// The type of the sender
    #[arg(long, value_parser = SENDERS)]
    r#type: Option<String>,
    /// The Secret with the token
    #[arg(long, value_name = "NAME")]
    secret_ref: Option<String>,
    /// The events to handle [default: all]
    #[arg(long, value_name = "EVENTS")]
    event: Vec<List>,
    /// The objects to reconcile: KIND/NAME
    #[arg(long, value_name = "OBJECTS")]
    resource: Vec<List>,
}

/// Create or update an Alert, which sends events to a Provider
#[derive(clap::Args)]
#[command(after_help = format!("{ALERT}\n\n{EXIT_CODES}"))]
pub struct Alert {
    #[command(flatten)]
    named: Named,
    /// The Provider to which events are sent
    #[arg(long, value_name = "NAME")]
    provider_ref: Option<String>,
    /// The severity of events: info or error
    #[arg(long, value_name = "SEVERITY")]
    event_severity: Option<String>,
    /// The objects whose events are sent: KIND/NAME[.NAMESPACE]
    #[arg(long, value_name = "OBJECTS")]
    event_source: Vec<List>,
}

/// Create or update a Provider, which gets the events of Alerts
#[derive(clap::Args)]
#[command(after_help = format!("{PROVIDER}\n\n{EXIT_CODES}"))]
pub struct Provider {
    #[command(flatten)]
    named: Named,
    /// The type of the provider
    #[arg(long)]
    r#type: Option<String>,
    /// The channel of a chat
    #[arg(long)]
    channel: Option<String>,
    /// The name under which a chat shows the messages
    #[arg(long, value_name = "NAME")]
    username: Option<String>,
    /// The address of the repository, chat or webhook
    #[arg(long, value_name = "URL")]
    address: Option<String>,
    /// The Secret with the credentials
    #[arg(long, value_name = "NAME")]
    secret_ref: Option<String>,
}

/// The API version of Alerts and Providers.
const BETA: &str = "notification.toolkit.fluxcd.io/v1beta3";

/// Parses the objects that a flag names; `none` is the error for an empty list.
fn objects(
    lists: &[List],
    none: &str,
    parse: impl Fn(&str) -> Reference,
) -> Result<Vec<Value>, Error> {
    let found = items(lists).into_iter().map(|text| {
        let reference = parse(text);
        match reference.kind.is_empty() {
            true => Err(Error::usage(format!(
                "invalid event source '{text}', must be in format <kind>/<name>"
            ))),
            false => Ok(reference.value()),
        }
    });
    match found.collect::<Result<Vec<Value>, Error>>() {
        Ok(found) if found.is_empty() => Err(Error::usage(none)),
        found => found,
    }
}

impl Receiver {
    /// Returns the object.
    ///
    /// # Errors
    /// Fails for flags that are not valid or missing.
    pub fn build(&self, common: &Common) -> Result<NewObject, Error> {
        let Some(kind) = self.r#type.non_empty() else {
            return Err(
                Error::usage("Receiver type is required").next("add --type, such as --type github")
            );
        };
        let Some(secret) = flags::name_of(&self.secret_ref) else {
            return Err(Error::usage("secret ref is required").next("add --secret-ref NAME"));
        };
        let none = "at least one resource is required";
        let resources = objects(&self.resource, none, Reference::local)?;
        let metadata = common.metadata(&self.named)?;
        let events = items(&self.event);
        let mut spec = Fields::default();
        spec.set("type", kind)
            .set("events", (!events.is_empty()).then(|| json!(events)))
            .set("resources", resources)
            .set("secretRef", secret);
        let version = "notification.toolkit.fluxcd.io/v1";
        Ok(NewObject {
            object: object(version, "Receiver", metadata, spec),
            noun: "Receiver",
            end: AwaitedState::Opened,
        })
    }
}

impl Alert {
    /// Returns the object.
    ///
    /// # Errors
    /// Fails for flags that are not valid or missing.
    pub fn build(&self, common: &Common) -> Result<NewObject, Error> {
        let Some(provider) = flags::name_of(&self.provider_ref) else {
            return Err(Error::usage("provider ref is required").next("add --provider-ref NAME"));
        };
        let none = "at least one event source is required";
        let sources = objects(&self.event_source, none, Reference::any)?;
        let metadata = common.metadata(&self.named)?;
        let mut spec = Fields::default();
        spec.set("providerRef", provider)
            .set("eventSeverity", self.event_severity.non_empty())
            .set("eventSources", sources);
        Ok(NewObject {
            object: object(BETA, "Alert", metadata, spec),
            noun: "Alert",
            end: AwaitedState::Stored,
        })
    }
}

impl Provider {
    /// Returns the object.
    ///
    /// # Errors
    /// Fails for flags that are not valid or missing.
    pub fn build(&self, common: &Common) -> Result<NewObject, Error> {
        let Some(kind) = self.r#type.non_empty() else {
            return Err(
                Error::usage("Provider type is required").next("add --type, such as --type slack")
            );
        };
        let metadata = common.metadata(&self.named)?;
        let mut spec = Fields::default();
        spec.set("type", kind)
            .set("channel", self.channel.non_empty())
            .set("username", self.username.non_empty())
            .set("address", self.address.non_empty())
            .set("secretRef", flags::name_of(&self.secret_ref));
        Ok(NewObject {
            object: object(BETA, "Provider", metadata, spec),
            noun: "Provider",
            end: AwaitedState::Stored,
        })
    }
}
