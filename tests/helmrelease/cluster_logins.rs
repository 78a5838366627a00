//! Logins of remote clusters with tokens (`spec.kubeConfig.configMapRef`): which identity is used,
//! how many tokens are requested, and what is refused.

use async_trait::async_trait;
use driftless_adapters::offline::Offline;
use driftless_kernel::hub::Settings;
use driftless_kernel::ports::{
    AcrRegistry, AksCluster, Aws, AwsIdentity, Azure, Clouds, ClusterEndpoint, EcrRegistry,
    EksCluster, EntraIdentity, GkeCluster, Google, GoogleIdentity, RegistryLogin, Result, Secret,
    Token,
};
use driftless_tests::charts;
use driftless_tests::releases::{HUB, JSON, MERGE, RELEASES, World};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_secs(600);
const ADDRESS: &str = "https://tenant.internal";
const ARN: &str = "arn:aws:eks:eu-west-1:012345678901:cluster/tenant";
const ROLE: &str = "arn:aws:iam::012345678901:role/deployer";
const MAPS: &str = "/api/v1/namespaces/apps/configmaps";
const ACCOUNTS: &str = "/api/v1/namespaces/apps/serviceaccounts";

/// Starts a hub with the service account `deployer`, and the cluster `tenant`.
fn start(settings: Settings) -> World {
    let world = World::with(&["tenant"], settings);
    world.chart(&charts::web("1.0.0"), "1.0.0");
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "deployer"}});
    world.hub().must("POST", ACCOUNTS, JSON, Some(&account));
    world
}

/// Creates or replaces the ConfigMap `remote`.
fn map(world: &World, data: &Value) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "remote"}, "data": data});
    let path = format!("{MAPS}/remote");
    match world.hub().find(&path) {
        None => world.hub().must("POST", MAPS, JSON, Some(&map)),
        Some(_) => world.hub().must("PUT", &path, JSON, Some(&map)),
    };
}

fn spec() -> Value {
    json!({"kubeConfig": {"configMapRef": {"name": "remote"}}, "targetNamespace": "default",
        "storageNamespace": "default", "driftDetection": {"mode": "enabled"}})
}

fn generic() -> Value {
    json!({"provider": "generic", "address": ADDRESS, "serviceAccountName": "deployer"})
}

fn installed(world: &World) -> bool {
    let path = "/api/v1/namespaces/default/configmaps/default-web-config";
    world.server("tenant").find(path).is_some()
}

/// Returns the number of tokens that were requested since the last call.
fn tokens(world: &World) -> usize {
    let requests = world.hub().requests();
    let is_token = |one: &&String| **one == format!("POST {ACCOUNTS}/deployer/token");
    requests.iter().filter(is_token).count()
}

fn logins(world: &World) -> usize {
    world
        .server("tenant")
        .logins
        .lock()
        .expect("the logins")
        .len()
}

/// A token is used until a fifth of its hour is left, in steps and in sweeps.
#[test]
fn a_token_is_reused_while_it_is_valid() {
    let world = start(Settings::default());
    map(&world, &generic());
    world.release(spec());
    world.reconcile(MINUTE);
    world.expect_ready("True InstallSucceeded");
    assert!(installed(&world));
    for _ in 0..3 {
        world.sweep();
        world.reconcile(INTERVAL);
    }
    assert_eq!((tokens(&world), logins(&world)), (1, 1));
    world.work(INTERVAL * 2);
    world.reconcile(MINUTE);
    world.expect_ready("True InstallSucceeded");
    assert_eq!((tokens(&world), logins(&world)), (1, 2));
}

/// A rehearsal may request a token, since that stores nothing: one for all releases.
#[test]
fn a_sweep_over_many_releases_requests_one_token() {
    let world = start(Settings::default());
    map(&world, &generic());
    for number in 0..12 {
        let mut spec = spec();
        spec["interval"] = json!("10m");
        spec["releaseName"] = json!(format!("r{number}"));
        spec["chartRef"] = json!({"kind": "HelmChart", "name": "web"});
        let release = json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "metadata": {"name": format!("r{number}")}, "spec": spec});
        world.hub().must("POST", RELEASES, JSON, Some(&release));
    }
    world.sweep();
    world.work(MINUTE);
    world.chart(&charts::web("1.0.0"), "1.0.0");
    assert_eq!(tokens(&world), 1);
    world.work(MINUTE * 55);
    world.hub().requests();
    let queued = world.sweep();
    let releases: Vec<_> = queued
        .iter()
        .filter(|one| one.contains("HelmRelease/"))
        .collect();
    assert!(releases.is_empty(), "{releases:?}");
    assert_eq!(tokens(&world), 1, "the first token has expired");
}

