//! `driftless get`: objects and their status, as `flux get` prints them.

use crate::error::{EXIT_CODES, Error};
use crate::hub::{Connection, command};
use crate::ready::{ready, revision, shorten, suspended};
use crate::{output, table, term};
use clap::{Subcommand, ValueEnum};
use driftless_core::flux::{Conditions, FluxKind};
use driftless_core::hub::Hub;
use driftless_manifest::{Object, yaml};
use serde_json::Value;

const EXAMPLES: &str = "Examples:
  driftless get all -A
  driftless get kustomizations
  driftless get kustomizations apps -n team-a -o yaml
  driftless get sources git -A --status-selector ready=false";

/// Print objects and their status
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(subcommand)]
    command: GetCommand,
    #[command(flatten)]
    connection: Connection,
    /// The namespace
    #[arg(
        short,
        long,
        global = true,
        value_name = "NAME",
        default_value = "flux-system"
    )]
    namespace: String,
    /// All namespaces
    #[arg(short = 'A', long, global = true)]
    all_namespaces: bool,
    /// The output format
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Only objects with a condition in this state, such as ready=false
    #[arg(long, global = true, value_name = "TYPE=STATUS", value_parser = selector)]
    status_selector: Option<(String, String)>,
    /// Leave the table's header out
    #[arg(long, global = true)]
    no_header: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
    Yaml,
    Name,
}

#[derive(Subcommand)]
enum GetCommand {
    /// Everything
    #[command(after_help = "Examples:
  driftless get all -A
  driftless get all -A --status-selector ready=false")]
    All,
    /// Kustomizations
    #[command(
        alias = "ks",
        alias = "kustomization",
        after_help = "Examples:
  driftless get kustomizations -A
  driftless get kustomizations apps -n team-a -o yaml"
    )]
    Kustomizations(Name),
    /// Helm releases
    #[command(
        alias = "hr",
        alias = "helmrelease",
        after_help = "Examples:
  driftless get helmreleases -A
  driftless get helmreleases podinfo -n team-a -o json"
    )]
    Helmreleases(Name),
    /// Sources
    #[command(
        alias = "source",
        after_help = "Examples:
  driftless get sources all -A
  driftless get sources git flux-system"
    )]
    Sources(Sources),
}

#[derive(clap::Args)]
struct Sources {
    #[command(subcommand)]
    kind: SourceKind,
}

#[derive(Subcommand)]
enum SourceKind {
    /// Sources of every kind
    #[command(after_help = "Examples:
  driftless get sources all -A")]
    All,
    /// Git repositories
    #[command(
        alias = "gitrepository",
        after_help = "Examples:
  driftless get sources git -A
  driftless get sources git flux-system -o yaml"
    )]
    Git(Name),
    /// OCI repositories
    #[command(
        alias = "ocirepository",
        after_help = "Examples:
  driftless get sources oci -A"
    )]
    Oci(Name),
    /// Helm repositories
    #[command(
        alias = "helmrepository",
        after_help = "Examples:
  driftless get sources helm -n team-a"
    )]
    Helm(Name),
    /// Helm charts
    #[command(
        alias = "helmchart",
        after_help = "Examples:
  driftless get sources chart -A"
    )]
    Chart(Name),
    /// Buckets
    #[command(after_help = "Examples:
  driftless get sources bucket -A")]
    Bucket(Name),
    /// Artifacts of other controllers
    #[command(after_help = "Examples:
  driftless get sources external -A")]
    External(Name),
}

#[derive(clap::Args)]
struct Name {
    /// The object's name
    name: Option<String>,
}

const SOURCES: [FluxKind; 6] = [
    FluxKind::OCIRepository,
    FluxKind::Bucket,
    FluxKind::GitRepository,
    FluxKind::HelmRepository,
    FluxKind::HelmChart,
    FluxKind::ExternalArtifact,
];

impl GetCommand {
    /// Returns the kinds to list.
    fn kinds(&self) -> Vec<FluxKind> {
        match self {
            Self::All => SOURCES
                .into_iter()
                .chain([FluxKind::HelmRelease, FluxKind::Kustomization])
                .collect(),
            Self::Kustomizations(_) => vec![FluxKind::Kustomization],
            Self::Helmreleases(_) => vec![FluxKind::HelmRelease],
            Self::Sources(Sources { kind }) => match kind {
                SourceKind::All => SOURCES.to_vec(),
                SourceKind::Git(_) => vec![FluxKind::GitRepository],
                SourceKind::Oci(_) => vec![FluxKind::OCIRepository],
                SourceKind::Helm(_) => vec![FluxKind::HelmRepository],
                SourceKind::Chart(_) => vec![FluxKind::HelmChart],
                SourceKind::Bucket(_) => vec![FluxKind::Bucket],
                SourceKind::External(_) => vec![FluxKind::ExternalArtifact],
            },
        }
    }

