//! The messages of Flux's notification providers: from one event and the settings of one Provider
//! to the requests that notification-controller (1.9.3) sends.
//!
//! The crate opens no connection: the caller gives a [`Transport`], which checks addresses, adds
//! certificates and proxies, and limits times and sizes.

mod body;
mod change_request;
mod commit;
mod failure;
mod login;
mod notification;
mod protobuf;
mod providers;
mod rest;
mod tokens;
mod url;

use async_trait::async_trait;
use std::collections::BTreeMap;
use std::fmt;

pub use providers::kinds;

/// The object that an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InvolvedObject {
    /// The API version, for example `kustomize.toolkit.fluxcd.io/v1`.
    pub api_version: String,
    /// The kind of the object.
    pub kind: String,
    /// The namespace of the object.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The uid of the object.
    pub uid: String,
    /// The resource version, or an empty string.
    pub resource_version: String,
}

/// The severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// An event for debugging.
    Trace,
    /// The normal course of an object.
    Info,
    /// A failure of an object.
    Error,
}

/// An event, as Flux's controllers send it to notification-controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The object that the event is about.
    pub involved_object: InvolvedObject,
    /// The severity of the event.
    pub severity: Severity,
    /// The time in RFC 3339 with seconds, in UTC.
    pub timestamp: String,
    /// The message for people.
    pub message: String,
    /// The reason in CamelCase.
    pub reason: String,
    /// Further values, for example `revision`; the keys have no group.
    pub metadata: BTreeMap<String, String>,
    /// The controller, for example `kustomize-controller`.
    pub reporting_controller: String,
    /// The instance of the controller.
    pub reporting_instance: String,
}

/// The parts of a Provider and of its Secret that a notification needs.
#[derive(Clone, Default)]
pub struct Settings {
    /// The type of the provider, `spec.type`.
    pub kind: String,
    /// The address: that of the Secret, else `spec.address`.
    pub address: String,
    /// The channel, `spec.channel`.
    pub channel: String,
    /// `spec.username`, or that of the Secret.
    pub username: String,
    /// The id of commit statuses, where the type of the provider has one.
    pub commit_status: String,
    /// The uid of the Provider.
    pub provider_uid: String,
    /// The namespace of the Provider.
    pub provider_namespace: String,
    /// The name of the Provider.
    pub provider_name: String,
    /// The data of the Secret.
    pub secret: BTreeMap<String, Vec<u8>>,
    /// The token of the identity at a cloud or of a GitHub App, where the type asks for one and the
    /// Secret has none.
    pub identity: Option<String>,
    /// The slug of the GitHub App whose token `identity` is, or an empty string.
    pub app_slug: String,
    /// Further texts that no message may have, such as the login of a proxy.
    pub withheld: Vec<String>,
    /// The Alert that selected the event.
    pub alert: Alert,
}

/// The Alert that selected an event; the type `otel` names it in its spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alert {
    /// The namespace of the Alert.
    pub namespace: String,
    /// The name of the Alert.
    pub name: String,
    /// The uid of the Alert.
    pub uid: String,
}

impl fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Settings")
            .field("kind", &self.kind)
            .field("provider_namespace", &self.provider_namespace)
            .field("provider_name", &self.provider_name)
            .finish_non_exhaustive()
    }
}

/// A request could not be sent, or no answer was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportError {
    /// The reason, without the address's query, credentials or the body.
    pub message: String,
    /// True if a later attempt can succeed.
    pub is_retryable: bool,
}

/// The connections of the caller.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Sends one request and returns the answer, whatever its status; redirects are not followed.
    ///
    /// # Errors
    /// The address is refused, or the server cannot be reached.
    async fn http(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> Result<http::Response<Vec<u8>>, TransportError>;

    /// Publishes one message to a server of NATS.
    ///
    /// # Errors
    /// The address is refused, the server cannot be reached, or it refuses the login or the
    /// message. The default refuses every message.
    async fn nats_publish(
        &self,
        server: &str,
        subject: &str,
        login: &NatsLogin,
        payload: &[u8],
    ) -> Result<(), TransportError> {
        let _ = (server, subject, login, payload);
        Err(TransportError {
            message: "this installation has no client for NATS".to_owned(),
            is_retryable: false,
        })
    }

    /// Signs a message by RSA with PKCS #1 v1.5 and SHA-256. The key is PEM, of PKCS #1 or PKCS #8.
    ///
    /// # Errors
    /// The key is not valid. The default signs nothing.
    async fn sign_rs256(&self, key: &[u8], message: &[u8]) -> Result<Vec<u8>, TransportError> {
        let _ = (key, message);
        Err(TransportError {
            message: "this installation does not sign with keys of Secrets".to_owned(),
            is_retryable: false,
        })
    }
}

/// The login at a server of NATS.
#[derive(Clone, PartialEq, Eq)]
pub enum NatsLogin {
    /// No login at the server.
    Anonymous,
    /// A name and a password.
    Password {
        /// The name of the user.
        username: String,
        /// The password of the user.
        password: String,
    },
    /// The seed of a user's NKey.
    Nkey(Vec<u8>),
    /// The content of a `.creds` file: a JWT and the seed of its NKey.
    Credentials(Vec<u8>),
}

impl fmt::Debug for NatsLogin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Anonymous => "Anonymous",
            Self::Password { .. } => "Password",
            Self::Nkey(_) => "Nkey",
            Self::Credentials(_) => "Credentials",
        })
    }
}

/// The reason why a notification was not sent. It never has a byte of a Secret, except the host of
/// an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The message for people.
    pub message: String,
    /// True if a later attempt can succeed.
    pub is_retryable: bool,
}

/// Sends the notification of an event to the Provider of the settings. `now` is in seconds since
/// 1970.
///
/// # Errors
/// The type is not known, the settings or the event lack something that the type needs, or a server
/// refuses a request.
pub async fn send(
    settings: &Settings,
    event: &Event,
    transport: &dyn Transport,
    now: i64,
) -> Result<(), Failure> {
    let notification = notification::Notification::new(settings, event, transport, now)?;
    providers::send(&notification).await
}
