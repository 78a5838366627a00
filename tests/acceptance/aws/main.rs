//! The template and the functions on what stands in for AWS: SAM and cfn-lint, MiniStack, cargo-lambda.

mod local;
mod ministack;
mod template;
