//! Registries of clouds: which login a source uses (`spec.provider`, `spec.serviceAccountName`),
//! and what is refused.

use async_trait::async_trait;
use bytes::Bytes;
use driftless_adapters::offline::Offline;
use driftless_flux::FluxKind;
use driftless_kernel::hub::Settings;
use driftless_kernel::ports::{
    AcrRegistry, AksCluster, Aws, AwsIdentity, Azure, Cause, Charts, Clouds, ClusterEndpoint,
    Connection, DownloadOutcome, EcrRegistry, EksCluster, EntraIdentity, EntraProof, ErrorKind,
    GkeCluster, Google, GoogleIdentity, Layer, Manifest, PortError, Referrer, RegistryLogin,
    Result, Secret, Token, Validator,
};
use driftless_tests::releases::{JSON, MERGE, World};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SOURCES: &str = "/apis/source.toolkit.fluxcd.io/v1/namespaces/apps";
const ACCOUNTS: &str = "/api/v1/namespaces/apps/serviceaccounts";
const SECRETS: &str = "/api/v1/namespaces/apps/secrets";
const ECR: &str = "012345678901.dkr.ecr.eu-west-1.amazonaws.com";
const ROLE: &str = "arn:aws:iam::012345678901:role/reader";

/// A stub of every cloud: returns a login for any identity, and records which identity requested
/// it.
#[derive(Default)]
struct Logins {
    requests: Mutex<Vec<String>>,
    /// The last token of a service account that was presented.
    token: Mutex<Option<Token>>,
}

impl Logins {
    fn login(&self, user: &str, place: &str, who: &str) -> RegistryLogin {
        let mut requests = self.requests.lock().expect("the log");
        requests.push(format!("{place} for {who}"));
        RegistryLogin {
            user: user.to_owned(),
            password: Secret::new("pw"),
        }
    }

    fn present(&self, token: &Token) {
        *self.token.lock().expect("the token") = Some(token.clone());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().expect("the log"))
    }
}

#[async_trait]
impl Aws for Logins {
    async fn describe(
        &self,
        cluster: &EksCluster,
        identity: &AwsIdentity,
        now: Duration,
    ) -> Result<ClusterEndpoint> {
        Aws::describe(&Offline, cluster, identity, now).await
    }

    async fn token(
        &self,
        cluster: &EksCluster,
        identity: &AwsIdentity,
        now: Duration,
    ) -> Result<Token> {
        Aws::token(&Offline, cluster, identity, now).await
    }

    async fn registry(
        &self,
        registry: &EcrRegistry,
        identity: &AwsIdentity,
        _: Duration,
    ) -> Result<RegistryLogin> {
        let who = match identity {
            AwsIdentity::Installation => "the installation".to_owned(),
            AwsIdentity::Role {
                arn,
                session,
                token,
            } => {
                self.present(token);
                format!("{arn} as {session}")
            }
            AwsIdentity::AccessKey { id, .. } => id.clone(),
        };
        Ok(self.login("AWS", registry.region(), &who))
    }
}

#[async_trait]
impl Azure for Logins {
    async fn describe(
        &self,
        cluster: &AksCluster,
        identity: &EntraIdentity,
        now: Duration,
    ) -> Result<Vec<ClusterEndpoint>> {
        Azure::describe(&Offline, cluster, identity, now).await
    }

    async fn token(&self, identity: &EntraIdentity, now: Duration) -> Result<Token> {
        Azure::token(&Offline, identity, now).await
    }

    async fn registry(
        &self,
        registry: &AcrRegistry,
        identity: &EntraIdentity,
        _: Duration,
    ) -> Result<RegistryLogin> {
        if let EntraProof::Token(token) = &identity.proof {
            self.present(token);
        }
        let name = format!("{} of {}", identity.client, identity.tenant);
        Ok(self.login("0", &registry.host, &name))
    }
}

