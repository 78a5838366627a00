//! `driftless get`: objects and their status, as `flux get` prints them.

mod kinds;
mod rows;
mod watch;

use crate::error::{EXIT_CODES, Error};
use crate::follow::Follow;
use crate::hub::Scope;
use crate::kinds::KindName;
use crate::output::{self, Output};
use crate::term;
use clap::ValueEnum;
use driftless_flux::{Conditions, FluxKind, Invalid, READY};
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::{ErrorKind, ListRequest, Resource};
use driftless_manifest::labels::LabelSelector;
use driftless_manifest::{Object, yaml};
use kinds::{ALL, GetCommand};
use rows::Columns;
use serde_json::Value;

const EXAMPLES: &str = "Examples:
  driftless get all -A
  driftless get kustomizations
  driftless get kustomizations apps -n team-a -o yaml
  driftless get sources git -A --status-selector ready=false
  driftless get alerts -A -l team=a
  driftless get all -A --watch";

/// Print objects and their status
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    #[command(subcommand)]
    command: GetCommand,
    #[command(flatten)]
    scope: Scope,
    /// All namespaces
    #[arg(short = 'A', long, global = true)]
    all_namespaces: bool,
    #[command(flatten)]
    output: Output<Format>,
    /// Only objects with a condition in this state, such as ready=false or ready!=true
    #[arg(long, global = true, value_name = "TYPE=STATUS", value_parser = selector)]
    status_selector: Option<StatusSelector>,
    /// Only objects with these labels, such as app=web,tier in (a,b),!old
    #[arg(short = 'l', long, global = true, value_name = "SELECTOR", value_parser = LabelSelector::parse)]
    label_selector: Option<LabelSelector>,
    /// Print changes until the command is interrupted: the table is redrawn on a terminal, and each
    /// change is a line elsewhere
    #[arg(short, long, global = true)]
    watch: bool,
    /// Leave the table's header out
    #[arg(long, global = true)]
    no_header: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The columns of `flux get`
    Table,
    /// Also the source and the age
    Wide,
    Json,
    Yaml,
    Name,
}

impl output::Format for Format {
    const DEFAULT: &'static str = "table";
}

/// The state of a condition that objects must have, or must not have.
#[derive(Clone, Debug)]
struct StatusSelector {
    kind: String,
    status: String,
    is_negated: bool,
}

fn selector(text: &str) -> Result<StatusSelector, Invalid> {
    let (parts, is_negated) = match text.split_once("!=") {
        Some(parts) => (Some(parts), true),
        None => (text.split_once('='), false),
    };
    let (kind, status) =
        parts.ok_or("expected TYPE=STATUS or TYPE!=STATUS, such as ready=false")?;
    Ok(StatusSelector {
        kind: kind.to_owned(),
        status: status.to_owned(),
        is_negated,
    })
}

impl StatusSelector {
    fn is_ready(&self) -> bool {
        self.kind.eq_ignore_ascii_case(READY) && self.status.eq_ignore_ascii_case("true")
    }

    fn matches(&self, object: &Object) -> bool {
        let conditions = Conditions::of(object);
        let found = conditions
            .iter()
            .find(|condition| condition.kind.eq_ignore_ascii_case(&self.kind));
        let has = found
            .is_some_and(|condition| condition.status.as_str().eq_ignore_ascii_case(&self.status));
        let has = has || (self.is_ready() && rows::is_ready_without_status(object));
        has != self.is_negated
    }
}

impl Args {
    fn columns(&self) -> Columns {
        let columns = Columns {
            namespace: self.all_namespaces,
            kind: !self.command.is_one_kind(),
            header: !self.no_header,
            wide: self.output.format == Format::Wide,
            revision: true,
            suspended: true,
        };
        match self.command.kinds() {
            [kind] => columns.of(*kind),
            _ => columns,
        }
    }

    /// Renders one table for each kind, as Flux does.
    fn tables(&self, lists: &[(FluxKind, Vec<Object>)]) -> String {
        let tables = lists.iter().map(|(kind, objects)| {
            let columns = self.columns().of(*kind);
            let table = columns.table(objects);
            let table = term::plain(&table);
            let mut table = match term::colours_on_stdout() {
                true => columns.paint(&table),
                false => table.into_owned(),
            };
            if columns.kind {
                table.push('\n');
            }
            table
        });
        tables.collect()
    }

    /// Returns the namespace to list; empty for all.
    fn place(&self) -> &str {
        if self.all_namespaces {
            ""
        } else {
            &self.scope.namespace
        }
    }

    fn has_name(&self, object: &Object) -> bool {
        let name = self.command.name();
        name.is_none_or(|name| object.name() == name)
    }

    fn has_labels(&self, object: &Object) -> bool {
        let selector = self.label_selector.as_ref();
        selector.is_none_or(|selector| selector.matches(|key| object.label(key)))
    }

