//! Applies a fleet to API servers in this process, and reports every error.
//!
//! What Git does not have is replaced: the cluster of each kubeconfig Secret by a server, encrypted
//! values and variables by placeholders. Missing definitions and namespaces are added, and pods
//! always run. Each replacement, and what cannot be checked offline, is a note.

pub mod apiserver;
mod assumed;
mod definitions;
mod diagnostic;
mod endless_waits;
pub mod gates;
mod given_objects;
mod hosts;
mod kind_names;
mod lenient_clusters;
mod missing_objects;
mod observed;
mod policies;
mod report;
mod run;
mod stand_ins;
mod steps;
mod values;

use crate::embedded::{Objects, Places, Rendered, Row, World};
use crate::error::Error;
use crate::fleet::Fleet;
use apiserver::{ApiServer, Setting};
use driftless_adapters::charts::HttpCharts;
use driftless_adapters::offline::Offline;
use driftless_memory::{MemoryQueue, TestClock};
use hosts::{FileHosts, FileStandIns};
use lenient_clusters::{LenientClusters, LenientState};
use run::{CheckRun, Plan};
use std::sync::Arc;

pub use assumed::ASSUMED;
pub use diagnostic::{Diagnostic, Diagnostics, Occurrences, UNSERVED, list};
pub use given_objects::GivenObjects;
pub use hosts::ChartHosts;
pub use report::{CheckedHub, CheckedObject, Report};
pub use stand_ins::StandIns;

/// Receives one line before each step: which object, and how many are ready.
pub type Progress<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// Options of a check. By default nothing is downloaded, and every deviation is an error.
#[derive(Clone, Default)]
pub struct Options {
    /// Objects that the clusters have and Git has not.
    pub given_objects: GivenObjects,
    /// True if files that kustomizations name by a URL are downloaded.
    pub allow_files: bool,
    /// The addresses from which charts and OCI artifacts are downloaded; `None` for no download.
    pub charts: Option<ChartHosts>,
    /// Feature gates of the clusters' API servers, in addition to those that the repository names.
    pub api_feature_gates: Vec<Setting>,
    /// API versions that the clusters serve, in addition to those that the repository names.
    pub runtime_config: Vec<Setting>,
    /// The value of Flux's feature gate ExternalArtifact, if it is set.
    pub external_artifacts: Option<bool>,
    /// True if what driftless refuses to serve is a note, and not an error.
    pub allow_unserved: bool,
}

/// The outcome of a check, with what the clusters then have.
pub struct Checked {
    /// The errors and the notes.
    pub report: Report,
    /// The objects that the clusters have in the end.
    pub inventory: Vec<Rendered>,
    /// The files that they are made from.
    pub places: Places,
    /// The Flux objects of the hubs.
    pub flux: Objects,
}

/// The end of a run: its API servers, the final states, and the report.
struct Applied {
    world: World,
    rows: Vec<Row>,
    report: Report,
}

/// Applies a fleet to API servers in this process until their state no longer changes, and reports
/// the errors and notes.
///
/// # Errors
/// The repository cannot be read, or an API server of this process fails. What is wrong with the
/// fleet is in the report.
pub async fn check(
    fleet: &Fleet,
    options: Options,
    progress: Progress<'_>,
) -> Result<Report, Error> {
    Ok(apply(fleet, options, progress).await?.report)
}

/// Does the same as [`check`], and also returns the objects that the clusters have in the end.
///
/// # Errors
/// Those of [`check`].
pub async fn check_and_render(
    fleet: &Fleet,
    options: Options,
    progress: Progress<'_>,
) -> Result<Checked, Error> {
    let applied = apply(fleet, options, progress).await?;
    Ok(Checked {
        inventory: applied.world.rendered(&applied.rows).await?,
        places: applied.world.places(&applied.rows).await?,
        flux: applied.world.objects().await?,
        report: applied.report,
    })
}

async fn apply(fleet: &Fleet, options: Options, progress: Progress<'_>) -> Result<Applied, Error> {
    let queue = Arc::new(MemoryQueue::default());
    let clock = Arc::new(TestClock::default());
    let stand_ins = FileStandIns::default();
    let mut servers = ApiServer::of_fleet(fleet)?;
    servers.set(&options.api_feature_gates, &options.runtime_config);
    let mut world = World::start(
        fleet,
        Arc::new(FileHosts {
            hosts: options.allow_files.then(HttpCharts::new),
            charts: options.charts.map(|hosts| (HttpCharts::new(), hosts)),
            git: fleet.git.clone(),
            stand_ins: stand_ins.clone(),
        }),
        Arc::new(Offline),
        queue.clone(),
        clock.clone(),
        false,
    )
    .await?;
    let refused = LenientState::default();
    world.ports.clusters = Arc::new(LenientClusters {
        inner: world.ports.clusters.clone(),
        refused: refused.clone(),
        servers: Arc::new(servers),
    });
    let plan = Plan {
        fleet,
        given_objects: options.given_objects,
        refused,
        external_artifacts: options.external_artifacts,
        allow_unserved: options.allow_unserved,
        files: stand_ins,
        progress,
    };
    let mut run = CheckRun::new(&world, plan, queue, clock);
    run.run().await?;
    let (report, rows) = run.report().await?;
    Ok(Applied {
        world,
        rows,
        report,
    })
}
