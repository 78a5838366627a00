//! The YAML reader, as both of Go's libraries read, and the writer.

use super::files;
use driftless_manifest::yaml::{self, Dialect, Limits};
use std::path::Path;

/// Reads the input; the value must be the same after the writer and the reader.
pub fn run(data: &[u8]) {
    for dialect in [Dialect::V2, Dialect::V3] {
        let Ok(values) = yaml::documents(data, "input", dialect, &Limits::default()) else {
            continue;
        };
        for value in values {
            let text = yaml::to_string(&value);
            let again = yaml::documents(text.as_bytes(), "written", dialect, &Limits::default())
                .unwrap_or_else(|error| panic!("written text is not read: {error}"));
            assert_eq!(again, [value], "written and read as {dialect:?}");
        }
    }
}

/// Returns every YAML file of the kustomize corpus.
pub fn seeds(corpus: &Path) -> Vec<Vec<u8>> {
    let files = files::below(&corpus.join("kustomize"));
    let yaml = files
        .into_iter()
        .filter(|(path, _)| path.ends_with(".yaml"));
    yaml.map(|(_, bytes)| bytes).collect()
}
