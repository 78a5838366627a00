//! The loader: files to a chart.

use super::archive::{strip_bom, unpack};
use super::ignore::IgnoreRules;
use super::{Chart, ChartFile, LoadLimits};
use crate::compat::Compat;
use crate::error::HelmError;
use crate::yaml_read::read_yaml;
use crate::{values, yaml_read};
use driftless_fuel::Fuel;
use driftless_manifest::{Kind, Reader, TreePath};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

/// The limits of a load, with the used part of them.
struct Loader<'l> {
    limits: &'l LoadLimits,
    compat: Compat,
    /// The fuel of the files, and of the files packed in them.
    files: Fuel,
    /// The fuel of their content as YAML.
    texts: Fuel,
}

impl Chart {
    /// Loads a chart from a directory of a tree: .helmignore applies, links inside the tree are
    /// followed.
    ///
    /// # Errors
    /// [`HelmError::Chart`], which names the file.
    pub fn from_tree(
        reader: &Reader<'_>,
        directory: &TreePath,
        compat: Compat,
        limits: &LoadLimits,
    ) -> Result<Chart, HelmError> {
        Chart::from_files(files(reader, directory, limits)?, compat, limits)
    }

    /// Loads a packed chart.
    ///
    /// # Errors
    /// [`HelmError::Chart`], which names the file.
    pub fn from_archive(
        data: &[u8],
        name: &str,
        compat: Compat,
        limits: &LoadLimits,
    ) -> Result<Chart, HelmError> {
        let mut loader = Loader::new(limits, compat);
        let files = unpack(data, name, limits, &loader.files)?;
        loader.chart(files, 0)
    }

    /// Loads a chart from its files, named from its directory.
    ///
    /// # Errors
    /// [`HelmError::Chart`], which names the file.
    pub fn from_files(
        mut files: Vec<ChartFile>,
        compat: Compat,
        limits: &LoadLimits,
    ) -> Result<Chart, HelmError> {
        for file in &mut files {
            let bare = strip_bom(&file.data);
            if bare.len() < file.data.len() {
                file.data = Arc::from(bare);
            }
        }
        let mut loader = Loader::new(limits, compat);
        let bytes = files.iter().map(|file| file.data.len()).sum();
        // The caller has them in memory already. If they use up the fuel, the packed charts among
        // them are refused.
        let _ = loader.files.bytes(bytes);
        loader.chart(files, 0)
    }
}

/// Reads the files of a chart's directory.
pub(super) fn files(
    reader: &Reader<'_>,
    directory: &TreePath,
    limits: &LoadLimits,
) -> Result<Vec<ChartFile>, HelmError> {
    let fail = |e: &dyn Display| HelmError::chart(directory.to_string(), e.to_string());
    let ignore = directory.join(".helmignore").map_err(|e| fail(&e))?;
    let text = match reader.kind(&ignore).map_err(|e| fail(&e))? {
        Some(Kind::File) => reader.read(&ignore).map_err(|e| fail(&e))?,
        _ => bytes::Bytes::new(),
    };
    let rules = IgnoreRules::parse(&String::from_utf8_lossy(&text))?;
    let mut files = Vec::new();
    let mut walk = Walk {
        reader,
        rules: &rules,
        limits,
        bytes: 0,
        files: &mut files,
    };
    walk.directory(directory, "", 0)?;
    Ok(files)
}

struct Walk<'a, 't> {
    reader: &'a Reader<'t>,
    rules: &'a IgnoreRules,
    limits: &'a LoadLimits,
    bytes: u64,
    files: &'a mut Vec<ChartFile>,
}

impl Walk<'_, '_> {
    fn directory(
        &mut self,
        directory: &TreePath,
        name: &str,
        depth: usize,
    ) -> Result<(), HelmError> {
        let fail = |e: &dyn Display| HelmError::chart(directory.to_string(), e.to_string());
        if depth > 64 {
            return Err(fail(&"directories are nested more than 64 deep"));
        }
        for (entry, kind) in self.reader.list(directory).map_err(|e| fail(&e))? {
            let path = directory.join(&entry).map_err(|e| fail(&e))?;
            let name = if name.is_empty() {
                entry
            } else {
                format!("{name}/{entry}")
            };
            if self.rules.ignores(&name, kind == Kind::Dir) {
                continue;
            }
            if kind == Kind::Dir {
                self.directory(&path, &name, depth + 1)?;
                continue;
            }
            let data = self.reader.read(&path).map_err(|e| fail(&e))?;
            self.bytes += data.len() as u64;
            if self.limits.is_large_file(data.len() as u64) {
                return Err(fail(&self.limits.large_file(&name)));
            }
            if self.bytes > self.limits.bytes || self.files.len() >= self.limits.files {
                return Err(fail(
                    &"the chart has more files or bytes than the limits allow",
                ));
            }
            self.files.push(ChartFile {
                name,
                data: Arc::from(strip_bom(&data)),
            });
        }
        Ok(())
    }
}

