//! The render of a release: a chart and values to everything that is installed.

use crate::chart::{Chart, Metadata};
use crate::chart_tree::ChartNode;
use crate::compat::Compat;
use crate::convert::{to_json, to_map};
use crate::error::HelmError;
use crate::manifests::{self, Hook, Manifest};
use crate::options::{Lookup, Options};
use crate::post_render::{self, PostRenderer};
use crate::render::{TemplateOutcome, on_large_stack, render_templates};
use crate::values::{self, Mode, Table};
use driftless_go::glob::Glob;
use driftless_go::semver::is_compatible;
use driftless_gotmpl::{Value, lossy};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// The result of rendering a chart.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    /// The version of Helm that was reproduced.
    pub compat: Compat,
    /// The files under crds/, with their full names, untouched.
    pub crds: Vec<(String, String)>,
    /// The documents in the order of installation.
    pub manifests: Vec<Manifest>,
    /// The hooks in the order of installation; their weights are not applied.
    pub hooks: Vec<Hook>,
    /// The chart's own NOTES.txt.
    pub notes: String,
    /// Chart.yaml, with the active dependencies.
    pub metadata: Metadata,
    /// The chart's own values, if its subcharts changed them.
    pub values: Option<Table>,
}

/// The outcome of a [`Render`].
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The complete result.
    Done(Box<Rendered>),
    /// The objects that must first be added to [`Options::lookups`].
    Needs(Vec<Lookup>),
}

/// A render of a chart with the user's values: dependencies, schemas, templates, sorting.
///
/// ```
/// use driftless_helm::{Chart, ChartFile, Compat, HelmError, LoadLimits, Options, Render, values};
///
/// let file = |name: &str, text: &str| ChartFile {
///     name: name.to_owned(),
///     data: text.as_bytes().into(),
/// };
/// let files = vec![
///     file("Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n"),
///     file("values.schema.json", r#"{"required": ["color"]}"#),
/// ];
/// let chart = Chart::from_files(files, Compat::Helm3, &LoadLimits::default())?;
/// let (values, options) = (values::Table::new(), Options::new("shop", "default"));
/// let render = Render::new(&chart, &values, &options);
/// assert!(matches!(render.run(), Err(HelmError::Schema(_))));
/// assert!(render.without_schema(true).run().is_ok());
/// # Ok::<(), HelmError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Render<'r> {
    chart: &'r Chart,
    values: &'r Table,
    options: &'r Options,
    without_schema: bool,
    post_renderer: Option<&'r PostRenderer<'r>>,
}

impl<'r> Render<'r> {
    /// Returns the render of a chart with the user's values. The values are checked against the
    /// chart's schemas.
    pub fn new(chart: &'r Chart, values: &'r Table, options: &'r Options) -> Self {
        Self {
            chart,
            values,
            options,
            without_schema: false,
            post_renderer: None,
        }
    }

    /// Sets whether the schemas of the chart and of its subcharts are ignored.
    #[must_use]
    pub fn without_schema(mut self, without_schema: bool) -> Self {
        self.without_schema = without_schema;
        self
    }

    /// Sets the function that changes the documents between the templates and the split into
    /// manifests and hooks.
    #[must_use]
    pub fn post_renderer(mut self, post_renderer: &'r PostRenderer<'r>) -> Self {
        self.post_renderer = Some(post_renderer);
        self
    }

    /// Renders the chart.
    ///
    /// # Errors
    /// Every [`HelmError`], including the post-renderer's error.
    pub fn run(&self) -> Result<Outcome, HelmError> {
        on_large_stack(|| {
            let (work, templated) = self.templates()?;
            match templated {
                TemplateOutcome::Done(files) => {
                    sorted(&work, files, self.options, self.post_renderer)
                }
                TemplateOutcome::Needs(needs) => Ok(Outcome::Needs(needs)),
            }
        })
    }

    /// Renders the chart's templates to texts, by the templates' full names: the input that
    /// [`Render::run`] sorts.
    ///
    /// # Errors
    /// Every [`HelmError`].
    pub fn texts(&self) -> Result<TemplateOutcome, HelmError> {
        on_large_stack(|| Ok(self.templates()?.1))
    }

    /// Returns the files under crds/ of the chart and of its enabled subcharts, by their full
    /// names, without rendering a template.
    ///
    /// # Errors
    /// An error of the chart's dependencies.
    pub fn definitions(&self) -> Result<Vec<(String, String)>, HelmError> {
        on_large_stack(|| {
            let mut work = ChartNode::new(self.chart);
            values::process_dependencies(&mut work, &to_map(self.values), self.options.compat)?;
            let mut found = Vec::new();
            collect_crds(&work, &mut found);
            Ok(found)
        })
    }

    fn templates(&self) -> Result<(ChartNode<'r>, TemplateOutcome), HelmError> {
        let (chart, options) = (self.chart, self.options);
        installable(chart, options)?;
        let mut work = ChartNode::new(chart);
        let user_values = to_map(self.values);
        values::process_dependencies(&mut work, &user_values, options.compat)?;
        let values = values::coalesce(&work, &user_values, Mode::Coalesce, options.compat)?;
        if !self.without_schema {
            values::validate(&work, &values)?;
        }
        kube_version(chart, options)?;
        let templated = render_templates(&work, &values, options)?;
        Ok((work, templated))
    }
}

