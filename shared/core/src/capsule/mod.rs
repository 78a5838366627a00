//! Capsule: the access of a tenant's owner to the cluster, as the addon capsule-addon-fluxcd
//! provides it.
//!
//! A ServiceAccount with the annotation `capsule.addon.fluxcd/enabled: "true"` that owns a Tenant
//! gets its rights and the Secret `NAME-kubeconfig`, which leads through the Capsule proxy. With
//! `capsule.addon.fluxcd/kubeconfig-global: "true"` Capsule copies the Secret to the Tenant's
//! namespaces. The Tenant becomes the controller of the account's Namespace, which is deleted with
//! it. Names and contents are those of the addon (`pkg/controller/serviceaccount` of
//! projectcapsule/capsule-addon-fluxcd at bb94777), with these differences:
//!
//! - the token comes from a TokenRequest and is renewed before it expires; the annotation
//!   [`TOKEN_ANNOTATION`] selects the Secret `NAME-token` of the addon, which never expires;
//! - every object has the label [`LABEL`] and is deleted with the annotation, the account or its
//!   Tenant; a Namespace is not deleted, but loses its owner reference while the Tenant exists;
//! - of several Tenants of an account, the first by name becomes the controller of the Namespace,
//!   unless another one of them already is;
//! - the objects follow later changes of the proxy's address, its certificate authority and the
//!   Tenants;
//! - two accounts whose cluster-scoped objects would have the same names are refused: one of them
//!   could act as the other.

mod desired_objects;
mod followed;

pub use followed::{Followed, followed};

use desired_objects::{Owner, TenantId};
use driftless_flux::reason;
use driftless_kernel::applier::{Applier, Strategy};
use driftless_kernel::concurrent;
use driftless_kernel::failure::Failure;
use driftless_kernel::hub::{self, CapsuleProxy, Hub};
use driftless_kernel::ports::{
    Cluster, Deleted, ErrorKind, ListRequest, PortError, Ports, Resource, Token, TokenRequest,
};
use driftless_manifest::{Gvk, Object, ObjectId};
use futures::FutureExt as _;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// The annotation that enables the addon for an account.
pub const ENABLED_ANNOTATION: &str = "capsule.addon.fluxcd/enabled";
/// The annotation that copies an account's kubeconfig to its Tenants' namespaces.
pub const GLOBAL_ANNOTATION: &str = "capsule.addon.fluxcd/kubeconfig-global";
/// The annotation that, with the value `secret`, selects the token of the Secret `NAME-token`,
/// which does not expire.
pub const TOKEN_ANNOTATION: &str = "driftless.dev/capsule-token";
/// The label of every object that this module creates.
pub const LABEL: &str = "driftless.dev/capsule";
/// The annotation with the expiry of the token of a kubeconfig, in seconds since 1970.
const EXPIRES_ANNOTATION: &str = "driftless.dev/token-expires";
/// The annotation with the uid of the account of a kubeconfig.
const ACCOUNT_UID_ANNOTATION: &str = "driftless.dev/service-account-uid";
/// The field manager of the created objects.
const MANAGER: &str = "capsule-addon-fluxcd";
/// A token is renewed if it expires within this time. A requested token is valid for an hour.
const RENEWAL: Duration = Duration::from_secs(25 * 60);
/// Maximum number of accounts that are reconciled concurrently.
const ACCOUNT_CONCURRENCY: usize = 8;
/// Maximum number of hubs that are reconciled concurrently.
const HUB_CONCURRENCY: usize = 16;
const ON: &str = "true";

/// The result of a reconciliation of one hub.
#[derive(Debug, Default)]
pub struct Report {
    /// The name of the hub.
    pub hub: String,
    /// The created and changed objects, as `KIND/NAMESPACE/NAME`.
    pub applied: Vec<String>,
    /// The deleted objects, as `KIND/NAMESPACE/NAME`.
    pub deleted: Vec<String>,
    /// The failures. All other work was done.
    pub failures: Vec<AccountFailure>,
}

