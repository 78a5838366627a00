//! Lists that merge by key.

use super::{PATCH, Walker};
use crate::error::Error;
use crate::node::{Map, Node, Scalar};
use crate::schema::SchemaNode;
use std::collections::HashSet;

/// The values of an element's keys; empty for missing ones.
type Values = Vec<String>;

impl<'w> Walker<'w> {
    /// Merges two lists, or normalizes one list.
    pub(super) fn merge_list(
        &mut self,
        dest: Vec<Node>,
        origin: Option<Vec<Node>>,
        keys: &[&str],
        schema: Option<SchemaNode<'w>>,
    ) -> Result<Node, Error> {
        self.associate(dest, Other::Patch(origin.unwrap_or_default()), keys, schema)
    }

    /// Normalizes a list that a patch adds: its elements are merged with themselves.
    pub(super) fn settle_list(
        &mut self,
        items: Vec<Node>,
        keys: &[&str],
        schema: Option<SchemaNode<'w>>,
    ) -> Result<Node, Error> {
        self.associate(items, Other::Same, keys, schema)
    }

    fn associate(
        &mut self,
        mut dest: Vec<Node>,
        mut other: Other,
        keys: &[&str],
        schema: Option<SchemaNode<'w>>,
    ) -> Result<Node, Error> {
        let keys: &[&str] = if keys.is_empty() { &[""] } else { keys };
        let mut all = element_values(other.items(), &dest, keys);
        if keys.len() > 1 {
            self.spend(all.len().saturating_mul(all.len()))?;
            complete(&mut all);
        }
        let usable = usable_keys(&all, keys);
        let mut added = Vec::with_capacity(all.len());
        let mut last_keys: Vec<&str> = Vec::new();
        for values in &all {
            self.spend(dest.len() + added.len())?;
            let (keys, values) = valid(&usable, values, keys);
            let merged = self.element(&mut dest, &mut other, &keys, &values, schema)?;
            match merged {
                Some(element) if !matches!(&element, Node::Map(map) if map.is_empty()) => {
                    set_element(&mut added, Some(element), &keys, &values)
                        .map_err(|reason| self.fault(reason))?;
                }
                _ => set_element(&mut dest, None, &keys, &values)
                    .map_err(|reason| self.fault(reason))?,
            }
            last_keys = keys;
        }
        if all.is_empty() {
            return Ok(Node::Seq(dest));
        }
        append(&mut added, dest, &last_keys, self)?;
        Ok(Node::Seq(added))
    }

    /// Merges the elements with these keys. The element of the object is also changed in its place.
    fn element(
        &mut self,
        dest: &mut [Node],
        other: &mut Other,
        keys: &[&str],
        values: &[String],
        schema: Option<SchemaNode<'w>>,
    ) -> Result<Option<Node>, Error> {
        let mine = find(dest, keys, values);
        self.spend(mine.map_or(0, |at| dest[at].size()))?;
        let (old, patch) = match other {
            Other::Same => (mine.map(|at| dest[at].clone()), None),
            Other::Patch(items) => (
                mine.map(|at| dest[at].clone()),
                find(items, keys, values).map(|at| take_patch(&mut items[at])),
            ),
        };
        // A complete element that replaces another does not reach the object's list, only what is
        // inserted before it.
        let replaced = patch
            .as_ref()
            .and_then(|patch| patch.get(PATCH))
            .is_some_and(|text| text.text() == "replace");
        let merged = match (other, old) {
            (Other::Same, None) => None,
            (Other::Same, Some(old)) => self.normalize_added(old, schema)?,
            (Other::Patch(_), old) => self.walk(old, patch, schema)?,
        };
        let Some(mut merged) = merged else {
            return Ok(None);
        };
        if matches!(&merged, Node::Map(map) if map.is_empty()) {
            return Ok(Some(merged));
        }
        set_keys(&mut merged, keys, values);
        if let (Some(at), false, Node::Map(_)) = (mine, replaced, &merged) {
            dest[at] = merged.clone();
        }
        Ok(Some(merged))
    }
}

/// The list to merge with.
enum Other {
    Patch(Vec<Node>),
    /// The patch and the original are the same list.
    Same,
}

impl Other {
    fn items(&self) -> &[Node] {
        match self {
            Other::Patch(items) => items,
            Other::Same => &[],
        }
    }
}

/// Takes an element of a patch. Its directive is followed once: if elements with completed keys
/// lead to it again, it is an element like any other.
fn take_patch(element: &mut Node) -> Node {
    let taken = element.clone();
    if let Node::Map(map) = element {
        map.remove(PATCH);
    }
    taken
}

fn set_keys(element: &mut Node, keys: &[&str], values: &[String]) {
    for (key, value) in keys.iter().zip(values) {
        match element {
            Node::Map(map) if map.get(key).is_none() && !value.is_empty() => {
                map.push(*key, Node::str(value.clone()));
            }
            Node::Scalar(scalar) if !value.is_empty() => scalar.set_plain(value.clone()),
            _ => {}
        }
    }
}

/// Returns the keys of every element, those of the patch first, each once.
fn element_values(patch: &[Node], dest: &[Node], keys: &[&str]) -> Vec<Values> {
    let text = |item: &Node, key: &&str| match item.get(key) {
        Some(value) if !value.is_empty() => value.text().to_owned(),
        _ => String::new(),
    };
    let values = |item: &Node| -> Values {
        if keys == [""] {
            vec![item.text().to_owned()]
        } else {
            keys.iter().map(|key| text(item, key)).collect()
        }
    };
    let mut seen = HashSet::new();
    patch
        .iter()
        .chain(dest)
        .map(values)
        .filter(|values| seen.insert(values.clone()))
        .collect()
}

