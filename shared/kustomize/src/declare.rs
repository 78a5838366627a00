//! The types of a kustomization's fields, and the conversion of values to them as in Go's JSON
//! decoder (`encoding/json`, src/encoding/json/decode.go of Go 1.26): names in any case, null as
//! absent, types strict.

use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// The type of a field.
pub(crate) enum Type {
    Text,
    Bool,
    Int,
    /// A map of strings; its keys are chosen by the user.
    Texts,
    List(&'static Type),
    Struct(&'static [Field]),
    /// A map of any values.
    Map,
}

use Type::{Bool, Int, List, Struct, Text, Texts};

/// A field of a struct.
pub(crate) enum Field {
    Named(&'static str, Type),
    /// The fields of another struct, inlined (an embedded struct in Go).
    Embedded(&'static Type),
}

/// A type whose JSON fields are declared.
pub(crate) trait Declared {
    const TYPE: Type;
}

impl Declared for String {
    const TYPE: Type = Text;
}

impl Declared for Cow<'static, str> {
    const TYPE: Type = Text;
}

impl Declared for bool {
    const TYPE: Type = Bool;
}

impl Declared for i64 {
    const TYPE: Type = Int;
}

impl Declared for BTreeMap<String, String> {
    const TYPE: Type = Texts;
}

impl Declared for Map<String, Value> {
    const TYPE: Type = Type::Map;
}

impl<T: Declared> Declared for Option<T> {
    const TYPE: Type = T::TYPE;
}

impl<T: Declared + 'static> Declared for Vec<T> {
    const TYPE: Type = List(&T::TYPE);
}

/// Declares a struct of kustomize's API: each field with its name in JSON. `embedded` fields are
/// those of another struct; `unused` ones are accepted and have no effect on a build.
macro_rules! declare {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $(embedded $flat_vis:vis $flat:ident: $flat_type:ty,)*
            $($(#[$field_meta:meta])* $key:literal $field_vis:vis $field:ident: $type:ty,)*
            $(unused { $($unused:literal: $unused_type:ty,)* })?
        }
    ) => {
        $(#[$meta])*
        #[derive(Default, serde::Deserialize)]
        #[serde(default)]
        $vis struct $name {
            $(#[serde(flatten)] $flat_vis $flat: $flat_type,)*
            $($(#[$field_meta])* #[serde(rename = $key)] $field_vis $field: $type,)*
        }

        impl $crate::declare::Declared for $name {
            const TYPE: $crate::declare::Type = $crate::declare::Type::Struct(&[
                $($crate::declare::Field::Embedded(
                    &<$flat_type as $crate::declare::Declared>::TYPE,
                ),)*
                $($crate::declare::Field::Named(
                    $key,
                    <$type as $crate::declare::Declared>::TYPE,
                ),)*
                $($($crate::declare::Field::Named(
                    $unused,
                    <$unused_type as $crate::declare::Declared>::TYPE,
                ),)*)?
            ]);
        }
    };
}
pub(crate) use declare;

/// The error of a value that does not fit its field. Never contains the value.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FieldError {
    /// A value of another type.
    #[error("'{field}' is {found}, expected {expected}")]
    Type {
        /// The path of the field.
        field: String,
        /// The type of the value.
        found: &'static str,
        /// The type of the field.
        expected: &'static str,
    },
    /// A field that the type does not have.
    #[error("unknown field '{field}'{}", Hint(.nearest))]
    Unknown {
        /// The path of the field.
        field: String,
        /// A field of the type whose name differs by a plural or a letter.
        nearest: Option<&'static str>,
    },
    /// A value that the model refuses.
    #[error(transparent)]
    Model(#[from] serde_json::Error),
}

/// The field that may be meant, as the end of a message.
struct Hint<'a>(&'a Option<&'static str>);

impl fmt::Display for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => write!(f, ", did you mean '{name}'?"),
            None => Ok(()),
        }
    }
}

/// The strictness of the conversion.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mode {
    /// True if unknown fields are refused; otherwise they are dropped.
    pub strict: bool,
    /// True if numbers and booleans become strings where a string is expected, as when Go reads
    /// YAML into a known type.
    pub coerce: bool,
}

/// The path of a value. Most documents are valid, so it becomes a string only in an error.
#[derive(Clone, Copy)]
enum Path<'p> {
    Document,
    Field(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Document => Ok(()),
            Path::Field(Path::Document, key) => f.write_str(key),
            Path::Field(outer, key) => write!(f, "{outer}.{key}"),
            Path::Item(outer, index) => write!(f, "{outer}[{index}]"),
        }
    }
}

