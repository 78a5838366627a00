//! The failures of a HelmChart's step that several of its parts report.

use driftless_flux::{FluxKind, reason};
use driftless_kernel::failure::Failure;
use std::fmt::Display;

/// Returns the failure for a chart that is missing or not valid; it is terminal, because only a
/// change can help.
pub(super) fn reference(problem: &impl Display) -> Failure {
    Failure::terminal(
        reason::INVALID_CHART_REFERENCE,
        format!("invalid chart reference: {problem}"),
    )
}

/// Returns the failure for a chart that cannot be downloaded.
pub(super) fn pull(problem: &impl Display) -> Failure {
    Failure::retry(reason::CHART_PULL, format!("chart pull error: {problem}"))
}

/// Returns the failure for a source without an artifact. The first artifact of the source queues
/// the chart.
pub(super) fn no_artifact(kind: FluxKind, name: &str) -> Failure {
    let message = format!("no artifact available for {kind} source '{name}'");
    Failure::waiting(reason::NO_SOURCE_ARTIFACT, message)
}
