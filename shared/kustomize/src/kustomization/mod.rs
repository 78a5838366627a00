//! `kustomization.yaml`: the model and its reader.

mod parse;

pub(crate) use parse::{Source, parse, read_config, to_document};

use crate::declare::declare;
use crate::fieldspec::FieldSpec;
use crate::resid::GvkFilter;
use crate::selector::Selector;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A map of strings.
pub(crate) type Texts = BTreeMap<String, String>;

declare! {
    /// A kustomization, with old field names already moved to the new ones.
    #[derive(Clone, Debug)]
    pub(crate) struct Kustomization {
        "kind" pub kind: String,
        "apiVersion" pub api_version: String,
        "openapi" pub openapi: Option<Texts>,
        "namePrefix" pub name_prefix: String,
        "nameSuffix" pub name_suffix: String,
        "namespace" pub namespace: String,
        "commonLabels" pub common_labels: Texts,
        "labels" pub labels: Vec<Label>,
        "commonAnnotations" pub common_annotations: Texts,
        "patchesStrategicMerge" pub patches_strategic_merge: Vec<String>,
        "patchesJson6902" pub patches_json6902: Vec<Patch>,
        "patches" pub patches: Vec<Patch>,
        "images" pub images: Vec<Image>,
        "imageTags" pub image_tags: Vec<Image>,
        "replacements" pub replacements: Vec<ReplacementEntry>,
        "replicas" pub replicas: Vec<Replica>,
        "vars" pub vars: Vec<Var>,
        "sortOptions" pub sort_options: Option<SortOptions>,
        "resources" pub resources: Vec<String>,
        "components" pub components: Vec<String>,
        "crds" pub crds: Vec<String>,
        "bases" pub bases: Vec<String>,
        "configMapGenerator" pub config_map_generator: Vec<Generator>,
        "secretGenerator" pub secret_generator: Vec<Generator>,
        "helmGlobals" pub helm_globals: Option<HelmGlobals>,
        "helmCharts" pub helm_charts: Vec<HelmChart>,
        "helmChartInflationGenerator" pub helm_chart_inflation_generator: Vec<OldHelmChart>,
        "generatorOptions" pub generator_options: Option<GeneratorOptions>,
        "configurations" pub configurations: Vec<String>,
        "generators" pub generators: Vec<String>,
        "transformers" pub transformers: Vec<String>,
        "validators" pub validators: Vec<String>,
        "buildMetadata" pub build_metadata: Vec<String>,
        unused {
            "metadata": Metadata,
        }
    }
}

declare! {
    /// The metadata of a kustomization.
    struct Metadata {
        unused {
            "name": String,
            "namespace": String,
            "labels": Texts,
            "annotations": Texts,
        }
    }
}

/// The kind of a component.
pub(crate) const COMPONENT: &str = "Component";
const KUSTOMIZATION: &str = "Kustomization";

declare! {
    #[derive(Clone, Debug)]
    pub(crate) struct Label {
        "pairs" pub pairs: Texts,
        "includeSelectors" pub include_selectors: bool,
        "includeTemplates" pub include_templates: bool,
        "includeVolumeClaimTemplates" pub include_volume_claim_templates: bool,
        "fields" pub fields: Vec<FieldSpec>,
    }
}

declare! {
    #[derive(Clone, Debug)]
    pub(crate) struct Patch {
        "path" pub path: String,
        "patch" pub patch: String,
        "target" pub target: Option<Selector>,
        "options" pub options: Option<PatchOptions>,
    }
}

declare! {
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct PatchOptions {
        "allowNameChange" pub allow_name_change: bool,
        "allowKindChange" pub allow_kind_change: bool,
    }
}

declare! {
    #[derive(Clone, Debug)]
    pub(crate) struct Image {
        "name" pub name: String,
        "newName" pub new_name: String,
        "tagSuffix" pub tag_suffix: String,
        "newTag" pub new_tag: String,
        "digest" pub digest: String,
    }
}

declare! {
    #[derive(Clone, Debug)]
    pub(crate) struct Replica {
        "name" pub name: String,
        "count" pub count: i64,
    }
}

declare! {
    #[derive(Clone, Debug)]
    pub(crate) struct Generator {
        "namespace" pub namespace: String,
        "name" pub name: String,
        "behavior" pub behavior: String,
        "literals" pub literals: Vec<String>,
        "files" pub files: Vec<String>,
        "envs" pub envs: Vec<String>,
        "env" pub env: String,
        "options" pub options: Option<GeneratorOptions>,
        /// The type of the Secret.
        "type" pub secret_type: String,
    }
}

declare! {
    #[derive(Clone, Debug)]
    pub(crate) struct GeneratorOptions {
        "labels" pub labels: Texts,
        "annotations" pub annotations: Texts,
        "disableNameSuffixHash" pub disable_name_suffix_hash: bool,
        "immutable" pub immutable: bool,
    }
}

