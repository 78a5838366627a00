//! Charts as files: read from a directory or an archive, changed, packed again.

use super::{Chart, ChartFile, Dependency, LoadLimits, Metadata, archive, load};
use crate::compat::Compat;
use crate::error::HelmError;
use crate::values::{self, Table};
use crate::yaml_read::read_yaml;
use driftless_manifest::{Reader, TreePath, yaml};
use flate2::{Compression, write::GzEncoder};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::sync::Arc;
use tar::{Builder, Header};

/// The files of a chart before they are loaded, with paths relative to its directory.
#[derive(Clone, Debug, Default)]
pub struct Package {
    files: Vec<ChartFile>,
    limits: LoadLimits,
}

impl Package {
    /// Reads the files of a packed chart.
    ///
    /// # Errors
    /// [`HelmError::Chart`], which names the file.
    pub fn from_archive(data: &[u8], name: &str, limits: &LoadLimits) -> Result<Self, HelmError> {
        let files = archive::unpack(data, name, limits, &limits.fuel())?;
        let limits = limits.clone();
        Ok(Self { files, limits })
    }

    /// Reads the files of a chart's directory: .helmignore applies, links inside the tree are
    /// followed.
    ///
    /// # Errors
    /// [`HelmError::Chart`], which names the file.
    pub fn from_tree(
        reader: &Reader<'_>,
        directory: &TreePath,
        limits: &LoadLimits,
    ) -> Result<Self, HelmError> {
        let files = load::files(reader, directory, limits)?;
        let limits = limits.clone();
        Ok(Self { files, limits })
    }

    /// Returns the limits that the package was read with.
    pub fn limits(&self) -> &LoadLimits {
        &self.limits
    }

    /// Reads Chart.yaml with requirements.yaml, and checks them.
    ///
    /// # Errors
    /// [`HelmError::Chart`]: the file is missing or invalid.
    pub fn metadata(&self) -> Result<Metadata, HelmError> {
        Ok(self.top()?.metadata)
    }

    /// Returns the dependencies of Chart.lock (or requirements.lock); `None` if the file is
    /// missing.
    ///
    /// # Errors
    /// Like [`Package::metadata`].
    pub fn locked(&self) -> Result<Option<Vec<Dependency>>, HelmError> {
        let lock = self.top()?.lock;
        let Some(Json::Array(list)) = lock.get("dependencies") else {
            return Ok(None);
        };
        let text = |one: &Json, key: &str| {
            let text = one.get(key).and_then(Json::as_str);
            text.unwrap_or_default().to_owned()
        };
        let read = |one: &Json| Dependency {
            name: text(one, "name"),
            version: text(one, "version"),
            repository: text(one, "repository"),
            ..Dependency::default()
        };
        Ok(Some(list.iter().map(read).collect()))
    }

    /// Loads the chart without its subcharts and templates.
    fn top(&self) -> Result<Chart, HelmError> {
        let mine = |file: &&ChartFile| !file.name.contains('/');
        let files = self.files.iter().filter(mine).cloned().collect();
        Chart::from_files(files, Compat::Helm4, &self.limits)
    }

    /// Returns the content of a file.
    pub fn file(&self, name: &str) -> Option<&[u8]> {
        let found = self.files.iter().find(|file| file.name == name);
        found.map(|file| &*file.data)
    }

    /// Returns the names of the charts below `charts/`, from their own Chart.yaml.
    pub fn subchart_names(&self) -> BTreeSet<String> {
        let name = |file: &ChartFile| {
            let inner = file.name.strip_prefix("charts/")?;
            match inner.split_once('/') {
                Some((_, "Chart.yaml")) => {
                    let fields = read_yaml(&file.data, inner, &self.limits.text_fuel()).ok()?;
                    Some(fields.get("name")?.as_str()?.to_owned())
                }
                Some(_) => None,
                None if inner.ends_with(".tgz") => {
                    let packed = Package::from_archive(&file.data, inner, &self.limits).ok()?;
                    Some(packed.metadata().ok()?.name)
                }
                None => None,
            }
        };
        self.files.iter().filter_map(name).collect()
    }

    /// Adds a packed chart below `charts/`.
    pub fn add_archive(&mut self, name: &str, data: &[u8]) {
        self.files.push(ChartFile {
            name: format!("charts/{name}"),
            data: Arc::from(data),
        });
    }

    /// Adds a chart's files below `charts/`.
    pub fn add_chart(&mut self, name: &str, chart: Package) {
        self.files
            .extend(chart.files.into_iter().map(|file| ChartFile {
                name: format!("charts/{name}/{}", file.name),
                data: file.data,
            }));
    }

    /// Sets the version of the chart.
    ///
    /// # Errors
    /// [`HelmError::Chart`]: Chart.yaml is not a mapping.
    pub fn set_version(&mut self, version: &str) -> Result<(), HelmError> {
        let fail = |message: &str| HelmError::chart("Chart.yaml", message);
        let file = self.files.iter_mut().find(|file| file.name == "Chart.yaml");
        let file = file.ok_or_else(|| fail("Chart.yaml file is missing"))?;
        let mut fields = read_yaml(&file.data, "Chart.yaml", &self.limits.text_fuel())
            .map_err(|error| fail(&error.to_string()))?;
        let Json::Object(map) = &mut fields else {
            return Err(fail("not a mapping"));
        };
        map.insert("version".to_owned(), version.into());
        file.data = Arc::from(yaml::to_string(&fields).into_bytes());
        Ok(())
    }

