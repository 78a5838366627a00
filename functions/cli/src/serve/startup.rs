//! The start of a process: its ports, the hub's definitions and root, and the hub's registration.

use super::Args;
use crate::error::Error;
use crate::hub::{access, load};
use crate::root::{OTHER_ROOT, WEBHOOK_SECRET, follow, report_changes, webhook_variable};
use crate::term;
use driftless_adapters::config::{self, LocalOptions};
use driftless_adapters::git::Hosts;
use driftless_adapters::local::DirectoryBlobs;
use driftless_core::webhook;
use driftless_kernel::hub::Settings;
use driftless_kernel::ports::Secret;
use driftless_kernel::repository::directory;
use driftless_server::{DataDirectory, Installation, LastRepository, register};
use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};

const TOKEN: &str = "GITHUB_TOKEN";
const APP_ID: &str = "DRIFTLESS_GITHUB_APP_ID";
const APP_KEY_FILE: &str = "DRIFTLESS_GITHUB_APP_KEY_FILE";

/// Returns the settings of the flags.
fn settings(args: &Args) -> Settings {
    let mut settings = args.rules.settings(&args.name, None);
    if let Some(url) = &args.repository {
        settings.set_root(&args.root.name, url);
    }
    settings
}

/// Creates the ports, registers the hub, and installs what it lacks. Returns also the address of
/// the hub.
pub async fn start(args: &Args) -> Result<(Installation, String), Error> {
    let kubeconfig = load(
        args.connection.kubeconfig.as_deref(),
        args.connection.context.as_deref(),
    )?;
    let mut settings = settings(args);
    // The remote clusters of a hub on this machine are probably also on this machine.
    let server = access(&kubeconfig)?.server;
    settings.allow_local_clusters |= is_loopback(&server);
    let data = DataDirectory::open(args.data.as_deref(), &args.name, &server)?;
    let shown = data.path().display();
    term::success(&format!("artifacts and state are kept in {shown}"));
    let store = DirectoryBlobs::open(data.path())?;
    let directory = local_repository(&store, args.repository.as_deref()).await?;
    let options = options(args, data.path(), kubeconfig, directory)?;
    let (ports, queue) = config::local_ports(options)?;
    let registered = register(&ports, &settings).await?;
    report_changes(&registered.report);
    if let Some(url) = &args.repository {
        let root = args.root.root(url.clone());
        follow(registered.hub.cluster.as_ref(), &root, OTHER_ROOT).await?;
        LastRepository::remember(&store, url).await?;
    }
    let installation = Installation {
        ports,
        queue,
        store,
        data,
    };
    Ok((installation, server))
}

/// Returns the directory that may be read as a repository: that of `--repository`, or of the last
/// start with that flag.
async fn local_repository(
    store: &DirectoryBlobs,
    given: Option<&str>,
) -> Result<Option<PathBuf>, Error> {
    if let Some(given) = given {
        return Ok(directory(given).map(PathBuf::from));
    }
    match LastRepository::read(store).await? {
        LastRepository::None => Ok(None),
        LastRepository::Missing(directory) => {
            let shown = directory.display();
            term::failure(&format!(
                "file://{shown}, the last --repository, no longer exists"
            ));
            Ok(None)
        }
        LastRepository::Directory(directory) => {
            let shown = directory.display();
            term::success(&format!(
                "file://{shown} is read, because it was the last --repository"
            ));
            Ok(Some(directory))
        }
    }
}

/// Returns the options of the ports: GitHub's API, the secrets, and `directory` as the only local
/// repository.
fn options(
    args: &Args,
    data: &Path,
    kubeconfig: Vec<u8>,
    directory: Option<PathBuf>,
) -> Result<LocalOptions, Error> {
    let url = args.repository.as_deref().unwrap_or_default();
    let hosts = match &args.github_api {
        Some(api) => Hosts::default().with(host(url), api),
        None => Hosts::default(),
    };
    Ok(LocalOptions {
        given_secrets: secrets(Some((&args.name, kubeconfig)), args.repository.as_deref())?,
        git_repositories: directory.into_iter().collect(),
        hosts,
        ..LocalOptions::new(data)
    })
}

