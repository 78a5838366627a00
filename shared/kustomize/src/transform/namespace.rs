//! The `namespace` field: sets namespaces and the subjects of role bindings.

use crate::budget::Budget;
use crate::error::{Error, ErrorKind};
use crate::fieldspec::{CreateKind, FieldSpec};
use crate::loader::Context;
use crate::node::Node;
use crate::resmap::ResMap;
use crate::resource::Resource;
use crate::schema::Schema;
use std::collections::HashSet;

/// The transformer that sets the namespace of all namespaced objects, and of references to them.
pub(crate) struct Namespace {
    namespace: String,
    specs: Vec<FieldSpec>,
    unset_only: bool,
    subjects: Subjects,
}

/// The subjects of role bindings that get the namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Subjects {
    /// The subjects named `default`.
    #[default]
    Default,
    /// All service accounts.
    Accounts,
    None,
}

impl Subjects {
    /// # Errors
    /// An unknown mode.
    pub fn new(mode: &str) -> Result<Self, Error> {
        match mode {
            "" | "defaultOnly" => Ok(Self::Default),
            "allServiceAccounts" => Ok(Self::Accounts),
            "none" => Ok(Self::None),
            _ => Err(fault(
                "setRoleBindingSubjects must be defaultOnly, allServiceAccounts or none".to_owned(),
            )),
        }
    }
}

fn fault(reason: String) -> Error {
    ErrorKind::Transform {
        transformer: "namespace",
        reason,
    }
    .into()
}

impl Namespace {
    pub fn new(namespace: &str, specs: Vec<FieldSpec>) -> Self {
        Self {
            namespace: namespace.to_owned(),
            specs,
            unset_only: false,
            subjects: Subjects::Default,
        }
    }

    /// Sets the options that only the plugin has.
    pub fn with(self, unset_only: bool, subjects: Subjects) -> Self {
        Self {
            unset_only,
            subjects,
            ..self
        }
    }

    pub fn apply(&self, map: &mut ResMap, context: &Context<'_, '_>) -> Result<(), Error> {
        let schema = &context.schema.borrow();
        if self.namespace.is_empty() {
            return Ok(());
        }
        let mut changed = Vec::new();
        for (at, resource) in map.list_mut().iter_mut().enumerate() {
            if resource.node.is_empty() || resource.from_helm {
                continue;
            }
            resource.remember_id(schema, &context.budget)?;
            self.apply_to(resource, schema, &context.budget)?;
            changed.push(at);
        }
        self.refuse_conflicts(map, &changed, schema)
    }

    fn refuse_conflicts(
        &self,
        map: &ResMap,
        changed: &[usize],
        schema: &Schema,
    ) -> Result<(), Error> {
        let mut seen = HashSet::with_capacity(map.list().len());
        let unchanged = (0..map.list().len()).filter(|at| changed.binary_search(at).is_err());
        for resource in unchanged.map(|at| &map.list()[at]) {
            seen.insert(resource.id(schema).key());
        }
        for resource in changed.iter().map(|at| &map.list()[*at]) {
            let id = resource.id(schema);
            if !seen.insert(id.key()) {
                return Err(fault(format!(
                    "two objects would become {id}: rename one of them"
                )));
            }
        }
        Ok(())
    }

    /// Sets the namespace of one object.
    pub fn apply_to(
        &self,
        resource: &mut Resource,
        schema: &Schema,
        budget: &Budget,
    ) -> Result<(), Error> {
        if !resource.id(schema).cluster {
            let spec = FieldSpec::new(
                crate::resid::GvkFilter::default(),
                "metadata/namespace",
                true,
            );
            self.set_at(&spec, resource, budget)?;
        }
        let binding = ["RoleBinding", "ClusterRoleBinding"].contains(&resource.kind());
        if binding {
            self.set_subjects(&mut resource.node, budget)?;
        }
        let is_v1 = resource.api_version() == "v1";
        for spec in &self.specs {
            budget.spend_steps(1)?;
            let own = match &*spec.path {
                "metadata/namespace" => true,
                "metadata/name" => !is_v1,
                "subjects/namespace" => {
                    binding && ["RoleBinding", "ClusterRoleBinding"].contains(&&*spec.gvk.kind)
                }
                _ => false,
            };
            if !own {
                self.set_at(spec, resource, budget)?;
            }
        }
        Ok(())
    }

    /// Sets the namespace in the fields that a specification names.
    fn set_at(
        &self,
        spec: &FieldSpec,
        resource: &mut Resource,
        budget: &Budget,
    ) -> Result<(), Error> {
        spec.visit(
            &mut resource.node,
            CreateKind::Scalar,
            budget,
            &mut |node| self.set(node, budget),
        )
    }

    fn set(&self, node: &mut Node, budget: &Budget) -> Result<(), Error> {
        match node {
            Node::Scalar(scalar) => {
                let empty = scalar.text.is_empty() || scalar.tag == crate::node::Tag::Null;
                if empty || !self.unset_only {
                    budget.spend_text(self.namespace.len())?;
                    scalar.set_str(self.namespace.clone());
                }
                Ok(())
            }
            node => Err(fault(format!(
                "a namespace field is {}, expected a string",
                node.description()
            ))),
        }
    }

    fn set_subjects(&self, node: &mut Node, budget: &Budget) -> Result<(), Error> {
        if self.subjects == Subjects::None {
            return Ok(());
        }
        let Some(subjects) = node
            .get_mut("subjects")
            .filter(|subjects| !subjects.is_null())
        else {
            return Ok(());
        };
        let Node::Seq(subjects) = subjects else {
            return Err(fault(format!(
                "subjects is {}, expected a list",
                subjects.description()
            )));
        };
        for subject in subjects {
            budget.spend_steps(1)?;
            let (field, wanted) = match self.subjects {
                Subjects::Accounts => ("kind", "ServiceAccount"),
                _ => ("name", "default"),
            };
            if subject.is_null() {
                continue;
            }
            let found = subject.description();
            let Node::Map(map) = subject else {
                return Err(fault(format!("a subject is {found}, expected a map")));
            };
            if let Some(value @ (Node::Map(_) | Node::Seq(_))) = map.get(field) {
                return Err(fault(format!(
                    "the {field} of a subject is {}, expected a string",
                    value.description()
                )));
            }
            if map.get(field).is_some_and(|value| value.text() == wanted) {
                if map.get("namespace").is_none() {
                    map.insert("namespace", Node::str(""));
                }
                map.get_mut("namespace")
                    .map_or(Ok(()), |node| self.set(node, budget))?;
            }
        }
        Ok(())
    }
}
