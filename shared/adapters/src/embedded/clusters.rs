//! Connects kubeconfigs to API servers in this process.

use super::users::UserSource;
use super::{Embedded, EmbeddedService, lock};
use crate::cluster::KubeCluster;
use async_trait::async_trait;
use driftless_apiserver::User;
use driftless_kernel::ports::{
    Access, Cluster, Clusters, ErrorKind, Impersonation, Login, PortError, Result, Token,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Embedded servers by address. A connection to one of the addresses needs no socket; its bearer
/// token identifies the user. All other addresses are left to a fallback.
#[derive(Default)]
pub struct EmbeddedClusters {
    servers: Mutex<BTreeMap<String, EmbeddedCluster>>,
    fallback: Option<Arc<dyn Clusters>>,
}

struct EmbeddedCluster {
    server: Embedded,
    /// The user of a token that another issuer made for this server.
    guest: Option<User>,
    /// True if every login is the guest's.
    is_open: bool,
    /// The clients, each with a discovery, by authorization header.
    clients: BTreeMap<String, Arc<KubeCluster>>,
}

impl EmbeddedClusters {
    /// Creates a registry without servers and without a fallback.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a registry without servers, with a fallback for unknown addresses.
    pub fn with_fallback(fallback: Arc<dyn Clusters>) -> Self {
        Self {
            servers: Mutex::default(),
            fallback: Some(fallback),
        }
    }

    /// Registers a server under an address, such as `https://staging.demo.internal` or a listener's
    /// URL. A server may have several addresses.
    pub fn add(&self, address: &str, server: &Embedded) {
        self.insert(address, server, None);
    }

    /// Registers a server that accepts every login as `guest`, including certificates and
    /// passwords: it replaces a server that is not reached.
    pub fn add_open(&self, address: &str, server: &Embedded, guest: User) {
        let known = EmbeddedCluster {
            is_open: true,
            ..EmbeddedCluster::new(server, Some(guest))
        };
        lock(&self.servers).insert(trimmed(address), known);
    }

    /// Registers a server that accepts every token that was issued for it ([`Login::Issued`]), as
    /// `guest`.
    pub fn add_trusting(&self, address: &str, server: &Embedded, guest: User) {
        self.insert(address, server, Some(guest));
    }

    fn insert(&self, address: &str, server: &Embedded, guest: Option<User>) {
        lock(&self.servers).insert(trimmed(address), EmbeddedCluster::new(server, guest));
    }

    /// Drops the clients and their discoveries, after a definition was replaced by another one of
    /// the same kind, which a real API server does not allow.
    pub fn forget(&self) {
        let mut servers = lock(&self.servers);
        servers.values_mut().for_each(|known| known.clients.clear());
    }

    /// Returns the server of an address.
    pub fn get(&self, address: &str) -> Option<Embedded> {
        let servers = lock(&self.servers);
        servers
            .get(&trimmed(address))
            .map(|known| known.server.clone())
    }

    fn client(&self, access: &Access) -> Option<Result<Arc<KubeCluster>>> {
        let mut servers = lock(&self.servers);
        let known = servers.get_mut(&trimmed(&access.server))?;
        Some(known.client(access))
    }
}

impl EmbeddedCluster {
    fn new(server: &Embedded, guest: Option<User>) -> Self {
        Self {
            server: server.clone(),
            guest,
            is_open: false,
            clients: BTreeMap::new(),
        }
    }

    fn client(&mut self, access: &Access) -> Result<Arc<KubeCluster>> {
        let authorization = match self.is_open {
            true => String::new(),
            false => authorization(access)?,
        };
        if let Some(client) = self.clients.get(&authorization) {
            return Ok(client.clone());
        }
        let header = (!authorization.is_empty()).then_some(authorization.as_str());
        let is_issued = matches!(access.login, Login::Issued(_));
        let guest = self.guest.clone().filter(|_| is_issued || self.is_open);
        let user = guest.or_else(|| self.server.user(header)).ok_or_else(|| {
            PortError::new(
                ErrorKind::Denied,
                format!("cluster {}: the server has asked for the client to provide credentials (Unauthorized)", access.server),
            )
        })?;
        let service = EmbeddedService::new(self.server.clone(), UserSource::Known(user));
        let client = Arc::new(KubeCluster::from_service(service, &access.server, None)?);
        self.clients.insert(authorization, client.clone());
        Ok(client)
    }
}

#[async_trait]
impl Clusters for EmbeddedClusters {
    async fn connect(
        &self,
        access: &Access,
        user: Option<&Impersonation>,
    ) -> Result<Arc<dyn Cluster>> {
        if let Some(client) = self.client(access) {
            return Ok(Arc::new(client?.as_user(user)?));
        }
        match &self.fallback {
            Some(fallback) => fallback.connect(access, user).await,
            None => Err(PortError::new(
                ErrorKind::Unavailable,
                format!(
                    "cluster {}: the server does not exist in this process",
                    access.server
                ),
            )),
        }
    }
}

fn trimmed(address: &str) -> String {
    address.trim_end_matches('/').to_owned()
}

fn authorization(access: &Access) -> Result<String> {
    let refuse = |reason: &str| {
        let message = format!("cluster {}: {reason}", access.server);
        Err(PortError::new(ErrorKind::Invalid, message))
    };
    match &access.login {
        Login::Anonymous => Ok(String::new()),
        Login::Token(token) | Login::Issued(Token { secret: token, .. }) => {
            match token.expose_str() {
                Some(token) => Ok(format!("Bearer {}", token.trim())),
                None => refuse("the bearer token is not UTF-8"),
            }
        }
        Login::Certificate { .. } | Login::Basic { .. } => {
            refuse("a server in this process accepts only bearer tokens")
        }
    }
}
