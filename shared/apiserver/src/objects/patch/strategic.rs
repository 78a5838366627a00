//! Strategic merge: lists by merge key, and the `$` directives.

use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

use driftless_fuel::Fuel;
use driftless_manifest::{check_depth, value_nodes};

use super::{COST, too_large};
use crate::error::ApiError;
use crate::schema::{Field, Id, Schema, Type, UNTYPED_GRANULAR};

pub(super) fn apply(
    schema: &Schema,
    id: Id,
    live: &Value,
    patch: &Value,
) -> Result<Value, ApiError> {
    let fuel = Fuel::new(COST);
    check_depth(&fuel, 1, patch).map_err(too_large)?;
    Walker { schema, fuel }.map(id, live, patch)
}

struct Walker<'a> {
    schema: &'a Schema,
    fuel: Fuel,
}

const ORDER: &str = "$setElementOrder/";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const RETAIN: &str = "$retainKeys";
const DIRECTIVE: &str = "$patch";

fn bad(message: &str) -> ApiError {
    ApiError::unknown(message)
}

impl Walker<'_> {
    /// Charges the copy of values.
    fn charge(&self, values: &[&Value]) -> Result<(), ApiError> {
        let nodes = values.iter().map(|value| value_nodes(value)).sum();
        self.fuel.steps(nodes).map_err(too_large)
    }

    fn field(&self, id: Id, key: &str) -> Option<&Field> {
        self.schema.structure(id)?.fields.get(key)
    }

    fn below(&self, id: Id, key: &str) -> Id {
        match self.schema.get(id) {
            Type::Struct(found) => found
                .fields
                .get(key)
                .map_or(UNTYPED_GRANULAR, |field| field.id),
            Type::Map { value, .. } => *value,
            _ => UNTYPED_GRANULAR,
        }
    }

    fn item(&self, id: Id) -> Id {
        match self.schema.get(id) {
            Type::List { item, .. } => *item,
            _ => UNTYPED_GRANULAR,
        }
    }

    fn map(&self, id: Id, live: &Value, patch: &Value) -> Result<Value, ApiError> {
        let Some(patch) = patch.as_object() else {
            return Ok(patch.clone());
        };
        match patch.get(DIRECTIVE).and_then(Value::as_str) {
            Some("replace") => {
                let mut out = patch.clone();
                out.remove(DIRECTIVE);
                return Ok(Value::Object(out));
            }
            Some("delete") => return Ok(Value::Object(Map::new())),
            Some("merge") | None => {}
            Some(other) => {
                let shown = go_map(&Value::Object(patch.clone()));
                return Err(bad(&format!("unknown patch type: {other} in map: {shown}")));
            }
        }
        self.charge(&[live])?;
        let mut out = live.as_object().cloned().unwrap_or_default();
        if let Some(keep) = patch.get(RETAIN).and_then(Value::as_array) {
            let keep: HashSet<&str> = keep.iter().filter_map(Value::as_str).collect();
            out.retain(|key, _| keep.contains(key.as_str()));
        }
        for (key, list) in patch {
            if let Some(name) = key.strip_prefix(DELETE_FROM)
                && let (Some(Value::Array(items)), Some(gone)) =
                    (out.get_mut(name), list.as_array())
            {
                let gone: HashSet<String> = gone.iter().map(Value::to_string).collect();
                items.retain(|item| !gone.contains(&item.to_string()));
            }
        }
        for (key, value) in patch {
            if key.starts_with('$') {
                continue;
            }
            if value.is_null() {
                out.remove(key);
                continue;
            }
            let order = patch.get(&format!("{ORDER}{key}"));
            match self.one(id, key, out.get(key), value, order)? {
                Some(merged) => out.insert(key.clone(), merged),
                None => out.remove(key),
            };
        }
        for (key, order) in patch {
            if let Some(name) = key.strip_prefix(ORDER)
                && !patch.contains_key(name)
                && let (Some(Value::Array(items)), Some(order)) =
                    (out.get_mut(name), order.as_array())
            {
                let merge_key = self
                    .field(id, name)
                    .map_or("", |field| field.merge_key.as_str());
                let before = items.clone();
                *items = sort(std::mem::take(items), order, &before, merge_key);
            }
        }
        Ok(Value::Object(out))
    }

    /// Returns the new value of a field; `None` if it is removed.
    fn one(
        &self,
        id: Id,
        key: &str,
        live: Option<&Value>,
        patch: &Value,
        order: Option<&Value>,
    ) -> Result<Option<Value>, ApiError> {
        self.charge(&[patch])?;
        let field = self.field(id, key);
        let has = |wanted: &str| {
            let strategy = field.map_or("", |field| field.strategy.as_str());
            strategy.split(',').any(|known| known == wanted)
        };
        let below = self.below(id, key);
        Ok(Some(match (patch, live) {
            (Value::Object(_), _) if has("replace") => without_directives(patch),
            (Value::Object(_), Some(live @ Value::Object(_))) => self.map(below, live, patch)?,
            // A directive without a live value has no effect.
            (Value::Object(new), _) if new.contains_key(DIRECTIVE) => return Ok(None),
            (Value::Object(_), _) => self.map(below, &Value::Object(Map::new()), patch)?,
            (Value::Array(items), Some(Value::Array(live))) if has("merge") => {
                let merge_key = field.map_or("", |field| field.merge_key.as_str());
                let item = self.item(below);
                Value::Array(if merge_key.is_empty() {
                    values(live, items, order)
                } else {
                    self.list(item, live, items, merge_key, order)?
                })
            }
            (Value::Array(items), _) if has("merge") => {
                let new = items.iter().filter(|item| item.get(DIRECTIVE).is_none());
                let item = self.item(below);
                let new = new.map(|new| match new {
                    Value::Object(_) => self.map(item, &Value::Object(Map::new()), new),
                    other => Ok(other.clone()),
                });
                Value::Array(new.collect::<Result<_, _>>()?)
            }
            (other, _) => other.clone(),
        }))
    }

    /// Merges a list of maps by their merge key: deletions first, then additions and changes.
    fn list(
        &self,
        item: Id,
        live: &[Value],
        patch: &[Value],
        key: &str,
        order: Option<&Value>,
    ) -> Result<Vec<Value>, ApiError> {
        // The items are copied for the result and for its order, and compared by their keys.
        let items = live.iter().chain(patch).collect::<Vec<&Value>>();
        self.charge(&items)?;
        let id_of = |entry: &Value| match entry.get(key) {
            Some(id) => Ok(id.to_string()),
            None => Err(bad(&format!(
                "map: {} does not contain declared merge key: {key}",
                go_map(entry)
            ))),
        };
        let mut deleted = HashSet::new();
        let mut replaces = false;
        let mut new: Vec<Value> = Vec::new();
        for entry in patch {
            match entry.get(DIRECTIVE).map(|directive| directive.as_str()) {
                None => new.push(entry.clone()),
                Some(Some("delete")) => {
                    deleted.insert(id_of(entry)?);
                }
                Some(Some("replace")) => replaces = true,
                Some(Some("merge")) => {
                    return Err(bad("merging lists cannot yet be specified in the patch"));
                }
                Some(other) => {
                    let shown = go_map(entry);
                    let other = other.unwrap_or_default();
                    return Err(bad(&format!("unknown patch type: {other} in map: {shown}")));
                }
            }
        }
        if replaces {
            return Ok(new);
        }
        let id = |entry: &Value| entry.get(key).map(Value::to_string);
        let stays = |known: &&Value| id(known).is_none_or(|id| !deleted.contains(&id));
        let before: Vec<Value> = live.iter().filter(stays).cloned().collect();
        let mut out = before.clone();
        let mut places: HashMap<String, usize> = HashMap::with_capacity(out.len() + new.len());
        for (at, known) in out.iter().enumerate() {
            if let Some(id) = id(known) {
                places.entry(id).or_insert(at);
            }
        }
        for entry in &new {
            let id = id_of(entry)?;
            match places.get(&id).and_then(|at| out.get_mut(*at)) {
                Some(known) => *known = self.map(item, known, entry)?,
                None => {
                    places.insert(id, out.len());
                    out.push(self.map(item, &Value::Object(Map::new()), entry)?);
                }
            }
        }
        let order = order.and_then(Value::as_array).unwrap_or(&new);
        Ok(sort(out, order, &before, key))
    }
}

