//! Charts: the model of metadata, values, templates and subcharts, and its loader.

mod archive;
mod ignore;
mod load;
mod metadata;
mod package;

pub use ignore::IgnoreRules;
pub use metadata::{Dependency, Maintainer, Metadata};
pub use package::Package;

use crate::compat::Compat;
use crate::yaml_read::FUEL;
use driftless_fuel::{Fuel, FuelLimits, Tank};
use serde_json::{Map, Value as Json};
use std::sync::Arc;

/// A file with its path, as templates see it in `.Files`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartFile {
    /// The path relative to the chart's directory.
    pub name: String,
    /// The content of the file.
    pub data: Arc<[u8]>,
}

/// A chart with its subcharts, as loaded.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// Chart.yaml, with the dependencies of requirements.yaml.
    pub metadata: Metadata,
    /// Chart.lock (or requirements.lock), null if missing.
    pub lock: Json,
    /// values.yaml; every number is a float64.
    pub values: Map<String, Json>,
    /// The content of values.schema.json.
    pub schema: Option<Arc<[u8]>>,
    /// The files under templates/.
    pub templates: Vec<ChartFile>,
    /// All other files, including crds/.
    pub files: Vec<ChartFile>,
    /// The subcharts, in the order of their names in charts/.
    pub dependencies: Vec<Chart>,
}

/// The limits of loading a chart.
#[derive(Clone, Debug)]
pub struct LoadLimits {
    /// The bytes of the files of one archive or directory. Helm also counts each packed subchart
    /// separately.
    pub bytes: u64,
    /// The bytes of one file, where Helm limits them.
    pub file_bytes: Option<u64>,
    /// The bytes of the files of a packed chart and of all packed subcharts in it: these are in
    /// memory together.
    pub all_bytes: u64,
    /// The number of files, including those of unpacked subcharts.
    pub files: usize,
    /// The levels of nested charts.
    pub depth: usize,
    /// The bytes of values.yaml of the chart and all its subcharts.
    pub values: usize,
    /// The fuel of the step that loads the chart.
    pub fuel: Tank,
}

impl Default for LoadLimits {
    /// Returns Helm 3's 100 MiB per archive and 5 MiB per file, which Flux's controllers also have;
    /// 120 MiB in total, 20,000 files, 32 levels, 8 MiB of values.
    fn default() -> Self {
        LoadLimits {
            bytes: 100 << 20,
            file_bytes: Some(5 << 20),
            all_bytes: 120 << 20,
            files: 20_000,
            depth: 32,
            values: 8 << 20,
            fuel: Tank::default(),
        }
    }
}

impl LoadLimits {
    /// Returns the default limits, for a chart that is loaded as a part of a step.
    pub fn of_step(fuel: &Tank) -> Self {
        LoadLimits {
            fuel: fuel.clone(),
            ..LoadLimits::default()
        }
    }

    /// Returns the limits of a version of Helm: Helm 4 has no limit on a single file since version
    /// 4.3.
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

    /// Returns the fuel of the files of a chart and its packed subcharts: bytes, and a node for
    /// each file.
    pub(crate) fn fuel(&self) -> Fuel {
        self.fuel.part(FuelLimits {
            bytes: usize::try_from(self.all_bytes).unwrap_or(usize::MAX),
            nodes: self.files.saturating_mul(4),
            depth: self.depth,
            ..FuelLimits::NONE
        })
    }

    /// Returns the fuel of the YAML content of a chart and its subcharts; the bytes are those of
    /// values.
    pub(crate) fn text_fuel(&self) -> Fuel {
        self.fuel.part(FuelLimits {
            bytes: self.values,
            ..FUEL
        })
    }

    /// Checks whether a file is larger than the limit of one file.
    pub fn is_large_file(&self, bytes: u64) -> bool {
        self.file_bytes.is_some_and(|limit| bytes > limit)
    }

    /// Returns Helm's message for such a file.
    pub fn large_file(&self, name: &str) -> String {
        let limit = self.file_bytes.unwrap_or(u64::MAX);
        format!("chart file {name:?} is larger than the maximum file size {limit}")
    }
}

impl Chart {
    /// Returns the name, after aliasing.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Checks whether it is a library chart.
    pub fn is_library(&self) -> bool {
        self.metadata.kind.eq_ignore_ascii_case("library")
    }
}
