//! Strategic merge, as kyaml's `merge2` does it (lists grow at the front).
//!
//! Every value of the object is visited, even if the patch does not mention it: lists that merge by
//! key lose duplicate entries, and keys without a value are dropped. A value that a patch adds is
//! merged with itself, which removes its `$patch` directives and nulls.

mod list;

use crate::budget::Budget;
use crate::error::{Error, ErrorKind};
use crate::node::{Map, Node};
use crate::schema::{Schema, SchemaNode};
use std::collections::BTreeMap;

/// Merges a patch into an object; returns `None` if the patch deletes it.
///
/// # Errors
/// A map against a list or scalar, an unknown directive, or more steps than are left.
pub(crate) fn merge(
    object: Node,
    patch: Node,
    schema: &Schema,
    budget: &Budget,
) -> Result<Option<Node>, Error> {
    Walker {
        schema,
        budget,
        path: Vec::new(),
    }
    .walk(Some(object), Some(patch), None)
}

struct Walker<'w> {
    schema: &'w Schema,
    budget: &'w Budget,
    path: Vec<String>,
}

/// The key of a directive.
const PATCH: &str = "$patch";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Directive {
    Merge,
    Replace,
    Delete,
}

impl Directive {
    fn of(text: &str) -> Option<Self> {
        match text {
            "merge" => Some(Self::Merge),
            "replace" => Some(Self::Replace),
            "delete" => Some(Self::Delete),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Scalar,
    Seq,
    Map,
}

/// Returns the shape of a value; `None` for null and for a missing value.
fn shape(node: Option<&Node>) -> Option<Shape> {
    match node? {
        node if node.is_null() => None,
        Node::Scalar(_) => Some(Shape::Scalar),
        Node::Seq(_) => Some(Shape::Seq),
        Node::Map(_) => Some(Shape::Map),
    }
}

impl<'w> Walker<'w> {
    fn fault(&self, reason: &str) -> Error {
        let at = if self.path.is_empty() {
            "the object".to_owned()
        } else {
            format!("'{}'", self.path.join("."))
        };
        ErrorKind::Patch(format!("{at}: {reason}")).into()
    }

    fn spend(&self, steps: usize) -> Result<(), Error> {
        self.budget.spend_steps(steps)
    }

    /// Returns the merged value at one place; `None` removes it.
    fn walk(
        &mut self,
        dest: Option<Node>,
        origin: Option<Node>,
        schema: Option<SchemaNode<'w>>,
    ) -> Result<Option<Node>, Error> {
        self.spend(1)?;
        let (mine, theirs) = (shape(dest.as_ref()), shape(origin.as_ref()));
        if mine.is_some() && theirs.is_some() && mine != theirs {
            return Err(self.fault(
                "either the object or the patch has a scalar where the other has a list or a map: give both the same type",
            ));
        }
        let schema = schema
            .or_else(|| self.schema_of(dest.as_ref()))
            .or_else(|| self.schema_of(origin.as_ref()));
        match mine.or(theirs) {
            None => Ok(match (dest, origin) {
                // `key: null` in the object stays, `key:` goes.
                (Some(null), None) if !null.text().is_empty() => Some(null),
                _ => None,
            }),
            Some(Shape::Scalar) => Ok(origin.or(dest).filter(|node| !node.is_null())),
            Some(Shape::Map) => self.walk_map(dest, origin, schema),
            Some(Shape::Seq) => self.walk_list(dest, origin, schema),
        }
    }

    /// Returns the schema of an object that is nested in another one.
    fn schema_of(&self, node: Option<&Node>) -> Option<SchemaNode<'w>> {
        let map = node?.as_map()?;
        let text = |field| {
            map.get(field)
                .filter(|value| !value.is_empty())
                .map(Node::text)
        };
        self.schema.of_kind(text("apiVersion")?, text("kind")?)
    }

    fn walk_map(
        &mut self,
        dest: Option<Node>,
        origin: Option<Node>,
        schema: Option<SchemaNode<'w>>,
    ) -> Result<Option<Node>, Error> {
        let mut origin = match origin {
            Some(Node::Map(map)) => Some(map),
            Some(_) => return Ok(None),
            None => None,
        };
        let Some(Node::Map(dest)) = dest else {
            let Some(mut added) = origin else {
                return Ok(None);
            };
            // An unknown directive has no effect if there is nothing to merge with.
            if Self::peek(&added).is_some() && self.take_directive(&mut added)? == Directive::Delete
            {
                return Ok(None);
            }
            return self.settle_fields(added, schema).map(Some);
        };
        let directive = origin
            .as_mut()
            .map_or(Ok(Directive::Merge), |map| self.take_directive(map))?;
        match (directive, origin) {
            (Directive::Delete, _) => Ok(None),
            (Directive::Replace, Some(origin)) => self.settle_fields(origin, schema).map(Some),
            (_, origin) => self
                .merge_fields(dest, origin.unwrap_or_default(), schema)
                .map(Some),
        }
    }

    fn merge_fields(
        &mut self,
        dest: Map,
        origin: Map,
        schema: Option<SchemaNode<'w>>,
    ) -> Result<Node, Error> {
        let mut added: BTreeMap<String, Node> = origin.into_fields().into_iter().collect();
        let mut fields = Vec::with_capacity(dest.len() + added.len());
        for (name, value) in dest.into_fields() {
            let patch = added.remove(&name);
            let rewritten = patch.is_some();
            let (style, share) = (value.style(), value.share());
            if let Some(mut merged) = self.field(&name, Some(value), patch, schema)? {
                if let Node::Scalar(scalar) = &mut merged {
                    if rewritten {
                        scalar.style = style;
                        scalar.share = share;
                    } else {
                        self.spend(scalar.quote_if_ambiguous())?;
                    }
                }
                fields.push((name, merged));
            }
        }
        for (name, patch) in added {
            if let Some(mut merged) = self.field(&name, None, Some(patch), schema)? {
                if let Node::Scalar(scalar) = &mut merged {
                    self.spend(scalar.quote_if_ambiguous())?;
                }
                fields.push((name, merged));
            }
        }
        Ok(Node::Map(Map::new(fields)))
    }

    fn field(
        &mut self,
        name: &str,
        dest: Option<Node>,
        origin: Option<Node>,
        schema: Option<SchemaNode<'w>>,
    ) -> Result<Option<Node>, Error> {
        self.path.push(name.to_owned());
        let merged = self.walk(dest, origin, schema.and_then(|schema| schema.field(name)))?;
        self.path.pop();
        Ok(merged)
    }

    fn walk_list(
        &mut self,
        dest: Option<Node>,
        origin: Option<Node>,
        schema: Option<SchemaNode<'w>>,
    ) -> Result<Option<Node>, Error> {
        let Some(keys) = schema.and_then(SchemaNode::merge_keys) else {
            return Ok(origin.or(dest).filter(|node| !node.is_null()));
        };
        let origin = match origin {
            Some(Node::Seq(items)) => Some(items),
            Some(_) => return Ok(None),
            None => None,
        };
        let elements = schema.and_then(SchemaNode::elements);
        let Some(Node::Seq(dest)) = dest else {
            return self
                .settle_list(origin.unwrap_or_default(), &keys, elements)
                .map(Some);
        };
        let Some(mut origin) = origin else {
            return self.merge_list(dest, None, &keys, elements).map(Some);
        };
        match self.take_list_directive(&mut origin)? {
            Directive::Delete => Ok(None),
            Directive::Replace => self.settle_list(origin, &keys, elements).map(Some),
            Directive::Merge => self
                .merge_list(dest, Some(origin), &keys, elements)
                .map(Some),
        }
    }

    /// Merges a value that a patch adds with itself; `None` removes it.
    fn normalize_added(
        &mut self,
        node: Node,
        schema: Option<SchemaNode<'w>>,
    ) -> Result<Option<Node>, Error> {
        self.spend(1)?;
        let schema = schema.or_else(|| self.schema_of(Some(&node)));
        match node {
            node if node.is_null() => Ok(None),
            Node::Scalar(_) => Ok(Some(node)),
            Node::Map(mut map) => match self.take_directive(&mut map)? {
                Directive::Delete => Ok(None),
                _ => self.settle_fields(map, schema).map(Some),
            },
            Node::Seq(mut items) => {
                let Some(keys) = schema.and_then(SchemaNode::merge_keys) else {
                    return Ok(Some(Node::Seq(items)));
                };
                if self.take_list_directive(&mut items)? == Directive::Delete {
                    return Ok(None);
                }
                self.settle_list(items, &keys, schema.and_then(SchemaNode::elements))
                    .map(Some)
            }
        }
    }

    fn settle_fields(&mut self, map: Map, schema: Option<SchemaNode<'w>>) -> Result<Node, Error> {
        let mut fields = Vec::with_capacity(map.len());
        for (name, value) in map.into_fields() {
            self.path.push(name.clone());
            let normalized =
                self.normalize_added(value, schema.and_then(|schema| schema.field(&name)))?;
            if let Some(mut value) = normalized {
                if let Node::Scalar(scalar) = &mut value {
                    self.spend(scalar.quote_if_ambiguous())?;
                }
                fields.push((name, value));
            }
            self.path.pop();
        }
        Ok(Node::Map(Map::new(fields)))
    }

    /// Returns the directive of a map, if it is a known one.
    fn peek(map: &Map) -> Option<Directive> {
        Directive::of(map.get(PATCH)?.text())
    }

    /// Removes and returns the directive of a map.
    fn take_directive(&self, map: &mut Map) -> Result<Directive, Error> {
        if map.get(PATCH).is_none() {
            return Ok(Directive::Merge);
        }
        let directive =
            Self::peek(map).ok_or_else(|| self.fault("$patch must be delete, replace or merge"))?;
        map.remove(PATCH);
        Ok(directive)
    }

    /// Removes and returns the directive of a list: an element that has only `$patch`.
    fn take_list_directive(&self, items: &mut Vec<Node>) -> Result<Directive, Error> {
        let first = items
            .iter()
            .find_map(|item| item.as_map().filter(|map| map.get(PATCH).is_some()));
        let Some(map) = first.filter(|map| map.len() == 1) else {
            return Ok(Directive::Merge);
        };
        let directive =
            Self::peek(map).ok_or_else(|| self.fault("$patch must be delete, replace or merge"))?;
        let text = map.get(PATCH).map_or("", Node::text).to_owned();
        list::set_element(items, None, &[PATCH], &[text]).map_err(|reason| self.fault(reason))?;
        Ok(directive)
    }
}