    /// Returns the merged values of values files, in order; a later one wins. `read` returns a
    /// file's bytes.
    ///
    /// # Errors
    /// [`HelmError::Values`]: a file is missing, or its values are not a mapping.
    pub fn merge_values<'f>(
        names: impl Iterator<Item = &'f str>,
        read: impl Fn(&str) -> Option<Vec<u8>>,
    ) -> Result<Table, HelmError> {
        let mut merged = Table::new();
        for name in names {
            let text = read(name).ok_or_else(|| {
                HelmError::Values(format!("no values file found at path '{name}'"))
            })?;
            let table = values::read(&text, name, Compat::Helm3)?;
            merged = values::merge(merged, table);
        }
        Ok(merged)
    }

    /// Replaces the chart's values.yaml.
    pub fn set_values(&mut self, values: &Table) {
        let data: Arc<[u8]> =
            Arc::from(yaml::to_string(&Json::Object(values.clone())).into_bytes());
        match self
            .files
            .iter_mut()
            .find(|file| file.name == "values.yaml")
        {
            Some(file) => file.data = data,
            None => self.files.push(ChartFile {
                name: "values.yaml".to_owned(),
                data,
            }),
        }
    }

    /// Packs the chart as a .tgz; the same files produce the same bytes.
    ///
    /// # Errors
    /// [`HelmError::Chart`]: a name that tar cannot represent.
    pub fn pack(&self, name: &str) -> Result<Vec<u8>, HelmError> {
        let mut files: Vec<&ChartFile> = self.files.iter().collect();
        // Chart.yaml first, as Helm packs it: readers of the metadata can stop after it.
        files.sort_by_key(|file| (file.name != "Chart.yaml", &file.name));
        let write = || -> std::io::Result<Vec<u8>> {
            let mut tar = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
            for file in files {
                let mut header = Header::new_gnu();
                header.set_mode(0o644);
                header.set_size(file.data.len() as u64);
                tar.append_data(&mut header, format!("{name}/{}", file.name), &*file.data)?;
            }
            tar.into_inner()?.finish()
        };
        write().map_err(|error| HelmError::chart(name, format!("pack the chart: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Chart;

    fn package() -> Package {
        let file = |name: &str, text: &str| ChartFile {
            name: name.to_owned(),
            data: Arc::from(text.as_bytes()),
        };
        Package {
            files: vec![
                file("values.yaml", "replicas: 1\nimage: {tag: a, name: app}\n"),
                file(
                    "Chart.yaml",
                    "apiVersion: v2\nname: app\nversion: 1.2.3\nappVersion: \"1.10\"\n",
                ),
                file("prod.yaml", "replicas: 3\nimage: {tag: b}\n"),
                file("templates/a.yaml", "a: {{ .Values.replicas }}\n"),
            ],
            limits: LoadLimits::default(),
        }
    }

    #[test]
    fn changed_and_packed_again() {
        let mut changed = package();
        let values = Package::merge_values(["values.yaml", "prod.yaml"].into_iter(), |name| {
            changed.file(name).map(<[u8]>::to_vec)
        });
        changed.set_values(&values.unwrap());
        changed.set_version("1.2.3+4").unwrap();
        let mut sub = package();
        sub.set_version("9.0.0").unwrap();
        sub.files[1].data = Arc::from(b"name: sub\nversion: 9.0.0\n".as_slice());
        changed.add_chart("sub", sub.clone());
        changed.add_archive("other-1.0.0.tgz", &package().pack("other").unwrap());
        let packed = changed.pack("app").unwrap();
        assert_eq!(packed, changed.pack("app").unwrap());

        let limits = LoadLimits::default();
        let chart = Chart::from_archive(&packed, "app.tgz", Compat::Helm4, &limits).unwrap();
        assert_eq!(chart.metadata.version, "1.2.3+4");
        assert_eq!(chart.metadata.app_version, "1.10");
        assert_eq!(
            Json::Object(chart.values),
            serde_json::json!({"replicas": 3.0, "image": {"tag": "b", "name": "app"}})
        );
        assert_eq!(chart.dependencies.len(), 2);
        let again = Package::from_archive(&packed, "app.tgz", &limits).unwrap();
        assert_eq!(
            again.subchart_names().into_iter().collect::<Vec<_>>(),
            ["app", "sub"]
        );
        assert_eq!(again.metadata().unwrap().version, "1.2.3+4");
    }

    #[test]
    fn a_missing_values_file_is_named() {
        let merged = Package::merge_values(["gone.yaml"].into_iter(), |_| None);
        assert_eq!(
            merged.unwrap_err().to_string(),
            "no values file found at path 'gone.yaml'"
        );
    }
}
