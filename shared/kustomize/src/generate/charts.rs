//! `helmCharts` and the `HelmChartInflationGenerator`: charts of the tree, rendered by
//! [`Charts`](crate::Charts).

use crate::budget::KUSTOMIZATION;
use crate::charts::{ChartCall, ValuesFile};
use crate::error::{Error, ErrorKind, InFile as _};
use crate::kustomization::{HelmChart, HelmGlobals};
use crate::loader::Loader;
use crate::merge;
use crate::node::{self, Node, Style};
use crate::resource::{self, Resource};
use driftless_manifest::{Kind, yaml};
use serde_json::Value;

const FIELD: &str = "helmCharts";
/// The directory of charts if `chartHome` is not set.
const HOME: &str = "charts";
/// The release name that `helm template` uses by default, and the namespace that it uses.
const RELEASE: &str = "release-name";
const NAMESPACE: &str = "default";

/// Renders the objects of a chart.
///
/// # Errors
/// Charts are not enabled, the chart is not in the tree, a values file cannot be read, or the chart
/// cannot be rendered.
pub(crate) fn chart(
    chart: &HelmChart,
    globals: &HelmGlobals,
    loader: &Loader<'_>,
) -> Result<Vec<Resource>, Error> {
    let context = loader.context;
    if !context.options.enable_helm {
        return Err(unsupported("charts are not enabled: give --enable-helm"));
    }
    let Some(charts) = context.charts else {
        return Err(unsupported(
            "this build has no Helm engine: use a HelmRelease",
        ));
    };
    check(chart)?;
    let home = chart_directory(chart, globals);
    let call = call(chart, &home, loader)?;
    let text = charts.render(&call).map_err(|fault| ErrorKind::Generator {
        name: chart.name.clone(),
        reason: fault.to_string(),
    })?;
    context.budget.spend_bytes(text.len())?;
    let mut resources =
        resource::parse(&text, call.dir.as_str(), &context.budget).in_file(&call.dir)?;
    for resource in &mut resources {
        resource.from_helm = true;
    }
    Ok(resources)
}

fn unsupported(reason: &str) -> Error {
    ErrorKind::Unsupported {
        field: FIELD.to_owned(),
        reason: reason.to_owned(),
    }
    .into()
}

fn fault(reason: String) -> Error {
    ErrorKind::Kustomization(format!("{FIELD}: {reason}")).into()
}

fn check(chart: &HelmChart) -> Result<(), Error> {
    if chart.name.is_empty() {
        return Err(fault("an entry has no name".to_owned()));
    }
    for (field, text) in [("name", &chart.name), ("releaseName", &chart.release_name)] {
        if text.starts_with('-') {
            return Err(fault(format!("{field} '{text}' begins with '-'")));
        }
    }
    if !chart.name_template.is_empty() {
        return Err(unsupported(
            "nameTemplate is not supported: give releaseName",
        ));
    }
    match chart.values_merge.as_str() {
        "" | "merge" | "override" | "replace" => Ok(()),
        other => Err(fault(format!(
            "valuesMerge is '{other}', expected merge, override or replace"
        ))),
    }
}

/// Returns the parent of the chart's directory: a pulled version has a separate one.
fn chart_directory(chart: &HelmChart, globals: &HelmGlobals) -> String {
    let home = match globals.chart_home.as_str() {
        "" => HOME,
        home => home,
    };
    if chart.version.is_empty() || chart.repo.is_empty() {
        home.to_owned()
    } else {
        format!("{home}/{}-{}", chart.name, chart.version)
    }
}

fn call(chart: &HelmChart, home: &str, loader: &Loader<'_>) -> Result<ChartCall, Error> {
    let entry = format!("{home}/{}", chart.name);
    let dir = loader
        .root
        .join(&entry)
        .map_err(driftless_manifest::ReadError::from)?;
    if loader.kind(&entry)? != Some(Kind::Dir) {
        let reason = if chart.repo.is_empty() {
            format!("chart '{dir}' not found")
        } else {
            format!(
                "chart '{dir}' not found, and charts are not pulled: put it there, or use a HelmRelease"
            )
        };
        return Err(unsupported(&reason));
    }
    let mut values = vec![first_values(chart, &entry, loader)?];
    for path in &chart.additional_values_files {
        let file = loader.text(path, "additionalValuesFiles")?;
        values.push(ValuesFile {
            name: file.path.to_string(),
            text: file.text,
        });
    }
    let options = loader.context.options;
    let or = |text: &str, default: &str| match text {
        "" => default.to_owned(),
        text => text.to_owned(),
    };
    Ok(ChartCall {
        dir,
        release: or(&chart.release_name, RELEASE),
        namespace: or(&chart.namespace, NAMESPACE),
        values,
        kube_version: Some(chart.kube_version.clone())
            .filter(|version| !version.is_empty())
            .or_else(|| options.kube_version.clone()),
        api_versions: chart
            .api_versions
            .clone()
            .unwrap_or_else(|| options.api_versions.clone()),
        include_crds: chart.include_crds,
        skip_hooks: chart.skip_hooks,
        skip_tests: chart.skip_tests,
    })
}

/// Returns the chart's own values, or those of `valuesFile`, with `valuesInline` merged in.
fn first_values(chart: &HelmChart, entry: &str, loader: &Loader<'_>) -> Result<ValuesFile, Error> {
    let own = format!("{entry}/values.yaml");
    let path = match chart.values_file.as_str() {
        "" => own.as_str(),
        path => path,
    };
    let inline = chart.values_inline.as_ref().filter(|map| !map.is_empty());
    let Some(inline) = inline else {
        let file = loader.text(path, "valuesFile")?;
        return Ok(ValuesFile {
            name: file.path.to_string(),
            text: file.text,
        });
    };
    let written = yaml::to_string(&Value::Object(inline.clone()));
    if chart.values_merge == "replace" {
        return Ok(ValuesFile {
            name: "valuesInline".to_owned(),
            text: written,
        });
    }
    let file = loader.text(path, "valuesFile")?;
    let read = |text: &str, name: &str| {
        let budget = &loader.context.budget;
        budget
            .reading(|fuel| node::first_document(text, &KUSTOMIZATION, fuel))?
            .ok_or_else(|| fault(format!("{name} holds no values in YAML")))
    };
    let (file_values, inline) = (
        read(&file.text, file.path.as_str())?,
        read(&written, "valuesInline")?,
    );
    let (below, above) = if chart.values_merge == "merge" {
        (inline, file_values)
    } else {
        (file_values, inline)
    };
    let context = loader.context;
    let merged = merge::merge(below, above, &context.schema.borrow(), &context.budget)?;
    let mut merged = merged.unwrap_or_else(Node::map);
    unquote(&mut merged);
    Ok(ValuesFile {
        name: file.path.to_string(),
        text: yaml::to_string(&node::to_value(&merged)?),
    })
}

/// Removes the quotes of a number that replaced a quoted string: values, unlike objects, are not
/// written and read again.
fn unquote(node: &mut Node) {
    match node {
        Node::Scalar(scalar) if !scalar.is_string() => scalar.style = Style::Plain,
        Node::Scalar(_) => {}
        Node::Seq(items) => items.iter_mut().for_each(unquote),
        Node::Map(map) => map.values_mut().for_each(unquote),
    }
}
