//! Field managers: `metadata.managedFields`, and server-side apply.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Value, json};

use super::set::{Set, display};
use super::typed::{
    Comparison, TypeErrors, TypeRef, check, compare, field_set, merge, named_members, reconciled,
    remove,
};

/// The operation by which a manager owns its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Operation {
    /// The manager applies (server-side apply).
    Apply,
    /// Any other write.
    Update,
}

impl Operation {
    fn text(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// One entry of managedFields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manager {
    /// The name of the field manager.
    pub name: String,
    /// The operation by which it owns the fields.
    pub operation: Operation,
    /// The `group/version` of its fields.
    pub api_version: String,
    /// The subresource that it writes; empty for the object itself.
    pub subresource: String,
    /// The time of its last change, in RFC 3339.
    pub time: Option<String>,
    /// The fields that it owns.
    pub set: Set,
}

impl Manager {
    /// Returns whether both are the same manager; their fields may differ.
    pub fn is(&self, other: &Manager) -> bool {
        self.name == other.name
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// Formats the manager as in the messages of conflicts.
    fn display(&self) -> String {
        let mut text = format!("{:?}", self.name);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if self.operation == Operation::Update {
            text.push_str(&format!(" using {}", self.api_version));
        }
        text
    }
}

/// Reads an object's managedFields; `None` when they are not well formed.
pub fn decode(list: Option<&Value>) -> Option<Vec<Manager>> {
    let mut out: Vec<Manager> = Vec::new();
    for entry in list.and_then(Value::as_array).into_iter().flatten() {
        let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        let operation = match entry["operation"].as_str() {
            Some("Apply") => Operation::Apply,
            Some("Update") => Operation::Update,
            _ => return None,
        };
        if text("apiVersion").is_empty() || text("fieldsType") != "FieldsV1" {
            return None;
        }
        let manager = Manager {
            name: text("manager"),
            operation,
            api_version: text("apiVersion"),
            subresource: text("subresource"),
            time: entry["time"].as_str().map(str::to_owned),
            set: Set::from_fields(&entry["fieldsV1"]),
        };
        out.retain(|known| !known.is(&manager));
        out.push(manager);
    }
    Some(out)
}

/// Writes managedFields in the API server's order.
pub fn encode(mut managers: Vec<Manager>) -> Option<Value> {
    if managers.is_empty() {
        return None;
    }
    managers.sort_by(|a, b| {
        let key = |m: &Manager| {
            (
                m.operation,
                m.time.clone().unwrap_or_default(),
                m.name.clone(),
                m.api_version.clone(),
                m.subresource.clone(),
            )
        };
        key(a).cmp(&key(b))
    });
    let entries = managers.into_iter().map(|manager| {
        let mut entry = json!({
            "manager": manager.name,
            "operation": manager.operation.text(),
            "apiVersion": manager.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": manager.set.to_fields(),
        });
        if manager.name.is_empty() {
            remove_key(&mut entry, "manager");
        }
        if !manager.subresource.is_empty() {
            entry["subresource"] = manager.subresource.into();
        }
        if let Some(time) = manager.time {
            entry["time"] = time.into();
        }
        entry
    });
    Some(Value::Array(entries.collect()))
}

fn remove_key(value: &mut Value, key: &str) {
    if let Some(map) = value.as_object_mut() {
        map.remove(key);
    }
}

/// Returns the fields that no manager owns.
fn unowned_fields() -> Set {
    Set::of(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
}

/// The types of a resource in its versions.
pub trait Versions {
    /// Returns the type in an `apiVersion`; `None` if the version is not served.
    fn at(&self, api_version: &str) -> Option<TypeRef<'_>>;
    /// Converts an object from the version of the request to another one.
    fn convert(&self, object: &Value, _api_version: &str) -> Value {
        object.clone()
    }
    /// Returns the fields that a write does not own in that version, such as `status`
    /// for a write of the object itself.
    fn reset(&self, api_version: &str) -> Set;
}

/// One conflict of an apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The manager that owns the field.
    pub manager: String,
    /// The path of the field, such as `.spec.replicas`.
    pub field: String,
}

/// The error of a server-side apply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApplyError {
    /// Other managers own fields with other values.
    Conflicts(Vec<Conflict>),
    /// The configuration does not match its schema.
    Invalid(String),
    /// The object does not match the schema of a version that one of its managers uses.
    Version(String),
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conflicts = match self {
            Self::Invalid(detail) | Self::Version(detail) => return f.write_str(detail),
            Self::Conflicts(conflicts) => conflicts,
        };
        if let [Conflict { manager, field }] = conflicts.as_slice() {
            return write!(
                f,
                "Apply failed with 1 conflict: conflict with {manager}: {field}"
            );
        }
        let managers: BTreeSet<&str> = conflicts.iter().map(|c| c.manager.as_str()).collect();
        let mut lines = Vec::new();
        for manager in managers {
            lines.push(format!("conflicts with {manager}:"));
            let own = conflicts.iter().filter(|c| c.manager == manager);
            lines.extend(own.map(|conflict| format!("- {}", conflict.field)));
        }
        let count = conflicts.len();
        write!(
            f,
            "Apply failed with {count} conflicts: {}",
            lines.join("\n")
        )
    }
}

