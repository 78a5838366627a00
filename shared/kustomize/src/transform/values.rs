//! The `ValueAddTransformer` plugin.

use super::namespace::Namespace;
use super::patches::select;
use crate::budget::Budget;
use crate::declare::declare;
use crate::error::{Error, ErrorKind};
use crate::loader::Context;
use crate::node::{self, Map, Node};
use crate::resmap::ResMap;
use crate::selector::Selector;
use driftless_fuel::MAP_NODES;

/// The `ValueAddTransformer` plugin: writes one value into fields, or into a part of a file path.
pub(crate) struct ValueAdd {
    pub value: String,
    pub targets: Vec<Target>,
}

declare! {
    /// A destination of the value.
    #[derive(Clone, Debug)]
    pub(crate) struct Target {
        "selector" pub selector: Option<Selector>,
        "fieldPath" pub field_path: String,
        /// The part of a file path that the value becomes, counted from 1. 0 replaces the whole
        /// string.
        "filePathPosition" pub file_path_position: i64,
    }
}

fn fault(reason: String) -> Error {
    ErrorKind::Transform {
        transformer: "ValueAddTransformer",
        reason,
    }
    .into()
}

impl ValueAdd {
    /// # Errors
    /// No target, or one without a field.
    pub fn new(value: String, targets: Vec<Target>) -> Result<Self, Error> {
        if targets.is_empty() {
            return Err(fault(
                "targets is empty: give at least one target".to_owned(),
            ));
        }
        if targets.iter().any(|target| target.field_path.is_empty()) {
            return Err(fault("a target has no fieldPath".to_owned()));
        }
        if targets.iter().any(|target| target.file_path_position < 0) {
            return Err(fault("filePathPosition cannot be negative".to_owned()));
        }
        Ok(Self { value, targets })
    }

    pub fn apply(&self, map: &mut ResMap, context: &Context<'_, '_>) -> Result<(), Error> {
        for target in &self.targets {
            let places = match &target.selector {
                Some(selector) => select(map, selector, context)?,
                None => (0..map.list().len()).collect(),
            };
            let namespace = Namespace::new(&self.value, Vec::new());
            for at in places {
                context.budget.spend_text(self.value.len())?;
                let resource = &mut map.list_mut()[at];
                if target.field_path == "metadata/namespace" {
                    namespace.apply_to(resource, &context.schema.borrow(), &context.budget)?;
                } else {
                    self.set(&mut resource.node, target, &context.budget)?;
                }
            }
        }
        Ok(())
    }

    fn set(&self, node: &mut Node, target: &Target, budget: &Budget) -> Result<(), Error> {
        let wrong = |found: &str| fault(format!("'{}' leads to {found}", target.field_path));
        let mut at = node;
        budget.spend_steps(target.field_path.len())?;
        let path = node::split(&target.field_path, '/');
        budget.check_path(path.len())?;
        for (place, part) in path.iter().enumerate() {
            let last = place + 1 == path.len();
            let found = at.description();
            let Node::Map(map) = at else {
                return Err(wrong(found));
            };
            budget.spend_field(part, "")?;
            budget.spend_nodes(MAP_NODES)?;
            at = field(map, part, last).ok_or_else(|| wrong("nothing"))?;
        }
        match at {
            Node::Scalar(scalar) if target.file_path_position > 0 => {
                budget.spend_text(scalar.text.len())?;
                let position = usize::try_from(target.file_path_position - 1).unwrap_or(usize::MAX);
                let text = insert_part(&scalar.text, position, &self.value);
                scalar.set_plain(text);
            }
            Node::Scalar(scalar) => scalar.set_plain(self.value.clone()),
            other => return Err(wrong(other.description())),
        }
        Ok(())
    }
}

fn field<'m>(map: &'m mut Map, name: &str, last: bool) -> Option<&'m mut Node> {
    if map.get(name).is_none() {
        map.insert(name, if last { Node::str("") } else { Node::map() });
    }
    map.get_mut(name)
}

/// Inserts a part into a file path; an absolute path stays absolute, and a position beyond the end
/// is the end.
fn insert_part(path: &str, position: usize, part: &str) -> String {
    let absolute = path.starts_with('/');
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    parts.insert(position.min(parts.len()), part);
    let joined = parts.join("/");
    if absolute {
        format!("/{joined}")
    } else {
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inserts_parts() {
        for (path, position, want) in [
            ("", 0, "P"),
            ("/", 3, "/P"),
            ("pie", 0, "P/pie"),
            ("/pie", 0, "/P/pie"),
            ("/raw", 9, "/raw/P"),
            ("a/nice/warm/pie", 3, "a/nice/warm/P/pie"),
        ] {
            assert_eq!(insert_part(path, position, "P"), want);
        }
    }
}
