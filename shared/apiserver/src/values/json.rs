//! Parses JSON as Go reads it into typed fields: a duplicate key is reported, and its second value
//! is merged over the first.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// A document and the keys that it has more than once, as `spec.template.spec.containers[0].image`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Document {
    pub value: Value,
    pub duplicate_fields: Vec<String>,
}

/// Reads one document.
///
/// # Errors
/// A body that is not JSON.
pub(crate) fn read(body: &[u8]) -> Result<Document, serde_json::Error> {
    let mut duplicate_fields = Vec::new();
    let mut reader = serde_json::Deserializer::from_slice(body);
    let seed = Seed {
        path: String::new(),
        duplicate_fields: &mut duplicate_fields,
    };
    let value = seed.deserialize(&mut reader)?;
    reader.end()?;
    Ok(Document {
        value,
        duplicate_fields,
    })
}

struct Seed<'a> {
    path: String,
    duplicate_fields: &'a mut Vec<String>,
}

impl Seed<'_> {
    fn below(&mut self, path: String) -> Seed<'_> {
        Seed {
            path,
            duplicate_fields: self.duplicate_fields,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        let mut out = Vec::new();
        loop {
            let path = format!("{}[{}]", self.path, out.len());
            match items.next_element_seed(self.below(path))? {
                Some(item) => out.push(item),
                None => return Ok(Value::Array(out)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        let mut out = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let path = match self.path.as_str() {
                "" => key.clone(),
                parent => format!("{parent}.{key}"),
            };
            let value = entries.next_value_seed(self.below(path.clone()))?;
            match out.get_mut(&key) {
                Some(before) => {
                    self.duplicate_fields.push(path);
                    put_over(before, value);
                }
                None => {
                    out.insert(key, value);
                }
            }
        }
        Ok(Value::Object(out))
    }
}

/// Merges the second value of a duplicate key over the first.
fn put_over(before: &mut Value, value: Value) {
    match (before, value) {
        (Value::Object(before), Value::Object(value)) => {
            for (key, value) in value {
                match before.get_mut(&key) {
                    Some(before) => put_over(before, value),
                    None => {
                        before.insert(key, value);
                    }
                }
            }
        }
        (before, value) => *before = value,
    }
}
