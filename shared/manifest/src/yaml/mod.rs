//! YAML as the Go tools of the field read and write it.
//!
//! Reading goes text -> [`Node`] (order, styles, tags, positions kept) -> `serde_json::Value` (typed as one of the two
//! [`Dialect`]s). Writing gives the bytes of `sigs.k8s.io/yaml`'s `Marshal`: keys sorted, lists not indented.

mod convert;
mod emit;
mod error;
mod events;
mod keysort;
mod node;
mod number;
mod parse;
mod resolve;
mod scan;
mod time;

pub use convert::{documents, documents_within, node_to_value};
pub use emit::{Document, View, to_string, write};
pub use error::{Budget, YamlError, YamlErrorKind};
pub use node::{Comment, Limits, Node, NodeKind, ScalarStyle};
pub use parse::{parse, parse_path, parse_with_comments, parse_within};

/// Which of Go's YAML libraries decides the type of a plain scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `sigs.k8s.io/yaml` v1.6 `Unmarshal`, as Helm, client-go and kubectl read: YAML 1.1 booleans (`yes`, `on`, `n`),
    /// octal `0777` and `0o777`, `1_000`, `0b1`; timestamps stay strings.
    V2,
    /// `go.yaml.in/yaml/v3` and then JSON, as kyaml and kustomize read: `yes` and `on` are strings, an unquoted timestamp
    /// becomes its RFC 3339 text.
    V3,
}
