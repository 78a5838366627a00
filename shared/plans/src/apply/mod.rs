//! The pure half of server-side apply, as fluxcd/pkg ssa v0.76 does it for kustomize-controller
//! v1.9: the order of the objects, which ones are skipped, which differ, and the field managers
//! whose fields are taken over. The requests are sent elsewhere.

pub mod annotations;
mod applied;
pub mod apply_order;
pub mod change_detection;
mod errors;
mod fieldset;
pub mod fingerprint;
pub mod ignore_rules;
mod managers;
pub mod normalize;
pub mod plan;
pub mod three_way;

pub use applied::applied_by;
pub use errors::{is_immutable_error, may_recreate};
