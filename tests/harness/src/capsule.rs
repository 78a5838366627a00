//! Stand-ins of Capsule on a real API server: its proxy, which checks who asks and acts as that
//! user, and its controller, which gives the owners of Tenants their rights and distributes the
//! objects of GlobalTenantResources.

use crate::cluster::{Api, Cluster};
use crate::http::Http;
use crate::runtime::Listening;
use crate::tls::Identity;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, Method, Response, StatusCode};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The label of the namespaces of a Tenant.
const TENANT: &str = "capsule.clastix.io/tenant";
/// The label of the objects that a GlobalTenantResource replicates, with its name.
const REPLICATED: &str = "capsule.clastix.io/replicated-by";
const TENANTS: &str = "/apis/capsule.clastix.io/v1beta2/tenants";
const RESOURCES: &str = "/apis/capsule.clastix.io/v1beta2/globaltenantresources";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const MANAGER: &str = "capsule";
/// The largest body of a request, in bytes.
const LIMIT: usize = 16 << 20;

/// A request to the proxy, and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyCall {
    /// The user of the bearer token; empty without a valid token.
    pub user: String,
    /// The HTTP method.
    pub method: String,
    /// The path without the query.
    pub path: String,
    /// The status of the answer.
    pub status: u16,
}

/// A running Capsule proxy in front of a cluster; it ends with its owner.
pub struct CapsuleProxy {
    server: Listening,
    authority: String,
    calls: Arc<Mutex<Vec<ProxyCall>>>,
}

impl CapsuleProxy {
    /// Starts a proxy for a cluster.
    pub fn start(cluster: &Cluster) -> Self {
        let identity = Identity::new();
        let authority = identity.authority.clone();
        let calls: Arc<Mutex<Vec<ProxyCall>>> = Arc::default();
        let token = format!("Bearer {}", cluster.token());
        let server = Arc::new(Upstream {
            url: cluster.url(),
            http: Http::trusting(cluster.ca()).with_header("authorization", &token),
            api: cluster.api().clone(),
            reconciled: OnceLock::new(),
        });
        let known = Arc::clone(&calls);
        let app = Router::new().fallback(move |request: Request| {
            let (server, calls) = (Arc::clone(&server), Arc::clone(&known));
            async move { respond(server, &calls, request).await }
        });
        Self {
            server: Listening::start(app, Some(identity)),
            authority,
            calls,
        }
    }

    /// Returns the proxy's address, `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("https://{}", self.server.address())
    }

    /// Returns the certificate authority of the proxy (PEM).
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns the requests so far, oldest first.
    pub fn calls(&self) -> Vec<ProxyCall> {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.clone()
    }
}

/// The API server behind the proxy, as its administrator.
struct Upstream {
    url: String,
    http: Http,
    api: Api,
    /// Set when Capsule's controller has seen the first Tenants.
    reconciled: OnceLock<()>,
}

/// A request that the proxy has received.
struct Incoming {
    method: Method,
    path: String,
    query: String,
    headers: HeaderMap,
    body: Vec<u8>,
}

/// An answer of the proxy: the status, the content type and the body.
type Reply = (u16, String, Vec<u8>);

impl Incoming {
    fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }
}

async fn respond(
    server: Arc<Upstream>,
    calls: &Mutex<Vec<ProxyCall>>,
    request: Request,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let incoming = Incoming {
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: parts.headers,
        body: to_bytes(body, LIMIT).await.unwrap_or_default().to_vec(),
        method: parts.method,
    };
    let (method, path) = (incoming.method.to_string(), incoming.path.clone());
    let answer = tokio::task::spawn_blocking(move || {
        let user = server.user(incoming.header("authorization"));
        let reply = server.answer(&user, &incoming);
        (user, reply)
    });
    let (user, (status, kind, body)) = answer.await.expect("answer a request");
    calls
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(ProxyCall {
            user,
            method,
            path,
            status,
        });
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    Response::builder()
        .status(status)
        .header("content-type", kind)
        .body(Body::from(body))
        .expect("an answer")
}

/// Renders a refusal as an API server does.
fn refusal(code: u16, reason: &str, message: &str) -> Reply {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": reason, "message": message});
    let kind = "application/json".to_owned();
    (code, kind, status.to_string().into_bytes())
}

