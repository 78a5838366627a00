//! The version of Helm whose behavior is reproduced where versions differ.

/// The version of Helm whose behavior is reproduced where versions differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compat {
    /// Helm 3.22: nulls in a chart's values stay, `.Chart` is a struct, documents are trimmed on
    /// both sides.
    #[default]
    Helm3,
    /// Helm 4.3: nulls in a chart's values are dropped, `.Chart` is a map, documents are trimmed on
    /// the left.
    Helm4,
}
