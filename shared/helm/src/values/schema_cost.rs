//! The cost of checking values against a schema, computed before the check: the number of schemas
//! that apply to one place of the values, with references followed. A reference doubles its target
//! at each use, so that 60 short lines can require 2^60 checks; and each reference is a level of
//! the validator's recursion.

use driftless_go::Error as GoError;
use serde_json::Value as Json;
use std::collections::HashMap;

/// The maximal JSON nesting of a schema.
const MAX_DEPTH: usize = 200;

/// The maximal nesting of schemas and references that apply to one place.
const MAX_LEVELS: usize = 300;

/// The maximal schemas that apply to one place. Large public schemas stay below a hundred.
const MAX_APPLIED: u64 = 10_000;

/// The keywords whose schemas apply to the same place: one schema, or a list or table of them.
const IN_PLACE: [&str; 10] = [
    "$ref",
    "allOf",
    "anyOf",
    "dependencies",
    "dependentSchemas",
    "else",
    "if",
    "not",
    "oneOf",
    "then",
];

/// Checks a schema's cost.
///
/// # Errors
/// The exceeded limit, for a message that names the file.
pub(super) fn check(schema: &Json) -> Result<(), GoError> {
    if depth(schema) > MAX_DEPTH {
        return Err("the schema is nested too deeply".into());
    }
    let mut walk = Walk {
        names: HashMap::new(),
        root: schema,
        known: HashMap::new(),
    };
    walk.collect(schema);
    walk.every(schema)
}

/// Returns the nesting of a value; parsing has limited it already.
fn depth(value: &Json) -> usize {
    match value {
        Json::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Json::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

struct Walk<'s> {
    root: &'s Json,
    /// The schemas by `$id` and by `#anchor`.
    names: HashMap<String, &'s Json>,
    /// The number of schemas that apply together with each one; `None` while it is being computed.
    known: HashMap<*const Json, Option<u64>>,
}

impl<'s> Walk<'s> {
    fn collect(&mut self, schema: &'s Json) {
        match schema {
            Json::Array(items) => items.iter().for_each(|item| self.collect(item)),
            Json::Object(map) => {
                for (key, value) in map {
                    match (key.as_str(), value) {
                        ("$id" | "id", Json::String(id)) => {
                            self.names
                                .insert(id.trim_end_matches('#').to_owned(), schema);
                        }
                        ("$anchor" | "$dynamicAnchor", Json::String(name)) => {
                            self.names.insert(format!("#{name}"), schema);
                        }
                        _ => self.collect(value),
                    }
                }
            }
            _ => {}
        }
    }

    /// Counts the applied schemas of every schema, at any position.
    fn every(&mut self, schema: &'s Json) -> Result<(), GoError> {
        match schema {
            Json::Array(items) => items.iter().try_for_each(|item| self.every(item)),
            Json::Object(map) => {
                self.applied(schema, 0)?;
                map.values().try_for_each(|value| self.every(value))
            }
            _ => Ok(()),
        }
    }

    /// Returns the number of schemas that apply together with this one.
    fn applied(&mut self, schema: &'s Json, level: usize) -> Result<u64, GoError> {
        let Json::Object(map) = schema else {
            return Ok(1);
        };
        if level > MAX_LEVELS {
            return Err(format!("more than {MAX_LEVELS} references in a chain").into());
        }
        match self.known.get(&std::ptr::from_ref(schema)) {
            Some(Some(count)) => return Ok(*count),
            // A schema that refers to itself: the validator stops there.
            Some(None) => return Ok(1),
            None => {}
        }
        self.known.insert(std::ptr::from_ref(schema), None);
        let mut count = 1u64;
        for (key, value) in map.iter().filter(|(k, _)| IN_PLACE.contains(&k.as_str())) {
            count += match (key.as_str(), value) {
                ("$ref", Json::String(target)) => match self.target(target)? {
                    Some(target) => self.applied(target, level + 1)?,
                    None => 1,
                },
                (_, Json::Array(items)) => self.sum(items.iter(), level)?,
                ("dependencies" | "dependentSchemas", Json::Object(map)) => {
                    self.sum(map.values(), level)?
                }
                (_, value) => self.applied(value, level + 1)?,
            };
        }
        if count > MAX_APPLIED {
            return Err(format!("more than {MAX_APPLIED} schemas apply to one place").into());
        }
        self.known.insert(std::ptr::from_ref(schema), Some(count));
        Ok(count)
    }

    fn sum(
        &mut self,
        schemas: impl Iterator<Item = &'s Json>,
        level: usize,
    ) -> Result<u64, GoError> {
        let mut sum = 0;
        for schema in schemas {
            sum += self.applied(schema, level + 1)?;
        }
        Ok(sum)
    }

    /// Returns the target of a reference, if it is in the schema; the drafts' own schemas are left
    /// to the validator.
    fn target(&self, reference: &str) -> Result<Option<&'s Json>, GoError> {
        if ["http://json-schema.org/", "https://json-schema.org/"]
            .iter()
            .any(|known| reference.starts_with(known))
        {
            return Ok(None);
        }
        let (base, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let document = match base {
            "" => Some(self.root),
            base => self.names.get(base).copied().or_else(|| self.ending(base)),
        };
        let found = document.and_then(|document| match fragment {
            "" => Some(document),
            pointer if pointer.starts_with('/') => document.pointer(&decoded(pointer)),
            anchor => self.names.get(&format!("#{anchor}")).copied(),
        });
        found
            .map(Some)
            .ok_or_else(|| "a $ref leads out of the schema: files and hosts are not read".into())
    }

    /// Returns the schema whose `$id` a relative reference resolves to.
    fn ending(&self, reference: &str) -> Option<&'s Json> {
        let end = format!("/{}", reference.trim_start_matches("./"));
        let found = self.names.iter().find(|(id, _)| id.ends_with(&end));
        found.map(|(_, schema)| *schema)
    }
}

/// Decodes the percent signs' escapes of a pointer.
fn decoded(pointer: &str) -> String {
    let mut out = Vec::with_capacity(pointer.len());
    let mut rest = pointer.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let code = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if *first == b'%' => {
                out.push(byte);
                rest = &tail[2..];
            }
            _ => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
