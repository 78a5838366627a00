//! The parser of request paths.

use std::sync::Arc;

use crate::authorization::Attributes;
use crate::objects::selector::Fields;
use crate::request::query::{Query, decode};
use crate::resources::Resource;
use crate::store::Name;

/// The parts of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestInfo {
    /// A collection, an object or a subresource.
    Resource {
        /// The group and version: `v1`, `apps/v1`.
        api_version: String,
        /// The namespace, or empty.
        namespace: String,
        /// The plural name of the resource.
        plural: String,
        /// The object, or empty.
        name: String,
        /// The subresource, or empty.
        subresource: String,
        /// True for the old `/watch/` form.
        watch: bool,
    },
    /// Discovery, health and the like.
    Other(String),
}

impl RequestInfo {
    /// Reads a path.
    pub fn parse(path: &str) -> Self {
        let parts: Vec<String> = path
            .split('/')
            .filter(|part| !part.is_empty())
            .map(decode)
            .collect();
        let texts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (api_version, rest) = match texts.as_slice() {
            ["api", version, rest @ ..] => ((*version).to_owned(), rest),
            ["apis", group, version, rest @ ..] => (format!("{group}/{version}"), rest),
            _ => return Self::Other(path.to_owned()),
        };
        let (watch, rest) = match rest {
            ["watch", rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let place = |namespace: &str, plural: &str, rest: &[&str]| Self::Resource {
            api_version: api_version.clone(),
            namespace: namespace.to_owned(),
            plural: plural.to_owned(),
            name: rest.first().copied().unwrap_or_default().to_owned(),
            subresource: rest.get(1..).unwrap_or_default().join("/"),
            watch,
        };
        match rest {
            [] => Self::Other(path.to_owned()),
            ["namespaces", namespace, sub @ ("status" | "finalize")] => {
                place(namespace, "namespaces", &[namespace, sub])
            }
            ["namespaces", namespace, plural, rest @ ..] => place(namespace, plural, rest),
            ["namespaces", namespace] => place(namespace, "namespaces", &[namespace]),
            [plural, rest @ ..] => place("", plural, rest),
        }
    }

    /// Returns the authorization attributes of a request for the path. `name` is the only object
    /// that a list or a watch selects by its field selector, if any: it counts as the name of the
    /// request, as in RequestInfo of apiserver 0.36.
    pub(crate) fn attributes<'a>(&'a self, verb: &'a str, name: Option<&'a str>) -> Attributes<'a> {
        match self {
            Self::Other(path) => Attributes {
                verb,
                path: Some(path),
                ..Attributes::default()
            },
            Self::Resource {
                api_version,
                namespace,
                plural,
                name: of_path,
                subresource,
                ..
            } => {
                let own_namespace = plural == "namespaces" && namespace.is_empty();
                let name = name.filter(|_| matches!(verb, "list" | "watch") && of_path.is_empty());
                Attributes {
                    verb,
                    group: api_version.split_once('/').map_or("", |(group, _)| group),
                    resource: plural,
                    subresource: subresource.split('/').next().unwrap_or_default(),
                    // A request for a namespace is a request in that namespace.
                    namespace: if own_namespace { of_path } else { namespace },
                    name: name.unwrap_or(of_path),
                    path: None,
                }
            }
        }
    }

    /// Returns the verb of a method, as RBAC names it.
    pub fn verb(&self, method: &str, query: &Query) -> &'static str {
        let Self::Resource { name, watch, .. } = self else {
            return match method {
                "GET" => "get",
                "HEAD" => "head",
                "POST" => "post",
                "PUT" => "put",
                "PATCH" => "patch",
                "DELETE" => "delete",
                "OPTIONS" => "options",
                _ => "",
            };
        };
        match method {
            "GET" | "HEAD" if *watch || query.flag("watch") => "watch",
            "GET" | "HEAD" if name.is_empty() => "list",
            "GET" | "HEAD" => "get",
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" if name.is_empty() => "deletecollection",
            "DELETE" => "delete",
            _ => "",
        }
    }
}

/// The resource, and the object or collection of it, that a request is for.
#[derive(Clone, Debug)]
pub struct Target {
    /// The resource in the version of the path.
    pub resource: Arc<Resource>,
    /// The namespace, or empty.
    pub namespace: String,
    /// The object, or empty.
    pub name: String,
    /// The subresource, if the path has one.
    pub subresource: Option<String>,
}

impl Target {
    pub(crate) fn new(place: RequestInfo, resource: Arc<Resource>) -> Option<Self> {
        let RequestInfo::Resource {
            namespace,
            name,
            subresource,
            ..
        } = place
        else {
            return None;
        };
        let own_namespace = if resource.namespaced {
            namespace
        } else if namespace.is_empty() || resource.is("", "namespaces") {
            String::new()
        } else {
            return None;
        };
        Some(Self {
            resource,
            namespace: own_namespace,
            name,
            subresource: (!subresource.is_empty()).then_some(subresource),
        })
    }

    /// Returns the object's key in the store.
    pub fn key(&self) -> Name {
        (self.namespace.clone(), self.name.clone())
    }

    /// Returns the subresource, or an empty string.
    pub fn sub(&self) -> &str {
        self.subresource.as_deref().unwrap_or_default()
    }
}

/// Returns the object name that the field selector of a request requires, if any.
pub(crate) fn selected_name(query: &Query) -> Option<String> {
    let fields = Fields::parse(query.get("fieldSelector")).ok()?;
    let name = fields.name()?;
    let is_name = !name.is_empty() && driftless_manifest::names::path_segment(name).is_empty();
    is_name.then(|| name.to_owned())
}
