//! Decides whether an apply would change the live object: by the live object alone, without a
//! request to the API server, if that is sufficient.
//!
//! An apply changes an object if a value that we send differs from the live one, or if a field that
//! we own (by `managedFields`) is no longer sent and no other manager owns it. Our own
//! `managedFields` entry, which the API server has written, shows which lists are merged by key,
//! which are sets and which are replaced as a whole.

use super::fieldset::{FieldSet, Step, canonical};
use super::normalize::same_quantity;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use driftless_manifest::Object;
use serde_json::{Map, Value};

pub use super::managers::{helm_fields_patch, managed_fields_patch};

/// The effect that an apply would have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Drift {
    /// The object would stay unchanged.
    Unchanged,
    /// Only the API server knows. A dry-run apply and [`is_same`] decide it, or an apply whose
    /// response has an unchanged `resourceVersion`.
    Unknown,
    /// The object would change. (A value that the API server writes in another form may prove to be
    /// the same: the `resourceVersion` of the response is then unchanged.)
    Configured,
}

/// Fields of `metadata` that the server sets, and that an apply does not change.
pub(super) const SERVER_METADATA: [&str; 10] = [
    "name",
    "namespace",
    "generateName",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
    "selfLink",
];

/// Compares the object that would be sent with the live object.
///
/// `desired` is normalized ([`super::normalize::object`]), `live` is the server's response in the
/// same version, and `manager` is our field manager.
pub fn compare(desired: &Object, live: &Object, manager: &str) -> Drift {
    if desired.api_version() != live.api_version() || !live.meta("deletionTimestamp").is_empty() {
        return Drift::Unknown;
    }
    let Some(owned) = Owned::of(live, desired.api_version(), manager) else {
        return Drift::Unknown;
    };
    let rules = Rules::of(desired);
    let mut drift = Drift::Unchanged;
    for (field, value) in desired.as_map() {
        let live_value = live.as_map().get(field);
        let place = owned.place().field(field);
        let found = match (field.as_str(), value, live_value) {
            ("apiVersion" | "kind" | "status", ..) => Drift::Unchanged,
            ("metadata", Value::Object(desired), Some(Value::Object(live))) => {
                metadata(desired, live, &place, rules)
            }
            _ => rules.below(field).value(value, live_value, &place),
        };
        drift = drift.max(found);
    }
    // Whole fields that are no longer sent.
    let is_kept = |field: &str| desired.as_map().contains_key(field) || field == "status";
    drift.max(dropped(&owned.place(), live.as_map(), is_kept))
}

/// Checks whether the response of a dry run equals the live object, without `managedFields`,
/// `status` and the metadata that the server sets.
pub fn is_same(applied: &Object, live: &Object) -> bool {
    let bare = |object: &Object| {
        let mut fields = object.as_map().clone();
        fields.remove("status");
        if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
            metadata.retain(|field, value| {
                let empty = value.as_object().is_some_and(Map::is_empty) || value.is_null();
                matches!(field.as_str(), "labels" | "annotations") && !empty
            });
        }
        fields
    };
    applied.meta("uid") == live.meta("uid") && bare(applied) == bare(live)
}

/// The fields of an object that we own, and those that other managers own.
struct Owned {
    ours: FieldSet,
    others: FieldSet,
}

