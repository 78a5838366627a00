//! `driftless reconcile`: requests a reconciliation now, as `flux reconcile` does, and waits for
//! it.

use crate::change_options::WaitOptions;
use crate::error::{EXIT_CODES, Error};
use crate::hub;
use crate::kinds::{KindArgs, KindCommand, KindName, Verb, examples, is_suspendable};
use crate::progress::Progress;
use crate::ready::{ready, revision, text};
use crate::term;
use clap::{ArgMatches, Args as _, Command, FromArgMatches as _};
use driftless_flux::{
    ConditionStatus, Conditions, FORCE_AT, FluxKind, HelmRepository, ObjectRef, RECONCILING,
    REQUESTED_AT, RESET_AT, is_suspended, reason,
};
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::{Patch, PatchRequest};
use driftless_manifest::Object;
use serde_json::{Map, Value, json};
use std::time::Duration;
use tokio::time::Instant;

const EXAMPLES: &str = "Examples:
  driftless reconcile kustomization apps
  driftless reconcile kustomization apps -n team-a --with-source
  driftless reconcile helmrelease podinfo -n team-a --force
  driftless reconcile source git flux-system --timeout 1m";

/// The interval at which the object is read while the command waits for it.
const POLL: Duration = Duration::from_millis(500);
/// The field manager of this command's changes.
const MANAGER: &str = "driftless";

/// Reconcile an object now, and wait for it
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(subcommand)]
    command: KindCommand<ReconcileRequest>,
    #[command(flatten)]
    options: WaitOptions,
}

#[derive(clap::Args)]
struct WithSource {
    /// Reconcile its source first
    #[arg(long)]
    with_source: bool,
    #[command(flatten)]
    one: ObjectName,
}

#[derive(clap::Args)]
struct Release {
    /// Install or upgrade once, even if nothing has changed
    #[arg(long)]
    force: bool,
    /// Reset the count of failures
    #[arg(long)]
    reset: bool,
    #[command(flatten)]
    object: WithSource,
}

/// The parsed request.
struct ReconcileRequest {
    one: ObjectName,
    with_source: bool,
    /// The other annotations that get the value of the request's annotation.
    more: Vec<&'static str>,
}

impl KindArgs for ReconcileRequest {
    fn declare(kind: FluxKind, command: Command) -> Command {
        match kind {
            FluxKind::HelmRelease => Release::augment_args(command),
            FluxKind::Kustomization | FluxKind::HelmChart => WithSource::augment_args(command),
            _ => ObjectName::augment_args(command),
        }
    }

    fn read(kind: FluxKind, matches: &mut ArgMatches) -> Result<Self, clap::Error> {
        let plain = |one| Self {
            one,
            with_source: false,
            more: Vec::new(),
        };
        let sourced = |object: WithSource| Self {
            with_source: object.with_source,
            ..plain(object.one)
        };
        Ok(match kind {
            FluxKind::HelmRelease => {
                let release = Release::from_arg_matches_mut(matches)?;
                let flags = [(release.force, FORCE_AT), (release.reset, RESET_AT)];
                let set = flags.into_iter().filter(|(is_set, _)| *is_set);
                Self {
                    more: set.map(|(_, name)| name).collect(),
                    ..sourced(release.object)
                }
            }
            FluxKind::Kustomization | FluxKind::HelmChart => {
                sourced(WithSource::from_arg_matches_mut(matches)?)
            }
            _ => plain(ObjectName::from_arg_matches_mut(matches)?),
        })
    }
}

impl Verb for ReconcileRequest {
    // `reconcile git` is `reconcile source git`.
    const ACCEPTS_BARE_NAMES: bool = true;

    fn accepts(kind: FluxKind) -> bool {
        is_suspendable(kind)
    }

    fn help(name: &KindName) -> String {
        let example = name.example;
        let flags = match name.one {
            "helmrelease" => "--force --reset",
            "kustomization" | "chart" => "--with-source",
            _ => "--timeout 1m",
        };
        examples(&[
            format!("reconcile {name} {example}"),
            format!("reconcile {name} {example} {flags}"),
        ])
    }
}

#[derive(clap::Args)]
struct ObjectName {
    /// The object's name
    name: String,
}

/// Annotates the object, waits for its reconciliation and prints the outcome.
pub async fn run(args: Args) -> Result<(), Error> {
    let KindCommand {
        kind,
        args:
            ReconcileRequest {
                one,
                with_source,
                more,
            },
    } = args.command;
    let WaitOptions { timeout, change } = args.options;
    let hub = change.scope.connection.connect().await?;
    let wait = Wait {
        hub: &hub,
        deadline: Instant::now() + timeout,
    };
    let id = ObjectRef::new(kind, &change.scope.namespace, &one.name);
    if with_source {
        for source in sources(&hub, &id).await? {
            wait.reconcile(&source, &[]).await?;
        }
    }
    let object = wait.reconcile(&id, &more).await?;
    change.output.print(vec![object], true)
}

