//! AWS on loopback: [`MiniStack`] with the deployed template, and `cargo lambda`.

mod calls;
mod client;
mod emulate;
mod lambda;
mod ministack;
mod stack;
mod transform;

pub use calls::Call;
pub use client::{Aws, AwsError, Messages, presigned_identity};
pub use lambda::LocalFunctions;
pub use ministack::MiniStack;
pub use stack::{Stack, lint, translate};
pub use transform::Transform;