/// Converts a document to the form that the model deserializes.
///
/// # Errors
/// [`FieldError::Unknown`], or [`FieldError::Type`].
pub(crate) fn normalize(
    document: Value,
    kind: &'static Type,
    mode: Mode,
) -> Result<Value, FieldError> {
    convert(document, kind, Path::Document, mode)
}

fn convert(
    value: Value,
    kind: &'static Type,
    at: Path<'_>,
    mode: Mode,
) -> Result<Value, FieldError> {
    let expected = |expected| {
        Err(FieldError::Type {
            field: at.to_string(),
            found: describe(&value),
            expected,
        })
    };
    match (kind, &value) {
        (Type::Map, Value::Object(_)) | (Text, Value::String(_)) | (Bool, Value::Bool(_)) => {
            Ok(value)
        }
        (Type::Map, _) => expected("a map"),
        (Int, Value::Number(number)) if number.is_i64() || number.is_u64() => Ok(value),
        (Text, Value::Bool(_) | Value::Number(_)) if mode.coerce => {
            Ok(Value::String(value.to_string()))
        }
        (Text, Value::Null) => Ok(Value::String(String::new())),
        (Text, _) => expected("a string"),
        (Bool, _) => expected("true or false"),
        (Int, _) => expected("a whole number"),
        (Texts, Value::Object(_)) => texts(value, at, mode),
        (Texts, _) => expected("a map of strings"),
        (List(element), Value::Array(_)) => {
            let Value::Array(items) = value else {
                return Ok(value);
            };
            let item = |(index, item)| convert(item, element, Path::Item(&at, index), mode);
            Ok(Value::Array(
                items
                    .into_iter()
                    .enumerate()
                    .map(item)
                    .collect::<Result<_, _>>()?,
            ))
        }
        (List(_), _) => expected("a list"),
        (Struct(fields), Value::Object(_)) => {
            let Value::Object(map) = value else {
                return Ok(value);
            };
            object(map, fields, at, mode)
        }
        (Struct(_), Value::Null) => Ok(Value::Object(Map::new())),
        (Struct(_), _) => expected("a map"),
    }
}

fn object(
    map: Map<String, Value>,
    fields: &'static [Field],
    at: Path<'_>,
    mode: Mode,
) -> Result<Value, FieldError> {
    let mut result = Map::new();
    for (key, value) in map {
        let path = Path::Field(&at, &key);
        let exact = find(fields, &|name| name == key);
        let field = exact.or_else(|| find(fields, &|name| name.eq_ignore_ascii_case(&key)));
        match field {
            Some(_) if value.is_null() => {}
            Some((name, kind)) => {
                result.insert(name.to_owned(), convert(value, kind, path, mode)?);
            }
            None if !mode.strict => {}
            None => {
                return Err(FieldError::Unknown {
                    field: path.to_string(),
                    nearest: nearest(&key, fields),
                });
            }
        }
    }
    Ok(Value::Object(result))
}

/// Returns the first field with the wanted name.
fn find(
    fields: &'static [Field],
    is_wanted: &dyn Fn(&str) -> bool,
) -> Option<(&'static str, &'static Type)> {
    fields.iter().find_map(|field| match field {
        Field::Named(name, kind) => is_wanted(name).then_some((*name, kind)),
        Field::Embedded(Struct(fields)) => find(fields, is_wanted),
        Field::Embedded(_) => None,
    })
}

fn texts(value: Value, at: Path<'_>, mode: Mode) -> Result<Value, FieldError> {
    let Value::Object(map) = value else {
        return Ok(value);
    };
    let text = |(key, value): (String, Value)| match value {
        Value::String(_) => Ok((key, value)),
        Value::Null => Ok((key, Value::String(String::new()))),
        Value::Bool(_) | Value::Number(_) if mode.coerce => {
            Ok((key, Value::String(value.to_string())))
        }
        other => Err(FieldError::Type {
            field: Path::Field(&at, &key).to_string(),
            found: describe(&other),
            expected: "a string: put it in quotes",
        }),
    };
    Ok(Value::Object(
        map.into_iter().map(text).collect::<Result<_, _>>()?,
    ))
}

fn describe(value: &Value) -> &'static str {
    match value {
        Value::Null => "empty",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

/// Returns the field whose name differs by a plural or a letter.
fn nearest(key: &str, fields: &'static [Field]) -> Option<&'static str> {
    let lower = key.to_lowercase();
    let close = |name: &str| {
        let name = name.to_lowercase();
        name.starts_with(&lower)
            || lower.starts_with(&name)
            || name.trim_end_matches('s') == lower.trim_end_matches('s')
    };
    let (name, _) = find(fields, &close).filter(|_| lower.len() > 3)?;
    Some(name)
}
