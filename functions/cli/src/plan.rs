//! The command `driftless plan`: what a change of a fleet repository would do in its clusters.

use crate::cluster_options::ClusterOptions;
use crate::error::Error;
use crate::fleet_options::FleetOptions;
use crate::hub::{Connection, LiveHubs};
use crate::output::{self, Output};
use crate::progress::Progress;
use crate::term;
use clap::ValueEnum;
use driftless_adapters::git::{Checkout, CommitId};
use driftless_fleet::Fleet;
use driftless_fleet::plan::{
    self, COMMENT_LIMIT, LiveClusters, Plan, State, json, markdown, summary,
};
use driftless_manifest::{FileTree, TreePath};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "Examples:
  driftless plan                                   # the working tree, against its merge base
  driftless plan --base HEAD                       # only what is not committed yet
  driftless plan --base main --head feature fleet
  driftless plan --base origin/main -o markdown    # for a pull request
  driftless plan --sops-key age.agekey --detailed-exitcode
  driftless plan --live --context production       # against the live objects

Both states are applied to API servers in this process, one for each hub and remote cluster, as driftless check does. Without \
--live no cluster is asked. Objects are compared as these servers have them. Decrypted values and those of Secrets \
are never printed, also not where other objects repeat them.

With --live each object is compared with the live one by a dry run of server-side apply, as the user that its Kustomization or \
HelmRelease acts as; nothing is stored. Drift is listed apart. A single hub is the one of --context; several hubs have the \
contexts with their names. Remote clusters are reached through the kubeconfig Secrets of the hub. A cluster that cannot be \
reached is compared with the base, with a warning.

Exit codes: 0 done, with or without changes (with --detailed-exitcode 0 means no changes and 2 changes), 1 failed or the change \
adds an error, 2 wrong usage.";

/// Print what a change of a fleet repository would do in its clusters
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Directory of the fleet repository, in a Git checkout
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Revision before the change: a branch, a tag or a commit. The default is the commit where
    /// HEAD left the default branch of origin, or HEAD without such a branch
    #[arg(long, value_name = "REF")]
    base: Option<String>,
    /// Revision after the change. The default is the working tree
    #[arg(long, value_name = "REF")]
    head: Option<String>,
    #[command(flatten)]
    fleet: FleetOptions,
    #[command(flatten)]
    clusters: ClusterOptions,
    /// Compare with the live objects of the clusters
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    connection: Connection,
    /// Exit with code 2 if an object changes
    #[arg(long)]
    detailed_exitcode: bool,
    #[command(flatten)]
    output: Output<Format>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The changes of each cluster with their diffs
    Text,
    /// A JSON document
    Json,
    /// Markdown with folded diffs, of at most 65,536 bytes
    Markdown,
}

impl output::Format for Format {
    const DEFAULT: &'static str = "text";
}

/// Runs the command.
pub async fn run(args: Args) -> Result<(), Error> {
    let Connection {
        kubeconfig,
        context,
    } = &args.connection;
    if !args.live && (kubeconfig.is_some() || context.is_some()) {
        return Err(Error::usage("--kubeconfig and --context need --live").next("add --live"));
    }
    let options = args.clusters.check(false)?;
    let checkout = Checkout::open(&args.dir).map_err(|error| {
        Error::usage(error.message)
            .next("give the directory of a fleet repository in a Git checkout")
    })?;
    let base = match &args.base {
        Some(name) => resolve(&checkout, "--base", name)?,
        None => checkout.base().map_err(|error| {
            Error::new(error.message).next("name the revision before the change with --base")
        })?,
    };
    let reading = Progress::new(format!("reading {}", args.dir.display()));
    let before = args.at_commit(&checkout, &base)?;
    let (after, name) = match &args.head {
        Some(name) => {
            let head = resolve(&checkout, "--head", name)?;
            (args.at_commit(&checkout, &head)?, title(&head))
        }
        None => {
            let fleet = args.clusters.open(&args.fleet, &args.dir).await?;
            (fleet, "the working tree".to_owned())
        }
    };
    let hubs = match args.live {
        true => Some(LiveHubs::connect(&args.connection, [&before, &after]).await?),
        false => None,
    };
    let live = hubs.as_ref().map(LiveHubs::clusters);
    let live = live.as_ref().map(|live| live as &dyn LiveClusters);
    drop(reading);
    let line = Progress::new("planning");
    let say = |step: &str| line.say(format!("planning: {step}"));
    let (base, head) = (
        State {
            fleet: &before,
            name: title(&base),
        },
        State {
            fleet: &after,
            name,
        },
    );
    let plan = plan::plan(base, head, &options, live, &say).await?;
    drop(line);
    args.print(&plan)
}

