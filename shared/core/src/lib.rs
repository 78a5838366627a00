//! The core of driftless: Flux's objects and their reconciliation, over ports that adapters
//! implement.
//!
//! - [`flux`]: the API, every served version in one model. [`ports`]: the traits for everything
//!   outside the core.
//! - [`webhook`] and [`sweep`] find the objects to reconcile; [`step`] reconciles one; [`schedule`]
//!   decides which worker does, and when.
//! - [`applier`] is the one writer of users' objects.
//! - [`capsule`] gives owners of Capsule's Tenants their kubeconfigs.
//! - [`receiver`] gives each Receiver the path of its webhook. `notification` sends the events that
//!   Alerts select to their Providers.
//! - [`source`] produces artifacts; [`kustomization`] builds and applies them. [`helmrelease`]
//!   decides the next action of a release.
//! - [`journal`] records what steps changed, for people.
//! - [`substitute`], [`health`], [`apply`], [`inventory`] are pure parts of that.
//!
//! ARCHITECTURE.md in this crate has the overview and the invariants, and its directory `docs` the
//! details of each part.

pub mod bootstrap;
pub mod capsule;
pub mod kustomization;
pub mod notification;
pub mod receiver;
pub mod step;
pub mod sweep;
pub mod webhook;

pub use driftless_flux as flux;
pub use driftless_helmrelease as helmrelease;
pub use driftless_kernel::{
    address, applier, cloud, concurrent, credentials, failure, functions, hub, journal, kernel,
    kubeconfig, ports, repository, schedule, state, target, tree_cache,
};
use driftless_kernel::{dependencies, driver, interruption};
pub use driftless_memory as testing;
pub use driftless_plans::{apply, health, inventory, substitute};
pub use driftless_source as source;
pub use driftless_verify as verify;
