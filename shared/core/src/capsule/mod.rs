//! Capsule: the way of a tenant's owner to the cluster, as the addon capsule-addon-fluxcd makes it.
//!
//! A ServiceAccount with the annotation `capsule.addon.fluxcd/enabled: "true"` that owns a Tenant gets its rights and the Secret
//! `NAME-kubeconfig`, which leads through the Capsule proxy. With `capsule.addon.fluxcd/kubeconfig-global: "true"` Capsule spreads the
//! Secret over the Tenant's namespaces. Names and contents are those of the addon (`pkg/controller/serviceaccount` of
//! projectcapsule/capsule-addon-fluxcd at 5517ff5). What differs:
//!
//! - the token is asked for (TokenRequest) and renewed before it expires; the annotation [`TOKEN_ANNOTATION`] asks for the Secret
//!   `NAME-token` of the addon, which never expires;
//! - everything has the label [`LABEL`] and goes when the annotation, the account or its Tenant goes;
//! - what changes later (the proxy's address, its certificate authority, a Tenant) is written anew;
//! - two accounts whose cluster-wide names would be the same are refused: one of them could act as the other.

mod wanted;

use crate::concurrent;
use crate::failure::Failure;
use crate::flux::reason;
use crate::hub::{self, CapsuleProxy, Hub};
use crate::ports::{
    Apply, Cluster, Delete, Deleted, ErrorKind, PortError, Ports, Resource, Token, TokenRequest,
};
use driftless_manifest::{Gvk, Object};
use futures::FutureExt as _;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wanted::Owner;

/// What enables the addon for an account.
pub const ENABLED_ANNOTATION: &str = "capsule.addon.fluxcd/enabled";
/// What spreads an account's kubeconfig over its Tenants' namespaces.
pub const GLOBAL_ANNOTATION: &str = "capsule.addon.fluxcd/kubeconfig-global";
/// `secret`: the kubeconfig has the token of the Secret `NAME-token`, which does not expire.
pub const TOKEN_ANNOTATION: &str = "driftless.dev/capsule-token";
/// The label of everything that is made here.
pub const LABEL: &str = "driftless.dev/capsule";
/// When the token of a kubeconfig expires, in seconds since 1970, and of which account it is.
const EXPIRES_ANNOTATION: &str = "driftless.dev/token-expires";
const ACCOUNT_UID_ANNOTATION: &str = "driftless.dev/service-account-uid";
/// The field manager.
const MANAGER: &str = "capsule-addon-fluxcd";
/// A token is renewed when less than this is left of it. One that is asked for lives an hour.
const RENEWAL: Duration = Duration::from_secs(25 * 60);
/// How many accounts are looked at at once.
const ACCOUNTS: usize = 8;
/// How many hubs are looked at at once.
const HUBS: usize = 16;
const ON: &str = "true";

/// What was done on one hub.
#[derive(Debug, Default)]
pub struct Report {
    /// The hub.
    pub hub: String,
    /// What was created or changed, as `KIND/NAMESPACE/NAME`.
    pub applied: Vec<String>,
    /// What was deleted.
    pub deleted: Vec<String>,
    /// What could not be done, and why. All else was done.
    pub failures: Vec<Failure>,
}

/// Looks at the accounts of every hub that has a Capsule proxy.
///
/// # Errors
/// The registry cannot be read.
pub async fn run(ports: &Ports) -> Result<Vec<Report>, PortError> {
    let names = hub::names(ports).await?;
    let looks = names
        .into_iter()
        .map(|name| async move { run_hub(ports, &name).await }.boxed());
    let reports = concurrent::run(HUBS, looks.collect()).await;
    Ok(reports.into_iter().flatten().collect())
}

/// Looks at the accounts of one hub; nothing when it has no Capsule proxy.
pub async fn run_hub(ports: &Ports, name: &str) -> Option<Report> {
    let settings = match hub::settings(ports, name).await {
        Ok(settings) => settings,
        Err(failure) => return Some(Report::failed(name, failure)),
    };
    settings.capsule_proxy.as_ref()?;
    Some(match hub::connect(ports, name).await {
        Ok(hub) => reconcile(ports, &hub).await,
        Err(failure) => Report::failed(name, failure),
    })
}

