//! The kinds of `get` on the command line.

use crate::kinds::{Family, KindCommand, KindName, LISTED, LISTED_SOURCES, Verb, examples};
use clap::error::Error;
use clap::{ArgMatches, Command, FromArgMatches, Subcommand};
use driftless_flux::FluxKind;

/// The objects to print.
pub enum GetCommand {
    /// The objects of several kinds.
    All(&'static [FluxKind]),
    /// The objects of a kind, or one of them.
    Kind(KindCommand<Name>),
}

#[derive(clap::Args)]
pub struct Name {
    /// The object's name
    name: Option<String>,
}

/// The name of the command for the objects of several kinds.
pub const ALL: &str = "all";

impl Verb for Name {
    const LISTS: bool = true;

    fn help(name: &KindName) -> String {
        let (kind, example) = (name.listed(), name.example);
        examples(&[
            format!("get {kind} -A"),
            format!("get {kind} {example} -o yaml"),
        ])
    }

    fn family_help(family: &Family, first: &KindName) -> String {
        if !has_all(family) {
            return Self::help(first);
        }
        examples(&[
            format!("get {} {ALL} -A", family.many),
            format!("get {} {}", first.listed(), first.example),
        ])
    }

    fn all(family: Option<&Family>) -> Option<Command> {
        let (about, lines) = match family {
            None => (
                "Everything",
                vec![
                    "get all -A".to_owned(),
                    "get all -A --status-selector ready=false".to_owned(),
                ],
            ),
            Some(family) if has_all(family) => (
                "Sources of every kind",
                vec!["get sources all -A".to_owned()],
            ),
            Some(_) => return None,
        };
        Some(Command::new(ALL).about(about).after_help(examples(&lines)))
    }
}

/// Returns whether a family has a command for the objects of all its kinds.
fn has_all(family: &Family) -> bool {
    family.one == "source"
}

impl GetCommand {
    /// Returns the kinds to list.
    pub fn kinds(&self) -> &[FluxKind] {
        match self {
            Self::All(kinds) => kinds,
            Self::Kind(command) => std::slice::from_ref(&command.kind),
        }
    }

    /// Returns the name of the only object to list; `None` for all objects of the kinds.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::All(_) => None,
            Self::Kind(command) => command.args.name.as_deref(),
        }
    }

    /// Returns whether all objects have the same kind.
    pub fn is_one_kind(&self) -> bool {
        matches!(self, Self::Kind(_))
    }
}

impl Subcommand for GetCommand {
    fn augment_subcommands(command: Command) -> Command {
        KindCommand::<Name>::augment_subcommands(command)
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        name == ALL || KindCommand::<Name>::has_subcommand(name)
    }
}

impl FromArgMatches for GetCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        match matches.subcommand() {
            Some((ALL, _)) => Ok(Self::All(&LISTED)),
            Some((_, below)) if below.subcommand_name() == Some(ALL) => {
                Ok(Self::All(LISTED_SOURCES))
            }
            _ => KindCommand::from_arg_matches(matches).map(Self::Kind),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
