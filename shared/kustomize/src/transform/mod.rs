//! The transformers, one file each.

mod images;
mod json_patch;
mod labels;
mod names;
mod namespace;
mod order;
mod patches;
mod references;
mod replacements;
mod replicas;
mod strategic;
mod values;
mod vars;

pub(crate) use images::Images;
pub(crate) use labels::Labels;
pub(crate) use names::Affix;
pub(crate) use namespace::{Namespace, Subjects};
pub(crate) use order::Order;
pub(crate) use patches::{Json6902, Patch};
pub(crate) use references::fix_references;
pub(crate) use replacements::Replacements;
pub(crate) use replicas::Replicas;
pub(crate) use strategic::Strategic;
pub(crate) use values::{Target as ValueTarget, ValueAdd};
pub(crate) use vars::resolve_vars;

use crate::build::{Step, Target};
use crate::config::{Config, merge_all, merge_one};
use crate::error::Error;
use crate::fieldspec::FieldSpec;
use crate::generate;
use crate::loader::Context;
use crate::resid::GvkFilter;
use crate::resmap::ResMap;
use std::rc::Rc;

pub(crate) enum Transformer {
    Strategic(Strategic),
    Patch(Patch),
    Namespace(Namespace),
    Prefix(Affix),
    Suffix(Affix),
    Labels(Labels),
    Annotations(Labels),
    Json6902(Json6902),
    Replicas(Replicas),
    Images(Images),
    Replacements(Replacements),
    ValueAdd(ValueAdd),
    /// Appends the hash to the names of generated objects.
    Hash,
    /// Several transformers in sequence.
    All(Vec<Transformer>),
}

impl Transformer {
    /// Returns the name of kustomize's built-in plugin.
    pub fn plugin(&self) -> &'static str {
        match self {
            Self::Strategic(_) => "PatchStrategicMergeTransformer",
            Self::Patch(_) => "PatchTransformer",
            Self::Namespace(_) => "NamespaceTransformer",
            Self::Prefix(_) => "PrefixTransformer",
            Self::Suffix(_) => "SuffixTransformer",
            Self::Labels(_) => "LabelTransformer",
            Self::Annotations(_) => "AnnotationsTransformer",
            Self::Json6902(_) => "PatchJson6902Transformer",
            Self::Replicas(_) => "ReplicaCountTransformer",
            Self::Images(_) => "ImageTagTransformer",
            Self::Replacements(_) => "ReplacementTransformer",
            Self::ValueAdd(_) => "ValueAddTransformer",
            Self::Hash => "HashTransformer",
            Self::All(_) => "PrefixSuffixTransformer",
        }
    }

    /// Changes the objects.
    ///
    /// # Errors
    /// The error of the transformer.
    pub fn apply(&self, map: &mut ResMap, context: &Context<'_, '_>) -> Result<(), Error> {
        context.budget.spend_steps(map.list().len())?;
        match self {
            Self::Strategic(patches) => patches.apply(map, context),
            Self::Patch(patch) => patch.apply(map, context),
            Self::Namespace(namespace) => namespace.apply(map, context),
            Self::Prefix(affix) => affix.apply(map, names::AffixSide::Front, context),
            Self::Suffix(affix) => affix.apply(map, names::AffixSide::Back, context),
            Self::Labels(labels) | Self::Annotations(labels) => labels.apply(map, context),
            Self::Json6902(patch) => patch.apply(map, context),
            Self::Replicas(replicas) => {
                replicas.apply(map, &context.schema.borrow(), &context.budget)
            }
            Self::Images(images) => images.apply(map, context),
            Self::Replacements(replacements) => replacements.apply(map, context),
            Self::ValueAdd(add) => add.apply(map, context),
            Self::Hash => generate::add_hashes(map, context),
            Self::All(all) => all.iter().try_for_each(|one| one.apply(map, context)),
        }
    }
}

