//! Helm's engine: a chart and values in, manifests out, byte for byte as Helm 3.22 or Helm 4.3 renders them.
//!
//! chart files -> [`Chart`] -> (dependencies, values) -> [`render`] -> [`Rendered`]. Pure: time, randomness and the
//! cluster's objects come in through [`Options`].

pub mod chart;
mod chart_tree;
mod compat;
mod convert;
mod error;
mod funcs;
pub mod gojson;
pub mod hooks;
pub mod index;
mod manifest_head;
mod manifests;
mod message;
mod objects;
mod paths;
mod post_render;
pub mod record;
mod release;
mod render;
mod render_context;
pub mod semver;
pub mod values;

pub use chart::{Chart, ChartFile, Dependency, IgnoreRules, LoadLimits, Metadata, Package};
pub use compat::Compat;
pub use error::HelmError;
pub use funcs::url::scheme_and_host;
pub use manifests::{Hook, Manifest};
pub use objects::{Capabilities, default_api_versions};
pub use post_render::{PostRenderStrategy, PostRenderer};
pub use release::{
    Outcome, OutputFilter, Rendered, definitions, manifest_text, render, render_texts, render_with,
    template_text,
};
pub use render::{Lookup, Options, ReleaseInfo, TemplateOutcome};