/// Returns the sources of an object, each after its own source: the chart of a release also has
/// one.
async fn sources(hub: &Hub, id: &ObjectRef) -> Result<Vec<ObjectRef>, Error> {
    let (mut found, mut next) = (Vec::new(), Some(id.clone()));
    while let Some(id) = next {
        let object = hub::object(hub, id.kind, &id.namespace, &id.name).await?;
        next = source_of(&id, &object)?;
        found.extend(next.clone());
    }
    found.reverse();
    Ok(found)
}

/// Returns the source of an object; `None` for kinds that have none.
fn source_of(id: &ObjectRef, object: &Object) -> Result<Option<ObjectRef>, Error> {
    let field = |at: &str, name: &str| text(object, &format!("{at}/{name}"));
    let place = match id.kind {
        FluxKind::Kustomization | FluxKind::HelmChart => "/spec/sourceRef",
        FluxKind::HelmRelease if object.pointer("/spec/chartRef").is_some() => "/spec/chartRef",
        FluxKind::HelmRelease => "/spec/chart/spec/sourceRef",
        _ => return Ok(None),
    };
    let namespace = field(place, "namespace").filter(|_| id.kind != FluxKind::HelmChart);
    let namespace = namespace.unwrap_or_else(|| id.namespace.clone());
    if place.starts_with("/spec/chart/") {
        let name = format!("{}-{}", id.namespace, id.name);
        return Ok(Some(ObjectRef::new(FluxKind::HelmChart, &namespace, &name)));
    }
    let (kind, name) = (field(place, "kind"), field(place, "name"));
    let (kind, name) = (kind.unwrap_or_default(), name.unwrap_or_default());
    match FluxKind::parse(&kind) {
        Some(kind) if kind != FluxKind::ExternalArtifact && !name.is_empty() => {
            Ok(Some(ObjectRef::new(kind, &namespace, &name)))
        }
        _ => Err(Error::new(format!(
            "{id}: the source '{kind}/{name}' cannot be reconciled"
        ))
        .next("leave --with-source out")),
    }
}

/// Waits for objects of a hub until a deadline.
pub struct Wait<'a> {
    /// The hub with the objects.
    pub hub: &'a Hub,
    /// The time at which waiting fails.
    pub deadline: Instant,
}

