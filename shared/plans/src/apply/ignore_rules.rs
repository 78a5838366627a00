//! Fields that are left to other writers: `spec.ignore` of a Kustomization, as fluxcd/pkg ssa
//! v0.76 applies it, and `spec.driftDetection.ignore` of a HelmRelease.

use super::managers::FieldOwners;
use driftless_flux::{IgnoreRule, Invalid};
use driftless_kustomize::{ObjectSelector, SelectorBudget};
use driftless_manifest::{Object, pointer};
use serde_json::Value;

/// The rules, with parsed selectors.
#[derive(Debug, Default)]
pub struct IgnoreRules(Vec<(Option<ObjectSelector>, Vec<String>)>);

impl IgnoreRules {
    /// Parses the rules of the field that `place` names.
    ///
    /// # Errors
    /// A selector is not valid; the error names the rule.
    pub fn new(rules: &[IgnoreRule], place: &str) -> Result<Self, Invalid> {
        let budget = SelectorBudget::default();
        let one = |(at, rule): (usize, &IgnoreRule)| {
            let failed = |error: &dyn std::fmt::Display| format!("{place}[{at}].target: {error}");
            let target = match &rule.target {
                None => None,
                Some(target) => {
                    let target = serde_json::to_value(target).map_err(|error| failed(&error))?;
                    let selector = ObjectSelector::new(&target, &budget);
                    Some(selector.map_err(|error| failed(&error))?)
                }
            };
            Ok((target, rule.paths.clone()))
        };
        rules
            .iter()
            .enumerate()
            .map(one)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Returns the JSON pointers to ignore in an object.
    pub fn paths(&self, object: &Object) -> Vec<&str> {
        let fits = |target: &Option<ObjectSelector>| {
            target.as_ref().is_none_or(|target| target.matches(object))
        };
        let rules = self.0.iter().filter(|(target, _)| fits(target));
        rules
            .flat_map(|(_, paths)| paths.iter().map(String::as_str))
            .collect()
    }

    /// Returns the object with the live values at the ignored paths, so that these do not differ.
    pub fn with_live_values(&self, desired: &Object, live: &Object) -> Option<Object> {
        let mut value = desired.to_value();
        for path in self.paths(desired) {
            copy(live.pointer(path), &mut value, path);
        }
        Object::new(value).ok()
    }

    /// Returns the object that `manager` applies: without the ignored fields that differ and that
    /// another manager has applied, and with the live values of the others.
    pub fn payload(&self, desired: &Object, live: &Object, manager: &str) -> Option<Object> {
        let owners = FieldOwners::others_by_apply(live, manager);
        let mut value = desired.to_value();
        for path in self.paths(desired) {
            let there = live.pointer(path);
            if desired.pointer(path) == there {
                continue;
            }
            let kept = there.filter(|_| !owners.own(path, live));
            copy(kept, &mut value, path);
        }
        Object::new(value).ok()
    }
}

/// Replaces the desired value at a path by the live one, or removes it without a live one.
fn copy(live: Option<&Value>, desired: &mut Value, path: &str) {
    let Some((parent, field)) = path.rsplit_once('/') else {
        return;
    };
    let field = pointer::unescape(field).into_owned();
    match (desired.pointer_mut(parent), live) {
        (Some(Value::Object(map)), Some(live)) => {
            map.insert(field, live.clone());
        }
        (Some(Value::Object(map)), None) => {
            map.remove(&field);
        }
        (Some(Value::Array(items)), live) => {
            let at = field.parse().ok().filter(|at| *at < items.len());
            match (at, live) {
                (Some(at), Some(live)) => items[at] = live.clone(),
                (Some(at), None) => drop(items.remove(at)),
                (None, _) => {}
            }
        }
        // A parent that is missing on one side makes no difference.
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(spec: &Value, managed: &Value) -> Object {
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec,
            "metadata": {"name": "web", "namespace": "apps", "managedFields": managed}});
        Object::new(object).unwrap()
    }

    fn applied_by(manager: &str, fields: &Value) -> Value {
        json!({"manager": manager, "operation": "Apply", "apiVersion": "apps/v1", "fieldsV1": fields})
    }

    fn rules(rules: &Value) -> IgnoreRules {
        let rules: Vec<IgnoreRule> = serde_json::from_value(rules.clone()).unwrap();
        IgnoreRules::new(&rules, "spec.ignore").unwrap()
    }

    #[test]
    fn values_are_kept_or_left_to_the_manager_that_applied_them() {
        let containers = |cpu: &str| json!([{"name": "init"}, {"name": "app", "cpu": cpu}]);
        let desired = object(
            &json!({"replicas": 1, "paused": true, "containers": containers("1")}),
            &json!([]),
        );
        let spec = json!({"replicas": 5, "paused": false, "containers": containers("2")});
        let fields = json!({"f:spec": {"f:replicas": {}, "f:containers":
            {"k:{\"name\":\"app\"}": {".": {}, "f:name": {}, "f:cpu": {}}}}});
        let rules = rules(&json!([{"target": {"kind": "Deployment"},
            "paths": ["/spec/replicas", "/spec/paused", "/spec/containers/1/cpu", "/spec/absent"]}]));
        let payload = |managed: &Value| {
            let live = object(&spec, managed);
            rules.payload(&desired, &live, "us").unwrap().to_value()["spec"].clone()
        };
        let adopted = json!({"replicas": 5, "paused": false, "containers": containers("2")});
        assert_eq!(payload(&json!([])), adopted);
        assert_eq!(payload(&json!([applied_by("us", &fields)])), adopted);
        let left = json!({"paused": false, "containers": [{"name": "init"}, {"name": "app"}]});
        assert_eq!(payload(&json!([applied_by("autoscaler", &fields)])), left);
        // A subresource and an update are not an apply.
        let mut status = applied_by("autoscaler", &fields);
        status["subresource"] = json!("scale");
        let mut update = applied_by("kubectl-edit", &fields);
        update["operation"] = json!("Update");
        assert_eq!(payload(&json!([status, update])), adopted);
    }

    #[test]
    fn rules_are_for_the_objects_of_their_target() {
        let other =
            rules(&json!([{"target": {"kind": "StatefulSet"}, "paths": ["/spec/replicas"]}]));
        let desired = object(&json!({"replicas": 1}), &json!([]));
        assert!(other.paths(&desired).is_empty());
        let all = rules(&json!([{"paths": ["/spec/replicas"]}]));
        assert_eq!(all.paths(&desired), ["/spec/replicas"]);
        let invalid: Vec<IgnoreRule> =
            serde_json::from_value(json!([{"paths": ["/a"], "target": {"name": "("}}])).unwrap();
        let error = IgnoreRules::new(&invalid, "spec.ignore")
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("spec.ignore[0].target: "), "{error}");
    }
}