    /// Returns the name of the only object to list; `None` for all objects of the kinds.
    fn name(&self) -> Option<&str> {
        use SourceKind::{All, Bucket, Chart, External, Git, Helm, Oci};
        let name = match self {
            Self::All | Self::Sources(Sources { kind: All }) => return None,
            Self::Kustomizations(name) | Self::Helmreleases(name) => name,
            Self::Sources(Sources {
                kind:
                    Git(name) | Oci(name) | Helm(name) | Chart(name) | Bucket(name) | External(name),
            }) => name,
        };
        name.name.as_deref()
    }

    fn is_one_kind(&self) -> bool {
        !matches!(
            self,
            Self::All
                | Self::Sources(Sources {
                    kind: SourceKind::All
                })
        )
    }
}

fn selector(text: &str) -> Result<(String, String), String> {
    let (kind, status) = text
        .split_once('=')
        .ok_or("expected TYPE=STATUS, such as ready=false")?;
    Ok((kind.to_owned(), status.to_owned()))
}

/// Lists, filters and prints.
pub async fn run(args: Args) -> Result<(), Error> {
    let hub = args.connection.connect().await?;
    let namespace = if args.all_namespaces {
        ""
    } else {
        &args.namespace
    };
    let mut lists = Vec::new();
    for kind in args.command.kinds() {
        let mut objects = list(&hub, kind, namespace, args.command.is_one_kind()).await?;
        objects.retain(|object| args.command.name().is_none_or(|name| object.name() == name));
        lists.push((kind, objects));
    }
    if lists.iter().all(|(_, objects)| objects.is_empty()) {
        return Err(no_objects(&args));
    }
    if let Some((kind, status)) = &args.status_selector {
        lists
            .iter_mut()
            .for_each(|(_, objects)| objects.retain(|object| matches(object, kind, status)));
    }
    lists.retain(|(_, objects)| !objects.is_empty());
    match args.output {
        Format::Table => term::result(&tables(&args, &lists)),
        Format::Name => term::result(
            &lists
                .iter()
                .flat_map(|(_, objects)| objects)
                .map(resource_name)
                .collect::<String>(),
        ),
        Format::Json => output::print_json(&document(&args, lists)),
        Format::Yaml => term::result(&yaml::to_string(&document(&args, lists))),
    }
}

/// Returns the objects of a kind, sorted by namespace and name. A kind that the hub does not serve
/// is an error if `needed`, else it has no objects.
async fn list(
    hub: &Hub,
    kind: FluxKind,
    namespace: &str,
    needed: bool,
) -> Result<Vec<Object>, Error> {
    use driftless_core::ports::ErrorKind;
    let resource = match hub.resource(kind).await {
        Ok(resource) => resource,
        Err(error) if error.kind == ErrorKind::NotFound && !needed => return Ok(Vec::new()),
        Err(error) if error.kind == ErrorKind::NotFound => {
            return Err(Error::new(error)
                .next("install Flux's definitions with driftless serve, or with `flux install`"));
        }
        Err(error) => return Err(error.into()),
    };
    let mut objects = hub.cluster.list(&resource, namespace, "").await?;
    objects.sort_by(|a, b| (a.namespace(), a.name()).cmp(&(b.namespace(), b.name())));
    Ok(objects)
}

fn no_objects(args: &Args) -> Error {
    let place = if args.all_namespaces {
        "any".to_owned()
    } else {
        format!("\"{}\"", args.namespace)
    };
    let kinds = args.command.kinds();
    let error = match (args.command.name(), kinds.as_slice()) {
        (Some(name), [kind]) => Error::new(format!(
            "{kind} object '{name}' not found in {place} namespace"
        )),
        (_, [kind]) => Error::new(format!("no {kind} objects found in {place} namespace")),
        _ => Error::new(format!("no objects found in {place} namespace")),
    };
    if args.all_namespaces {
        return error;
    }
    let command = if let [kind] = kinds.as_slice() {
        command(*kind)
    } else {
        "all"
    };
    error.next(format!("list all namespaces: driftless get {command} -A"))
}

fn matches(object: &Object, kind: &str, status: &str) -> bool {
    let conditions = Conditions::of(object);
    let found = conditions
        .iter()
        .find(|condition| condition.kind.eq_ignore_ascii_case(kind));
    found.is_some_and(|condition| condition.status.as_str().eq_ignore_ascii_case(status))
}

/// Renders one table for each kind, as Flux does.
fn tables(args: &Args, lists: &[(FluxKind, Vec<Object>)]) -> String {
    let several = !args.command.is_one_kind();
    let tables = lists.iter().map(|(_, objects)| {
        let table = table_of(objects, args.all_namespaces, several, !args.no_header);
        if several { table + "\n" } else { table }
    });
    tables.collect()
}

