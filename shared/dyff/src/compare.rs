//! The differences of two documents, as dyff's `CompareInputFiles` finds them for Kubernetes.

use crate::node::{Node, Tag};
use std::collections::{BTreeMap, BTreeSet};

/// The fields that identify the entries of a list, in their order.
const IDENTIFIERS: [&str; 4] = ["name", "key", "id", "manager"];
/// The number of entries above which any other field may identify them.
const GUESS_FROM: usize = 3;

/// The differences at one place of a document.
#[derive(Debug)]
pub(crate) struct Difference {
    /// The keys, the names of list entries and the positions that lead to the place.
    pub(crate) path: Vec<String>,
    /// The differences, in dyff's order.
    pub(crate) details: Vec<Detail>,
}

/// A difference at one place.
#[derive(Debug)]
pub(crate) enum Detail {
    /// A value is another one.
    Modified(Node, Node),
    /// The entries of a map or a list that are gone.
    Removed(Node),
    /// The new entries of a map or a list.
    Added(Node),
    /// The common entries of a list have another order.
    Reordered(Vec<Node>, Vec<Node>),
}

/// Returns the differences of two documents.
pub(crate) fn compare(before: &Node, after: &Node) -> Vec<Difference> {
    let mut found = Vec::new();
    nodes(&mut Vec::new(), before, after, &mut found);
    found
}

fn nodes(path: &mut Vec<String>, before: &Node, after: &Node, found: &mut Vec<Difference>) {
    match (before, after) {
        (Node::Map(before), Node::Map(after)) => maps(path, before, after, found),
        (Node::List(before), Node::List(after)) => lists(path, before, after, found),
        (Node::Scalar(Tag::Null, _), Node::Scalar(Tag::Null, _)) => {}
        _ if before.is_like(after) && before.text() == after.text() => {}
        _ => found.push(Difference {
            path: path.clone(),
            details: vec![Detail::Modified(before.clone(), after.clone())],
        }),
    }
}

fn below(
    path: &mut Vec<String>,
    part: &str,
    before: &Node,
    after: &Node,
    found: &mut Vec<Difference>,
) {
    path.push(part.to_owned());
    nodes(path, before, after, found);
    path.pop();
}

type Entries = [(String, Node)];

fn maps(path: &mut Vec<String>, before: &Entries, after: &Entries, found: &mut Vec<Difference>) {
    let index = |entries: &'_ Entries| -> BTreeMap<String, usize> {
        let keys = entries.iter().enumerate();
        keys.map(|(at, (key, _))| (key.clone(), at)).collect()
    };
    let (old, new) = (index(before), index(after));
    let missing = |entries: &Entries, others: &BTreeMap<String, usize>| {
        let entries = entries.iter();
        let missing = entries.filter(|(key, _)| !others.contains_key(key));
        missing.cloned().collect::<Vec<_>>()
    };
    let (removed, added) = (missing(before, &new), missing(after, &old));
    let mut details = Vec::new();
    if !removed.is_empty() {
        details.push(Detail::Removed(Node::Map(removed)));
    }
    if !added.is_empty() {
        details.push(Detail::Added(Node::Map(added)));
    }
    push(path, details, found);
    for (key, value) in before {
        if let Some((_, other)) = new.get(key).and_then(|at| after.get(*at)) {
            below(path, key, value, other, found);
        }
    }
}

fn push(path: &[String], details: Vec<Detail>, found: &mut Vec<Difference>) {
    if !details.is_empty() {
        found.push(Difference {
            path: path.to_vec(),
            details,
        });
    }
}

fn lists(path: &mut Vec<String>, before: &[Node], after: &[Node], found: &mut Vec<Difference>) {
    if before.is_empty() && after.is_empty() {
        return;
    }
    if let Some(field) = usual_identifier(before, after).or_else(|| guess(before, after)) {
        let name = |entry: &Node| {
            let value = entry.get(&field);
            value.map_or_else(String::new, |value| value.text().to_owned())
        };
        return named(path, before, after, &name, found);
    }
    let are_objects = |list: &[Node]| list.iter().all(|entry| resource(entry).is_some());
    if are_objects(before) && are_objects(after) {
        let name = |entry: &Node| resource(entry).unwrap_or_default();
        return named(path, before, after, &name, found);
    }
    match (before, after) {
        ([before], [after]) => below(path, "0", before, after, found),
        _ => push(path, unnamed(before, after), found),
    }
}

/// Returns the usual field whose values differ in all entries of both lists.
fn usual_identifier(before: &[Node], after: &[Node]) -> Option<String> {
    let has = |list: &[Node], field: &str| {
        let values = list.iter().filter_map(|entry| entry.get(field));
        let values: BTreeSet<&str> = values.map(Node::text).collect();
        !values.is_empty() && values.len() == list.len()
    };
    let mut fitting = IDENTIFIERS.into_iter();
    let found = fitting.find(|field| has(before, field) && has(after, field));
    found.map(str::to_owned)
}

