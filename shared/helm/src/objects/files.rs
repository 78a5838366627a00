//! The object `.Files`.

use crate::chart::ChartFile;
use crate::paths::{self, Glob};
use crate::yaml_write::to_yaml_text;
use base64::Engine as _;
use driftless_gotmpl::{Elem, FuncError, Map, Method, Param, Str, TypeInfo, Value};
use std::rc::Rc;

/// The type of `.Files`. Its contents are stored as strings; templates see bytes.
pub(crate) const FILES: TypeInfo = TypeInfo {
    name: "engine.files",
    elem: Elem::Bytes,
    methods: METHODS,
};

pub(crate) fn files_value(files: &[ChartFile]) -> Value {
    let entries = files
        .iter()
        .map(|f| (Str::from(&f.name), Value::Bytes(Rc::from(&f.data[..]))))
        .collect();
    Value::Map(Map::typed(&FILES, entries))
}

fn map(value: &Value) -> Result<&Map, FuncError> {
    value.as_map().ok_or_else(|| "not files".into())
}

fn content(files: &Value, name: &Value) -> Result<Rc<[u8]>, FuncError> {
    let name = name.as_str().cloned().unwrap_or_default();
    Ok(match map(files)?.get(&*name) {
        Some(Value::Bytes(b)) => b,
        _ => Rc::from(&b""[..]),
    })
}

fn base(path: &Str) -> Str {
    Str::from(paths::base(&path.lossy()))
}

/// Creates a map by base names; the last of equal ones in order of path wins, where Go takes any.
fn by_base(files: &Value, text: impl Fn(&[u8]) -> Str) -> Result<Value, FuncError> {
    let out = Map::new();
    for (path, data) in map(files)?.entries().iter() {
        if let Value::Bytes(b) = data {
            out.insert(base(path), Value::Str(text(b)));
        }
    }
    let text = to_yaml_text(&Value::Map(out))?;
    Ok(Value::str(text.strip_suffix('\n').unwrap_or(&text)))
}

const METHODS: &[Method] = &[
    Method {
        name: "GetBytes",
        params: &[Param::Str],
        variadic: false,
        call: |_, f, args| Ok(Value::Bytes(content(f, &args[0])?)),
    },
    Method {
        name: "Get",
        params: &[Param::Str],
        variadic: false,
        call: |e, f, args| {
            let data = content(f, &args[0])?;
            e.charge_bytes(data.len())?;
            Ok(Value::str(&data[..]))
        },
    },
    Method {
        name: "Glob",
        params: &[Param::Str],
        variadic: false,
        call: |e, f, args| {
            let pattern = args[0]
                .as_str()
                .map(ToString::to_string)
                .unwrap_or_default();
            let files = map(f)?;
            let glob = Glob::new(&pattern)?;
            e.charge(files.len() as u64 * 8)?;
            let kept = files
                .entries()
                .iter()
                .filter(|(name, _)| glob.matches(&name.lossy()))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect();
            Ok(Value::Map(Map::typed(&FILES, kept)))
        },
    },
    Method {
        name: "AsConfig",
        params: &[],
        variadic: false,
        call: |_, f, _| by_base(f, |b| Str::from(b)),
    },
    Method {
        name: "AsSecrets",
        params: &[],
        variadic: false,
        call: |_, f, _| {
            by_base(f, |b| {
                Str::from(base64::engine::general_purpose::STANDARD.encode(b))
            })
        },
    },
    Method {
        name: "Lines",
        params: &[Param::Str],
        variadic: false,
        call: |_, f, args| {
            let data = content(f, &args[0])?;
            if data.is_empty() {
                return Ok(Value::strings::<&str>([]));
            }
            let text = data.strip_suffix(b"\n").unwrap_or(&data);
            Ok(Value::strings(text.split(|b| *b == b'\n')))
        },
    },
];