impl Report {
    fn failed(hub: &str, failure: Failure) -> Self {
        let mut report = Self {
            hub: hub.to_owned(),
            ..Self::default()
        };
        report.fail(failure);
        report
    }

    fn fail(&mut self, failure: Failure) {
        tracing::warn!(
            hub = self.hub,
            reason = failure.reason,
            "capsule: {}",
            failure.message
        );
        self.failures.push(failure);
    }
}

/// Whether an object is an account of which this module would make something.
pub fn concerns(object: &Object) -> bool {
    object.kind() == "ServiceAccount"
        && object.group().is_empty()
        && object.annotation(ENABLED_ANNOTATION) == Some(ON)
}

/// Gives each account of a hub what it shall have, and takes back what none shall have any more. A hub without Capsule's
/// definitions keeps nothing.
pub async fn reconcile(ports: &Ports, hub: &Hub) -> Report {
    let mut report = Report {
        hub: hub.settings.name.clone(),
        ..Report::default()
    };
    let Some(proxy) = &hub.settings.capsule_proxy else {
        return report;
    };
    let work = Work {
        ports,
        cluster: hub.cluster.as_ref(),
        proxy,
    };
    if let Err(failure) = work.all(&mut report).await {
        report.fail(failure);
    }
    report
}

/// Where one look works.
struct Work<'a> {
    ports: &'a Ports,
    cluster: &'a dyn Cluster,
    proxy: &'a CapsuleProxy,
}

