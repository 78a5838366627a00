//! One API server: its objects, its custom definitions, and the way of a request.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::ApiError;
use crate::impersonation::Remembered;
use crate::registry::{Builtin, Resource};
use crate::request::{Moment, Query, Request, Response};
use crate::store::{Key, Store};
use crate::target::{Place, Target};
use crate::tokens::Issued;
use crate::{bootstrap, convert, discovery, impersonation, rbac};

/// An in-memory API server. It does nothing by itself: [`Server::handle`] answers one request at a time.
#[derive(Clone, Debug)]
pub struct Server {
    pub(crate) builtin: Arc<Builtin>,
    /// Custom resources by `group/version` and plural.
    pub(crate) custom: BTreeMap<(String, String), Arc<Resource>>,
    pub(crate) store: Store,
    pub(crate) next_address: u32,
    pub(crate) next_port: u32,
    /// Tokens of service accounts.
    pub(crate) tokens: BTreeMap<String, Issued>,
    /// The version up to which workloads have the status of ones whose pods run.
    pub(crate) ran: u64,
    /// Major, minor and patch version of Kubernetes that the server says it has.
    pub(crate) kubernetes: [u64; 3],
    /// How users impersonated others the last time.
    pub(crate) impersonation: Remembered,
    /// The version up to which aggregated cluster roles have their rules.
    pub(crate) aggregated: u64,
}

/// Subresources that are a node's work.
const NOT_SERVED: [&str; 7] = [
    "attach",
    "binding",
    "eviction",
    "exec",
    "log",
    "portforward",
    "proxy",
];

/// A request on its way.
pub(crate) struct Call<'a> {
    pub request: &'a Request,
    pub query: Query,
    pub target: Target,
    pub moment: Moment,
    pub warnings: Vec<String>,
    pub user: crate::request::User,
}

impl Server {
    /// A new cluster: the namespaces and roles that every cluster starts with.
    pub fn new(moment: Moment) -> Self {
        let mut server = Self {
            builtin: Builtin::shared(),
            custom: BTreeMap::new(),
            store: Store::default(),
            next_address: 1,
            next_port: 0,
            tokens: BTreeMap::new(),
            ran: 0,
            kubernetes: discovery::KUBERNETES,
            impersonation: Remembered::default(),
            aggregated: 0,
        };
        bootstrap::fill(&mut server, moment);
        server
    }

    /// The newest resourceVersion. It moves with every write, so a server of watches can wait for it.
    pub fn version(&self) -> u64 {
        self.store.version()
    }

    /// Says from now on that it has this version of Kubernetes, for clients that ask. What it serves stays the same.
    pub fn tell_version(&mut self, kubernetes: [u64; 3]) {
        self.kubernetes = kubernetes;
    }

    /// Answers a request.
    pub fn handle(&mut self, request: &Request, moment: Moment) -> Response {
        let response = self
            .answer(request, moment.clone())
            .unwrap_or_else(Response::from);
        crate::aggregation::run(self, &moment);
        response
    }

    pub(crate) fn answer(
        &mut self,
        request: &Request,
        moment: Moment,
    ) -> Result<Response, ApiError> {
        let place = Place::parse(&request.path);
        let query = Query::parse(&request.query);
        let verb = place.verb(&request.method, &query);
        let name = rbac::selected_name(&query);
        let attributes = rbac::Attributes::of(verb, &place, name.as_deref());
        let user = impersonation::impersonated(self, request, &attributes)?;
        rbac::authorize(self, &user, &attributes)?;
        let found = match &place {
            Place::Other(path) => return discovery::answer(self, request, path),
            Place::Resource {
                api_version,
                plural,
                ..
            } => self.resource(api_version, plural),
        };
        let Some(resource) = found else {
            return match &place {
                Place::Resource { api_version, .. } if !self.is_builtin(api_version) => {
                    Ok(discovery::nowhere())
                }
                _ => Err(ApiError::no_such_path()),
            };
        };
        let Some(target) = Target::new(place, resource) else {
            return Ok(discovery::nowhere());
        };
        let mut call = Call {
            request,
            query,
            target,
            moment,
            warnings: Vec::new(),
            user,
        };
        let mut response = self
            .dispatch(verb, &mut call)
            .unwrap_or_else(Response::from);
        for warning in call.warnings {
            let text = warning.replace('\\', "\\\\").replace('"', "\\\"");
            response
                .headers
                .push(("Warning".into(), format!("299 - \"{text}\"")));
        }
        Ok(response)
    }

    fn dispatch(&mut self, verb: &str, call: &mut Call<'_>) -> Result<Response, ApiError> {
        let target = &call.target;
        let allowed = match &target.subresource {
            Some(sub) => target.resource.subresources.get(sub).ok_or_else(|| {
                match target.resource.custom {
                    Some(_) => ApiError::not_found(&target.resource, &target.name),
                    None => ApiError::no_such_path(),
                }
            })?,
            None => &target.resource.verbs,
        };
        let named = match verb {
            "create" => target.name.is_empty() || target.subresource.is_some(),
            "update" | "patch" => !target.name.is_empty(),
            _ => true,
        };
        if !named || !allowed.iter().any(|known| known == verb) {
            return Err(ApiError::new(
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            ));
        }
        if target.resource.custom.is_none() && NOT_SERVED.contains(&target.sub()) {
            return Err(ApiError::new(
                501,
                "NotImplemented",
                format!(
                    "this server has no nodes: {}/{} is not served",
                    target.resource.plural,
                    target.sub()
                ),
            ));
        }
        let warning = deprecation(&target.resource);
        call.warnings.extend(warning);
        if let Some(response) = self.virtual_resource(call)? {
            return Ok(response);
        }
        match verb {
            "get" => self.get(call),
            "list" => self.list(call),
            "watch" => self.watch(call),
            "create" => self.create(call),
            "update" => self.update(call),
            "patch" => self.patch(call),
            "delete" => self.delete(call),
            "deletecollection" => self.delete_collection(call),
            other => Err(ApiError::new(
                405,
                "MethodNotAllowed",
                format!("{other} is not supported"),
            )),
        }
    }

    /// A resource by `group/version` and plural.
    pub fn resource(&self, api_version: &str, plural: &str) -> Option<Arc<Resource>> {
        let key = (api_version.to_owned(), plural.to_owned());
        self.builtin
            .resources
            .get(&key)
            .or_else(|| self.custom.get(&key))
            .cloned()
    }

    fn is_builtin(&self, api_version: &str) -> bool {
        self.builtin
            .resources
            .values()
            .any(|resource| resource.api_version_ref() == api_version)
    }

    /// All resources, built-in ones first.
    pub(crate) fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.builtin.resources.values().chain(self.custom.values())
    }
}

/// What the use of a resource warns of.
fn deprecation(resource: &Resource) -> Option<String> {
    if let Some(custom) = &resource.custom {
        return custom.deprecation(&resource.version);
    }
    resource.is("", "endpoints").then(|| {
        "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned()
    })
}

impl Resource {
    /// Where the store keeps it.
    pub(crate) fn key(&self) -> Key {
        (convert::home_group(self).to_owned(), self.plural.clone())
    }
}
