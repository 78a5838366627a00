//! `driftless build`: a replacement of `kustomize build`, with its flags.

mod charts;
mod files;
mod output;
pub mod remote;

use crate::accepted::{Accepted, Flags, switch};
use crate::error::{EXIT_CODES, Error};
use crate::term;
use clap::{Arg, ValueEnum};
use driftless_kustomize::{LoadRestrictor, Options, Reorder};
pub use files::BuildRoot;
use files::Files;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "Examples:
  driftless build                        # the directory you are in
  driftless build overlays/production
  driftless build overlays/production -o out.yaml
  driftless build overlays/production -o out/   # one file for each object in out/, which exists

Bases may be anywhere on the disk. Remote bases and files are fetched with --allow-remote: repositories of GitHub (with GITHUB_TOKEN if it is set) at the reference that the entry names, files by HTTP. Remote charts, function containers, exec and Go plugins are \
refused.";

/// Render a directory with a kustomization, as `kustomize build` does
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    /// The directory with the kustomization
    #[arg(value_name = "DIR", default_value = ".")]
    dir: String,
    /// Write to this file, or one file for each object into this directory
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// The files that a kustomization may name
    #[arg(long, value_enum, default_value_t = Restrictor::RootOnly)]
    load_restrictor: Restrictor,
    /// The order of the objects; a kustomization's sortOptions take precedence
    #[arg(long, value_enum)]
    reorder: Option<Order>,
    /// Fetch the remote bases and files that kustomizations name
    #[arg(long)]
    allow_remote: bool,
    /// The URL of GitHub's API, for repositories of GitHub Enterprise: HOST=URL
    #[arg(long, value_name = "HOST=URL", requires = "allow_remote", value_parser = remote::host)]
    github_api: Option<(String, String)>,
    /// Allow helmCharts: charts of the repository, rendered as Helm 3 does
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    enable_helm: bool,
    /// The version of Kubernetes for charts whose entry names none
    #[arg(long, value_name = "VERSION")]
    helm_kube_version: Option<String>,
    /// API versions for charts whose entry names none
    #[arg(long, value_name = "VERSION", value_delimiter = ',')]
    helm_api_versions: Vec<String>,
    /// Label every object app.kubernetes.io/managed-by
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    enable_managedby_label: bool,
    #[command(flatten)]
    refused: UnsupportedFlags,
    #[command(flatten)]
    _accepted: Accepted<DebugFlags>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Restrictor {
    /// Only files in or below its directory
    #[value(name = "LoadRestrictionsRootOnly")]
    RootOnly,
    /// Any file
    #[value(name = "LoadRestrictionsNone")]
    None,
}

#[derive(Clone, Copy, ValueEnum)]
enum Order {
    /// Namespaces, definitions and so on first, webhooks last
    Legacy,
    /// The order in which the resources are read
    None,
}

/// Flags of kustomize for features that driftless does not have. They are declared, so that the
/// error can give the reason.
#[derive(clap::Args)]
struct UnsupportedFlags {
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    enable_alpha_plugins: Option<bool>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    enable_exec: Option<bool>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    as_current_user: Option<bool>,
    #[arg(long, short, hide = true)]
    env: Vec<String>,
    #[arg(long, hide = true)]
    mount: Vec<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    network: Option<bool>,
    #[arg(long, hide = true)]
    network_name: Option<String>,
    #[arg(long, hide = true)]
    helm_command: Option<PathBuf>,
}

/// Flags of kustomize for its debug output.
struct DebugFlags;

impl Flags for DebugFlags {
    fn flags() -> Vec<Arg> {
        vec![switch("helm-debug"), switch("stack-trace")]
    }
}

impl UnsupportedFlags {
    /// Returns the first given flag that driftless does not support, and the reason.
    fn first(&self) -> Option<(&'static str, &'static str)> {
        const PLUGINS: &str = "driftless runs no plugins, programs or containers";
        const CONTAINERS: &str = "driftless runs no function containers";
        const HELM: &str =
            "driftless renders charts itself, as Helm 3 does, and runs no program for it";
        // Helm 3 is allowed: its result is the same.
        let names_another = |command: &PathBuf| {
            let name = command.file_name().and_then(OsStr::to_str);
            !matches!(name, Some("helm" | "helm3"))
        };
        let is_on = |flag: Option<bool>| flag == Some(true);
        let flags = [
            (
                "--enable-alpha-plugins",
                is_on(self.enable_alpha_plugins),
                PLUGINS,
            ),
            ("--enable-exec", is_on(self.enable_exec), PLUGINS),
            ("--as-current-user", is_on(self.as_current_user), CONTAINERS),
            ("--env", !self.env.is_empty(), CONTAINERS),
            ("--mount", !self.mount.is_empty(), CONTAINERS),
            ("--network", is_on(self.network), CONTAINERS),
            ("--network-name", self.network_name.is_some(), CONTAINERS),
            (
                "--helm-command",
                self.helm_command.as_ref().is_some_and(names_another),
                HELM,
            ),
        ];
        flags
            .into_iter()
            .find(|(_, is_given, _)| *is_given)
            .map(|(flag, _, reason)| (flag, reason))
    }
}

/// Renders, and writes to stdout or to `--output`.
pub fn run(args: &Args) -> Result<(), Error> {
    if let Some((flag, reason)) = args.refused.first() {
        return Err(Error::unsupported(flag, reason));
    }
    if args.dir.contains("://") || args.dir.starts_with("git@") {
        return Err(Error::new(format!(
            "'{}' is remote, and only local directories can be built",
            args.dir
        ))
        .next("clone the repository, and build the directory in it"));
    }
    let remote = match args.allow_remote {
        true => Some(remote::Client::new(args.github_api.as_ref())?),
        false => None,
    };
    let options = Options {
        remote: remote.is_some(),
        load_restrictor: match args.load_restrictor {
            Restrictor::RootOnly => LoadRestrictor::RootOnly,
            Restrictor::None => LoadRestrictor::None,
        },
        reorder: match args.reorder {
            None => Reorder::Unspecified,
            Some(Order::Legacy) => Reorder::Legacy,
            Some(Order::None) => Reorder::None,
        },
        enable_helm: args.enable_helm,
        kube_version: args.helm_kube_version.clone(),
        api_versions: args.helm_api_versions.clone(),
        managed_by_label: args.enable_managedby_label,
        ..Options::default()
    };
    let documents = render(Path::new(&args.dir), &options, remote.as_ref())?;
    match &args.output {
        None => term::result(&driftless_kustomize::documents_to_yaml(&documents)),
        Some(path) if path.is_dir() => output::directory(path, &documents),
        Some(path) => output::file(path, &documents),
    }
}

/// Builds with the Git repository of the directory as the root, and again with `/` as the root if
/// the kustomizations lead out of it.
fn render(
    dir: &Path,
    options: &Options,
    remote: Option<&remote::Client>,
) -> Result<Vec<serde_json::Value>, Error> {
    let place = BuildRoot::of(dir)?;
    let mut files = Files::new(place.root.clone(), remote);
    match files.build(&place.dir, options) {
        Err(error) if error.leaves_the_tree() && place.root != Path::new("/") => {
            let place = place.of_the_disk()?;
            Files::new(place.root, remote).build(&place.dir, options)
        }
        done => done,
    }
    .map_err(|error| error.into_error(&place))
}
