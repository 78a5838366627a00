//! Flags of the real tools that change nothing here: known, so that a command line for those works as it is.

use clap::builder::{BoolishValueParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use std::marker::PhantomData;

/// Which flags.
pub trait Flags {
    /// Each flag; see [`switch`] and [`value`].
    fn flags() -> Vec<Arg>;
}

/// The flags of a command that are accepted, without a value of their own.
pub struct Accepted<F>(PhantomData<F>);

/// A flag that may have a value behind a `=`, such as `true`.
pub fn switch(name: &'static str) -> Arg {
    value(name, BoolishValueParser::new())
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("true")
}

/// A flag with a value that has to be a valid one.
pub fn value(name: &'static str, parser: impl Into<ValueParser>) -> Arg {
    Arg::new(name)
        .long(name)
        .action(ArgAction::Append)
        .hide(true)
        .value_parser(parser.into())
}

impl<F: Flags> FromArgMatches for Accepted<F> {
    fn from_arg_matches(_: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(PhantomData))
    }

    fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), clap::Error> {
        Ok(())
    }
}

impl<F: Flags> Args for Accepted<F> {
    fn augment_args(command: Command) -> Command {
        command.args(F::flags())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
