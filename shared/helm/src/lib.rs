//! Helm's engine: a chart and values in, manifests out, byte for byte as Helm 3.22 or Helm 4.3
//! renders them.
//!
//! chart files -> [`Chart`] -> (dependencies, values) -> [`Render`] -> [`Rendered`]. Pure: time,
//! randomness and the cluster's objects come in through [`Options`].
//!
//! ```
//! use driftless_helm::{Chart, ChartFile, Compat, HelmError, LoadLimits, Options, Outcome};
//! use driftless_helm::{Render, manifest_text, values};
//!
//! let file = |name: &str, text: &str| ChartFile {
//!     name: name.to_owned(),
//!     data: text.as_bytes().into(),
//! };
//! let config = "apiVersion: v1\nkind: ConfigMap\n\
//!     metadata: {name: {{ .Release.Name }}-{{ .Values.color }}}\n";
//! let files = vec![
//!     file("Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n"),
//!     file("values.yaml", "color: blue\n"),
//!     file("templates/config.yaml", config),
//! ];
//! let chart = Chart::from_files(files, Compat::Helm3, &LoadLimits::default())?;
//! let options = Options::new("shop", "default");
//! let values = values::read(b"color: green", "my-values.yaml", Compat::Helm3)?;
//! let Outcome::Done(rendered) = Render::new(&chart, &values, &options).run()? else {
//!     unreachable!("the chart looks nothing up in a cluster");
//! };
//! assert!(manifest_text(&rendered, false).contains("name: shop-green"));
//!
//! // Errors name the template, the line and the column.
//! let broken = vec![
//!     file("Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n"),
//!     file("templates/config.yaml", "a: b\nc: {{ fail \"no color\" }}\n"),
//! ];
//! let chart = Chart::from_files(broken, Compat::Helm3, &LoadLimits::default())?;
//! let Err(error) = Render::new(&chart, &values, &options).run() else {
//!     unreachable!("the template fails");
//! };
//! let place = error.span().map(|span| span.to_string());
//! assert_eq!(place.as_deref(), Some("web/templates/config.yaml:2:7"));
//! # Ok::<(), HelmError>(())
//! ```
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

pub mod chart;
mod chart_tree;
mod compat;
mod convert;
mod error;
mod funcs;
pub mod hooks;
pub mod index;
mod manifest_head;
mod manifests;
mod message;
mod objects;
mod options;
mod paths;
mod post_render;
pub mod record;
mod release;
mod render;
pub mod values;
mod yaml_read;
mod yaml_write;

pub use chart::{Chart, ChartFile, Dependency, IgnoreRules, LoadLimits, Metadata, Package};
pub use compat::Compat;
pub use error::HelmError;
pub use funcs::url::scheme_and_host;
pub use manifests::{Hook, Manifest};
pub use objects::{Capabilities, default_api_versions};
pub use options::{Lookup, Options, ReleaseInfo};
pub use post_render::{PostRenderFault, PostRenderStrategy, PostRenderer};
pub use release::{Outcome, OutputFilter, Render, Rendered, manifest_text, template_text};
pub use render::TemplateOutcome;
