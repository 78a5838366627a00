//! A ConfigMap with the access to a cluster, which is read as by Flux 2.9.

use super::refuse_local;
use crate::cloud::{self, Account, Exchange};
use crate::failure::{Failure, TargetError};
use crate::hub::Hub;
use crate::ports::{Access, ClusterEndpoint, Login, PortError, Ports, Token};
use driftless_flux::{Invalid, reason};
use driftless_manifest::Object;
use serde_json::Value;
use url::Url;

/// The prefix of errors of a login, in Flux's words.
pub(super) const TOKEN: &str = "failed to get access token for cluster";

/// A ConfigMap with the access to a cluster.
pub(super) struct ClusterConfig<'a> {
    pub ports: &'a Ports,
    pub hub: &'a Hub,
    /// The namespace of the object and of everything that it names.
    pub namespace: &'a str,
    /// The name of the ConfigMap in messages.
    pub id: String,
    pub object: Object,
}

impl ClusterConfig<'_> {
    /// Returns the value of a key; empty if it is absent.
    pub fn entry(&self, key: &str) -> &str {
        let entry = self.object.pointer("/data").and_then(|data| data.get(key));
        entry.and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the certificate authority, if the ConfigMap has one.
    pub fn authority(&self) -> Option<Vec<u8>> {
        let pem = self.entry("ca.crt");
        (!pem.is_empty()).then(|| pem.as_bytes().to_vec())
    }

    /// Returns the endpoint of the cluster, if the ConfigMap has both parts of it.
    pub fn endpoint(&self) -> Option<ClusterEndpoint> {
        let (address, authority) = (self.entry("address"), self.authority()?);
        (!address.is_empty()).then(|| ClusterEndpoint {
            address: address.to_owned(),
            certificate_authority: authority,
        })
    }

    /// Returns a cloud's endpoint with the parts that the ConfigMap has replaced by them.
    pub fn completed(&self, described: ClusterEndpoint) -> ClusterEndpoint {
        ClusterEndpoint {
            address: match self.entry("address") {
                "" => described.address,
                address => address.to_owned(),
            },
            certificate_authority: self.authority().unwrap_or(described.certificate_authority),
        }
    }

    /// Returns an error that may be temporary, in Flux's words, which do not name the ConfigMap.
    pub fn fail(&self, message: impl std::fmt::Display) -> TargetError {
        Failure::retry(reason::FAILED, message).into()
    }

    /// Returns a terminal error that names the ConfigMap.
    pub fn refuse(&self, reason: &'static str, message: impl std::fmt::Display) -> TargetError {
        Failure::terminal(reason, message).context(&self.id).into()
    }

    /// Returns the access to a cluster that trusts the hub's issuer, with a token of a service
    /// account of the hub.
    pub async fn generic(&self) -> Result<Access, TargetError> {
        let address = self.entry("address");
        if address.is_empty() {
            return Err(self.fail("cluster address is required to create a REST config"));
        }
        let server = self.server(address)?;
        let account = self.required_account("").await?;
        let token = self.exchange().token(&account, address).await;
        let token = token.map_err(|failure| failure.context(TOKEN))?;
        Ok(self.access(server, self.authority(), token))
    }

    /// Returns the access to a server with a token.
    pub fn access(&self, server: String, authority: Option<Vec<u8>>, token: Token) -> Access {
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

    /// Returns the canonical form of an address that may be reached.
    pub fn server(&self, address: &str) -> Result<String, TargetError> {
        let server = canonical(address).map_err(|error| self.fail(error))?;
        refuse_local(self.hub, &self.id, &server)?;
        Ok(server)
    }

    /// Returns the service account that is named, else the hub's default one; `None` if there is
    /// neither.
    pub async fn account(&self) -> Result<Option<Account>, TargetError> {
        let own = self.entry("serviceAccountName");
        let default = &self.hub.settings.default_kubeconfig_service_account;
        let found = cloud::find(self.hub, self.namespace, own, default.as_deref()).await;
        found.map_err(|none| none.context(TOKEN))
    }

    /// Returns the same account for a provider that needs one. `annotation` is the annotation that
    /// it must have; it may be empty.
    pub async fn required_account(&self, annotation: &str) -> Result<Account, TargetError> {
        if let Some(account) = self.account().await? {
            return Ok(account);
        }
        let account = match annotation {
            "" => "whose token the cluster accepts".to_owned(),
            annotation => format!("with the annotation {annotation}"),
        };
        let message = format!(
            "serviceAccountName is required: driftless has no controller account to fall back to. Name the service account {account}, \
             or register the hub with --default-kubeconfig-service-account"
        );
        Err(self.refuse(reason::UNSUPPORTED, message))
    }

    /// Returns the error of a cloud that refused an account's token.
    pub fn token_refused(&self, account: &Account, error: PortError) -> TargetError {
        let failure = Failure::from(error).context(cloud::token_error_prefix(account));
        failure.context(TOKEN).into()
    }

    /// Returns the source of the accounts' tokens.
    pub fn exchange(&self) -> Exchange<'_> {
        let audiences = self.entry("audiences").split('\n').map(str::trim);
        let audiences = audiences.filter(|audience| !audience.is_empty());
        Exchange {
            ports: self.ports,
            hub: self.hub,
            audiences: audiences.map(str::to_owned).collect(),
        }
    }
}

/// Converts an address in a ConfigMap to `https://HOST:PORT`. The address may omit the scheme and
/// the port; its path is ignored.
///
/// # Errors
/// The address is not valid, has a user, or is not `https`. A user in the address is not part of
/// the message.
pub fn canonical(address: &str) -> Result<String, Invalid> {
    let whole = match address.starts_with("http") {
        true => address.to_owned(),
        false => format!("https://{address}"),
    };
    let url = Url::parse(&whole).map_err(|error| {
        Invalid::from(format!(
            "failed to parse Kubernetes API server address: {error}"
        ))
    })?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the Kubernetes API server address must not have a user".into());
    }
    match (url.scheme(), url.host_str(), url.port_or_known_default()) {
        ("https", Some(host), Some(port)) => Ok(format!("https://{host}:{port}")),
        _ => Err(format!(
            "failed to parse cluster address {}: the Kubernetes API server address '{}' must use https scheme",
            address.escape_debug(),
            whole.escape_debug()
        ).into()),
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
        let refused = canonical("https://ann:canary@api.example.com")
            .unwrap_err()
            .to_string();
        assert!(!refused.contains("canary"), "{refused}");
    }
}
