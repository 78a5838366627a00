//! Field paths that the OpenAPI definitions of `crds` declare.

use super::{BackReferences, Config, merge_one};
use crate::budget::Budget;
use crate::error::Error;
use crate::fieldspec::FieldSpec;
use crate::resid::GvkFilter;
use serde_json::{Map, Value};

/// Returns the field paths that the OpenAPI definitions under `crds` declare with `x-kubernetes-…`
/// extensions.
///
/// # Errors
/// The same field with and without `create`, which definitions alone cannot cause.
pub(crate) fn from_crds(definitions: &Value, budget: &Budget) -> Result<Config, Error> {
    let mut config = Config::default();
    let Some(definitions) = definitions.as_object() else {
        return Ok(config);
    };
    for name in definitions.keys() {
        let Some(properties) = properties(definitions, name) else {
            continue;
        };
        if ["kind", "apiVersion", "metadata"]
            .iter()
            .all(|field| properties.contains_key(*field))
        {
            let kind = name.rsplit('.').next().unwrap_or(name);
            let mut walk = Walk {
                definitions,
                kind: GvkFilter::kind(kind.to_owned()),
                config: &mut config,
                budget,
            };
            walk.definition(name, &mut Vec::new(), &mut Vec::new())?;
        }
    }
    config.sort();
    Ok(config)
}

fn properties<'d>(
    definitions: &'d Map<String, Value>,
    name: &str,
) -> Option<&'d Map<String, Value>> {
    let schema = definitions.get(name)?.as_object()?;
    let schema = schema
        .iter()
        .find(|(key, _)| key.eq_ignore_ascii_case("schema"))?
        .1;
    schema.get("properties")?.as_object()
}

struct Walk<'w> {
    definitions: &'w Map<String, Value>,
    kind: GvkFilter,
    config: &'w mut Config,
    budget: &'w Budget,
}

impl Walk<'_> {
    /// Collects the field paths of a definition; `visited` stops the recursion at definitions that
    /// refer to themselves.
    fn definition(
        &mut self,
        name: &str,
        path: &mut Vec<String>,
        visited: &mut Vec<String>,
    ) -> Result<(), Error> {
        let Some(properties) = properties(self.definitions, name) else {
            return Ok(());
        };
        self.budget.spend_steps(1 + visited.len())?;
        if visited.iter().any(|seen| seen == name) {
            return Ok(());
        }
        self.budget.check_path(visited.len())?;
        visited.push(name.to_owned());
        for (field, property) in properties {
            self.budget.spend_steps(1 + path.len())?;
            path.push(field.clone());
            self.property(property, path)?;
            if let Some(reference) = property.get("$ref").and_then(Value::as_str) {
                self.definition(reference, path, visited)?;
            }
            path.pop();
        }
        visited.pop();
        Ok(())
    }

    fn property(&mut self, property: &Value, path: &[String]) -> Result<(), Error> {
        let text = |extension: &str| property.get(extension).and_then(Value::as_str);
        let spec = FieldSpec::new(self.kind.clone(), path.join("/"), false);
        if text("x-kubernetes-annotation").is_some() {
            merge_one(&mut self.config.common_annotations, &spec, self.budget)?;
        }
        if text("x-kubernetes-label-selector").is_some() {
            merge_one(&mut self.config.common_labels, &spec, self.budget)?;
        }
        if text("x-kubernetes-identity").is_some() {
            merge_one(&mut self.config.name_prefix, &spec, self.budget)?;
        }
        let (version, kind) = (
            text("x-kubernetes-object-ref-api-version"),
            text("x-kubernetes-object-ref-kind"),
        );
        if let (Some(version), Some(kind)) = (version, kind) {
            let key = text("x-kubernetes-object-ref-name-key").unwrap_or("name");
            let target = GvkFilter {
                version: version.to_owned().into(),
                ..GvkFilter::kind(kind.to_owned())
            };
            let referrer = FieldSpec::new(self.kind.clone(), format!("{}/{key}", spec.path), false);
            let references = BackReferences {
                target,
                referrers: vec![referrer],
            };
            self.config.merge_references(&references, self.budget)?;
        }
        Ok(())
    }
}
