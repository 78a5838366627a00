//! The ports to clouds: short-lived credentials for clusters and registries, and the identities
//! that they are issued for.

use super::{ErrorKind, KeyServices, PortError, Result, Secret, Token};
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;

/// The ports to all clouds. An answer is cached and reused while it is valid at `now` (since 1970)
/// and has a fifth of its lifetime left, and only for the same identity.
#[derive(Clone)]
pub struct Clouds {
    /// The port to Amazon Web Services.
    pub aws: Arc<dyn Aws>,
    /// The port to Microsoft Azure.
    pub azure: Arc<dyn Azure>,
    /// The port to Google Cloud.
    pub google: Arc<dyn Google>,
    /// The port to key services.
    pub key_services: Arc<dyn KeyServices>,
}

/// The endpoint of a cluster's API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterEndpoint {
    /// The URL of the API server.
    pub address: String,
    /// The certificate authority as PEM.
    pub certificate_authority: Vec<u8>,
}

/// The user name and password of a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryLogin {
    /// The user name.
    pub user: String,
    /// The password of that user.
    pub password: Secret,
}

/// A cluster of Amazon EKS, from its ARN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EksCluster {
    /// The AWS partition: `aws`, `aws-cn`, `aws-us-gov` …
    pub partition: String,
    /// The AWS region, such as `eu-west-1`: only letters, digits and `-`.
    pub region: String,
    /// The cluster's name: only letters, digits, `-` and `_`.
    pub name: String,
}

impl EksCluster {
    /// Parses an ARN, whose parts become parts of hosts and paths; returns `None` for any other
    /// string.
    pub fn parse(arn: &str) -> Option<Self> {
        let parts: Vec<&str> = arn.split(':').collect();
        let ["arn", partition, "eks", region, account, resource] = parts[..] else {
            return None;
        };
        let name = resource.strip_prefix("cluster/")?;
        let is_account = is_plain(account, b"", 30) && is_number(account);
        let is_arn = partition.starts_with("aws") && is_plain(partition, b"-", 30) && is_account;
        (is_arn && is_plain(region, b"-", 63) && is_plain(name, b"-_", 100)).then(|| Self {
            partition: partition.to_owned(),
            region: region.to_owned(),
            name: name.to_owned(),
        })
    }
}

/// The identity that requests to Amazon are made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AwsIdentity {
    /// The installation's own AWS role.
    Installation,
    /// A role that trusts the issuer of a service account's token.
    Role {
        /// The role's ARN.
        arn: String,
        /// The name of the session in AWS's logs.
        session: String,
        /// The service account's token. What is cached for this token is not used for another one.
        token: Token,
    },
    /// The access key of an IAM user, or temporary credentials.
    AccessKey {
        /// The id of the access key.
        id: String,
        /// The secret access key.
        secret: Secret,
        /// The session token of temporary credentials.
        session: Option<Secret>,
    },
}

/// A registry of Amazon ECR, from its host's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EcrRegistry {
    /// The public registry, `public.ecr.aws`.
    Public,
    /// A private registry of an account.
    Private {
        /// The AWS region, such as `eu-west-1`: only letters, digits and `-`.
        region: String,
        /// The domain of the services of the registry's partition: `amazonaws.com`,
        /// `amazonaws.com.cn` …
        domain: &'static str,
    },
}

/// The suffixes of the host names of private registries, each with the domain of its services.
const ECR_DOMAINS: [(&str, &str); 8] = [
    ("amazonaws.com", "amazonaws.com"),
    ("on.aws", "amazonaws.com"),
    ("amazonaws.com.cn", "amazonaws.com.cn"),
    ("amazonaws.eu", "amazonaws.eu"),
    ("c2s.ic.gov", "c2s.ic.gov"),
    ("sc2s.sgov.gov", "sc2s.sgov.gov"),
    ("cloud.adc-e.uk", "cloud.adc-e.uk"),
    ("csp.hci.ic.gov", "csp.hci.ic.gov"),
];

