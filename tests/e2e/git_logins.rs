//! GitRepositories of clouds (`spec.provider`): which identity a login is for, and what is refused.

use async_trait::async_trait;
use driftless_adapters::offline::Offline;
use driftless_harness::github::Change;
use driftless_kernel::ports::{
    AcrRegistry, AksCluster, Aws, AwsIdentity, Azure, ClusterEndpoint, CodeCommit, EcrRegistry,
    EksCluster, EntraIdentity, RegistryLogin, Result, Secret, Token,
};
use driftless_tests::embedded::Embedded;
use driftless_tests::site::*;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const FLEET: &str = "acme/fleet";
const HUB: [HubSpec<'static>; 1] = one_hub(FLEET);
const DEVOPS: &str = "https://dev.azure.com/acme/project/_git/fleet";
const CODE_COMMIT: &str = "https://git-codecommit.eu-west-1.amazonaws.com/v1/repos/fleet";

/// Clouds whose logins are named after the identity that they are for.
struct Logins;

#[async_trait]
impl Aws for Logins {
    async fn describe(
        &self,
        c: &EksCluster,
        i: &AwsIdentity,
        n: Duration,
    ) -> Result<ClusterEndpoint> {
        Aws::describe(&Offline, c, i, n).await
    }
    async fn token(&self, c: &EksCluster, i: &AwsIdentity, n: Duration) -> Result<Token> {
        Aws::token(&Offline, c, i, n).await
    }
    async fn registry(
        &self,
        r: &EcrRegistry,
        i: &AwsIdentity,
        n: Duration,
    ) -> Result<RegistryLogin> {
        Aws::registry(&Offline, r, i, n).await
    }
    async fn git(
        &self,
        repository: &CodeCommit,
        identity: &AwsIdentity,
        _: Duration,
    ) -> Result<RegistryLogin> {
        let AwsIdentity::Role { arn, .. } = identity else {
            panic!("{identity:?}");
        };
        let password = format!("{} {} {arn}", repository.region, repository.path);
        Ok(RegistryLogin {
            user: "a user".to_owned(),
            password: Secret::new(password),
        })
    }
}

#[async_trait]
impl Azure for Logins {
    async fn describe(
        &self,
        c: &AksCluster,
        i: &EntraIdentity,
        n: Duration,
    ) -> Result<Vec<ClusterEndpoint>> {
        Azure::describe(&Offline, c, i, n).await
    }
    async fn token(&self, i: &EntraIdentity, n: Duration) -> Result<Token> {
        Azure::token(&Offline, i, n).await
    }
    async fn registry(
        &self,
        r: &AcrRegistry,
        i: &EntraIdentity,
        n: Duration,
    ) -> Result<RegistryLogin> {
        Azure::registry(&Offline, r, i, n).await
    }
    async fn git(&self, identity: &EntraIdentity, now: Duration) -> Result<Token> {
        Ok(Token {
            secret: Secret::new(format!("{} of {}", identity.client, identity.tenant)),
            expires: now + Duration::from_secs(3600),
        })
    }
}

fn account(world: &Embedded, name: &str, annotations: Value) {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": name, "annotations": annotations}});
    let path = "/api/v1/namespaces/flux-system/serviceaccounts";
    world.cluster("hub").create(path, &account);
}

/// Returns the status, reason and message of a source with this URL and provider.
fn read(world: &Embedded, name: &str, url: &str, more: Value) -> (String, String, String) {
    let mut spec = json!({"interval": "1m", "url": url, "ref": {"branch": "main"}});
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    let source = json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
        "metadata": {"name": name, "namespace": "flux-system"}, "spec": spec});
    let sources = path("GitRepository", "flux-system", "");
    let hub = world.cluster("hub");
    hub.create(sources.trim_end_matches('/'), &source);
    world.request("hub", "GitRepository", "flux-system", name);
    world.settle();
    ready(hub, "GitRepository", "flux-system", name)
}

fn world() -> Embedded {
    let logins = Arc::new(Logins);
    let world = Embedded::start(&HUB, &[]).with_clouds(logins.clone(), logins);
    let file = [Change::write("clusters/hub/none.txt", "none\n")];
    world.commit(FLEET, &file);
    world.publish(DEVOPS, "a client of acme.example", &file);
    let role = "arn:aws:iam::012345678901:role/reader";
    world.publish(
        CODE_COMMIT,
        &format!("eu-west-1 /v1/repos/fleet {role}"),
        &file,
    );
    world.sweep();
    world.settle();
    let azure = json!({"azure.workload.identity/client-id": "a client",
        "azure.workload.identity/tenant-id": "acme.example"});
    account(&world, "azure", azure);
    account(&world, "aws", json!({"eks.amazonaws.com/role-arn": role}));
    account(&world, "plain-account", json!({}));
    world
}

#[test]
fn repositories_of_clouds_are_read_as_a_service_account() {
    let world = world();
    for (name, url) in [("azure", DEVOPS), ("aws", CODE_COMMIT)] {
        let more = json!({"provider": name, "serviceAccountName": name});
        let (status, _, message) = read(&world, name, url, more);
        assert_eq!(status, "True", "{name}: {message}");
    }
}

#[test]
fn logins_that_cannot_work_are_refused_with_a_reason() {
    let world = world();
    for (name, url, more, reason, expected) in [
        (
            "alone",
            DEVOPS,
            json!({"provider": "azure"}),
            "NotSupported",
            "spec.provider 'azure' without a service account is not supported",
        ),
        (
            "absent",
            CODE_COMMIT,
            json!({"provider": "aws", "serviceAccountName": "absent"}),
            "AuthenticationFailed",
            "failed to configure authentication options: failed to get service account 'flux-system/absent'",
        ),
        (
            "plain-account",
            DEVOPS,
            json!({"provider": "azure", "serviceAccountName": "plain-account"}),
            "AuthenticationFailed",
            "azure tenant ID is not set in the service account annotation",
        ),
        (
            "elsewhere",
            "https://git.example/acme/fleet",
            json!({"provider": "azure", "serviceAccountName": "azure"}),
            "AuthenticationFailed",
            "invalid Azure DevOps URL",
        ),
        (
            "github",
            "https://github.com/acme/fleet",
            json!({"provider": "aws", "serviceAccountName": "aws"}),
            "AuthenticationFailed",
            "invalid AWS CodeCommit Git URL",
        ),
        (
            "plain",
            "http://git.example/acme/fleet",
            json!({}),
            "NotSupported",
            "http:// is allowed only where the hub is registered with --allow-local-clusters",
        ),
    ] {
        let (status, found, message) = read(&world, name, url, more);
        assert_eq!((&*status, &*found), ("False", reason), "{name}: {message}");
        assert!(message.contains(expected), "{name}: {message}");
    }
}