#[test]
fn missing_and_invalid_references_are_reported() {
    let world = start(Settings::default());
    world.release(spec());
    let expect_failure = |reason: &str, message: &str| {
        world.reconcile(Duration::ZERO);
        let (ready, found) = (world.condition("Ready"), world.message("Ready"));
        assert_eq!(ready, format!("False {reason}"), "{found}");
        assert!(found.contains(message), "{found}");
    };
    let missing = "failed to get configmap apps/remote: configmaps \"remote\" not found";
    expect_failure("RESTClientError", missing);
    for (key, value, reason, message) in [
        (
            "provider",
            "azure",
            "RESTClientError",
            "failed to get access token for cluster: failed to get provider identity from service account 'apps/deployer' annotations: \
             azure tenant ID is not set in the service account annotation azure.workload.identity/tenant-id",
        ),
        (
            "provider",
            "gcp",
            "NotSupported",
            "service account 'apps/deployer' has no annotation gcp.auth.fluxcd.io/workload-identity-provider",
        ),
        (
            "provider",
            "",
            "RESTClientError",
            "provider '' not implemented",
        ),
        (
            "address",
            "",
            "RESTClientError",
            "cluster address is required",
        ),
        (
            "address",
            "http://tenant.internal",
            "RESTClientError",
            "must use https scheme",
        ),
        (
            "address",
            "https://127.0.0.1:6443",
            "AccessDenied",
            "loopback",
        ),
        (
            "address",
            "https://169.254.169.254",
            "AccessDenied",
            "loopback or link-local",
        ),
        (
            "serviceAccountName",
            "",
            "NotSupported",
            "serviceAccountName is required",
        ),
        (
            "serviceAccountName",
            "a/b",
            "AccessDenied",
            "is not a valid service account name",
        ),
        (
            "serviceAccountName",
            "other",
            "RESTClientError",
            "failed to get service account 'apps/other': ServiceAccount \"other\" not found",
        ),
    ] {
        let mut data = generic();
        data[key] = json!(value);
        map(&world, &data);
        expect_failure(reason, message);
    }
    assert_eq!((tokens(&world), logins(&world)), (0, 0));
    let both = json!({"spec": {"kubeConfig": {"secretRef": {"name": "remote"}}}});
    let path = format!("{RELEASES}/web");
    let refused = world
        .hub()
        .send("PATCH", &path, MERGE, Some(&both))
        .expect_err("the definition requires exactly one");
    let one = "exactly one of spec.kubeConfig.configMapRef or spec.kubeConfig.secretRef must be specified";
    assert!(refused.1.contains(one), "{refused:?}");
}

/// The service account or the ConfigMap is deleted together with the release, as when a tenant is
/// deleted.
#[test]
fn a_release_of_an_unreachable_cluster_is_deleted() {
    for gone in [format!("{MAPS}/remote"), format!("{ACCOUNTS}/deployer")] {
        let world = start(Settings::default());
        map(&world, &generic());
        world.release(spec());
        world.reconcile(MINUTE);
        assert!(installed(&world));
        world.hub().must("DELETE", &gone, JSON, None);
        let path = format!("{RELEASES}/web");
        world.hub().must("DELETE", &path, JSON, None);
        world.reconcile(MINUTE);
        assert!(
            world.hub().find(&path).is_none() && installed(&world),
            "{gone}"
        );
    }
}

/// A ConfigMap without serviceAccountName uses the operator's default, which must exist in the
/// tenant's namespace.
#[test]
fn the_default_account_of_a_lock_down() {
    let world = start(Settings {
        default_kubeconfig_service_account: Some("opener".to_owned()),
        ..Settings::default()
    });
    map(&world, &json!({"provider": "generic", "address": ADDRESS}));
    world.release(spec());
    world.reconcile(Duration::ZERO);
    let message = world.message("Ready");
    assert!(
        message.contains("'apps/opener': the specified default service account does not exist"),
        "{message}"
    );
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "opener"}});
    world.hub().must("POST", ACCOUNTS, JSON, Some(&account));
    world.reconcile(MINUTE);
    world.expect_ready("True InstallSucceeded");
    assert!(installed(&world));
}

