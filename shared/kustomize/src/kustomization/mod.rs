//! `kustomization.yaml`: the model, and how it is read.

mod fields;
mod parse;

pub(crate) use parse::{ConfigKind, Source, normalize_config, parse, to_document};

use crate::fieldspec::FieldSpec;
use crate::resid::GvkFilter;
use crate::selector::Selector;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Texts by name.
pub(crate) type Texts = BTreeMap<String, String>;

/// A kustomization, with old field names already moved to the new ones.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Kustomization {
    pub kind: String,
    pub api_version: String,
    pub openapi: Option<Texts>,
    pub name_prefix: String,
    pub name_suffix: String,
    pub namespace: String,
    pub common_labels: Texts,
    pub labels: Vec<Label>,
    pub common_annotations: Texts,
    pub patches_strategic_merge: Vec<String>,
    #[serde(rename = "patchesJson6902")]
    pub patches_json6902: Vec<Patch>,
    pub patches: Vec<Patch>,
    pub images: Vec<Image>,
    pub image_tags: Vec<Image>,
    pub replacements: Vec<ReplacementEntry>,
    pub replicas: Vec<Replica>,
    pub vars: Vec<Var>,
    pub sort_options: Option<SortOptions>,
    pub resources: Vec<String>,
    pub components: Vec<String>,
    pub crds: Vec<String>,
    pub bases: Vec<String>,
    pub config_map_generator: Vec<Generator>,
    pub secret_generator: Vec<Generator>,
    pub helm_globals: Option<HelmGlobals>,
    pub helm_charts: Vec<HelmChart>,
    pub helm_chart_inflation_generator: Vec<OldHelmChart>,
    pub generator_options: Option<GeneratorOptions>,
    pub configurations: Vec<String>,
    pub generators: Vec<String>,
    pub transformers: Vec<String>,
    pub validators: Vec<String>,
    pub build_metadata: Vec<String>,
}

