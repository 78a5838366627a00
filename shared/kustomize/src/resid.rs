//! Ids of objects: group, version, kind, name and namespace, and filters on them.

use crate::declare::declare;
use crate::schema::Schema;
use std::borrow::Cow;
use std::cmp::Ordering;

/// The namespace of objects without one.
pub(crate) const CLUSTER: &str = "_non_namespaceable_";
const DEFAULT: &str = "default";

declare! {
    /// Group, version and kind, where empty means any.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct GvkFilter {
        "group" pub group: Cow<'static, str>,
        "version" pub version: Cow<'static, str>,
        "kind" pub kind: Cow<'static, str>,
    }
}

impl GvkFilter {
    pub fn kind(kind: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind: kind.into(),
            ..Self::default()
        }
    }

    /// Checks whether this filter accepts `gvk`.
    pub fn selects(&self, gvk: Gvk<'_>) -> bool {
        (self.group.is_empty() || self.group == gvk.group)
            && (self.version.is_empty() || self.version == gvk.version)
            && (self.kind.is_empty() || self.kind == gvk.kind)
    }

    /// Checks whether this filter accepts an object. Most filters name only a kind: then its
    /// `apiVersion` is not read.
    pub fn selects_object(&self, api_version: &str, kind: &str) -> bool {
        let is_kind = self.kind.is_empty() || self.kind == kind;
        let is_any_group = self.group.is_empty() && self.version.is_empty();
        is_kind && (is_any_group || self.selects(Gvk::new(api_version, kind)))
    }

    pub fn as_gvk(&self) -> Gvk<'_> {
        Gvk {
            group: &self.group,
            version: &self.version,
            kind: &self.kind,
        }
    }
}

/// Group, version and kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Gvk<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
}

impl<'a> Gvk<'a> {
    pub fn new(api_version: &'a str, kind: &'a str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self {
            group,
            version,
            kind,
        }
    }

    /// Returns the key by which kustomize orders kinds, with placeholders for missing parts.
    pub fn sort_key(self) -> String {
        self.sort_key_parts().concat()
    }

    /// Compares the keys by which kustomize orders kinds, without creating them.
    pub fn cmp_sort_key(self, other: Gvk<'_>) -> Ordering {
        let (own, other) = (self.sort_key_parts(), other.sort_key_parts());
        let bytes = own.iter().flat_map(|part| part.bytes());
        bytes.cmp(other.iter().flat_map(|part| part.bytes()))
    }

    fn sort_key_parts(self) -> [&'a str; 5] {
        let group = or(self.group, "~G");
        let version = or(self.version, "~V");
        [group, "_", version, "_", or(self.kind, "~K")]
    }
}

/// Formats it as `Kind.version.group`, like kustomize.
impl std::fmt::Display for Gvk<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}.{}.{}",
            or(self.kind, "[noKind]"),
            or(self.version, "[noVer]"),
            or(self.group, "[noGrp]")
        )
    }
}

/// Returns `text`, or `none` if it is empty.
pub(crate) fn or<'t>(text: &'t str, none: &'t str) -> &'t str {
    if text.is_empty() { none } else { text }
}

/// One id that an object has or had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id<'a> {
    pub gvk: Gvk<'a>,
    pub name: &'a str,
    /// The namespace in the object; empty if missing.
    pub namespace: &'a str,
    /// True if the kind is known to be cluster-scoped.
    pub cluster: bool,
}

impl<'a> Id<'a> {
    /// Returns the namespace for comparing ids: `default` if empty.
    pub fn effective_namespace(&self) -> &'a str {
        if self.cluster {
            CLUSTER
        } else if self.namespace.is_empty() {
            DEFAULT
        } else {
            self.namespace
        }
    }

    pub fn same_namespace(&self, other: &Id<'_>) -> bool {
        self.effective_namespace() == other.effective_namespace()
    }

    /// Checks for the same kind, name and effective namespace.
    pub fn is(&self, other: &Id<'_>) -> bool {
        self.name == other.name && self.gvk == other.gvk && self.same_namespace(other)
    }

    /// Returns a key that is equal for equal ids.
    pub fn key(&self) -> String {
        let Gvk {
            group,
            version,
            kind,
        } = self.gvk;
        [group, version, kind, self.effective_namespace(), self.name].join("\0")
    }
}

/// Formats it as `Kind.version.group/name.namespace`, like kustomize.
impl std::fmt::Display for Id<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, namespace) = (or(self.name, "[noName]"), or(self.namespace, "[noNs]"));
        write!(f, "{}/{name}.{namespace}", self.gvk)
    }
}

/// An id in a kustomization: a kind, a name, a namespace, where empty means any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IdFilter {
    pub gvk: GvkFilter,
    pub name: String,
    pub namespace: String,
}

impl IdFilter {
    /// Checks whether the filter matches an id of an object. A given namespace is compared in its
    /// effective form.
    pub fn selects(&self, id: &Id<'_>, schema: &Schema) -> bool {
        if !(self.name.is_empty() || self.name == id.name) || !self.gvk.selects(id.gvk) {
            return false;
        }
        self.namespace.is_empty() || self.id(schema).same_namespace(id)
    }

    pub fn id<'a>(&'a self, _schema: &Schema) -> Id<'a> {
        // kustomize creates these ids without the schema, so they are never cluster-scoped.
        Id {
            gvk: self.gvk.as_gvk(),
            name: &self.name,
            namespace: &self.namespace,
            cluster: false,
        }
    }
}
