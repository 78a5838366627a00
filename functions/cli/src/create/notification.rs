//! `driftless create receiver`, `alert` and `alert-provider`: objects of Flux's notification
//! controller, of which driftless serves only Receivers.

use super::flags::{self, List, NonEmpty as _, Reference, items};
use super::object::{AwaitedState, NewObject, object};
use super::{Common, Named};
use crate::error::{EXIT_CODES, Error};
use driftless_flux::{
    AlertSpec, FluxKind, ObjectSelector, ProviderSpec, ReceiverResource, ReceiverSpec,
};

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

/// Parses the objects that a flag names; `none` is the error for an empty list.
fn objects(
    lists: &[List],
    none: &str,
    parse: impl Fn(&str) -> Reference,
) -> Result<Vec<ObjectSelector>, Error> {
    let found = items(lists).into_iter().map(|text| {
        let reference = parse(text);
        match reference.kind.is_empty() {
            true => Err(Error::usage(format!(
                "invalid event source '{text}', must be in format <kind>/<name>"
            ))),
            false => Ok(ObjectSelector {
                namespace: reference.namespace(),
                kind: reference.kind,
                name: reference.name,
                ..ObjectSelector::default()
            }),
        }
    });
    match found.collect::<Result<Vec<ObjectSelector>, Error>>() {
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
        let Some(kind) = self.r#type.to_non_empty() else {
            return Err(
                Error::usage("Receiver type is required").next("add --type, such as --type github")
            );
        };
        let Some(secret) = flags::local_ref(&self.secret_ref) else {
            return Err(Error::usage("secret ref is required").next("add --secret-ref NAME"));
        };
        let none = "at least one resource is required";
        let resources = objects(&self.resource, none, Reference::local)?;
        let metadata = common.metadata(&self.named)?;
        let events = items(&self.event).into_iter().map(str::to_owned);
        let resources = resources.into_iter().map(|selector| ReceiverResource {
            selector,
            filter: None,
        });
        let spec = ReceiverSpec {
            kind,
            events: Some(events.collect()),
            resources: resources.collect(),
            secret_ref: Some(secret),
            ..ReceiverSpec::default()
        };
        Ok(NewObject {
            object: object(FluxKind::Receiver, metadata, &spec)?,
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
        let Some(provider) = flags::local_ref(&self.provider_ref) else {
            return Err(Error::usage("provider ref is required").next("add --provider-ref NAME"));
        };
        let none = "at least one event source is required";
        let sources = objects(&self.event_source, none, Reference::any)?;
        let metadata = common.metadata(&self.named)?;
        let spec = AlertSpec {
            provider_ref: provider,
            event_severity: self.event_severity.to_non_empty(),
            event_sources: sources,
            ..AlertSpec::default()
        };
        Ok(NewObject {
            object: object(FluxKind::Alert, metadata, &spec)?,
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
        let Some(kind) = self.r#type.to_non_empty() else {
            return Err(
                Error::usage("Provider type is required").next("add --type, such as --type slack")
            );
        };
        let metadata = common.metadata(&self.named)?;
        let spec = ProviderSpec {
            kind,
            channel: self.channel.to_non_empty(),
            username: self.username.to_non_empty(),
            address: self.address.to_non_empty(),
            secret_ref: flags::local_ref(&self.secret_ref),
            ..ProviderSpec::default()
        };
        Ok(NewObject {
            object: object(FluxKind::Provider, metadata, &spec)?,
            noun: "Provider",
            end: AwaitedState::Stored,
        })
    }
}
