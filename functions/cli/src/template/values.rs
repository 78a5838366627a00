//! The values of `-f` and of the `--set` flags.

use super::read;
use crate::error::Error;
use driftless_helm::Compat;
use driftless_helm::values::{self, SetKind, Table};

#[derive(clap::Args)]
#[group(skip)]
pub struct Args {
    /// A file of values, or - for stdin; later ones win
    #[arg(
        short = 'f',
        long = "values",
        value_name = "FILE",
        value_delimiter = ','
    )]
    files: Vec<String>,
    #[arg(long, value_name = "KEY=VALUE", help = "A value: a.b=1,c[0]=x")]
    set: Vec<String>,
    /// A value that is always a string
    #[arg(long, value_name = "KEY=TEXT")]
    set_string: Vec<String>,
    /// A value from a file
    #[arg(long, value_name = "KEY=FILE")]
    set_file: Vec<String>,
    /// A value in JSON
    #[arg(long, value_name = "KEY=JSON")]
    set_json: Vec<String>,
    /// A literal string, without escapes
    #[arg(long, value_name = "KEY=TEXT")]
    set_literal: Vec<String>,
}

impl Args {
    /// Reads and merges the values of all flags, in Helm's order: files, JSON, values, strings,
    /// contents of files, literals.
    pub fn read(&self, compat: Compat) -> Result<Table, Error> {
        let mut table = Table::new();
        for file in &self.files {
            let content = read(file)?;
            let more = values::read(&content, file, compat).map_err(Error::caused_by)?;
            table = values::merge(table, more);
        }
        let flags = [
            (SetKind::Json, &self.set_json),
            (SetKind::Typed, &self.set),
            (SetKind::Text, &self.set_string),
            (SetKind::File, &self.set_file),
            (SetKind::Literal, &self.set_literal),
        ];
        for (kind, arguments) in flags {
            for argument in arguments {
                values::set(&mut table, kind, argument, compat, &text).map_err(Error::caused_by)?;
            }
        }
        Ok(table)
    }
}

fn text(path: &str) -> Result<String, driftless_go::Error> {
    match read(path) {
        Ok(content) => Ok(String::from_utf8_lossy(&content).into_owned()),
        Err(error) => Err(error.message.into()),
    }
}
