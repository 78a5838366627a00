//! Charts as files: taken out of a directory or an archive, changed, packed again.

use super::{Chart, ChartFile, Dependency, LoadLimits, Metadata, archive, load};
use crate::compat::Compat;
use crate::convert::{FUEL, read_yaml};
use crate::error::HelmError;
use crate::values::{self, Table};
use driftless_manifest::{Fuel, Reader, TreePath, yaml};
use flate2::{Compression, write::GzEncoder};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::sync::Arc;
use tar::{Builder, Header};

/// The files of a chart before they are loaded, named from its directory.
#[derive(Clone, Debug, Default)]
pub struct Package {
    files: Vec<ChartFile>,
}

impl Package {
    /// The files of a packed chart.
    ///
    /// # Errors
    /// [`HelmError::Chart`], which names the file.
    pub fn from_archive(data: &[u8], name: &str, limits: &LoadLimits) -> Result<Self, HelmError> {
        let files = archive::unpack(data, name, limits, &limits.fuel())?;
        Ok(Self { files })
    }

    /// The files of a chart's directory: .helmignore applies, links inside the tree are followed.
    ///
    /// # Errors
    /// [`HelmError::Chart`], which names the file.
    pub fn from_tree(
        reader: &Reader<'_>,
        directory: &TreePath,
        limits: &LoadLimits,
    ) -> Result<Self, HelmError> {
        let files = load::files(reader, directory, limits)?;
        Ok(Self { files })
    }

    /// Chart.yaml with requirements.yaml, checked.
    ///
    /// # Errors
    /// [`HelmError::Chart`]: it is missing, or no chart's.
    pub fn metadata(&self) -> Result<Metadata, HelmError> {
        Ok(self.top()?.metadata)
    }

    /// The dependencies of Chart.lock (or requirements.lock), none without one.
    ///
    /// # Errors
    /// As [`Package::metadata`].
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

    /// The chart without its subcharts, templates and the like.
    fn top(&self) -> Result<Chart, HelmError> {
        let mine = |file: &&ChartFile| !file.name.contains('/');
        let files = self.files.iter().filter(mine).cloned().collect();
        Chart::from_files(files, Compat::Helm4, &LoadLimits::default())
    }

    /// A file.
    pub fn file(&self, name: &str) -> Option<&[u8]> {
        let found = self.files.iter().find(|file| file.name == name);
        found.map(|file| &*file.data)
    }

    /// The names of the charts below `charts/`, as their own Chart.yaml has them.
    pub fn subchart_names(&self) -> BTreeSet<String> {
        let name = |file: &ChartFile| {
            let inner = file.name.strip_prefix("charts/")?;
            match inner.split_once('/') {
                Some((_, "Chart.yaml")) => {
                    let fields = read_yaml(&file.data, inner, &Fuel::new(FUEL)).ok()?;
                    Some(fields.get("name")?.as_str()?.to_owned())
                }
                Some(_) => None,
                None if inner.ends_with(".tgz") => {
                    let limits = LoadLimits::default();
                    let packed = Package::from_archive(&file.data, inner, &limits).ok()?;
                    Some(packed.metadata().ok()?.name)
                }
                None => None,
            }
        };
        self.files.iter().filter_map(name).collect()
    }

    /// Puts a packed chart below `charts/`.
    pub fn add_archive(&mut self, name: &str, data: &[u8]) {
        self.files.push(ChartFile {
            name: format!("charts/{name}"),
            data: Arc::from(data),
        });
    }

    /// Puts a chart's files below `charts/`.
    pub fn add_chart(&mut self, name: &str, chart: Package) {
        self.files
            .extend(chart.files.into_iter().map(|file| ChartFile {
                name: format!("charts/{name}/{}", file.name),
                data: file.data,
            }));
    }

    /// Gives the chart another version.
    ///
    /// # Errors
    /// [`HelmError::Chart`]: Chart.yaml is no mapping.
    pub fn set_version(&mut self, version: &str) -> Result<(), HelmError> {
        let fail = |message: String| HelmError::chart("Chart.yaml", message);
        let file = self.files.iter_mut().find(|file| file.name == "Chart.yaml");
        let file = file.ok_or_else(|| fail("Chart.yaml file is missing".to_owned()))?;
        let mut fields = read_yaml(&file.data, "Chart.yaml", &Fuel::new(FUEL)).map_err(fail)?;
        let Json::Object(map) = &mut fields else {
            return Err(fail("not a mapping".to_owned()));
        };
        map.insert("version".to_owned(), version.into());
        file.data = Arc::from(yaml::to_string(&fields).into_bytes());
        Ok(())
    }

    /// The values of values files, merged in order; a later one wins. `read` gives a file's bytes.
    ///
    /// # Errors
    /// [`HelmError::Values`]: a file is missing, or has no values.
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

    /// Puts values in the place of the chart's values.yaml.
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

    /// The chart as a .tgz; the same files give the same bytes.
    ///
    /// # Errors
    /// [`HelmError::Chart`]: a name that tar cannot hold.
    pub fn pack(&self, name: &str) -> Result<Vec<u8>, HelmError> {
        let mut files: Vec<&ChartFile> = self.files.iter().collect();
        // Chart.yaml first, as Helm packs it: whoever wants the metadata need not read on.
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
