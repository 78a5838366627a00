//! The `namePrefix` and `nameSuffix` fields.

use crate::budget::Budget;
use crate::error::{Error, ErrorKind};
use crate::fieldspec::{CreateKind, FieldSpec};
use crate::loader::Context;
use crate::node::Node;
use crate::resid::GvkFilter;
use crate::resmap::ResMap;
use crate::resource::Resource;
use crate::schema::Schema;
use std::rc::Rc;

/// The transformer of `namePrefix` or `nameSuffix`.
pub(crate) struct Affix {
    text: Rc<str>,
    specs: Vec<FieldSpec>,
}

/// The side of the name that the affix is added to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AffixSide {
    Front,
    Back,
}

impl Affix {
    pub fn new(text: &str, specs: Vec<FieldSpec>) -> Self {
        Self {
            text: text.into(),
            specs,
        }
    }

    pub fn apply(
        &self,
        map: &mut ResMap,
        side: AffixSide,
        context: &Context<'_, '_>,
    ) -> Result<(), Error> {
        let schema = &context.schema.borrow();
        map.list_mut()
            .iter_mut()
            .filter(|resource| !is_exempt(resource, schema))
            .try_for_each(|resource| self.apply_to(resource, side, schema, &context.budget))
    }

    fn apply_to(
        &self,
        resource: &mut Resource,
        side: AffixSide,
        schema: &Schema,
        budget: &Budget,
    ) -> Result<(), Error> {
        for spec in &self.specs {
            budget.spend_steps(1)?;
            if !spec.gvk.selects(resource.original_id(schema).gvk) {
                continue;
            }
            if spec.path == "metadata/name" && !self.text.is_empty() {
                match side {
                    AffixSide::Front => resource.prefixes.push(Rc::clone(&self.text)),
                    AffixSide::Back => resource.suffixes.push(Rc::clone(&self.text)),
                }
                resource.remember_id(schema, budget)?;
            }
            spec.visit(
                &mut resource.node,
                CreateKind::Scalar,
                budget,
                &mut |node| self.set(node, side, spec, budget),
            )?;
        }
        Ok(())
    }

    fn set(
        &self,
        node: &mut Node,
        side: AffixSide,
        spec: &FieldSpec,
        budget: &Budget,
    ) -> Result<(), Error> {
        let Node::Scalar(scalar) = node else {
            let reason = format!(
                "'{}' is {}, expected a string",
                spec.path,
                node.description()
            );
            return Err(ErrorKind::Transform {
                transformer: "namePrefix and nameSuffix",
                reason,
            }
            .into());
        };
        budget.spend_text(self.text.len() + scalar.text.len())?;
        let text = match side {
            AffixSide::Front => format!("{}{}", self.text, scalar.text),
            AffixSide::Back => format!("{}{}", scalar.text, self.text),
        };
        scalar.set_plain(text);
        Ok(())
    }
}

/// Checks whether an object keeps its name: CRDs, API services, namespaces.
fn is_exempt(resource: &Resource, schema: &Schema) -> bool {
    let api_service = GvkFilter {
        group: "apiregistration.k8s.io".into(),
        ..GvkFilter::kind("APIService")
    };
    let exempt = [
        GvkFilter::kind("CustomResourceDefinition"),
        api_service,
        GvkFilter::kind("Namespace"),
    ];
    let gvk = resource.original_id(schema).gvk;
    exempt.iter().any(|filter| filter.selects(gvk))
}