impl Owned {
    /// Returns `None` if we own no field yet, own fields in another version, or an entry cannot be
    /// read.
    fn of(live: &Object, api_version: &str, manager: &str) -> Option<Self> {
        let entries = live.pointer("/metadata/managedFields")?.as_array()?;
        let text = |entry: &Value, field: &str| {
            entry
                .get(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let (mut ours, mut others) = (None, FieldSet::default());
        for entry in entries {
            let set = FieldSet::parse(entry.get("fieldsV1")?).ok()?;
            let is_ours = text(entry, "manager") == manager
                && text(entry, "operation") == "Apply"
                && text(entry, "subresource").is_empty();
            if is_ours && text(entry, "apiVersion") == api_version {
                ours = Some(set);
            } else if is_ours {
                return None;
            } else {
                others.unite(&set);
            }
        }
        Some(Self {
            ours: ours?,
            others,
        })
    }

    fn place(&self) -> OwnedField<'_> {
        OwnedField {
            ours: Some(&self.ours),
            others: Some(&self.others),
        }
    }
}

/// A field of the object with its owners.
#[derive(Clone, Copy)]
struct OwnedField<'s> {
    ours: Option<&'s FieldSet>,
    others: Option<&'s FieldSet>,
}

impl<'s> OwnedField<'s> {
    fn at(&self, step: &Step) -> Self {
        let below = |set: Option<&'s FieldSet>| set.and_then(|set| set.parts.get(step));
        Self {
            ours: below(self.ours),
            others: below(self.others),
        }
    }

    fn field(&self, name: &str) -> Self {
        Self {
            ours: self.ours.and_then(|set| set.field(name)),
            others: self.others.and_then(|set| set.field(name)),
        }
    }

    /// Checks whether the value is replaced as a whole, according to our entry, or to the others'
    /// if we own no field here.
    fn is_whole(&self) -> bool {
        self.ours
            .or(self.others)
            .is_some_and(|set| set.itself && set.is_leaf())
    }

    /// Returns the steps below that we own.
    fn steps(&self) -> impl Iterator<Item = &'s Step> {
        self.ours.into_iter().flat_map(|set| set.parts.keys())
    }
}

/// The known facts about the values of a built-in kind, at a point of the descent.
#[derive(Clone, Copy)]
struct Rules {
    /// True for a kind of Kubernetes itself, whose fields have known types.
    built_in: bool,
    /// True if the values here are quantities.
    quantities: bool,
    /// True if the values here are base64.
    base64: bool,
    /// True within a value that is replaced as a whole: the live value must have no field that is
    /// not sent.
    exact: bool,
}

impl Rules {
    fn of(object: &Object) -> Self {
        let group = object.group();
        Self {
            built_in: !group.contains('.') || group.ends_with(".k8s.io"),
            quantities: false,
            base64: object.api_version() == "v1" && object.kind() == "Secret",
            exact: false,
        }
    }

    fn below(self, field: &str) -> Self {
        const QUANTITIES: [&str; 14] = [
            "limits",
            "requests",
            "capacity",
            "hard",
            "overhead",
            "sizeLimit",
            "divisor",
            "averageValue",
            "max",
            "min",
            "default",
            "defaultRequest",
            "maxLimitRequestRatio",
            "podFixed",
        ];
        Self {
            quantities: self.quantities || (self.built_in && QUANTITIES.contains(&field)),
            base64: self.base64 && field == "data",
            ..self
        }
    }

    /// Compares a desired value with the live one.
    fn value(self, desired: &Value, live: Option<&Value>, place: &OwnedField) -> Drift {
        let Some(live) = live.filter(|live| !live.is_null()) else {
            return self.missing(desired, place);
        };
        match (desired, live) {
            // Null asks for the server's default, which is unknown here.
            (Value::Null, _) => Drift::Unknown,
            (Value::Object(desired), Value::Object(live)) => self.map(desired, live, place),
            (Value::Array(desired), Value::Array(live)) => self.list(desired, live, place),
            (Value::Object(_) | Value::Array(_), _) | (_, Value::Object(_) | Value::Array(_)) => {
                Drift::Configured
            }
            _ if self.same_scalar(desired, live) => Drift::Unchanged,
            // An empty string or a zero may also ask for the default.
            _ if self.built_in && is_zero(desired) => Drift::Unknown,
            _ => Drift::Configured,
        }
    }

