//! Flags of kustomize, Helm and Flux that have no effect here. They are accepted, so that a command
//! line for those tools works unchanged.

use clap::builder::{BoolishValueParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use std::marker::PhantomData;

/// A set of flags for [`Accepted`].
pub trait Flags {
    /// Returns the flags; see [`switch`] and [`value`].
    fn flags() -> Vec<Arg>;
}

/// The flags of a command that are accepted and ignored: their values are not kept.
pub struct Accepted<F>(PhantomData<F>);

/// Returns a flag that may have a Boolean value after a `=`, such as `true`.
pub fn switch(name: &'static str) -> Arg {
    value(name, BoolishValueParser::new())
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("true")
}

/// Returns a flag whose value must pass `parser`.
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
