//! The functions semver and semverCompare.

use crate::objects::SemVer;
use driftless_go::semver::{Constraint, Version};
use driftless_gotmpl::{Function, Functions, Param, Value};
use std::rc::Rc;

pub(super) fn register(functions: &mut Functions) {
    functions.insert(
        "semver",
        Function::new(&[Param::Str], |_, args| {
            let version = Version::parse(&text(&args[0]))?;
            Ok(Value::Object(Rc::new(SemVer {
                version,
                pointer: true,
            })))
        }),
    );
    functions.insert(
        "semverCompare",
        Function::new(&[Param::Str, Param::Str], |_, args| {
            let constraint = Constraint::parse(&text(&args[0]))?;
            let version = Version::parse(&text(&args[1]))?;
            Ok(Value::Bool(constraint.check(&version)))
        }),
    );
}

fn text(value: &Value) -> String {
    value.as_str().map(ToString::to_string).unwrap_or_default()
}
