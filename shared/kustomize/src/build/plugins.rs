//! `generators`, `transformers` and `validators`: the configurations of kustomize's built-in
//! plugins, inline, in files, or built by a directory. All other plugins run programs and are
//! refused.

use super::{Accumulator, Origin, Step, Target, origin};
use crate::declare::{Declared, FieldError, declare};
use crate::error::{Error, ErrorKind, InFile as _};
use crate::fieldspec::FieldSpec;
use crate::generate;
use crate::kustomization::{
    Generator, HelmChart, HelmGlobals, Image, Patch, ReplacementEntry, Replica, Texts, read_config,
};
use crate::node::{self, Map, Node};
use crate::resource::{self, ORIGIN, Resource};
use crate::transform::{
    Affix, Images, Json6902, Labels, Namespace, Patch as PatchTransformer, Replacements, Replicas,
    Strategic, Subjects, Transformer, ValueAdd, ValueTarget,
};
use serde::de::DeserializeOwned;

/// Returns the objects that `generators` create, with their origins.
pub(super) fn generate(target: &Target<'_>) -> Result<Vec<(Resource, Option<Origin>)>, Error> {
    let mut generated = Vec::new();
    for config in configurations(target, &target.kustomization.generators, "generators")? {
        let kind = builtin_kind(&config, "generators")?;
        let named = |mut args: Generator, config: &Resource| {
            if args.name.is_empty() {
                args.name = config.name().to_owned();
            }
            if args.namespace.is_empty() {
                args.namespace = config.namespace().to_owned();
            }
            args
        };
        let resource = match kind {
            "HelmChartInflationGenerator" => {
                let chart: HelmChart = read(&config)?;
                let globals: HelmGlobals = read(&config)?;
                let made = generate::chart(&chart, &globals, target.loader)?;
                let origin = Origin::of_plugin(&config);
                generated.extend(made.into_iter().map(|resource| (resource, origin.clone())));
                continue;
            }
            "ConfigMapGenerator" => {
                generate::config_map(&named(read(&config)?, &config), None, target.loader)?
            }
            "SecretGenerator" => {
                generate::secret(&named(read(&config)?, &config), None, target.loader)?
            }
            "IAMPolicyGenerator" => iam_account(read(&config)?)?,
            kind => {
                let subject = format!("generators: {kind}");
                return Err(unsupported(&subject, "not a built-in generator"));
            }
        };
        generated.push((resource, Origin::of_plugin(&config)));
    }
    Ok(generated)
}

declare! {
    struct IamConfig {
        "cloud" cloud: String,
        "kubernetesService" kubernetes_service: KubernetesService,
        "serviceAccount" service_account: CloudAccount,
    }
}

declare! {
    struct KubernetesService {
        "name" name: String,
        "namespace" namespace: String,
    }
}

declare! {
    struct CloudAccount {
        "name" name: String,
        "projectId" project_id: String,
    }
}

/// Generates a service account that represents one of Google Cloud.
fn iam_account(config: IamConfig) -> Result<Resource, Error> {
    if config.cloud != "gke" {
        return Err(unsupported(
            "generators: IAMPolicyGenerator",
            "the only cloud is gke",
        ));
    }
    let CloudAccount { name, project_id } = config.service_account;
    let mut account = Map::default();
    account.insert("apiVersion", Node::str("v1"));
    account.insert("kind", Node::str("ServiceAccount"));
    let mut resource = Resource::new(Node::Map(account));
    resource.set_annotation(
        "iam.gke.io/gcp-service-account",
        &format!("{name}@{project_id}.iam.gserviceaccount.com"),
    );
    resource.set_name(&config.kubernetes_service.name);
    resource.set_namespace(&config.kubernetes_service.namespace);
    Ok(resource)
}

/// Returns the transformers that a list of configurations describes.
pub(super) fn transformers(
    target: &Target<'_>,
    entries: &[String],
    field: &'static str,
) -> Result<Vec<Step>, Error> {
    let configs = configurations(target, entries, field)?;
    let step = |config: &Resource| {
        let transformer = transformer(config, target, field).in_file(&target.file())?;
        Ok(Step {
            transformer,
            origin: Origin::of_plugin(config),
        })
    };
    configs.iter().map(step).collect()
}

/// Returns the objects that configure plugins. An entry that is not a YAML object is the path of a
/// file or directory.
fn configurations(
    target: &Target<'_>,
    entries: &[String],
    field: &'static str,
) -> Result<Vec<Resource>, Error> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let budget = &target.loader.context.budget;
    let mut all = Accumulator::default();
    let mut paths = Vec::new();
    for entry in entries {
        match resource::parse(entry, "inline configuration", budget) {
            Err(error) if error.is_budget() => return Err(error.in_file(&target.file())),
            Err(_) => paths.push(entry.clone()),
            Ok(mut found) => {
                if let Some(origin) = &target.origin {
                    let text = origin.join(target.file_name).to_yaml();
                    for config in &mut found {
                        origin::annotate(config, ORIGIN, &text, budget)?;
                    }
                }
                all.map
                    .append_all(found, &target.loader.context.schema.borrow())
                    .in_file(&target.file())?;
            }
        }
    }
    Ok(target.resources(all, &paths, field)?.map.into_list())
}

fn unsupported(subject: &str, reason: &str) -> Error {
    ErrorKind::Unsupported {
        field: subject.to_owned(),
        reason: reason.to_owned(),
    }
    .into()
}

/// Returns the kind of a built-in plugin's configuration.
fn builtin_kind<'c>(config: &'c Resource, field: &str) -> Result<&'c str, Error> {
    if config.api_version() == "builtin" {
        return Ok(config.kind());
    }
    let subject = format!("{field}: {} {}", config.kind(), config.name());
    Err(unsupported(
        &subject,
        "plugins that run programs or containers are not run; only apiVersion: builtin is",
    ))
}