impl std::error::Error for ApplyError {}

/// The writer of an object.
#[derive(Clone, Debug)]
pub struct Writer<'a> {
    /// The field manager's name.
    pub name: &'a str,
    /// The version of the request.
    pub api_version: &'a str,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The current time in RFC 3339.
    pub now: &'a str,
}

impl Writer<'_> {
    fn manager(&self, operation: Operation, set: Set) -> Manager {
        Manager {
            name: if self.name.is_empty() {
                "unknown".to_owned()
            } else {
                self.name.to_owned()
            },
            operation,
            api_version: self.api_version.to_owned(),
            subresource: self.subresource.to_owned(),
            time: None,
            set,
        }
    }
}

const MAX_UPDATERS: usize = 10;

/// Returns the managers after a create, an update or a patch.
pub fn update(
    versions: &dyn Versions,
    live: &Value,
    new: &Value,
    managers: Vec<Manager>,
    writer: &Writer<'_>,
) -> Vec<Manager> {
    let managers = reconciled_all(versions, managers);
    let change = Change {
        versions,
        api_version: writer.api_version,
        live,
        new,
    };
    let (mut managers, _) = change.disown(managers, None);
    let comparison = change.in_version(writer.api_version).unwrap_or_default();
    let set = comparison.modified.union(&comparison.added);
    let set = set
        .recursive_difference(&versions.reset(writer.api_version))
        .difference(&unowned_fields());
    if !set.is_empty() {
        let mut own = writer.manager(Operation::Update, set);
        own.time = Some(writer.now.to_owned());
        match managers.iter_mut().find(|known| known.is(&own)) {
            Some(known) => {
                known.set = known.set.union(&own.set);
                known.time = own.time;
            }
            None => managers.push(own),
        }
    }
    cap(managers)
}

/// Returns the managers after a change of the schema.
fn reconciled_all(versions: &dyn Versions, managers: Vec<Manager>) -> Vec<Manager> {
    let reconcile = |mut manager: Manager| {
        if let Some(of) = versions.at(&manager.api_version) {
            manager.set = reconciled(of, &manager.set);
        }
        manager
    };
    managers.into_iter().map(reconcile).collect()
}

/// Merges the oldest Update entries into one when there are more than ten.
fn cap(mut managers: Vec<Manager>) -> Vec<Manager> {
    let mut updaters: Vec<Manager> = managers
        .iter()
        .filter(|m| m.operation == Operation::Update)
        .cloned()
        .collect();
    if updaters.len() <= MAX_UPDATERS {
        return managers;
    }
    updaters.sort_by(|a, b| (&a.time, &a.name).cmp(&(&b.time, &b.name)));
    let mut surplus = updaters.len() - MAX_UPDATERS;
    let mut first: Vec<Manager> = Vec::new();
    for updater in updaters {
        if surplus == 0 {
            break;
        }
        let Some(earlier) = first.iter().find(|f| f.api_version == updater.api_version) else {
            first.push(updater);
            continue;
        };
        let mut bucket = earlier.clone();
        bucket.name = "ancient-changes".to_owned();
        bucket.subresource = String::new();
        let earlier = earlier.clone();
        match managers.iter().position(|m| m.is(&bucket)) {
            Some(_) => {}
            None => {
                managers.retain(|m| !m.is(&earlier));
                managers.push(bucket.clone());
            }
        }
        managers.retain(|m| !m.is(&updater) || m.is(&bucket));
        if let Some(bucket) = managers.iter_mut().find(|m| m.is(&bucket)) {
            bucket.set = bucket.set.union(&updater.set);
            bucket.time = updater.time;
        }
        surplus -= 1;
    }
    managers
}

/// A change of an object, by a write in one of its versions.
struct Change<'a> {
    versions: &'a dyn Versions,
    api_version: &'a str,
    live: &'a Value,
    new: &'a Value,
}

impl Change<'_> {
    /// Returns the changes in a version, without the fields that the write does not own; `None` if
    /// the version is not served.
    fn in_version(&self, api_version: &str) -> Option<Comparison> {
        let of = self.versions.at(api_version)?;
        let compared = if api_version == self.api_version {
            compare(of, self.live, self.new)
        } else {
            let convert = |object: &Value| self.versions.convert(object, api_version);
            compare(of, &convert(self.live), &convert(self.new))
        };
        Some(compared.without(&self.versions.reset(api_version)))
    }

    /// Removes changed fields from the managers that owned them, except from `own`. Returns the
    /// managers that still own fields, and the removed fields.
    fn disown(
        &self,
        managers: Vec<Manager>,
        own: Option<&Manager>,
    ) -> (Vec<Manager>, Vec<Conflict>) {
        let mut conflicts = Vec::new();
        let mut kept = Vec::new();
        for mut manager in managers {
            if own.is_some_and(|own| own.is(&manager)) {
                kept.push(manager);
                continue;
            }
            let Some(comparison) = self.in_version(&manager.api_version) else {
                continue;
            };
            let touched = comparison.modified.union(&comparison.added);
            let conflict = manager.set.intersection(&touched);
            conflicts.extend(conflict.paths().into_iter().map(|path| Conflict {
                manager: manager.display(),
                field: display(&path),
            }));
            manager.set = manager
                .set
                .difference(&conflict)
                .difference(&comparison.removed);
            kept.push(manager);
        }
        kept.retain(|manager| !manager.set.is_empty());
        (kept, conflicts)
    }
}