impl Args {
    /// Opens the fleet of a commit.
    fn at_commit(&self, checkout: &Checkout, commit: &CommitId) -> Result<Fleet, Error> {
        let files = checkout.files(commit)?;
        let dir = self.dir.canonicalize();
        let dir = dir.map_err(|error| Error::caused_by(error).context(self.dir.display()))?;
        let files = below(&files, checkout.root(), &dir)?;
        let fleet = self.fleet.open_files(&dir, files);
        let fleet = fleet.map_err(|error| error.context(title(commit)))?;
        self.clusters.set(fleet)
    }

    fn print(&self, plan: &Plan) -> Result<(), Error> {
        match self.output.format {
            Format::Text => term::result(&painted(&plan::text(plan)))?,
            Format::Json => output::print_json(&json(plan))?,
            Format::Markdown => term::result(&term::plain(&markdown(plan, COMMENT_LIMIT, None)))?,
        }
        let text = summary(plan);
        if !plan.errors.is_empty() {
            return Err(Error::new(text).next("correct the errors that the change adds"));
        }
        if self.detailed_exitcode && !plan.is_empty() {
            return Err(Error::new(text).with_code(2));
        }
        term::success(&text);
        Ok(())
    }
}

fn resolve(checkout: &Checkout, flag: &str, name: &str) -> Result<CommitId, Error> {
    let found = checkout.resolve(name);
    found.map_err(|error| {
        Error::usage(format!("{flag}: {}", error.message))
            .next("name a revision of the checkout, and fetch it if the checkout is shallow")
    })
}

/// Returns the hash of a commit, with the revision if that is not the hash.
fn title(commit: &CommitId) -> String {
    let short = commit.sha.get(..12).unwrap_or(&commit.sha);
    match commit.sha == commit.name {
        true => short.to_owned(),
        false => format!("{short} ({})", commit.name),
    }
}

/// Returns the files below a directory of the checkout, with paths from it.
fn below(files: &FileTree, root: &Path, dir: &Path) -> Result<FileTree, Error> {
    let prefix = dir.strip_prefix(root).unwrap_or(Path::new(""));
    let directory = TreePath::new(&prefix.to_string_lossy()).map_err(Error::caused_by)?;
    if directory.is_root() {
        return Ok(files.clone());
    }
    let mut part = FileTree::new();
    for (path, entry) in files.index().below(&directory) {
        let content = files.content(path).cloned().unwrap_or_default();
        let rest = path.as_str().strip_prefix(directory.as_str());
        let rest = rest.unwrap_or_default().trim_start_matches('/');
        let path = TreePath::new(rest).map_err(Error::caused_by)?;
        part.insert(path, entry.kind.clone(), content)
            .map_err(Error::caused_by)?;
    }
    Ok(part)
}

/// Colours the changed lines for a terminal.
fn painted(text: &str) -> String {
    let is_coloured = term::colours_on_stdout();
    let paint = |line: &str| {
        let colour = match line.trim_start().chars().next() {
            // The frame of an excerpt.
            Some('-') if line.trim_start().starts_with("--> ") => Some("34"),
            Some('+') => Some("32"),
            Some('-') => Some("31"),
            Some('~' | '@') => Some("36"),
            _ if line.trim_start().starts_with("warning: ") => Some("33"),
            _ => None,
        };
        term::painted(colour.filter(|_| is_coloured), line) + "\n"
    };
    term::plain(text).lines().map(paint).collect()
}
