//! Charts: files -> metadata, values, templates, subcharts.

mod archive;
mod ignore;
mod load;
mod metadata;
mod package;

pub use ignore::IgnoreRules;
pub use metadata::{Dependency, Maintainer, Metadata};
pub use package::Package;

use crate::compat::Compat;
use crate::convert::FUEL;
use driftless_manifest::{Fuel, FuelLimits};
use serde_json::{Map, Value as Json};
use std::sync::Arc;

/// A file of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartFile {
    /// The path from the chart's directory.
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
    /// Bytes of the files of one archive or directory. Helm counts each packed subchart by itself, too.
    pub bytes: u64,
    /// Bytes of one file, where Helm limits them.
    pub file_bytes: Option<u64>,
    /// Bytes of the files of a packed chart and of all packed subcharts in it: these are in memory together.
    pub all_bytes: u64,
    /// Files, packed subcharts unpacked.
    pub files: usize,
    /// Charts in charts in charts.
    pub depth: usize,
    /// Bytes of values.yaml of the chart and all its subcharts.
    pub values: usize,
}

impl Default for LoadLimits {
    /// Helm 3's 100 MiB an archive and 5 MiB a file, which Flux's controllers have, too; 120 MiB in all, 20,000 files, 32
    /// levels, 8 MiB of values.
    fn default() -> Self {
        LoadLimits {
            bytes: 100 << 20,
            file_bytes: Some(5 << 20),
            all_bytes: 120 << 20,
            files: 20_000,
            depth: 32,
            values: 8 << 20,
        }
    }
}

impl LoadLimits {
    /// The limits of a Helm: the fourth has none for a single file since its version 4.3.
    pub fn of(compat: Compat) -> Self {
        let limits = LoadLimits::default();
        match compat {
            Compat::Helm3 => limits,
            Compat::Helm4 => LoadLimits {
                file_bytes: None,
                ..limits
            },
        }
    }

    /// The fuel of the files of a chart and its packed subcharts: bytes, and a node for each file.
    pub(crate) fn fuel(&self) -> Fuel {
        Fuel::new(FuelLimits {
            bytes: usize::try_from(self.all_bytes).unwrap_or(usize::MAX),
            nodes: self.files.saturating_mul(4),
            depth: self.depth,
            ..FuelLimits::NONE
        })
    }

    /// The fuel of what the files of a chart and its subcharts hold as YAML; the bytes are those of values.
    pub(crate) fn text_fuel(&self) -> Fuel {
        Fuel::new(FuelLimits {
            bytes: self.values,
            ..FUEL
        })
    }

    /// Whether a file is larger than one may be.
    pub fn is_large_file(&self, bytes: u64) -> bool {
        self.file_bytes.is_some_and(|limit| bytes > limit)
    }

    /// Helm's words for such a file.
    pub fn large_file(&self, name: &str) -> String {
        let limit = self.file_bytes.unwrap_or(u64::MAX);
        format!("chart file {name:?} is larger than the maximum file size {limit}")
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
