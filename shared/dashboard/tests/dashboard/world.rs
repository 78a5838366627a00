//! Fleets in memory, and requests to their dashboard.

use async_trait::async_trait;
use driftless_dashboard::access::Rule;
use driftless_dashboard::actions::Action;
use driftless_dashboard::auth::{Auth, Key, Kind, Login, Provider, Web, WebError};
use driftless_dashboard::model::{Hub, Journals, Place, Row, Snapshot, State};
use driftless_dashboard::{Data, DataError, Live, Request, Response, Site, handle};
use driftless_flux::{FluxKind, ObjectRef};
use driftless_kernel::journal::{Entry, Journal, ObjectChange, StepResult};
use driftless_kernel::ports::{Cause, Secret};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The time of all requests.
pub const NOW: u64 = 1_770_000_000_000;

/// The state of two hubs, and the actions that were made.
pub struct Fleets {
    snapshot: Arc<Snapshot>,
    journals: BTreeMap<String, Arc<Journals>>,
    pub acted: Mutex<Vec<String>>,
}

pub fn id(kind: FluxKind, namespace: &str, name: &str) -> ObjectRef {
    ObjectRef::new(kind, namespace, name)
}

pub fn row(hub: &str, id: ObjectRef, state: State) -> Row {
    Row {
        hub: hub.to_owned(),
        cluster: hub.to_owned(),
        id,
        owner: None,
        source: None,
        depends_on: Vec::new(),
        state,
        is_suspended: state == State::Suspended,
        reason: "Reason".to_owned(),
        message: "the message".to_owned(),
        revision: "main@sha1:6f2c1a9e0b3d4c5f6a7b8c9d0e1f2a3b4c5d6e7f".to_owned(),
        attempted: String::new(),
        since: NOW - 60_000,
        created: NOW - 3_600_000,
        applied: 3,
        path: "./apps".to_owned(),
        url: String::new(),
        drift: None,
    }
}

fn entry(cause: Cause, result: StepResult, ended: u64, revision: &str, object: &str) -> Entry {
    Entry {
        received: None,
        started: ended - 400,
        ended,
        cause,
        revision: revision.to_owned(),
        result,
        reason: "Reason".to_owned(),
        message: format!("message about {object}"),
        changes: vec![ObjectChange {
            object: object.to_owned(),
            action: "configured".to_owned(),
            fields: Vec::new(),
        }],
        omitted: 0,
        withheld: false,
    }
}

impl Fleets {
    /// Returns two hubs with a platform and two tenants; `secret-of-blue` is in everything
    /// that only the tenant `blue` may see.
    pub fn new() -> Self {
        let fleet = id(FluxKind::GitRepository, "flux-system", "fleet");
        let web = id(FluxKind::Kustomization, "green", "web");
        let mut green = row("eu", web.clone(), State::Failed);
        green.message = "Deployment/green/web dry-run failed: <script>alert(1)</script>".to_owned();
        green.source = Some(fleet.clone());
        green.depends_on = vec![id(FluxKind::Kustomization, "blue", "secret-of-blue")];
        let blue = id(FluxKind::Kustomization, "blue", "secret-of-blue");
        let mut hidden = row("eu", blue.clone(), State::Ready);
        hidden.message = "secret-of-blue".to_owned();
        hidden.drift = Some("secret-of-blue".to_owned());
        let snapshot = Snapshot {
            taken: NOW,
            hubs: ["eu", "us"]
                .map(|name| Hub {
                    name: name.to_owned(),
                    fleet: "https://github.com/acme/secret-of-blue".to_owned(),
                    error: (name == "us").then(|| "secret-of-blue".to_owned()),
                })
                .into(),
            objects: vec![
                hidden,
                row("eu", fleet.clone(), State::Ready),
                green,
                row(
                    "us",
                    id(FluxKind::HelmRelease, "blue", "secret-of-blue"),
                    State::Waiting,
                ),
            ],
        };
        let revision = &snapshot.objects[1].revision;
        let journal = |entries: Vec<Entry>| Journal { entries };
        let journals = Journals::from([
            (
                fleet,
                journal(vec![entry(
                    Cause::Push,
                    StepResult::NewRevision,
                    NOW - 9_000,
                    revision,
                    "secret-of-blue",
                )]),
            ),
            (
                web,
                journal(vec![entry(
                    Cause::Source,
                    StepResult::Failed,
                    NOW - 6_000,
                    revision,
                    "Deployment/green/web",
                )]),
            ),
            (
                blue,
                journal(vec![entry(
                    Cause::Drift,
                    StepResult::Ready,
                    NOW - 5_000,
                    revision,
                    "secret-of-blue",
                )]),
            ),
        ]);
        Self {
            snapshot: Arc::new(snapshot),
            journals: BTreeMap::from([("eu".to_owned(), Arc::new(journals))]),
            acted: Mutex::default(),
        }
    }
}

