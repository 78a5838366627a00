//! What happens to objects of Flux, step by step.

use super::site::Side;
use serde_json::{Value, json};

/// The core objects of the namespace.
pub const CORE: &str = "/api/v1/namespaces/apps";

/// An object of Flux, and what happens in each step.
pub struct Act {
    pub name: &'static str,
    pub spec: Value,
    pub steps: Vec<Vec<Edit>>,
}

/// What somebody does.
pub enum Edit {
    /// A merge patch of the object.
    Own(Value),
    /// A merge patch of the ConfigMap of this name.
    Config(&'static str, Value),
    /// The object is deleted: plural and name.
    Delete(&'static str, &'static str),
    /// A file of the object's directory in Git is written, or removed.
    File(&'static str, Option<String>),
}

/// An object with its steps.
pub fn act(name: &'static str, spec: Value, steps: impl IntoIterator<Item = Vec<Edit>>) -> Act {
    Act {
        name,
        spec,
        steps: steps.into_iter().collect(),
    }
}

/// A request for a look, and for what else the annotations ask.
pub fn ask(annotations: &[&str]) -> Edit {
    let mut all = json!({"reconcile.fluxcd.io/requestedAt": "now"});
    for one in annotations {
        all[format!("reconcile.fluxcd.io/{one}")] = json!("now");
    }
    Edit::Own(json!({"metadata": {"annotations": all}}))
}

/// A step that only asks for a look.
pub fn look() -> Vec<Edit> {
    vec![ask(&[])]
}

impl Act {
    /// The same with what `fill` makes of the patches of the object itself.
    pub fn filled(mut self, fill: &impl Fn(&Value) -> Value) -> Self {
        for edit in self.steps.iter_mut().flatten() {
            if let Edit::Own(patch) = edit {
                *patch = fill(patch);
            }
        }
        self
    }

    /// Does a step's edits of the cluster. `objects` is the path of the objects of its kind.
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

/// Deletes what was made for all of them, on both sides.
pub fn delete_all(sides: [&Side; 2], objects: &str, acts: &[Act]) {
    for side in sides {
        for act in acts {
            let path = format!("{objects}/{}", act.name);
            side.cluster.api().delete(&path).expect("deleted");
        }
    }
}

/// How many steps the longest has.
pub fn longest<'a>(acts: impl IntoIterator<Item = &'a Act>) -> usize {
    let steps = acts.into_iter().map(|act| act.steps.len());
    steps.max().unwrap_or_default()
}
