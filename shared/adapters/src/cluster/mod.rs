//! Clients of Kubernetes API servers, with `kube`'s HTTP client.
//!
//! The client is assembled here from an [`Access`], so that a tenant's kubeconfig never reaches a
//! loader that runs programs or opens files. All users of a cluster share one client and one
//! discovery: a user is a header.

mod breaker;
pub(crate) mod connect;
mod discovery;
mod follow;
mod limiter;
mod lru;
mod path;
mod plugin;
mod requests;
mod response;
mod tokens;

pub use plugin::Plugin;

use crate::expiring_cache::{ExpiringCache, expiring};
use async_trait::async_trait;
use breaker::Breaker;
use discovery::Discovery;
use driftless_kernel::ports::{
    Access, ApiCapabilities, ApplyRequest, Changes, Cluster, Clusters, Delete, Deleted, ErrorKind,
    FollowRequest, Following, Impersonation, ListRequest, Login, Page, PatchRequest, PortError,
    Resource, Result, Token, TokenRequest,
};
use driftless_manifest::{Gvk, Object};
use futures::{StreamExt as _, stream};
use http::HeaderValue;
use kube::client::Body;
use limiter::Limiter;
use lru::Lru;
use requests::Caller;
use sha2::{Digest as _, Sha256};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The number of clusters whose clients are kept: those that a sweep of a large fleet uses, so that
/// the next one needs no new TLS connection and discovery. One client with its connection and its
/// discovery is estimated at 50 to 100 KiB, so all of them at 100 to 200 MiB.
const CLIENTS: usize = 2048;
/// The number of clusters whose breakers are kept, so that each sweep knows which are down.
const BREAKERS: usize = 10_000;

/// The adapter of the port [`Clusters`], with a cache of connections and discoveries.
pub struct KubeClusters {
    servers: Mutex<Lru<CachedServer>>,
    breakers: Mutex<Lru<Arc<Breaker>>>,
}

/// A server with its client.
#[derive(Clone)]
struct CachedServer {
    server: Arc<Server>,
    /// The time since 1970 at which the login expires, if it does.
    expires: Option<Duration>,
}

/// The state that all users of one API server share.
struct Server {
    client: kube::Client,
    /// The access that the client is made of; `None` for the client of a service.
    access: Option<Access>,
    /// The client of watches, which [`Server::watch_client`] makes.
    watches: Mutex<Option<kube::Client>>,
    discovery: Discovery,
    breaker: Arc<Breaker>,
    limiter: Limiter,
    /// The tokens of service accounts, by the user who requested them.
    tokens: ExpiringCache<(Option<HeaderValue>, TokenRequest), Token>,
    name: String,
}

impl Default for KubeClusters {
    fn default() -> Self {
        Self {
            servers: Mutex::new(Lru::new(CLIENTS)),
            breakers: Mutex::new(Lru::new(BREAKERS)),
        }
    }
}

impl KubeClusters {
    /// Creates the adapter with an empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    fn server(&self, access: &Access) -> Result<Arc<Server>> {
        let key = client_key(access);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default();
        // The connections of a login that has expired are no longer used.
        let is_valid = |known: &CachedServer| known.expires.is_none_or(|end| end > now);
        if let Some(known) = lock(&self.servers).get(&key).filter(is_valid) {
            return Ok(known.server);
        }
        let server = Server {
            breaker: self.breaker(access),
            access: Some(access.clone()),
            ..Server::new(connect::client(access)?, &access.server)
        };
        let known = CachedServer {
            server: Arc::new(server),
            expires: match &access.login {
                Login::Issued(token) => Some(token.expires),
                _ => None,
            },
        };
        let mut servers = lock(&self.servers);
        servers.retain(is_valid);
        servers.insert(key, known.clone());
        Ok(known.server)
    }

    fn breaker(&self, access: &Access) -> Arc<Breaker> {
        let key = breaker_key(access);
        let mut breakers = lock(&self.breakers);
        breakers.get(&key).unwrap_or_else(|| {
            let breaker = Arc::<Breaker>::default();
            breakers.insert(key, breaker.clone());
            breaker
        })
    }
}

/// Returns the key of an access's breaker: all that decides whether the server answers. A token
/// that was issued for this installation is not a part of it, because it is replaced every few
/// minutes.
fn breaker_key(access: &Access) -> String {
    let options = (access.insecure_skip_tls_verify, access.allow_local);
    format!("{} {options:?}", access.identity())
}

