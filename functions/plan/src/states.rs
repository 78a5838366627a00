//! The two states of a plan: the files of both commits, and the fleets that they are.

use crate::hubs::{self, HubFacts, Own, Source};
use crate::live::LiveHubs;
use crate::work::{ConcernedHub, Work};
use driftless_fleet::check::{self, ChartHosts, GivenObjects};
use driftless_fleet::plan::{self, Basis, LiveClusters, Plan, State};
use driftless_fleet::{Blinder, Error, Fleet, HubPlan, Options, service_keys};
use driftless_kernel::hub::Settings;
use driftless_kernel::ports::{Commit, FetchLimits, GitAuth, PortError, PullRequest, Secret};
use driftless_manifest::{FileTree, Object};
use driftless_sops::Keyring;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Returns the limits of the files of a commit.
fn limits() -> FetchLimits {
    FetchLimits {
        bytes: 64 << 20,
        files: 20_000,
        ..FetchLimits::default()
    }
}

/// The note about a fork.
const FORK: &str = "This pull request comes from a fork: nothing was decrypted, no cluster was asked and nothing was downloaded \
    for it. Variables and values that are not in the repository are placeholders.";

/// The note about a repository that everyone may read.
const PUBLIC: &str = "Everyone can read this repository: values of the hubs' ConfigMaps are placeholders, and other repositories and \
    the live clusters are not compared.";

/// The note about a comparison with live clusters.
const LIVE: &str = "Objects whose values may come from a Secret are compared with the base, the others of these clusters with the live objects.";

/// A plan, with notes in Markdown about how it was made.
pub struct Planned {
    /// The changes of all hubs.
    pub plan: Plan,
    /// Sentences about how the plan was made.
    pub notes: Vec<String>,
    /// The files of the head.
    pub head: BTreeSet<PathBuf>,
}

/// The reason why no plan was made.
#[derive(Debug)]
pub enum Fault {
    /// The files have none, with the reason for the author of the change.
    Fleet(String),
    /// The installation failed, with the reason for its log.
    Internal(String),
}

impl From<PortError> for Fault {
    fn from(error: PortError) -> Self {
        Self::Internal(error.message)
    }
}

/// The directory of a hub in the repository.
#[derive(Clone)]
struct Placed {
    /// The name in the plan.
    name: String,
    path: String,
    /// The registered name of the hub, if it is known.
    registered: Option<String>,
}

/// Hubs with the same settings, which are planned together.
struct Group {
    rules: Settings,
    hubs: Vec<Placed>,
}

