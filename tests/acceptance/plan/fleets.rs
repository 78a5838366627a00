//! The time of a plan of whole fleets.

use crate::site::{Login, Site};
use driftless_harness::github::Change;
use driftless_harness::skip::has_material;
use driftless_harness::tools;
use std::path::Path;
use std::time::Instant;

/// Fleets in `../shared/fleets`, each with the directory of a hub.
const FLEETS: [(&str, &str); 2] = [
    ("flux2-multi-tenancy/main", "clusters/staging"),
    ("multicluster-gitops/dev", "clusters/k3d-america"),
];

/// Changes the interval of a Flux object in a directory, and returns the file and its new text.
fn change(directory: &Path, below: &str) -> Option<(String, String)> {
    let mut files: Vec<_> = std::fs::read_dir(directory.join(below))
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    for file in files.into_iter().filter(|file| file.is_file()) {
        let text = std::fs::read_to_string(&file).expect("a file");
        let line = text
            .lines()
            .find(|line| line.trim().starts_with("interval: "));
        if let Some(line) = line {
            let indent = &line[..line.len() - line.trim_start().len()];
            let new = text.replacen(line, &format!("{indent}interval: 47m"), 1);
            let name = file.file_name().expect("a name").to_string_lossy();
            return Some((format!("{below}/{name}"), new));
        }
    }
    None
}

#[test]
fn the_time_of_a_plan_of_both_fleets_is_printed() {
    for (name, path) in FLEETS {
        let directory = tools::workspace().join("../shared/fleets").join(name);
        if !has_material(&directory) {
            return;
        }
        let site = Site::new(Login::App);
        site.set_root_path(path);
        site.repository
            .commit_directory("main", &directory, "The fleet");
        let (file, text) = change(&directory, path).expect("a Flux object");
        let main = site.repository.resolve("main").expect("main");
        site.repository.reset("change", &main);
        let changes = [Change::write(&file, text.as_bytes())];
        site.repository.commit("change", &changes, "A change");
        let pull = site.open("change");
        let start = Instant::now();
        site.plan(&pull);
        let time = start.elapsed();
        let text = site.comments(pull.number).remove(0);
        let summary = text.lines().find(|line| line.starts_with("### "));
        let summary = summary.unwrap_or_default();
        println!("{name}, {path}: {:.1} s: {summary}", time.as_secs_f64());
        // The hub has no object yet.
        assert!(summary.contains("1 to create"), "{text}");
    }
}
