//! The `replicas` field.

use crate::budget::Budget;
use crate::error::{Error, ErrorKind};
use crate::fieldspec::{CreateKind, FieldSpec};
use crate::kustomization::Replica;
use crate::node::{Node, Scalar, Tag};
use crate::resmap::ResMap;
use crate::resource::Resource;
use crate::schema::Schema;
use std::rc::Rc;

/// The transformer that sets the replicas of the workloads of one name.
pub(crate) struct Replicas {
    replica: Replica,
    specs: Rc<[FieldSpec]>,
}

impl Replicas {
    pub fn new(replica: Replica, specs: Rc<[FieldSpec]>) -> Self {
        Self { replica, specs }
    }

    pub fn apply(&self, map: &mut ResMap, schema: &Schema, budget: &Budget) -> Result<(), Error> {
        let mut found = false;
        for resource in map.list_mut() {
            for spec in self.specs.iter() {
                budget.spend_steps(1 + resource.previous.len())?;
                if self.is_for(resource, spec, schema) {
                    found = true;
                    let set = &mut |node: &mut Node| self.set(node);
                    spec.visit(&mut resource.node, CreateKind::Scalar, budget, set)?;
                }
            }
        }
        if found {
            return Ok(());
        }
        let kinds: Vec<&str> = self.specs.iter().map(|spec| &*spec.gvk.kind).collect();
        Err(fault(format!(
            "no {} is named '{}'",
            kinds.join(", "),
            self.replica.name
        )))
    }

    fn is_for(&self, resource: &Resource, spec: &FieldSpec, schema: &Schema) -> bool {
        let mut ids = resource.previous_ids().chain([resource.id(schema)]);
        ids.any(|id| id.name == self.replica.name && spec.gvk.selects(id.gvk))
    }

    fn set(&self, node: &mut Node) -> Result<(), Error> {
        let style = match node {
            Node::Scalar(scalar) => scalar.style,
            node => {
                return Err(fault(format!(
                    "the field is {}, expected a number",
                    node.description()
                )));
            }
        };
        let scalar = Scalar::new(Tag::Int, self.replica.count.to_string(), style);
        *node = Node::Scalar(scalar);
        Ok(())
    }
}

fn fault(reason: String) -> Error {
    ErrorKind::Transform {
        transformer: "replicas",
        reason,
    }
    .into()
}