/// An object by its kind, namespace and name.
type Place = (&'static str, String, String);

/// What is on the cluster already.
type Live = BTreeMap<Place, Object>;

/// Who already has a cluster-wide name.
type Names = BTreeMap<Place, String>;

/// What came of one account.
struct Given {
    /// What it shall have: it stays, also when not all of it could be written.
    keeps: Vec<Place>,
    applied: Vec<String>,
    failure: Option<Failure>,
}

impl Work<'_> {
    async fn all(&self, report: &mut Report) -> Result<(), Failure> {
        let Some(tenants) = self.tenants().await? else {
            return Ok(());
        };
        let accounts = self.list("v1", "ServiceAccount", "").await?;
        let live = self.live().await?;
        let (owners, refused) = owners(&accounts, &tenants);
        // What a refused account has stays as it is: somebody has to decide.
        let mut kept: BTreeSet<Place> = BTreeSet::new();
        for (owner, failure) in refused {
            kept.extend(wanted::places(&owner));
            report.fail(failure);
        }
        let given = owners
            .iter()
            .map(|owner| self.give(owner, &live).boxed())
            .collect();
        for one in concurrent::run(ACCOUNTS, given).await {
            kept.extend(one.keeps);
            report.applied.extend(one.applied);
            if let Some(failure) = one.failure {
                report.fail(failure);
            }
        }
        for (place, object) in &live {
            if kept.contains(place) {
                continue;
            }
            match self.delete(object).await {
                Ok(()) => report.deleted.push(shown(place)),
                Err(failure) => report.fail(failure),
            }
        }
        Ok(())
    }

    /// Capsule's Tenants; nothing where the cluster does not know them.
    async fn tenants(&self) -> Result<Option<Vec<Object>>, Failure> {
        let gvk = Gvk::new(wanted::CAPSULE, "Tenant");
        match self.cluster.resource(&gvk).await? {
            Some(resource) => Ok(Some(self.cluster.list(&resource, "", "").await?)),
            None => Ok(None),
        }
    }

    async fn list(
        &self,
        version: &str,
        kind: &str,
        selector: &str,
    ) -> Result<Vec<Object>, Failure> {
        let resource = self.resource(&Gvk::new(version, kind)).await?;
        Ok(self.cluster.list(&resource, "", selector).await?)
    }

    async fn resource(&self, gvk: &Gvk) -> Result<Resource, Failure> {
        let found = self.cluster.resource(gvk).await?;
        found.ok_or_else(|| {
            let what = format!(
                "the cluster does not know {} {}",
                gvk.api_version(),
                gvk.kind
            );
            Failure::retry(reason::FAILED, what)
        })
    }

    /// Everything that was made here.
    async fn live(&self) -> Result<Live, Failure> {
        let selector = format!("{LABEL}={ON}");
        let mut live = Live::new();
        for (version, kind) in wanted::KINDS {
            for object in self.list(version, kind, &selector).await? {
                let place = (
                    kind,
                    object.namespace().to_owned(),
                    object.name().to_owned(),
                );
                live.insert(place, object);
            }
        }
        Ok(live)
    }

    async fn give(&self, owner: &Owner, live: &Live) -> Given {
        let mut given = Given {
            keeps: wanted::places(owner),
            applied: Vec::new(),
            failure: None,
        };
        if let Err(failure) = self.give_all(owner, live, &mut given.applied).await {
            let what = format!("service account {}", owner.shown());
            given.failure = Some(failure.context(what));
        }
        given
    }

    async fn give_all(
        &self,
        owner: &Owner,
        live: &Live,
        applied: &mut Vec<String>,
    ) -> Result<(), Failure> {
        for object in wanted::rights(owner)? {
            self.ensure(object, live, applied).await?;
        }
        let Some(token) = self.token_of(owner, live, applied).await? else {
            return Ok(());
        };
        let secret = wanted::kubeconfig(owner, self.proxy, &token)?;
        let resources = wanted::global_resources(owner, &secret)?;
        self.ensure(secret, live, applied).await?;
        for object in resources {
            self.ensure(object, live, applied).await?;
        }
        Ok(())
    }

    /// The token of an account's kubeconfig; nothing while the cluster has not filled its Secret yet.
    async fn token_of(
        &self,
        owner: &Owner,
        live: &Live,
        applied: &mut Vec<String>,
    ) -> Result<Option<wanted::OwnerToken>, Failure> {
        if owner.token_secret {
            return self.lasting_token(owner, live, applied).await;
        }
        let known = live
            .get(&wanted::secret_place(owner))
            .and_then(|secret| wanted::known_token(owner, secret));
        let now = self.ports.clock.now();
        if let Some(known) = &known
            && known.expires.is_some_and(|end| end > now + RENEWAL)
        {
            return Ok(Some(known.clone()));
        }
        let ask = TokenRequest {
            namespace: owner.namespace.clone(),
            account: owner.name.clone(),
            uid: owner.uid.clone(),
            audiences: Vec::new(),
        };
        let Token { secret, expires } = self.cluster.token(&ask, now).await?;
        // The same one may be given again while it is good: then nothing is written.
        Ok(Some(match known {
            Some(known) if known.expires >= Some(expires) => known,
            _ => wanted::OwnerToken {
                secret,
                expires: Some(expires),
            },
        }))
    }

    /// The token of the Secret `NAME-token`, which the cluster fills.
    async fn lasting_token(
        &self,
        owner: &Owner,
        live: &Live,
        applied: &mut Vec<String>,
    ) -> Result<Option<wanted::OwnerToken>, Failure> {
        let wanted = wanted::token_secret(owner)?;
        self.ensure(wanted, live, applied).await?;
        let resource = self.resource(&Gvk::new("v1", "Secret")).await?;
        let name = wanted::token_secret_name(owner);
        let secret = self.cluster.get(&resource, &owner.namespace, &name).await?;
        Ok(secret.and_then(|secret| wanted::filled_token(owner, &secret)))
    }

    /// Applies an object unless the live one says all of it.
    async fn ensure(
        &self,
        object: Object,
        live: &Live,
        applied: &mut Vec<String>,
    ) -> Result<(), Failure> {
        let place = wanted::place(&object);
        let old = live.get(&place);
        if old.is_some_and(|old| says(&old.to_value(), &object.to_value())) {
            return Ok(());
        }
        // The role of a binding never changes: it is made anew.
        if let Some(old) = old
            && old.pointer("/roleRef") != object.pointer("/roleRef")
        {
            self.delete(old).await?;
        }
        let resource = self.resource(&object.gvk()).await?;
        if old.is_none() {
            self.refuse_others(&resource, &object, &place).await?;
        }
        let how = Apply {
            manager: MANAGER,
            force: true,
            dry_run: false,
        };
        let done = self.cluster.apply(&resource, &object, how).await;
        done.map_err(|error| Failure::from(error).context(shown(&place)))?;
        applied.push(shown(&place));
        Ok(())
    }

    /// Refuses to write over an object that neither this module nor the addon made.
    async fn refuse_others(
        &self,
        resource: &Resource,
        object: &Object,
        place: &Place,
    ) -> Result<(), Failure> {
        let there = self
            .cluster
            .get(resource, object.namespace(), object.name())
            .await?;
        if there.is_none_or(|there| wanted::is_ours(&there, object)) {
            return Ok(());
        }
        let what = format!(
            "{} exists and was not made by the Capsule addon: rename or delete it, or label it {LABEL}={ON}",
            shown(place)
        );
        Err(Failure::retry(reason::FAILED, what))
    }

    /// Deletes an object of ours, as it was seen.
    async fn delete(&self, object: &Object) -> Result<(), Failure> {
        let resource = self.resource(&object.gvk()).await?;
        let how = Delete {
            uid: Some(object.meta("uid").to_owned()),
            resource_version: Some(object.meta("resourceVersion").to_owned()),
            propagation: Some("Background"),
        };
        let done = self
            .cluster
            .delete(&resource, object.namespace(), object.name(), &how);
        match done.await {
            Ok(Deleted::Gone | Deleted::Pending) => Ok(()),
            // Somebody changed it, or made it anew: the next look sees what it is now.
            Err(error) if error.kind == ErrorKind::Conflict => Ok(()),
            Err(error) => Err(Failure::from(error).context(shown(&wanted::place(object)))),
        }
    }
}