/// Returns the first field whose values are texts that differ in all entries of both lists, if the
/// lists have several entries.
fn guess(before: &[Node], after: &[Node]) -> Option<String> {
    let distinct = |list: &[Node]| -> Option<BTreeMap<String, usize>> {
        let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for entry in list {
            let Node::Map(entries) = entry else {
                return None;
            };
            for (key, value) in entries {
                if let Node::Scalar(Tag::String, text) = value {
                    values.entry(key).or_default().insert(text);
                }
            }
        }
        let counts = values.into_iter();
        Some(
            counts
                .map(|(key, all)| (key.to_owned(), all.len()))
                .collect(),
        )
    };
    let (old, new) = (distinct(before)?, distinct(after)?);
    let mut fitting = old.into_iter().filter(|(key, count)| {
        *count > GUESS_FROM && *count == before.len() && new.get(key) == Some(&after.len())
    });
    fitting.next().map(|(key, _)| key)
}

/// Returns the identity of a Kubernetes object; `None` for another node.
fn resource(entry: &Node) -> Option<String> {
    let metadata = entry.get("metadata")?;
    let mut parts = vec![entry.get("apiVersion")?.text(), entry.get("kind")?.text()];
    parts.extend(metadata.get("namespace").map(Node::text));
    parts.push(metadata.get("name")?.text());
    Some(parts.join("/"))
}

/// Compares lists whose entries have names.
fn named(
    path: &mut Vec<String>,
    before: &[Node],
    after: &[Node],
    name: &dyn Fn(&Node) -> String,
    found: &mut Vec<Difference>,
) {
    let index = |list: &[Node]| {
        let mut places = BTreeMap::new();
        for (at, entry) in list.iter().enumerate() {
            places.entry(name(entry)).or_insert(at);
        }
        places
    };
    let (old, new) = (index(before), index(after));
    let (mut old_names, mut new_names) = (Vec::new(), Vec::new());
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    let mut inner = Vec::new();
    for entry in before {
        let name = name(entry);
        match new.get(&name).and_then(|at| after.get(*at)) {
            Some(other) => {
                below(path, &name, entry, other, &mut inner);
                old_names.push(name);
            }
            None => removed.push(entry.clone()),
        }
    }
    for entry in after {
        let name = name(entry);
        match old.contains_key(&name) {
            true => new_names.push(name),
            false => added.push(entry.clone()),
        }
    }
    let mut details = Vec::new();
    let places: BTreeMap<&String, usize> = new_names
        .iter()
        .enumerate()
        .map(|(at, name)| (name, at))
        .collect();
    let mut order = old_names.iter().enumerate();
    // A name that is missing counts as the first one.
    if order.any(|(at, name)| places.get(name).copied().unwrap_or(0) != at) {
        let texts = |names: Vec<String>| {
            let names = names.into_iter();
            names.map(|name| Node::Scalar(Tag::String, name)).collect()
        };
        details.push(Detail::Reordered(texts(old_names), texts(new_names)));
    }
    details.extend(entries(removed, added));
    push(path, details, found);
    found.append(&mut inner);
}

fn entries(removed: Vec<Node>, added: Vec<Node>) -> Vec<Detail> {
    let mut details = Vec::new();
    if !removed.is_empty() {
        details.push(Detail::Removed(Node::List(removed)));
    }
    if !added.is_empty() {
        details.push(Detail::Added(Node::List(added)));
    }
    details
}

/// Compares lists whose entries have no names, by their content.
fn unnamed(before: &[Node], after: &[Node]) -> Vec<Detail> {
    let prints = |list: &[Node]| -> Vec<String> { list.iter().map(Node::fingerprint).collect() };
    let (old, new) = (prints(before), prints(after));
    let (removed, old_common) = only(before, &old, &new);
    let (added, new_common) = only(after, &new, &old);
    let mut details = Vec::new();
    let differ = |(a, b): (&usize, &usize)| old.get(*a) != new.get(*b);
    if old_common.len() == new_common.len() && old_common.iter().zip(&new_common).any(differ) {
        let take = |list: &[Node], places: &[usize]| -> Vec<Node> {
            let places = places.iter().filter_map(|at| list.get(*at));
            places.cloned().collect()
        };
        let (from, to) = (take(before, &old_common), take(after, &new_common));
        details.push(Detail::Reordered(from, to));
    }
    details.extend(entries(removed, added));
    details
}

/// Returns the entries of a list that the other one has not, or not as often, and the places of
/// those that it has.
fn only(list: &[Node], prints: &[String], others: &[String]) -> (Vec<Node>, Vec<usize>) {
    let count = |prints: &[String]| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for print in prints {
            *counts.entry(print.clone()).or_default() += 1;
        }
        counts
    };
    let (own, other) = (count(prints), count(others));
    let mut counted = BTreeSet::new();
    let (mut more, mut common) = (Vec::new(), Vec::new());
    for (at, (entry, print)) in list.iter().zip(prints).enumerate() {
        let (here, there) = (own.get(print).copied(), other.get(print).copied());
        match (here.unwrap_or(0), there) {
            (_, None) => more.push(entry.clone()),
            (here, Some(there)) => {
                common.push(at);
                if here > there && counted.insert(print) {
                    more.extend(std::iter::repeat_n(entry.clone(), here - there));
                }
            }
        }
    }
    (more, common)
}