impl EcrRegistry {
    /// Parses a host such as `012345678901.dkr.ecr.eu-west-1.amazonaws.com`; returns `None` for any
    /// other name.
    pub fn parse(host: &str) -> Option<Self> {
        if host == "public.ecr.aws" {
            return Some(Self::Public);
        }
        let (account, rest) = host.split_once('.')?;
        let services = ["dkr.ecr.", "dkr.ecr-fips.", "dkr-ecr.", "dkr-ecr-fips."];
        let rest = services.iter().find_map(|name| rest.strip_prefix(name))?;
        let (region, suffix) = rest.split_once('.')?;
        let (_, domain) = ECR_DOMAINS.iter().find(|(known, _)| *known == suffix)?;
        let is_account = is_plain(account, b"", 30) && is_number(account);
        (is_account && is_plain(region, b"-", 63)).then(|| Self::Private {
            region: region.to_owned(),
            domain,
        })
    }

    /// Returns the region that issues the registry's logins; those of the public registry come from
    /// one region.
    pub fn region(&self) -> &str {
        match self {
            Self::Public => "us-east-1",
            Self::Private { region, .. } => region,
        }
    }
}

/// A repository of AWS CodeCommit, from its URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeCommit {
    /// The host, such as `git-codecommit.eu-west-1.amazonaws.com`.
    pub host: String,
    /// The AWS region, such as `eu-west-1`: only letters, digits and `-`.
    pub region: String,
    /// The path, such as `/v1/repos/fleet`.
    pub path: String,
}

impl CodeCommit {
    /// Parses a URL with https; returns `None` for any other string.
    pub fn parse(url: &str) -> Option<Self> {
        let (host, path) = url.strip_prefix("https://")?.split_once('/')?;
        let name = path.strip_prefix("v1/repos/")?;
        let services = ["git-codecommit.", "git-codecommit-fips."];
        let rest = services
            .iter()
            .find_map(|service| host.strip_prefix(service))?;
        let (region, domain) = rest.split_once('.')?;
        let is_domain = matches!(domain, "amazonaws.com" | "amazonaws.com.cn");
        (is_domain && is_plain(region, b"-", 63) && is_plain(name, b"-_.", 100)).then(|| Self {
            host: host.to_owned(),
            region: region.to_owned(),
            path: format!("/{path}"),
        })
    }
}

/// Returns the error of a port that has no logins to Git repositories.
fn no_git<T>() -> Result<T> {
    let message = "logins to Git repositories of clouds are not available here";
    Err(PortError::new(ErrorKind::Unsupported, message))
}

/// Checks whether a string has 1 to `most` bytes, all of them ASCII letters, digits or bytes of
/// `more`.
pub(super) fn is_plain(text: &str, more: &[u8], most: usize) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || more.contains(&byte);
    (1..=most).contains(&text.len()) && text.bytes().all(fits)
}

pub(super) fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Amazon's clusters (EKS), registries (ECR) and Git repositories (CodeCommit).
#[async_trait]
pub trait Aws: Send + Sync {
    /// Returns a cluster's endpoint. Fails with `NotFound` if the cluster does not exist.
    async fn describe(
        &self,
        cluster: &EksCluster,
        identity: &AwsIdentity,
        now: Duration,
    ) -> Result<ClusterEndpoint>;

    /// Returns a token that the cluster's API server accepts.
    async fn token(
        &self,
        cluster: &EksCluster,
        identity: &AwsIdentity,
        now: Duration,
    ) -> Result<Token>;

    /// Returns a login of a registry, for everything that the identity may read there.
    async fn registry(
        &self,
        registry: &EcrRegistry,
        identity: &AwsIdentity,
        now: Duration,
    ) -> Result<RegistryLogin>;

    /// Returns the user and password for a Git repository of CodeCommit.
    async fn git(&self, _: &CodeCommit, _: &AwsIdentity, _: Duration) -> Result<RegistryLogin> {
        no_git()
    }
}

/// An application of Microsoft Entra ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntraIdentity {
    /// The tenant: only letters, digits, `-` and `.`.
    pub tenant: String,
    /// The application's client id.
    pub client: String,
    /// The proof of the identity. What is cached for it is not used for another one.
    pub proof: EntraProof,
}