impl Wait<'_> {
    /// Requests a reconciliation, with these additional annotations, and waits for its end.
    ///
    /// # Errors
    /// The object does not exist, is suspended or not ready, or the cluster's errors.
    pub async fn reconcile(&self, id: &ObjectRef, more: &[&str]) -> Result<Object, Error> {
        let (kind, namespace, name) = (id.kind, id.namespace.as_str(), id.name.as_str());
        let object = hub::object(self.hub, kind, namespace, name).await?;
        if HelmRepository::is_static(&object) {
            term::success("a registry has no index to fetch: the HelmCharts read it directly");
            return Ok(object);
        }
        if is_suspended(&object) {
            return Err(
                Error::new(format!("{kind} {namespace}/{name} is suspended")).next(format!(
                    "driftless resume {} {name} -n {namespace}",
                    KindName::of(kind)
                )),
            );
        }
        term::action(&format!(
            "annotating {kind} {name} in {namespace} namespace"
        ));
        let token = format!("{:.9}", jiff::Timestamp::now());
        let names = [REQUESTED_AT].into_iter().chain(more.iter().copied());
        let annotations: Map<String, Value> = names
            .map(|name| (name.to_owned(), token.as_str().into()))
            .collect();
        let change = json!({"metadata": {"annotations": annotations}});
        patch(self.hub, kind, namespace, name, change).await?;
        term::success(&format!("{kind} annotated"));
        term::waiting(&format!("waiting for {kind} reconciliation"));
        let handled = |object: &Object| {
            text(object, "/status/lastHandledReconcileAt").as_ref() == Some(&token)
                && is_settled(object)
        };
        let object = self.until(kind, namespace, name, handled).await?;
        report_outcome(kind, &object)?;
        Ok(object)
    }

    /// Polls an object until `done` returns true.
    ///
    /// # Errors
    /// Fails at the deadline, with the message of the object's `Ready`.
    pub async fn until(
        &self,
        kind: FluxKind,
        namespace: &str,
        name: &str,
        done: impl Fn(&Object) -> bool,
    ) -> Result<Object, Error> {
        let progress = Progress::new(format!("{kind} {namespace}/{name}"));
        loop {
            let object = hub::object(self.hub, kind, namespace, name).await?;
            if done(&object) {
                return Ok(object);
            }
            let (_, message) = ready(&object);
            if Instant::now() >= self.deadline {
                return Err(Error::new(format!("{kind} {namespace}/{name}: not reconciled in time; its status: {message}"))
                    .next("check that the hub is served: see the log of driftless serve, or of the reconcile function; or give a longer --timeout"));
            }
            progress.say(format!("{kind} {namespace}/{name}: {message}"));
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Returns whether a reconciliation has ended: `Ready` is known and of this generation, and no
/// reconciliation is running. A failure that is retried later is an end; a dependency that is not
/// ready is not.
pub fn is_settled(object: &Object) -> bool {
    let conditions = Conditions::of(object);
    let Some(ready) = conditions.ready() else {
        return false;
    };
    let generation = object
        .pointer("/metadata/generation")
        .and_then(Value::as_i64)
        .unwrap_or(0);
    let is_running = conditions.get(RECONCILING).is_some_and(|reconciling| {
        reconciling.status == ConditionStatus::True
            && reconciling.reason != reason::PROGRESSING_WITH_RETRY
    });
    ready.status != ConditionStatus::Unknown
        && ready.observed_generation >= generation
        && ready.reason != reason::DEPENDENCY_NOT_READY
        && !is_running
}

/// Prints the outcome as Flux does.
///
/// # Errors
/// Fails if the object is not ready.
pub fn report_outcome(kind: FluxKind, object: &Object) -> Result<(), Error> {
    let (status, message) = ready(object);
    if status != "True" {
        let (namespace, name) = (object.namespace(), object.name());
        let failed = format!("{kind} {namespace}/{name}: reconciliation failed: {message}");
        return Err(Error::new(failed).next(format!(
            "correct what the message names and push; driftless get {} -n {namespace} shows the state",
            KindName::of(kind).listed()
        )));
    }
    let verb = match kind {
        FluxKind::Kustomization | FluxKind::HelmRelease => "applied",
        FluxKind::ArtifactGenerator => {
            term::success(&message);
            return Ok(());
        }
        _ => "fetched",
    };
    term::success(&format!("{verb} revision {}", revision(object)));
    Ok(())
}

/// Applies a merge patch to an object.
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
        .patch(&PatchRequest {
            resource: &resource,
            namespace,
            name,
            subresource: None,
            patch: &Patch::Merge(patch),
            manager: MANAGER,
        })
        .await?)
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
    fn a_reconciliation_is_settled_by_its_conditions() {
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
    fn a_failed_outcome_has_the_message_of_ready() {
        let failed =
            object(json!([{"type": "Ready", "status": "False", "message": "no such directory"}]));
        let error = report_outcome(FluxKind::Kustomization, &failed).unwrap_err();
        assert_eq!(
            error.message,
            "Kustomization team/apps: reconciliation failed: no such directory"
        );
    }

    #[test]
    fn sources_of_objects() {
        let source = |kind: FluxKind, spec: Value| {
            let id = ObjectRef::new(kind, "team", "apps");
            let object = json!({"apiVersion": "x/v1", "kind": kind.as_str(), "metadata": {"name": "apps"}, "spec": spec});
            let found = source_of(&id, &Object::new(object).unwrap());
            found.map(|source| source.map(|id| id.to_string()).unwrap_or_default())
        };
        let git = json!({"kind": "GitRepository", "name": "fleet"});
        let far = json!({"kind": "HelmRepository", "name": "charts", "namespace": "far"});
        use FluxKind::{GitRepository, HelmChart, HelmRelease, Kustomization};
        for (kind, spec, want) in [
            (
                Kustomization,
                json!({"sourceRef": git}),
                "GitRepository/team/fleet",
            ),
            (
                Kustomization,
                json!({"sourceRef": far}),
                "HelmRepository/far/charts",
            ),
            (
                HelmChart,
                json!({"sourceRef": far}),
                "HelmRepository/team/charts",
            ),
            (
                HelmRelease,
                json!({"chartRef": far}),
                "HelmRepository/far/charts",
            ),
            (
                HelmRelease,
                json!({"chart": {"spec": {"chart": "x", "sourceRef": far}}}),
                "HelmChart/far/team-apps",
            ),
            (GitRepository, json!({"url": "x"}), ""),
        ] {
            assert_eq!(source(kind, spec).unwrap(), want);
        }
        for none in [
            json!({}),
            json!({"sourceRef": {"kind": "ExternalArtifact", "name": "x"}}),
        ] {
            let error = source(Kustomization, none).unwrap_err();
            assert!(
                error.message.contains("Kustomization/team/apps"),
                "{}",
                error.message
            );
        }
    }
}
