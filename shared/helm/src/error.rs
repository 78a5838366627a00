//! The errors of loading, valuing and rendering a chart.

use driftless_gotmpl::shortened;

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
    /// Values cannot be read or merged.
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
        /// The full name of the failing template, and the line counted from 1; if known.
        place: Option<(String, usize)>,
        /// True if a budget is used up.
        budget: bool,
    },
    /// A rendered document is not valid YAML.
    #[error("YAML parse error on {file}: {message}")]
    Manifest {
        /// The name of the template.
        file: String,
        /// The error, without the content.
        message: String,
    },
    /// An option with an unusable value.
    #[error("{0}")]
    Usage(String),
}

impl HelmError {
    pub(crate) fn chart(chart: impl Into<String>, message: impl Into<String>) -> Self {
        HelmError::Chart {
            chart: shortened(chart.into()),
            message: shortened(message.into()),
        }
    }

    pub(crate) fn render(message: impl Into<String>) -> Self {
        HelmError::Render {
            message: shortened(message.into()),
            place: None,
            budget: false,
        }
    }
}