/// Makes the plan of a pull request for these hubs.
///
/// # Errors
/// See [`Fault`].
pub async fn plan(
    work: &Work<'_>,
    pull: &PullRequest,
    hubs: &[ConcernedHub],
) -> Result<Planned, Fault> {
    let (ports, repository) = (work.ports, &work.request.repository);
    let common = work
        .pull_requests
        .merge_base(repository, &pull.base_ref, &pull.head_sha)
        .await?;
    let mut base = files(work, &common).await?;
    let mut head = files(work, &pull.head_sha).await?;
    // A random key for this plan alone.
    let key = [ports.clock.nonce(), ports.clock.nonce()].concat();
    let blinder = Blinder::new(Secret::new(key));
    let mut notes = Vec::new();
    let mut facts: BTreeMap<&str, HubFacts> = BTreeMap::new();
    if pull.is_fork {
        notes.push(FORK.to_owned());
    } else if pull.is_public {
        notes.push(PUBLIC.to_owned());
    }
    if !pull.is_fork {
        let mut wanted = service_keys(&base);
        wanted.extend(service_keys(&head));
        for hub in hubs {
            let own = Own {
                url: repository,
                branch: &pull.base_ref,
                is_public: pull.is_public,
            };
            let found = hubs::read(ports, hub, own, &wanted, &blinder).await;
            facts.insert(&hub.settings.name, found);
        }
    }
    let mut keys = Vec::new();
    let mut given: Vec<(String, Object)> = Vec::new();
    for (hub, facts) in &mut facts {
        keys.append(&mut facts.keys);
        let objects = facts.given.drain(..);
        given.extend(objects.map(|object| ((*hub).to_owned(), object)));
        notes.append(&mut facts.notes);
    }
    blinder.hide(&mut base, &keys);
    blinder.hide(&mut head, &keys);
    let names = head.index().iter();
    let names = names
        .map(|(path, _)| PathBuf::from(path.as_str()))
        .collect();
    let sources = sources(&mut facts, &blinder, &keys);
    drop(keys);
    let whole = Options {
        url: Some(repository.clone()),
        ..Options::default()
    };
    let paths = |hub: &str| {
        let paths = facts.get(hub).map(|facts| facts.paths.clone());
        paths.unwrap_or_default()
    };
    let groups = groups(hubs, &paths, &whole, &base, &mut notes)?;
    let registered = groups.iter().flat_map(|group| &group.hubs);
    let registered = registered.filter_map(|hub| Some((hub.name.clone(), hub.registered.clone()?)));
    let live = LiveHubs::new(ports, registered.collect());
    // Who reads a public pull request must not read the clusters.
    let is_compared = !pull.is_fork && !pull.is_public;
    let live = is_compared.then_some(&live as &dyn LiveClusters);
    let mut plan: Option<Plan> = None;
    for group in &groups {
        let options = check::Options {
            given_objects: GivenObjects::of_hubs(given.clone()).map_err(internal)?,
            // A fork must not choose the addresses of requests.
            allow_files: group.rules.allow_remote_bases && !pull.is_fork,
            charts: (!pull.is_fork).then_some(ChartHosts::Remote),
            ..check::Options::default()
        };
        let mut before = open(group, &whole, &base, "before the change")?;
        let mut after = open(group, &whole, &head, "after the change")?;
        for source in &sources {
            add_source(&mut before, source);
            add_source(&mut after, source);
        }
        let state = |fleet, sha: &str| State {
            fleet,
            name: sha.get(..12).unwrap_or(sha).to_owned(),
        };
        let (base, head) = (state(&before, &common), state(&after, &pull.head_sha));
        // On the heap: the states of this work are large.
        let made = Box::pin(plan::plan(base, head, &options, live, &|_| {})).await;
        let made = made.map_err(internal)?;
        match &mut plan {
            None => plan = Some(made),
            Some(plan) => add(plan, made),
        }
    }
    let plan = plan.ok_or_else(|| Fault::Fleet("the repository has no hub".to_owned()))?;
    if plan.clusters.iter().any(|one| one.basis == Basis::Live) {
        notes.push(LIVE.to_owned());
    }
    Ok(Planned {
        plan,
        notes,
        head: names,
    })
}

/// Takes the files of the other sources of the hubs, without secret values.
fn sources(
    facts: &mut BTreeMap<&str, HubFacts>,
    blinder: &Blinder,
    keys: &[Keyring],
) -> Vec<Source> {
    let mut all: Vec<Source> = Vec::new();
    for facts in facts.values_mut() {
        for mut source in facts.sources.drain(..) {
            let is_known =
                |one: &Source| (&one.url, &one.reference) == (&source.url, &source.reference);
            if all.iter().any(is_known) {
                continue;
            }
            let mut files = FileTree::clone(&source.files);
            blinder.hide(&mut files, keys);
            source.files = Arc::new(files);
            all.push(source);
        }
    }
    all
}

/// Adds the files of another repository to a fleet.
fn add_source(fleet: &mut Fleet, source: &Source) {
    let reference = Some(source.reference.as_str());
    let directory = Path::new(source.url.rsplit('/').next().unwrap_or_default());
    let git = fleet.git.clone();
    match git.with_files(&source.url, reference, directory, source.files.clone()) {
        Ok(git) => fleet.git = git,
        Err(error) => tracing::warn!(%error, "the plan has no files of a source"),
    }
}

fn internal(error: Error) -> Fault {
    Fault::Internal(error.message)
}

/// Reads the files of a commit with the installation's own login. The repository also has the
/// commits of forks.
async fn files(work: &Work<'_>, sha: &str) -> Result<FileTree, Fault> {
    let commit = Commit {
        sha: sha.to_owned(),
        name: String::new(),
        etag: None,
        tag: None,
    };
    let url = &work.request.repository;
    let auth = GitAuth::Installation;
    Ok(work.ports.git.fetch(url, &commit, &auth, limits()).await?)
}

/// Adds the changes of further hubs. Messages about the same files are not repeated.
fn add(plan: &mut Plan, more: Plan) {
    plan.clusters.extend(more.clusters);
    for (all, more) in [
        (&mut plan.warnings, more.warnings),
        (&mut plan.errors, more.errors),
    ] {
        for notice in more {
            if !all.contains(&notice) {
                all.push(notice);
            }
        }
    }
    plan.known_errors += more.known_errors;
}

