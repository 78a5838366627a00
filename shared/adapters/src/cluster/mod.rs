//! Kubernetes API servers over `kube`'s client.
//!
//! The client is built by hand from an [`Access`], so that no kubeconfig of a tenant ever reaches a loader that runs
//! programs or opens files. One client (and one discovery) serves every user of a cluster: a user is a header.

mod breaker;
pub(crate) mod connect;
mod discovery;
mod path;
mod plugin;
mod requests;
mod response;
mod tokens;

pub use plugin::Plugin;

use crate::expiring_cache::ExpiringCache;
use async_trait::async_trait;
use breaker::Breaker;
use discovery::Discovery;
use driftless_core::ports::{
    Access, ApiCapabilities, Apply, Cluster, Clusters, Delete, Deleted, ErrorKind, Impersonation,
    Login, Patch, PortError, Resource, Result, Token, TokenRequest,
};
use driftless_manifest::{Gvk, Object};
use http::HeaderValue;
use kube::client::Body;
use requests::Caller;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How many clusters' connections are kept; the one unused for longest goes first.
const KEPT: usize = 256;

/// Every cluster, with its connections and its discovery kept.
#[derive(Default)]
pub struct KubeClusters {
    /// The most recently used first.
    servers: Mutex<Vec<(Access, Arc<Server>)>>,
}

/// What is shared by all users of one API server.
struct Server {
    client: kube::Client,
    discovery: Discovery,
    breaker: Breaker,
    /// What service accounts were given, by who asked.
    tokens: ExpiringCache<(Option<HeaderValue>, TokenRequest), Token>,
    name: String,
}

impl KubeClusters {
    /// No cluster known yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn known(&self, access: &Access) -> Option<Arc<Server>> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default();
        servers.retain(|(known, _)| !is_over(known, now));
        let at = servers.iter().position(|(known, _)| known == access)?;
        servers[..=at].rotate_right(1);
        servers.first().map(|(_, server)| server.clone())
    }
}

/// Whether the login has ended; nobody comes with it any more.
fn is_over(access: &Access, now: Duration) -> bool {
    matches!(&access.login, Login::Issued(token) if token.expires <= now)
}

#[async_trait]
impl Clusters for KubeClusters {
    async fn connect(
        &self,
        access: &Access,
        user: Option<&Impersonation>,
    ) -> Result<Arc<dyn Cluster>> {
        let server = match self.known(access) {
            Some(server) => server,
            None => {
                let server = Arc::new(Server::new(connect::client(access)?, &access.server));
                let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
                servers.insert(0, (access.clone(), server.clone()));
                servers.truncate(KEPT);
                server
            }
        };
        Ok(Arc::new(KubeCluster::new(server, user)?))
    }
}

impl Server {
    fn new(client: kube::Client, name: &str) -> Self {
        Self {
            client,
            discovery: Discovery::default(),
            breaker: Breaker::default(),
            tokens: ExpiringCache::default(),
            name: name.to_owned(),
        }
    }
}

/// One API server, as one user.
#[derive(Clone)]
pub struct KubeCluster {
    server: Arc<Server>,
    user: Option<HeaderValue>,
}

impl KubeCluster {
    fn new(server: Arc<Server>, user: Option<&Impersonation>) -> Result<Self> {
        let user = user
            .map(|user| HeaderValue::from_str(&user.user))
            .transpose()
            .map_err(|_| {
                PortError::new(
                    ErrorKind::Invalid,
                    "the name of the user to act as has characters that no header can carry",
                )
            })?;
        Ok(Self { server, user })
    }

    /// An API server that is reached through a service of the caller's, such as one in this process; `name` is for messages.
    ///
    /// # Errors
    /// A user name that no header can carry.
    pub fn from_service<S, B>(service: S, name: &str, user: Option<&Impersonation>) -> Result<Self>
    where
        S: tower::Service<http::Request<Body>, Response = http::Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<tower::BoxError>,
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<tower::BoxError>,
    {
        Self::new(
            Arc::new(Server::new(kube::Client::new(service, "default"), name)),
            user,
        )
    }

    /// The same API server as another user, sharing connections and discovery.
    ///
    /// # Errors
    /// A user name that no header can carry.
    pub fn as_user(&self, user: Option<&Impersonation>) -> Result<Self> {
        Self::new(self.server.clone(), user)
    }

    fn caller(&self) -> Caller<'_> {
        Caller {
            client: &self.server.client,
            user: self.user.as_ref(),
            server: &self.server.name,
            breaker: &self.server.breaker,
        }
    }

    /// A resource that is gone (its definition was deleted) must be asked for again.
    fn noted<T>(&self, resource: &Resource, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && error.kind == ErrorKind::NotFound
            && error.message.contains(response::NO_SUCH_PATH)
        {
            self.server.discovery.forget(&resource.gvk.group);
        }
        result
    }
}

#[async_trait]
impl Cluster for KubeCluster {
    async fn resource(&self, gvk: &Gvk) -> Result<Option<Resource>> {
        self.server.discovery.resource(&self.caller(), gvk).await
    }

    async fn versions(&self, group: &str, kind: &str) -> Result<Vec<Resource>> {
        self.server
            .discovery
            .versions(&self.caller(), group, kind)
            .await
    }

    async fn abilities(&self) -> Result<ApiCapabilities> {
        let caller = self.caller();
        Ok(ApiCapabilities {
            version: caller.version().await?,
            api_versions: self.server.discovery.api_versions(&caller).await?,
        })
    }

    async fn get(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Object>> {
        let answer = self.caller().get(resource, namespace, name).await;
        self.noted(resource, answer)
    }

    async fn list(
        &self,
        resource: &Resource,
        namespace: &str,
        selector: &str,
    ) -> Result<Vec<Object>> {
        let answer = self.caller().list(resource, namespace, selector).await;
        self.noted(resource, answer)
    }

    async fn apply(&self, resource: &Resource, object: &Object, how: Apply<'_>) -> Result<Object> {
        let answer = self.caller().apply(resource, object, how).await;
        self.noted(resource, answer)
    }

    async fn create(&self, resource: &Resource, object: &Object, manager: &str) -> Result<Object> {
        let answer = self.caller().create(resource, object, manager).await;
        self.noted(resource, answer)
    }

    async fn patch(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        subresource: Option<&str>,
        patch: &Patch,
        manager: &str,
    ) -> Result<Object> {
        let answer = self
            .caller()
            .patch(resource, namespace, name, subresource, patch, manager)
            .await;
        self.noted(resource, answer)
    }

    async fn delete(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        how: &Delete,
    ) -> Result<Deleted> {
        let answer = self.caller().delete(resource, namespace, name, how).await;
        self.noted(resource, answer)
    }
    async fn token(&self, ask: &TokenRequest, now: Duration) -> Result<Token> {
        let (own, wanted) = (self.clone(), ask.clone());
        let make = async move {
            let token = own.caller().token(&wanted).await?;
            let end = token.expires;
            Ok((token, end))
        };
        let key = (self.user.clone(), ask.clone());
        self.server.tokens.get(key, now, make).await
    }
}
