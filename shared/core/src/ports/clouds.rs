//! Clouds: what a short-lived login opens there, and whose identity it is given for.

use super::{Result, Secret, Token};
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;

/// Every cloud. What one answered is kept and answers again while it is good at `now` (since 1970) and has a fifth of its life
/// left; whoever comes with another identity gets nothing of it.
#[derive(Clone)]
pub struct Clouds {
    /// Amazon's.
    pub aws: Arc<dyn Aws>,
    /// Microsoft's.
    pub azure: Arc<dyn Azure>,
    /// Google's.
    pub google: Arc<dyn Google>,
}

/// Where a cluster's API server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterPlace {
    /// Its address.
    pub address: String,
    /// Its certificate authority, PEM.
    pub certificate_authority: Vec<u8>,
}

/// User and password of a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryLogin {
    /// The user.
    pub user: String,
    /// The password.
    pub password: Secret,
}

/// A cluster of Amazon EKS, from its ARN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EksCluster {
    /// `aws`, `aws-cn`, `aws-us-gov` …
    pub partition: String,
    /// `eu-west-1`: letters, digits and `-` alone.
    pub region: String,
    /// The cluster's name: letters, digits, `-` and `_` alone.
    pub name: String,
}

impl EksCluster {
    /// The parts of an ARN, which become parts of hosts and paths; none of any other text.
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

/// Who asks Amazon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AwsIdentity {
    /// The installation, with its own AWS role.
    Installation,
    /// A role that trusts the issuer of a service account's token.
    Role {
        /// The role's ARN.
        arn: String,
        /// How the session is named in AWS's logs.
        session: String,
        /// The service account's token. Whoever has another one gets nothing that was made for this one.
        token: Token,
    },
}

/// A registry of Amazon ECR, from its host's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EcrRegistry {
    /// `public.ecr.aws`.
    Public,
    /// One of an account.
    Private {
        /// `eu-west-1`: letters, digits and `-` alone.
        region: String,
        /// Under which the services of the registry's partition are: `amazonaws.com`, `amazonaws.com.cn` …
        domain: &'static str,
    },
}

/// What the names of private registries end with, and the domain of the services that go with them.
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
    /// The registry of a host, such as `012345678901.dkr.ecr.eu-west-1.amazonaws.com`; none of any other name.
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

    /// Where it is asked for logins; those of the public one are given in one region.
    pub fn region(&self) -> &str {
        match self {
            Self::Public => "us-east-1",
            Self::Private { region, .. } => region,
        }
    }
}

/// Whether a text has letters and digits and what else is named, and no more than so many.
fn is_plain(text: &str, more: &[u8], most: usize) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || more.contains(&byte);
    (1..=most).contains(&text.len()) && text.bytes().all(fits)
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Amazon's clusters (EKS) and registries (ECR).
#[async_trait]
pub trait Aws: Send + Sync {
    /// Where a cluster is. `NotFound`: there is no such cluster.
    async fn describe(
        &self,
        cluster: &EksCluster,
        identity: &AwsIdentity,
        now: Duration,
    ) -> Result<ClusterPlace>;

    /// A token that the cluster's API server accepts.
    async fn token(
        &self,
        cluster: &EksCluster,
        identity: &AwsIdentity,
        now: Duration,
    ) -> Result<Token>;

    /// A login of a registry, for all that the identity may read there.
    async fn registry(
        &self,
        registry: &EcrRegistry,
        identity: &AwsIdentity,
        now: Duration,
    ) -> Result<RegistryLogin>;
}

/// An application of Microsoft Entra ID that trusts the issuer of a service account's token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntraIdentity {
    /// The tenant: letters, digits, `-` and `.` alone.
    pub tenant: String,
    /// The application's client id.
    pub client: String,
    /// The service account's token. Whoever has another one gets nothing that was made for this one.
    pub token: Token,
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
    /// The parts of `/subscriptions/…/resourceGroups/…/providers/Microsoft.ContainerService/managedClusters/…`, which become parts
    /// of paths; none of any other text.
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
        // What Azure allows in names, but for letters of other scripts in a group's.
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
    /// `acme.azurecr.io`
    pub host: String,
}

impl AcrRegistry {
    /// The registry of a host; none of any other name.
    pub fn parse(host: &str) -> Option<Self> {
        let ends = [".azurecr.io", ".azurecr.cn", ".azurecr.de", ".azurecr.us"];
        let name = ends.iter().find_map(|end| host.strip_suffix(end))?;
        let is_name = name.split('.').all(|part| is_plain(part, b"-", 63));
        is_name.then(|| Self {
            host: host.to_owned(),
        })
    }
}

/// Microsoft's clusters (AKS) and registries (ACR).
#[async_trait]
pub trait Azure: Send + Sync {
    /// The ways to a cluster, at least one. `NotFound`: there is no such cluster.
    async fn describe(
        &self,
        cluster: &AksCluster,
        identity: &EntraIdentity,
        now: Duration,
    ) -> Result<Vec<ClusterPlace>>;

    /// A token that the API servers of all clusters accept that know the identity.
    async fn token(&self, identity: &EntraIdentity, now: Duration) -> Result<Token>;

    /// A login of a registry, for all that the identity may read there.
    async fn registry(
        &self,
        registry: &AcrRegistry,
        identity: &EntraIdentity,
        now: Duration,
    ) -> Result<RegistryLogin>;
}

/// A principal of a workload identity pool of Google Cloud that trusts the issuer of a service account's token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoogleIdentity {
    /// `//iam.googleapis.com/projects/…/locations/global/workloadIdentityPools/…/providers/…`
    pub provider: String,
    /// The service account of Google's that it acts as, if it acts as one: letters, digits, `-`, `.` and `@` alone.
    pub account: Option<String>,
    /// The service account's token. Whoever has another one gets nothing that was made for this one.
    pub token: Token,
}

/// A cluster of Google Kubernetes Engine, from its resource name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GkeCluster {
    /// `projects/…/locations/…/clusters/…`: letters, digits, `-`, `.` and `:` alone between the slashes.
    pub name: String,
}

impl GkeCluster {
    /// A name, which becomes part of a path; none of any other text.
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
        // An old project has its organisation's domain in its name.
        let fits = is_plain(project, b"-.:", 200) && project.as_bytes()[0] != b'.';
        (fits && is_plain(location, b"-", 200) && is_plain(cluster, b"-", 200)).then(|| Self {
            name: name.to_owned(),
        })
    }
}

/// Whether a host is a registry of Google's (Artifact Registry, Container Registry).
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
    /// Where a cluster is. `NotFound`: there is no such cluster.
    async fn describe(
        &self,
        cluster: &GkeCluster,
        identity: &GoogleIdentity,
        now: Duration,
    ) -> Result<ClusterPlace>;

    /// A token that clusters and registries accept that know the identity.
    async fn token(&self, identity: &GoogleIdentity, now: Duration) -> Result<Token>;
}

#[cfg(test)]
mod tests {
    use super::{AcrRegistry, AksCluster, EcrRegistry, EksCluster, GkeCluster, is_google_registry};

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
