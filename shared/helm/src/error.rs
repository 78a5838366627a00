//! The errors of loading, valuing and rendering a chart.

use driftless_fuel::Span;
use driftless_gotmpl::shortened;
use driftless_manifest::yaml::YamlError;

/// An error of loading, valuing or rendering a chart.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HelmError {
    /// The files are not a valid chart.
    #[error("chart {chart}: {message}")]
    Chart {
        /// The name of the chart or file.
        chart: String,
        /// The reason of the failure.
        message: String,
    },
    /// A file of values is not YAML.
    #[error(transparent)]
    Yaml(#[from] YamlError),
    /// Values cannot be merged.
    #[error("{0}")]
    Values(String),
    /// Values that violate a `values.schema.json`.
    #[error(
        "values don't meet the specifications of the schema(s) in the following chart(s):\n{0}"
    )]
    Schema(String),
    /// A template failed.
    #[error("{message}")]
    Render {
        /// The message, as in Helm.
        message: String,
        /// The full name of the failing template, and the place in it; if they are known.
        span: Option<Span>,
        /// True if a budget is used up.
        budget: bool,
        /// The error of the template's engine, which the message repeats.
        #[source]
        cause: Option<Box<driftless_gotmpl::Error>>,
    },
    /// A rendered document is not valid YAML.
    #[error("YAML parse error on {file}: {message}")]
    Manifest {
        /// The name of the template.
        file: String,
        /// The error, without the content.
        message: String,
        /// The place in the rendered text of the template, if it is known.
        span: Option<Span>,
    },
    /// An option with an unusable value.
    #[error("{0}")]
    Usage(String),
}

impl HelmError {
    /// Returns the place that the error names: in a template's source, in its rendered text, or in
    /// a file of values.
    pub fn span(&self) -> Option<&Span> {
        match self {
            HelmError::Render { span, .. } | HelmError::Manifest { span, .. } => span.as_ref(),
            HelmError::Yaml(error) => Some(&error.span),
            _ => None,
        }
    }

    pub(crate) fn chart(chart: impl Into<String>, message: impl Into<String>) -> Self {
        HelmError::Chart {
            chart: shortened(chart.into()),
            message: shortened(message.into()),
        }
    }

    pub(crate) fn render(message: impl Into<String>) -> Self {
        HelmError::Render {
            message: shortened(message.into()),
            span: None,
            budget: false,
            cause: None,
        }
    }
}
