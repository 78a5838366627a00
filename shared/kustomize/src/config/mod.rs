//! The fields that each transformer changes: kustomize's defaults, and those that `configurations`
//! and `crds` add.

mod crds;
mod defaults;

pub(crate) use crds::from_crds;

use crate::budget::Budget;
use crate::declare::declare;
use crate::error::{Error, ErrorKind};
use crate::fieldspec::FieldSpec;
use crate::resid::{Gvk, GvkFilter};
use std::cmp::Ordering;
use std::sync::{Arc, LazyLock};

declare! {
    /// The field paths of every transformer.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct Config {
        "namePrefix" pub name_prefix: Vec<FieldSpec>,
        "nameSuffix" pub name_suffix: Vec<FieldSpec>,
        "namespace" pub namespace: Vec<FieldSpec>,
        "commonLabels" pub common_labels: Vec<FieldSpec>,
        "labels" pub labels: Vec<FieldSpec>,
        "templateLabels" pub template_labels: Vec<FieldSpec>,
        "volumeClaimTemplateLabels" pub volume_claim_template_labels: Vec<FieldSpec>,
        "commonAnnotations" pub common_annotations: Vec<FieldSpec>,
        "nameReference" pub name_reference: Vec<BackReferences>,
        "varReference" pub var_reference: Vec<FieldSpec>,
        "images" pub images: Vec<FieldSpec>,
        "replicas" pub replicas: Vec<FieldSpec>,
    }
}

declare! {
    /// The fields in which other objects name objects of one kind.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct BackReferences {
        embedded pub target: GvkFilter,
        "fieldSpecs" pub referrers: Vec<FieldSpec>,
    }
}

/// Returns references of one kind, `&` or `&mut`, to all lists of fields, in one order.
macro_rules! lists {
    ($config:ident, $($reference:tt)+) => {
        [
            $($reference)+ $config.name_prefix,
            $($reference)+ $config.name_suffix,
            $($reference)+ $config.namespace,
            $($reference)+ $config.common_labels,
            $($reference)+ $config.labels,
            $($reference)+ $config.template_labels,
            $($reference)+ $config.volume_claim_template_labels,
            $($reference)+ $config.common_annotations,
            $($reference)+ $config.var_reference,
            $($reference)+ $config.images,
            $($reference)+ $config.replicas,
        ]
    };
}

impl Config {
    /// Returns kustomize's defaults.
    pub fn builtin() -> Arc<Self> {
        static BUILTIN: LazyLock<Arc<Config>> = LazyLock::new(|| {
            let mut config = defaults::config();
            config.sort();
            Arc::new(config)
        });
        Arc::clone(&BUILTIN)
    }

    /// Sorts the fields in kustomize's order: by kind of object.
    pub fn sort(&mut self) {
        for list in self.lists_mut() {
            list.sort_by(|a, b| order(a.gvk.as_gvk(), b.gvk.as_gvk()));
        }
        self.name_reference
            .sort_by(|a, b| order(a.target.as_gvk(), b.target.as_gvk()));
    }

    fn lists(&self) -> [&Vec<FieldSpec>; 11] {
        lists!(self, &)
    }

    fn lists_mut(&mut self) -> [&mut Vec<FieldSpec>; 11] {
        lists!(self, &mut)
    }

    /// Adds the fields of another configuration.
    ///
    /// # Errors
    /// The same field with and without `create`.
    pub fn merge(&mut self, other: &Config, budget: &Budget) -> Result<(), Error> {
        for (mine, theirs) in self.lists_mut().into_iter().zip(other.lists()) {
            merge_all(mine, theirs, budget)?;
        }
        for references in &other.name_reference {
            self.merge_references(references, budget)?;
        }
        self.sort();
        Ok(())
    }

    fn merge_references(
        &mut self,
        references: &BackReferences,
        budget: &Budget,
    ) -> Result<(), Error> {
        budget.spend_steps(self.name_reference.len())?;
        let mut found = false;
        for mine in self
            .name_reference
            .iter_mut()
            .filter(|mine| mine.target == references.target)
        {
            merge_all(&mut mine.referrers, &references.referrers, budget)?;
            found = true;
        }
        if !found {
            budget.spend_nodes(1 + references.referrers.len())?;
            self.name_reference.push(references.clone());
        }
        Ok(())
    }
}

/// Merges configurations; if both are the same shared one, nothing is copied.
pub(crate) fn merge_shared(
    mine: &mut Arc<Config>,
    other: &Arc<Config>,
    budget: &Budget,
) -> Result<(), Error> {
    if Arc::ptr_eq(mine, other) || **other == Config::default() {
        return Ok(());
    }
    if **mine == Config::default() {
        *mine = Arc::clone(other);
        return Ok(());
    }
    Arc::make_mut(mine).merge(other, budget)
}

/// Adds the fields that are missing.
pub(crate) fn merge_all(
    mine: &mut Vec<FieldSpec>,
    theirs: &[FieldSpec],
    budget: &Budget,
) -> Result<(), Error> {
    theirs
        .iter()
        .try_for_each(|spec| merge_one(mine, spec, budget))
}

/// Adds a field, unless there is one with this path whose kind it selects.
pub(crate) fn merge_one(
    mine: &mut Vec<FieldSpec>,
    spec: &FieldSpec,
    budget: &Budget,
) -> Result<(), Error> {
    budget.spend_steps(1 + mine.len() / 4)?;
    match mine
        .iter()
        .find(|old| old.path == spec.path && spec.gvk.selects(old.gvk.as_gvk()))
    {
        Some(old) if old.create != spec.create => Err(ErrorKind::Transform {
            transformer: "configurations",
            reason: format!(
                "'{}' is listed both with and without create: keep one",
                spec.path
            ),
        }
        .into()),
        Some(_) => Ok(()),
        None => {
            budget.spend_text(spec.path.len())?;
            mine.push(spec.clone());
            Ok(())
        }
    }
}

/// Kinds that come first and last, in kustomize's order of field paths and of output.
pub(crate) const FIRST: [&str; 22] = [
    "Namespace",
    "ResourceQuota",
    "StorageClass",
    "CustomResourceDefinition",
    "ServiceAccount",
    "PodSecurityPolicy",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
    "ConfigMap",
    "Secret",
    "Endpoints",
    "Service",
    "LimitRange",
    "PriorityClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Deployment",
    "StatefulSet",
    "CronJob",
    "PodDisruptionBudget",
];

/// The counterpart of [`FIRST`].
pub(crate) const LAST: [&str; 2] = [
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

/// Compares two kinds in kustomize's order of field paths.
fn order(a: Gvk<'_>, b: Gvk<'_>) -> Ordering {
    let places = place(a.kind).cmp(&place(b.kind));
    places.then_with(|| a.cmp_sort_key(b))
}

/// Returns the rank of a kind: negative for those that come first, positive for those that come
/// last.
fn place(kind: &str) -> isize {
    let at = |list: &[&str]| {
        list.iter()
            .position(|listed| *listed == kind)
            .and_then(|at| isize::try_from(at).ok())
    };
    match (at(&FIRST), at(&LAST)) {
        (Some(at), _) => at - 22,
        (None, Some(at)) => 1 + at,
        (None, None) => 0,
    }
}
