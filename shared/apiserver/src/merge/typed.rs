//! Typed values: check, field set, comparison, merge, removal, as
//! structured-merge-diff v6 does them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Map, Value};

use super::set::{Element, Set, display_element};
use super::shape::{
    Shape, below, go_plain, is_absent_or_empty, item_element, scalar_problem, shape,
};
use crate::schema::{Id, ListType, Schema, Type};

/// A type in a schema.
#[derive(Clone, Copy, Debug)]
pub struct TypeRef<'a> {
    /// The schema that contains the type.
    pub schema: &'a Schema,
    /// The index of the type in the schema.
    pub id: Id,
}

impl<'a> TypeRef<'a> {
    fn at(self, id: Id) -> Self {
        Self { id, ..self }
    }

    /// Returns whether server-side apply treats a value of the type as one value.
    fn is_atomic(self) -> bool {
        match self.schema.get(self.id) {
            Type::Untyped => true,
            Type::List { list_type, .. } => *list_type == ListType::Atomic,
            Type::Map { atomic, .. } => *atomic,
            Type::Struct(of) => of.atomic,
            _ => false,
        }
    }

    fn shape(self, value: Option<&Value>) -> Shape<'a> {
        shape(self.schema, self.id, value)
    }
}

/// The errors of a value that does not match its type: at least one, with the API server's
/// messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeErrors(Vec<String>);

impl TypeErrors {
    fn check(problems: Vec<String>) -> Result<(), Self> {
        if problems.is_empty() {
            return Ok(());
        }
        Err(Self(problems))
    }
}

impl fmt::Display for TypeErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = self.0.as_slice() {
            return f.write_str(one);
        }
        let lines: Vec<String> = self.0.iter().map(|line| format!("  {line}")).collect();
        write!(f, "errors:\n{}", lines.join("\n"))
    }
}

impl std::error::Error for TypeErrors {}

/// Checks that a value matches its type. `duplicates` allows items of a list with the same key.
///
/// # Errors
/// All problems of the value.
pub fn check(of: TypeRef<'_>, value: &Value, duplicates: bool) -> Result<(), TypeErrors> {
    let mut problems = Vec::new();
    check_at(of, value, duplicates, "", &mut problems);
    TypeErrors::check(problems)
}

fn note(path: &str, problem: &str, out: &mut Vec<String>) {
    out.push(if path.is_empty() {
        problem.to_owned()
    } else {
        format!("{path}: {problem}")
    });
}

fn check_at(of: TypeRef<'_>, value: &Value, duplicates: bool, path: &str, out: &mut Vec<String>) {
    match of.shape(Some(value)) {
        Shape::Scalar(kind) => {
            if let Some(problem) = scalar_problem(kind, value) {
                note(path, &problem, out);
            }
        }
        Shape::List { item, list_type } => match value {
            Value::Null => {}
            Value::Array(list) => check_items(of.at(item), list_type, list, duplicates, path, out),
            other => note(
                path,
                &format!("expected list, got {}", go_plain(other)),
                out,
            ),
        },
        Shape::Map {
            declared, others, ..
        } => match value {
            Value::Null => {}
            Value::Object(map) => {
                for (key, value) in map {
                    let Some((id, element, _)) = below(declared, others, key) else {
                        note(
                            &format!("{path}.{key}"),
                            "field not declared in schema",
                            out,
                        );
                        return;
                    };
                    let path = format!("{path}{}", display_element(&element));
                    check_at(of.at(id), value, duplicates, &path, out);
                }
            }
            other => note(path, &format!("expected map, got {}", go_plain(other)), out),
        },
    }
}

fn check_items(
    item: TypeRef<'_>,
    list_type: &ListType,
    list: &[Value],
    duplicates: bool,
    path: &str,
    out: &mut Vec<String>,
) {
    let mut seen = BTreeSet::new();
    for (index, value) in list.iter().enumerate() {
        let step = if *list_type == ListType::Atomic {
            format!("[{index}]")
        } else {
            match item_element(item.schema, item.id, list_type, value) {
                Ok(element) => {
                    let step = display_element(&element);
                    if !seen.insert(element) && !duplicates {
                        note(path, &format!("duplicate entries for key {step}"), out);
                    }
                    step
                }
                Err(problem) => {
                    note(path, &format!("element {index}: {problem}"), out);
                    return;
                }
            }
        };
        check_at(item, value, duplicates, &format!("{path}{step}"), out);
    }
}