/// Returns the key of an access's client.
fn client_key(access: &Access) -> String {
    let token = match &access.login {
        Login::Issued(token) => hex::encode(Sha256::digest(token.secret.expose())),
        _ => String::new(),
    };
    format!("{} {token}", breaker_key(access))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl Clusters for KubeClusters {
    async fn connect(
        &self,
        access: &Access,
        user: Option<&Impersonation>,
    ) -> Result<Arc<dyn Cluster>> {
        Ok(Arc::new(KubeCluster::new(self.server(access)?, user)?))
    }
}

impl Server {
    fn new(client: kube::Client, name: &str) -> Self {
        Self {
            client,
            access: None,
            watches: Mutex::default(),
            discovery: Discovery::default(),
            breaker: Arc::default(),
            limiter: Limiter::default(),
            tokens: ExpiringCache::default(),
            name: name.to_owned(),
        }
    }

    /// Returns the client of watches. They have their own connections, so that they take none from
    /// requests.
    fn watch_client(&self) -> Result<kube::Client> {
        let Some(access) = &self.access else {
            return Ok(self.client.clone());
        };
        let mut known = lock(&self.watches);
        if let Some(client) = known.as_ref() {
            return Ok(client.clone());
        }
        let client = connect::watch_client(access)?;
        *known = Some(client.clone());
        Ok(client)
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
        B::Error: Into<tower::BoxError> + Send,
    {
        let client = connect::client_of(service);
        Self::new(Arc::new(Server::new(client, name)), user)
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
            limiter: &self.server.limiter,
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

    async fn list(&self, request: &ListRequest<'_>) -> Result<Vec<Object>> {
        let answer = self.caller().list(request).await;
        self.forget_if_not_served(request.resource, answer)
    }

    async fn page(&self, resource: &Resource, selector: &str, next: &str) -> Result<Page> {
        let answer = self.caller().page(resource, "", selector, next).await;
        self.forget_if_not_served(resource, answer)
    }

    async fn watch(
        &self,
        resource: &Resource,
        selector: &str,
        version: &str,
        time: Duration,
    ) -> Result<Changes> {
        let caller = self.caller();
        let answer = caller.watch(resource, selector, version, time).await;
        self.forget_if_not_served(resource, answer)
    }

    fn follow(&self, request: &FollowRequest) -> Following {
        match self.server.watch_client() {
            Ok(client) => follow::follow(client, self.user.clone(), &self.server.name, request),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }

    async fn apply(&self, request: &ApplyRequest<'_>) -> Result<Object> {
        let answer = self.caller().apply(request).await;
        self.forget_if_not_served(request.resource, answer)
    }

    async fn create(&self, resource: &Resource, object: &Object, manager: &str) -> Result<Object> {
        let answer = self.caller().create(resource, object, manager).await;
        self.forget_if_not_served(resource, answer)
    }

    async fn patch(&self, request: &PatchRequest<'_>) -> Result<Object> {
        let answer = self.caller().patch(request).await;
        self.forget_if_not_served(request.resource, answer)
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
        let own = self.clone();
        let make = |(_, request)| async move { own.caller().token(&request).await.map(expiring) };
        let key = (self.user.clone(), request.clone());
        self.server.tokens.get(key, now, make).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_kernel::ports::Secret;

    fn access(number: usize, login: Login) -> Access {
        Access {
            server: format!("https://cluster-{number}.example.com"),
            certificate_authority: None,
            tls_server_name: None,
            insecure_skip_tls_verify: false,
            allow_local: false,
            login,
            namespace: None,
        }
    }

    fn issued(secret: &str, expires: Duration) -> Login {
        let secret = Secret::new(secret.to_owned());
        Login::Issued(Token { secret, expires })
    }

    /// Sweeps read all clusters in one order.
    #[tokio::test]
    async fn a_sweep_over_a_thousand_clusters_keeps_clients_and_breakers() {
        let clusters = KubeClusters::new();
        let token = || Login::Token(Secret::new("token"));
        let sweep = || (0..1000).map(|number| clusters.server(&access(number, token())).unwrap());
        let first: Vec<Arc<Server>> = sweep().collect();
        let second: Vec<Arc<Server>> = sweep().collect();
        for (first, second) in first.iter().zip(&second) {
            assert!(Arc::ptr_eq(first, second), "{}", first.name);
        }
    }

    #[tokio::test]
    async fn a_breaker_outlives_the_client() {
        let mut clusters = KubeClusters::new();
        clusters.servers = Mutex::new(Lru::new(300));
        let token = || Login::Token(Secret::new("token"));
        let sweep = || (0..400).map(|number| clusters.server(&access(number, token())).unwrap());
        let first: Vec<Arc<Server>> = sweep().collect();
        let second: Vec<Arc<Server>> = sweep().collect();
        for (first, second) in first.iter().zip(&second) {
            assert!(!Arc::ptr_eq(first, second), "{}: was evicted", first.name);
            assert!(
                Arc::ptr_eq(&first.breaker, &second.breaker),
                "{}",
                first.name
            );
        }
    }

    #[tokio::test]
    async fn a_new_token_has_a_new_client_and_the_same_breaker() {
        let clusters = KubeClusters::new();
        let server = |login: Login| clusters.server(&access(1, login)).unwrap();
        let first = server(issued("a", Duration::MAX));
        assert!(Arc::ptr_eq(&first, &server(issued("a", Duration::MAX))));
        let second = server(issued("b", Duration::MAX));
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&first.breaker, &second.breaker));
        let expired = server(issued("c", Duration::from_secs(1)));
        assert!(!Arc::ptr_eq(
            &expired,
            &server(issued("c", Duration::from_secs(1)))
        ));
        // Another login may be refused in the TLS handshake.
        let other = server(Login::Token(Secret::new("d")));
        assert!(!Arc::ptr_eq(&first.breaker, &other.breaker));
    }
}