impl Upstream {
    /// Returns the user of a bearer token, by a TokenReview; empty if the token is not valid.
    fn user(&self, authorization: &str) -> String {
        let Some(token) = authorization.strip_prefix("Bearer ") else {
            return String::new();
        };
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "spec": {"token": token}});
        let reviewed = self
            .api
            .create("/apis/authentication.k8s.io/v1/tokenreviews", &review);
        let status = reviewed.expect("a TokenReview")["status"].clone();
        match status["authenticated"] == true {
            true => text(&status["user"]["username"]),
            false => String::new(),
        }
    }

    /// Answers a request as its user, or refuses it.
    fn answer(&self, user: &str, incoming: &Incoming) -> Reply {
        if user.is_empty() {
            return refusal(401, "Unauthorized", "the proxy knows no such token");
        }
        let tenants = tenants(&self.api);
        let owned: Vec<&Value> = tenants.iter().filter(|one| is_owner(one, user)).collect();
        if owned.is_empty() {
            let message = format!("{user} owns no Tenant");
            return refusal(403, "Forbidden", &message);
        }
        self.reconciled.get_or_init(|| reconcile(&self.api));
        let acting = match incoming.header("impersonate-user") {
            "" => user,
            other if self.may_impersonate(user, other) => other,
            other => {
                let message = format!("{user} cannot impersonate {other}");
                return refusal(403, "Forbidden", &message);
            }
        };
        let is_write = incoming.method != Method::GET;
        let namespace = namespace_of(incoming);
        if let Some(name) = namespace.as_deref().filter(|_| is_write) {
            // Capsule's webhook: an owner changes only the namespaces of its Tenants.
            let live = self.api.find(&format!("/api/v1/namespaces/{name}"));
            let is_own = |live: &Value| owned.iter().any(|tenant| has_namespace(tenant, live));
            if live.is_some_and(|live| !is_own(&live)) {
                let message =
                    format!("namespaces {name:?} is forbidden: no Tenant of {user} has it");
                return refusal(403, "Forbidden", &message);
            }
        }
        let reply = self.forward(acting, incoming);
        if let Some(name) = namespace.filter(|_| is_write && reply.0 < 300) {
            self.adopt(&name, owned[0]);
        }
        reply
    }

    /// Checks whether a user may act as another one, by a SubjectAccessReview.
    fn may_impersonate(&self, user: &str, other: &str) -> bool {
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": {"verb": "impersonate", "resource": "users", "name": other}}});
        let reviewed = self.api.create(
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            &review,
        );
        reviewed.expect("a SubjectAccessReview")["status"]["allowed"] == true
    }

    /// Passes a request on as this user.
    fn forward(&self, user: &str, incoming: &Incoming) -> Reply {
        let query = match incoming.query.is_empty() {
            true => String::new(),
            false => format!("?{}", incoming.query),
        };
        let url = format!("{}{}{query}", self.url, incoming.path);
        let mut headers = vec![("impersonate-user", user)];
        for name in ["content-type", "accept"] {
            let value = incoming.header(name);
            if !value.is_empty() {
                headers.push((name, value));
            }
        }
        let body = (!incoming.body.is_empty()).then_some(incoming.body.as_slice());
        let sent = self
            .http
            .send(incoming.method.as_str(), &url, &headers, body);
        match sent {
            Ok(answer) => {
                let kind = answer.header("content-type").to_owned();
                (answer.status, kind, answer.body)
            }
            Err(error) => refusal(503, "ServiceUnavailable", &error.to_string()),
        }
    }

    /// Makes a created namespace one of the Tenant's, as Capsule's webhook and controller do.
    fn adopt(&self, name: &str, tenant: &Value) {
        let path = format!("/api/v1/namespaces/{name}");
        let Some(live) = self
            .api
            .find(&path)
            .filter(|live| !has_namespace(tenant, live))
        else {
            return;
        };
        let labels = json!({TENANT: text(&tenant["metadata"]["name"])});
        let owner = json!({"apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant",
            "name": tenant["metadata"]["name"], "uid": tenant["metadata"]["uid"]});
        let patch = json!({"metadata": {"labels": labels, "ownerReferences": [owner],
            "resourceVersion": live["metadata"]["resourceVersion"]}});
        self.api.patch(&path, &patch).expect("adopt a namespace");
        reconcile(&self.api);
    }
}

/// Returns the namespace that a request creates, changes or deletes itself.
fn namespace_of(incoming: &Incoming) -> Option<String> {
    let name = incoming.path.strip_prefix("/api/v1/namespaces")?;
    if name.is_empty() {
        let body: Value = serde_json::from_slice(&incoming.body).ok()?;
        return Some(text(&body["metadata"]["name"])).filter(|name| !name.is_empty());
    }
    let name = name.strip_prefix('/')?;
    (!name.contains('/')).then(|| name.to_owned())
}