declare! {
    /// The options that all charts share.
    #[derive(Clone, Debug)]
    pub(crate) struct HelmGlobals {
        "chartHome" pub chart_home: String,
        unused {
            "configHome": String,
        }
    }
}

declare! {
    /// A chart and its values.
    #[derive(Clone, Debug)]
    pub(crate) struct HelmChart {
        "name" pub name: String,
        "version" pub version: String,
        "repo" pub repo: String,
        "releaseName" pub release_name: String,
        "namespace" pub namespace: String,
        "additionalValuesFiles" pub additional_values_files: Vec<String>,
        "valuesFile" pub values_file: String,
        "valuesInline" pub values_inline: Option<Map<String, Value>>,
        "valuesMerge" pub values_merge: String,
        "includeCRDs" pub include_crds: bool,
        "skipHooks" pub skip_hooks: bool,
        "apiVersions" pub api_versions: Option<Vec<String>>,
        "kubeVersion" pub kube_version: String,
        "nameTemplate" pub name_template: String,
        "skipTests" pub skip_tests: bool,
        unused {
            "chartHome": String,
            "configHome": String,
            "debug": bool,
            "devel": bool,
        }
    }
}

declare! {
    /// A chart in the deprecated field `helmChartInflationGenerator`. kustomize ignores all other
    /// fields.
    #[derive(Clone, Debug)]
    pub(crate) struct OldHelmChart {
        "chartName" chart_name: String,
        "chartVersion" chart_version: String,
        "chartRepoUrl" chart_repo_url: String,
        "chartHome" chart_home: String,
        "values" values: String,
        "valuesLocal" values_local: Option<Map<String, Value>>,
        "valuesMerge" values_merge: String,
        "releaseName" release_name: String,
        unused {
            "chartRepoName": String,
            "helmBin": String,
            "helmHome": String,
            "releaseNamespace": String,
            "extraArgs": Vec<String>,
        }
    }
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

declare! {
    /// A replacement, or the path of a file with replacements.
    #[derive(Clone, Debug)]
    pub(crate) struct ReplacementEntry {
        embedded pub replacement: Replacement,
        "path" pub path: String,
    }
}

declare! {
    #[derive(Clone, Debug)]
    pub(crate) struct Replacement {
        "source" pub source: Option<ReplacementSource>,
        "targets" pub targets: Option<Vec<ReplacementTarget>>,
        "sourceValue" pub source_value: Option<String>,
    }
}

declare! {
    #[derive(Clone, Debug)]
    pub(crate) struct ReplacementSource {
        embedded pub gvk: GvkFilter,
        "name" pub name: String,
        "namespace" pub namespace: String,
        "fieldPath" pub field_path: String,
        "options" pub options: Option<FieldOptions>,
    }
}

declare! {
    #[derive(Clone, Debug)]
    pub(crate) struct ReplacementTarget {
        "select" pub select: Option<Selector>,
        "reject" pub reject: Vec<Selector>,
        "fieldPaths" pub field_paths: Vec<String>,
        "options" pub options: Option<FieldOptions>,
    }
}

declare! {
    #[derive(Clone, Debug)]
    pub(crate) struct FieldOptions {
        "delimiter" pub delimiter: String,
        "index" pub index: i64,
        "create" pub create: bool,
        unused {
            "encoding": String,
        }
    }
}

declare! {
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct Var {
        "name" pub name: String,
        "objref" pub objref: VarTarget,
        "fieldref" pub fieldref: VarField,
    }
}

declare! {
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct VarTarget {
        embedded pub gvk: GvkFilter,
        "apiVersion" pub api_version: String,
        "name" pub name: String,
        "namespace" pub namespace: String,
    }
}

declare! {
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct VarField {
        "fieldPath" pub field_path: String,
    }
}

declare! {
    #[derive(Clone, Debug)]
    pub(crate) struct SortOptions {
        "order" pub order: String,
        "legacySortOptions" pub legacy_sort_options: Option<LegacySortOptions>,
    }
}

declare! {
    #[derive(Clone, Debug)]
    pub(crate) struct LegacySortOptions {
        "orderFirst" pub order_first: Vec<String>,
        "orderLast" pub order_last: Vec<String>,
    }
}

impl Kustomization {
    /// Moves the values of deprecated fields to the new ones.
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
        // kustomize passes them on as YAML, which leaves empty lists out.
        for entry in &mut self.replacements {
            entry
                .replacement
                .targets
                .take_if(|targets| targets.is_empty());
        }
    }

    /// Checks whether `buildMetadata` names an option.
    pub fn has_build_metadata(&self, option: &str) -> bool {
        self.build_metadata.iter().any(|name| name == option)
    }
}

impl Var {
    /// Fills in the default field path, and group and version from `apiVersion`.
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
