//! The chart in a record: the part that `helm get` needs, without its subcharts.

use super::or_default;
use super::time::{Time, optional};
use crate::chart::{Chart, ChartFile, Metadata};
use crate::release::Rendered;
use crate::values::{Table, with_floats};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value as Json;

/// The chart as the Secret of a release stores it (Helm's JSON).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedChart {
    /// Chart.yaml, with the active dependencies marked as enabled.
    #[serde(deserialize_with = "or_default")]
    pub metadata: RecordedMetadata,
    /// Chart.lock, or null.
    pub lock: Json,
    /// The files under templates/.
    #[serde(deserialize_with = "or_default")]
    pub templates: Vec<RecordedFile>,
    /// values.yaml, with what subcharts export to it.
    #[serde(deserialize_with = "float_table")]
    pub values: Table,
    /// values.schema.json in base64, or null.
    pub schema: Option<String>,
    /// The time at which the schema was changed (Helm 4).
    #[serde(
        rename = "schemamodtime",
        deserialize_with = "optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub schema_modified: Option<Time>,
    /// All other files.
    #[serde(deserialize_with = "or_default")]
    pub files: Vec<RecordedFile>,
    /// The time at which Chart.yaml was changed (Helm 4).
    #[serde(
        rename = "modtime",
        deserialize_with = "optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub modified: Option<Time>,
    /// Fields of other versions.
    #[serde(flatten)]
    pub rest: Table,
}

/// Chart.yaml in a record.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RecordedMetadata {
    /// The fields that Helm defines.
    #[serde(flatten)]
    pub known: Metadata,
    /// Fields of other versions.
    #[serde(flatten)]
    pub rest: Table,
}

impl<'de> Deserialize<'de> for RecordedMetadata {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let mut rest = Table::deserialize(input)?;
        let known = Metadata::from_json(&rest).map_err(serde::de::Error::custom)?;
        rest.retain(|field, _| !Metadata::FIELDS.contains(&field.as_str()));
        Ok(RecordedMetadata { known, rest })
    }
}

/// A file of the stored chart, with its content in base64.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedFile {
    /// The path relative to the chart's directory.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// The content in base64, or null.
    pub data: Option<String>,
    /// The time at which it was changed (Helm 4).
    #[serde(
        rename = "modtime",
        deserialize_with = "optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub modified: Option<Time>,
    /// Fields of other versions.
    #[serde(flatten)]
    pub rest: Table,
}

/// Deserializes numbers as Go decodes them into `interface{}`: each as a float64.
pub(super) fn float_table<'de, D: Deserializer<'de>>(input: D) -> Result<Table, D::Error> {
    let values = Option::<Table>::deserialize(input)?;
    Ok(with_floats(values.unwrap_or_default()))
}

fn recorded(files: &[ChartFile]) -> Vec<RecordedFile> {
    let one = |file: &ChartFile| RecordedFile {
        name: file.name.clone(),
        data: Some(STANDARD.encode(&file.data)),
        ..RecordedFile::default()
    };
    files.iter().map(one).collect()
}

impl RecordedChart {
    /// Creates the recorded chart of a release that was just rendered.
    pub fn of(chart: &Chart, rendered: &Rendered) -> Self {
        RecordedChart {
            metadata: RecordedMetadata {
                known: rendered.metadata.clone(),
                rest: Table::new(),
            },
            lock: chart.lock.clone(),
            templates: recorded(&chart.templates),
            values: rendered
                .values
                .clone()
                .unwrap_or_else(|| chart.values.clone()),
            schema: chart.schema.as_ref().map(|schema| STANDARD.encode(schema)),
            files: recorded(&chart.files),
            ..RecordedChart::default()
        }
    }
}

impl RecordedFile {
    /// Returns the content; `None` if it is not base64.
    pub fn content(&self) -> Option<Vec<u8>> {
        STANDARD
            .decode(self.data.as_deref().unwrap_or_default())
            .ok()
    }
}