/// The result of an apply.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ApplyResult {
    /// The merged object without managedFields; `None` if nothing changed.
    pub object: Option<Value>,
    /// The managers with their fields after the apply.
    pub managers: Vec<Manager>,
}

/// One server-side apply.
#[derive(Clone, Copy, Debug)]
pub struct Apply<'a> {
    /// The live object without managedFields; [`Apply::empty`] if the object does not exist.
    pub live: &'a Value,
    /// The applied configuration.
    pub config: &'a Value,
    /// A new object of the kind without any field set.
    pub empty: &'a Value,
    /// The writer that applies.
    pub writer: &'a Writer<'a>,
    /// True if fields that others own are taken over.
    pub force: bool,
}

/// Applies a configuration. `managers` are those of the live object. Returns the merged object and
/// its managers.
///
/// # Errors
/// Conflicts, unless forced; a configuration, or a live object, that does not match its schema.
pub fn apply(
    versions: &dyn Versions,
    request: &Apply<'_>,
    mut managers: Vec<Manager>,
) -> Result<ApplyResult, ApplyError> {
    let Apply {
        live,
        config,
        writer,
        ..
    } = *request;
    let Some(of) = versions.at(writer.api_version) else {
        let detail = format!("no type for {}", writer.api_version);
        return Err(ApplyError::Invalid(detail));
    };
    let invalid = |error: TypeErrors| ApplyError::Invalid(error.to_string());
    check(of, config, false).map_err(invalid)?;
    if managers.is_empty() && live != request.empty {
        let before = Writer {
            name: "before-first-apply",
            ..writer.clone()
        };
        managers = update(versions, request.empty, live, managers, &before);
    }
    managers = reconciled_all(versions, managers);
    let merged = merge(of, live, config).map_err(invalid)?;
    let set = field_set(of, config).recursive_difference(&versions.reset(writer.api_version));
    check_versions(versions, writer, live, &managers)?;
    let mut own = writer.manager(Operation::Apply, set);
    let last = managers.iter().find(|m| m.is(&own)).cloned();
    own.time = last.as_ref().and_then(|last| last.time.clone());
    managers.retain(|m| !m.is(&own));
    managers.push(own.clone());
    let new = prune(versions, merged, &managers, last.as_ref());
    check_versions(versions, writer, &new, &managers)?;
    let change = Change {
        versions,
        api_version: writer.api_version,
        live,
        new: &new,
    };
    let (mut managers, conflicts) = change.disown(managers, Some(&own));
    if !request.force && !conflicts.is_empty() {
        return Err(ApplyError::Conflicts(conflicts));
    }
    let changed = new != *live;
    for manager in managers.iter_mut().filter(|m| m.is(&own)) {
        manager.set = manager.set.difference(&unowned_fields());
        if changed {
            manager.time = Some(writer.now.to_owned());
        }
    }
    managers.retain(|manager| !manager.set.is_empty());
    Ok(ApplyResult {
        object: changed.then_some(new),
        managers,
    })
}

/// Checks an object in the versions of its managers, other than the writer's.
fn check_versions(
    versions: &dyn Versions,
    writer: &Writer<'_>,
    object: &Value,
    managers: &[Manager],
) -> Result<(), ApplyError> {
    for Manager { api_version, .. } in managers {
        if api_version == writer.api_version {
            continue;
        }
        let Some(of) = versions.at(api_version) else {
            continue;
        };
        check(of, &versions.convert(object, api_version), true)
            .map_err(|error| ApplyError::Version(error.to_string()))?;
    }
    Ok(())
}

/// Removes the fields that this manager applied the last time, does not apply now, and no other
/// manager owns.
fn prune(
    versions: &dyn Versions,
    merged: Value,
    managers: &[Manager],
    last: Option<&Manager>,
) -> Value {
    let Some(last) = last.filter(|last| !last.set.is_empty()) else {
        return merged;
    };
    let Some(of) = versions.at(&last.api_version) else {
        return merged;
    };
    let named = |set: &Set| named_members(of, set);
    let pruned = remove(of, &merged, &named(&last.set));
    let all = named(&field_set(of, &merged));
    let mut managed = Set::default();
    for manager in managers {
        if let Some(of) = versions.at(&manager.api_version) {
            managed = managed.union(&named_members(of, &manager.set));
        }
    }
    let left = named(&field_set(of, &pruned)).union(&managed);
    let pruned = remove(of, &merged, &all.difference(&left));
    let left = named(&field_set(of, &pruned));
    remove(
        of,
        &merged,
        &all.difference(&left).intersection(&named(&last.set)),
    )
}