/// The accounts that get something, and those that are refused.
fn owners(accounts: &[Object], tenants: &[Object]) -> (Vec<Owner>, Vec<(Owner, Failure)>) {
    let mut owned: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for tenant in tenants {
        for user in wanted::account_owners(tenant) {
            owned
                .entry(user)
                .or_default()
                .push(tenant.name().to_owned());
        }
    }
    let enabled = accounts.iter().filter(|account| concerns(account));
    let mut enabled: Vec<Owner> = enabled
        .filter_map(|account| {
            let user = wanted::user(account.namespace(), account.name());
            Some(Owner::new(account, owned.get(&user)?.clone()))
        })
        .collect();
    enabled.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
    let mut names = Names::new();
    for owner in &enabled {
        for place in wanted::places(owner) {
            let shared = names.entry(place).or_default();
            if !shared.is_empty() {
                shared.push_str(" and ");
            }
            shared.push_str(&owner.shown());
        }
    }
    let (mut good, mut refused) = (Vec::new(), Vec::new());
    for owner in enabled {
        let places = wanted::places(&owner);
        let own = owner.shown();
        let clash = places.iter().find(|place| names.get(place) != Some(&own));
        match clash {
            None => good.push(owner),
            Some(place) => {
                let both = names.get(place).map_or("", String::as_str);
                let what = format!(
                    "service account {own}: {both} would both have {}: rename one of them",
                    shown(place)
                );
                refused.push((owner, Failure::retry(reason::FAILED, what)));
            }
        }
    }
    (good, refused)
}

/// Whether `live` has everything that `wanted` says: maps by their keys, lists as a whole.
fn says(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, value)| live.get(key).is_some_and(|live| says(live, value))),
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len()
                && live
                    .iter()
                    .zip(wanted)
                    .all(|(live, wanted)| says(live, wanted))
        }
        _ => live == wanted,
    }
}

fn shown((kind, namespace, name): &Place) -> String {
    match namespace.is_empty() {
        true => format!("{kind}/{name}"),
        false => format!("{kind}/{namespace}/{name}"),
    }
}
