//! The root of a hub: the flags that name it, its source and Kustomization, and the webhook that
//! reports its pushes.

use crate::error::Error;
use crate::term;
use driftless_core::bootstrap::{self, Report, Root};
use driftless_core::webhook;
use driftless_flux::{FLUX_SYSTEM, Invalid};
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::{Cluster, Ports};
use driftless_kernel::repository::{directory, directory_url};
use driftless_manifest::names;
use std::env;

/// The environment variable with the webhook's secret.
pub const WEBHOOK_SECRET: &str = "DRIFTLESS_WEBHOOK_SECRET";
/// The next step if the hub has another root, for commands with `--root`.
pub const OTHER_ROOT: &str = "leave --repository out to serve the existing root, give --root NAME to add another root, or delete the objects that differ";

/// Returns the environment variable with the secret of a webhook, by the secret's name in the
/// secret manager: `DRIFTLESS_WEBHOOK_SECRET_GITLAB` for `gitlab/webhook`, and [`WEBHOOK_SECRET`]
/// for GitHub's.
pub fn webhook_variable(name: &str) -> String {
    let host = name.split('/').next().unwrap_or_default();
    match name == webhook::SECRET {
        true => WEBHOOK_SECRET.to_owned(),
        false => format!("{WEBHOOK_SECRET}_{}", host.to_uppercase()),
    }
}

/// Returns whether the environment has the secret of any host's webhook.
pub fn has_webhook_secret() -> bool {
    let mut names = [webhook::SECRET].into_iter().chain(webhook::OTHER_SECRETS);
    names.any(|name| env::var_os(webhook_variable(name)).is_some_and(|secret| !secret.is_empty()))
}

/// Parses `--repository` to a URL.
pub fn repository(text: &str) -> Result<String, Invalid> {
    if let Some(path) = directory(text) {
        return Ok(directory_url(path));
    }
    if text.starts_with("https://") || text.starts_with("ssh://") {
        return Ok(text.to_owned());
    }
    let plain = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
    };
    match text.split_once('/') {
        Some((owner, name)) if plain(owner) && plain(name) => {
            Ok(format!("https://github.com/{owner}/{name}"))
        }
        _ => Err("expected OWNER/NAME, https://HOST/OWNER/NAME or file:///PATH".into()),
    }
}

/// The flags that name a root of the fleet repository, which is `--repository` of the command.
#[derive(clap::Args)]
pub struct RootFlags {
    /// The branch of the fleet repository
    #[arg(long, default_value = "main", requires = "repository")]
    pub branch: String,
    /// The directory in the fleet repository that the root Kustomization applies
    #[arg(long, default_value = "./", requires = "repository")]
    pub path: String,
    /// The root's name: the namespace and name of its GitRepository and Kustomization. A hub with
    /// another root, for example of another environment, gets this one in addition
    #[arg(id = "root", long = "root", value_name = "NAME", default_value = FLUX_SYSTEM, requires = "repository", value_parser = root_name)]
    pub name: String,
}

impl RootFlags {
    /// Returns the root in the repository of this URL, which needs no login.
    pub fn root(&self, url: String) -> Root {
        Root {
            name: self.name.clone(),
            url,
            branch: self.branch.clone(),
            path: self.path.clone(),
            secret: None,
        }
    }
}

/// Parses the name of a root, which is the name of a namespace.
fn root_name(text: &str) -> Result<String, Invalid> {
    match names::label(text).as_slice() {
        [] => Ok(text.to_owned()),
        problems => Err(problems.join("; ").into()),
    }
}

/// Installs what a hub lacks, and prints it.
pub async fn install(hub: &Hub, ports: &Ports) -> Result<(), Error> {
    let report = bootstrap::install(hub.cluster.as_ref(), ports.clock.as_ref()).await;
    report_changes(&report.map_err(|error| Error::from(error).at(&hub.access.server))?);
    Ok(())
}

/// Creates the source and Kustomization of a root if they are missing. Fails if the hub has another
/// root of this name, or another root that applies the same directory. `next` is the next step in
/// the first case.
pub async fn follow(cluster: &dyn Cluster, root: &Root, next: &str) -> Result<(), Error> {
    if let Some(other) = bootstrap::same_root(cluster, root).await? {
        let (path, branch) = (&root.path, &root.branch);
        return Err(Error::new(format!(
            "the root '{other}' of the hub already applies {path} of branch {branch}"
        ))
        .next(format!(
            "give --root {other}: two roots would change the same objects"
        )));
    }
    let report = bootstrap::create_root(cluster, root).await?;
    report_changes(&report);
    if report.different.is_empty() {
        return Ok(());
    }
    let differences = report.different.join("; ");
    Err(Error::new(format!(
        "the hub already follows another root: {differences}"
    ))
    .next(next))
}

/// Prints what was created or changed on the hub.
pub fn report_changes(report: &Report) {
    for made in &report.made {
        term::success(&format!("created {made}"));
    }
    for updated in &report.updated {
        term::success(&format!("updated {updated}"));
    }
    for kept in &report.kept {
        term::waiting(&format!("left unchanged: {kept}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_are_parsed_to_urls() {
        assert_eq!(
            repository("acme/fleet").unwrap(),
            "https://github.com/acme/fleet"
        );
        assert_eq!(
            repository("file:///srv/fleet").unwrap(),
            "https://folder.invalid/srv/fleet"
        );
        assert_eq!(
            repository("https://git.acme.dev/acme/fleet").unwrap(),
            "https://git.acme.dev/acme/fleet"
        );
        for bad in [
            "fleet",
            "a/b/c",
            "http://github.com/a/b",
            "file://relative",
            "/srv/fleet",
            "",
        ] {
            assert!(repository(bad).is_err(), "{bad}");
        }
    }
}