impl<'l> Loader<'l> {
    fn new(limits: &'l LoadLimits, compat: Compat) -> Self {
        Loader {
            limits,
            compat,
            files: limits.fuel(),
            texts: limits.text_fuel(),
        }
    }

    fn chart(&mut self, files: Vec<ChartFile>, depth: usize) -> Result<Chart, HelmError> {
        self.files.depth(depth).map_err(|out| {
            let message = format!("subcharts are nested more than {} deep", out.limit);
            HelmError::chart("charts", message)
        })?;
        self.files.nodes(files.len()).map_err(|_| {
            HelmError::chart("charts", "too many files in the chart and its subcharts")
        })?;
        let mut chart = Chart::default();
        let mut found = false;
        for file in files.iter().filter(|f| f.name == "Chart.yaml") {
            found = true;
            read_metadata(&mut chart, file, &self.texts)?;
            if chart.metadata.api_version.is_empty() {
                chart.metadata.api_version = "v1".to_owned();
            }
        }
        let mut subcharts: BTreeMap<String, Vec<ChartFile>> = BTreeMap::new();
        for file in files {
            self.file(&mut chart, file, &mut subcharts)?;
        }
        if !found {
            return Err(HelmError::chart("Chart.yaml", "Chart.yaml file is missing"));
        }
        chart.metadata.validate()?;
        for (name, files) in subcharts {
            if name.starts_with(['_', '.']) {
                continue;
            }
            let sub = self.subchart(&name, files, depth);
            let sub = sub.map_err(|e| {
                let message = format!("error unpacking subchart {name} in {}: {e}", chart.name());
                HelmError::chart(chart.name(), message)
            })?;
            chart.dependencies.push(sub);
        }
        Ok(chart)
    }

    fn file(
        &mut self,
        chart: &mut Chart,
        file: ChartFile,
        subcharts: &mut BTreeMap<String, Vec<ChartFile>>,
    ) -> Result<(), HelmError> {
        let bad = |message: &dyn Display| HelmError::chart(file.name.clone(), message.to_string());
        match file.name.as_str() {
            "Chart.yaml" => {}
            "Chart.lock" | "requirements.lock" => {
                let lock =
                    read_yaml(&file.data, &file.name, &self.texts).map_err(|error| bad(&error))?;
                if !matches!(lock, Json::Null | Json::Object(_)) {
                    return Err(HelmError::chart(file.name, "not a mapping"));
                }
                chart.lock = lock;
                if file.name == "requirements.lock" && chart.metadata.api_version == "v1" {
                    chart.files.push(file);
                }
            }
            "values.yaml" => {
                self.texts.bytes(file.data.len()).map_err(|_| {
                    let message = "the values of the chart and its subcharts are larger than the limits allow";
                    HelmError::chart(file.name.clone(), message)
                })?;
                chart.values =
                    values::read_within(&file.data, &file.name, self.compat, &self.texts)?;
            }
            "values.schema.json" => chart.schema = Some(file.data),
            "requirements.yaml" => {
                read_metadata(chart, &file, &self.texts)?;
                if chart.metadata.api_version == "v1" {
                    chart.files.push(file);
                }
            }
            name if name.starts_with("templates/") => chart.templates.push(file),
            name if name.starts_with("charts/") && !name.ends_with(".prov") => {
                let inner = name["charts/".len()..].to_owned();
                let chart_name = inner.split('/').next().unwrap_or_default().to_owned();
                subcharts.entry(chart_name).or_default().push(ChartFile {
                    name: inner,
                    data: file.data,
                });
            }
            _ => chart.files.push(file),
        }
        Ok(())
    }

    fn subchart(
        &mut self,
        name: &str,
        files: Vec<ChartFile>,
        depth: usize,
    ) -> Result<Chart, HelmError> {
        if name.ends_with(".tgz") {
            let Some(file) = files.iter().find(|f| f.name == name) else {
                return Err(HelmError::chart(
                    name,
                    "a directory with the name of a packed chart",
                ));
            };
            let files = unpack(&file.data, name, self.limits, &self.files)?;
            return self.chart(files, depth + 1);
        }
        let files = files
            .into_iter()
            .filter_map(|f| {
                let (_, inner) = f.name.split_once('/')?;
                Some(ChartFile {
                    name: inner.to_owned(),
                    data: f.data,
                })
            })
            .collect();
        self.chart(files, depth + 1)
    }
}

fn read_metadata(chart: &mut Chart, file: &ChartFile, fuel: &Fuel) -> Result<(), HelmError> {
    let bad = |message: &dyn Display| HelmError::chart(file.name.clone(), message.to_string());
    let document = yaml_read::first_typed(&file.data, &file.name, fuel);
    let document = document.map_err(|error| bad(&error))?;
    chart.metadata.read(&document).map_err(|error| bad(&error))
}
