//! Groups, versions and resources.

mod custom;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

pub(crate) use custom::Compiled;
pub use custom::Custom;

use crate::schema::{Id, Schema, builtin};
use crate::values::{join, owned, texts};

/// One resource in one version.
#[derive(Clone, Debug)]
pub struct Resource {
    /// The API group; empty for the core group.
    pub group: String,
    /// `group/version`, or the version alone.
    pub api_version: String,
    /// The version without the group.
    pub version: String,
    /// The name in paths.
    pub plural: String,
    /// The kind of its objects.
    pub kind: String,
    /// True if its objects are in namespaces.
    pub namespaced: bool,
    /// The verbs of the resource itself.
    pub verbs: Vec<String>,
    /// Subresources and their verbs.
    pub subresources: BTreeMap<String, Vec<String>>,
    /// The schema with the type of its objects.
    pub schema: Arc<Schema>,
    /// The object's type.
    pub id: Id,
    /// The definition of a custom resource.
    pub custom: Option<Arc<Custom>>,
}

impl Resource {
    /// Returns `group/version`, or only the version for the core group.
    pub fn api_version(&self) -> String {
        self.api_version.clone()
    }

    /// Returns [`Resource::api_version`], borrowed.
    pub fn api_version_ref(&self) -> &str {
        &self.api_version
    }

    /// Returns the plural name with the group: `deployments.apps`, or `pods`.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// Returns whether the resource has the subresource `status`.
    pub fn has_status(&self) -> bool {
        self.subresources.contains_key("status")
    }

    /// Returns the group that its objects are stored under: events are stored in the core group.
    pub(crate) fn home_group(&self) -> &str {
        if self.is("events.k8s.io", "events") {
            ""
        } else {
            &self.group
        }
    }

    /// Returns the key of its objects in the store.
    pub(crate) fn key(&self) -> (String, String) {
        (self.home_group().to_owned(), self.plural.clone())
    }

    /// Returns whether it is the built-in resource with this group and plural name.
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.custom.is_none() && self.group == group && self.plural == plural
    }
}

/// The built-in part, shared by all servers.
#[derive(Debug)]
pub struct Builtin {
    /// Resources by `group/version` and plural.
    pub resources: BTreeMap<(String, String), Arc<Resource>>,
    /// The groups in the order of discovery, as aggregated discovery shows them.
    pub groups: Vec<Value>,
}

impl Builtin {
    /// Returns the table of built-in resources, read once and shared.
    pub fn shared() -> Arc<Self> {
        static SHARED: OnceLock<Arc<Builtin>> = OnceLock::new();
        Arc::clone(SHARED.get_or_init(|| Arc::new(Self::read())))
    }

    fn read() -> Self {
        let groups: Value =
            serde_json::from_str(include_str!("discovery.json")).unwrap_or_default();
        let schema = builtin();
        let mut resources = BTreeMap::new();
        let mut kept = Vec::new();
        for group in groups.as_array().cloned().unwrap_or_default() {
            let name = owned(&group["metadata"]["name"]);
            for version in group["versions"].as_array().into_iter().flatten() {
                for entry in version["resources"].as_array().into_iter().flatten() {
                    let resource =
                        read_resource(&name, &owned(&version["version"]), entry, &schema);
                    resources.insert(
                        (resource.api_version(), resource.plural.clone()),
                        Arc::new(resource),
                    );
                }
            }
            kept.push(group);
        }
        Self {
            resources,
            groups: kept,
        }
    }
}

fn read_resource(group: &str, version: &str, entry: &Value, schema: &Arc<Schema>) -> Resource {
    let kind = owned(&entry["responseKind"]["kind"]);
    let api_version = join(group, version);
    let id = schema
        .kinds
        .get(&format!("{api_version}/{kind}"))
        .copied()
        .unwrap_or(crate::schema::UNTYPED_GRANULAR);
    Resource {
        api_version,
        group: group.to_owned(),
        version: version.to_owned(),
        plural: owned(&entry["resource"]),
        kind,
        namespaced: entry["scope"] == "Namespaced",
        verbs: texts(&entry["verbs"]),
        subresources: entry["subresources"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|sub| (owned(&sub["subresource"]), texts(&sub["verbs"])))
            .collect(),
        schema: Arc::clone(schema),
        id,
        custom: None,
    }
}
