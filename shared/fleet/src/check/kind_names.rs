//! The plural and scope of kinds that the cluster does not define.

use crate::embedded::{Objects, World};
use driftless_flux::FluxKind;
use driftless_manifest::yaml::Node;
use driftless_manifest::{Gvk, ObjectId};
use serde_json::Value;

/// The plural and the scope of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The plural, as in URLs.
    pub plural: String,
    /// True if the kind is namespaced.
    pub namespaced: bool,
}

/// API groups with only cluster-scoped kinds.
const CLUSTER_GROUPS: [&str; 2] = ["constraints.gatekeeper.sh", "templates.gatekeeper.sh"];

/// Cluster-scoped kinds whose names do not begin with `Cluster` or end with `Class`.
const CLUSTER_KINDS: [(&str, &str); 27] = [
    ("apiextensions.crossplane.io", "CompositeResourceDefinition"),
    ("apiextensions.crossplane.io", "Composition"),
    ("capsule.clastix.io", "Tenant"),
    ("cilium.io", "CiliumBGPAdvertisement"),
    ("cilium.io", "CiliumBGPClusterConfig"),
    ("cilium.io", "CiliumBGPPeerConfig"),
    ("cilium.io", "CiliumBGPPeeringPolicy"),
    ("cilium.io", "CiliumClusterwideNetworkPolicy"),
    ("cilium.io", "CiliumEgressGatewayPolicy"),
    ("cilium.io", "CiliumL2AnnouncementPolicy"),
    ("cilium.io", "CiliumLoadBalancerIPPool"),
    ("crd.projectcalico.org", "BGPConfiguration"),
    ("crd.projectcalico.org", "BGPPeer"),
    ("crd.projectcalico.org", "FelixConfiguration"),
    ("crd.projectcalico.org", "GlobalNetworkPolicy"),
    ("crd.projectcalico.org", "IPPool"),
    ("karpenter.k8s.aws", "EC2NodeClass"),
    ("karpenter.sh", "NodePool"),
    ("nfd.k8s-sigs.io", "NodeFeatureRule"),
    ("operator.tigera.io", "Installation"),
    ("pkg.crossplane.io", "Configuration"),
    ("pkg.crossplane.io", "Function"),
    ("pkg.crossplane.io", "Provider"),
    ("policy.cert-manager.io", "CertificateRequestPolicy"),
    ("snapshot.storage.k8s.io", "VolumeSnapshotContent"),
    ("tailscale.com", "Connector"),
    ("trust.cert-manager.io", "Bundle"),
];

/// API groups with namespaced kinds that begin with `Cluster` or end with `Class`.
const NAMESPACED_GROUPS: [&str; 4] = [
    "cluster.x-k8s.io",
    "addons.cluster.x-k8s.io",
    "logging.banzaicloud.io",
    "operators.coreos.com",
];

/// Returns the plural and scope of a kind: from a definition in the files, else derived from its
/// name and its objects.
pub fn names(world: &World, gvk: &Gvk, objects: &[ObjectId], fleet: &Objects) -> Names {
    let files = world.definitions();
    let mut documents = files.iter().flat_map(|documents| documents.iter());
    documents
        .find_map(|document| defined(document, gvk))
        .unwrap_or_else(|| Names {
            plural: format!("{}s", gvk.kind.to_lowercase()),
            namespaced: !(is_of_cluster(gvk) || is_used_without(gvk, objects, fleet)),
        })
}

/// Reads them from a definition of the kind.
fn defined(document: &Node, gvk: &Gvk) -> Option<Names> {
    let text = |path: &[&str]| {
        let mut keys = path.iter();
        keys.try_fold(document, |node, key| node.get(key))?.text()
    };
    let fits = text(&["kind"]) == Some("CustomResourceDefinition")
        && text(&["spec", "group"]) == Some(&gvk.group)
        && text(&["spec", "names", "kind"]) == Some(&gvk.kind);
    fits.then_some(())?;
    Some(Names {
        plural: text(&["spec", "names", "plural"])?.to_owned(),
        namespaced: text(&["spec", "scope"]) != Some("Cluster"),
    })
}

/// Checks whether the name of a kind suggests that it is cluster-scoped.
fn is_of_cluster(gvk: &Gvk) -> bool {
    let (group, kind) = (gvk.group.as_str(), gvk.kind.as_str());
    if CLUSTER_GROUPS.contains(&group) || CLUSTER_KINDS.contains(&(group, kind)) {
        return true;
    }
    let of_cluster = kind
        .strip_prefix("Cluster")
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()));
    (of_cluster || kind.ends_with("Class")) && !NAMESPACED_GROUPS.contains(&group)
}

/// Checks whether an object of the kind, or a health check of one, has no namespace.
fn is_used_without(gvk: &Gvk, objects: &[ObjectId], fleet: &Objects) -> bool {
    let checked_without = |check: &Value| {
        let text = |field: &str| check.get(field).and_then(Value::as_str).unwrap_or_default();
        let group = Gvk::new(text("apiVersion"), text("kind")).group;
        (group, text("kind")) == (gvk.group.clone(), &*gvk.kind) && text("namespace").is_empty()
    };
    let kustomizations = fleet
        .iter()
        .filter(|((_, id), _)| id.kind == FluxKind::Kustomization);
    let mut checks = kustomizations.filter_map(|(_, object)| {
        object
            .pointer("/spec/healthChecks")
            .and_then(Value::as_array)
    });
    objects.iter().any(|id| id.namespace.is_empty())
        || checks.any(|checks| checks.iter().any(checked_without))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_kinds_of_a_cluster() {
        for (group, kind, expected) in [
            ("cert-manager.io", "ClusterIssuer", true),
            ("cert-manager.io", "Issuer", false),
            ("gateway.networking.k8s.io", "GatewayClass", true),
            ("postgresql.cnpg.io", "Cluster", false),
            ("cluster.x-k8s.io", "ClusterClass", false),
            ("constraints.gatekeeper.sh", "K8sRequiredLabels", true),
            ("cilium.io", "CiliumLoadBalancerIPPool", true),
            ("acme.example", "Clustering", false),
        ] {
            let gvk = Gvk::new(&format!("{group}/v1"), kind);
            assert_eq!(is_of_cluster(&gvk), expected, "{group} {kind}");
        }
    }
}
