//! The build of one directory: accumulates resources, generates, transforms.

use super::{Origin, choose_schema, load, origin, plugins};
use crate::config::{self, Config};
use crate::declare::FieldError;
use crate::error::{Error, ErrorKind, InFile as _};
use crate::generate;
use crate::kustomization::{COMPONENT, Kustomization, Var, read_config};
use crate::loader::Loader;
use crate::resid::IdFilter;
use crate::resmap::ResMap;
use crate::resource::{self, Resource};
use crate::transform::{self, Transformer};
use driftless_manifest::yaml::{self, Dialect};
use driftless_manifest::{Kind, TreePath};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The objects, field paths and vars that the kustomizations have gathered so far.
#[derive(Default)]
pub(crate) struct Accumulator {
    pub map: ResMap,
    pub config: Arc<Config>,
    pub vars: BTreeMap<String, Var>,
}

/// One kustomization while it is built.
pub(crate) struct Target<'t> {
    pub loader: &'t Loader<'t>,
    pub kustomization: &'t Kustomization,
    pub file_name: &'static str,
    /// The location of this kustomization, if the top kustomization asks for the origins of
    /// objects.
    pub origin: Option<Origin>,
}

/// A transformer and the origin that it leaves in the annotations of objects.
pub(crate) struct Step {
    pub transformer: Transformer,
    pub origin: Option<Origin>,
}

