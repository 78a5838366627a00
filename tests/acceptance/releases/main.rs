//! Releases: the workflows pass their linters, the commands of their steps run here, and the chart
//! is rendered and applied.

mod chart;
mod steps;
mod workflows;