fn sorted(
    work: &ChartNode<'_>,
    mut files: BTreeMap<String, Vec<u8>>,
    options: &Options,
    post: Option<&PostRenderer<'_>>,
) -> Result<Outcome, HelmError> {
    let (compat, fuel) = (options.compat, &options.fuel);
    let own_notes = format!("{}/templates/NOTES.txt", work.name());
    let notes = files
        .get(&own_notes)
        .map(|n| String::from_utf8_lossy(n).into_owned())
        .unwrap_or_default();
    files.retain(|name, _| !name.ends_with("NOTES.txt"));
    if let Some(post) = post {
        files = post_render::apply(files, post, compat, fuel)?;
    }
    let (manifests, hooks) = manifests::sort(&files, compat, fuel)?;
    let mut crds = Vec::new();
    collect_crds(work, &mut crds);
    Ok(Outcome::Done(Box::new(Rendered {
        compat,
        crds,
        manifests,
        hooks,
        notes,
        metadata: work.metadata.clone(),
        values: processed_values(work)?,
    })))
}

/// Returns the chart's values after [`values::process_dependencies`], if that changed them.
fn processed_values(work: &ChartNode<'_>) -> Result<Option<Table>, HelmError> {
    if work.metadata.dependencies.is_none() {
        return Ok(None);
    }
    match to_json(&Value::Map(work.values.clone()))
        .map_err(|error| HelmError::Values(error.into()))?
    {
        Json::Object(table) => Ok(Some(table)),
        _ => Ok(None),
    }
}

/// Collects the files under crds/ of the chart, then of its subcharts.
fn collect_crds(chart: &ChartNode<'_>, out: &mut Vec<(String, String)>) {
    let path = chart.path();
    for file in &chart.source.files {
        let manifest = file
            .name
            .rsplit_once('.')
            .is_some_and(|(_, e)| ["yaml", "yml", "json"].contains(&&*e.to_ascii_lowercase()));
        if file.name.starts_with("crds/") && manifest {
            let text = lossy(&file.data).into_owned();
            out.push((format!("{path}/{}", file.name), text));
        }
    }
    for sub in &chart.dependencies {
        collect_crds(sub, out);
    }
}

fn installable(chart: &Chart, options: &Options) -> Result<(), HelmError> {
    let fail = |message: String| Err(HelmError::chart(chart.name(), message));
    if options.compat == Compat::Helm4 && !["v1", "v2"].contains(&&*chart.metadata.api_version) {
        return fail(format!(
            "apiVersion {} is not supported, expected v1 or v2",
            driftless_go::quote::quote(chart.metadata.api_version.as_bytes())
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
            "An error occurred while checking for chart dependencies. You may need to run `helm dependency build` \
             to fetch missing dependencies: found in Chart.yaml, but missing in charts/ directory: {}",
            missing.join(", ")
        ));
    }
    Ok(())
}

fn kube_version(chart: &Chart, options: &Options) -> Result<(), HelmError> {
    let wanted = &chart.metadata.kube_version;
    let have = &options.capabilities.plain_version;
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

/// Returns the release's manifest like Helm: with a `# Source:` before every document.
pub fn manifest_text(rendered: &Rendered, include_crds: bool) -> String {
    let mut out = String::new();
    if include_crds {
        for (name, content) in &rendered.crds {
            out.push_str(&format!("---\n# Source: {name}\n{content}\n"));
        }
    }
    for manifest in &rendered.manifests {
        manifest.write(&mut out);
    }
    out
}

/// The documents that `helm template` adds or leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputFilter {
    /// True if the files under crds/ are included.
    pub include_crds: bool,
    /// True if hooks are left out.
    pub no_hooks: bool,
    /// True if tests are left out.
    pub skip_tests: bool,
    /// Only the documents of these templates, by name or pattern; all if empty.
    pub show_only: Vec<String>,
}

impl OutputFilter {
    /// Checks whether a hook is printed.
    pub fn hook(&self, hook: &Hook) -> bool {
        !(self.no_hooks || self.skip_tests && hook.is_test())
    }
}

/// Returns the output of `helm template`.
///
/// # Errors
/// [`HelmError::Usage`] for a template in `show_only` that does not exist.
pub fn template_text(rendered: &Rendered, filter: &OutputFilter) -> Result<String, HelmError> {
    let mut text = manifest_text(rendered, filter.include_crds)
        .trim()
        .to_owned();
    text.push('\n');
    for hook in rendered.hooks.iter().filter(|h| filter.hook(h)) {
        hook.manifest.write(&mut text);
    }
    if filter.show_only.is_empty() {
        return Ok(text);
    }
    show_only(&text, &filter.show_only, rendered.compat)
}

/// Returns the documents whose template matches one of the names or patterns, in the order of
/// those.
fn show_only(text: &str, wanted: &[String], compat: Compat) -> Result<String, HelmError> {
    let documents = manifests::split(text, compat);
    let mut out = String::new();
    for pattern in wanted {
        let mut found = false;
        let glob = Glob::new(pattern);
        let fits = |source| glob.as_ref().is_some_and(|glob| glob.matches(source));
        for document in &documents {
            if source(document).is_some_and(fits) {
                out.push_str(&format!("---\n{document}\n"));
                found = true;
            }
        }
        if !found {
            return Err(HelmError::Usage(format!(
                "could not find template {pattern} in chart"
            )));
        }
    }
    Ok(out)
}

/// Returns the path in the first `# Source:`, without the chart.
fn source(document: &str) -> Option<&str> {
    document.lines().find_map(|line| {
        let (_, path) = line.split_once("# Source: ")?;
        let (chart, rest) = path.split_once('/')?;
        (!chart.is_empty() && !rest.is_empty()).then_some(rest)
    })
}
