//! Helm's other flags: those that ask for something driftless does not do, and those that change nothing in what is rendered.

use crate::accepted::{Flags, switch, value};
use crate::error::Error;
use clap::Arg;
use clap::builder::ValueParser;
use driftless_core::flux::parse_duration;

/// Helm's flags for what driftless leaves out: known, so that the refusal can say why.
#[derive(clap::Args)]
#[group(skip)]
pub struct Refused {
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

impl Refused {
    /// Fails with the first flag that asks for something driftless does not do, and why it does not.
    pub fn check(&self) -> Result<(), Error> {
        const REMOTE: &str = "driftless template asks no repository";
        let flags = [
            ("--validate", self.validate, "it asks no cluster"),
            (
                "--post-renderer",
                self.post_renderer.is_some(),
                "driftless runs no programs",
            ),
            ("--repo", self.repo.is_some(), REMOTE),
            ("--dependency-update", self.dependency_update, REMOTE),
            ("--verify", self.verify, "it reads no keyring"),
            (
                "--enable-dns",
                self.enable_dns,
                "templates reach no network",
            ),
            (
                "--name-template",
                self.name_template.is_some(),
                "give the name itself",
            ),
        ];
        match flags.into_iter().find(|(_, asked, _)| *asked) {
            Some((flag, _, why)) => Err(Error::unsupported(flag, why)),
            None => Ok(()),
        }
    }
}

/// Helm's flags for the installation of a release, for clusters and for repositories: without an effect, as in `helm template` of
/// a chart on this machine. That has one version, whatever `--version` says.
pub struct OfInstallation;

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
const TEXTS: [&str; 4] = ["description", "kube-context", "kubeconfig", "version"];

impl Flags for OfInstallation {
    fn flags() -> Vec<Arg> {
        let text = |name| value(name, ValueParser::string());
        let mut all: Vec<Arg> = SWITCHES.into_iter().map(switch).collect();
        all.extend(TEXTS.into_iter().map(text));
        all.extend([
            text("labels").short('l'),
            value("timeout", parse_duration),
            switch("wait").value_parser(wait),
            switch("dry-run").value_parser(dry_run),
        ]);
        all
    }
}

/// `--wait`, as a switch or with a strategy of Helm 4.
fn wait(text: &str) -> Result<String, String> {
    match text {
        "true" | "false" | "watcher" | "hookOnly" | "legacy" => Ok(text.to_owned()),
        "ordered" => Err("resource groups are not rendered in an order of their own".to_owned()),
        _ => Err("expected watcher, hookOnly, legacy, true or false".to_owned()),
    }
}

/// `--dry-run`: whatever it says, nothing is installed.
fn dry_run(text: &str) -> Result<String, String> {
    match text {
        "client" | "none" | "true" | "false" => Ok(text.to_owned()),
        "server" => Err("driftless template asks no cluster".to_owned()),
        _ => Err("expected client, none, true or false".to_owned()),
    }
}
