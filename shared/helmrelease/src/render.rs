//! Renders a chart with values, and with the capabilities and objects of the target cluster.

use super::phase::PhaseError;
use super::post_render;
use driftless_flux::{HelmRelease, PostRenderStrategy};
use driftless_fuel::Tank;
use driftless_helm::values::Table;
use driftless_helm::{
    Capabilities, Chart, Compat, Lookup, Options, Outcome, PostRenderer, ReleaseInfo, Render,
    Rendered,
};
use driftless_kernel::ports::{Cluster, ListRequest, Ports};
use driftless_kernel::target::Target;
use driftless_manifest::Gvk;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tracing::Instrument as _;

/// The limit of renders of one chart: a lookup that depends on another lookup needs one more.
const MAX_LOOKUP_ROUNDS: usize = 16;

/// The input of a render.
#[derive(Clone)]
pub struct RenderRequest {
    /// The chart to render.
    pub chart: Arc<Chart>,
    /// The values of the release, without the chart's defaults.
    pub values: Arc<Table>,
    /// The revision of the release.
    pub revision: i64,
    /// True if the action is an upgrade, false for an install.
    pub is_upgrade: bool,
    /// True if the values must match the chart's schema.
    pub check_schema: bool,
}

/// A rendered release.
pub struct RenderedRelease {
    /// The manifest, the hooks and the notes.
    pub release: Rendered,
    /// True if the chart looked up Secrets of the cluster.
    pub reads_secrets: bool,
}

/// Renders a release as Helm 4 does, and charges the fuel of the step.
///
/// # Errors
/// The chart's, with Helm's message, or the cluster's.
pub async fn render(
    ports: &Ports,
    target: &Target,
    release: &HelmRelease,
    request: &RenderRequest,
    step: &Tank,
) -> Result<RenderedRelease, PhaseError> {
    let cluster = target.cluster.as_ref();
    let now = ports.clock.now();
    let mut entropy = [0; 32];
    entropy[..16].copy_from_slice(&ports.clock.nonce());
    entropy[16..].copy_from_slice(&ports.clock.nonce());
    let mut options = Options {
        compat: Compat::Helm4,
        release: ReleaseInfo {
            name: release.release_name(),
            namespace: release.release_namespace().to_owned(),
            revision: request.revision,
            is_upgrade: request.is_upgrade,
        },
        capabilities: capabilities(cluster).await?,
        now: (
            i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
            now.subsec_nanos(),
        ),
        entropy,
        lookups: Some(Arc::default()),
        limits: Default::default(),
        fuel: step.clone(),
    };
    let mut found = BTreeMap::new();
    for _ in 0..MAX_LOOKUP_ROUNDS {
        let (release, request, settings) = (release.clone(), request.clone(), options.clone());
        let render = move || render_once(&release, &request, &settings);
        let rendered = ports.compute(render);
        match rendered
            .instrument(tracing::trace_span!("render"))
            .await??
        {
            Outcome::Done(rendered) => {
                return Ok(RenderedRelease {
                    release: *rendered,
                    reads_secrets: found.keys().any(|need: &Lookup| need.kind == "Secret"),
                });
            }
            Outcome::Needs(needs) => {
                for need in needs {
                    let value = look_up(cluster, &need).await?;
                    found.insert(need, value);
                }
                options.lookups = Some(Arc::new(found.clone()));
            }
        }
    }
    Err(PhaseError::Failed(format!(
        "the chart's lookups depend on each other in a chain of more than {MAX_LOOKUP_ROUNDS}"
    )))
}

fn render_once(
    release: &HelmRelease,
    request: &RenderRequest,
    options: &Options,
) -> Result<Outcome, PhaseError> {
    let run = |documents| Ok(post_render::run(release, documents, &options.fuel)?);
    let post = PostRenderer {
        strategy: match release.spec.post_render_strategy.unwrap_or_default() {
            PostRenderStrategy::Combined => driftless_helm::PostRenderStrategy::Combined,
            PostRenderStrategy::NoHooks => driftless_helm::PostRenderStrategy::NoHooks,
            PostRenderStrategy::Separate => driftless_helm::PostRenderStrategy::Separate,
        },
        run: &run,
    };
    Render::new(&request.chart, &request.values, options)
        .without_schema(!request.check_schema)
        .post_renderer(&post)
        .run()
        .map_err(|error| PhaseError::Failed(error.to_string()))
}

async fn capabilities(cluster: &dyn Cluster) -> Result<Capabilities, PhaseError> {
    let abilities = cluster.abilities().await?;
    let mut capabilities = Capabilities::default()
        .with_kube_version(&abilities.version, Compat::Helm4)
        .map_err(|error| PhaseError::Failed(error.into()))?;
    capabilities.api_versions = abilities.api_versions;
    Ok(capabilities)
}

/// Returns the result of the template function `lookup`: an object, a list of objects, or null.
async fn look_up(cluster: &dyn Cluster, need: &Lookup) -> Result<Value, PhaseError> {
    let gvk = Gvk::new(&need.api_version, &need.kind);
    let Some(resource) = cluster.resource(&gvk).await? else {
        return Ok(Value::Null);
    };
    if need.name.is_empty() {
        let request = ListRequest {
            namespace: &need.namespace,
            ..ListRequest::all(&resource)
        };
        let items = cluster.list(&request).await?;
        return Ok(
            json!({"apiVersion": need.api_version, "kind": format!("{}List", need.kind),
            "metadata": {}, "items": items}),
        );
    }
    let object = cluster.get(&resource, &need.namespace, &need.name).await?;
    Ok(object.map_or(Value::Null, |object| object.into_value()))
}