#[async_trait]
impl Google for Logins {
    async fn describe(
        &self,
        cluster: &GkeCluster,
        identity: &GoogleIdentity,
        now: Duration,
    ) -> Result<ClusterEndpoint> {
        Google::describe(&Offline, cluster, identity, now).await
    }

    async fn token(&self, identity: &GoogleIdentity, now: Duration) -> Result<Token> {
        let account = identity.account.as_deref().unwrap_or("no account");
        self.present(&identity.token);
        let name = format!("{} as {account}", identity.provider);
        Ok(Token {
            secret: self.login("", "google", &name).password,
            expires: now + Duration::from_secs(3600),
        })
    }
}

/// Registries that require a login and have the same artifact at every address.
#[derive(Default)]
struct Registries {
    /// The required user and password for each repository.
    logins: BTreeMap<String, (&'static str, &'static str)>,
}

impl Registries {
    fn check(&self, repository: &str, connection: &Connection) -> Result<()> {
        let (user, password) = self.logins.get(repository).copied().unwrap_or_default();
        let given = connection.login.as_ref();
        let given = given
            .map(|(user, password)| (user.as_str(), password.expose_str().unwrap_or_default()));
        match given.unwrap_or_default() == (user, password) {
            true => Ok(()),
            false => Err(PortError::new(
                ErrorKind::Denied,
                format!("'{repository}' answered 401"),
            )),
        }
    }
}

#[async_trait]
impl Charts for Registries {
    async fn get(
        &self,
        url: &str,
        connection: &Connection,
        known: &Validator,
        limit: u64,
    ) -> Result<DownloadOutcome> {
        Offline.get(url, connection, known, limit).await
    }

    async fn tags(&self, repository: &str, connection: &Connection) -> Result<Vec<String>> {
        self.check(repository, connection)?;
        Ok(vec!["1.0.0".to_owned()])
    }

    async fn manifest(
        &self,
        repository: &str,
        _: &str,
        connection: &Connection,
    ) -> Result<Manifest> {
        self.check(repository, connection)?;
        let chart = Layer {
            media_type: "application/vnd.cncf.helm.chart.content.v1.tar+gzip".to_owned(),
            ..Layer::default()
        };
        Ok(Manifest {
            digest: format!("sha256:{}", "0".repeat(64)),
            layers: vec![chart],
            ..Manifest::default()
        })
    }

    async fn referrers(
        &self,
        repository: &str,
        digest: &str,
        connection: &Connection,
    ) -> Result<Vec<Referrer>> {
        Offline.referrers(repository, digest, connection).await
    }

    async fn layer(
        &self,
        repository: &str,
        _: &Layer,
        connection: &Connection,
        _: u64,
    ) -> Result<Bytes> {
        self.check(repository, connection)?;
        Ok(Bytes::from_static(b"a layer"))
    }
}

struct Site {
    world: World,
    logins: Arc<Logins>,
}

impl Site {
    /// Starts a hub with the service account `reader`, and registries with these logins.
    fn start(settings: Settings, logins: &[(&str, &'static str, &'static str)]) -> Self {
        let mut world = World::with(&[], settings);
        let clouds = Arc::<Logins>::default();
        world.ports.clouds = Clouds {
            aws: clouds.clone(),
            azure: clouds.clone(),
            google: clouds.clone(),
            key_services: Arc::new(Offline),
        };
        let login = |(repository, user, password): &(&str, &'static str, &'static str)| {
            ((*repository).to_owned(), (*user, *password))
        };
        world.ports.charts = Arc::new(Registries {
            logins: logins.iter().map(login).collect(),
        });
        let site = Self {
            world,
            logins: clouds,
        };
        site.account("reader", json!({}));
        site
    }

    fn account(&self, name: &str, more: Value) {
        let mut account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
        account
            .as_object_mut()
            .expect("a map")
            .extend(more.as_object().expect("a map").clone());
        self.world
            .hub()
            .must("POST", ACCOUNTS, JSON, Some(&account));
    }

