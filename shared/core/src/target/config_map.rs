//! The way to a cluster that a ConfigMap tells (`spec.kubeConfig.configMapRef`), as Flux 2.9 reads it: no credentials stand
//! there, a token is made for each login.

use super::{aks, eks, gke, refuse_local};
use crate::cloud::{self, Account, Exchange};
use crate::credentials;
use crate::failure::{Failure, TargetError};
use crate::flux::reason;
use crate::hub::Hub;
use crate::ports::{Access, ClusterEndpoint, Login, PortError, Ports, Token};
use driftless_manifest::Object;
use serde_json::Value;
use url::Url;

/// What a login is asked for, in Flux's words.
pub(super) const TOKEN: &str = "failed to get access token for cluster";

/// Where the cluster is and how to log in.
///
/// # Errors
/// The ConfigMap or the service account that it names is gone; it says something else than it should; no token is given.
pub(super) async fn access(
    ports: &Ports,
    hub: &Hub,
    namespace: &str,
    name: &str,
) -> Result<Access, TargetError> {
    let Some(found) = credentials::read(hub, "ConfigMap", namespace, name).await? else {
        let what =
            format!("failed to get configmap {namespace}/{name}: configmaps \"{name}\" not found");
        return Err(TargetError::Gone(Failure::retry(reason::FAILED, what)));
    };
    let way = Way {
        ports,
        hub,
        namespace,
        place: format!("ConfigMap/{namespace}/{name}"),
        found,
    };
    match way.text("provider") {
        "generic" => way.generic().await,
        "aws" => eks::access(&way).await,
        "azure" => aks::access(&way).await,
        "gcp" => gke::access(&way).await,
        provider => Err(way.fail(format!(
            "provider '{}' not implemented",
            provider.escape_debug()
        ))),
    }
}

/// A ConfigMap that leads to a cluster.
pub(super) struct Way<'a> {
    pub ports: &'a Ports,
    pub hub: &'a Hub,
    /// Of the object and of all that it names.
    pub namespace: &'a str,
    /// The ConfigMap, for messages.
    place: String,
    found: Object,
}

