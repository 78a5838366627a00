//! Checks of the whole workspace: its dependencies, modules, documents, template and events, and
//! the inputs of its fuzz targets.

mod architecture;
mod documents;
mod events;
#[path = "../fuzz/smoke.rs"]
mod fuzz;
mod infra;
mod modules;
mod words;
