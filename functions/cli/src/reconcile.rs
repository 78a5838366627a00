//! `driftless reconcile`: asks for a reconciliation now, as `flux reconcile` does, and waits for it.

use crate::error::{EXIT_CODES, Error};
use crate::hub::{self, Scope};
use crate::output::Output;
use crate::ready::{conditions, is_static, ready, revision, suspended, text};
use crate::term;
use clap::Subcommand;
use driftless_core::flux::{FluxKind, REQUESTED_AT, parse_duration, reason};
use driftless_core::hub::Hub;
use driftless_core::ports::Patch;
use driftless_manifest::Object;
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

const EXAMPLES: &str = "Examples:
  driftless reconcile kustomization apps
  driftless reconcile kustomization apps -n team-a --with-source
  driftless reconcile source git flux-system --timeout 1m";

/// How often the object is looked at while waiting.
const POLL: Duration = Duration::from_millis(500);
/// The field manager of what this command changes.
const MANAGER: &str = "driftless";

/// Reconcile an object now, and wait for it
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// A Kustomization
    #[command(alias = "ks")]
    Kustomization(OneKustomization),
    /// A source
    Source(Source),
}

#[derive(clap::Args)]
struct OneKustomization {
    /// Its source first
    #[arg(long)]
    with_source: bool,
    #[command(flatten)]
    one: One,
}

#[derive(clap::Args)]
struct Source {
    #[command(subcommand)]
    kind: SourceKind,
}

#[derive(Subcommand)]
enum SourceKind {
    /// A GitRepository
    Git(One),
    /// An OCIRepository
    Oci(One),
    /// A HelmRepository
    Helm(One),
    /// A HelmChart
    Chart(One),
    /// A Bucket
    Bucket(One),
}

impl SourceKind {
    fn parts(self) -> (FluxKind, One) {
        match self {
            Self::Git(one) => (FluxKind::GitRepository, one),
            Self::Oci(one) => (FluxKind::OCIRepository, one),
            Self::Helm(one) => (FluxKind::HelmRepository, one),
            Self::Chart(one) => (FluxKind::HelmChart, one),
            Self::Bucket(one) => (FluxKind::Bucket, one),
        }
    }
}

#[derive(clap::Args)]
struct One {
    /// The object's name
    name: String,
    /// How long to wait
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    timeout: Duration,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    scope: Scope,
}

/// Annotates, waits and tells.
pub async fn run(args: Args) -> Result<(), Error> {
    let (kind, one, with_source) = match args.what {
        What::Kustomization(args) => (FluxKind::Kustomization, args.one, args.with_source),
        What::Source(source) => {
            let (kind, one) = source.kind.parts();
            (kind, one, false)
        }
    };
    let hub = one.scope.connection.connect().await?;
    let wait = Wait {
        hub: &hub,
        deadline: Instant::now() + one.timeout,
    };
    if with_source {
        let object = hub::object(&hub, kind, &one.scope.namespace, &one.name).await?;
        let (kind, namespace, name) = source_of(&object)?;
        wait.reconcile(kind, &namespace, &name).await?;
    }
    let object = wait
        .reconcile(kind, &one.scope.namespace, &one.name)
        .await?;
    one.output.print(vec![object], true)
}

/// The source of a Kustomization: kind, namespace, name.
fn source_of(object: &Object) -> Result<(FluxKind, String, String), Error> {
    let field = |name: &str| text(object, &format!("/spec/sourceRef/{name}"));
    let name = field("name").ok_or_else(|| {
        Error::new(format!(
            "Kustomization {}: it names no source",
            object.name()
        ))
    })?;
    let kind = field("kind").unwrap_or_default();
    match FluxKind::parse(&kind) {
        Some(kind @ (FluxKind::GitRepository | FluxKind::OCIRepository | FluxKind::Bucket)) => Ok((
            kind,
            field("namespace").unwrap_or_else(|| object.namespace().to_owned()),
            name,
        )),
        _ => Err(Error::new(format!(
            "source {kind}/{name}: only a GitRepository, an OCIRepository or a Bucket can be reconciled"
        ))
        .next("leave --with-source out")),
    }
}

/// Waits for objects of a hub until a deadline.
pub struct Wait<'a> {
    /// The hub.
    pub hub: &'a Hub,
    /// When to give up.
    pub deadline: Instant,
}