    fn annotate(&self, annotations: &Value) {
        let patch = json!({"metadata": {"annotations": annotations}});
        let path = format!("{ACCOUNTS}/reader");
        self.world.hub().must("PATCH", &path, MERGE, Some(&patch));
    }

    /// Creates or replaces an object and reconciles it. Returns `STATUS REASON` and the message of
    /// its Ready condition.
    fn reconcile(&self, kind: FluxKind, plural: &str, spec: &Value) -> (String, String) {
        let (list, path) = (
            format!("{SOURCES}/{plural}"),
            format!("{SOURCES}/{plural}/web"),
        );
        let mut spec = spec.clone();
        spec["interval"] = json!("10m");
        let mut object = json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": kind.to_string(),
            "metadata": {"name": "web"}, "spec": spec});
        match self.world.hub().find(&path) {
            None => self.world.hub().must("POST", &list, JSON, Some(&object)),
            Some(live) => {
                object["metadata"] = live["metadata"].clone();
                self.world.hub().must("PUT", &path, JSON, Some(&object))
            }
        };
        self.world.request(kind, "web", Cause::Changed);
        self.world.work(Duration::ZERO);
        let status = self.world.hub().get(&path)["status"].clone();
        let all = status["conditions"].as_array().cloned().unwrap_or_default();
        let ready = all
            .iter()
            .find(|one| one["type"] == "Ready")
            .cloned()
            .unwrap_or_default();
        let text = |field: &str| ready[field].as_str().unwrap_or_default().to_owned();
        (
            format!("{} {}", text("status"), text("reason")),
            text("message"),
        )
    }

    /// Reconciles an OCIRepository with this address and these fields in its spec.
    fn reconcile_artifact(&self, url: &str, more: &Value) -> (String, String) {
        let mut spec =
            json!({"url": format!("oci://{url}"), "layerSelector": {"operation": "copy"}});
        spec.as_object_mut()
            .expect("a map")
            .extend(more.as_object().expect("a map").clone());
        self.reconcile(FluxKind::OCIRepository, "ocirepositories", &spec)
    }

    /// Returns the audiences of the token that was presented to the cloud.
    fn presented_audiences(&self) -> Value {
        let token = self.logins.token.lock().expect("the token").clone();
        let token = token.expect("a token").secret;
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "spec": {"token": token.expose_str().expect("text")}});
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        let review = self.world.hub().must("POST", path, JSON, Some(&review));
        review["status"]["audiences"].clone()
    }

    #[track_caller]
    fn expect_refused(&self, url: &str, more: &Value, reason: &str, message: &str) {
        let (ready, found) = self.reconcile_artifact(url, more);
        assert_eq!(ready, format!("False {reason}"), "{found}");
        assert!(found.contains(message), "{found}");
        assert_eq!(self.logins.take(), Vec::<String>::new(), "{found}");
    }

    #[track_caller]
    fn expect_stored(&self, url: &str, more: &Value, logins: &[&str]) {
        let (ready, message) = self.reconcile_artifact(url, more);
        assert_eq!(ready, "True Succeeded", "{message}");
        assert_eq!(self.logins.take(), logins);
    }
}

