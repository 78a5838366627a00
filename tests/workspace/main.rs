//! What holds for the workspace as a whole: its dependencies, its modules, its documents, its template and events, and the inputs of its fuzz targets.

mod architecture;
mod documents;
mod events;
#[path = "../fuzz/smoke.rs"]
mod fuzz;
mod infra;
mod modules;
