//! The real Helm: packs charts, writes indexes, pushes to registries.

use super::Host;
use crate::{process, tools};
use std::path::{Path, PathBuf};
use std::process::Command;

fn helm(folder: &Path, arguments: &[&str]) {
    let mut command = Command::new(tools::HELM.path());
    command.env_clear().current_dir(folder).args(arguments);
    for (name, place) in [
        ("HOME", ""),
        ("HELM_CACHE_HOME", "cache"),
        ("HELM_CONFIG_HOME", "config"),
        ("HELM_DATA_HOME", "data"),
    ] {
        command.env(name, folder.join(".helm").join(place));
    }
    process::run(&mut command);
}

/// Packs a chart of these files under a name and version; the archive's place. `files` are beside Chart.yaml.
pub fn package(folder: &Path, name: &str, version: &str, files: &[(&str, &str)]) -> PathBuf {
    let source = folder.join("source").join(name);
    let chart =
        format!("apiVersion: v2\nname: {name}\nversion: {version}\nappVersion: \"{version}\"\n");
    for (path, text) in files
        .iter()
        .copied()
        .chain([("Chart.yaml", chart.as_str())])
    {
        let path = source.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("make a folder");
        std::fs::write(path, text).expect("write a file");
    }
    package_folder(folder, &source, version)
}

/// The folder of a chart that people know by its name: that of a public one in the folder that `DRIFTLESS_PUBLIC_CHARTS` names, or
/// else the one of `tests/charts` that has its shape.
pub fn known(name: &str) -> PathBuf {
    let public = std::env::var_os("DRIFTLESS_PUBLIC_CHARTS");
    let folder = public.map_or_else(|| tools::tests().join("charts"), PathBuf::from);
    eprintln!("  the chart {name} is that of {}", folder.display());
    folder.join(name)
}

/// Packs a chart's folder under a version, which is the application's too; the archive's place.
pub fn package_folder(folder: &Path, chart: &Path, version: &str) -> PathBuf {
    let packed = folder.join("packed");
    std::fs::create_dir_all(&packed).expect("make a folder");
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
    helm(folder, &arguments);
    let name = chart.file_name().and_then(|name| name.to_str());
    packed.join(format!("{}-{version}.tgz", name.expect("a name")))
}

/// Writes the index of everything that was packed, with addresses from `url` (empty: relative ones), and serves both below
/// `path`.
pub fn index(folder: &Path, host: &Host, path: &str, url: &str) {
    let packed = folder.join("packed");
    let place = packed.to_str().expect("UTF-8");
    let mut arguments = vec!["repo", "index", place];
    if !url.is_empty() {
        arguments.extend(["--url", url]);
    }
    helm(folder, &arguments);
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
pub fn push(folder: &Path, chart: &Path, host: &Host, repository: &str) {
    let target = format!("oci://{}/{repository}", host.name());
    let chart = chart.to_str().expect("UTF-8");
    helm(folder, &["push", chart, &target, "--plain-http"]);
}
