//! `driftless stats`: how many objects of each kind run, fail and are suspended, and the bytes of
//! their artifacts, as `flux stats` prints them.

use crate::concurrent;
use crate::error::{EXIT_CODES, Error};
use crate::hub::Scope;
use crate::output::{self, Output, TableOrJson};
use crate::{table, term};
use driftless_flux::{ConditionStatus, Conditions, READY, is_suspended};
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::{ErrorKind, ListRequest};
use driftless_manifest::{Gvk, Object};
use serde_json::{Value, json};

const EXAMPLES: &str = "Examples:
  driftless stats -A
  driftless stats -n team-a
  driftless stats -A -o json

Running counts the objects that are not suspended, also failing ones. Kinds that the hub does not serve have no objects.";

/// The kinds in the order of Flux, with the group and its current version. driftless does not
/// reconcile the images; another controller on the hub may.
const KINDS: [(&str, &str); 13] = [
    ("source.toolkit.fluxcd.io/v1", "GitRepository"),
    ("source.toolkit.fluxcd.io/v1", "OCIRepository"),
    ("source.toolkit.fluxcd.io/v1", "HelmRepository"),
    ("source.toolkit.fluxcd.io/v1", "HelmChart"),
    ("source.toolkit.fluxcd.io/v1", "Bucket"),
    ("kustomize.toolkit.fluxcd.io/v1", "Kustomization"),
    ("helm.toolkit.fluxcd.io/v2", "HelmRelease"),
    ("notification.toolkit.fluxcd.io/v1beta3", "Alert"),
    ("notification.toolkit.fluxcd.io/v1beta3", "Provider"),
    ("notification.toolkit.fluxcd.io/v1", "Receiver"),
    ("image.toolkit.fluxcd.io/v1", "ImageUpdateAutomation"),
    ("image.toolkit.fluxcd.io/v1", "ImagePolicy"),
    ("image.toolkit.fluxcd.io/v1", "ImageRepository"),
];

/// Print how many objects of each kind run, fail and are suspended
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    /// All namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    #[command(flatten)]
    output: Output<TableOrJson>,
    #[command(flatten)]
    scope: Scope,
}

/// The counts of a kind.
#[derive(Debug, PartialEq, Eq)]
struct Counts {
    running: usize,
    failing: usize,
    suspended: usize,
    bytes: i64,
}

/// Counts and prints.
///
/// # Errors
/// A kind cannot be listed.
pub async fn run(args: Args) -> Result<(), Error> {
    let hub = args.scope.connection.connect().await?;
    let namespace = match args.all_namespaces {
        true => "",
        false => &args.scope.namespace,
    };
    let lists = KINDS
        .iter()
        .map(|(version, kind)| list(&hub, Gvk::new(version, kind), namespace));
    let lists = concurrent::run(lists).await;
    let mut counted = Vec::new();
    for ((_, kind), objects) in KINDS.iter().zip(lists) {
        counted.push((*kind, Counts::of(&objects?)));
    }
    match args.output.format {
        TableOrJson::Json => {
            let kinds = counted.iter().map(|(kind, counts)| counts.document(kind));
            output::print_json(&kinds.collect())
        }
        TableOrJson::Table => {
            let rows: Vec<Vec<String>> = counted
                .iter()
                .map(|(kind, counts)| counts.row(kind))
                .collect();
            let header = ["Reconcilers", "Running", "Failing", "Suspended", "Storage"];
            term::result(&table::render(&header, &rows))
        }
    }
}

/// Lists the objects of a kind, in the version of Flux or another one that the hub serves.
async fn list(hub: &Hub, gvk: Gvk, namespace: &str) -> Result<Vec<Object>, Error> {
    let resource = match hub.cluster.resource(&gvk).await? {
        Some(resource) => resource,
        None => match hub
            .cluster
            .versions(&gvk.group, &gvk.kind)
            .await?
            .into_iter()
            .next()
        {
            Some(resource) => resource,
            None => return Ok(Vec::new()),
        },
    };
    let request = ListRequest {
        namespace,
        ..ListRequest::all(&resource)
    };
    match hub.cluster.list(&request).await {
        Err(error) if error.kind == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => {
            let place = if namespace.is_empty() {
                "all namespaces"
            } else {
                namespace
            };
            let error = Error::from(error).at(&format!("list the {} objects of {place}", gvk.kind));
            Err(match namespace {
                "" => error.next("give one namespace with -n, if you may not list all of them"),
                _ => error,
            })
        }
        Ok(objects) => Ok(objects),
    }
}

impl Counts {
    fn of(objects: &[Object]) -> Self {
        let count = |passes: fn(&Object) -> bool| objects.iter().filter(|one| passes(one)).count();
        let suspended = count(is_suspended);
        let bytes = objects.iter().filter_map(|object| {
            object
                .pointer("/status/artifact/size")
                .and_then(Value::as_i64)
        });
        Self {
            running: objects.len() - suspended,
            failing: count(is_failing),
            suspended,
            bytes: bytes.sum(),
        }
    }

    fn row(&self, kind: &str) -> Vec<String> {
        vec![
            kind.to_owned(),
            self.running.to_string(),
            self.failing.to_string(),
            self.suspended.to_string(),
            size(self.bytes),
        ]
    }

    fn document(&self, kind: &str) -> Value {
        json!({"kind": kind, "running": self.running, "failing": self.failing,
            "suspended": self.suspended, "artifactBytes": self.bytes})
    }
}

fn is_failing(object: &Object) -> bool {
    let conditions = Conditions::of(object);
    let mut ready = conditions
        .iter()
        .filter(|condition| condition.kind == READY);
    ready.any(|condition| condition.status == ConditionStatus::False)
}

/// Returns a number of bytes as Flux prints it.
fn size(bytes: i64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    match bytes {
        0 => return "-".to_owned(),
        ..1024 => return format!("{bytes} B"),
        _ => {}
    }
    #[expect(
        clippy::cast_precision_loss,
        reason = "one digit after the point is printed"
    )]
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // Flux divides the integer, so that 1023.99 KiB is not yet 1 MiB.
    let mut whole = bytes / 1024;
    while whole >= 1024 && unit + 1 < UNITS.len() {
        whole /= 1024;
        value /= 1024.0;
        unit += 1;
    }
    format!(
        "{value:.1} {}",
        UNITS.get(unit).copied().unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_equal_to_those_of_flux() {
        for (bytes, want) in [
            (0, "-"),
            (1, "1 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_048_575, "1024.0 KiB"),
            (1_048_576, "1.0 MiB"),
            (5_400_000_000, "5.0 GiB"),
        ] {
            assert_eq!(size(bytes), want, "{bytes}");
        }
    }

    #[test]
    fn objects_are_counted() {
        let object = |suspend: bool, ready: &str, size: i64| {
            Object::new(json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
                "metadata": {"name": "a"}, "spec": {"suspend": suspend},
                "status": {"conditions": [{"type": "Ready", "status": ready}], "artifact": {"size": size}}}))
            .unwrap()
        };
        let objects = [
            object(false, "True", 10),
            object(false, "False", 0),
            object(true, "False", 5),
        ];
        let want = Counts {
            running: 2,
            failing: 2,
            suspended: 1,
            bytes: 15,
        };
        assert_eq!(Counts::of(&objects), want);
    }
}
