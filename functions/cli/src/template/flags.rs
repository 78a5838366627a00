//! Other flags of Helm: those for features that driftless does not have, and those without an
//! effect on the output.

use crate::accepted::{Flags, switch, value};
use crate::error::Error;
use clap::Arg;
use clap::builder::ValueParser;
use driftless_flux::{Invalid, parse_duration};

/// Flags of Helm for features that driftless does not have. They are declared, so that the error
/// can give the reason.
#[derive(clap::Args)]
#[group(skip)]
pub struct UnsupportedFlags {
    #[arg(long, hide = true)]
    validate: bool,
    #[arg(long, hide = true)]
    post_renderer: Option<String>,
    #[arg(long, hide = true)]
    repo: Option<String>,
    #[arg(long, hide = true)]
    dependency_update: bool,
    #[arg(long, hide = true)]
    verify: bool,
    #[arg(long, hide = true)]
    enable_dns: bool,
    #[arg(long, hide = true)]
    name_template: Option<String>,
}

impl UnsupportedFlags {
    /// Fails for the first given flag that driftless does not support, with the reason.
    pub fn check(&self) -> Result<(), Error> {
        const REMOTE: &str = "driftless template connects to no repository";
        let flags = [
            (
                "--validate",
                self.validate,
                "driftless template connects to no cluster",
            ),
            (
                "--post-renderer",
                self.post_renderer.is_some(),
                "driftless runs no programs",
            ),
            ("--repo", self.repo.is_some(), REMOTE),
            ("--dependency-update", self.dependency_update, REMOTE),
            (
                "--verify",
                self.verify,
                "driftless template reads no keyring",
            ),
            (
                "--enable-dns",
                self.enable_dns,
                "templates have no network access",
            ),
            (
                "--name-template",
                self.name_template.is_some(),
                "give the name itself",
            ),
        ];
        match flags.into_iter().find(|(_, is_given, _)| *is_given) {
            Some((flag, _, reason)) => Err(Error::unsupported(flag, reason)),
            None => Ok(()),
        }
    }
}

/// Flags of Helm for the installation of a release, for clusters and for repositories. They have no
/// effect, as in `helm template` for a local chart, which has only one version, so that `--version`
/// does not matter.
pub struct InstallationFlags;

const SWITCHES: [&str; 13] = [
    "atomic",
    "create-namespace",
    "debug",
    "devel",
    "disable-openapi-validation",
    "force",
    "hide-notes",
    "render-subchart-notes",
    "replace",
    "rollback-on-failure",
    "skip-crds",
    "take-ownership",
    "wait-for-jobs",
];
const STRING_FLAGS: [&str; 4] = ["description", "kube-context", "kubeconfig", "version"];

impl Flags for InstallationFlags {
    fn flags() -> Vec<Arg> {
        let text = |name| value(name, ValueParser::string());
        let mut all: Vec<Arg> = SWITCHES.into_iter().map(switch).collect();
        all.extend(STRING_FLAGS.into_iter().map(text));
        all.extend([
            text("labels").short('l'),
            value("timeout", parse_duration),
            switch("wait").value_parser(wait),
            switch("dry-run").value_parser(dry_run),
        ]);
        all
    }
}

/// Parses `--wait`, a switch or a strategy of Helm 4.
fn wait(text: &str) -> Result<String, Invalid> {
    match text {
        "true" | "false" | "watcher" | "hookOnly" | "legacy" => Ok(text.to_owned()),
        "ordered" => Err("the order of resource groups is not supported".into()),
        _ => Err("expected watcher, hookOnly, legacy, true or false".into()),
    }
}

/// Parses `--dry-run`. Nothing is ever installed.
fn dry_run(text: &str) -> Result<String, Invalid> {
    match text {
        "client" | "none" | "true" | "false" => Ok(text.to_owned()),
        "server" => Err("driftless template connects to no cluster".into()),
        _ => Err("expected client, none, true or false".into()),
    }
}