    fn has_status(&self, object: &Object) -> bool {
        let selector = self.status_selector.as_ref();
        selector.is_none_or(|selector| selector.matches(object))
    }
}

/// Lists, filters and prints.
pub async fn run(args: Args) -> Result<(), Error> {
    if args.watch && !matches!(args.output.format, Format::Table | Format::Wide) {
        return Err(Error::usage("--watch: only tables can be watched")
            .next("leave --watch or --output out"));
    }
    let hub = args.scope.connection.connect().await?;
    if args.watch {
        return follow(&hub, &args).await;
    }
    let mut lists = Vec::new();
    for &kind in args.command.kinds() {
        let mut objects = list(&hub, kind, args.place(), args.command.is_one_kind()).await?;
        objects.retain(|object| args.has_name(object) && args.has_labels(object));
        lists.push((kind, objects));
    }
    if lists.iter().all(|(_, objects)| objects.is_empty()) {
        return Err(no_objects(&args));
    }
    for (_, objects) in &mut lists {
        objects.retain(|object| args.has_status(object));
    }
    lists.retain(|(_, objects)| !objects.is_empty());
    match args.output.format {
        Format::Table | Format::Wide => term::result(&args.tables(&lists)),
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

/// Follows the objects until the command is interrupted.
async fn follow(hub: &Hub, args: &Args) -> Result<(), Error> {
    let mut follows = Vec::new();
    for &kind in args.command.kinds() {
        if let Some(resource) = served(hub, kind, args.command.is_one_kind()).await? {
            follows.push(Follow::start(hub.cluster.as_ref(), resource, args.place()).await?);
        }
    }
    let is_named = args.command.name().is_some();
    let mut objects = follows.iter().flat_map(Follow::objects);
    if is_named && !objects.any(|object| args.has_name(object)) {
        return Err(no_objects(args));
    }
    drop(objects);
    let passes = |object: &Object| {
        args.has_name(object) && args.has_labels(object) && args.has_status(object)
    };
    watch::run(follows, args.columns(), passes).await
}

/// Returns the resource of a kind. A kind that the hub does not serve is an error if `needed`, else
/// `None`.
async fn served(hub: &Hub, kind: FluxKind, needed: bool) -> Result<Option<Resource>, Error> {
    match hub.resource(kind).await {
        Ok(resource) => Ok(Some(resource)),
        Err(error) if error.kind == ErrorKind::NotFound && !needed => Ok(None),
        Err(error) if error.kind == ErrorKind::NotFound => Err(Error::new(error)
            .next("install Flux's definitions with driftless serve, or with `flux install`")),
        Err(error) => Err(error.into()),
    }
}

/// Returns the objects of a kind, sorted by namespace and name.
async fn list(
    hub: &Hub,
    kind: FluxKind,
    namespace: &str,
    needed: bool,
) -> Result<Vec<Object>, Error> {
    let Some(resource) = served(hub, kind, needed).await? else {
        return Ok(Vec::new());
    };
    let request = ListRequest {
        namespace,
        ..ListRequest::all(&resource)
    };
    let mut objects = hub.cluster.list(&request).await?;
    objects.sort_by(|a, b| (a.namespace(), a.name()).cmp(&(b.namespace(), b.name())));
    Ok(objects)
}

fn no_objects(args: &Args) -> Error {
    let place = if args.all_namespaces {
        "any".to_owned()
    } else {
        format!("\"{}\"", args.scope.namespace)
    };
    let kinds = args.command.kinds();
    let error = match (args.command.name(), kinds) {
        (Some(name), [kind]) => Error::new(format!(
            "{kind} object '{name}' not found in {place} namespace"
        )),
        (_, [kind]) => Error::new(format!("no {kind} objects found in {place} namespace")),
        _ => Error::new(format!("no objects found in {place} namespace")),
    };
    if args.label_selector.is_some() {
        return error.next("leave --label-selector out to list all objects");
    }
    if args.all_namespaces {
        return error;
    }
    let command = match kinds {
        [kind] => KindName::of(*kind).listed(),
        _ => ALL.to_owned(),
    };
    error.next(format!("list all namespaces: driftless get {command} -A"))
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
    use crate::ready::revision;
    use serde_json::json;

    fn kustomization(namespace: &str, name: &str, status: Value) -> Object {
        Object::new(json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"namespace": namespace, "name": name}, "spec": {"suspend": name == "off", "sourceRef": {"kind": "GitRepository", "name": "fleet"}}, "status": status}))
        .unwrap()
    }

    pub(super) fn objects() -> Vec<Object> {
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
    fn selects_by_condition() {
        let names = |text: &str| {
            let selector = selector(text).unwrap();
            let objects = objects();
            objects
                .iter()
                .filter(|object| selector.matches(object))
                .map(|object| object.name().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(names("ready=false"), ["off"]);
        assert_eq!(names("READY=True"), ["apps"]);
        assert_eq!(names("ready!=true"), ["off", "new"]);
        assert!(names("stalled=true").is_empty());
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
