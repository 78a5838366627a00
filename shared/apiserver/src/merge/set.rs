//! Sets of field paths, and their wire form FieldsV1.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// One step of a path in its wire form: `f:NAME` a field, `k:{…}` a list item
/// by its keys, `v:VALUE` an item of a set.
pub type Element = String;

/// Returns the step to a field.
pub fn field(name: &str) -> Element {
    format!("f:{name}")
}

/// A set of paths. A member without children is a leaf or the item itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    members: BTreeSet<Element>,
    children: BTreeMap<Element, Set>,
}

impl Set {
    /// Returns a set of paths of field names.
    pub fn of(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<Element> = path.iter().map(|name| field(name)).collect();
            set.insert(&path);
        }
        set
    }

    /// Adds a path; an empty path is ignored.
    pub fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// Returns whether the set has no paths.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(Self::is_empty)
    }

    /// Returns whether the step is a member of the set.
    pub fn has(&self, element: &str) -> bool {
        self.members.contains(element)
    }

    /// Returns the set below a step; `None` when it has no path.
    pub fn below(&self, element: &str) -> Option<&Set> {
        self.children.get(element).filter(|set| !set.is_empty())
    }

    /// Returns the steps that have a set below them.
    pub fn children(&self) -> impl Iterator<Item = (&Element, &Set)> {
        self.children.iter()
    }

    /// Adds a step itself as a member.
    pub fn add_member(&mut self, element: &str) {
        self.members.insert(element.to_owned());
    }

    /// Returns the set below a step, and creates it if it does not exist.
    pub fn child_mut(&mut self, element: &str) -> &mut Set {
        self.children.entry(element.to_owned()).or_default()
    }

    /// Returns the union of both sets.
    #[must_use]
    pub fn union(&self, other: &Set) -> Set {
        let mut out = self.clone();
        out.members.extend(other.members.iter().cloned());
        for (element, set) in &other.children {
            let child = out.children.entry(element.clone()).or_default();
            *child = child.union(set);
        }
        out
    }

    /// Returns the intersection of both sets.
    #[must_use]
    pub fn intersection(&self, other: &Set) -> Set {
        let children = self.children.iter().filter_map(|(element, set)| {
            let both = set.intersection(other.children.get(element)?);
            (!both.is_empty()).then(|| (element.clone(), both))
        });
        Set {
            members: self.members.intersection(&other.members).cloned().collect(),
            children: children.collect(),
        }
    }

    /// Returns the paths of this set that are not in the other.
    #[must_use]
    pub fn difference(&self, other: &Set) -> Set {
        self.minus(other, false)
    }

    /// Returns the paths of this set that are not in the other, and not below a member of the
    /// other.
    #[must_use]
    pub fn recursive_difference(&self, other: &Set) -> Set {
        self.minus(other, true)
    }

    fn minus(&self, other: &Set, recursive: bool) -> Set {
        let children = self.children.iter().filter_map(|(element, set)| {
            if recursive && other.members.contains(element) {
                return None;
            }
            let left = match other.children.get(element) {
                Some(there) => set.minus(there, recursive),
                None => set.clone(),
            };
            (!left.is_empty()).then(|| (element.clone(), left))
        });
        Set {
            members: self.members.difference(&other.members).cloned().collect(),
            children: children.collect(),
        }
    }

    /// Returns all paths: a member before the paths below it.
    pub fn paths(&self) -> Vec<Vec<Element>> {
        let mut out = Vec::new();
        self.collect(&mut Vec::new(), &mut out);
        out
    }

    fn collect(&self, prefix: &mut Vec<Element>, out: &mut Vec<Vec<Element>>) {
        for element in &self.members {
            prefix.push(element.clone());
            out.push(prefix.clone());
            prefix.pop();
        }
        for (element, set) in &self.children {
            prefix.push(element.clone());
            set.collect(prefix, out);
            prefix.pop();
        }
    }

    /// Converts the set to the wire form.
    pub fn to_fields(&self) -> Value {
        let mut map = Map::new();
        for element in &self.members {
            map.insert(element.clone(), Value::Object(Map::new()));
        }
        for (element, set) in &self.children {
            let mut below = match set.to_fields() {
                Value::Object(below) => below,
                _ => Map::new(),
            };
            if self.members.contains(element) && !below.is_empty() {
                below.insert(".".to_owned(), Value::Object(Map::new()));
            }
            map.insert(element.clone(), Value::Object(below));
        }
        Value::Object(map)
    }

    /// Reads the wire form; steps of unknown kinds are passed over, as the API server does.
    pub fn from_fields(fields: &Value) -> Set {
        let mut out = Set::default();
        let Some(map) = fields.as_object() else {
            return out;
        };
        for (element, below) in map {
            if element == "." || !is_known(element) {
                continue;
            }
            let leaf = below.as_object().is_none_or(Map::is_empty);
            if leaf || below.get(".").is_some() {
                out.members.insert(element.clone());
            }
            let set = Set::from_fields(below);
            if !set.is_empty() {
                out.children.insert(element.clone(), set);
            }
        }
        out
    }
}

/// Returns whether the kind of a step is known.
fn is_known(element: &str) -> bool {
    ["f:", "k:", "v:", "i:"]
        .iter()
        .any(|kind| element.starts_with(kind))
}

/// Formats a path as in messages: `.spec.ports[port=80,protocol="TCP"].name`.
pub fn display(path: &[Element]) -> String {
    path.iter()
        .map(|element| display_element(element))
        .collect()
}

/// Formats one step as in messages.
pub fn display_element(element: &str) -> String {
    let (kind, rest) = element.split_at(element.len().min(2));
    match kind {
        "f:" => format!(".{rest}"),
        "k:" => {
            let keys: Value = serde_json::from_str(rest).unwrap_or_default();
            let fields = keys.as_object().cloned().unwrap_or_default();
            let text: Vec<String> = fields.iter().map(|(k, v)| format!("{k}={v}")).collect();
            format!("[{}]", text.join(","))
        }
        "v:" => format!("[={rest}]"),
        _ => format!("[{rest}]"),
    }
}
