use crate::error::{Error, ErrorKind};
use crate::fieldspec::{FieldSpec, Make};
use crate::loader::Context;
use crate::node::Node;
use crate::resid::GvkFilter;
use crate::resmap::ResMap;
use crate::resource::Resource;
use crate::schema::Schema;

/// `namePrefix` or `nameSuffix`.
pub(crate) struct Affix {
    text: String,
    specs: Vec<FieldSpec>,
}

/// Where the text goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Front,
    Back,
}

impl Affix {
    pub fn new(text: &str, specs: Vec<FieldSpec>) -> Self {
        Self {
            text: text.to_owned(),
            specs,
        }
    }

    pub fn apply(
        &self,
        map: &mut ResMap,
        end: End,
        context: &Context<'_, '_>,
    ) -> Result<(), Error> {
        let schema = &context.schema.borrow();
        map.list_mut()
            .iter_mut()
            .filter(|resource| !is_exempt(resource, schema))
            .try_for_each(|resource| {
                context.spend_text(&self.text)?;
                self.apply_to(resource, end, schema)
            })
    }

    fn apply_to(&self, resource: &mut Resource, end: End, schema: &Schema) -> Result<(), Error> {
        for spec in &self.specs {
            if !spec.gvk.selects(resource.original_id(schema).gvk) {
                continue;
            }
            if spec.path == "metadata/name" && !self.text.is_empty() {
                match end {
                    End::Front => resource.prefixes.push(self.text.clone()),
                    End::Back => resource.suffixes.push(self.text.clone()),
                }
                resource.remember_id(schema)?;
            }
            spec.visit(&mut resource.node, Make::Scalar, &mut |node| {
                self.set(node, end, spec)
            })?;
        }
        Ok(())
    }

    fn set(&self, node: &mut Node, end: End, spec: &FieldSpec) -> Result<(), Error> {
        let Node::Scalar(scalar) = node else {
            let reason = format!("'{}' is {}, expected a text", spec.path, node.what());
            return Err(ErrorKind::Transform {
                transformer: "namePrefix and nameSuffix",
                reason,
            }
            .into());
        };
        let text = match end {
            End::Front => format!("{}{}", self.text, scalar.text),
            End::Back => format!("{}{}", scalar.text, self.text),
        };
        scalar.set_plain(text);
        Ok(())
    }
}

/// Objects whose name is not free: CRDs, API services, namespaces.
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
