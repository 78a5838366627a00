//! The checks of Alerts and Providers.

use super::connection;
use super::following::{self, Following};
use super::sending::{self, Done};
use driftless_flux::{
    Alert, AlertOptions, AlertSpec, FluxSpec, NotificationStatus, Provider, ProviderSpec, Typed,
    reason,
};
use driftless_kernel::context::Context;
use driftless_kernel::context::events::{MAX_PATTERNS, is_foreign, pattern};
use driftless_kernel::failure::Failure;
use driftless_plans::health::CommitStatusExpr;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A spec with a step.
pub(crate) trait Check: FluxSpec<Status = NotificationStatus> {
    /// The data that is remembered between steps. All of it may be lost.
    type Memory: Clone + Default + PartialEq + Serialize + DeserializeOwned + Send + Sync;

    /// Checks the object, and does its work.
    async fn run(
        context: &Context<'_>,
        object: &Typed<Self>,
        memory: &mut Self::Memory,
    ) -> Result<Done, Failure>;

    /// Removes what is stored for a deleted object.
    async fn forget(context: &Context<'_>) -> Result<(), Failure>;
}

impl Check for AlertSpec {
    type Memory = Following;

    async fn run(
        context: &Context<'_>,
        alert: &Alert,
        memory: &mut Following,
    ) -> Result<Done, Failure> {
        let options = AlertOptions::of(&alert.object).map_err(invalid)?;
        let spec = &alert.spec;
        for (field, list) in [
            ("inclusion", &spec.inclusion_list),
            ("exclusion", &spec.exclusion_list),
        ] {
            let list = list.as_deref().unwrap_or_default();
            if list.len() > MAX_PATTERNS {
                let message = format!(
                    "spec.{field}List has more than {MAX_PATTERNS} expressions: join some with '|'"
                );
                return Err(invalid(message));
            }
            for text in list {
                pattern(text).map_err(|error| {
                    invalid(format!("failed to compile {field} regex: {text}: {error}"))
                })?;
            }
        }
        let settings = &context.hub.settings;
        let foreign = spec.event_sources.iter();
        let mut foreign = foreign.filter(|source| is_foreign(alert, source));
        if settings.no_cross_namespace_refs
            && let Some(source) = foreign.next()
        {
            let namespace = source.namespace.as_deref().unwrap_or_default();
            let message = format!(
                "alert '{}/{}' can't process event from '{}/{namespace}/{}', cross-namespace references have been blocked",
                alert.id.namespace, alert.id.name, source.kind, source.name
            );
            return Err(Failure::terminal(reason::ACCESS_DENIED, message));
        }
        match context.hub.get(&alert.provider()).await? {
            Some(_) => {
                let has_news = following::follow(context, alert, options, memory).await?;
                Ok(Done {
                    requests: has_news.then(|| alert.provider()),
                    ..Done::default()
                })
            }
            None => {
                let message = format!("failed to read provider: {}", alert.provider().not_found());
                Err(Failure::retry(reason::NOTIFICATION_FAILED, message))
            }
        }
    }

    async fn forget(_: &Context<'_>) -> Result<(), Failure> {
        Ok(())
    }
}

impl Check for ProviderSpec {
    type Memory = ();

    async fn run(context: &Context<'_>, provider: &Provider, _: &mut ()) -> Result<Done, Failure> {
        if provider.spec.suspend == Some(true) {
            sending::discard(context).await?;
            return Ok(Done {
                keeps_status: true,
                ..Done::default()
            });
        }
        provider.timeout().map_err(invalid)?;
        if let Some(text) = provider.commit_status_expr() {
            CommitStatusExpr::parse(text, &context.fuel)
                .map_err(|error| Failure::terminal(reason::INVALID_CEL, &error).caused_by(error))?;
        }
        connection::check(provider)?;
        sending::send(context, provider).await
    }

    async fn forget(context: &Context<'_>) -> Result<(), Failure> {
        sending::discard(context).await
    }
}

fn invalid(message: impl std::fmt::Display) -> Failure {
    Failure::terminal(reason::INVALID_CONFIG, message)
}