    /// Compares a desired value that the live object does not have.
    fn missing(self, desired: &Value, place: &OwnedField) -> Drift {
        let is_empty = match desired {
            Value::Null => return Drift::Unchanged,
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields
                .values()
                .all(|value| self.missing(value, place) == Drift::Unchanged),
            scalar => is_zero(scalar),
        };
        match (is_empty, place.ours.is_some()) {
            // We sent it before, and the server drops it: a zero value that need not be stored.
            (true, true) => Drift::Unchanged,
            (true, false) | (false, true) => Drift::Unknown,
            (false, false) => Drift::Configured,
        }
    }

    fn map(
        self,
        desired: &Map<String, Value>,
        live: &Map<String, Value>,
        place: &OwnedField,
    ) -> Drift {
        let is_whole = self.exact || place.is_whole();
        let rules = Self {
            exact: self.exact || (is_whole && !desired.is_empty()),
            ..self
        };
        let mut drift = Drift::Unchanged;
        for (field, value) in desired {
            // The parts of a map that is owned as a whole are owned with it.
            let below = if is_whole { *place } else { place.field(field) };
            drift = drift.max(rules.below(field).value(value, live.get(field), &below));
        }
        if is_whole {
            let extra = |(field, value): (&String, &Value)| {
                !desired.contains_key(field) && !self.is_default(field, value)
            };
            return if live.iter().any(extra) {
                drift.max(Drift::Unknown)
            } else {
                drift
            };
        }
        drift.max(dropped(place, live, |field| desired.contains_key(field)))
    }

    /// Checks whether a value is a default that the server adds within maps and lists that are
    /// replaced as a whole.
    fn is_default(self, field: &str, value: &Value) -> bool {
        const DEFAULTS: [(&str, &str); 6] = [
            ("apiVersion", "v1"),
            ("divisor", "0"),
            ("protocol", "TCP"),
            ("apiGroup", "rbac.authorization.k8s.io"),
            // A StatefulSet's volumeClaimTemplates.
            ("kind", "PersistentVolumeClaim"),
            ("volumeMode", "Filesystem"),
        ];
        let claim_status = field == "status" && value.get("phase").is_some();
        self.built_in
            && (value.is_null()
                || claim_status
                || DEFAULTS
                    .iter()
                    .any(|(name, v)| field == *name && value == *v))
    }

    fn list(self, desired: &[Value], live: &[Value], place: &OwnedField) -> Drift {
        let keys = place.steps().find_map(|step| match step {
            Step::Key(fields) => Some(
                fields
                    .iter()
                    .map(|(name, _)| name.as_str())
                    .collect::<Vec<_>>(),
            ),
            _ => None,
        });
        let is_set = place.steps().any(|step| matches!(step, Step::Value(_)));
        let step_of = |item: &Value| match &keys {
            Some(keys) => key_of(item, keys),
            None => Some(Step::Value(canonical(item))),
        };
        if keys.is_none() && !is_set {
            return self.whole_list(desired, live, place);
        }
        let Some(live_steps) = live.iter().map(step_of).collect::<Option<Vec<_>>>() else {
            return Drift::Unknown;
        };
        let (mut drift, mut last) = (Drift::Unchanged, None);
        let mut desired_steps = Vec::with_capacity(desired.len());
        for item in desired {
            let Some(step) = step_of(item) else {
                return Drift::Unknown;
            };
            match live_steps.iter().position(|other| *other == step) {
                None => drift = Drift::Configured,
                Some(at) => {
                    // The server keeps the order of the applied items.
                    if last.is_some_and(|last| last >= at) {
                        drift = drift.max(Drift::Unknown);
                    }
                    last = Some(at);
                    drift = drift.max(self.value(item, live.get(at), &place.at(&step)));
                }
            }
            desired_steps.push(step);
        }
        let is_no_longer_sent =
            |step: &&Step| !desired_steps.contains(step) && live_steps.contains(step);
        let is_deleted = place
            .steps()
            .filter(is_no_longer_sent)
            .any(|step| place.at(step).others.is_none());
        // Another manager owns the item, but parts of it may have been ours alone.
        let is_shared = place.steps().any(|step| is_no_longer_sent(&step));
        match (is_deleted, is_shared) {
            (true, _) => Drift::Configured,
            (false, true) => drift.max(Drift::Unknown),
            (false, false) => drift,
        }
    }