impl Target<'_> {
    /// Builds the kustomization in kustomize's order. `into` holds the parent's objects if this is
    /// a component.
    pub fn accumulate(&self, into: Accumulator) -> Result<Accumulator, Error> {
        let mut all = self.resources(into, &self.kustomization.resources, "resources")?;
        self.merge_configurations(&mut all).in_file(&self.file())?;
        self.generate(&mut all)?;
        let mut all = self.components(all)?;
        self.transform(&mut all)?;
        self.validate(&mut all)?;
        self.add_vars(&mut all).in_file(&self.file())?;
        Ok(all)
    }

    /// Returns the path of the kustomization file, for errors.
    pub fn file(&self) -> TreePath {
        self.loader
            .root
            .join(self.file_name)
            .unwrap_or_else(|_| self.loader.root.clone())
    }

    /// Reads files and directories.
    pub fn resources(
        &self,
        mut all: Accumulator,
        entries: &[String],
        field: &'static str,
    ) -> Result<Accumulator, Error> {
        for entry in entries {
            if matches!(self.loader.kind(entry), Ok(Some(Kind::File))) {
                self.add_file(&mut all.map, entry, field)?;
            } else {
                all = self.add_directory(all, entry, field, false)?;
            }
        }
        Ok(all)
    }

    fn add_file(&self, map: &mut ResMap, entry: &str, field: &'static str) -> Result<(), Error> {
        let context = self.loader.context;
        let file = self.loader.text(entry, field).in_file(&self.file())?;
        let mut resources =
            resource::parse(&file.text, file.path.as_str(), &context.budget).in_file(&file.path)?;
        self.check_count(map.list().len() + resources.len())
            .in_file(&file.path)?;
        if let Some(origin) = &self.origin {
            let text = origin.join(entry).to_yaml();
            for resource in &mut resources {
                origin::annotate(resource, resource::ORIGIN, &text, &context.budget)
                    .in_file(&file.path)?;
            }
        }
        map.append_all(resources, &context.schema.borrow())
            .in_file(&file.path)
    }

    fn check_count(&self, objects: usize) -> Result<(), Error> {
        self.loader.context.budget.check_objects(objects)
    }

    fn add_directory(
        &self,
        mut all: Accumulator,
        entry: &str,
        field: &'static str,
        component: bool,
    ) -> Result<Accumulator, Error> {
        let loader = self.loader.enter(entry, field).in_file(&self.file())?;
        let (file_name, kustomization) = load(&loader)?;
        let origin = self.origin.as_ref().map(|origin| origin.join(entry));
        let target = Target {
            loader: &loader,
            kustomization: &kustomization,
            file_name,
            origin,
        };
        choose_schema(&target, false)?;
        let is_component = kustomization.kind == COMPONENT;
        if component != is_component {
            let reason = if component {
                format!(
                    "'{entry}' is not a component: set its kind to Component, or list it under resources"
                )
            } else {
                format!("'{entry}' is a component: list it under components")
            };
            return Err(Error::from(ErrorKind::Kustomization(reason)).in_file(&self.file()));
        }
        if component {
            let all = target.accumulate(all)?;
            // As at every merge: a name that gets a hash later still counts as unchanged here.
            let schema = self.loader.context.schema.borrow();
            all.map.check_ids(&schema).in_file(&self.file())?;
            return Ok(all);
        }
        let below = target.accumulate(Accumulator::default())?;
        let schema = self.loader.context.schema.borrow();
        all.map
            .append_all(below.map.into_list(), &schema)
            .in_file(&self.file())?;
        let budget = &self.loader.context.budget;
        config::merge_shared(&mut all.config, &below.config, budget).in_file(&self.file())?;
        for (name, var) in below.vars {
            add_var(&mut all.vars, name, var).in_file(&self.file())?;
        }
        Ok(all)
    }

    fn components(&self, mut all: Accumulator) -> Result<Accumulator, Error> {
        for entry in &self.kustomization.components {
            all = self.add_directory(all, entry, "components", true)?;
        }
        Ok(all)
    }

    /// Adds kustomize's own field paths, and those of `configurations` and `crds`.
    fn merge_configurations(&self, all: &mut Accumulator) -> Result<(), Error> {
        let budget = &self.loader.context.budget;
        let mut own = Config::builtin();
        let mut added = Config::default();
        for path in &self.kustomization.configurations {
            let fault = |error: FieldError| {
                ErrorKind::Kustomization(format!("configurations: '{path}': {error}"))
            };
            let value = self.yaml_value(path, "configurations")?;
            let mut config: Config = read_config(value, true).map_err(fault)?;
            config.sort();
            added.merge(&config, budget)?;
        }
        config::merge_shared(&mut own, &Arc::new(added), budget)?;
        config::merge_shared(&mut all.config, &own, budget)?;
        let mut crds = Config::default();
        for path in &self.kustomization.crds {
            let definitions = self.yaml_value(path, "crds")?;
            crds.merge(&config::from_crds(&definitions, budget)?, budget)?;
        }
        config::merge_shared(&mut all.config, &Arc::new(crds), budget)
    }

    /// Returns the first document of a file, parsed as kustomize parses its own configuration.
    pub fn yaml_value(&self, path: &str, field: &'static str) -> Result<Value, Error> {
        let file = self.loader.text(path, field)?;
        let documents = self.loader.context.budget.reading(|fuel| {
            let (text, name) = (file.text.as_bytes(), file.path.as_str());
            yaml::documents_within(text, name, Dialect::V2, &yaml::Limits::default(), fuel)
        })?;
        Ok(documents.into_iter().next().unwrap_or(Value::Null))
    }

    fn generate(&self, all: &mut Accumulator) -> Result<(), Error> {
        let kustomization = self.kustomization;
        let mut generated = Vec::new();
        let globals = kustomization.generator_options.as_ref();
        for args in &kustomization.config_map_generator {
            let resource =
                generate::config_map(args, globals, self.loader).in_file(&self.file())?;
            generated.push((resource, self.builtin_origin("ConfigMapGenerator")));
        }
        for args in &kustomization.secret_generator {
            let resource = generate::secret(args, globals, self.loader).in_file(&self.file())?;
            generated.push((resource, self.builtin_origin("SecretGenerator")));
        }
        let home = kustomization.helm_globals.clone().unwrap_or_default();
        for chart in &kustomization.helm_charts {
            let origin = self.builtin_origin("HelmChartInflationGenerator");
            let resources = generate::chart(chart, &home, self.loader).in_file(&self.file())?;
            generated.extend(
                resources
                    .into_iter()
                    .map(|resource| (resource, origin.clone())),
            );
        }
        generated.extend(plugins::generate(self).in_file(&self.file())?);
        self.check_count(all.map.list().len() + generated.len())?;
        let schema = self.loader.context.schema.borrow();
        for (mut resource, origin) in generated {
            let budget = &self.loader.context.budget;
            if let Some(origin) = origin {
                origin
                    .annotate_new(&mut resource, budget)
                    .in_file(&self.file())?;
            }
            budget
                .spend_steps(all.map.list().len())
                .in_file(&self.file())?;
            all.map.absorb(resource, &schema).in_file(&self.file())?;
        }
        Ok(())
    }

    pub fn builtin_origin(&self, kind: &str) -> Option<Origin> {
        self.origin
            .as_ref()
            .map(|origin| origin.builtin(self.file_name, kind))
    }

    fn transform(&self, all: &mut Accumulator) -> Result<(), Error> {
        let mut steps = transform::of_kustomization(self, &all.config).in_file(&self.file())?;
        steps.extend(plugins::transformers(
            self,
            &self.kustomization.transformers,
            "transformers",
        )?);
        steps
            .iter()
            .try_for_each(|step| self.apply(step, &mut all.map).in_file(&self.file()))
    }

    fn apply(&self, step: &Step, map: &mut ResMap) -> Result<(), Error> {
        step.transformer.apply(map, self.loader.context)?;
        if let Some(origin) = &step.origin {
            let budget = &self.loader.context.budget;
            map.list_mut()
                .iter_mut()
                .try_for_each(|resource| origin.note(resource, budget))?;
        }
        map.drop_empty();
        Ok(())
    }

    /// Runs `validators`: transformers that must not change anything.
    fn validate(&self, all: &mut Accumulator) -> Result<(), Error> {
        for step in plugins::transformers(self, &self.kustomization.validators, "validators")? {
            for resource in all.map.list() {
                let budget = &self.loader.context.budget;
                budget.spend_tree(&resource.node).in_file(&self.file())?;
            }
            let before: Vec<_> = all
                .map
                .list()
                .iter()
                .map(|resource| resource.node.clone())
                .collect();
            step.transformer
                .apply(&mut all.map, self.loader.context)
                .in_file(&self.file())?;
            let after = all.map.list().iter().map(|resource| &resource.node);
            if !before.iter().eq(after) {
                let reason = format!(
                    "the validator {} changes objects",
                    step.transformer.plugin()
                );
                return Err(Error::from(ErrorKind::Kustomization(reason)).in_file(&self.file()));
            }
        }
        Ok(())
    }

    /// Marks the objects that vars read.
    fn add_vars(&self, all: &mut Accumulator) -> Result<(), Error> {
        let schema = self.loader.context.schema.borrow();
        for var in &self.kustomization.vars {
            self.loader
                .context
                .budget
                .spend_steps(all.map.list().len())?;
            let var = var.clone().with_defaults();
            let target = IdFilter {
                gvk: var.objref.gvk.clone(),
                name: var.objref.name.clone(),
                namespace: var.objref.namespace.clone(),
            };
            let wanted = target.id(&schema);
            let any_namespace = wanted.namespace.is_empty();
            let fits = |resource: &Resource| {
                let mut ids = resource.previous_ids().chain([resource.id(&schema)]);
                ids.any(|id| {
                    id.name == wanted.name
                        && id.gvk == wanted.gvk
                        && (any_namespace || id.same_namespace(&wanted))
                })
            };
            let found: Vec<usize> = (0..all.map.list().len())
                .filter(|at| fits(&all.map.list()[*at]))
                .collect();
            if found.len() > 1 {
                let reason = format!(
                    "var '{}' matches {} objects: give its namespace",
                    var.name,
                    found.len()
                );
                return Err(ErrorKind::Transform {
                    transformer: "vars",
                    reason,
                }
                .into());
            }
            if let Some(at) = found.first() {
                all.map.list_mut()[*at].vars.push(var.name.clone());
            }
            add_var(&mut all.vars, var.name.clone(), var)?;
        }
        Ok(())
    }
}

fn add_var(vars: &mut BTreeMap<String, Var>, name: String, var: Var) -> Result<(), Error> {
    if vars.contains_key(&name) {
        let reason = format!("duplicate var '{name}': rename one");
        return Err(ErrorKind::Transform {
            transformer: "vars",
            reason,
        }
        .into());
    }
    vars.insert(name, var);
    Ok(())
}
