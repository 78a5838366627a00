//! `generators`, `transformers` and `validators`: the configurations of kustomize's built-in plugins, inline, in files, or
//! built by a folder. All other plugins run programs and are refused.

use super::{Accumulator, Origin, Step, Target, origin};
use crate::error::{Error, ErrorKind, InFile as _};
use crate::fieldspec::FieldSpec;
use crate::generate;
use crate::kustomization::{
    ConfigKind, Generator, HelmChart, HelmGlobals, Image, Patch, ReplacementEntry, Replica, Texts,
    normalize_config,
};
use crate::node::{self, Map, Node};
use crate::resource::{self, ORIGIN, Resource};
use crate::transform::{
    Affix, Images, Json6902, Labels, Namespace, Patch as PatchTransformer, Replacements, Replicas,
    Strategic, Subjects, Transformer, ValueAdd, ValueTarget,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The objects that `generators` make, with where they come from.
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
                let chart: HelmChart = read(&config, ConfigKind::Helm)?;
                let globals: HelmGlobals = read(&config, ConfigKind::Helm)?;
                let made = generate::chart(&chart, &globals, target.loader)?;
                let origin = Origin::of_plugin(&config);
                generated.extend(made.into_iter().map(|resource| (resource, origin.clone())));
                continue;
            }
            "ConfigMapGenerator" => generate::config_map(
                &named(read(&config, ConfigKind::Generator)?, &config),
                None,
                target.loader,
            )?,
            "SecretGenerator" => generate::secret(
                &named(read(&config, ConfigKind::Generator)?, &config),
                None,
                target.loader,
            )?,
            "IAMPolicyGenerator" => iam_account(read(&config, ConfigKind::Iam)?)?,
            kind => {
                let what = format!("generators: {kind}");
                return Err(unsupported(&what, "it is not a built-in generator"));
            }
        };
        generated.push((resource, Origin::of_plugin(&config)));
    }
    Ok(generated)
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct IamConfig {
    cloud: String,
    kubernetes_service: KubernetesService,
    service_account: CloudAccount,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct KubernetesService {
    name: String,
    namespace: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CloudAccount {
    name: String,
    project_id: String,
}

/// A service account that stands for one of Google's cloud.
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

/// The transformers that a list of configurations asks for.
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

/// The objects that configure plugins. An entry that is no YAML object is the path of a file or folder.
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

fn unsupported(what: &str, reason: &str) -> Error {
    ErrorKind::Unsupported {
        field: what.to_owned(),
        reason: reason.to_owned(),
    }
    .into()
}

/// The kind of a built-in plugin's configuration.
fn builtin_kind<'c>(config: &'c Resource, field: &str) -> Result<&'c str, Error> {
    if config.api_version() == "builtin" {
        return Ok(config.kind());
    }
    let what = format!("{field}: {} {}", config.kind(), config.name());
    Err(unsupported(
        &what,
        "plugins that run programs or containers are not run; only apiVersion: builtin is",
    ))
}

/// A plugin's fields; unknown ones are ignored, as in kustomize.
fn read<T: DeserializeOwned>(config: &Resource, kind_of_config: ConfigKind) -> Result<T, Error> {
    let fault = |reason: String| {
        ErrorKind::Kustomization(format!("{} {}: {reason}", config.kind(), config.name()))
    };
    let value = normalize_config(node::to_value(&config.node)?, kind_of_config).map_err(fault)?;
    Ok(serde_json::from_value(value).map_err(|error| fault(error.to_string()))?)
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NamespaceConfig {
    field_specs: Vec<FieldSpec>,
    unset_only: bool,
    set_role_binding_subjects: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AffixConfig {
    prefix: String,
    suffix: String,
    field_specs: Option<Vec<FieldSpec>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LabelConfig {
    labels: Texts,
    annotations: Texts,
    field_specs: Vec<FieldSpec>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Json6902Config {
    #[serde(flatten)]
    patch: Patch,
    json_op: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StrategicConfig {
    paths: Vec<String>,
    patches: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ReplicaConfig {
    replica: Replica,
    field_specs: Vec<FieldSpec>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ImageConfig {
    image_tag: Image,
    field_specs: Vec<FieldSpec>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ReplacementConfig {
    replacements: Vec<ReplacementEntry>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ValueAddConfig {
    value: String,
    targets: Vec<ValueTarget>,
    target_file_path: String,
}

fn transformer(config: &Resource, target: &Target<'_>, field: &str) -> Result<Transformer, Error> {
    let loader = target.loader;
    Ok(match builtin_kind(config, field)? {
        "AnnotationsTransformer" => {
            let LabelConfig {
                annotations,
                field_specs,
                ..
            } = read(config, ConfigKind::Transformer)?;
            Transformer::Annotations(Labels::new(annotations, field_specs))
        }
        "LabelTransformer" => {
            let LabelConfig {
                labels,
                field_specs,
                ..
            } = read(config, ConfigKind::Transformer)?;
            Transformer::Labels(Labels::new(labels, field_specs))
        }
        "HashTransformer" => Transformer::Hash,
        "ImageTagTransformer" => {
            let ImageConfig {
                image_tag,
                field_specs,
            } = read(config, ConfigKind::Transformer)?;
            Transformer::Images(Images::new(image_tag, field_specs.into(), loader.context)?)
        }
        "NamespaceTransformer" => {
            let own: NamespaceConfig = read(config, ConfigKind::Transformer)?;
            let subjects = Subjects::new(&own.set_role_binding_subjects)?;
            let namespace = Namespace::new(config.namespace(), own.field_specs);
            Transformer::Namespace(namespace.with(own.unset_only, subjects))
        }
        "PatchJson6902Transformer" => {
            let Json6902Config { mut patch, json_op } = read(config, ConfigKind::Transformer)?;
            patch.patch = json_op;
            Transformer::Json6902(Json6902::new(&patch, loader)?)
        }
        "PatchStrategicMergeTransformer" => {
            let StrategicConfig { paths, patches } = read(config, ConfigKind::Transformer)?;
            Transformer::Strategic(Strategic::new(&paths, &patches, loader)?)
        }
        "PatchTransformer" => Transformer::Patch(PatchTransformer::new(
            &read(config, ConfigKind::Transformer)?,
            loader,
        )?),
        kind @ ("PrefixTransformer" | "SuffixTransformer" | "PrefixSuffixTransformer") => {
            affix(kind, read(config, ConfigKind::Transformer)?)?
        }
        "ReplacementTransformer" => {
            let ReplacementConfig { replacements } = read(config, ConfigKind::Transformer)?;
            Transformer::Replacements(Replacements::new(&replacements, loader)?)
        }
        "ReplicaCountTransformer" => {
            let ReplicaConfig {
                replica,
                field_specs,
            } = read(config, ConfigKind::Transformer)?;
            Transformer::Replicas(Replicas::new(replica, field_specs.into()))
        }
        "ValueAddTransformer" => value_add(read(config, ConfigKind::Transformer)?, target)?,
        kind => {
            let what = format!("{field}: {kind}");
            return Err(unsupported(&what, "it is not a built-in transformer"));
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
        let more =
            normalize_config(more, ConfigKind::Transformer).map_err(ErrorKind::Kustomization)?;
        let more: ValueAddConfig = serde_json::from_value(more).map_err(|error| {
            ErrorKind::Kustomization(format!("'{}': {error}", config.target_file_path))
        })?;
        config.targets.extend(more.targets);
    }
    Ok(Transformer::ValueAdd(ValueAdd::new(value, config.targets)?))
}
