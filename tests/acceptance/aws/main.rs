//! The template and the functions, tested without AWS: with SAM and cfn-lint, MiniStack,
//! cargo-lambda.

mod local;
mod ministack;
mod monitoring;
mod rules;
mod template;
