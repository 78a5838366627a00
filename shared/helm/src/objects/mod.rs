//! The structs that templates can access.

mod capabilities;
mod chart;
mod files;
mod version;

pub(crate) use capabilities::capabilities_object;
pub use capabilities::{Capabilities, default_api_versions};
pub(crate) use chart::chart_value;
pub(crate) use files::files_value;
pub(crate) use version::SemVer;

use driftless_gotmpl::{Elem, TypeInfo};

/// The type of `.Values` in Helm 3.
pub(crate) const VALUES3: TypeInfo = TypeInfo {
    name: "chartutil.Values",
    elem: Elem::Any,
    methods: chart::VALUES_METHODS,
};

/// The type of `.Values` in Helm 4.
pub(crate) const VALUES4: TypeInfo = TypeInfo {
    name: "common.Values",
    elem: Elem::Any,
    methods: chart::VALUES_METHODS,
};