    /// Compares a list that is replaced as a whole, or that we do not own yet.
    fn whole_list(self, desired: &[Value], live: &[Value], place: &OwnedField) -> Drift {
        let is_whole = self.exact || place.is_whole();
        let rules = Self {
            exact: true,
            ..self
        };
        let mut drift = if desired.len() == live.len() {
            Drift::Unchanged
        } else {
            Drift::Configured
        };
        for (item, live_item) in desired.iter().zip(live) {
            drift = drift.max(rules.value(item, Some(live_item), place));
        }
        // A list that no manager owns as a whole may be merged by a key that is unknown here.
        if is_whole {
            drift
        } else {
            drift.min(Drift::Unknown)
        }
    }

    fn same_scalar(self, desired: &Value, live: &Value) -> bool {
        if desired == live {
            return true;
        }
        match (desired, live) {
            (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => {
                a.is_f64() || b.is_f64()
            }
            (Value::String(a), Value::String(b)) if self.base64 => {
                let bytes = |text: &str| {
                    STANDARD
                        .decode(text.split_whitespace().collect::<String>())
                        .ok()
                };
                bytes(a).is_some() && bytes(a) == bytes(b)
            }
            _ => self.quantities && same_quantity(desired, live),
        }
    }
}

fn metadata(
    desired: &Map<String, Value>,
    live: &Map<String, Value>,
    place: &OwnedField,
    rules: Rules,
) -> Drift {
    let rules = Rules {
        quantities: false,
        base64: false,
        ..rules
    };
    let mut drift = Drift::Unchanged;
    for (field, value) in desired
        .iter()
        .filter(|(field, _)| !SERVER_METADATA.contains(&field.as_str()))
    {
        drift = drift.max(rules.value(value, live.get(field), &place.field(field)));
    }
    let is_kept = |field: &str| desired.contains_key(field) || SERVER_METADATA.contains(&field);
    drift.max(dropped(place, live, is_kept))
}

/// Checks whether an apply would delete a live field: one that we own and do not send, and that no
/// other manager owns.
fn dropped(place: &OwnedField, live: &Map<String, Value>, is_kept: impl Fn(&str) -> bool) -> Drift {
    let mut drift = Drift::Unchanged;
    for step in place.steps() {
        let Step::Field(field) = step else {
            // A list was applied here before, and now it is a map.
            return Drift::Unknown;
        };
        if !is_kept(field) {
            drift = drift.max(removed(&place.at(step), live.get(field)));
        }
    }
    drift
}

/// Checks whether an apply would delete a live value that we own and no longer send.
fn removed(place: &OwnedField, live: Option<&Value>) -> Drift {
    let Some(live) = live else {
        return Drift::Unchanged;
    };
    match (place.others, live) {
        (None, _) => Drift::Configured,
        (Some(others), _) if others.is_leaf() => Drift::Unchanged,
        (Some(_), Value::Object(live)) => dropped(place, live, |_| false),
        (Some(_), _) => Drift::Unknown,
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// Returns the key of a list item. The protocol of a port defaults to TCP.
fn key_of(item: &Value, keys: &[&str]) -> Option<Step> {
    let fields = keys.iter().map(|key| {
        let value = match item.get(key) {
            Some(Value::Null) | None if *key == "protocol" => "\"TCP\"".to_owned(),
            Some(value) => canonical(value),
            None => return None,
        };
        Some(((*key).to_owned(), value))
    });
    Some(Step::Key(fields.collect::<Option<_>>()?))
}
