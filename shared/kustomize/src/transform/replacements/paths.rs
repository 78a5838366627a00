//! Field paths of replacements: finds, creates and writes the fields they select.

use crate::error::Error;
use crate::loader::Context;
use crate::node::{Map, Node, Scalar};
use driftless_fuel::MAP_NODES;

/// A value that a path leads to.
pub(super) enum PathTarget<'n> {
    /// A value of the object.
    Node(&'n mut Node),
    /// A value within a string.
    InText,
}

/// The reason why a value was not written.
pub(super) enum PathError {
    /// The path does not match the object.
    Reason(String),
    /// The build itself fails: a budget is used up.
    Spent(Error),
}

impl From<Error> for PathError {
    fn from(error: Error) -> Self {
        Self::Spent(error)
    }
}

impl From<String> for PathError {
    fn from(reason: String) -> Self {
        Self::Reason(reason)
    }
}

type Set<'s> = &'s mut dyn FnMut(PathTarget<'_>) -> Result<(), PathError>;

/// A walk along a path. `*` means every item of a list, `[key=value]` the items whose key matches
/// an expression. With `make`, missing fields are created, the last one of the kind of `make`.
#[derive(Clone, Copy)]
pub(super) struct Visit<'v> {
    pub make: Option<&'v Node>,
    pub context: &'v Context<'v, 'v>,
}

impl Visit<'_> {
    /// Calls `set` on every value that a path leads to.
    ///
    /// # Errors
    /// A field of a list or scalar, an index beyond the end, or an error of `set`.
    pub fn path(self, node: &mut Node, path: &[String], set: Set<'_>) -> Result<(), PathError> {
        self.context.budget.spend_steps(1)?;
        let Some((part, rest)) = path.split_first() else {
            return set(PathTarget::Node(node));
        };
        if part.parse::<usize>().is_ok() {
            return self.index(node, part, rest, set);
        }
        if part.starts_with('[') && part.ends_with(']') {
            return self.matches(node, part, rest, set);
        }
        if part == "*" {
            return items(node)?
                .iter_mut()
                .try_for_each(|item| self.path(item, rest, set));
        }
        self.field(node, part, rest, set)
    }

    /// Charges for a missing value, and creates it empty.
    fn blank(self, next: Option<&String>, make: &Node) -> Result<Node, PathError> {
        self.context.budget.spend_nodes(1 + MAP_NODES)?;
        Ok(blank(next, make))
    }

    fn field(
        self,
        node: &mut Node,
        name: &str,
        rest: &[String],
        set: Set<'_>,
    ) -> Result<(), PathError> {
        if node.is_null() {
            return Ok(());
        }
        let Node::Map(map) = node else {
            let found = node.description();
            return Err(format!("the path goes through {found}, expected a map").into());
        };
        if let (None, Some(make)) = (map.get(name), self.make) {
            self.context.budget.spend_field(name, "")?;
            map.insert(name, self.blank(rest.first(), make)?);
        }
        match map.get_mut(name) {
            Some(Node::Scalar(scalar)) if !rest.is_empty() => self.text(scalar, rest, set),
            Some(field) => self.path(field, rest, set),
            None => Ok(()),
        }
    }

    /// Parses a string on the path as YAML. Values found in it count, but changes in it are
    /// discarded.
    fn text(self, scalar: &Scalar, rest: &[String], set: Set<'_>) -> Result<(), PathError> {
        let Some(mut inner) = self.context.embedded(&scalar.text)? else {
            return Err("the path goes through a string that is not YAML"
                .to_owned()
                .into());
        };
        let visit = Visit { make: None, ..self };
        visit.path(&mut inner, rest, &mut |_| set(PathTarget::InText))
    }

    fn index(
        self,
        node: &mut Node,
        part: &str,
        rest: &[String],
        set: Set<'_>,
    ) -> Result<(), PathError> {
        let index: usize = part
            .parse()
            .map_err(|_| format!("'{part}' is not an index"))?;
        let items = items(node)?;
        if let (true, Some(make)) = (items.len() == index, self.make) {
            items.push(self.blank(rest.first(), make)?);
        }
        let count = items.len();
        let item = items
            .get_mut(index)
            .ok_or_else(|| format!("index {index} is out of range of a list of length {count}"))?;
        self.path(item, rest, set)
    }

    fn matches(
        self,
        node: &mut Node,
        part: &str,
        rest: &[String],
        set: Set<'_>,
    ) -> Result<(), PathError> {
        let inner = &part[1..part.len() - 1];
        let (key, pattern) = inner
            .split_once('=')
            .ok_or_else(|| format!("'{part}' is not of the form [key=value]"))?;
        let budget = &self.context.budget;
        let regex = match self.context.patterns.compile(pattern, budget) {
            Ok(regex) => regex,
            Err(error) if error.is_budget() => return Err(PathError::Spent(error)),
            Err(error) => return Err(PathError::Reason(error.to_string())),
        };
        let items = items(node)?;
        let text = |item: &Node| match key {
            "" => Some(item.text().trim().to_owned()),
            key => item.get(key).map(|field| field.text().trim().to_owned()),
        };
        let fits = |item: &Node| -> Result<bool, Error> {
            let Some(text) = text(item) else {
                return Ok(false);
            };
            budget.spend_steps(regex.steps(&text))?;
            Ok(regex.is_match(&text))
        };
        let mut count = 0;
        for item in items.iter_mut() {
            if !fits(item)? {
                continue;
            }
            if key.is_empty() {
                set(PathTarget::Node(item))?;
                count += 1;
            } else {
                self.path(item, rest, &mut |found| {
                    count += 1;
                    set(found)
                })?;
            }
        }
        if count > 0 || self.make.is_none() {
            return Ok(());
        }
        budget.spend_nodes(1 + MAP_NODES)?;
        budget.spend_field(key, pattern)?;
        let value = Node::Scalar(Scalar::plain(pattern));
        let mut item = match key {
            "" => value,
            key => Node::Map(Map::new(vec![(key.to_owned(), value)])),
        };
        if fits(&item)? {
            if key.is_empty() {
                set(PathTarget::Node(&mut item))?
            } else {
                self.path(&mut item, rest, set)?
            }
        }
        items.push(item);
        Ok(())
    }
}

fn items(node: &mut Node) -> Result<&mut Vec<Node>, PathError> {
    match node {
        Node::Seq(items) => Ok(items),
        node => Err(format!(
            "the path goes through {}, expected a list",
            node.description()
        )
        .into()),
    }
}

/// Creates an empty value of the kind that the next part of the path needs.
fn blank(next: Option<&String>, make: &Node) -> Node {
    match next {
        Some(next)
            if next.parse::<usize>().is_ok() || (next.starts_with('[') && next.ends_with(']')) =>
        {
            Node::Seq(Vec::new())
        }
        Some(_) => Node::map(),
        None => match make {
            Node::Scalar(_) => Node::Scalar(Scalar::plain("")),
            Node::Seq(_) => Node::Seq(Vec::new()),
            Node::Map(_) => Node::map(),
        },
    }
}