/// Returns the transformers of a kustomization's own fields, in kustomize's order.
///
/// # Errors
/// An invalid patch or replacement.
pub(crate) fn of_kustomization(target: &Target<'_>, config: &Config) -> Result<Vec<Step>, Error> {
    let kustomization = target.kustomization;
    let loader = target.loader;
    let mut all = Vec::new();
    if !kustomization.patches_strategic_merge.is_empty() {
        all.push(Transformer::Strategic(Strategic::new(
            &kustomization.patches_strategic_merge,
            "",
            loader,
        )?));
    }
    for patch in &kustomization.patches {
        all.push(Transformer::Patch(Patch::new(patch, loader)?));
    }
    if !kustomization.namespace.is_empty() {
        all.push(Transformer::Namespace(Namespace::new(
            &kustomization.namespace,
            config.namespace.clone(),
        )));
    }
    if !kustomization.name_prefix.is_empty() {
        all.push(Transformer::Prefix(Affix::new(
            &kustomization.name_prefix,
            config.name_prefix.clone(),
        )));
    }
    if !kustomization.name_suffix.is_empty() {
        all.push(Transformer::Suffix(Affix::new(
            &kustomization.name_suffix,
            config.name_suffix.clone(),
        )));
    }
    all.extend(labels_of(target, config)?);
    if !kustomization.common_annotations.is_empty() {
        let annotations = Labels::new(
            kustomization.common_annotations.clone(),
            config.common_annotations.clone(),
        );
        all.push(Transformer::Annotations(annotations));
    }
    for patch in &kustomization.patches_json6902 {
        all.push(Transformer::Json6902(Json6902::new(patch, loader)?));
    }
    let specs: Rc<[FieldSpec]> = config.replicas.as_slice().into();
    for replica in &kustomization.replicas {
        let specs = Rc::clone(&specs);
        all.push(Transformer::Replicas(Replicas::new(replica.clone(), specs)));
    }
    let specs: Rc<[FieldSpec]> = config.images.as_slice().into();
    for image in &kustomization.images {
        let specs = Rc::clone(&specs);
        all.push(Transformer::Images(Images::new(
            image.clone(),
            specs,
            loader.context,
        )?));
    }
    if !kustomization.replacements.is_empty() {
        all.push(Transformer::Replacements(Replacements::new(
            &kustomization.replacements,
            loader,
        )?));
    }
    let step = |transformer: Transformer| Step {
        origin: target.builtin_origin(transformer.plugin()),
        transformer,
    };
    Ok(all.into_iter().map(step).collect())
}

/// Returns the transformers of `labels`, and those of `commonLabels` after them.
fn labels_of(target: &Target<'_>, config: &Config) -> Result<Vec<Transformer>, Error> {
    let kustomization = target.kustomization;
    if kustomization.labels.is_empty() && kustomization.common_labels.is_empty() {
        return Ok(Vec::new());
    }
    let mut all = Vec::with_capacity(kustomization.labels.len() + 1);
    let budget = &target.loader.context.budget;
    for label in &kustomization.labels {
        budget.spend_nodes(label.fields.len())?;
        let mut specs = label.fields.clone();
        merge_all(&mut specs, &config.labels, budget)?;
        if label.include_selectors {
            merge_all(&mut specs, &config.common_labels, budget)?;
        } else {
            if label.include_templates {
                merge_all(&mut specs, &config.template_labels, budget)?;
            }
            if label.include_volume_claim_templates {
                merge_all(&mut specs, &config.volume_claim_template_labels, budget)?;
            }
            let own = FieldSpec::new(GvkFilter::default(), "metadata/labels", true);
            merge_one(&mut specs, &own, budget)?;
        }
        all.push(Transformer::Labels(Labels::new(label.pairs.clone(), specs)));
    }
    let common = Labels::new(
        kustomization.common_labels.clone(),
        config.common_labels.clone(),
    );
    all.push(Transformer::Labels(common));
    Ok(all)
}