/// A failure of a reconciliation. It is displayed with its account.
#[derive(Clone, Debug)]
pub struct AccountFailure {
    /// The account whose objects are not complete; `None` for a failure of the whole hub.
    pub account: Option<ObjectId>,
    /// The failure without the name of the account.
    pub failure: Failure,
}

impl AccountFailure {
    fn new(owner: &Owner, failure: Failure) -> Self {
        let account = ObjectId {
            kind: "ServiceAccount".to_owned(),
            group: String::new(),
            namespace: owner.namespace.clone(),
            name: owner.name.clone(),
        };
        Self {
            account: Some(account),
            failure,
        }
    }
}

impl From<Failure> for AccountFailure {
    fn from(failure: Failure) -> Self {
        Self {
            account: None,
            failure,
        }
    }
}

impl fmt::Display for AccountFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(account) = &self.account {
            write!(
                f,
                "service account {}/{}: ",
                account.namespace, account.name
            )?;
        }
        f.write_str(&self.failure.message)
    }
}

/// Reconciles the accounts of every hub that has a Capsule proxy.
///
/// # Errors
/// The registry cannot be read.
pub async fn run(ports: &Ports) -> Result<Vec<Report>, PortError> {
    let names = hub::names(ports).await?;
    let runs = names
        .into_iter()
        .map(|name| async move { run_hub(ports, &name).await }.boxed());
    let reports = concurrent::run(HUB_CONCURRENCY, runs.collect()).await;
    Ok(reports.into_iter().flatten().collect())
}

/// Reconciles the accounts of one hub; returns `None` if it has no Capsule proxy.
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

    fn fail(&mut self, failure: impl Into<AccountFailure>) {
        let failure = failure.into();
        tracing::warn!(
            hub = self.hub,
            reason = failure.failure.reason,
            "capsule: {failure}"
        );
        self.failures.push(failure);
    }
}

/// Checks whether an object is an account for which this module creates objects.
pub fn concerns(object: &Object) -> bool {
    object.kind() == "ServiceAccount"
        && object.group().is_empty()
        && object.annotation(ENABLED_ANNOTATION) == Some(ON)
}

/// Creates the kubeconfigs and rights of Tenant owners and deletes those that are obsolete. On a
/// hub without Capsule's definitions it does nothing.
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

/// The dependencies of the reconciliation of one hub.
struct Work<'a> {
    ports: &'a Ports,
    cluster: &'a dyn Cluster,
    proxy: &'a CapsuleProxy,
}

