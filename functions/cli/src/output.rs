//! Objects on stdout, for programs.

use crate::error::Error;
use crate::term;
use clap::ValueEnum;
use driftless_manifest::Object;
use serde_json::{Value, json};

/// What a command that changes objects writes to stdout.
#[derive(clap::Args)]
pub struct Output {
    /// Write the objects as they are in the end to stdout
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Nothing: what happens is told on stderr
    Text,
    /// One object, or a List of several
    Json,
}

impl Output {
    /// Writes the objects, in the form that was asked for.
    pub fn print(&self, objects: Vec<Object>, named: bool) -> Result<(), Error> {
        match self.output {
            Format::Text => Ok(()),
            Format::Json => print_json(&document(objects, named)),
        }
    }
}

/// Writes a document to stdout.
pub fn print_json(document: &Value) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(document).map_err(Error::new)?;
    term::result(&(text + "\n"))
}

/// The object that was named, or a list.
pub fn document(objects: Vec<Object>, named: bool) -> Value {
    let mut items: Vec<Value> = objects.into_iter().map(Object::into_value).collect();
    if named && items.len() == 1 {
        return items.remove(0);
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}
