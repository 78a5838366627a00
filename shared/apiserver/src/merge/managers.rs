//! Who owns which fields: `metadata.managedFields`.

use serde_json::{Value, json};

use super::set::{Element, Set, display};
use super::typed::{
    Comparison, TypeRef, check, compare, field_set, merge, named_members, problems, reconciled,
    remove,
};

/// How a manager came to its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Anything else.
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
    /// The name.
    pub name: String,
    /// How it works.
    pub operation: Operation,
    /// The version its fields are meant in.
    pub api_version: String,
    /// The subresource it works through; empty for the object itself.
    pub subresource: String,
    /// When it last changed something.
    pub time: Option<String>,
    /// Its fields.
    pub set: Set,
}

impl Manager {
    /// The same manager, whatever it owns.
    pub fn is(&self, other: &Manager) -> bool {
        self.name == other.name
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// As conflicts name it.
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

/// Fields that nobody owns.
fn nobodys() -> Set {
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

/// The types of an object in its versions.
pub trait Versions {
    /// The type at an `apiVersion`, if that is served.
    fn at(&self, api_version: &str) -> Option<TypeRef<'_>>;
    /// An object of the request's version in another one.
    fn convert(&self, object: &Value, _api_version: &str) -> Value {
        object.clone()
    }
    /// The fields that are not a writer's own in that version, such as `status`
    /// for a write of the object itself.
    fn reset(&self, api_version: &str) -> Set;
}

/// One conflict of an apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Who owns the field.
    pub manager: String,
    /// Which field, `.spec.replicas`.
    pub field: String,
}

/// Why an apply did not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Others own fields with other values.
    Conflicts(Vec<Conflict>),
    /// The configuration does not fit its type.
    Misfit(String),
    /// The object does not fit a version that a manager works in.
    Version(String),
}

/// Who writes.
#[derive(Clone, Debug)]
pub struct Writer<'a> {
    /// The field manager's name.
    pub name: &'a str,
    /// The version of the request.
    pub api_version: &'a str,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// Now, as RFC 3339.
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

const MOST_UPDATERS: usize = 10;

/// After a create, an update or a patch: who owns what now.
pub fn update(
    versions: &dyn Versions,
    live: &Value,
    new: &Value,
    managers: Vec<Manager>,
    writer: &Writer<'_>,
) -> Vec<Manager> {
    let managers = reconciled_all(versions, managers);
    let (mut managers, comparison) =
        settle(versions, live, new, managers, writer, None, true).unwrap_or_default();
    let set = comparison.modified.union(&comparison.added);
    let set = set
        .recursive_difference(&versions.reset(writer.api_version))
        .difference(&nobodys());
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

/// What managers own after a change of the schema.
fn reconciled_all(versions: &dyn Versions, managers: Vec<Manager>) -> Vec<Manager> {
    let reconcile = |mut manager: Manager| {
        if let Some(of) = versions.at(&manager.api_version) {
            manager.set = reconciled(of, &manager.set);
        }
        manager
    };
    managers.into_iter().map(reconcile).collect()
}

/// The oldest updaters share one entry when there are too many.
fn cap(mut managers: Vec<Manager>) -> Vec<Manager> {
    let mut updaters: Vec<Manager> = managers
        .iter()
        .filter(|m| m.operation == Operation::Update)
        .cloned()
        .collect();
    if updaters.len() <= MOST_UPDATERS {
        return managers;
    }
    updaters.sort_by(|a, b| (&a.time, &a.name).cmp(&(&b.time, &b.name)));
    let mut surplus = updaters.len() - MOST_UPDATERS;
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

/// Takes fields that changed from those who owned them.
fn settle(
    versions: &dyn Versions,
    live: &Value,
    new: &Value,
    managers: Vec<Manager>,
    writer: &Writer<'_>,
    own: Option<&Manager>,
    force: bool,
) -> Result<(Vec<Manager>, Comparison), Vec<Conflict>> {
    let compared = |api_version: &str| {
        let of = versions.at(api_version)?;
        let compared = if api_version == writer.api_version {
            compare(of, live, new)
        } else {
            let other = |object: &Value| versions.convert(object, api_version);
            compare(of, &other(live), &other(new))
        };
        Some(compared.without(&versions.reset(api_version)))
    };
    let mut conflicts = Vec::new();
    let mut kept = Vec::new();
    for mut manager in managers {
        if own.is_some_and(|own| own.is(&manager)) {
            kept.push(manager);
            continue;
        }
        let Some(comparison) = compared(&manager.api_version) else {
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
    if !force && !conflicts.is_empty() {
        return Err(conflicts);
    }
    kept.retain(|manager| !manager.set.is_empty());
    let comparison = compared(writer.api_version).unwrap_or_default();
    Ok((kept, comparison))
}

/// The result of an apply.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The merged object without managedFields; `None` when nothing changes.
    pub object: Option<Value>,
    /// Who owns what now.
    pub managers: Vec<Manager>,
}

/// Server-side apply. `live` carries no managedFields; `managers` are those of the live object.
///
/// # Errors
/// Conflicts unless forced; a configuration that does not fit.
pub fn apply(
    versions: &dyn Versions,
    live: &Value,
    config: &Value,
    mut managers: Vec<Manager>,
    writer: &Writer<'_>,
    force: bool,
    fresh: &Value,
) -> Result<Applied, Refusal> {
    let Some(of) = versions.at(writer.api_version) else {
        return Err(Refusal::Misfit(format!(
            "no type for {}",
            writer.api_version
        )));
    };
    let misfit = check(of, config, false);
    if !misfit.is_empty() {
        return Err(Refusal::Misfit(problems(&misfit)));
    }
    if managers.is_empty() && live != fresh {
        let before = Writer {
            name: "before-first-apply",
            ..writer.clone()
        };
        managers = update(versions, fresh, live, managers, &before);
    }
    managers = reconciled_all(versions, managers);
    let merged = merge(of, live, config).map_err(|e| Refusal::Misfit(problems(&e)))?;
    let set = field_set(of, config).recursive_difference(&versions.reset(writer.api_version));
    for manager in &managers {
        let Some(of) = versions.at(&manager.api_version) else {
            continue;
        };
        if manager.api_version == writer.api_version {
            continue;
        }
        let misfit = check(of, &versions.convert(live, &manager.api_version), true);
        if !misfit.is_empty() {
            return Err(Refusal::Version(problems(&misfit)));
        }
    }
    let mut own = writer.manager(Operation::Apply, set);
    let last = managers.iter().find(|m| m.is(&own)).cloned();
    own.time = last.as_ref().and_then(|last| last.time.clone());
    managers.retain(|m| !m.is(&own));
    managers.push(own.clone());
    let new = prune(versions, merged, &managers, last.as_ref());
    for manager in &managers {
        if manager.api_version != writer.api_version
            && let Some(of) = versions.at(&manager.api_version)
        {
            let misfit = check(of, &versions.convert(&new, &manager.api_version), true);
            if !misfit.is_empty() {
                return Err(Refusal::Version(problems(&misfit)));
            }
        }
    }
    let (mut managers, _) = settle(versions, live, &new, managers, writer, Some(&own), force)
        .map_err(Refusal::Conflicts)?;
    let changed = new != *live;
    for manager in managers.iter_mut().filter(|m| m.is(&own)) {
        manager.set = manager.set.difference(&nobodys());
        if changed {
            manager.time = Some(writer.now.to_owned());
        }
    }
    managers.retain(|manager| !manager.set.is_empty());
    Ok(Applied {
        object: changed.then_some(new),
        managers,
    })
}

/// Takes away what this manager applied the last time, not now, and nobody else owns.
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

/// The fields of conflicts, in one place for tests of ownership.
pub fn conflict_fields(conflicts: &[Conflict]) -> Vec<&str> {
    conflicts.iter().map(|c| c.field.as_str()).collect()
}

/// Steps below `metadata` or elsewhere, for callers that build sets.
pub fn path(names: &[&str]) -> Vec<Element> {
    names.iter().map(|name| super::set::field(name)).collect()
}