/// Returns the paths of the lists and maps in a value that server-side apply replaces as a whole.
pub fn atomics(of: TypeRef<'_>, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    atomics_at(of, value, "", &mut found);
    found
}

fn atomics_at(of: TypeRef<'_>, value: &Value, path: &str, out: &mut Vec<String>) {
    if value.is_object() || value.is_array() {
        match of.shape(Some(value)) {
            Shape::Scalar(_) => {}
            Shape::List { item, list_type } => {
                if *list_type == ListType::Atomic {
                    out.push(path.to_owned());
                }
                for (index, value) in value.as_array().into_iter().flatten().enumerate() {
                    atomics_at(of.at(item), value, &format!("{path}[{index}]"), out);
                }
            }
            Shape::Map {
                declared,
                others,
                atomic,
            } => {
                if atomic {
                    out.push(path.to_owned());
                }
                for (key, value) in value.as_object().into_iter().flatten() {
                    if let Some((id, element, _)) = below(declared, others, key) {
                        let path = format!("{path}{}", display_element(&element));
                        atomics_at(of.at(id), value, &path, out);
                    }
                }
            }
        }
    }
}

/// Returns the fields that a value sets.
pub fn field_set(of: TypeRef<'_>, value: &Value) -> Set {
    let mut set = Set::default();
    collect(of, value, &mut Vec::new(), &mut set);
    set
}

fn collect(of: TypeRef<'_>, value: &Value, path: &mut Vec<Element>, set: &mut Set) {
    match of.shape(Some(value)) {
        Shape::Scalar(_)
        | Shape::List {
            list_type: ListType::Atomic,
            ..
        }
        | Shape::Map { atomic: true, .. } => set.insert(path),
        Shape::List { item, list_type } => {
            let Value::Array(list) = value else { return };
            let elements: Vec<Option<Element>> = list
                .iter()
                .map(|value| item_element(of.schema, item, list_type, value).ok())
                .collect();
            let mut counts: BTreeMap<&Element, usize> = BTreeMap::new();
            for element in elements.iter().flatten() {
                *counts.entry(element).or_default() += 1;
            }
            for (value, element) in list.iter().zip(&elements) {
                let Some(element) = element else { continue };
                path.push(element.clone());
                if counts.get(element) == Some(&1) {
                    collect(of.at(item), value, path, set);
                }
                set.insert(path);
                path.pop();
            }
        }
        Shape::Map {
            declared, others, ..
        } => {
            let Value::Object(map) = value else { return };
            for (key, value) in map {
                let Some((id, element, named)) = below(declared, others, key) else {
                    continue;
                };
                path.push(element);
                collect(of.at(id), value, path, set);
                let hollow = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                if hollow || !named {
                    set.insert(path);
                }
                path.pop();
            }
        }
    }
}

/// The difference between two values of a type.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Comparison {
    /// Fields only in the second value.
    pub added: Set,
    /// Fields in both values that differ.
    pub modified: Set,
    /// Fields only in the first value.
    pub removed: Set,
}

impl Comparison {
    /// Removes fields and everything below them from the comparison.
    #[must_use]
    pub fn without(self, fields: &Set) -> Self {
        Self {
            added: self.added.recursive_difference(fields),
            modified: self.modified.recursive_difference(fields),
            removed: self.removed.recursive_difference(fields),
        }
    }

    /// Returns whether both values are equal.
    pub fn is_same(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }
}

/// Compares two values of a type.
pub fn compare(of: TypeRef<'_>, old: &Value, new: &Value) -> Comparison {
    let mut out = Comparison::default();
    compare_at(of, Some(old), Some(new), &mut Vec::new(), &mut out);
    out
}

