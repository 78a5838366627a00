//! Simulates workloads without pods: sets the status that a Deployment or another workload has when
//! each pod is scheduled, has pulled its image, has started and is ready. Runs only when called:
//! see [`crate::Server::run_workloads`].

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::store::state::State;
use crate::store::{Key, Name};
use crate::values::clock::Clock;
use crate::values::text;

/// A function that returns the status of an object whose pods run, at a time.
type Status = fn(&Value, &str) -> Value;

/// The kinds that are simulated, by group and plural.
const KINDS: [(&str, &str, Status); 7] = [
    ("apps", "deployments", deployment),
    ("apps", "replicasets", replica_set),
    ("apps", "statefulsets", stateful_set),
    ("apps", "daemonsets", daemon_set),
    ("batch", "jobs", job),
    ("", "pods", pod),
    ("", "persistentvolumeclaims", claim),
];

/// Sets the status of every workload that was written since `version`, as if all of its pods run,
/// and sets `version`. Returns the number of changed objects.
pub(crate) fn run(state: &mut State, version: &mut u64, clock: &Clock) -> usize {
    let now = clock.stamp();
    let mut changed = 0;
    for ((key, name), status) in written_since(state, *version) {
        let object = state.store.get(&key, &name);
        let running = |object: &&Arc<Value>| object["metadata"].get("deletionTimestamp").is_none();
        let Some(object) = object.filter(running) else {
            continue;
        };
        let wanted = merged_status(&object["status"], status(object, &now));
        if wanted != object["status"] {
            let mut object = Value::clone(object);
            object["status"] = wanted;
            state.store.put(&key, &name, object);
            changed += 1;
        }
    }
    *version = state.store.version();
    changed
}

/// Returns the workloads that were written since a version. A status depends only on its object.
fn written_since(state: &State, version: u64) -> BTreeMap<(Key, Name), Status> {
    let store = &state.store;
    let keys = KINDS.map(|(group, plural, status)| ((group.into(), plural.into()), status));
    let keys = BTreeMap::<Key, Status>::from(keys);
    if version < store.compacted_version() {
        let all = keys.into_iter().flat_map(|(key, status)| {
            let names = store.list(&key, "", None);
            let names = names.map(|(name, _)| name.clone()).collect::<Vec<_>>();
            names
                .into_iter()
                .map(move |name| ((key.clone(), name), status))
        });
        return all.collect();
    }
    let written = store.since(version).filter_map(|event| {
        let status = keys.get(&event.key)?;
        Some(((event.key.clone(), event.name.clone()), *status))
    });
    written.collect()
}

/// Returns the new status with the fields that only the old one has, and with the old times if
/// nothing else changed.
fn merged_status(old: &Value, mut new: Value) -> Value {
    if let Some(conditions) = new.get_mut("conditions").and_then(Value::as_array_mut) {
        for condition in conditions {
            keep_times(condition, &old["conditions"]);
        }
    }
    let mut status = old.as_object().cloned().unwrap_or_default();
    if let Value::Object(new) = new {
        for (field, value) in new {
            if !(field.ends_with("Time") && status.contains_key(&field)) {
                status.insert(field, value);
            }
        }
    }
    Value::Object(status)
}

fn keep_times(condition: &mut Value, old: &Value) {
    let known = old.as_array().into_iter().flatten();
    let Some(known) = known
        .into_iter()
        .find(|known| known["type"] == condition["type"])
    else {
        return;
    };
    if known["status"] == condition["status"] && known["reason"] == condition["reason"] {
        *condition = known.clone();
    }
}

fn number(object: &Value, pointer: &str, default: u64) -> u64 {
    object
        .pointer(pointer)
        .and_then(Value::as_u64)
        .unwrap_or(default)
}

fn generation(object: &Value) -> u64 {
    number(object, "/metadata/generation", 1)
}

fn condition(kind: &str, reason: &str, now: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": reason, "message": "simulated", "lastTransitionTime": now})
}

fn deployment(object: &Value, now: &str) -> Value {
    let replicas = number(object, "/spec/replicas", 1);
    let progress = |kind, reason| {
        let mut condition = condition(kind, reason, now);
        condition["lastUpdateTime"] = now.into();
        condition
    };
    json!({
        "observedGeneration": generation(object), "replicas": replicas, "updatedReplicas": replicas,
        "readyReplicas": replicas, "availableReplicas": replicas,
        "conditions": [progress("Available", "MinimumReplicasAvailable"), progress("Progressing", "NewReplicaSetAvailable")],
    })
}

