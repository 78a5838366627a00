//! Starts the real components that driftless works with, on loopback and in
//! temp directories: Kubernetes API servers ([`cluster`]), a GitHub stub over real
//! Git repositories ([`github`]), MiniStack as AWS ([`aws`]).
//!
//! Everything is lazy and shared within a process, needs no container runtime
//! and no network except the package registries that [`tools`] builds from once.
//! Servers that a test started end with it, also if the test process is killed.
//!
//! A whole fleet, from a push to the clusters:
//!
//! ```no_run
//! # use driftless_harness::{aws::MiniStack, cluster::Cluster, github::{Change, GitHub}, tools};
//! # let bootstraps = [("WebhookFunction", std::path::PathBuf::new())];
//! let [hub, east, west] = Cluster::start_all(["hub", "east", "west"]);
//! hub.add_remote("flux-system", "east", &east);
//! let github = GitHub::start();
//! let fleet = github.repository("acme/fleet");
//! let ministack = MiniStack::start();
//! ministack.aws().put_secret("driftless/hubs/hub", &hub.kubeconfig());
//! ministack.aws().put_secret("driftless/github/webhook", "secret");
//! let template = tools::workspace().join("infra/template.yaml");
//! let parameters = [("GitHubApi", github.url())];
//! let stack = ministack.deploy("driftless", &template, &parameters, &bootstraps);
//! github.add_webhook(&ministack.reach(stack.output("WebhookUrl")), "secret");
//! let push = github.push(&fleet, "main", &[Change::write("app.yaml", "...")]);
//! assert_eq!(push.deliveries[0].status, Some(202));
//! ```

pub mod aws;
pub mod browser;
pub mod capsule;
pub mod charts;
pub mod cluster;
pub mod command;
pub mod environment;
pub mod files;
pub mod flux;
pub mod git_servers;
pub mod github;
pub mod http;
pub mod kubectl;
pub mod kustomize_create;
pub mod library;
pub mod nats;
pub mod ports;
pub mod process;
pub mod proxy;
pub mod random;
mod runtime;
pub mod serve;
pub mod service;
pub mod skip;
pub mod terminal;
mod tls;
pub mod tools;
pub mod traces;
pub mod usage;
pub mod worker;