/// Reads a plugin's fields; unknown ones are ignored, as in kustomize.
fn read<T: Declared + DeserializeOwned>(config: &Resource) -> Result<T, Error> {
    let fault = |error: FieldError| {
        ErrorKind::Kustomization(format!("{} {}: {error}", config.kind(), config.name()))
    };
    Ok(read_config(node::to_value(&config.node)?, false).map_err(fault)?)
}

declare! {
    struct NamespaceConfig {
        "fieldSpecs" field_specs: Vec<FieldSpec>,
        "unsetOnly" unset_only: bool,
        "setRoleBindingSubjects" set_role_binding_subjects: String,
    }
}

declare! {
    struct AffixConfig {
        "prefix" prefix: String,
        "suffix" suffix: String,
        "fieldSpecs" field_specs: Option<Vec<FieldSpec>>,
    }
}

declare! {
    struct LabelConfig {
        "labels" labels: Texts,
        "annotations" annotations: Texts,
        "fieldSpecs" field_specs: Vec<FieldSpec>,
    }
}

declare! {
    struct Json6902Config {
        embedded patch: Patch,
        "jsonOp" json_op: String,
    }
}

declare! {
    struct StrategicConfig {
        "paths" paths: Vec<String>,
        "patches" patches: String,
    }
}

declare! {
    struct ReplicaConfig {
        "replica" replica: Replica,
        "fieldSpecs" field_specs: Vec<FieldSpec>,
    }
}

declare! {
    struct ImageConfig {
        "imageTag" image_tag: Image,
        "fieldSpecs" field_specs: Vec<FieldSpec>,
    }
}

declare! {
    struct ReplacementConfig {
        "replacements" replacements: Vec<ReplacementEntry>,
    }
}

declare! {
    struct ValueAddConfig {
        "value" value: String,
        "targets" targets: Vec<ValueTarget>,
        "targetFilePath" target_file_path: String,
    }
}

fn transformer(config: &Resource, target: &Target<'_>, field: &str) -> Result<Transformer, Error> {
    let loader = target.loader;
    Ok(match builtin_kind(config, field)? {
        "AnnotationsTransformer" => {
            let LabelConfig {
                annotations,
                field_specs,
                ..
            } = read(config)?;
            Transformer::Annotations(Labels::new(annotations, field_specs))
        }
        "LabelTransformer" => {
            let LabelConfig {
                labels,
                field_specs,
                ..
            } = read(config)?;
            Transformer::Labels(Labels::new(labels, field_specs))
        }
        "HashTransformer" => Transformer::Hash,
        "ImageTagTransformer" => {
            let ImageConfig {
                image_tag,
                field_specs,
            } = read(config)?;
            Transformer::Images(Images::new(image_tag, field_specs.into(), loader.context)?)
        }
        "NamespaceTransformer" => {
            let own: NamespaceConfig = read(config)?;
            let subjects = Subjects::new(&own.set_role_binding_subjects)?;
            let namespace = Namespace::new(config.namespace(), own.field_specs);
            Transformer::Namespace(namespace.with(own.unset_only, subjects))
        }
        "PatchJson6902Transformer" => {
            let Json6902Config { mut patch, json_op } = read(config)?;
            patch.patch = json_op;
            Transformer::Json6902(Json6902::new(&patch, loader)?)
        }
        "PatchStrategicMergeTransformer" => {
            let StrategicConfig { paths, patches } = read(config)?;
            Transformer::Strategic(Strategic::new(&paths, &patches, loader)?)
        }
        "PatchTransformer" => Transformer::Patch(PatchTransformer::new(&read(config)?, loader)?),
        kind @ ("PrefixTransformer" | "SuffixTransformer" | "PrefixSuffixTransformer") => {
            affix(kind, read(config)?)?
        }
        "ReplacementTransformer" => {
            let ReplacementConfig { replacements } = read(config)?;
            Transformer::Replacements(Replacements::new(&replacements, loader)?)
        }
        "ReplicaCountTransformer" => {
            let ReplicaConfig {
                replica,
                field_specs,
            } = read(config)?;
            Transformer::Replicas(Replicas::new(replica, field_specs.into()))
        }
        "ValueAddTransformer" => value_add(read(config)?, target)?,
        kind => {
            let subject = format!("{field}: {kind}");
            return Err(unsupported(&subject, "not a built-in transformer"));
        }
    })
}

fn affix(kind: &str, config: AffixConfig) -> Result<Transformer, Error> {
    let Some(specs) = config.field_specs else {
        return Err(ErrorKind::Kustomization(format!("{kind} needs fieldSpecs")).into());
    };
    let prefix = Transformer::Prefix(Affix::new(&config.prefix, specs.clone()));
    let suffix = Transformer::Suffix(Affix::new(&config.suffix, specs));
    Ok(match kind {
        "PrefixTransformer" => prefix,
        "SuffixTransformer" => suffix,
        _ => Transformer::All(vec![prefix, suffix]),
    })
}

fn value_add(mut config: ValueAddConfig, target: &Target<'_>) -> Result<Transformer, Error> {
    let value = match config.value.trim() {
        "" => target.loader.root.file_name().to_owned(),
        value => value.to_owned(),
    };
    if !config.target_file_path.is_empty() {
        let more = target.yaml_value(&config.target_file_path, "targetFilePath")?;
        let more: ValueAddConfig = read_config(more, false).map_err(|error| {
            ErrorKind::Kustomization(format!("'{}': {error}", config.target_file_path))
        })?;
        config.targets.extend(more.targets);
    }
    Ok(Transformer::ValueAdd(ValueAdd::new(value, config.targets)?))
}