/// Merges a list of scalars without duplicates.
fn values(live: &[Value], patch: &[Value], order: Option<&Value>) -> Vec<Value> {
    let mut seen = HashSet::new();
    let all = live.iter().chain(patch);
    let all = all.filter(|value| seen.insert(value.to_string()));
    let merged = all.cloned().collect();
    let order = order.and_then(Value::as_array).map_or(patch, Vec::as_slice);
    sort(merged, order, live, "")
}

/// Formats a map as Go does.
pub(crate) fn go_map(value: &Value) -> String {
    let fields = value.as_object().into_iter().flatten();
    let texts: Vec<String> = fields
        .map(|(key, value)| match value {
            Value::String(text) => format!("{key}:{text}"),
            other => format!("{key}:{other}"),
        })
        .collect();
    format!("map[{}]", texts.join(" "))
}

fn without_directives(patch: &Value) -> Value {
    let map = patch.as_object().cloned().unwrap_or_default();
    Value::Object(
        map.into_iter()
            .filter(|(key, _)| !key.starts_with('$'))
            .collect(),
    )
}

/// Sorts a merged list: items in `order` follow that order; the others keep their live order, and
/// stay before the items that they were before.
fn sort(items: Vec<Value>, order: &[Value], before: &[Value], key: &str) -> Vec<Value> {
    let id = |value: &Value| match key.is_empty() {
        true => value.to_string(),
        false => value.get(key).unwrap_or(&Value::Null).to_string(),
    };
    let places = |list: &[Value]| {
        let mut places = HashMap::with_capacity(list.len());
        for (at, value) in list.iter().enumerate() {
            places.entry(id(value)).or_insert(at);
        }
        places
    };
    let (in_order, in_before) = (places(order), places(before));
    let placed = items.into_iter().map(|value| {
        let id = id(&value);
        let place = |places: &HashMap<String, usize>| places.get(&id).copied();
        (place(&in_order), place(&in_before), value)
    });
    let (mut named, mut others): (Vec<Placed>, Vec<Placed>) =
        placed.partition(|(ordered, _, _)| ordered.is_some());
    named.sort_by_key(|(ordered, _, _)| *ordered);
    others.sort_by_key(|(_, before, _)| *before);
    let mut out = Vec::with_capacity(named.len() + others.len());
    let mut named = named.into_iter().peekable();
    let mut others = others.into_iter().peekable();
    loop {
        let other_first = match (others.peek(), named.peek()) {
            (None, None) => return out,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some((_, Some(other), _)), Some((_, Some(named), _))) => other < named,
            _ => false,
        };
        let next = match other_first {
            true => others.next(),
            false => named.next(),
        };
        out.extend(next.map(|(_, _, value)| value));
    }
}

