use crate::error::{Error, ErrorKind};
use crate::fieldspec::{FieldSpec, Make};
use crate::kustomization::Texts;
use crate::loader::Context;
use crate::node::Node;
use crate::resmap::ResMap;

/// Adds texts to maps: labels and annotations.
pub(crate) struct Labels {
    texts: Texts,
    specs: Vec<FieldSpec>,
}

impl Labels {
    pub fn new(texts: Texts, specs: Vec<FieldSpec>) -> Self {
        Self { texts, specs }
    }

    pub fn apply(&self, map: &mut ResMap, context: &Context<'_, '_>) -> Result<(), Error> {
        if self.texts.is_empty() {
            return Ok(());
        }
        for resource in map.list_mut() {
            for spec in &self.specs {
                spec.visit(&mut resource.node, Make::Map, &mut |node| {
                    self.set(node, spec, context)
                })?;
            }
        }
        Ok(())
    }

    fn set(
        &self,
        node: &mut Node,
        spec: &FieldSpec,
        context: &Context<'_, '_>,
    ) -> Result<(), Error> {
        match node {
            Node::Map(map) => self.texts.iter().try_for_each(|(key, value)| {
                map.set(key, Node::str(value.clone()));
                context.spend_text(key)?;
                context.spend_text(value)
            }),
            // A null that is not to be made a map has no labels to add to.
            node if node.is_null() => Ok(()),
            node => Err(ErrorKind::Transform {
                transformer: "labels and annotations",
                reason: format!("'{}' is {}, expected a map", spec.path, node.what()),
            }
            .into()),
        }
    }
}
