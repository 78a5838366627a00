//! The server: its state, its requests, and its controllers.

use jiff::Timestamp;
use serde_json::Value;

use crate::authentication::impersonation::ModeCache;
use crate::authentication::tokens::Tokens;
use crate::bootstrap;
use crate::controllers::{garbage, roles, workloads};
use crate::request::api::Api;
use crate::request::message::{Request, Response};
use crate::request::watch::Watch;
use crate::request::{answer, watch};
use crate::store::state::State;
use crate::user::User;
use crate::values::clock::Clock;

/// An in-memory API server. It does nothing by itself: [`Server::handle`] answers one request at a
/// time.
///
/// A clone shares the objects of the original until one of the two writes.
#[derive(Clone, Debug)]
pub struct Server {
    api: Api,
    /// The version up to which workloads have the status of workloads whose pods run.
    workloads: u64,
    /// The version up to which aggregated cluster roles have their rules.
    aggregated: u64,
}

impl Server {
    /// Returns a server with the namespaces and default roles of a new cluster.
    pub fn new(clock: Clock) -> Self {
        let mut server = Self {
            api: Api {
                state: State::new(),
                tokens: Tokens::default(),
                impersonation: ModeCache::default(),
            },
            workloads: 0,
            aggregated: 0,
        };
        bootstrap::fill(&mut server.api, clock.clone());
        roles::aggregate(&mut server.api, &mut server.aggregated, &clock);
        server
    }

    /// Returns the newest resourceVersion. It grows with every write, so that streams of watches
    /// can wait for it.
    pub fn version(&self) -> u64 {
        self.api.state.store.version()
    }

    /// Sets the version of Kubernetes (major, minor, patch) that the server reports. What it serves
    /// does not change.
    pub fn set_version(&mut self, kubernetes: [u64; 3]) {
        self.api.state.kubernetes = kubernetes;
    }

    /// Answers a request. A refusal is also a response: its body is the Status that the real server
    /// sends.
    pub fn handle(&mut self, request: &Request, clock: Clock) -> Response {
        let response = answer(&mut self.api, request, clock.clone()).unwrap_or_else(Response::from);
        roles::aggregate(&mut self.api, &mut self.aggregated, &clock);
        response
    }

    /// Returns the events of a watch since the last call, as the lines of its stream; empty if
    /// nothing happened. An `ERROR` event is the last one: see [`Watch::ended`].
    pub fn poll(&self, watch: &mut Watch) -> Vec<Value> {
        watch::poll(&self.api.state, watch)
    }

    /// Returns the service account of a token of a TokenRequest; `None` if this server did not
    /// issue the token, it has expired, or its account was deleted.
    pub fn authenticate(&self, token: &str, now: Timestamp) -> Option<User> {
        let Api { state, tokens, .. } = &self.api;
        tokens.find(state, token, now).map(|issued| issued.user())
    }

    /// Runs the namespace controller and the garbage collector until nothing is left for them.
    /// Returns the number of objects that they changed.
    pub fn settle(&mut self, clock: &Clock) -> usize {
        let touched = garbage::settle(&mut self.api.state, clock);
        roles::aggregate(&mut self.api, &mut self.aggregated, clock);
        touched
    }

    /// Sets the status that each workload has when all of its pods run: Deployments, ReplicaSets,
    /// StatefulSets, DaemonSets (as in a cluster of one node), Jobs, Pods, and bound volume claims.
    /// Creates no pods for them. Returns the number of changed objects.
    ///
    /// This replaces kube-controller-manager, scheduler and kubelet, to show how a fleet comes up
    /// without nodes: even an image that does not exist "runs". It happens only in this call.
    pub fn run_workloads(&mut self, clock: &Clock) -> usize {
        workloads::run(&mut self.api.state, &mut self.workloads, clock)
    }
}