impl Way<'_> {
    /// An entry; empty when it is not there.
    pub fn text(&self, key: &str) -> &str {
        let entry = self.found.pointer("/data").and_then(|data| data.get(key));
        entry.and_then(Value::as_str).unwrap_or_default()
    }

    /// The certificate authority; none when it is not told.
    pub fn authority(&self) -> Option<Vec<u8>> {
        let pem = self.text("ca.crt");
        (!pem.is_empty()).then(|| pem.as_bytes().to_vec())
    }

    /// Where the cluster is, when the ConfigMap says it all.
    pub fn place(&self) -> Option<ClusterEndpoint> {
        let (address, authority) = (self.text("address"), self.authority()?);
        (!address.is_empty()).then(|| ClusterEndpoint {
            address: address.to_owned(),
            certificate_authority: authority,
        })
    }

    /// What a cloud says of the cluster, but for what the ConfigMap says.
    pub fn completed(&self, described: ClusterEndpoint) -> ClusterEndpoint {
        ClusterEndpoint {
            address: match self.text("address") {
                "" => described.address,
                address => address.to_owned(),
            },
            certificate_authority: self.authority().unwrap_or(described.certificate_authority),
        }
    }

    /// Something here is wrong, or not there yet; in Flux's words, which name no ConfigMap.
    pub fn fail(&self, what: impl std::fmt::Display) -> TargetError {
        Failure::retry(reason::FAILED, what).into()
    }

    /// What is not done, however often it is tried.
    pub fn refuse(&self, reason: &'static str, what: impl std::fmt::Display) -> TargetError {
        Failure::terminal(reason, what).context(&self.place).into()
    }

    /// A token of a service account of the hub, which the other cluster trusts as it trusts the hub's issuer.
    async fn generic(&self) -> Result<Access, TargetError> {
        let address = self.text("address");
        if address.is_empty() {
            return Err(self.fail("cluster address is required to create a REST config"));
        }
        let server = self.server(address)?;
        let account = self.needed_account("").await?;
        let token = self.exchange().token(&account, address).await;
        let token = token.map_err(|failure| failure.context(TOKEN))?;
        Ok(self.to(server, self.authority(), token))
    }

    /// The way to a server with a token.
    pub fn to(&self, server: String, authority: Option<Vec<u8>>, token: Token) -> Access {
        Access {
            server,
            certificate_authority: authority,
            tls_server_name: None,
            insecure_skip_tls_verify: false,
            allow_local: self.hub.settings.allow_local_clusters,
            login: Login::Issued(token),
            namespace: None,
        }
    }

    /// The canonical form of an address that may be reached.
    pub fn server(&self, address: &str) -> Result<String, TargetError> {
        let server = canonical(address).map_err(|why| self.fail(why))?;
        refuse_local(self.hub, &self.place, &server)?;
        Ok(server)
    }

    /// The service account that is named, else the hub's default one; none when there is no name at all.
    pub async fn account(&self) -> Result<Option<Account>, TargetError> {
        let own = self.text("serviceAccountName");
        let default = &self.hub.settings.default_kubeconfig_service_account;
        let found = cloud::find(self.hub, self.namespace, own, default.as_deref()).await;
        found.map_err(|none| none.context(TOKEN))
    }

    /// The same, where nobody else's identity could be taken. It has an annotation, if one is named.
    pub async fn needed_account(&self, annotation: &str) -> Result<Account, TargetError> {
        if let Some(account) = self.account().await? {
            return Ok(account);
        }
        let which = match annotation {
            "" => "whose token opens the cluster".to_owned(),
            annotation => format!("with the annotation {annotation}"),
        };
        let what = format!(
            "it names no serviceAccountName: the controllers' own account, which Flux takes then, is not there with driftless. Name \
             the service account {which}, or register the hub with --default-kubeconfig-service-account"
        );
        Err(self.refuse(reason::UNSUPPORTED, what))
    }

    /// A cloud gave nothing for an account's token.
    pub fn not_given(&self, account: &Account, error: PortError) -> TargetError {
        let failure = Failure::from(error).context(cloud::not_given(account));
        failure.context(TOKEN).into()
    }

    /// Where a token of an account comes from.
    pub fn exchange(&self) -> Exchange<'_> {
        let told = self.text("audiences").split('\n').map(str::trim);
        let told = told.filter(|audience| !audience.is_empty());
        Exchange {
            ports: self.ports,
            hub: self.hub,
            audiences: told.map(str::to_owned).collect(),
        }
    }
}

/// `https://HOST:PORT` of an address in a ConfigMap, which may come without scheme and port, and with a path that does not count.
///
/// # Errors
/// It is none, or one without TLS. A user that stands in it is not repeated.
pub fn canonical(address: &str) -> Result<String, String> {
    let whole = match address.starts_with("http") {
        true => address.to_owned(),
        false => format!("https://{address}"),
    };
    let url = Url::parse(&whole)
        .map_err(|error| format!("failed to parse Kubernetes API server address: {error}"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the Kubernetes API server address must not have a user".to_owned());
    }
    match (url.scheme(), url.host_str(), url.port_or_known_default()) {
        ("https", Some(host), Some(port)) => Ok(format!("https://{host}:{port}")),
        _ => Err(format!(
            "failed to parse cluster address {}: the Kubernetes API server address '{}' must use https scheme",
            address.escape_debug(),
            whole.escape_debug()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn addresses() {
        for (address, server) in [
            ("https://API.Example.com", "https://api.example.com:443"),
            ("api.example.com:6443", "https://api.example.com:6443"),
            ("https://10.0.0.1:6443/path?a=b#c", "https://10.0.0.1:6443"),
            ("[2001:db8::1]:6443", "https://[2001:db8::1]:6443"),
            ("https://api.example.com:443", "https://api.example.com:443"),
        ] {
            assert_eq!(canonical(address).unwrap(), server);
        }
        for address in [
            "http://api.example.com",
            "httpd.example:6443",
            "a b",
            "https://",
        ] {
            assert!(canonical(address).is_err(), "{address}");
        }
        let refused = canonical("https://ann:canary@api.example.com").unwrap_err();
        assert!(!refused.contains("canary"), "{refused}");
    }
}