#[async_trait]
impl Data for Fleets {
    async fn snapshot(&self) -> Result<Arc<Snapshot>, DataError> {
        Ok(self.snapshot.clone())
    }

    async fn journal(&self, hub: &str, object: &ObjectRef) -> Result<Journal, DataError> {
        let journals = self.journals.get(hub);
        Ok(journals
            .and_then(|all| all.get(object))
            .cloned()
            .unwrap_or_default())
    }

    async fn journals(&self, hub: &str) -> Result<Arc<Journals>, DataError> {
        Ok(self.journals.get(hub).cloned().unwrap_or_default())
    }

    async fn place(&self, _: &Row, _: &Snapshot) -> Option<Place> {
        Some(Place {
            file: "apps/web.yaml".to_owned(),
            line: Some(12),
            link: Some("https://github.com/acme/fleet/blob/main/apps/web.yaml#L12".to_owned()),
        })
    }

    async fn act(&self, hub: &str, object: &ObjectRef, action: &Action) -> Result<(), DataError> {
        let line = format!(
            "{} {hub} {object} {}",
            action.name(),
            action.patch(object.kind)
        );
        self.acted.lock().unwrap().push(line);
        Ok(())
    }
}

/// A service that knows users: answers by address, and records the forms.
#[derive(Default)]
pub struct Service {
    pub answers: BTreeMap<String, Value>,
    pub forms: Mutex<Vec<String>>,
}

#[async_trait]
impl Web for Service {
    async fn get(&self, url: &str, _: Option<&str>) -> Result<Value, WebError> {
        self.answers
            .get(url)
            .cloned()
            .ok_or_else(|| WebError::new(format!("{url}: not found")))
    }

    async fn post(&self, url: &str, form: &[(&str, &str)]) -> Result<Value, WebError> {
        self.forms.lock().unwrap().push(format!("{form:?}"));
        self.get(url, None).await
    }
}

pub fn key() -> Key {
    Key::new(&[7; 32]).unwrap()
}

/// Returns a dashboard whose users log in at GitHub: the group `acme/green` acts in the namespace
/// `green`, `acme/readers` only reads it, and `root` acts everywhere.
pub fn logins(kind: Kind) -> Auth {
    let rule = |users: &[&str], groups: &[&str], namespace: &str, actions| Rule {
        users: users.iter().map(|one| (*one).to_owned()).collect(),
        groups: groups.iter().map(|one| (*one).to_owned()).collect(),
        namespaces: vec![namespace.to_owned()],
        actions,
    };
    Auth::Login(Login {
        provider: Provider {
            kind,
            client_id: "client".to_owned(),
            client_secret: Secret::new("hunter2"),
        },
        origin: "https://gitops.example.com".to_owned(),
        rules: vec![
            rule(&["root"], &[], "*", true),
            rule(&[], &["acme/green"], "green", true),
            rule(&[], &["acme/readers"], "green", false),
        ],
    })
}

pub fn github() -> Auth {
    logins(Kind::GitHub {
        web: "https://github.com".to_owned(),
        api: "https://api.github.com".to_owned(),
    })
}

/// Sends a request.
pub async fn ask(fleets: &Fleets, auth: &Auth, web: &Service, request: &Request) -> Response {
    let site = Site {
        auth,
        key: &key(),
        web,
        live: Live::Poll,
        now: NOW,
        random: [3; 32],
    };
    handle(request, fleets, &site).await
}

/// Returns the cookie of a session of a user with these groups.
pub fn cookie(name: &str, groups: &[&str], end: u64) -> String {
    let ticket = serde_json::json!({"name": name, "groups": groups, "end": end, "id": "1"});
    format!("__Host-driftless={}", key().seal("session", &ticket))
}