fn leaf(old: Option<&Value>, new: Option<&Value>, path: &[Element], out: &mut Comparison) {
    match (old, new) {
        (None, _) => out.added.insert(path),
        (_, None) => out.removed.insert(path),
        (Some(old), Some(new)) if old != new => out.modified.insert(path),
        _ => {}
    }
}

fn differ(a: &Shape<'_>, b: &Shape<'_>) -> bool {
    std::mem::discriminant(a) != std::mem::discriminant(b)
}

fn compare_at(
    of: TypeRef<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    path: &mut Vec<Element>,
    out: &mut Comparison,
) {
    let (left, right) = (of.shape(old), of.shape(new));
    let in_leaf = if new.is_none() {
        compare_shape(left, of, old, new, path, out)
    } else if old.is_none() || !differ(&left, &right) {
        compare_shape(right, of, old, new, path, out)
    } else {
        compare_shape(left, of, old, new, path, out);
        compare_shape(right, of, old, new, path, out)
    };
    if !in_leaf {
        if old.is_none() {
            out.added.insert(path);
        } else if new.is_none() {
            out.removed.insert(path);
        }
    }
}

fn compare_shape(
    shape: Shape<'_>,
    of: TypeRef<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    path: &mut Vec<Element>,
    out: &mut Comparison,
) -> bool {
    match shape {
        Shape::Scalar(_) => {
            leaf(old, new, path, out);
            true
        }
        Shape::List { item, list_type } => {
            let (a, b) = (
                old.and_then(Value::as_array).map_or(&[][..], Vec::as_slice),
                new.and_then(Value::as_array).map_or(&[][..], Vec::as_slice),
            );
            if *list_type == ListType::Atomic || (a.is_empty() && b.is_empty()) {
                leaf(old, new, path, out);
                return true;
            }
            compare_items(of.at(item), list_type, a, b, path, out);
            false
        }
        Shape::Map {
            declared,
            others,
            atomic,
        } => {
            if atomic || (is_absent_or_empty(old) && is_absent_or_empty(new)) {
                leaf(old, new, path, out);
                return true;
            }
            let (a, b) = (
                old.and_then(Value::as_object),
                new.and_then(Value::as_object),
            );
            for key in keys(a, b) {
                let Some((id, element, _)) = below(declared, others, key) else {
                    continue;
                };
                path.push(element);
                let (a, b) = (a.and_then(|a| a.get(key)), b.and_then(|b| b.get(key)));
                compare_at(of.at(id), a, b, path, out);
                path.pop();
            }
            false
        }
    }
}

fn keys<'a>(
    a: Option<&'a Map<String, Value>>,
    b: Option<&'a Map<String, Value>>,
) -> BTreeSet<&'a String> {
    a.into_iter().chain(b).flat_map(|map| map.keys()).collect()
}

fn grouped<'a>(
    item: TypeRef<'_>,
    list_type: &ListType,
    list: &'a [Value],
) -> (Vec<Element>, BTreeMap<Element, Vec<&'a Value>>) {
    let mut order = Vec::new();
    let mut groups: BTreeMap<Element, Vec<&Value>> = BTreeMap::new();
    for value in list {
        let Ok(element) = item_element(item.schema, item.id, list_type, value) else {
            continue;
        };
        order.push(element.clone());
        groups.entry(element).or_default().push(value);
    }
    (order, groups)
}

fn compare_items(
    item: TypeRef<'_>,
    list_type: &ListType,
    a: &[Value],
    b: &[Value],
    path: &mut Vec<Element>,
    out: &mut Comparison,
) {
    let (_, left) = grouped(item, list_type, a);
    let (_, right) = grouped(item, list_type, b);
    let none = Vec::new();
    let all: BTreeSet<&Element> = left.keys().chain(right.keys()).collect();
    for element in all {
        let (a, b) = (
            left.get(element).unwrap_or(&none),
            right.get(element).unwrap_or(&none),
        );
        path.push(element.clone());
        match (a.as_slice(), b.as_slice()) {
            ([] | [_], [] | [_]) => {
                compare_at(item, a.first().copied(), b.first().copied(), path, out);
            }
            ([_, _, ..], [_, _, ..]) => {
                if a != b {
                    out.modified.insert(path);
                }
            }
            ([_, _, ..], _) => {
                if let Some(new) = b.first() {
                    compare_at(item, None, Some(new), path, out);
                }
                out.removed.insert(path);
            }
            _ => {
                if let Some(old) = a.first() {
                    compare_at(item, Some(old), None, path, out);
                }
                out.added.insert(path);
            }
        }
        path.pop();
    }
}