/// An object by its kind, namespace and name.
type Place = (&'static str, String, String);

/// The live objects with our label.
type Live = BTreeMap<Place, Object>;

/// The accounts that claim each object, joined by "and".
type Names = BTreeMap<Place, String>;

/// The objects and the failure of one ServiceAccount, for the prune that follows.
struct AccountResult {
    /// The objects that it must have: they stay, even if not all of them could be written.
    desired: Vec<Place>,
    applied: Vec<String>,
    failure: Option<AccountFailure>,
}

impl Work<'_> {
    async fn all(&self, report: &mut Report) -> Result<(), Failure> {
        let Some(tenants) = self.tenants().await? else {
            return Ok(());
        };
        let accounts = self.list("v1", "ServiceAccount", "").await?;
        let live = self.live().await?;
        let namespaces = self.labelled("v1", "Namespace").await?;
        let (owners, refused) = owners(&accounts, &tenants);
        // The objects of a refused account stay unchanged until a user renames one of the accounts.
        let mut kept: BTreeSet<Place> = BTreeSet::new();
        let mut used: BTreeSet<&str> = owners.iter().map(|one| one.namespace.as_str()).collect();
        used.extend(refused.iter().map(|(owner, _)| owner.namespace.as_str()));
        let tenants: BTreeSet<&str> = tenants.iter().map(|tenant| tenant.meta("uid")).collect();
        for namespace in &namespaces {
            // The garbage collector deletes the Namespace of a deleted Tenant.
            let is_owned = desired_objects::controller(namespace)
                .and_then(|owner| owner["uid"].as_str())
                .is_none_or(|uid| tenants.contains(uid));
            if used.contains(namespace.name()) || !is_owned {
                continue;
            }
            match self.release(namespace).await {
                Ok(name) => report.applied.push(name),
                Err(failure) => report.fail(failure),
            }
        }
        for (owner, failure) in &refused {
            kept.extend(desired_objects::places(owner));
            report.fail(AccountFailure::new(owner, failure.clone()));
        }
        let runs = owners
            .iter()
            .map(|owner| self.reconcile_account(owner, &live, &namespaces).boxed())
            .collect();
        for one in concurrent::run(ACCOUNT_CONCURRENCY, runs).await {
            kept.extend(one.desired);
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
                Ok(()) => report.deleted.push(display_name(place)),
                Err(failure) => report.fail(failure),
            }
        }
        Ok(())
    }

    /// Lists Capsule's Tenants; returns `None` if the cluster does not serve them.
    async fn tenants(&self) -> Result<Option<Vec<Object>>, Failure> {
        let gvk = Gvk::new(desired_objects::CAPSULE, desired_objects::TENANT_KIND);
        match self.cluster.resource(&gvk).await? {
            Some(resource) => Ok(Some(self.cluster.list(&ListRequest::all(&resource)).await?)),
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
        let request = ListRequest {
            selector,
            ..ListRequest::all(&resource)
        };
        Ok(self.cluster.list(&request).await?)
    }

    async fn resource(&self, gvk: &Gvk) -> Result<Resource, Failure> {
        let found = self.cluster.resource(gvk).await?;
        found.ok_or_else(|| {
            let message = format!(
                "the cluster does not serve {} {}: install the definitions of Capsule",
                gvk.api_version(),
                gvk.kind
            );
            Failure::retry(reason::FAILED, message)
        })
    }

    async fn labelled(&self, version: &str, kind: &str) -> Result<Vec<Object>, Failure> {
        self.list(version, kind, &format!("{LABEL}={ON}")).await
    }

    /// Lists the live objects with our label, except Namespaces, which are never deleted.
    async fn live(&self) -> Result<Live, Failure> {
        let mut live = Live::new();
        for (version, kind) in desired_objects::KINDS {
            for object in self.labelled(version, kind).await? {
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

    async fn reconcile_account(
        &self,
        owner: &Owner,
        live: &Live,
        namespaces: &[Object],
    ) -> AccountResult {
        let mut result = AccountResult {
            desired: desired_objects::places(owner),
            applied: Vec::new(),
            failure: None,
        };
        let applied = &mut result.applied;
        let done = match self.apply_all(owner, live, applied).await {
            Ok(()) => self.own_namespace(owner, namespaces, applied).await,
            failed => failed,
        };
        result.failure = done
            .err()
            .map(|failure| AccountFailure::new(owner, failure));
        result
    }

    /// Makes a Tenant of the account the controller of the account's Namespace.
    async fn own_namespace(
        &self,
        owner: &Owner,
        labelled: &[Object],
        applied: &mut Vec<String>,
    ) -> Result<(), Failure> {
        let is_own = |object: &Object| {
            desired_objects::controller(object).is_some_and(|controller| {
                let mut tenants = owner.tenants.iter();
                tenants.any(|tenant| controller["uid"] == tenant.uid.as_str())
            })
        };
        let mut known = labelled.iter();
        if known.any(|object| object.name() == owner.namespace && is_own(object)) {
            return Ok(());
        }
        let resource = self.resource(&Gvk::new("v1", "Namespace")).await?;
        let live = self.cluster.get(&resource, "", &owner.namespace).await?;
        let (Some(live), Some(tenant)) = (live, owner.tenants.first()) else {
            return Ok(());
        };
        if is_own(&live) {
            return Ok(());
        }
        let place = format!("Namespace/{}", owner.namespace);
        if let Some(other) = desired_objects::controller(&live) {
            let text = |field: &str| other[field].as_str().unwrap_or_default().to_owned();
            let message = format!(
                "{place} is controlled by {}/{}, and not by {}/{}: remove that owner reference, or move the account to \
                 another namespace",
                text("kind"),
                text("name"),
                desired_objects::TENANT_KIND,
                tenant.name
            );
            return Err(Failure::retry(reason::FAILED, message));
        }
        let desired = desired_objects::owned_namespace(owner, tenant)?;
        let result = self.applier().apply(&resource, &desired).await;
        result.map_err(|error| Failure::from(error).context(&place))?;
        applied.push(place);
        Ok(())
    }

    /// Removes our owner reference and label from a Namespace. Returns its name for the report.
    async fn release(&self, namespace: &Object) -> Result<String, Failure> {
        let resource = self.resource(&namespace.gvk()).await?;
        let released = desired_objects::released_namespace(namespace.name())?;
        let place = format!("Namespace/{}", namespace.name());
        let result = self.applier().apply(&resource, &released).await;
        result.map_err(|error| Failure::from(error).context(&place))?;
        Ok(place)
    }

    async fn apply_all(
        &self,
        owner: &Owner,
        live: &Live,
        applied: &mut Vec<String>,
    ) -> Result<(), Failure> {
        for object in desired_objects::rights(owner)? {
            self.ensure(object, live, applied).await?;
        }
        let Some(token) = self.token_of(owner, live, applied).await? else {
            return Ok(());
        };
        let secret = desired_objects::kubeconfig(owner, self.proxy, &token)?;
        let resources = desired_objects::global_resources(owner, &secret)?;
        self.ensure(secret, live, applied).await?;
        for object in resources {
            self.ensure(object, live, applied).await?;
        }
        Ok(())
    }

    /// Returns the token of an account's kubeconfig; `None` while the cluster has not filled its
    /// Secret yet.
    async fn token_of(
        &self,
        owner: &Owner,
        live: &Live,
        applied: &mut Vec<String>,
    ) -> Result<Option<desired_objects::OwnerToken>, Failure> {
        if owner.token_secret {
            return self.lasting_token(owner, live, applied).await;
        }
        let known = live
            .get(&desired_objects::secret_place(owner))
            .and_then(|secret| desired_objects::known_token(owner, secret));
        let now = self.ports.clock.now();
        if let Some(known) = &known
            && known.expires.is_some_and(|end| end > now + RENEWAL)
        {
            return Ok(Some(known.clone()));
        }
        let request = TokenRequest {
            namespace: owner.namespace.clone(),
            account: owner.name.clone(),
            uid: owner.uid.clone(),
            audiences: Vec::new(),
        };
        let Token { secret, expires } = self.cluster.token(&request, now).await?;
        // The known token may be returned again while it is valid: then the Secret is not written.
        Ok(Some(match known {
            Some(known) if known.expires >= Some(expires) => known,
            _ => desired_objects::OwnerToken {
                secret,
                expires: Some(expires),
            },
        }))
    }

    /// Returns the token of the Secret `NAME-token`, which the cluster fills.
    async fn lasting_token(
        &self,
        owner: &Owner,
        live: &Live,
        applied: &mut Vec<String>,
    ) -> Result<Option<desired_objects::OwnerToken>, Failure> {
        let desired = desired_objects::token_secret(owner)?;
        self.ensure(desired, live, applied).await?;
        let resource = self.resource(&Gvk::new("v1", "Secret")).await?;
        let name = desired_objects::token_secret_name(owner);
        let secret = self.cluster.get(&resource, &owner.namespace, &name).await?;
        Ok(secret.and_then(|secret| desired_objects::filled_token(owner, &secret)))
    }

    fn applier(&self) -> Applier<'_> {
        Applier::new(self.cluster, Strategy::forcing(MANAGER))
    }

    /// Applies an object unless the live one contains all its fields.
    async fn ensure(
        &self,
        object: Object,
        live: &Live,
        applied: &mut Vec<String>,
    ) -> Result<(), Failure> {
        let place = desired_objects::place(&object);
        let old = live.get(&place);
        if old.is_some_and(|old| contains(&old.to_value(), &object.to_value())) {
            return Ok(());
        }
        // The role of a binding is immutable, so the binding is recreated.
        if let Some(old) = old
            && old.pointer("/roleRef") != object.pointer("/roleRef")
        {
            self.delete(old).await?;
        }
        let resource = self.resource(&object.gvk()).await?;
        if old.is_none() {
            self.refuse_others(&resource, &object, &place).await?;
        }
        let result = self.applier().apply(&resource, &object).await;
        result.map_err(|error| Failure::from(error).context(display_name(&place)))?;
        applied.push(display_name(&place));
        Ok(())
    }

    /// Refuses to overwrite an object that was not created by this module or the addon.
    async fn refuse_others(
        &self,
        resource: &Resource,
        object: &Object,
        place: &Place,
    ) -> Result<(), Failure> {
        let existing = self
            .cluster
            .get(resource, object.namespace(), object.name())
            .await?;
        if existing.is_none_or(|existing| desired_objects::is_ours(&existing, object)) {
            return Ok(());
        }
        let message = format!(
            "{} exists and was not created by the Capsule addon: rename or delete it, or label it {LABEL}={ON}",
            display_name(place)
        );
        Err(Failure::retry(reason::FAILED, message))
    }

    /// Deletes an object of ours, in exactly the version that was read.
    async fn delete(&self, object: &Object) -> Result<(), Failure> {
        let resource = self.resource(&object.gvk()).await?;
        let applier = self.applier();
        let deletion = applier.delete(&resource, object, "Background", &|_| false);
        match deletion.await {
            Ok(Deleted::Gone | Deleted::Pending) => Ok(()),
            // Another client changed or recreated it: the next run reads the new object.
            Err(error) if error.kind == ErrorKind::Conflict => Ok(()),
            Err(error) => {
                Err(Failure::from(error).context(display_name(&desired_objects::place(object))))
            }
        }
    }
}

/// Returns the accounts that own a Tenant, and those of them that are refused.
fn owners(accounts: &[Object], tenants: &[Object]) -> (Vec<Owner>, Vec<(Owner, Failure)>) {
    let mut owned: BTreeMap<String, Vec<TenantId>> = BTreeMap::new();
    for tenant in tenants {
        for user in desired_objects::account_owners(tenant) {
            owned.entry(user).or_default().push(TenantId::of(tenant));
        }
    }
    let enabled = accounts.iter().filter(|account| concerns(account));
    let mut enabled: Vec<Owner> = enabled
        .filter_map(|account| {
            let user = desired_objects::user(account.namespace(), account.name());
            Some(Owner::new(account, owned.get(&user)?.clone()))
        })
        .collect();
    enabled.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
    let mut names = Names::new();
    for owner in &enabled {
        for place in desired_objects::places(owner) {
            let shared = names.entry(place).or_default();
            if !shared.is_empty() {
                shared.push_str(" and ");
            }
            shared.push_str(&owner.display_name());
        }
    }
    let (mut good, mut refused) = (Vec::new(), Vec::new());
    for owner in enabled {
        let places = desired_objects::places(&owner);
        let own = owner.display_name();
        let clash = places.iter().find(|place| names.get(place) != Some(&own));
        match clash {
            None => good.push(owner),
            Some(place) => {
                let both = names.get(place).map_or("", String::as_str);
                let message = format!(
                    "{both} would share the object {}: rename one of the accounts",
                    display_name(place)
                );
                refused.push((owner, Failure::retry(reason::FAILED, message)));
            }
        }
    }
    (good, refused)
}

/// Checks whether `live` contains all of `desired`: maps are compared by key, lists as a whole.
fn contains(live: &Value, desired: &Value) -> bool {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => desired
            .iter()
            .all(|(key, value)| live.get(key).is_some_and(|live| contains(live, value))),
        (Value::Array(live), Value::Array(desired)) => {
            live.len() == desired.len()
                && live
                    .iter()
                    .zip(desired)
                    .all(|(live, desired)| contains(live, desired))
        }
        _ => live == desired,
    }
}

fn display_name((kind, namespace, name): &Place) -> String {
    match namespace.is_empty() {
        true => format!("{kind}/{name}"),
        false => format!("{kind}/{namespace}/{name}"),
    }
}
