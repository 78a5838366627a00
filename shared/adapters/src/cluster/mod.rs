//! Clients of Kubernetes API servers, with `kube`'s HTTP client.
//!
//! The client is assembled here from an [`Access`], so that a tenant's kubeconfig never reaches a
//! loader that runs programs or opens files. All users of a cluster share one client and one
//! discovery: a user is a header.

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

/// The number of clusters whose connections are cached; the least recently used one is evicted
/// first.
const CAPACITY: usize = 256;

/// The adapter of the port [`Clusters`], with a cache of connections and discoveries.
#[derive(Default)]
pub struct KubeClusters {
    /// The servers, the most recently used first.
    servers: Mutex<Vec<(Access, Arc<Server>)>>,
}

/// The state that all users of one API server share.
struct Server {
    client: kube::Client,
    discovery: Discovery,
    breaker: Breaker,
    /// The tokens of service accounts, by the user who requested them.
    tokens: ExpiringCache<(Option<HeaderValue>, TokenRequest), Token>,
    name: String,
}

impl KubeClusters {
    /// Creates the adapter with an empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    fn cached(&self, access: &Access) -> Option<Arc<Server>> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default();
        servers.retain(|(known, _)| !is_over(known, now));
        let at = servers.iter().position(|(known, _)| known == access)?;
        servers[..=at].rotate_right(1);
        servers.first().map(|(_, server)| server.clone())
    }
}

/// Returns whether the login has expired, so that its connections are no longer used.
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
        let server = match self.cached(access) {
            Some(server) => server,
            None => {
                let server = Arc::new(Server::new(connect::client(access)?, &access.server));
                let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
                servers.insert(0, (access.clone(), server.clone()));
                servers.truncate(CAPACITY);
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

/// A client of one API server as one user.
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
                    "the name of the user to impersonate has characters that are not valid in a header",
                )
            })?;
        Ok(Self { server, user })
    }

    /// Creates a client that sends its requests to a service, such as an API server in this
    /// process; `name` is for messages.
    ///
    /// # Errors
    /// Fails if the user name is not valid in a header.
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

    /// Returns a client as another user, which shares connections and discovery.
    ///
    /// # Errors
    /// Fails if the user name is not valid in a header.
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

    /// Drops the cached discovery of a resource that the server no longer serves, because its
    /// definition was deleted.
    fn forget_if_not_served<T>(&self, resource: &Resource, result: Result<T>) -> Result<T> {
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
        self.forget_if_not_served(resource, answer)
    }

    async fn list(
        &self,
        resource: &Resource,
        namespace: &str,
        selector: &str,
    ) -> Result<Vec<Object>> {
        let answer = self.caller().list(resource, namespace, selector).await;
        self.forget_if_not_served(resource, answer)
    }

    async fn apply(
        &self,
        resource: &Resource,
        object: &Object,
        options: Apply<'_>,
    ) -> Result<Object> {
        let answer = self.caller().apply(resource, object, options).await;
        self.forget_if_not_served(resource, answer)
    }

    async fn create(&self, resource: &Resource, object: &Object, manager: &str) -> Result<Object> {
        let answer = self.caller().create(resource, object, manager).await;
        self.forget_if_not_served(resource, answer)
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
        self.forget_if_not_served(resource, answer)
    }

    async fn delete(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        options: &Delete,
    ) -> Result<Deleted> {
        let answer = self
            .caller()
            .delete(resource, namespace, name, options)
            .await;
        self.forget_if_not_served(resource, answer)
    }
    async fn token(&self, request: &TokenRequest, now: Duration) -> Result<Token> {
        let (own, owned_request) = (self.clone(), request.clone());
        let make = async move {
            let token = own.caller().token(&owned_request).await?;
            let end = token.expires;
            Ok((token, end))
        };
        let key = (self.user.clone(), request.clone());
        self.server.tokens.get(key, now, make).await
    }
}