/// Completes the keys of elements that agree in one key and contradict each other in none. Each is
/// compared in its state before its turn: an element without keys takes them from the last match.
fn complete(all: &mut [Values]) {
    for i in 0..all.len() {
        let before = all[i].clone();
        for j in 0..all.len() {
            if let Some(both) = combine(&before, &all[j]) {
                all[i].clone_from(&both);
                all[j] = both;
            }
        }
    }
}

fn combine(a: &Values, b: &Values) -> Option<Values> {
    let mut common = false;
    let mut both = Vec::with_capacity(a.len());
    for (a, b) in a.iter().zip(b) {
        if a == b {
            common = true;
        } else if !a.is_empty() && !b.is_empty() {
            return None;
        }
        both.push(if a.is_empty() { b.clone() } else { a.clone() });
    }
    common.then_some(both)
}

/// Returns which keys at least one element has.
fn usable_keys(all: &[Values], keys: &[&str]) -> Vec<bool> {
    (0..keys.len())
        .map(|at| all.iter().any(|values| !values[at].is_empty()))
        .collect()
}

/// Returns the relevant keys: those that at least one element has, or all if no element has any.
fn valid<'k>(usable: &[bool], values: &Values, keys: &[&'k str]) -> (Vec<&'k str>, Values) {
    if !usable.contains(&true) {
        return (keys.to_vec(), values.clone());
    }
    let pairs = keys
        .iter()
        .zip(values)
        .zip(usable)
        .filter(|(_, usable)| **usable);
    pairs.map(|((key, value), _)| (*key, value.clone())).unzip()
}

/// Returns the first element with these keys; keys without a value are ignored if any key has one.
fn find(items: &[Node], keys: &[&str], values: &[String]) -> Option<usize> {
    if keys == [""] {
        return items.iter().position(|item| item.text() == values[0]);
    }
    let any = values.iter().any(|value| !value.is_empty());
    let wanted: Vec<(&&str, &String)> = keys
        .iter()
        .zip(values)
        .filter(|(_, value)| !any || !value.is_empty())
        .collect();
    let fits = |map: &Map| {
        wanted
            .iter()
            .all(|(key, value)| map.get(key).is_some_and(|field| field.text() == *value))
    };
    items
        .iter()
        .position(|item| item.as_map().is_some_and(fits))
}

/// kyaml's `ElementSetter`: replaces every element with these keys, or removes them; adds the
/// element if none has them. Empty elements are dropped. A key without a value matches any element
/// with the key.
pub(super) fn set_element(
    items: &mut Vec<Node>,
    element: Option<Node>,
    keys: &[&str],
    values: &[String],
) -> Result<(), &'static str> {
    let by_field = keys.first().is_some_and(|key| !key.is_empty())
        && values.first().is_some_and(|v| !v.is_empty());
    let mut found = false;
    let mut kept = Vec::with_capacity(items.len() + 1);
    for item in items.drain(..) {
        if item.is_null() || matches!(&item, Node::Map(map) if map.is_empty()) {
            continue;
        }
        if by_field && item.as_map().is_none() {
            kept.push(item);
            continue;
        }
        if !fits(&item, keys, values)? {
            if !values.is_empty() {
                kept.push(item);
            }
            continue;
        }
        found = true;
        kept.extend(element.clone());
    }
    *items = kept;
    if !found {
        items.extend(element.filter(|element| !element.is_null()));
    }
    Ok(())
}

/// Checks whether an element has all these keys. Keys beyond the last value match if the last one
/// did.
fn fits(item: &Node, keys: &[&str], values: &[String]) -> Result<bool, &'static str> {
    if values.is_empty() {
        return Ok(false);
    }
    for (key, value) in keys.iter().zip(values) {
        let fit = match item {
            Node::Scalar(Scalar { text, .. }) if key.is_empty() => text == value,
            Node::Map(map) if !key.is_empty() => map
                .get(key)
                .is_some_and(|field| value.is_empty() || field.text() == value),
            _ => return Err("the elements of a list differ in type: some are maps, some are not"),
        };
        if !fit {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Puts the object's elements behind those of the patch, or in place of those with the same keys.
fn append(
    list: &mut Vec<Node>,
    dest: Vec<Node>,
    keys: &[&str],
    walker: &mut Walker<'_>,
) -> Result<(), Error> {
    for element in dest {
        walker.spend(list.len())?;
        let fault = |reason| walker.fault(reason);
        if keys == [""] {
            let values = [element.text().to_owned()];
            set_element(list, Some(element), keys, &values).map_err(fault)?;
            continue;
        }
        if element.as_map().is_none() && !element.is_null() {
            return Err(fault(
                "an element of a list that merges by key is not a map",
            ));
        }
        let mut values = Vec::with_capacity(keys.len());
        for key in keys {
            match element.get(key) {
                Some(value) => values.push(value.text().to_owned()),
                None => list.push(element.clone()),
            }
        }
        if keys.len() > 1 {
            set_element(list, None, keys, &values).map_err(fault)?;
        }
        set_element(list, Some(element), keys, &values).map_err(fault)?;
    }
    Ok(())
}
