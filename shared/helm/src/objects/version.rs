//! The result of `semver`.

use driftless_go::semver::{Part, Version};
use driftless_gotmpl::{FuncError, IntType, Kind, Method, Object, Param, Value};
use std::any::Any;
use std::borrow::Cow;
use std::rc::Rc;

pub(crate) struct SemVer {
    pub version: Version,
    /// True if templates have a pointer to it.
    pub pointer: bool,
}

fn get(value: &Value) -> Result<&Version, FuncError> {
    match value {
        Value::Object(o) => match o.as_any().downcast_ref::<SemVer>() {
            Some(v) => Ok(&v.version),
            None => Err("not a version".into()),
        },
        _ => Err("not a version".into()),
    }
}

fn number(n: u64) -> Value {
    Value::Int(n as i64, IntType::Uint64)
}

const OTHER: &[Param] = &[Param::Host("semver.Version")];

macro_rules! method {
    ($name:literal, $params:expr, |$v:ident, $a:ident| $body:expr) => {
        Method {
            name: $name,
            params: $params,
            variadic: false,
            call: |_, value, $a| {
                let $v = get(value)?;
                $body
            },
        }
    };
}

fn bumped(v: &Version, part: Part) -> Result<Value, FuncError> {
    Ok(Value::Object(Rc::new(SemVer {
        version: v.bump(part),
        pointer: false,
    })))
}

fn order(v: &Version, other: &Value) -> Result<std::cmp::Ordering, FuncError> {
    Ok(v.compare(get(other)?))
}

const METHODS: &[Method] = &[
    method!("Major", &[], |v, _a| Ok(number(v.major))),
    method!("Minor", &[], |v, _a| Ok(number(v.minor))),
    method!("Patch", &[], |v, _a| Ok(number(v.patch))),
    method!("Prerelease", &[], |v, _a| Ok(Value::str(&v.pre))),
    method!("Metadata", &[], |v, _a| Ok(Value::str(&v.metadata))),
    method!("Original", &[], |v, _a| Ok(Value::str(&v.original))),
    method!("String", &[], |v, _a| Ok(Value::str(v.to_string()))),
    method!("IncMajor", &[], |v, _a| bumped(v, Part::Major)),
    method!("IncMinor", &[], |v, _a| bumped(v, Part::Minor)),
    method!("IncPatch", &[], |v, _a| bumped(v, Part::Patch)),
    method!("Compare", OTHER, |v, a| Ok(Value::int(
        order(v, &a[0])? as i64
    ))),
    method!("Equal", OTHER, |v, a| Ok(Value::Bool(
        order(v, &a[0])?.is_eq()
    ))),
    method!("LessThan", OTHER, |v, a| Ok(Value::Bool(
        order(v, &a[0])?.is_lt()
    ))),
    method!("LessThanEqual", OTHER, |v, a| Ok(Value::Bool(
        order(v, &a[0])?.is_le()
    ))),
    method!("GreaterThan", OTHER, |v, a| Ok(Value::Bool(
        order(v, &a[0])?.is_gt()
    ))),
    method!("GreaterThanEqual", OTHER, |v, a| Ok(Value::Bool(
        order(v, &a[0])?.is_ge()
    ))),
];

impl Object for SemVer {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed(if self.pointer {
            "*semver.Version"
        } else {
            "semver.Version"
        })
    }
    fn kind(&self) -> Kind {
        if self.pointer {
            Kind::Ptr
        } else {
            Kind::Struct
        }
    }
    fn fields(&self) -> Vec<(&'static str, Value)> {
        Vec::new()
    }
    fn methods(&self) -> &'static [Method] {
        METHODS
    }
    fn string(&self) -> Option<String> {
        Some(self.version.to_string())
    }
    fn json(&self) -> Option<Value> {
        Some(Value::str(self.version.to_string()))
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
