//! Charts: files -> metadata, values, templates, subcharts.

mod archive;
mod ignore;
mod load;
mod metadata;
mod package;

pub use ignore::IgnoreRules;
pub use metadata::{Dependency, Maintainer, Metadata};
pub use package::Package;

use serde_json::{Map, Value as Json};
use std::sync::Arc;

/// A file of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartFile {
    /// The path from the chart's folder.
    pub name: String,
    /// The content.
    pub data: Arc<[u8]>,
}

/// A chart with its subcharts, as loaded.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// Chart.yaml, with the dependencies of requirements.yaml.
    pub metadata: Metadata,
    /// Chart.lock (or requirements.lock), null if there is none.
    pub lock: Json,
    /// values.yaml; every number is a float64.
    pub values: Map<String, Json>,
    /// values.schema.json.
    pub schema: Option<Arc<[u8]>>,
    /// What stands under templates/.
    pub templates: Vec<ChartFile>,
    /// Every other file, crds/ too.
    pub files: Vec<ChartFile>,
    /// The subcharts, in the order of their names in charts/.
    pub dependencies: Vec<Chart>,
}

/// What loading a chart may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadLimits {
    /// Bytes of all files, packed subcharts unpacked.
    pub bytes: u64,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Files, packed subcharts unpacked.
    pub files: usize,
    /// Charts in charts in charts.
    pub depth: usize,
    /// Bytes of values.yaml of the chart and all its subcharts.
    pub values: usize,
    /// Unpacked bytes for a byte packed, beyond the first MiB.
    pub ratio: u64,
}

impl Default for LoadLimits {
    /// Helm's 100 MiB in all and 5 MiB a file; 20,000 files, 32 levels, 8 MiB of values, 800 to 1.
    fn default() -> Self {
        LoadLimits {
            bytes: 100 << 20,
            file_bytes: 5 << 20,
            files: 20_000,
            depth: 32,
            values: 8 << 20,
            ratio: 800,
        }
    }
}

impl Chart {
    /// The name, after aliasing.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Whether it only serves others.
    pub fn is_library(&self) -> bool {
        self.metadata.kind.eq_ignore_ascii_case("library")
    }
}
