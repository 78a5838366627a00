//! What a process needs before it serves: ports of this machine, the hub's definitions and root, the hub's registration.

use super::Args;
use super::data::{self, Data};
use crate::error::Error;
use crate::hub::{access, load};
use crate::term;
use driftless_adapters::config::{self, LocalOptions};
use driftless_adapters::git::Hosts;
use driftless_adapters::local::LocalQueue;
use driftless_core::bootstrap::{self, Report, Root};
use driftless_core::hub::{self, Hub};
use driftless_core::ports::{Cluster, Ports, Secret};
use driftless_core::webhook;
use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};

/// The variable with the webhook's secret.
pub const WEBHOOK_SECRET: &str = "DRIFTLESS_WEBHOOK_SECRET";
const TOKEN: &str = "GITHUB_TOKEN";
const APP_ID: &str = "DRIFTLESS_GITHUB_APP_ID";
const APP_KEY_FILE: &str = "DRIFTLESS_GITHUB_APP_KEY_FILE";

/// A hub that is ready to be served.
pub struct Installation {
    /// The ports.
    pub ports: Ports,
    /// The queue of `ports`, from the other side.
    pub queue: LocalQueue,
    /// The hub's address.
    pub server: String,
    /// The folder of `ports`.
    pub data: Data,
}

/// The URL of `--repository`.
pub fn repository(text: &str) -> Result<String, String> {
    if text.starts_with("https://") || text.starts_with("ssh://") || text.starts_with("file:///") {
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
        _ => Err("expected OWNER/NAME, https://HOST/OWNER/NAME or file:///PATH".to_owned()),
    }
}

/// Makes the ports, installs what the hub lacks and registers it.
pub async fn start(args: &Args) -> Result<Installation, Error> {
    let kubeconfig = load(
        args.connection.kubeconfig.as_deref(),
        args.connection.context.as_deref(),
    )?;
    let mut settings = args.rules.settings(&args.name);
    // A hub on this machine: its remote clusters are on this machine, too.
    let server = access(&kubeconfig)?.server;
    settings.allow_local_clusters |= is_loopback(&server);
    let data = data::open(args.data.as_deref(), &args.name, &server)?;
    let (ports, queue) = config::local_ports(options(args, &data.folder, kubeconfig)?)?;
    data::forget(&ports).await?;
    hub::register(&ports, &settings).await?;
    let hub = hub::connect(&ports, &args.name).await?;
    install(&hub, &ports).await?;
    if let Some(url) = &args.repository {
        let root = Root {
            url: url.clone(),
            branch: args.branch.clone(),
            path: args.path.clone(),
        };
        follow(hub.cluster.as_ref(), &root).await?;
    }
    Ok(Installation {
        ports,
        queue,
        server,
        data,
    })
}

/// Installs what a hub needs, and says so.
pub async fn install(hub: &Hub, ports: &Ports) -> Result<(), Error> {
    let report = bootstrap::install(hub.cluster.as_ref(), ports.clock.as_ref()).await;
    tell(&report.map_err(|error| Error::from(error).at(&hub.access.server))?);
    Ok(())
}

/// Creates the root source and Kustomization when they are missing.
pub async fn follow(cluster: &dyn Cluster, root: &Root) -> Result<(), Error> {
    let report = bootstrap::create_root(cluster, root).await?;
    tell(&report);
    if report.different.is_empty() {
        return Ok(());
    }
    let why = report.different.join("; ");
    Err(
        Error::new(format!("the hub follows another root already: {why}")).next(
            "leave --repository out to serve what is there, or delete the objects that differ",
        ),
    )
}

/// Says what was made on the hub.
fn tell(report: &Report) {
    for made in &report.made {
        term::success(&format!("created {made}"));
    }
}

/// GitHub's API; repositories in folders only when `--repository` names one, and only that one.
fn options(args: &Args, data: &Path, kubeconfig: Vec<u8>) -> Result<LocalOptions, Error> {
    let url = args.repository.as_deref().unwrap_or_default();
    let hosts = match &args.github_api {
        Some(api) => Hosts::default().with(host(url), api),
        None => Hosts::default(),
    };
    Ok(LocalOptions {
        given_keys: secrets(args, kubeconfig)?,
        git_roots: url
            .strip_prefix("file://")
            .map(PathBuf::from)
            .into_iter()
            .collect(),
        hosts,
        ..LocalOptions::new(data)
    })
}

/// Whether a server's address is this machine's own.
fn is_loopback(server: &str) -> bool {
    let host = server
        .parse::<axum::http::Uri>()
        .ok()
        .and_then(|uri| uri.host().map(str::to_owned))
        .unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// The host that the installation's credentials are for.
fn host(url: &str) -> &str {
    let authority = url
        .split_once("://")
        .and_then(|(_, rest)| rest.split('/').next());
    authority
        .and_then(|authority| authority.rsplit('@').next())
        .filter(|host| !host.is_empty())
        .unwrap_or("github.com")
}

/// The secrets of one process, from its environment.
fn secrets(args: &Args, kubeconfig: Vec<u8>) -> Result<BTreeMap<String, Secret>, Error> {
    let variable = |name: &str| env::var(name).ok().filter(|text| !text.is_empty());
    let mut secrets = BTreeMap::from([(format!("hubs/{}", args.name), Secret::new(kubeconfig))]);
    let github = match host(args.repository.as_deref().unwrap_or_default()) {
        "github.com" => "github".to_owned(),
        host => format!("github/{}", host.replace(':', "_")),
    };
    if let Some(secret) = variable(WEBHOOK_SECRET) {
        secrets.insert(webhook::SECRET.to_owned(), Secret::new(secret));
    }
    match (variable(APP_ID), variable(APP_KEY_FILE)) {
        (Some(id), Some(file)) => {
            let key = std::fs::read_to_string(&file)
                .map_err(|error| Error::new(format!("{APP_KEY_FILE}: {file}: {error}")))?;
            let app = serde_json::json!({"appId": id, "privateKey": key});
            secrets.insert(format!("{github}/app"), Secret::new(app.to_string()));
        }
        (None, None) => {}
        _ => {
            return Err(Error::usage(format!(
                "{APP_ID} and {APP_KEY_FILE} belong together: one of them is not set"
            )));
        }
    }
    if let Some(token) = variable(TOKEN) {
        secrets.insert(format!("{github}/token"), Secret::new(token));
    }
    Ok(secrets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_machine() {
        for server in [
            "https://127.0.0.1:6443",
            "https://localhost:6443",
            "https://[::1]:6443",
        ] {
            assert!(is_loopback(server), "{server}");
        }
        for server in ["https://10.0.0.1:6443", "https://localhost.acme.dev", ""] {
            assert!(!is_loopback(server), "{server}");
        }
    }

    #[test]
    fn repositories() {
        assert_eq!(
            repository("acme/fleet").unwrap(),
            "https://github.com/acme/fleet"
        );
        assert_eq!(
            repository("file:///srv/fleet").unwrap(),
            "file:///srv/fleet"
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
