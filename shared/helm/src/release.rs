//! A chart and values -> everything that a release installs.

use crate::chart::Chart;
use crate::compat::Compat;
use crate::error::HelmError;
use crate::manifests::{self, Hook, Manifest};
use crate::render::{Lookup, Options, Templated, render_templates};
use crate::semver::is_compatible;
use crate::values::{self, Table};

/// What a chart rendered to.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    /// The files under crds/, with their full names, untouched.
    pub crds: Vec<(String, String)>,
    /// The documents in the order of installation.
    pub manifests: Vec<Manifest>,
    /// The hooks in the order of installation; their weights are not applied.
    pub hooks: Vec<Hook>,
    /// The chart's own NOTES.txt.
    pub notes: String,
    /// The coalesced values that were rendered with.
    pub values: Table,
}

/// What [`render`] came to.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// All is rendered.
    Done(Box<Rendered>),
    /// Objects that must be put into [`Options::lookups`] first.
    Needs(Vec<Lookup>),
}

/// Renders a chart with the user's values: dependencies, schemas, templates, sorting.
///
/// # Errors
/// Every [`HelmError`].
pub fn render(
    mut chart: Chart,
    user_values: &Table,
    options: &Options,
    check_schema: bool,
) -> Result<Outcome, HelmError> {
    installable(&chart, options)?;
    values::process_dependencies(&mut chart, user_values, options.compat)?;
    let values = values::coalesce(&chart, user_values, options.compat)?;
    if check_schema {
        values::validate(&chart, &values)?;
    }
    kube_version(&chart, options)?;
    let mut files = match render_templates(&chart, &values, options)? {
        Templated::Done(files) => files,
        Templated::Needs(needs) => return Ok(Outcome::Needs(needs)),
    };
    let own_notes = format!("{}/templates/NOTES.txt", chart.name());
    let notes = files
        .get(&own_notes)
        .map(|n| String::from_utf8_lossy(n).into_owned())
        .unwrap_or_default();
    files.retain(|name, _| !name.ends_with("NOTES.txt"));
    let (manifests, hooks) = manifests::sort(&files, options.compat)?;
    let crds = chart
        .crds()
        .into_iter()
        .map(|(name, file)| (name, String::from_utf8_lossy(&file.data).into_owned()))
        .collect();
    Ok(Outcome::Done(Box::new(Rendered {
        crds,
        manifests,
        hooks,
        notes,
        values,
    })))
}

fn installable(chart: &Chart, options: &Options) -> Result<(), HelmError> {
    let fail = |message: String| Err(HelmError::chart(chart.name(), message));
    if options.compat == Compat::Helm4 && !["v1", "v2"].contains(&&*chart.metadata.api_version) {
        return fail(format!(
            "apiVersion {} is not supported, expected v1 or v2",
            crate::render::quoted(chart.metadata.api_version.as_bytes())
        ));
    }
    if chart.is_library() {
        return fail("library charts are not installable".to_owned());
    }
    let missing: Vec<&str> = chart
        .metadata
        .dependencies
        .iter()
        .flatten()
        .map(|d| d.name.as_str())
        .filter(|name| !chart.dependencies.iter().any(|c| c.name() == *name))
        .collect();
    if !missing.is_empty() {
        return fail(format!(
            "found in Chart.yaml, but missing in charts/ directory: {}",
            missing.join(", ")
        ));
    }
    Ok(())
}

fn kube_version(chart: &Chart, options: &Options) -> Result<(), HelmError> {
    let wanted = &chart.metadata.kube_version;
    let have = options.capabilities.plain_version();
    if wanted.is_empty() || is_compatible(wanted, have) {
        return Ok(());
    }
    Err(HelmError::chart(
        chart.name(),
        format!(
            "chart requires kubeVersion: {wanted} which is incompatible with Kubernetes {have}"
        ),
    ))
}

/// The release's manifest as Helm writes it: a `# Source:` before every document.
pub fn manifest_text(rendered: &Rendered, include_crds: bool) -> String {
    let mut out = String::new();
    if include_crds {
        for (name, content) in &rendered.crds {
            out.push_str(&format!("---\n# Source: {name}\n{content}\n"));
        }
    }
    for m in &rendered.manifests {
        out.push_str(&format!("---\n# Source: {}\n{}\n", m.source, m.content));
    }
    out
}
