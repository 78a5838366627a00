//! Remote bases and files, for `--allow-remote`.

use crate::error::Error;
use driftless_adapters::charts::HttpCharts;
use driftless_adapters::git::{GitHub, GitRouter, GitServers, Hosts as Addresses};
use driftless_adapters::local::LocalSecrets;
use driftless_core::kustomization::remote::{Hosts, MAX_REMOTES};
use driftless_flux::Invalid;
use driftless_kernel::ports::{GitAuth, Secret};
use driftless_kustomize::Remote;
use driftless_manifest::FileTree;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// Parses `HOST=URL`.
pub fn host(text: &str) -> Result<(String, String), Invalid> {
    let (host, url) = text.split_once('=').ok_or("expected HOST=URL")?;
    Ok((host.to_owned(), url.to_owned()))
}

/// A client that fetches remote bases and files.
pub struct Client {
    runtime: Runtime,
    git: GitRouter,
    files: HttpCharts,
}

impl Client {
    /// Creates a client with the credentials of [`git`].
    ///
    /// # Errors
    /// Fails if the runtime cannot be started, or the URL of the API is not valid.
    pub fn new(api: Option<&(String, String)>) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| Error::caused_by(error).context("start"))?;
        let git = {
            // The Git client starts its worker in the runtime.
            let _inside = runtime.enter();
            git(api)?
        };
        Ok(Self {
            runtime,
            git,
            files: HttpCharts::new(),
        })
    }

    /// Fetches a remote base or file into the tree. `fetched` is the number of earlier fetches of
    /// this build.
    ///
    /// # Errors
    /// Fails if it does not exist, cannot be accessed, or is one too many.
    pub fn fetch(&self, wanted: &Remote, tree: &mut FileTree, fetched: usize) -> Result<(), Error> {
        if fetched >= MAX_REMOTES {
            return Err(Error::new(format!(
                "the build names more than {MAX_REMOTES} remote bases and files"
            )));
        }
        let hosts = Hosts {
            git: &self.git,
            // The command runs with the user's own token, on the user's own files.
            auth: &|_| GitAuth::Installation,
            files: &self.files,
            allow_local: true,
        };
        let done = self.runtime.block_on(hosts.fetch(wanted, tree));
        done.map_err(|error| Error::caused_by(error).context(wanted))
    }
}

/// Creates a client for Git repositories. `GITHUB_TOKEN` is used for the host of `api`, or for
/// github.com without one. Must be called in a runtime.
///
/// # Errors
/// Fails if the URL of the API is not valid.
pub fn git(api: Option<&(String, String)>) -> Result<GitRouter, Error> {
    let (mut addresses, mut key) = (Addresses::default(), "github/token".to_owned());
    if let Some((host, url)) = api {
        addresses = addresses.with(host, url);
        if host != "github.com" {
            key = format!("github/{}/token", host.replace(':', "_"));
        }
    }
    let token = std::env::var("GITHUB_TOKEN").unwrap_or_default();
    let given = (!token.is_empty()).then(|| (key, Secret::new(token)));
    let keys = given.into_iter().collect::<BTreeMap<_, _>>();
    let keys = Arc::new(LocalSecrets::new(keys, None));
    let github = GitHub::new(addresses, keys)?;
    Ok(GitRouter::new().with(github).with(GitServers::new()))
}