/// An item with its positions in the order and in the live list.
type Placed = (Option<usize>, Option<usize>, Value);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Checks that large lists merge fast: a comparison of each item with each other would take
    /// minutes.
    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "the time that it takes is what is tested"
    )]
    fn lists_of_many_items_are_merged_in_linear_time() {
        const COUNT: usize = 100_000;
        let schema = crate::schema::builtin();
        let ports = |from: usize, name: &str| -> Vec<Value> {
            let numbers = (from..from + COUNT).rev();
            numbers
                .map(|port| json!({"port": port, "name": name}))
                .collect()
        };
        let owners = |from: usize| -> Vec<String> {
            let numbers = from..from + COUNT;
            numbers.map(|at| format!("x.y/{at}")).collect()
        };
        let object = |from: usize, name: &str| json!({"metadata": {"finalizers": owners(from)}, "spec": {"ports": ports(from, name)}});
        let mut patch = object(COUNT / 2, "new");
        let gone = json!({"port": 0, "$patch": "delete"});
        let list = patch["spec"]["ports"].as_array_mut();
        list.unwrap().insert(0, gone);
        patch["metadata"]["$deleteFromPrimitiveList/finalizers"] = json!(owners(0)[..COUNT / 4]);
        let start = std::time::Instant::now();
        let id = schema.kinds["v1/Service"];
        let merged = apply(&schema, id, &object(0, "old"), &patch).unwrap();
        let took = start.elapsed();
        let length = |pointer: &str| merged.pointer(pointer).unwrap().as_array().unwrap().len();
        assert_eq!(length("/spec/ports"), COUNT / 2 * 3 - 1);
        assert_eq!(length("/metadata/finalizers"), COUNT / 4 * 5);
        assert!(took.as_secs() < 10, "{COUNT} items took {took:?}");
    }
}
