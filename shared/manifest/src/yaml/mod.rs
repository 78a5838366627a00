//! YAML as the Go tools of the field read and write it.
//!
//! Reading goes text -> [`Node`] (order, styles, tags, positions kept) -> `serde_json::Value` (typed as one of the two
//! [`Dialect`]s). Writing gives the bytes of `sigs.k8s.io/yaml`'s `Marshal`: keys sorted, lists not indented.
