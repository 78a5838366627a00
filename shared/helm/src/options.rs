//! The inputs of a render in addition to chart and values.

use crate::compat::Compat;
use crate::objects::Capabilities;
use driftless_fuel::Tank;
use driftless_gotmpl::Limits;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The release that is rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseInfo {
    /// `.Release.Name`
    pub name: String,
    /// `.Release.Namespace`
    pub namespace: String,
    /// `.Release.Revision`
    pub revision: i64,
    /// `.Release.IsUpgrade`; `.Release.IsInstall` is its opposite.
    pub is_upgrade: bool,
}

/// The key of a `lookup` in a template, of one object or all of a kind in a namespace: apiVersion,
/// kind, namespace, name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lookup {
    /// `apps/v1`
    pub api_version: String,
    /// `Deployment`
    pub kind: String,
    /// The namespace; empty for all namespaces, or for cluster-scoped kinds.
    pub namespace: String,
    /// The name; empty for a list.
    pub name: String,
}

/// The inputs of a render in addition to chart and values.
#[derive(Clone, Debug)]
pub struct Options {
    /// The version of Helm to reproduce.
    pub compat: Compat,
    /// The release that is rendered.
    pub release: ReleaseInfo,
    /// The capabilities of the cluster.
    pub capabilities: Capabilities,
    /// The result of `now`, in seconds and nanoseconds since 1970.
    pub now: (i64, u32),
    /// The seed of all random functions: the same seed produces the same keys and passwords.
    pub entropy: [u8; 32],
    /// The objects for `lookup`, null for those that do not exist; `None` without a cluster, where
    /// `lookup` finds nothing.
    pub lookups: Option<Arc<BTreeMap<Lookup, Json>>>,
    /// The total limits of the templates.
    pub limits: Limits,
    /// The fuel of the step that the render is part of.
    pub fuel: Tank,
}

impl Options {
    /// Returns the options of a first installation under this name, as `helm template` renders it:
    /// Helm 3, no cluster, the clock and the seed at zero.
    pub fn new(name: impl Into<String>, namespace: impl Into<String>) -> Self {
        Self {
            compat: Compat::Helm3,
            release: ReleaseInfo {
                name: name.into(),
                namespace: namespace.into(),
                revision: 1,
                is_upgrade: false,
            },
            capabilities: Capabilities::default(),
            now: (0, 0),
            entropy: [0; 32],
            lookups: None,
            limits: Limits::default(),
            fuel: Tank::default(),
        }
    }
}
