//! The comparison of a changed state with the live objects of the clusters, by dry runs of
//! server-side apply.
//!
//! Each object is compared as the step of its Kustomization or HelmRelease would do it: as the same
//! user, by the same field manager, with the same exclusions. Nothing is written.

mod changes;
mod client_side;
mod clusters;
mod compare;
mod dry_run;
mod installed;
mod owner;
mod placeholders;
mod states;

pub use clusters::{LiveClusters, Unreachable};
pub use compare::{Comparisons, compare};
pub use installed::Installed;
pub use owner::Owner;
pub use states::States;