#[test]
fn ecr_by_the_role_of_a_service_account() {
    let url = format!("{ECR}/charts/web");
    let site = Site::start(Settings::default(), &[(&url, "AWS", "pw")]);
    let by = |account: &str| json!({"provider": "aws", "serviceAccountName": account});
    site.expect_refused(
        &url,
        &by("absent"),
        "AuthenticationFailed",
        "failed to get credential: serviceaccount 'apps/absent' not found",
    );
    site.expect_refused(&url, &by("reader"), "OCIArtifactPullFailed",
        "failed to determine artifact digest: failed to get access token for artifact registry: failed to get provider identity from \
         service account 'apps/reader' annotations: invalid eks.amazonaws.com/role-arn annotation: ''. must match");
    site.annotate(&json!({"eks.amazonaws.com/role-arn": ROLE}));
    let who = format!("eu-west-1 for {ROLE} as reader.apps.eu-west-1.fluxcd.io");
    site.expect_stored(&url, &by("reader"), &[&who]);
    assert_eq!(site.presented_audiences(), json!(["sts.amazonaws.com"]));
    let mut range = by("reader");
    range["ref"] = json!({"semver": "1.x"});
    site.expect_stored(&url, &range, &[&who]);
    // For another host, no login is requested.
    for other in [
        "ghcr.io/charts/web",
        "012345678901.dkr.ecr.eu-west-1.amazonaws.com.evil.example/charts/web",
    ] {
        let host = other.split('/').next().expect("a host");
        let message = format!("invalid AWS registry: '{host}'. must match ([0-9+]*).dkr");
        site.expect_refused(other, &by("reader"), "OCIArtifactPullFailed", &message);
        site.expect_refused(other, &range, "ReadOperationFailed", &message);
    }
    let mut plain = by("reader");
    plain["insecure"] = json!(true);
    site.expect_refused(
        &url,
        &plain,
        "NotSupported",
        "spec.insecure with a cloud's login",
    );
    // A Secret has precedence over the provider.
    let login = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"},
        "stringData": {"username": "AWS", "password": "pw"}});
    site.world.hub().must("POST", SECRETS, JSON, Some(&login));
    let mut secret = by("reader");
    secret["secretRef"] = json!({"name": "login"});
    site.expect_stored(&url, &secret, &[]);
}

#[test]
fn the_default_account_of_sources() {
    let url = format!("{ECR}/charts/web");
    let settings = Settings {
        default_source_service_account: Some("sources".to_owned()),
        role_registries: vec![format!("apps/{ECR}")],
        ..Settings::default()
    };
    let site = Site::start(settings, &[(&url, "AWS", "pw")]);
    let aws = json!({"provider": "aws"});
    site.expect_refused(&url, &aws, "OCIArtifactPullFailed",
        "failed to get service account 'apps/sources': the specified default service account does not exist");
    site.account("sources", json!({"metadata": {"name": "sources", "annotations": {"eks.amazonaws.com/role-arn": ROLE}}}));
    let who = format!("eu-west-1 for {ROLE} as sources.apps.eu-west-1.fluxcd.io");
    site.expect_stored(&url, &aws, &[&who]);
}

#[test]
fn ecr_by_the_installations_own_role() {
    let url = format!("{ECR}/charts/web");
    let settings = Settings {
        role_registries: vec![format!("apps/{ECR}/charts"), format!("other/{ECR}")],
        ..Settings::default()
    };
    let all = [
        (url.as_str(), "AWS", "pw"),
        ("public.ecr.aws/acme/web", "AWS", "pw"),
    ];
    let site = Site::start(settings, &all);
    let aws = json!({"provider": "aws"});
    site.expect_stored(&url, &aws, &["eu-west-1 for the installation"]);
    for other in [
        format!("{ECR}/charts-of-others/web"),
        "public.ecr.aws/acme/web".to_owned(),
    ] {
        let flag = format!(
            "register the hub with --allow-role-registry apps/{other}, or name a service account"
        );
        site.expect_refused(&other, &aws, "NotSupported", &flag);
    }
    let authority = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "authority"}, "stringData": {"ca.crt": "-----BEGIN CERTIFICATE-----"}});
    site.world
        .hub()
        .must("POST", SECRETS, JSON, Some(&authority));
    let own = json!({"provider": "aws", "certSecretRef": {"name": "authority"}});
    site.expect_refused(&url, &own, "NotSupported", "remove spec.certSecretRef");
}

