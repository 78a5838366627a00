//! `driftless build`: what `kustomize build` does, with its flags.

mod charts;
mod files;
mod output;
pub mod remote;

use crate::accepted::{Accepted, Flags, switch};
use crate::error::{EXIT_CODES, Error};
use crate::term;
use clap::{Arg, ValueEnum};
use driftless_kustomize::{LoadRestrictor, Options, Reorder};
use files::{BuildRoot, Files};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "Examples:
  driftless build                        # the directory you are in
  driftless build overlays/production
  driftless build overlays/production -o out.yaml
  driftless build overlays/production -o out/   # a file an object, into a directory that exists

Bases may be anywhere on the disk. Remote bases and files are fetched with --allow-remote: repositories of GitHub (with GITHUB_TOKEN \
where it is set) at the reference that the entry names, files by HTTP. Remote charts, function containers, exec and Go plugins are \
refused.";

/// Render a directory with a kustomization, as `kustomize build` does
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct Args {
    /// The directory
    #[arg(value_name = "DIR", default_value = ".")]
    dir: String,
    /// Write to this file, or one file an object into this directory
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Which files a kustomization may name
    #[arg(long, value_enum, default_value_t = Restrictor::RootOnly)]
    load_restrictor: Restrictor,
    /// The order of the objects; a kustomization's sortOptions come first
    #[arg(long, value_enum)]
    reorder: Option<Order>,
    /// Fetch the remote bases and files that kustomizations name
    #[arg(long)]
    allow_remote: bool,
    /// Where GitHub's API is, for repositories of GitHub Enterprise: HOST=URL
    #[arg(long, value_name = "HOST=URL", requires = "allow_remote", value_parser = remote::host)]
    github_api: Option<(String, String)>,
    /// Allow helmCharts: charts of the repository, rendered as Helm 3 does
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    enable_helm: bool,
    /// Kubernetes' version for charts whose entry names none
    #[arg(long, value_name = "VERSION")]
    helm_kube_version: Option<String>,
    /// API versions for charts whose entry names none
    #[arg(long, value_name = "VERSION", value_delimiter = ',')]
    helm_api_versions: Vec<String>,
    /// Label every object app.kubernetes.io/managed-by
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    enable_managedby_label: bool,
    #[command(flatten)]
    refused: Refused,
    #[command(flatten)]
    _accepted: Accepted<OfMessages>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Restrictor {
    /// Those in or below its directory
    #[value(name = "LoadRestrictionsRootOnly")]
    RootOnly,
    /// Any
    #[value(name = "LoadRestrictionsNone")]
    None,
}

#[derive(Clone, Copy, ValueEnum)]
enum Order {
    /// Namespaces, definitions and so on first, webhooks last
    Legacy,
    /// As the resources are read
    None,
}

/// kustomize's flags for what driftless leaves out: known, so that the refusal can say why.
#[derive(clap::Args)]
struct Refused {
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

/// kustomize's flags for what it tells of its own work.
struct OfMessages;

impl Flags for OfMessages {
    fn flags() -> Vec<Arg> {
        vec![switch("helm-debug"), switch("stack-trace")]
    }
}

impl Refused {
    /// The first flag that asks for something driftless does not do, and why it does not.
    fn first(&self) -> Option<(&'static str, &'static str)> {
        const PLUGINS: &str = "driftless runs no plugins, programs or containers";
        const CONTAINERS: &str = "driftless runs no function containers";
        const HELM: &str = "driftless runs no program for charts, it renders them as Helm 3 does";
        // A path to Helm 3 asks for what is done anyway.
        let names_another = |command: &PathBuf| {
            let name = command.file_name().and_then(OsStr::to_str);
            !matches!(name, Some("helm" | "helm3"))
        };
        let asked = |flag: Option<bool>| flag == Some(true);
        let flags = [
            (
                "--enable-alpha-plugins",
                asked(self.enable_alpha_plugins),
                PLUGINS,
            ),
            ("--enable-exec", asked(self.enable_exec), PLUGINS),
            ("--as-current-user", asked(self.as_current_user), CONTAINERS),
            ("--env", !self.env.is_empty(), CONTAINERS),
            ("--mount", !self.mount.is_empty(), CONTAINERS),
            ("--network", asked(self.network), CONTAINERS),
            ("--network-name", self.network_name.is_some(), CONTAINERS),
            (
                "--helm-command",
                self.helm_command.as_ref().is_some_and(names_another),
                HELM,
            ),
        ];
        flags
            .into_iter()
            .find(|(_, asked, _)| *asked)
            .map(|(flag, _, why)| (flag, why))
    }
}

/// Renders, and writes to stdout or to `--output`.
pub fn run(args: &Args) -> Result<(), Error> {
    if let Some((flag, why)) = args.refused.first() {
        return Err(Error::unsupported(flag, why));
    }
    if args.dir.contains("://") || args.dir.starts_with("git@") {
        return Err(Error::new(format!(
            "'{}' is remote: only directories of this machine are built",
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

/// Builds in the repository around the directory, and in the whole disk if the directory asks for more.
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
