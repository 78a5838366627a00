//! YAML, read and written compatibly with the Go tools.
//!
//! A file is parsed to [`Node`]s (with order, styles, tags and positions), and converted to
//! `serde_json::Value`s (with the types of one of the two [`Dialect`]s). Values are written with
//! the bytes of `sigs.k8s.io/yaml`'s `Marshal`: keys sorted, lists not indented.

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

pub use convert::{documents, documents_within, node_to_value, plain_to_value};
pub use emit::{Document, View, to_string, write};
pub use error::{Budget, YamlError, YamlErrorKind};
pub use node::{Comment, Limits, Node, NodeKind, ScalarStyle};
pub use parse::{parse, parse_path, parse_with_comments, parse_within};

/// The Go YAML library that decides the type of a plain scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `sigs.k8s.io/yaml` v1.6 `Unmarshal`, which Helm, client-go and kubectl use: YAML 1.1
    /// booleans (`yes`, `on`, `n`), octal `0777` and `0o777`, `1_000`, `0b1`; timestamps stay
    /// strings.
    V2,
    /// `go.yaml.in/yaml/v3` and then JSON, which kyaml and kustomize use: `yes` and `on` are
    /// strings, an unquoted timestamp becomes its RFC 3339 string.
    V3,
}
