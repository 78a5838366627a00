//! Checks of the whole workspace: its dependencies, modules, documents, documentation of functions,
//! template, events and releases, and the inputs of its fuzz targets.

mod additions;
mod api_docs;
mod architecture;
mod documents;
mod events;
#[path = "../fuzz/smoke.rs"]
mod fuzz;
mod infra;
mod modules;
mod releases;
mod terraform;
mod text;
mod words;
