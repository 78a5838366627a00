//! The real Helm: packs charts, writes indexes, pushes to registries.

use super::Host;
use crate::{process, tools};
use std::path::{Path, PathBuf};
use std::process::Command;

fn helm(directory: &Path, arguments: &[&str]) {
    let mut command = Command::new(tools::HELM.path());
    command.env_clear().current_dir(directory).args(arguments);
    for (name, place) in [
        ("HOME", ""),
        ("HELM_CACHE_HOME", "cache"),
        ("HELM_CONFIG_HOME", "config"),
        ("HELM_DATA_HOME", "data"),
    ] {
        command.env(name, directory.join(".helm").join(place));
    }
    process::run(&mut command);
}

/// Packs a chart with this name and version. Returns the path of the archive. `files` are all files
/// except Chart.yaml.
pub fn package(directory: &Path, name: &str, version: &str, files: &[(&str, &str)]) -> PathBuf {
    let source = directory.join("source").join(name);
    let chart =
        format!("apiVersion: v2\nname: {name}\nversion: {version}\nappVersion: \"{version}\"\n");
    for (path, text) in files
        .iter()
        .copied()
        .chain([("Chart.yaml", chart.as_str())])
    {
        let path = source.join(path);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("make a directory");
        std::fs::write(path, text).expect("write a file");
    }
    package_directory(directory, &source, version)
}

/// Returns the directory of a public chart: in the directory that `DRIFTLESS_PUBLIC_CHARTS` names,
/// or else the chart of `tests/charts` that has the same structure.
pub fn public_chart(name: &str) -> PathBuf {
    let public = std::env::var_os("DRIFTLESS_PUBLIC_CHARTS");
    let directory = public.map_or_else(|| tools::tests().join("charts"), PathBuf::from);
    eprintln!("  the chart {name} is read from {}", directory.display());
    directory.join(name)
}

/// Packs a chart's directory with this version and application version. Returns the path of the
/// archive.
pub fn package_directory(directory: &Path, chart: &Path, version: &str) -> PathBuf {
    let packed = directory.join("packed");
    std::fs::create_dir_all(&packed).expect("make a directory");
    let arguments = [
        "package",
        chart.to_str().expect("UTF-8"),
        "--version",
        version,
        "--app-version",
        version,
        "--destination",
        packed.to_str().expect("UTF-8"),
    ];
    helm(directory, &arguments);
    let name = chart.file_name().and_then(|name| name.to_str());
    packed.join(format!("{}-{version}.tgz", name.expect("a name")))
}

/// Writes the index of all packed charts, with addresses below `url` (relative if it is empty), and
/// serves the index and the charts below `path`.
pub fn index(directory: &Path, host: &Host, path: &str, url: &str) {
    let packed = directory.join("packed");
    let place = packed.to_str().expect("UTF-8");
    let mut arguments = vec!["repo", "index", place];
    if !url.is_empty() {
        arguments.extend(["--url", url]);
    }
    helm(directory, &arguments);
    for entry in std::fs::read_dir(&packed).expect("list the charts") {
        let file = entry.expect("an entry").path();
        let name = file
            .file_name()
            .and_then(|name| name.to_str())
            .expect("UTF-8");
        host.put(
            &format!("{path}/{name}"),
            std::fs::read(&file).expect("read a file"),
        );
    }
}

/// Pushes a packed chart to `oci://HOST/REPOSITORY/NAME`.
pub fn push(directory: &Path, chart: &Path, host: &Host, repository: &str) {
    let target = format!("oci://{}/{repository}", host.name());
    let chart = chart.to_str().expect("UTF-8");
    helm(directory, &["push", chart, &target, "--plain-http"]);
}