/// Returns the environment variable with GitHub credentials that are not used, because no
/// repository is named for them.
pub fn unused_login(args: &Args) -> Option<&'static str> {
    let settings = settings(args);
    let is_named = !settings.roots().is_empty() || !settings.installation_repositories.is_empty();
    let is_set = |name: &&str| env::var_os(name).is_some_and(|text| !text.is_empty());
    match is_named {
        true => None,
        false => [TOKEN, APP_ID].into_iter().find(is_set),
    }
}

/// Returns whether the address of a server is a loopback address.
fn is_loopback(server: &str) -> bool {
    let host = server
        .parse::<http::Uri>()
        .ok()
        .and_then(|uri| uri.host().map(str::to_owned))
        .unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// Returns the host of the installation's credentials.
fn host(url: &str) -> &str {
    let authority = url
        .split_once("://")
        .and_then(|(_, rest)| rest.split('/').next());
    authority
        .and_then(|authority| authority.rsplit('@').next())
        .filter(|host| !host.is_empty())
        .unwrap_or("github.com")
}

/// Returns the secrets of the process, from its environment: that of a hub with its name and
/// kubeconfig, and the login for the host of a repository, by default GitHub's.
pub fn secrets(
    hub: Option<(&str, Vec<u8>)>,
    repository: Option<&str>,
) -> Result<BTreeMap<String, Secret>, Error> {
    let variable = |name: &str| env::var(name).ok().filter(|text| !text.is_empty());
    let hub = hub.map(|(name, kubeconfig)| (format!("hubs/{name}"), Secret::new(kubeconfig)));
    let mut secrets: BTreeMap<String, Secret> = hub.into_iter().collect();
    let github = match host(repository.unwrap_or_default()) {
        "github.com" => "github".to_owned(),
        host => format!("github/{}", host.replace(':', "_")),
    };
    if let Some(secret) = variable(WEBHOOK_SECRET) {
        secrets.insert(webhook::SECRET.to_owned(), Secret::new(secret));
    }
    for name in webhook::OTHER_SECRETS {
        if let Some(secret) = variable(&webhook_variable(name)) {
            secrets.insert(name.to_owned(), Secret::new(secret));
        }
    }
    match (variable(APP_ID), variable(APP_KEY_FILE)) {
        (Some(id), Some(file)) => {
            let key = std::fs::read_to_string(&file).map_err(|error| {
                Error::caused_by(error).context(format!("{APP_KEY_FILE}: {file}"))
            })?;
            let app = serde_json::json!({"appId": id, "privateKey": key});
            secrets.insert(format!("{github}/app"), Secret::new(app.to_string()));
        }
        (None, None) => {}
        _ => {
            return Err(Error::usage(format!(
                "{APP_ID} and {APP_KEY_FILE} must be set together: one of them is not set"
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
    use driftless_kernel::repository::directory_url;

    #[test]
    fn loopback_servers_are_recognized() {
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

    #[tokio::test]
    async fn a_local_repository_is_read_until_another_one_is_given() {
        let home = tempfile::tempdir().unwrap();
        let store = DirectoryBlobs::open(&home.path().join("state")).unwrap();
        let fleet = home.path().join("fleet");
        std::fs::create_dir(&fleet).unwrap();
        let url = directory_url(&fleet.to_string_lossy());
        let read = async |given: Option<&str>| match local_repository(&store, given).await {
            Ok(directory) => directory,
            Err(error) => panic!("{error}"),
        };
        let remember = async |url: &str| LastRepository::remember(&store, url).await.unwrap();
        assert_eq!(read(None).await, None);
        assert_eq!(read(Some(&url)).await, Some(fleet.clone()));
        assert_eq!(read(None).await, None, "that start may have failed");
        remember(&url).await;
        assert_eq!(read(None).await, Some(fleet.clone()));
        std::fs::rename(&fleet, home.path().join("moved")).unwrap();
        assert_eq!(read(None).await, None);
        std::fs::rename(home.path().join("moved"), &fleet).unwrap();
        assert_eq!(read(None).await, Some(fleet));
        let other = "https://github.com/acme/fleet";
        assert_eq!(read(Some(other)).await, None);
        remember(other).await;
        assert_eq!(read(None).await, None);
    }
}