/// Does the work of Capsule's controller once: the rights of the owners of Tenants, and the copies
/// of the objects of GlobalTenantResources in all namespaces of the selected Tenants. Copies of
/// deleted GlobalTenantResources are deleted.
///
/// # Panics
///
/// Panics if the API server refuses a request.
pub fn reconcile(api: &Api) {
    let tenants = tenants(api);
    provision(api, &tenants);
    let resources = api.list(RESOURCES).unwrap_or_default();
    let namespaces = api.list("/api/v1/namespaces").expect("the namespaces");
    let mut kept = BTreeSet::new();
    for tenant in &tenants {
        let name = text(&tenant["metadata"]["name"]);
        for namespace in namespaces.iter().filter(|one| has_namespace(tenant, one)) {
            let namespace = text(&namespace["metadata"]["name"]);
            let path = format!("/api/v1/namespaces/{namespace}");
            let labelled = json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": namespace, "labels": {TENANT: name}}});
            apply(api, &path, &labelled);
            for (role, subjects) in bindings(tenant) {
                let binding = format!("capsule-{name}-{role}");
                let path = format!("{RBAC}/namespaces/{namespace}/rolebindings/{binding}");
                let object = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                    "metadata": {"name": binding, "namespace": namespace},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                    "subjects": subjects});
                apply(api, &path, &object);
            }
            for resource in resources.iter().filter(|one| selects(one, tenant)) {
                for mut item in items(resource) {
                    let by = text(&resource["metadata"]["name"]);
                    item["metadata"]["namespace"] = json!(namespace);
                    item["metadata"]["labels"][REPLICATED] = json!(by);
                    let secret = text(&item["metadata"]["name"]);
                    let path = format!("/api/v1/namespaces/{namespace}/secrets/{secret}");
                    // One of the namespaces has the original.
                    let live = api.find(&path);
                    let is_original =
                        |live: &Value| live["metadata"]["labels"][REPLICATED].is_null();
                    if live.as_ref().is_some_and(is_original) {
                        continue;
                    }
                    apply(api, &path, &item);
                    kept.insert(path);
                }
            }
        }
    }
    let copies = api.list(&format!("/api/v1/secrets?labelSelector={REPLICATED}"));
    for copy in copies.expect("the copies") {
        let [namespace, name] = ["namespace", "name"].map(|field| text(&copy["metadata"][field]));
        let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
        if !kept.contains(&path) {
            api.delete(&path).expect("delete a copy");
        }
    }
}

/// Creates the roles by which owners create namespaces.
fn provision(api: &Api, tenants: &[Value]) {
    let name = "capsule-namespace-provisioner";
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["create", "patch", "get"]}]});
    apply(api, &format!("{RBAC}/clusterroles/{name}"), &role);
    let owners = tenants
        .iter()
        .flat_map(|tenant| list(&tenant["spec"]["owners"]));
    let subjects: Vec<Value> = owners.map(|owner| subject(&owner)).collect();
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": name}, "subjects": subjects,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}});
    apply(api, &format!("{RBAC}/clusterrolebindings/{name}"), &binding);
}

fn apply(api: &Api, path: &str, object: &Value) {
    let applied = api.apply(path, MANAGER, object);
    applied.unwrap_or_else(|refused| panic!("{path}: {refused}"));
}

fn tenants(api: &Api) -> Vec<Value> {
    api.list(TENANTS).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn is_owner(tenant: &Value, user: &str) -> bool {
    let owners = list(&tenant["spec"]["owners"]);
    owners.iter().any(|owner| owner["name"] == user)
}

/// Checks whether a namespace is one of a Tenant's, by its owner references and its label.
fn has_namespace(tenant: &Value, namespace: &Value) -> bool {
    let metadata = &namespace["metadata"];
    let (name, uid) = (&tenant["metadata"]["name"], &tenant["metadata"]["uid"]);
    let mut owners = list(&metadata["ownerReferences"]).into_iter();
    metadata["labels"][TENANT] == *name || owners.any(|owner| owner["uid"] == *uid)
}

/// Returns the roles in a Tenant's namespaces, each with its subjects.
fn bindings(tenant: &Value) -> BTreeMap<String, Vec<Value>> {
    let mut all: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for owner in list(&tenant["spec"]["owners"]) {
        all.entry("admin".to_owned())
            .or_default()
            .push(subject(&owner));
    }
    for more in list(&tenant["spec"]["additionalRoleBindings"]) {
        let subjects = all.entry(text(&more["clusterRoleName"])).or_default();
        subjects.extend(list(&more["subjects"]));
    }
    all
}

/// Renders an owner as the subject of a binding. A service account is the user of its name.
fn subject(owner: &Value) -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": owner["name"]})
}

/// Checks whether a GlobalTenantResource selects a Tenant. Capsule gives each Tenant the label with
/// its name.
fn selects(resource: &Value, tenant: &Value) -> bool {
    let labels = resource["spec"]["tenantSelector"]["matchLabels"].as_object();
    labels
        .into_iter()
        .flatten()
        .all(|(key, value)| match key.as_str() {
            "kubernetes.io/metadata.name" => *value == tenant["metadata"]["name"],
            key => *value == tenant["metadata"]["labels"][key],
        })
}

fn items(resource: &Value) -> Vec<Value> {
    let resources = list(&resource["spec"]["resources"]).into_iter();
    resources.flat_map(|one| list(&one["rawItems"])).collect()
}
