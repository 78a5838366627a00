//! `driftless suspend` and `driftless resume`.

use crate::change_options::{ChangeOptions, WaitOptions};
use crate::error::{EXIT_CODES, Error};
use crate::hub;
use crate::kinds::{KindCommand, KindName, Verb, examples, is_suspendable};
use crate::reconcile::{Wait, is_settled, patch, report_outcome};
use crate::term;
use driftless_flux::{FluxKind, ObjectRef, is_suspended, suspension};
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::ListRequest;
use std::collections::BTreeSet;
use tokio::time::Instant;

const SUSPEND: &str = "Examples:
  driftless suspend kustomization apps
  driftless suspend kustomization --all -n team-a
  driftless suspend source git flux-system";
const RESUME: &str = "Examples:
  driftless resume kustomization apps
  driftless resume kustomization --all -n team-a --timeout 10m";

/// Suspend the reconciliation of objects
#[derive(clap::Args)]
#[command(after_help = format!("{SUSPEND}\n\n{EXIT_CODES}"))]
pub struct SuspendArgs {
    #[command(subcommand)]
    command: KindCommand<ObjectNames>,
    #[command(flatten)]
    options: ChangeOptions,
}

/// Resume suspended objects, and wait for them
#[derive(clap::Args)]
#[command(after_help = format!("{RESUME}\n\n{EXIT_CODES}"))]
pub struct ResumeArgs {
    #[command(subcommand)]
    command: KindCommand<ObjectNames>,
    #[command(flatten)]
    options: WaitOptions,
}

#[derive(clap::Args)]
struct ObjectNames {
    /// The objects' names
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    names: Vec<String>,
    /// All objects of the kind in the namespace
    #[arg(long)]
    all: bool,
}

impl Verb for ObjectNames {
    fn accepts(kind: FluxKind) -> bool {
        is_suspendable(kind)
    }

    fn help(name: &KindName) -> String {
        let verbs = ["suspend", "resume"];
        examples(&verbs.map(|verb| format!("{verb} {name} {}", name.example)))
    }
}

impl ObjectNames {
    /// Returns the given names, or with `--all` those of all objects.
    async fn names(
        &self,
        hub: &Hub,
        kind: FluxKind,
        namespace: &str,
    ) -> Result<BTreeSet<String>, Error> {
        if !self.all {
            return Ok(self.names.iter().cloned().collect());
        }
        let resource = hub.resource(kind).await?;
        let request = ListRequest {
            namespace,
            ..ListRequest::all(&resource)
        };
        let objects = hub.cluster.list(&request).await?;
        if objects.is_empty() {
            return Err(Error::new(format!(
                "no {kind} objects found in \"{namespace}\" namespace"
            )));
        }
        Ok(objects
            .iter()
            .map(|object| object.name().to_owned())
            .collect())
    }
}

/// Sets `spec.suspend` of each object.
pub async fn suspend(args: SuspendArgs) -> Result<(), Error> {
    let KindCommand { kind, args: which } = args.command;
    let ChangeOptions { output, scope } = args.options;
    let hub = scope.connection.connect().await?;
    let namespace = &scope.namespace;
    let mut failed = Failed::default();
    let mut objects = Vec::new();
    for name in which.names(&hub, kind, namespace).await? {
        let done = async {
            hub::object(&hub, kind, namespace, &name).await?;
            term::action(&format!(
                "suspending {} {name} in {namespace} namespace",
                KindName::of(kind)
            ));
            let object = patch(&hub, kind, namespace, &name, suspension(kind, true)).await?;
            term::success(&format!("{} suspended", KindName::of(kind)));
            Ok(object)
        };
        objects.extend(failed.note(done.await));
    }
    output.print(objects, !which.all)?;
    failed.end()
}

/// Removes `spec.suspend`, then waits for each object.
pub async fn resume(args: ResumeArgs) -> Result<(), Error> {
    let KindCommand { kind, args: which } = args.command;
    let WaitOptions { timeout, change } = args.options;
    let hub = change.scope.connection.connect().await?;
    let namespace = &change.scope.namespace;
    let wait = Wait {
        hub: &hub,
        deadline: Instant::now() + timeout,
    };
    let mut failed = Failed::default();
    let mut objects = Vec::new();
    let mut resumed = Vec::new();
    for name in which.names(&hub, kind, namespace).await? {
        let done = async {
            hub::object(&hub, kind, namespace, &name).await?;
            term::action(&format!(
                "resuming {} {name} in {namespace} namespace",
                KindName::of(kind)
            ));
            patch(&hub, kind, namespace, &name, suspension(kind, false)).await?;
            term::success(&format!("{} resumed", KindName::of(kind)));
            Ok(())
        };
        if failed.note(done.await).is_some() {
            resumed.push(name);
        }
    }
    for name in resumed {
        let done = async {
            if kind == FluxKind::ArtifactGenerator {
                // Its generation is the same, so only a request shows the end of a step.
                let id = ObjectRef::new(kind, namespace, &name);
                return wait.reconcile(&id, &[]).await;
            }
            term::waiting(&format!("waiting for {kind} reconciliation"));
            let object = wait
                .until(kind, namespace, &name, |object| {
                    is_suspended(object) || is_settled(object)
                })
                .await?;
            if is_suspended(&object) {
                return Err(Error::new(format!("{kind} {namespace}/{name} was suspended again by another writer"))
                    .next(format!("find the cause, such as suspend: true in its manifest in Git; then run driftless resume {} {name}", KindName::of(kind))));
            }
            term::success(&format!("{kind} reconciliation completed"));
            report_outcome(kind, &object)?;
            Ok(object)
        };
        objects.extend(failed.note(done.await));
    }
    change.output.print(objects, !which.all)?;
    failed.end()
}

/// The errors of some objects, which do not stop the others.
#[derive(Default)]
struct Failed(Vec<Error>);

impl Failed {
    fn note<T>(&mut self, done: Result<T, Error>) -> Option<T> {
        match done {
            Ok(done) => Some(done),
            Err(error) => {
                term::failure(&error.message);
                self.0.push(error);
                None
            }
        }
    }

    fn end(mut self) -> Result<(), Error> {
        match self.0.len() {
            0 => Ok(()),
            1 => Err(self.0.remove(0)),
            count => Err(Error::new(format!("{count} objects failed"))),
        }
    }
}
