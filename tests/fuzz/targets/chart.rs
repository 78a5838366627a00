//! A whole render: a chart's files, dependencies, values, schemas, templates with every function,
//! sorting.

use super::files;
use super::template::LIMITS;
use driftless_helm::values::{self, Table};
use driftless_helm::{
    Chart, ChartFile, Compat, LoadLimits, Options, Outcome, Render, manifest_text,
};
use std::path::Path;

/// The file of `-f`; every other one is the chart's.
const GIVEN: &str = "given.yaml";

/// Renders the files as both Helms do; a second render must be the same.
pub fn run(data: &[u8]) {
    let files = files::split(data);
    super::on_large_stack(move || {
        for compat in [Compat::Helm3, Compat::Helm4] {
            let first = text(&files, compat);
            assert_eq!(first, text(&files, compat), "second render");
        }
    });
}

fn text(files: &[(String, Vec<u8>)], compat: Compat) -> Result<String, String> {
    let (given, chart): (Vec<_>, Vec<_>) = files.iter().partition(|(name, _)| name == GIVEN);
    let own = chart.iter().map(|(name, data)| ChartFile {
        name: name.clone(),
        data: data.as_slice().into(),
    });
    let shown = |error: driftless_helm::HelmError| error.to_string();
    let chart = Chart::from_files(own.collect(), compat, &LoadLimits::default()).map_err(shown)?;
    let mut user = Table::new();
    for (name, text) in given {
        user = values::merge(user, values::read(text, name, compat).map_err(shown)?);
    }
    match Render::new(&chart, &user, &options(compat))
        .run()
        .map_err(shown)?
    {
        Outcome::Done(rendered) => Ok(manifest_text(&rendered, true)),
        Outcome::Needs(needs) => Ok(format!("{needs:?}")),
    }
}

/// Returns the options of a release with a fixed time and fixed entropy.
pub fn options(compat: Compat) -> Options {
    Options {
        compat,
        now: (1_790_000_000, 0),
        entropy: [3; 32],
        limits: LIMITS,
        ..Options::new("rel", "ns")
    }
}

/// Returns the charts of the corpus with their values as inputs.
pub fn seeds(corpus: &Path) -> Vec<Vec<u8>> {
    charts(corpus)
        .iter()
        .map(|files| files::input(files))
        .collect()
}

/// Returns the files of the corpus's charts.
pub fn charts(corpus: &Path) -> Vec<Vec<(String, Vec<u8>)>> {
    let text = std::fs::read_to_string(corpus.join("helm/generated.jsonl"));
    let text = text.expect("the charts of the corpus");
    let chart = |line: &str| {
        let case: serde_json::Value = serde_json::from_str(line).expect("a chart");
        let files = case["files"].as_object().into_iter().flatten();
        let bytes = |value: &serde_json::Value| value.as_str().unwrap_or_default().into();
        let mut files: Vec<(String, Vec<u8>)> = files
            .map(|(name, data)| (name.clone(), bytes(data)))
            .collect();
        let given = case["values"].as_array().into_iter().flatten();
        files.extend(given.map(|given| (GIVEN.to_owned(), bytes(given))));
        files
    };
    text.lines().map(chart).collect()
}