/// Finds the directory of each hub, and groups the hubs by their settings. A hub that could not be
/// asked has the directory with its name; if none has the name of a hub, all hubs of the repository
/// are planned.
fn groups(
    hubs: &[ConcernedHub],
    paths: &dyn Fn(&str) -> Vec<String>,
    whole: &Options,
    base: &FileTree,
    notes: &mut Vec<String>,
) -> Result<Vec<Group>, Fault> {
    let needs_search = hubs.iter().any(|hub| paths(&hub.settings.name).is_empty());
    let found: Vec<HubPlan> = match needs_search {
        true => {
            let fleet = whole.open_files(Path::new(""), base.clone());
            fleet
                .map_err(|error| refused(&error, "before the change"))?
                .hubs
        }
        false => Vec::new(),
    };
    let mut groups: Vec<Group> = Vec::new();
    for hub in hubs {
        let name = &hub.settings.name;
        let known = paths(name);
        let by_name = found.iter().filter(|one| one.name == *name);
        let named: Vec<String> = by_name.map(|one| one.path.clone()).collect();
        let placed: Vec<Placed> = match (known.is_empty(), named.is_empty()) {
            (false, _) => place(name, &known),
            (true, false) => place(name, &named),
            (true, true) if hubs.len() == 1 && found.len() == 1 => {
                let all: Vec<String> = found.iter().map(|one| one.path.clone()).collect();
                place(name, &all)
            }
            (true, true) => {
                notes.push(format!(
                    "The directory of hub `{}` is not known: the hubs have the names of their directories.",
                    name.replace('`', "'")
                ));
                let all = found.iter().map(|one| Placed {
                    name: one.name.clone(),
                    path: one.path.clone(),
                    registered: None,
                });
                all.collect()
            }
        };
        let rules = Settings {
            no_cross_namespace_refs: hub.settings.no_cross_namespace_refs,
            default_service_account: hub.settings.default_service_account.clone(),
            default_kubeconfig_service_account: hub
                .settings
                .default_kubeconfig_service_account
                .clone(),
            keep_controllers: hub.settings.keep_controllers,
            allow_remote_bases: hub.settings.allow_remote_bases,
            lenient_substitutions: hub.settings.lenient_substitutions,
            additive_dependency_check: hub.settings.additive_dependency_check,
            helm3_defaults: hub.settings.helm3_defaults,
            ..Settings::default()
        };
        let at = match groups.iter().position(|group| group.rules == rules) {
            Some(at) => at,
            None => {
                groups.push(Group {
                    rules,
                    hubs: Vec::new(),
                });
                groups.len() - 1
            }
        };
        let Some(group) = groups.get_mut(at) else {
            continue;
        };
        let known: Vec<String> = group.hubs.iter().map(|hub| hub.name.clone()).collect();
        let is_new = |one: &Placed| !known.contains(&one.name);
        group.hubs.extend(placed.into_iter().filter(is_new));
    }
    Ok(groups)
}

/// Returns the directories of a hub; further roots have the name of the hub and their directory.
fn place(name: &str, paths: &[String]) -> Vec<Placed> {
    let placed = paths.iter().enumerate().map(|(at, path)| Placed {
        name: match at {
            0 => name.to_owned(),
            _ => format!("{name}-{}", path.replace('/', "-")),
        },
        path: path.clone(),
        registered: Some(name.to_owned()),
    });
    placed.collect()
}

/// Opens a state of the repository with the hubs of a group under their registered names.
fn open(group: &Group, whole: &Options, files: &FileTree, state: &str) -> Result<Fleet, Fault> {
    let mut paths: Vec<String> = group.hubs.iter().map(|hub| hub.path.clone()).collect();
    paths.sort();
    paths.dedup();
    let options = Options {
        paths,
        ..whole.clone()
    };
    let opened = options.open_files(Path::new(""), files.clone());
    let mut fleet = opened.map_err(|error| refused(&error, state))?;
    let directories = std::mem::take(&mut fleet.hubs);
    let of = |hub: &Placed| {
        let known = directories.iter().find(|one| one.path == hub.path);
        HubPlan {
            name: hub.name.clone(),
            path: hub.path.clone(),
            more: known.map(|one| one.more.clone()).unwrap_or_default(),
        }
    };
    fleet.hubs = group.hubs.iter().map(of).collect();
    fleet.rules = group.rules.clone();
    Ok(fleet)
}

/// Returns the reason for the author of a change.
fn refused(error: &Error, state: &str) -> Fault {
    let next = error.next.as_ref().map(|next| format!("\n{next}"));
    Fault::Fleet(format!(
        "{state}: {}{}",
        error.message.trim_start(),
        next.unwrap_or_default()
    ))
}
