//! Labels and annotations: adds pairs to the maps that field specs select.

use crate::budget::Budget;
use crate::error::{Error, ErrorKind};
use crate::fieldspec::{CreateKind, FieldSpec};
use crate::kustomization::Texts;
use crate::loader::Context;
use crate::node::{Node, Scalar};
use crate::resmap::ResMap;

/// The transformer that adds strings to maps: labels and annotations.
pub(crate) struct Labels {
    texts: Texts,
    specs: Vec<FieldSpec>,
}

/// A key that is new in some places of an object.
struct NewKey {
    share: u32,
    places: usize,
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
            context.budget.spend_steps(self.texts.len())?;
            let mut added: Vec<NewKey> = resource
                .shares
                .reserve(self.texts.len())
                .map(|share| NewKey { share, places: 0 })
                .collect();
            let budget = &context.budget;
            for spec in &self.specs {
                spec.visit(&mut resource.node, CreateKind::Map, budget, &mut |node| {
                    self.set(node, spec, &mut added, budget)
                })?;
            }
            resource.shares.sync(&mut resource.node, budget)?;
            for (added, text) in added.iter().zip(self.texts.values()) {
                if added.places > 1 {
                    budget.spend_text(text.len())?;
                    resource.shares.keep(added.share, Scalar::str(text.clone()));
                }
            }
        }
        Ok(())
    }

    fn set(
        &self,
        node: &mut Node,
        spec: &FieldSpec,
        added: &mut [NewKey],
        budget: &Budget,
    ) -> Result<(), Error> {
        match node {
            Node::Map(map) => self
                .texts
                .iter()
                .zip(added)
                .try_for_each(|((key, value), added)| {
                    budget.spend_field(key, value)?;
                    added.places += usize::from(map.get(key).is_none());
                    let share = added.share;
                    map.set(
                        key,
                        Node::Scalar(Scalar {
                            share,
                            ..Scalar::str(value.clone())
                        }),
                    );
                    Ok(())
                }),
            // A null that may not become a map has no labels to add to.
            node if node.is_null() => Ok(()),
            node => Err(ErrorKind::Transform {
                transformer: "labels and annotations",
                reason: format!("'{}' is {}, expected a map", spec.path, node.description()),
            }
            .into()),
        }
    }
}