/// Merges a configuration into a live value. Returns the merged value.
///
/// # Errors
/// Items of the configuration with the same key.
pub fn merge(of: TypeRef<'_>, live: &Value, config: &Value) -> Result<Value, TypeErrors> {
    let mut problems = Vec::new();
    let merged = merge_at(of, Some(live), Some(config), &mut problems);
    TypeErrors::check(problems)?;
    Ok(merged.unwrap_or(Value::Null))
}

fn merge_at(
    of: TypeRef<'_>,
    live: Option<&Value>,
    config: Option<&Value>,
    problems: &mut Vec<String>,
) -> Option<Value> {
    let shape = if config.is_none() {
        of.shape(live)
    } else {
        of.shape(config)
    };
    let keep = || config.or(live).cloned();
    match shape {
        Shape::Scalar(_) => keep(),
        Shape::List { item, list_type } => {
            let (a, b) = (
                live.and_then(Value::as_array)
                    .map_or(&[][..], Vec::as_slice),
                config
                    .and_then(Value::as_array)
                    .map_or(&[][..], Vec::as_slice),
            );
            if *list_type == ListType::Atomic || (a.is_empty() && b.is_empty()) {
                return keep();
            }
            let merged = merge_items(of.at(item), list_type, a, b, problems);
            (!merged.is_empty()).then_some(Value::Array(merged))
        }
        Shape::Map {
            declared,
            others,
            atomic,
        } => {
            if atomic || (is_absent_or_empty(live) && is_absent_or_empty(config)) {
                return keep();
            }
            let (a, b) = (
                live.and_then(Value::as_object),
                config.and_then(Value::as_object),
            );
            let mut out = Map::new();
            for key in keys(a, b) {
                let Some((id, _, _)) = below(declared, others, key) else {
                    continue;
                };
                let (a, b) = (a.and_then(|a| a.get(key)), b.and_then(|b| b.get(key)));
                if let Some(value) = merge_at(of.at(id), a, b, problems) {
                    out.insert(key.clone(), value);
                }
            }
            (!out.is_empty()).then_some(Value::Object(out))
        }
    }
}

/// Merges the items of two lists. The configuration's items keep their order; a live item stays in
/// front of the next item that both have.
fn merge_items(
    item: TypeRef<'_>,
    list_type: &ListType,
    live: &[Value],
    config: &[Value],
    problems: &mut Vec<String>,
) -> Vec<Value> {
    let (left_order, left) = grouped(item, list_type, live);
    let (right_order, right) = grouped(item, list_type, config);
    for (element, values) in &right {
        if values.len() > 1 {
            problems.push(format!(
                "duplicate entries for key {}",
                display_element(element)
            ));
        }
    }
    let mut shared = right_order.iter().filter(|e| left.contains_key(*e));
    let mut next_shared = shared.next();
    let mut merged = BTreeSet::new();
    let mut out = Vec::new();
    let single = |groups: &BTreeMap<Element, Vec<&Value>>, element: &Element| match groups
        .get(element)
        .map(Vec::as_slice)
    {
        Some([one]) => Some((*one).clone()),
        Some(_) => Some(Value::Null),
        None => None,
    };
    let (mut l, mut r) = (0, 0);
    while l < left_order.len() || r < right_order.len() {
        if let (Some(le), Some(re)) = (left_order.get(l), right_order.get(r)) {
            if le == re {
                merged.insert(le.clone());
                let (a, b) = (single(&left, le), single(&right, le));
                out.extend(merge_at(item, a.as_ref(), b.as_ref(), problems));
                l += 1;
                r += 1;
                next_shared = shared.next();
                continue;
            }
            if right.contains_key(le) && next_shared.is_some_and(|next| next != le) {
                l += 1;
                continue;
            }
        }
        if let Some(le) = left_order.get(l) {
            if !right.contains_key(le) {
                out.extend(merge_at(item, live.get(l), None, problems));
                l += 1;
                continue;
            }
            if merged.contains(le) {
                l += 1;
            }
        }
        if let Some(re) = right_order.get(r) {
            merged.insert(re.clone());
            let (a, b) = (single(&left, re), single(&right, re));
            out.extend(merge_at(item, a.as_ref(), b.as_ref(), problems));
            r += 1;
            if next_shared == Some(re) {
                next_shared = shared.next();
            }
        }
    }
    out
}