/// The proof that a request comes from an application of Microsoft Entra ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntraProof {
    /// A token of a service account whose issuer the application trusts.
    Token(Token),
    /// A client secret of the application.
    ClientSecret(Secret),
}

/// A cluster of Azure Kubernetes Service, from its resource id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AksCluster {
    /// The subscription's id.
    pub subscription: String,
    /// The resource group.
    pub group: String,
    /// The cluster's name.
    pub name: String,
}

impl AksCluster {
    /// Parses
    /// `/subscriptions/…/resourceGroups/…/providers/Microsoft.ContainerService/managedClusters/…`,
    /// whose parts become parts of paths; returns `None` for any other string.
    pub fn parse(id: &str) -> Option<Self> {
        let parts: Vec<&str> = id.split('/').collect();
        let ["", a, subscription, b, group, c, d, e, name] = parts[..] else {
            return None;
        };
        let words = [
            (a, "subscriptions"),
            (b, "resourceGroups"),
            (c, "providers"),
            (d, "Microsoft.ContainerService"),
            (e, "managedClusters"),
        ];
        let is_id = words
            .iter()
            .all(|(have, word)| have.eq_ignore_ascii_case(word));
        // The characters that Azure allows in names, except that a group's name may also have
        // letters of other scripts.
        let is_named = is_plain(group, b"-_.()", 90) && is_plain(name, b"-_", 63);
        let fits = is_plain(subscription, b"-", 36) && is_named && !group.ends_with('.');
        (is_id && fits).then(|| Self {
            subscription: subscription.to_owned(),
            group: group.to_owned(),
            name: name.to_owned(),
        })
    }
}

/// A registry of Azure (ACR), from its host's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcrRegistry {
    /// The host, such as `acme.azurecr.io`.
    pub host: String,
}

impl AcrRegistry {
    /// Parses the host of a registry; returns `None` for any other name.
    pub fn parse(host: &str) -> Option<Self> {
        let ends = [".azurecr.io", ".azurecr.cn", ".azurecr.de", ".azurecr.us"];
        let name = ends.iter().find_map(|end| host.strip_suffix(end))?;
        let is_name = name.split('.').all(|part| is_plain(part, b"-", 63));
        is_name.then(|| Self {
            host: host.to_owned(),
        })
    }
}

/// Microsoft's clusters (AKS), registries (ACR) and Git repositories (Azure DevOps).
#[async_trait]
pub trait Azure: Send + Sync {
    /// Returns a cluster's endpoints, at least one. Fails with `NotFound` if the cluster does not
    /// exist.
    async fn describe(
        &self,
        cluster: &AksCluster,
        identity: &EntraIdentity,
        now: Duration,
    ) -> Result<Vec<ClusterEndpoint>>;

    /// Returns a token that the API servers of all clusters accept on which the identity has
    /// access.
    async fn token(&self, identity: &EntraIdentity, now: Duration) -> Result<Token>;

    /// Returns a login of a registry, for everything that the identity may read there.
    async fn registry(
        &self,
        registry: &AcrRegistry,
        identity: &EntraIdentity,
        now: Duration,
    ) -> Result<RegistryLogin>;

    /// Returns a token for the Git repositories of Azure DevOps.
    async fn git(&self, _: &EntraIdentity, _: Duration) -> Result<Token> {
        no_git()
    }

    /// Returns a token for Azure Event Hubs.
    async fn event_hub(&self, _: &EntraIdentity, _: Duration) -> Result<Token> {
        let message = "this client has no logins for Azure Event Hubs";
        Err(PortError::new(ErrorKind::Unsupported, message))
    }
}

/// A principal of a workload identity pool of Google Cloud that trusts the issuer of a service
/// account's token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoogleIdentity {
    /// The provider of the pool:
    /// `//iam.googleapis.com/projects/…/locations/global/workloadIdentityPools/…/providers/…`.
    pub provider: String,
    /// The Google service account to impersonate, if any: only letters, digits, `-`, `.` and `@`.
    pub account: Option<String>,
    /// The service account's token. What is cached for this token is not used for another one.
    pub token: Token,
}

