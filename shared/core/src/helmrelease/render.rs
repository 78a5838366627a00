//! A chart and values to everything that a release installs, with the target cluster's abilities and objects.

use super::post_render;
use super::run::PhaseError;
use crate::flux::{HelmRelease, PostRenderStrategy};
use crate::ports::{Cluster, Ports};
use crate::target::Target;
use driftless_helm::values::Table;
use driftless_helm::{
    Capabilities, Chart, Compat, Lookup, Options, Outcome, PostRenderer, ReleaseInfo, Rendered,
    render_with,
};
use driftless_manifest::Gvk;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How often a render may ask for objects: a lookup that depends on another takes one more.
const ROUNDS: usize = 16;

/// What is rendered.
#[derive(Clone)]
pub struct Order {
    /// The chart.
    pub chart: Arc<Chart>,
    /// The values.
    pub values: Arc<Table>,
    /// The revision.
    pub revision: i64,
    /// Whether it is an upgrade.
    pub is_upgrade: bool,
    /// Whether the values must fit the chart's schema.
    pub check_schema: bool,
}

/// Renders a release as Helm 4 does.
///
/// # Errors
/// The chart's, worded as Helm's, or the cluster's.
pub async fn render(
    ports: &Ports,
    target: &Target,
    release: &HelmRelease,
    order: &Order,
) -> Result<Rendered, PhaseError> {
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
            revision: order.revision,
            is_upgrade: order.is_upgrade,
        },
        capabilities: capabilities(cluster).await?,
        now: (
            i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
            now.subsec_nanos(),
        ),
        entropy,
        lookups: Some(Arc::default()),
        limits: Default::default(),
    };
    let mut found = BTreeMap::new();
    for _ in 0..ROUNDS {
        let (release, order, settings) = (release.clone(), order.clone(), options.clone());
        let render = move || once(&release, &order, &settings);
        match ports.compute(render).await?? {
            Outcome::Done(rendered) => return Ok(*rendered),
            Outcome::Needs(needs) => {
                for need in needs {
                    let value = look_up(cluster, &need).await?;
                    found.insert(need, value);
                }
                options.lookups = Some(Arc::new(found.clone()));
            }
        }
    }
    let what = format!("the chart's lookups depend on each other more than {ROUNDS} times over");
    Err(PhaseError::Failed(what))
}

fn once(release: &HelmRelease, order: &Order, options: &Options) -> Result<Outcome, PhaseError> {
    let run = |documents| post_render::run(release, documents);
    let post = PostRenderer {
        strategy: match release.spec.post_render_strategy.unwrap_or_default() {
            PostRenderStrategy::Combined => driftless_helm::PostRenderStrategy::Combined,
            PostRenderStrategy::NoHooks => driftless_helm::PostRenderStrategy::NoHooks,
            PostRenderStrategy::Separate => driftless_helm::PostRenderStrategy::Separate,
        },
        run: &run,
    };
    render_with(
        &order.chart,
        &order.values,
        options,
        order.check_schema,
        &post,
    )
    .map_err(|error| PhaseError::Failed(error.to_string()))
}

async fn capabilities(cluster: &dyn Cluster) -> Result<Capabilities, PhaseError> {
    let abilities = cluster.abilities().await?;
    let mut capabilities = Capabilities::default()
        .with_kube_version(&abilities.version, Compat::Helm4)
        .map_err(PhaseError::Failed)?;
    capabilities.api_versions = abilities.api_versions;
    Ok(capabilities)
}

/// What `lookup` finds: an object, a list of objects, or null.
async fn look_up(cluster: &dyn Cluster, need: &Lookup) -> Result<Value, PhaseError> {
    let gvk = Gvk::new(&need.api_version, &need.kind);
    let Some(resource) = cluster.resource(&gvk).await? else {
        return Ok(Value::Null);
    };
    if need.name.is_empty() {
        let items = cluster.list(&resource, &need.namespace, "").await?;
        return Ok(
            json!({"apiVersion": need.api_version, "kind": format!("{}List", need.kind),
            "metadata": {}, "items": items}),
        );
    }
    let object = cluster.get(&resource, &need.namespace, &need.name).await?;
    Ok(object.map_or(Value::Null, |object| object.into_value()))
}
