//! A fleet repository in directories, applied to API servers in this process.
//!
//! [`Options::open`] finds the hubs of a repository. [`check::check`] applies the fleet to embedded
//! API servers, one for each hub and remote cluster, and returns its findings and the objects that
//! the clusters then have. [`plan::plan`] compares two states of a repository in this way.
//! [`World`] is the installation itself, for callers that keep it running.

pub mod check;
pub mod embedded;
mod error;
mod fleet;
pub mod plan;
pub mod ready;

pub use embedded::World;
pub use error::{Error, next_step};
pub use fleet::encrypted::hide as hide_encrypted;
pub use fleet::{
    Blinder, Fleet, HubPlan, InvalidSource, Location, Options, Source, excerpt, origin_of,
    service_keys, write_sample,
};
