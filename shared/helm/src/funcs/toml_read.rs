//! The TOML reader: TOML to values.

use driftless_gotmpl::{Map, Value};

/// Converts a table to a map: integers are int64, dates are strings.
pub(super) fn table(table: &toml::Table) -> Value {
    let map = Map::new();
    for (key, item) in table {
        map.insert(key, value(item));
    }
    Value::Map(map)
}

fn value(item: &toml::Value) -> Value {
    match item {
        toml::Value::String(s) => Value::str(s),
        toml::Value::Integer(i) => Value::int64(*i),
        toml::Value::Float(f) => Value::Float(*f),
        toml::Value::Boolean(b) => Value::Bool(*b),
        toml::Value::Datetime(d) => Value::str(d.to_string()),
        toml::Value::Array(items) => Value::list(items.iter().map(value).collect()),
        toml::Value::Table(inner) => table(inner),
    }
}