/// A stub of every cloud with one cluster; records the calls.
#[derive(Default)]
struct OneCluster {
    calls: Mutex<Vec<String>>,
}

impl OneCluster {
    fn record(&self, call: &str, cluster: &EksCluster, identity: &AwsIdentity) {
        let who = match identity {
            AwsIdentity::Installation => "installation".to_owned(),
            AwsIdentity::Role { arn, session, .. } => format!("{arn} as {session}"),
            AwsIdentity::AccessKey { id, .. } => id.clone(),
        };
        let line = format!("{call} {}/{} {who}", cluster.region, cluster.name);
        self.calls.lock().expect("the log").push(line);
    }

    fn take(&self) -> Vec<String> {
        let mut all = std::mem::take(&mut *self.calls.lock().expect("the log"));
        all.dedup();
        all
    }
}

const AKS: &str = "/subscriptions/00000000-0000-0000-0000-000000000002/resourceGroups/apps/providers/Microsoft.ContainerService/managedClusters/tenant";
const GKE: &str = "projects/acme/locations/europe-west1/clusters/tenant";

fn place(address: &str) -> ClusterEndpoint {
    ClusterEndpoint {
        address: address.to_owned(),
        certificate_authority: b"pem".to_vec(),
    }
}

fn token(now: Duration) -> Token {
    Token {
        secret: Secret::new("of-a-cloud"),
        expires: now + MINUTE * 60,
    }
}

/// Azure with an AKS cluster that has two addresses.
#[async_trait]
impl Azure for OneCluster {
    async fn describe(
        &self,
        cluster: &AksCluster,
        identity: &EntraIdentity,
        _: Duration,
    ) -> Result<Vec<ClusterEndpoint>> {
        let line = format!(
            "describe {}/{} {} of {}",
            cluster.group, cluster.name, identity.client, identity.tenant
        );
        self.calls.lock().expect("the log").push(line);
        let addresses = ["https://public.example:443", "https://TENANT.internal:443"];
        Ok(addresses.map(place).into())
    }

    async fn token(&self, identity: &EntraIdentity, now: Duration) -> Result<Token> {
        let line = format!("token {} of {}", identity.client, identity.tenant);
        self.calls.lock().expect("the log").push(line);
        Ok(token(now))
    }

    async fn registry(
        &self,
        registry: &AcrRegistry,
        identity: &EntraIdentity,
        now: Duration,
    ) -> Result<RegistryLogin> {
        Azure::registry(&Offline, registry, identity, now).await
    }
}

#[async_trait]
impl Google for OneCluster {
    async fn describe(
        &self,
        cluster: &GkeCluster,
        identity: &GoogleIdentity,
        _: Duration,
    ) -> Result<ClusterEndpoint> {
        let line = format!("describe {} {}", cluster.name, identity.provider);
        self.calls.lock().expect("the log").push(line);
        Ok(place("tenant.internal"))
    }

    async fn token(&self, identity: &GoogleIdentity, now: Duration) -> Result<Token> {
        let line = format!("token {}", identity.provider);
        self.calls.lock().expect("the log").push(line);
        Ok(token(now))
    }
}

#[async_trait]
impl Aws for OneCluster {
    async fn describe(
        &self,
        cluster: &EksCluster,
        identity: &AwsIdentity,
        _: Duration,
    ) -> Result<ClusterEndpoint> {
        self.record("describe", cluster, identity);
        Ok(ClusterEndpoint {
            address: "https://TENANT.internal".to_owned(),
            certificate_authority: b"pem".to_vec(),
        })
    }

    async fn token(
        &self,
        cluster: &EksCluster,
        identity: &AwsIdentity,
        now: Duration,
    ) -> Result<Token> {
        self.record("token", cluster, identity);
        Ok(Token {
            secret: Secret::new("k8s-aws-v1.test"),
            expires: now + MINUTE * 15,
        })
    }