/// Returns the value without the items and fields of a set. A list or map with nothing left becomes
/// null, as in v6.3.3.
pub fn remove(of: TypeRef<'_>, value: &Value, set: &Set) -> Value {
    match of.shape(Some(value)) {
        Shape::Scalar(_) => value.clone(),
        Shape::List { item, list_type } => {
            let Value::Array(list) = value else {
                return Value::Null;
            };
            if list.is_empty() || *list_type == ListType::Atomic {
                return Value::Null;
            }
            let mut out = Vec::new();
            for value in list {
                let element = item_element(of.schema, item, list_type, value).unwrap_or_default();
                if set.has(&element) {
                    continue;
                }
                match set.below(&element) {
                    Some(below) => out.push(remove(of.at(item), value, below)),
                    None => out.push(value.clone()),
                }
            }
            if out.is_empty() {
                Value::Null
            } else {
                Value::Array(out)
            }
        }
        Shape::Map {
            declared,
            others,
            atomic,
        } => {
            let Value::Object(map) = value else {
                return Value::Null;
            };
            if map.is_empty() || atomic {
                return Value::Null;
            }
            let mut out = Map::new();
            for (key, value) in map {
                let Some((id, element, _)) = below(declared, others, key) else {
                    out.insert(key.clone(), value.clone());
                    continue;
                };
                if set.has(&element) {
                    continue;
                }
                let kept = match set.below(&element) {
                    Some(below) => remove(of.at(id), value, below),
                    None => value.clone(),
                };
                out.insert(key.clone(), kept);
            }
            if out.is_empty() {
                Value::Null
            } else {
                Value::Object(out)
            }
        }
    }
}

/// Returns the set with every declared field on the path to a member as a member.
pub fn named_members(of: TypeRef<'_>, set: &Set) -> Set {
    let mut out = set.clone();
    for (element, below_set) in set.children() {
        let (id, named) = step(of, element);
        if named {
            out.add_member(element);
        }
        *out.child_mut(element) = named_members(of.at(id), below_set);
    }
    out
}

/// Returns the set after a change of the schema: if a list or map has become atomic, the owner of a
/// part owns all of it.
pub fn reconciled(of: TypeRef<'_>, set: &Set) -> Set {
    let mut out = set.clone();
    for (element, below_set) in set.children().filter(|(_, below)| !below.is_empty()) {
        let (id, _) = step(of, element);
        let child = of.at(id);
        *out.child_mut(element) = if child.is_atomic() {
            Set::default()
        } else {
            reconciled(child, below_set)
        };
        if child.is_atomic() {
            out.add_member(element);
        }
    }
    out
}

fn step(of: TypeRef<'_>, element: &str) -> (Id, bool) {
    let example = Value::Object(Map::new());
    match (of.shape(Some(&example)), element.strip_prefix("f:")) {
        (
            Shape::Map {
                declared, others, ..
            },
            Some(key),
        ) => below(declared, others, key).map_or(
            (crate::schema::UNTYPED_GRANULAR, false),
            |(id, _, named)| (id, named),
        ),
        (Shape::List { item, .. }, None) => (item, false),
        _ => (crate::schema::UNTYPED_GRANULAR, false),
    }
}