/// A cluster of Google Kubernetes Engine, from its resource name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GkeCluster {
    /// The name `projects/…/locations/…/clusters/…`: only letters, digits, `-`, `.` and `:` between
    /// the slashes.
    pub name: String,
}

impl GkeCluster {
    /// Parses a name, which becomes part of a path; returns `None` for any other string.
    pub fn parse(name: &str) -> Option<Self> {
        let parts: Vec<&str> = name.split('/').collect();
        let [
            "projects",
            project,
            "locations",
            location,
            "clusters",
            cluster,
        ] = parts[..]
        else {
            return None;
        };
        // The id of an old project may have its organization's domain as a prefix.
        let fits = is_plain(project, b"-.:", 200) && project.as_bytes()[0] != b'.';
        (fits && is_plain(location, b"-", 200) && is_plain(cluster, b"-", 200)).then(|| Self {
            name: name.to_owned(),
        })
    }
}

/// Returns whether a host is a registry of Google (Artifact Registry, Container Registry).
pub fn is_google_registry(host: &str) -> bool {
    let is_name = |name: &str| name.split('.').all(|part| is_plain(part, b"-", 63));
    let below = |end: &str| host.strip_suffix(end).is_some_and(is_name);
    matches!(host, "gcr.io" | "docker.s3nsregistry.fr")
        || below(".gcr.io")
        || below("-docker.pkg.dev")
}

/// Google's clusters (GKE) and registries.
#[async_trait]
pub trait Google: Send + Sync {
    /// Returns a cluster's endpoint. Fails with `NotFound` if the cluster does not exist.
    async fn describe(
        &self,
        cluster: &GkeCluster,
        identity: &GoogleIdentity,
        now: Duration,
    ) -> Result<ClusterEndpoint>;

    /// Returns a token that all clusters and registries accept on which the identity has access.
    async fn token(&self, identity: &GoogleIdentity, now: Duration) -> Result<Token>;
}

#[cfg(test)]
mod tests {
    use super::{
        AcrRegistry, AksCluster, CodeCommit, EcrRegistry, EksCluster, GkeCluster,
        is_google_registry,
    };

    #[test]
    fn arns_of_clusters() {
        let found =
            EksCluster::parse("arn:aws-cn:eks:cn-north-1:012345678901:cluster/a_B-1").unwrap();
        let parts = [found.partition, found.region, found.name];
        assert_eq!(parts, ["aws-cn", "cn-north-1", "a_B-1"]);
        for arn in [
            "",
            "prod",
            "arn:aws:eks:eu-west-1:1:cluster/",
            "arn:aws:eks:eu-west-1:1:nodegroup/a",
            "arn:aws:eks:evil.example/#:1:cluster/a",
            "arn:aws:eks:eu-west-1:1:cluster/../a",
            "arn:aws:eks:eu-west-1:1:cluster/a?b",
            "arn:aws:eks:eu-west-1:one:cluster/a",
            "arn:azure:eks:eu-west-1:1:cluster/a",
            "arn:aws:s3:eu-west-1:1:cluster/a",
        ] {
            assert_eq!(EksCluster::parse(arn), None, "{arn}");
        }
    }
    #[test]
    fn urls_of_code_commit() {
        let url = "https://git-codecommit.eu-west-1.amazonaws.com/v1/repos/fleet_1.a";
        let found = CodeCommit::parse(url).unwrap();
        assert_eq!(
            (&*found.region, &*found.path),
            ("eu-west-1", "/v1/repos/fleet_1.a")
        );
        let china = "https://git-codecommit-fips.cn-north-1.amazonaws.com.cn/v1/repos/a";
        assert_eq!(CodeCommit::parse(china).unwrap().region, "cn-north-1");
        for url in [
            "http://git-codecommit.eu-west-1.amazonaws.com/v1/repos/fleet",
            "https://git-codecommit.eu-west-1.amazonaws.com.evil.example/v1/repos/fleet",
            "https://git-codecommit.eu-west-1.evil.example/v1/repos/fleet",
            "https://user@git-codecommit.eu-west-1.amazonaws.com/v1/repos/fleet",
            "https://git-codecommit.eu-west-1.amazonaws.com/v1/repos/../x",
            "https://git-codecommit.eu-west-1.amazonaws.com/v1/repos/a?b",
            "https://github.com/acme/fleet",
        ] {
            assert_eq!(CodeCommit::parse(url), None, "{url}");
        }
    }

