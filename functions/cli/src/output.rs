//! The output of objects on stdout, for programs.

use crate::error::Error;
use crate::term;
use clap::ValueEnum;
use driftless_manifest::{Object, yaml};
use serde_json::{Value, json};

/// The flag of commands that change objects for their output on stdout.
#[derive(clap::Args)]
pub struct Output {
    /// The format in which the changed objects are written to stdout
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// No output on stdout; progress goes to stderr
    Text,
    /// One object, or a List of several
    Json,
}

impl Output {
    /// Writes the objects in the format of the flag.
    pub fn print(&self, objects: Vec<Object>, named: bool) -> Result<(), Error> {
        match self.output {
            Format::Text => Ok(()),
            Format::Json => print_json(&document(objects, named)),
        }
    }
}

/// The format of a report, in lines or as JSON.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TextOrJson {
    /// A line for each result
    Text,
    /// A JSON document
    Json,
}

/// The format of a list, as a table or as JSON.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TableOrJson {
    /// A table
    Table,
    /// A JSON document
    Json,
}

/// Writes a document to stdout.
pub fn print_json(document: &Value) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(document).map_err(Error::caused_by)?;
    term::result(&(text + "\n"))
}

/// Writes an object to stdout as a separate YAML document.
pub fn manifest(object: &Value) -> Result<(), Error> {
    term::result(&format!("---\n{}\n", yaml::to_string(object).trim()))
}

/// Returns the named object, or a List.
pub fn document(objects: Vec<Object>, named: bool) -> Value {
    let mut items: Vec<Value> = objects.into_iter().map(Object::into_value).collect();
    if named && items.len() == 1 {
        return items.remove(0);
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}
