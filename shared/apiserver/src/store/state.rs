//! The resources and objects of one server.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::resources::{Builtin, Resource};
use crate::store::Store;

/// The resources and objects of one server.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub builtin: Arc<Builtin>,
    /// Custom resources by `group/version` and plural.
    pub custom: BTreeMap<(String, String), Arc<Resource>>,
    pub store: Store,
    /// The number of the last service address.
    pub next_address: u32,
    /// The number of the last node port.
    pub next_port: u32,
    /// The version of Kubernetes that the server reports: major, minor, patch.
    pub kubernetes: [u64; 3],
}

/// The version of Kubernetes that a server reports by default.
const KUBERNETES: [u64; 3] = [1, 36, 3];

impl State {
    /// Returns a state without objects and custom resources.
    pub(crate) fn new() -> Self {
        Self {
            builtin: Builtin::shared(),
            custom: BTreeMap::new(),
            store: Store::default(),
            next_address: 1,
            next_port: 0,
            kubernetes: KUBERNETES,
        }
    }

    /// Returns a resource by `group/version` and plural.
    pub(crate) fn resource(&self, api_version: &str, plural: &str) -> Option<Arc<Resource>> {
        let key = (api_version.to_owned(), plural.to_owned());
        self.builtin
            .resources
            .get(&key)
            .or_else(|| self.custom.get(&key))
            .cloned()
    }

    /// Returns whether a `group/version` is one of the built-in ones.
    pub(crate) fn is_builtin(&self, api_version: &str) -> bool {
        self.builtin
            .resources
            .values()
            .any(|resource| resource.api_version_ref() == api_version)
    }

    /// Returns all resources, built-in ones first.
    pub(crate) fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.builtin.resources.values().chain(self.custom.values())
    }
}
