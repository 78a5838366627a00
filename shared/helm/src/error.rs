//! Why a chart was not loaded, valued or rendered.

use driftless_gotmpl::shortened;

/// Why a chart was not loaded, valued or rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HelmError {
    /// The chart's files are not those of a chart.
    #[error("chart {chart}: {message}")]
    Chart {
        /// The chart or file.
        chart: String,
        /// What is wrong.
        message: String,
    },
    /// Values cannot be read or put together.
    #[error("{0}")]
    Values(String),
    /// Values that a `values.schema.json` refuses.
    #[error(
        "values don't meet the specifications of the schema(s) in the following chart(s):\n{0}"
    )]
    Schema(String),
    /// A template failed.
    #[error("{message}")]
    Render {
        /// What happened, worded as Helm's.
        message: String,
        /// The template to blame, by its full name, and the line, from 1; where they are known.
        place: Option<(String, usize)>,
        /// Whether a budget is used up.
        budget: bool,
    },
    /// What was rendered is not YAML.
    #[error("YAML parse error on {file}: {message}")]
    Manifest {
        /// The template.
        file: String,
        /// What is wrong, without the content.
        message: String,
    },
    /// An option that cannot be used.
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