    async fn registry(
        &self,
        registry: &EcrRegistry,
        identity: &AwsIdentity,
        now: Duration,
    ) -> Result<RegistryLogin> {
        Aws::registry(&Offline, registry, identity, now).await
    }
}

fn with_clouds(settings: Settings) -> (World, Arc<OneCluster>) {
    let mut world = start(settings);
    let cloud = Arc::<OneCluster>::default();
    world.ports.clouds = Clouds {
        aws: cloud.clone(),
        azure: cloud.clone(),
        google: cloud.clone(),
        key_services: Arc::new(Offline),
    };
    (world, cloud)
}

#[test]
fn eks_by_the_role_of_a_service_account() {
    let (world, eks) = with_clouds(Settings::default());
    map(
        &world,
        &json!({"provider": "aws", "cluster": ARN, "serviceAccountName": "deployer"}),
    );
    world.release(spec());
    world.reconcile(Duration::ZERO);
    let message = world.message("Ready");
    assert!(
        message.contains("invalid eks.amazonaws.com/role-arn annotation"),
        "{message}"
    );
    assert!(eks.take().is_empty() && tokens(&world) == 0);
    let role = json!({"metadata": {"annotations": {"eks.amazonaws.com/role-arn": ROLE}}});
    world
        .hub()
        .must("PATCH", &format!("{ACCOUNTS}/deployer"), MERGE, Some(&role));
    world.reconcile(MINUTE);
    world.expect_ready("True InstallSucceeded");
    assert!(installed(&world));
    let who = format!("eu-west-1/tenant {ROLE} as deployer.apps.eu-west-1.fluxcd.io");
    assert_eq!(
        eks.take()[..2],
        [format!("describe {who}"), format!("token {who}")]
    );
    assert_eq!(tokens(&world), 1);
    // The cluster is not described if the ConfigMap has its address and authority.
    map(
        &world,
        &json!({"provider": "aws", "cluster": ARN, "serviceAccountName": "deployer", "address": ADDRESS, "ca.crt": "pem"}),
    );
    world.reconcile(Duration::ZERO);
    assert_eq!(eks.take(), [format!("token {who}")]);
    map(
        &world,
        &json!({"provider": "aws", "cluster": "tenant", "serviceAccountName": "deployer"}),
    );
    world.reconcile(Duration::ZERO);
    assert!(
        world
            .message("Ready")
            .contains("invalid EKS cluster ARN: 'tenant'")
    );
}

/// The installation's own role is used only for clusters that the operator allowed, and only at the
/// address that EKS reports.
#[test]
fn eks_by_the_installations_own_role() {
    let (world, eks) = with_clouds(Settings::default());
    map(&world, &json!({"provider": "aws", "cluster": ARN}));
    world.release(spec());
    world.reconcile(Duration::ZERO);
    let (reason, message) = (world.condition("Ready"), world.message("Ready"));
    assert_eq!(reason, "False AccessDenied");
    let flag = format!("--allow-role-cluster apps/{ARN}");
    assert!(message.contains(&flag), "{message}");
    assert_eq!(eks.take(), Vec::<String>::new());

    for other in [format!("other/{ARN}"), format!("apps/{ARN}-2")] {
        let (world, eks) = with_clouds(Settings {
            role_clusters: vec![other],
            ..Settings::default()
        });
        map(&world, &json!({"provider": "aws", "cluster": ARN}));
        world.release(spec());
        world.reconcile(Duration::ZERO);
        assert_eq!(world.condition("Ready"), "False AccessDenied");
        assert_eq!(eks.take(), Vec::<String>::new());
    }

    let allowed = Settings {
        role_clusters: vec![format!("apps/{ARN}")],
        ..Settings::default()
    };
    let (world, eks) = with_clouds(allowed);
    for elsewhere in [
        json!({"address": "https://evil.example"}),
        json!({"ca.crt": "other"}),
    ] {
        let mut data = json!({"provider": "aws", "cluster": ARN});
        data.as_object_mut()
            .expect("a map")
            .extend(elsewhere.as_object().expect("a map").clone());
        map(&world, &data);
        world.release(spec());
        world.reconcile(Duration::ZERO);
        assert!(
            world
                .message("Ready")
                .contains("address or ca.crt differ from those that EKS has")
        );
        assert_eq!(eks.take(), ["describe eu-west-1/tenant installation"]);
    }
    map(
        &world,
        &json!({"provider": "aws", "cluster": ARN, "address": ADDRESS, "ca.crt": "pem\n"}),
    );
    world.reconcile(MINUTE);
    world.expect_ready("True InstallSucceeded");
    assert!(installed(&world) && world.server(HUB).config("web-config").is_none());
}