impl Wait<'_> {
    async fn reconcile(
        &self,
        kind: FluxKind,
        namespace: &str,
        name: &str,
    ) -> Result<Object, Error> {
        let object = hub::object(self.hub, kind, namespace, name).await?;
        if is_static(&object) {
            term::success("a registry has no index to fetch: its charts look at it");
            return Ok(object);
        }
        if suspended(&object) {
            return Err(
                Error::new(format!("{kind} {namespace}/{name} is suspended")).next(format!(
                    "driftless resume {} {name} -n {namespace}",
                    singular(kind)
                )),
            );
        }
        term::action(&format!(
            "annotating {kind} {name} in {namespace} namespace"
        ));
        let token = format!("{:.9}", jiff::Timestamp::now());
        let annotations = json!({"metadata": {"annotations": {REQUESTED_AT: token}}});
        patch(self.hub, kind, namespace, name, annotations).await?;
        term::success(&format!("{kind} annotated"));
        term::waiting(&format!("waiting for {kind} reconciliation"));
        let handled = |object: &Object| {
            text(object, "/status/lastHandledReconcileAt").as_ref() == Some(&token)
                && is_settled(object)
        };
        let object = self.until(kind, namespace, name, handled).await?;
        succeeded(kind, &object)?;
        Ok(object)
    }

    /// Polls an object until `done` says so.
    ///
    /// # Errors
    /// The time is over: then the object's `Ready` says what it waits for.
    pub async fn until(
        &self,
        kind: FluxKind,
        namespace: &str,
        name: &str,
        done: impl Fn(&Object) -> bool,
    ) -> Result<Object, Error> {
        // Hidden by itself when stderr is no terminal.
        let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        spinner.enable_steady_tick(Duration::from_millis(120));
        loop {
            let object = hub::object(self.hub, kind, namespace, name).await?;
            if done(&object) {
                spinner.finish_and_clear();
                return Ok(object);
            }
            let (_, message) = ready(&object);
            if Instant::now() >= self.deadline {
                spinner.finish_and_clear();
                return Err(Error::new(format!("{kind} {namespace}/{name}: not reconciled in time; its status: {message}"))
                    .next("is anybody serving this hub? See the log of driftless serve, or of the reconcile function; or give a longer --timeout"));
            }
            spinner.set_message(message);
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Whether a reconciliation came to an end: `Ready` is known, speaks of this generation, and nothing is going on. A failure
/// that is tried again later is an end; another object that must be ready first is not.
pub fn is_settled(object: &Object) -> bool {
    let conditions = conditions(object);
    let Some(ready) = conditions.get("Ready") else {
        return false;
    };
    let generation = object
        .pointer("/metadata/generation")
        .and_then(Value::as_i64)
        .unwrap_or(0);
    let going_on = conditions.get("Reconciling").is_some_and(|reconciling| {
        reconciling.status == "True" && reconciling.reason != reason::PROGRESSING_WITH_RETRY
    });
    ready.status != "Unknown"
        && ready.observed_generation >= generation
        && ready.reason != reason::DEPENDENCY_NOT_READY
        && !going_on
}

/// Tells the outcome as Flux does.
///
/// # Errors
/// The object is not ready.
pub fn succeeded(kind: FluxKind, object: &Object) -> Result<(), Error> {
    let (status, message) = ready(object);
    if status != "True" {
        let (namespace, name) = (object.namespace(), object.name());
        let failed = format!("{kind} {namespace}/{name}: reconciliation failed: '{message}'");
        return Err(Error::new(failed).next(format!(
            "correct what the message names and push; driftless get {} -n {namespace} shows the state",
            hub::command(kind)
        )));
    }
    let verb = match kind {
        FluxKind::Kustomization | FluxKind::HelmRelease => "applied",
        _ => "fetched",
    };
    term::success(&format!("{verb} revision {}", revision(object)));
    Ok(())
}

/// Merges a patch into an object.
pub async fn patch(
    hub: &Hub,
    kind: FluxKind,
    namespace: &str,
    name: &str,
    patch: Value,
) -> Result<Object, Error> {
    let resource = hub.resource(kind).await?;
    Ok(hub
        .cluster
        .patch(
            &resource,
            namespace,
            name,
            None,
            &Patch::Merge(patch),
            MANAGER,
        )
        .await?)
}

/// A kind on the command line of `reconcile`, `suspend` and `resume`.
pub fn singular(kind: FluxKind) -> &'static str {
    match kind {
        FluxKind::GitRepository => "source git",
        FluxKind::OCIRepository => "source oci",
        FluxKind::HelmRepository => "source helm",
        FluxKind::HelmChart => "source chart",
        FluxKind::Bucket => "source bucket",
        FluxKind::HelmRelease => "helmrelease",
        _ => "kustomization",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(conditions: Value) -> Object {
        Object::new(json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"namespace": "team", "name": "apps", "generation": 2},
            "spec": {"sourceRef": {"kind": "GitRepository", "name": "fleet"}}, "status": {"conditions": conditions}}))
        .unwrap()
    }

    #[test]
    fn settled() {
        let condition = |kind: &str, status: &str, generation: i64| json!({"type": kind, "status": status, "observedGeneration": generation});
        assert!(!is_settled(&object(json!([]))));
        assert!(is_settled(&object(json!([condition("Ready", "True", 2)]))));
        assert!(is_settled(&object(json!([condition("Ready", "False", 2)]))));
        assert!(!is_settled(&object(json!([condition("Ready", "True", 1)]))));
        assert!(!is_settled(&object(json!([condition(
            "Ready", "Unknown", 2
        )]))));
        assert!(!is_settled(&object(json!([
            condition("Ready", "False", 2),
            condition("Reconciling", "True", 2)
        ]))));
        let reasons = |ready: &str, reconciling: &str| {
            object(json!([
                {"type": "Ready", "status": "False", "reason": ready, "observedGeneration": 2},
                {"type": "Reconciling", "status": "True", "reason": reconciling, "observedGeneration": 2},
            ]))
        };
        assert!(is_settled(&reasons("BuildFailed", "ProgressingWithRetry")));
        assert!(!is_settled(&reasons(
            "DependencyNotReady",
            "ProgressingWithRetry"
        )));
        assert!(!is_settled(&reasons("BuildFailed", "Progressing")));
    }

    #[test]
    fn outcome() {
        let failed =
            object(json!([{"type": "Ready", "status": "False", "message": "no such folder"}]));
        let error = succeeded(FluxKind::Kustomization, &failed).unwrap_err();
        assert_eq!(
            error.message,
            "Kustomization team/apps: reconciliation failed: 'no such folder'"
        );
        let source = (
            FluxKind::GitRepository,
            "team".to_owned(),
            "fleet".to_owned(),
        );
        assert_eq!(source_of(&failed).unwrap(), source);
    }
}