fn replica_set(object: &Value, _: &str) -> Value {
    let replicas = number(object, "/spec/replicas", 1);
    json!({
        "observedGeneration": generation(object), "replicas": replicas, "fullyLabeledReplicas": replicas,
        "readyReplicas": replicas, "availableReplicas": replicas,
    })
}

fn stateful_set(object: &Value, _: &str) -> Value {
    let replicas = number(object, "/spec/replicas", 1);
    let revision = format!("{}-{}", text(object, "/metadata/name"), generation(object));
    json!({
        "observedGeneration": generation(object), "replicas": replicas, "readyReplicas": replicas,
        "currentReplicas": replicas, "updatedReplicas": replicas, "availableReplicas": replicas,
        "currentRevision": revision, "updateRevision": revision,
    })
}

fn daemon_set(object: &Value, _: &str) -> Value {
    json!({
        "observedGeneration": generation(object), "desiredNumberScheduled": 1, "currentNumberScheduled": 1,
        "updatedNumberScheduled": 1, "numberReady": 1, "numberAvailable": 1, "numberMisscheduled": 0,
    })
}

fn job(object: &Value, now: &str) -> Value {
    if object.pointer("/spec/suspend") == Some(&Value::Bool(true)) {
        return json!({"conditions": [condition("Suspended", "JobSuspended", now)]});
    }
    let completions = number(object, "/spec/completions", 1);
    let done = |kind| {
        let mut condition = condition(kind, "CompletionsReached", now);
        condition["lastProbeTime"] = now.into();
        condition
    };
    json!({
        "startTime": now, "completionTime": now, "succeeded": completions, "ready": 0, "terminating": 0,
        "uncountedTerminatedPods": {}, "conditions": [done("SuccessCriteriaMet"), done("Complete")],
    })
}

fn pod(_: &Value, now: &str) -> Value {
    let kinds = ["PodScheduled", "Initialized", "ContainersReady", "Ready"];
    let conditions =
        kinds.map(|kind| json!({"type": kind, "status": "True", "lastTransitionTime": now}));
    json!({"phase": "Running", "startTime": now, "conditions": conditions})
}

fn claim(object: &Value, _: &str) -> Value {
    let mut status = Map::from_iter([("phase".to_owned(), json!("Bound"))]);
    let wanted = [
        ("accessModes", "/spec/accessModes"),
        ("capacity", "/spec/resources/requests"),
    ];
    for (field, pointer) in wanted {
        if let Some(value) = object.pointer(pointer) {
            status.insert(field.to_owned(), value.clone());
        }
    }
    Value::Object(status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::HISTORY;

    fn put(state: &mut State, plural: &str, name: &str) {
        let key = ("apps".to_owned(), plural.to_owned());
        let object = json!({"metadata": {"name": name}, "spec": {}});
        let name = ("default".to_owned(), name.to_owned());
        state.store.put(&key, &name, object);
    }

    #[test]
    fn only_changed_workloads_are_visited() {
        let clock = Clock {
            now: jiff::Timestamp::UNIX_EPOCH,
            seed: 1,
        };
        let (mut state, mut version) = (State::new(), 0);
        for name in ["a", "b", "c"] {
            put(&mut state, "deployments", name);
        }
        put(&mut state, "controllerrevisions", "a");
        let names = |state: &State, version: u64| {
            let changed = written_since(state, version).into_keys();
            changed.map(|(_, (_, name))| name).collect::<Vec<_>>()
        };
        assert_eq!(names(&state, version), ["a", "b", "c"]);
        assert_eq!(run(&mut state, &mut version, &clock), 3);
        assert!(names(&state, version).is_empty());
        put(&mut state, "deployments", "b");
        assert_eq!(names(&state, version), ["b"]);
        // The history is too short to know which objects changed.
        (0..=HISTORY).for_each(|_| put(&mut state, "controllerrevisions", "a"));
        assert_eq!(names(&state, version), ["a", "b", "c"]);
    }
}
