//! Admission policies of engines that driftless does not evaluate. They get a note, so that a check
//! without errors does not seem to cover them. The API server evaluates Kubernetes' own policies.

use super::diagnostic::{Diagnostic, Diagnostics};
use crate::embedded::{Row, World};

/// The API groups of policies, and the engine that evaluates them.
const ENGINES: [(&str, &str); 7] = [
    ("kyverno.io", "Kyverno"),
    ("policies.kyverno.io", "Kyverno"),
    ("constraints.gatekeeper.sh", "Gatekeeper"),
    ("templates.gatekeeper.sh", "Gatekeeper"),
    ("mutations.gatekeeper.sh", "Gatekeeper"),
    ("policies.kubewarden.io", "Kubewarden"),
    ("policy.jspolicy.com", "jsPolicy"),
];

/// Adds a note for each engine whose policies were applied.
pub fn note_unevaluated(rows: &[Row], diagnostics: &mut Diagnostics) {
    for row in rows {
        for (id, _) in &row.inventory {
            let engine = ENGINES.iter().find(|(group, _)| *group == id.group);
            let Some((_, engine)) = engine else {
                continue;
            };
            let message = format!(
                "{engine} is not evaluated: objects that its policies refuse or change on a cluster are accepted unchanged"
            );
            let occurrences = diagnostics
                .entry(Diagnostic::unchecked(
                    format!("policies of {engine}"),
                    message,
                ))
                .or_default();
            occurrences.hubs.insert(row.hub.clone());
            occurrences.users.insert(id.to_string());
        }
    }
}

/// Adds a note for each warning that a policy of the clusters gave, with the objects that it is
/// about.
pub fn note_warnings(world: &World, diagnostics: &mut Diagnostics) {
    for cluster in world.hubs.iter().cloned().chain(world.remotes()) {
        for (object, warning) in cluster.server.policy_warnings() {
            let diagnostic = Diagnostic {
                place: None,
                about: None,
                message: warning,
            };
            let occurrences = diagnostics.entry(diagnostic).or_default();
            occurrences.hubs.insert(cluster.name.clone());
            occurrences.users.insert(object);
        }
    }
}
