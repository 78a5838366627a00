//! The output of objects on stdout, for programs.

use crate::error::Error;
use crate::term;
use clap::builder::EnumValueParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command, FromArgMatches, ValueEnum};
use driftless_manifest::{Object, yaml};
use serde_json::{Value, json};

const OUTPUT: &str = "output";

/// The values of `-o` of a command.
pub trait Format: ValueEnum + Send + Sync + 'static {
    /// The value if the flag is not given.
    const DEFAULT: &'static str;
}

/// The flag `-o`, also of the commands below its own.
pub struct Output<F> {
    /// The value of the flag.
    pub format: F,
}

impl<F: Format> clap::Args for Output<F> {
    fn augment_args(command: Command) -> Command {
        let flag = Arg::new(OUTPUT)
            .short('o')
            .long(OUTPUT)
            .global(true)
            .value_name("OUTPUT")
            .value_parser(EnumValueParser::<F>::new())
            .default_value(F::DEFAULT)
            .help("The output format");
        command.arg(flag)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<F: Format> FromArgMatches for Output<F> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let format = matches.get_one::<F>(OUTPUT).cloned().ok_or_else(|| {
            let message = "--output has no value\n";
            clap::Error::raw(ErrorKind::MissingRequiredArgument, message)
        })?;
        Ok(Self { format })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The format of the changed objects.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ChangedObjects {
    /// No output on stdout; progress goes to stderr
    Text,
    /// One object, or a List of several
    Json,
}

impl Format for ChangedObjects {
    const DEFAULT: &'static str = "text";
}

impl Output<ChangedObjects> {
    /// Writes the objects in the format of the flag.
    pub fn print(&self, objects: Vec<Object>, named: bool) -> Result<(), Error> {
        match self.format {
            ChangedObjects::Text => Ok(()),
            ChangedObjects::Json => print_json(&document(objects, named)),
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

impl Format for TextOrJson {
    const DEFAULT: &'static str = "text";
}

/// The format of a list, as a table or as JSON.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TableOrJson {
    /// A table
    Table,
    /// A JSON document
    Json,
}

impl Format for TableOrJson {
    const DEFAULT: &'static str = "table";
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