    #[test]
    fn hosts_of_registries() {
        let found = |host: &str| match EcrRegistry::parse(host)? {
            EcrRegistry::Public => Some("public".to_owned()),
            EcrRegistry::Private { region, domain } => Some(format!("{region} {domain}")),
        };
        for (host, expected) in [
            ("public.ecr.aws", "public"),
            (
                "012345678901.dkr.ecr.eu-west-1.amazonaws.com",
                "eu-west-1 amazonaws.com",
            ),
            (
                "1.dkr.ecr-fips.us-gov-west-1.amazonaws.com",
                "us-gov-west-1 amazonaws.com",
            ),
            ("1.dkr-ecr.eu-west-1.on.aws", "eu-west-1 amazonaws.com"),
            (
                "1.dkr.ecr.cn-north-1.amazonaws.com.cn",
                "cn-north-1 amazonaws.com.cn",
            ),
        ] {
            assert_eq!(found(host).as_deref(), Some(expected));
        }
        for host in [
            "",
            "ghcr.io",
            "1.dkr.ecr.eu-west-1.amazonaws.com.evil.example",
            "1.dkr.ecr.eu-west-1.amazonaws.com:443",
            "evil.example#1.dkr.ecr.eu-west-1.amazonaws.com",
            "a.dkr.ecr.eu-west-1.amazonaws.com",
            "1.dkr.ecr..amazonaws.com",
            "1.dkr.ecr.eu-west-1.evil.amazonaws.com",
            "dkr.ecr.eu-west-1.amazonaws.com",
            "x.public.ecr.aws",
        ] {
            assert_eq!(found(host), None, "{host}");
        }
    }

    #[test]
    fn ids_of_azure() {
        let id = |group: &str, name: &str| {
            format!(
                "/subscriptions/00000000-0000-0000-0000-000000000001/resourcegroups/{group}/providers/microsoft.containerservice/managedClusters/{name}"
            )
        };
        let found = AksCluster::parse(&id("team.a_(1)", "prod")).unwrap();
        assert_eq!(
            (found.group.as_str(), found.name.as_str()),
            ("team.a_(1)", "prod")
        );
        for (group, name) in [
            ("..", "prod"),
            ("a", "b/c"),
            ("a", "b?c"),
            ("a", ""),
            ("", "b"),
        ] {
            assert_eq!(AksCluster::parse(&id(group, name)), None, "{group} {name}");
        }
        assert_eq!(AksCluster::parse("prod"), None);
        for host in ["acme.azurecr.io", "acme-1.eastus.azurecr.us"] {
            assert!(AcrRegistry::parse(host).is_some(), "{host}");
        }
        for host in [
            "azurecr.io",
            ".azurecr.io",
            "acme.azurecr.io.evil.example",
            "evil.example/.azurecr.io",
            "acme.azurecr.io:8443",
            "a..azurecr.io",
        ] {
            assert!(AcrRegistry::parse(host).is_none(), "{host}");
        }
    }

    #[test]
    fn names_of_google() {
        let name =
            |project: &str| format!("projects/{project}/locations/europe-west1/clusters/prod");
        for project in ["acme-1", "example.com:acme"] {
            assert!(GkeCluster::parse(&name(project)).is_some(), "{project}");
        }
        for project in ["..", "", "a/b", "a?b"] {
            assert!(GkeCluster::parse(&name(project)).is_none(), "{project}");
        }
        for host in [
            "gcr.io",
            "eu.gcr.io",
            "europe-docker.pkg.dev",
            "docker.s3nsregistry.fr",
        ] {
            assert!(is_google_registry(host), "{host}");
        }
        for host in [
            "gcr.io.evil.example",
            "evilgcr.io",
            "-docker.pkg.dev",
            "a/b-docker.pkg.dev",
            "docker.pkg.dev",
            "gcr.io:8443",
        ] {
            assert!(!is_google_registry(host), "{host}");
        }
    }
}
