//! Strategic merge: lists by merge key, and the `$` directives.

use serde_json::{Map, Value};
use std::collections::HashMap;

use crate::error::ApiError;
use crate::schema::{DEDUCED, Field, Id, Schema, Type};

pub(super) fn apply(
    schema: &Schema,
    id: Id,
    live: &Value,
    patch: &Value,
) -> Result<Value, ApiError> {
    Walker { schema }.map(id, live, patch)
}

struct Walker<'a> {
    schema: &'a Schema,
}

const ORDER: &str = "$setElementOrder/";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const RETAIN: &str = "$retainKeys";
const DIRECTIVE: &str = "$patch";

fn bad(message: &str) -> ApiError {
    ApiError::unknown(message)
}

impl Walker<'_> {
    fn field(&self, id: Id, key: &str) -> Option<&Field> {
        self.schema.structure(id)?.fields.get(key)
    }

    fn below(&self, id: Id, key: &str) -> Id {
        match self.schema.get(id) {
            Type::Struct(found) => found.fields.get(key).map_or(DEDUCED, |field| field.id),
            Type::Map { value, .. } => *value,
            _ => DEDUCED,
        }
    }

    fn item(&self, id: Id) -> Id {
        match self.schema.get(id) {
            Type::List { item, .. } => *item,
            _ => DEDUCED,
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
        let mut out = live.as_object().cloned().unwrap_or_default();
        if let Some(keep) = patch.get(RETAIN).and_then(Value::as_array) {
            out.retain(|key, _| keep.iter().any(|kept| kept == key));
        }
        for (key, list) in patch {
            if let Some(name) = key.strip_prefix(DELETE_FROM)
                && let (Some(Value::Array(items)), Some(gone)) =
                    (out.get_mut(name), list.as_array())
            {
                items.retain(|item| !gone.contains(item));
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
            let merged = self.one(id, key, out.get(key), value, order)?;
            out.insert(key.clone(), merged);
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

    fn one(
        &self,
        id: Id,
        key: &str,
        live: Option<&Value>,
        patch: &Value,
        order: Option<&Value>,
    ) -> Result<Value, ApiError> {
        let field = self.field(id, key);
        let strategy = field.map_or("", |field| field.strategy.as_str());
        let below = self.below(id, key);
        match patch {
            Value::Object(_) if strategy.split(',').any(|s| s == "replace") => {
                Ok(without_directives(patch))
            }
            Value::Object(_) => match live {
                Some(live) if live.is_object() => self.map(below, live, patch),
                _ => self.map(below, &Value::Object(Map::new()), patch),
            },
            Value::Array(items) if strategy.split(',').any(|s| s == "merge") => {
                let merge_key = field.map_or("", |field| field.merge_key.as_str());
                let live = live.and_then(Value::as_array).cloned().unwrap_or_default();
                let before = live.clone();
                let merged = self.list(self.item(below), live, items, merge_key)?;
                let order = order.and_then(Value::as_array).unwrap_or(items);
                Ok(Value::Array(sort(merged, order, &before, merge_key)))
            }
            other => Ok(other.clone()),
        }
    }

    fn list(
        &self,
        item: Id,
        live: Vec<Value>,
        patch: &[Value],
        key: &str,
    ) -> Result<Vec<Value>, ApiError> {
        if key.is_empty() {
            let mut out = live;
            for value in patch {
                if !out.contains(value) {
                    out.push(value.clone());
                }
            }
            return Ok(out);
        }
        if patch
            .iter()
            .any(|p| p.get(DIRECTIVE).is_some_and(|d| d == "replace"))
        {
            let kept = patch.iter().filter(|p| p.get(DIRECTIVE).is_none());
            return Ok(kept.cloned().collect());
        }
        let mut out = live;
        for entry in patch {
            let Some(name) = entry.get(key) else {
                return Err(bad(&format!(
                    "map: {} does not contain declared merge key: {key}",
                    go_map(entry)
                )));
            };
            if entry.get(DIRECTIVE).is_some_and(|d| d == "delete") {
                out.retain(|known| known.get(key) != Some(name));
                continue;
            }
            match out.iter_mut().find(|known| known.get(key) == Some(name)) {
                Some(known) => *known = self.map(item, known, entry)?,
                None => out.push(self.map(item, &Value::Object(Map::new()), entry)?),
            }
        }
        Ok(out)
    }
}

/// A map as Go prints it.
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

/// The items that the order names stand in that order; the others keep theirs, and a place in front of those that
/// they stood in front of.
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

/// An item with its places in the order and among what stood there before.
type Placed = (Option<usize>, Option<usize>, Value);
