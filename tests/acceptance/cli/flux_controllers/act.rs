//! Scenarios: an object of Flux, and the changes to it, step by step.

use super::site::Side;
use serde_json::{Value, json};

/// The API path of the namespace's core objects.
pub const CORE: &str = "/api/v1/namespaces/apps";

/// An object of Flux, and the edits of each step.
pub struct Act {
    pub name: &'static str,
    pub spec: Value,
    pub steps: Vec<Vec<Edit>>,
}

/// A change that a user makes.
pub enum Edit {
    /// Applies a merge patch to the object itself.
    Own(Value),
    /// Applies a merge patch to the ConfigMap of this name.
    Config(&'static str, Value),
    /// Deletes the object of this plural and name.
    Delete(&'static str, &'static str),
    /// Writes a file of the object's directory in Git, or removes it.
    File(&'static str, Option<String>),
}

/// Creates an act from an object and its steps.
pub fn act(name: &'static str, spec: Value, steps: impl IntoIterator<Item = Vec<Edit>>) -> Act {
    Act {
        name,
        spec,
        steps: steps.into_iter().collect(),
    }
}

/// Returns an edit that requests a reconciliation, and sets further annotations of
/// `reconcile.fluxcd.io`.
pub fn ask(annotations: &[&str]) -> Edit {
    let mut all = json!({"reconcile.fluxcd.io/requestedAt": "now"});
    for one in annotations {
        all[format!("reconcile.fluxcd.io/{one}")] = json!("now");
    }
    Edit::Own(json!({"metadata": {"annotations": all}}))
}

/// Returns a step that only requests a reconciliation.
pub fn look() -> Vec<Edit> {
    vec![ask(&[])]
}

impl Act {
    /// Passes the patches of the object itself through `fill`.
    pub fn filled(mut self, fill: &impl Fn(&Value) -> Value) -> Self {
        for edit in self.steps.iter_mut().flatten() {
            if let Edit::Own(patch) = edit {
                *patch = fill(patch);
            }
        }
        self
    }

    /// Makes a step's edits in the cluster. `objects` is the API path of the objects of the act's
    /// kind.
    pub fn edit(&self, side: &Side, objects: &str, step: usize) {
        let api = side.cluster.api();
        for edit in self.steps.get(step).into_iter().flatten() {
            let done = match edit {
                Edit::Own(patch) => api.patch(&format!("{objects}/{}", self.name), patch),
                Edit::Config(name, patch) => api.patch(&format!("{CORE}/configmaps/{name}"), patch),
                Edit::Delete(plural, name) => api.delete(&format!("{CORE}/{plural}/{name}")),
                Edit::File(..) => continue,
            };
            done.unwrap_or_else(|e| panic!("{}: {e:?}", self.name));
        }
    }
}

/// Deletes the objects of all acts, on both sides.
pub fn delete_all(sides: [&Side; 2], objects: &str, acts: &[Act]) {
    for side in sides {
        for act in acts {
            let path = format!("{objects}/{}", act.name);
            side.cluster.api().delete(&path).expect("deleted");
        }
    }
}

/// Returns the largest number of steps.
pub fn longest<'a>(acts: impl IntoIterator<Item = &'a Act>) -> usize {
    let steps = acts.into_iter().map(|act| act.steps.len());
    steps.max().unwrap_or_default()
}
