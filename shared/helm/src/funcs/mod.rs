//! The functions of Helm's templates that are not bound to a chart: sprig's and Helm's own, a file a family.
//!
//! `include`, `tpl`, `required`, `fail` and `lookup` are in `crate::host`, with the [`Host`](crate::host::Host) that
//! gives time and entropy.

mod version;

use crate::compat::Compat;
use driftless_gotmpl::{FuncError, Function, Functions, Param, Value};

/// Every function but those that are bound to a chart.
pub(crate) fn functions(_compat: Compat) -> Functions {
    let mut functions = Functions::new();
    functions.insert(
        "toYaml",
        Function::new(&[Param::Any], |_, args| {
            Ok(Value::str(to_yaml_text(&args[0])?.trim_end_matches('\n')))
        }),
    );
    version::register(&mut functions);
    functions
}

/// A value as Go's YAML, with a line break at its end.
pub(crate) fn to_yaml_text(value: &Value) -> Result<String, FuncError> {
    let json = crate::convert::to_json(value)?;
    Ok(driftless_manifest::yaml::to_string(&json))
}