fn table_of(
    objects: &[Object],
    with_namespace: bool,
    with_kind: bool,
    with_header: bool,
) -> String {
    let mut header = vec!["Name", "Revision", "Suspended", "Ready", "Message"];
    if with_namespace {
        header.insert(0, "Namespace");
    }
    let rows: Vec<Vec<String>> = objects
        .iter()
        .map(|object| row(object, with_namespace, with_kind))
        .collect();
    table::render(if with_header { &header } else { &[] }, &rows)
}

fn row(object: &Object, with_namespace: bool, with_kind: bool) -> Vec<String> {
    let (status, message) = ready(object);
    let kind = if with_kind {
        format!("{}/", object.kind().to_lowercase())
    } else {
        String::new()
    };
    let suspended = if suspended(object) { "True" } else { "False" };
    let mut row = if with_namespace {
        vec![object.namespace().to_owned()]
    } else {
        Vec::new()
    };
    row.extend([
        format!("{kind}{}", object.name()),
        shorten(&revision(object)),
        suspended.to_owned(),
        status,
    ]);
    // Line breaks in a message would break the table.
    row.push(
        shorten(&message)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" "),
    );
    row
}

/// Returns the name of an object as kubectl prints it:
/// `kustomization.kustomize.toolkit.fluxcd.io/apps`.
fn resource_name(object: &Object) -> String {
    format!(
        "{}.{}/{}\n",
        object.kind().to_lowercase(),
        object.group(),
        object.name()
    )
}

/// Returns the named object, or a List.
fn document(args: &Args, lists: Vec<(FluxKind, Vec<Object>)>) -> Value {
    let objects = lists.into_iter().flat_map(|(_, objects)| objects);
    output::document(objects.collect(), args.command.name().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kustomization(namespace: &str, name: &str, status: Value) -> Object {
        Object::new(json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"namespace": namespace, "name": name}, "spec": {"suspend": name == "off"}, "status": status}))
        .unwrap()
    }

    fn objects() -> Vec<Object> {
        let revision = "main@sha1:6f2c1a9e0b3d4c5f6a7b8c9d0e1f2a3b4c5d6e7f";
        let ready = json!({"lastAppliedRevision": revision, "conditions": [
            {"type": "Ready", "status": "True", "message": format!("Applied revision: {revision}")}]});
        let failed =
            json!({"conditions": [{"type": "Ready", "status": "False", "message": "two\nlines"}]});
        vec![
            kustomization("team-a", "apps", ready),
            kustomization("b", "off", failed),
            kustomization("b", "new", json!({})),
        ]
    }

    #[test]
    fn tables_are_equal_to_those_of_flux() {
        let want = "NAME\tREVISION          \tSUSPENDED\tREADY\tMESSAGE                            \n\
                    apps\tmain@sha1:6f2c1a9e\tFalse    \tTrue \tApplied revision: main@sha1:6f2c1a9e\t\n";
        let want = want.replace(
            "MESSAGE                            ",
            &format!("{:<36}", "MESSAGE"),
        );
        assert_eq!(table_of(&objects()[..1], false, false, true), want);
        let all = table_of(&objects(), true, true, true);
        let lines: Vec<&str> = all.lines().collect();
        assert!(
            lines[0].starts_with("NAMESPACE\tNAME              \tREVISION"),
            "{all}"
        );
        assert!(
            lines[1].starts_with("team-a   \tkustomization/apps\tmain@sha1:6f2c1a9e"),
            "{all}"
        );
        assert!(lines[2].contains("\tTrue     \tFalse\ttwo lines "), "{all}");
        assert!(
            lines[3].contains("\tFalse\twaiting to be reconciled"),
            "{all}"
        );
        assert_eq!(
            table_of(&objects()[2..], false, false, false),
            "new\t\tFalse\tFalse\twaiting to be reconciled\t\n"
        );
    }

    #[test]
    fn selects_by_condition() {
        let names = |kind: &str, status: &str| {
            let objects = objects();
            objects
                .iter()
                .filter(|object| matches(object, kind, status))
                .map(|object| object.name().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(names("ready", "false"), ["off"]);
        assert_eq!(names("READY", "True"), ["apps"]);
        assert!(names("stalled", "true").is_empty());
        assert!(selector("ready").is_err());
    }

    #[test]
    fn revisions_by_kind() {
        let release = json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": {"name": "r"},
            "status": {"history": [{"chartVersion": "1.2.3"}], "lastAttemptedRevision": "2.0.0"}});
        assert_eq!(revision(&Object::new(release).unwrap()), "1.2.3");
        let source = json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": {"name": "r"},
            "status": {"artifact": {"revision": "main@sha1:a"}}});
        assert_eq!(revision(&Object::new(source).unwrap()), "main@sha1:a");
        assert_eq!(
            resource_name(&objects()[0]),
            "kustomization.kustomize.toolkit.fluxcd.io/apps\n"
        );
    }
}