fn annotate(world: &World, annotations: &Value) {
    let patch = json!({"metadata": {"annotations": annotations}});
    let path = format!("{ACCOUNTS}/deployer");
    world.hub().must("PATCH", &path, MERGE, Some(&patch));
}

#[test]
fn aks_by_the_application_of_a_service_account() {
    let (world, azure) = with_clouds(Settings::default());
    let data = |more: Value| {
        let mut data =
            json!({"provider": "azure", "cluster": AKS, "serviceAccountName": "deployer"});
        data.as_object_mut()
            .expect("a map")
            .extend(more.as_object().expect("a map").clone());
        data
    };
    annotate(
        &world,
        &json!({"azure.workload.identity/tenant-id": "t", "azure.workload.identity/client-id": "c"}),
    );
    let fails = |data: Value, reason: &str, message: &str| {
        map(&world, &data);
        world.release(spec());
        world.reconcile(Duration::ZERO);
        assert_eq!(
            world.condition("Ready"),
            format!("False {reason}"),
            "{}",
            world.message("Ready")
        );
        assert!(
            world.message("Ready").contains(message),
            "{}",
            world.message("Ready")
        );
    };
    let no_account = "ConfigMap/apps/remote: serviceAccountName is required: driftless has no controller account to fall back to. \
                  Name the service account with the annotation azure.workload.identity/client-id";
    fails(
        data(json!({"serviceAccountName": ""})),
        "NotSupported",
        no_account,
    );
    assert_eq!(azure.take(), Vec::<String>::new());
    fails(
        data(json!({"cluster": "tenant"})),
        "RESTClientError",
        "invalid AKS cluster ID: 'tenant'. must match",
    );
    let other = "no kubeconfig found for AKS cluster /subscriptions/";
    fails(
        data(json!({"address": "https://other.example"})),
        "RESTClientError",
        other,
    );
    let message = world.message("Ready");
    let all = "matching the specified address 'https://other.example'. cluster addresses: ['https://public.example:443', 'https://TENANT.internal:443']";
    assert!(message.contains(all), "{message}");
    azure.take();
    // The address selects one of the endpoints. Nothing is requested that the ConfigMap already
    // has.
    map(&world, &data(json!({"address": ADDRESS})));
    world.reconcile(MINUTE);
    world.expect_ready("True InstallSucceeded");
    assert!(installed(&world));
    assert_eq!(
        azure.take()[..2],
        ["token c of t", "describe apps/tenant c of t"]
    );
    map(
        &world,
        &data(json!({"address": ADDRESS, "ca.crt": "pem", "cluster": ""})),
    );
    world.reconcile(Duration::ZERO);
    assert_eq!(azure.take(), ["token c of t"]);
    world.expect_ready("True InstallSucceeded");
}

#[test]
fn gke_by_the_principal_of_a_service_account() {
    let (world, google) = with_clouds(Settings::default());
    let data = json!({"provider": "gcp", "cluster": GKE, "serviceAccountName": "deployer"});
    let provider = "projects/1/locations/global/workloadIdentityPools/a/providers/b";
    annotate(
        &world,
        &json!({"gcp.auth.fluxcd.io/workload-identity-provider": provider}),
    );
    let mut wrong = data.clone();
    wrong["cluster"] = json!("projects/../x");
    map(&world, &wrong);
    world.release(spec());
    world.reconcile(Duration::ZERO);
    let message = world.message("Ready");
    assert!(
        message.contains("invalid GKE cluster ID: 'projects/../x'. must match"),
        "{message}"
    );
    google.take();
    map(&world, &data);
    world.reconcile(MINUTE);
    world.expect_ready("True InstallSucceeded");
    assert!(installed(&world));
    let who = format!("//iam.googleapis.com/{provider}");
    assert_eq!(
        google.take()[..2],
        [format!("token {who}"), format!("describe {GKE} {who}")]
    );
}