/// A HelmRepository has no service account: Flux logs in as its controller, driftless as the
/// installation.
#[test]
fn charts_of_ecr() {
    let url = format!("{ECR}/charts/web");
    let settings = Settings {
        role_registries: vec![format!("apps/{ECR}/charts")],
        default_source_service_account: Some("absent".to_owned()),
        ..Settings::default()
    };
    let site = Site::start(settings, &[(&url, "AWS", "pw")]);
    let chart = json!({"chart": "web", "version": "1.0.0", "sourceRef": {"kind": "HelmRepository", "name": "web"}});
    let pull = |path: &str, provider: &str| {
        let repository =
            json!({"type": "oci", "url": format!("oci://{path}"), "provider": provider});
        site.reconcile(FluxKind::HelmRepository, "helmrepositories", &repository);
        site.reconcile(FluxKind::HelmChart, "helmcharts", &chart)
    };
    // The artifact was downloaded, but is not a chart.
    let (ready, message) = pull(&format!("{ECR}/charts"), "aws");
    assert_eq!(ready, "False ChartPullError", "{message}");
    assert!(message.contains("the archive is damaged"), "{message}");
    let logins = site.logins.take();
    assert!(
        !logins.is_empty()
            && logins
                .iter()
                .all(|one| one == "eu-west-1 for the installation"),
        "{logins:?}"
    );
    let (ready, message) = pull(&format!("{ECR}/other"), "aws");
    assert_eq!(ready, "False NotSupported", "{message}");
    assert!(
        message.contains(&format!(
            "--allow-role-registry apps/{ECR}/other, or use an OCIRepository"
        )),
        "{message}"
    );
    let (ready, message) = pull("ghcr.io/charts", "aws");
    assert_eq!(ready, "False AuthenticationFailed", "{message}");
    let prefix =
        "unable to get authentication data from OIDC: invalid AWS registry: 'ghcr.io'. must match";
    assert!(message.starts_with(prefix), "{message}");
    assert_eq!(site.logins.take(), Vec::<String>::new());
}

#[test]
fn secrets_of_a_service_account() {
    let all = [
        ("ghcr.io/acme/web", "ann", "a"),
        ("ghcr.io/acme/deep/web", "bob", "b"),
        ("quay.io/acme/web", "", ""),
    ];
    let site = Site::start(Settings::default(), &all);
    let config = json!({"auths": {
        "ghcr.io": {"username": "ann", "password": "a"},
        "https://ghcr.io/acme/deep": {"username": "bob", "password": "b"},
        "ghcr.io/acme/other": {"username": "eve", "password": "e"},
    }});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull"},
        "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": config.to_string()}});
    site.account("puller", json!({"imagePullSecrets": [{"name": "pull"}]}));
    let by = json!({"serviceAccountName": "puller"});
    site.expect_refused("ghcr.io/acme/web", &by, "AuthenticationFailed",
        "failed to get credential: failed to get image pull secret for serviceaccount 'apps/puller': secret 'apps/pull' not found");
    site.world.hub().must("POST", SECRETS, JSON, Some(&secret));
    // As in Flux, image pull secrets have precedence over the provider.
    for by in [
        by,
        json!({"serviceAccountName": "puller", "provider": "aws"}),
    ] {
        for url in [
            "ghcr.io/acme/web",
            "ghcr.io/acme/deep/web",
            "quay.io/acme/web",
        ] {
            site.expect_stored(url, &by, &[]);
        }
    }
    site.expect_stored(
        "quay.io/acme/web",
        &json!({"serviceAccountName": "reader"}),
        &[],
    );
}