/// The kind of a component.
pub(crate) const COMPONENT: &str = "Component";
const KUSTOMIZATION: &str = "Kustomization";

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Label {
    pub pairs: Texts,
    pub include_selectors: bool,
    pub include_templates: bool,
    pub include_volume_claim_templates: bool,
    pub fields: Vec<FieldSpec>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Patch {
    pub path: String,
    pub patch: String,
    pub target: Option<Selector>,
    pub options: Option<PatchOptions>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PatchOptions {
    pub allow_name_change: bool,
    pub allow_kind_change: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Image {
    pub name: String,
    pub new_name: String,
    pub tag_suffix: String,
    pub new_tag: String,
    pub digest: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Replica {
    pub name: String,
    pub count: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Generator {
    pub namespace: String,
    pub name: String,
    pub behavior: String,
    pub literals: Vec<String>,
    pub files: Vec<String>,
    pub envs: Vec<String>,
    pub env: String,
    pub options: Option<GeneratorOptions>,
    /// Of Secrets.
    #[serde(rename = "type")]
    pub secret_type: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct GeneratorOptions {
    pub labels: Texts,
    pub annotations: Texts,
    pub disable_name_suffix_hash: bool,
    pub immutable: bool,
}

/// What all charts have in common.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct HelmGlobals {
    pub chart_home: String,
}

/// A chart and its values.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct HelmChart {
    pub name: String,
    pub version: String,
    pub repo: String,
    pub release_name: String,
    pub namespace: String,
    pub additional_values_files: Vec<String>,
    pub values_file: String,
    pub values_inline: Option<Map<String, Value>>,
    pub values_merge: String,
    #[serde(rename = "includeCRDs")]
    pub include_crds: bool,
    pub skip_hooks: bool,
    pub api_versions: Option<Vec<String>>,
    pub kube_version: String,
    pub name_template: String,
    pub skip_tests: bool,
}

/// A chart in the deprecated field `helmChartInflationGenerator`. kustomize leaves what is not here out.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct OldHelmChart {
    chart_name: String,
    chart_version: String,
    chart_repo_url: String,
    chart_home: String,
    values: String,
    values_local: Option<Map<String, Value>>,
    values_merge: String,
    release_name: String,
}

impl From<OldHelmChart> for HelmChart {
    fn from(old: OldHelmChart) -> Self {
        Self {
            name: old.chart_name,
            version: old.chart_version,
            repo: old.chart_repo_url,
            values_file: old.values,
            values_inline: old.values_local,
            values_merge: old.values_merge,
            release_name: old.release_name,
            ..Self::default()
        }
    }
}

/// A replacement, or a file with replacements.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ReplacementEntry {
    #[serde(flatten)]
    pub replacement: Replacement,
    pub path: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Replacement {
    pub source: Option<ReplacementSource>,
    pub targets: Option<Vec<ReplacementTarget>>,
    pub source_value: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ReplacementSource {
    #[serde(flatten)]
    pub gvk: GvkFilter,
    pub name: String,
    pub namespace: String,
    pub field_path: String,
    pub options: Option<FieldOptions>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ReplacementTarget {
    pub select: Option<Selector>,
    pub reject: Vec<Selector>,
    pub field_paths: Vec<String>,
    pub options: Option<FieldOptions>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FieldOptions {
    pub delimiter: String,
    pub index: i64,
    pub create: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Var {
    pub name: String,
    pub objref: VarTarget,
    pub fieldref: VarField,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct VarTarget {
    pub api_version: String,
    #[serde(flatten)]
    pub gvk: GvkFilter,
    pub name: String,
    pub namespace: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct VarField {
    pub field_path: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct SortOptions {
    pub order: String,
    pub legacy_sort_options: Option<LegacySortOptions>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct LegacySortOptions {
    pub order_first: Vec<String>,
    pub order_last: Vec<String>,
}

impl Kustomization {
    /// Moves what old fields hold to the new ones.
    fn fix_deprecated(&mut self) {
        if self.kind.is_empty() {
            self.kind = KUSTOMIZATION.to_owned();
        }
        let bases = std::mem::take(&mut self.bases);
        self.resources.extend(bases);
        let tags = std::mem::take(&mut self.image_tags);
        self.images.extend(tags);
        for generator in self
            .config_map_generator
            .iter_mut()
            .chain(&mut self.secret_generator)
        {
            let env = std::mem::take(&mut generator.env);
            if !env.is_empty() {
                generator.envs.push(env);
            }
        }
        let old_charts = std::mem::take(&mut self.helm_chart_inflation_generator);
        let last_home = old_charts.iter().rev().map(|chart| &chart.chart_home);
        if let (None, Some(home)) = (
            &self.helm_globals,
            last_home.into_iter().find(|home| !home.is_empty()),
        ) {
            self.helm_globals = Some(HelmGlobals {
                chart_home: home.clone(),
            });
        }
        self.helm_charts
            .extend(old_charts.into_iter().map(HelmChart::from));
        // kustomize hands them on as YAML, which leaves empty lists out.
        for entry in &mut self.replacements {
            entry
                .replacement
                .targets
                .take_if(|targets| targets.is_empty());
        }
    }

    /// Whether `buildMetadata` names an option.
    pub fn has_build_metadata(&self, option: &str) -> bool {
        self.build_metadata.iter().any(|name| name == option)
    }
}

impl Var {
    /// The field that is read when none is given, and group and version from `apiVersion`.
    pub fn with_defaults(mut self) -> Self {
        if self.fieldref.field_path.is_empty() {
            self.fieldref.field_path = "metadata.name".to_owned();
        }
        if !self.objref.api_version.is_empty() {
            match self.objref.api_version.split_once('/') {
                Some((group, version)) => {
                    self.objref.gvk.group = group.to_owned().into();
                    self.objref.gvk.version = version.to_owned().into();
                }
                None => self.objref.gvk.version = self.objref.api_version.clone().into(),
            }
        }
        self
    }
}