#[test]
fn acr_by_the_application_of_a_service_account() {
    let url = "acme.azurecr.io/charts/web";
    let site = Site::start(Settings::default(), &[(url, "0", "pw")]);
    let by = json!({"provider": "azure", "serviceAccountName": "reader"});
    let prefix = "failed to determine artifact digest: failed to get access token for artifact registry: failed to get provider identity \
                from service account 'apps/reader' annotations: ";
    let expect_failure = |message: &str| {
        let message = format!("{prefix}{message}");
        site.expect_refused(url, &by, "OCIArtifactPullFailed", &message);
    };
    expect_failure(
        "azure tenant ID is not set in the service account annotation azure.workload.identity/tenant-id",
    );
    site.annotate(&json!({"azure.workload.identity/tenant-id": "../common"}));
    expect_failure(
        "azure client ID is not set in the service account annotation azure.workload.identity/client-id",
    );
    site.annotate(&json!({"azure.workload.identity/client-id": "c"}));
    expect_failure("invalid azure.workload.identity/tenant-id annotation: '../common'");
    site.annotate(&json!({"azure.workload.identity/tenant-id": "t"}));
    site.expect_stored(url, &by, &[r#"acme.azurecr.io for c of t"#]);
    assert_eq!(
        site.presented_audiences(),
        json!(["api://AzureADTokenExchange"])
    );
    site.expect_refused(
        "acme.azurecr.io.evil.example/web",
        &by,
        "OCIArtifactPullFailed",
        r"invalid Azure registry: 'acme.azurecr.io.evil.example'. must match ^.+\.(azurecr\.io|",
    );
    site.expect_refused(
        url,
        &json!({"provider": "azure"}),
        "NotSupported",
        "name a service account with the annotation azure.workload.identity/client-id",
    );
    let mut plain = by.clone();
    plain["insecure"] = json!(true);
    site.expect_refused(
        url,
        &plain,
        "NotSupported",
        "spec.insecure with a cloud's login",
    );
}

#[test]
fn google_by_the_principal_of_a_service_account() {
    let url = "europe-docker.pkg.dev/acme/charts/web";
    let site = Site::start(Settings::default(), &[(url, "oauth2accesstoken", "pw")]);
    let by = json!({"provider": "gcp", "serviceAccountName": "reader"});
    let prefix =
        "failed to determine artifact digest: failed to get access token for artifact registry: ";
    site.expect_refused(url, &by, "NotSupported",
        "failed to get access token for artifact registry: service account 'apps/reader' has no annotation gcp.auth.");
    site.annotate(&json!({"gcp.auth.fluxcd.io/workload-identity-provider": "b"}));
    site.expect_refused(url, &by, "OCIArtifactPullFailed",
        &format!("{prefix}failed to get provider audience: invalid gcp.auth.fluxcd.io/workload-identity-provider annotation: 'b'. must match"));
    let provider = "projects/1/locations/global/workloadIdentityPools/a/providers/b";
    let audience = format!("//iam.googleapis.com/{provider}");
    site.annotate(&json!({"gcp.auth.fluxcd.io/workload-identity-provider": provider}));
    let login = format!(r#"google for {audience} as no account"#);
    site.expect_stored(url, &by, &[&login]);
    assert_eq!(site.presented_audiences(), json!([audience]));
    site.annotate(&json!({"iam.gke.io/gcp-service-account": "reader"}));
    site.expect_refused(
        url,
        &by,
        "OCIArtifactPullFailed",
        "invalid iam.gke.io/gcp-service-account annotation: 'reader'. must match",
    );
    let account = "reader@acme.iam.gserviceaccount.com";
    site.annotate(&json!({"iam.gke.io/gcp-service-account": account}));
    let login = format!(r#"google for {audience} as {account}"#);
    site.expect_stored(url, &by, &[&login]);
    site.expect_refused(
        "ghcr.io/acme/web",
        &by,
        "OCIArtifactPullFailed",
        "invalid GCP registry: 'ghcr.io'. must match",
    );
    let repository =
        json!({"type": "oci", "url": "oci://europe-docker.pkg.dev/acme/charts", "provider": "gcp"});
    site.reconcile(FluxKind::HelmRepository, "helmrepositories", &repository);
    let chart = json!({"chart": "web", "sourceRef": {"kind": "HelmRepository", "name": "web"}});
    let (ready, message) = site.reconcile(FluxKind::HelmChart, "helmcharts", &chart);
    assert_eq!(ready, "False NotSupported", "{message}");
    assert!(
        message.contains("use an OCIRepository with spec.serviceAccountName"),
        "{message}"
    );
}
