//! Commands with a subcommand for each kind.

use super::{Family, KindName};
use clap::error::{Error, ErrorKind};
use clap::{ArgMatches, Command, FromArgMatches, Subcommand};
use driftless_flux::FluxKind;

/// The arguments of a command about objects, which may differ by kind.
pub trait KindArgs: Sized {
    /// Adds the arguments for objects of a kind to its subcommand.
    fn declare(kind: FluxKind, command: Command) -> Command;

    /// Reads the arguments.
    ///
    /// # Errors
    /// An argument is not valid.
    fn read(kind: FluxKind, matches: &mut ArgMatches) -> Result<Self, Error>;
}

impl<A: clap::Args> KindArgs for A {
    fn declare(_: FluxKind, command: Command) -> Command {
        Self::augment_args(command)
    }

    fn read(_: FluxKind, matches: &mut ArgMatches) -> Result<Self, Error> {
        Self::from_arg_matches_mut(matches)
    }
}

/// A command with a subcommand for each of some kinds.
pub trait Verb: KindArgs {
    /// True if the subcommands have the names for all objects.
    const LISTS: bool = false;
    /// True if the kinds of a family are also accepted without its name.
    const ACCEPTS_BARE_NAMES: bool = false;

    /// Returns whether a kind has a subcommand.
    fn accepts(_: FluxKind) -> bool {
        true
    }

    /// Returns the end of the help of a kind, which has [`examples`].
    fn help(name: &KindName) -> String;

    /// Returns the end of the help of a family.
    fn family_help(_: &Family, first: &KindName) -> String {
        Self::help(first)
    }

    /// Returns the command for the objects of all kinds, or of those of a family.
    fn all(_: Option<&Family>) -> Option<Command> {
        None
    }
}

/// Returns the examples of a help text: what follows `driftless` in each line.
pub fn examples(lines: &[String]) -> String {
    let lines: String = lines
        .iter()
        .map(|line| format!("\n  driftless {line}"))
        .collect();
    format!("Examples:{lines}")
}

/// The kind that a command line names, and the arguments.
pub struct KindCommand<V> {
    /// The kind of the objects.
    pub kind: FluxKind,
    /// The arguments after the kind.
    pub args: V,
}

fn kinds<V: Verb>() -> impl Iterator<Item = FluxKind> {
    super::ALL.into_iter().filter(|kind| V::accepts(*kind))
}

impl<V: Verb> KindCommand<V> {
    fn name(name: &KindName) -> &'static str {
        if V::LISTS { name.many } else { name.one }
    }

    fn family_name(family: &Family) -> &'static str {
        if V::LISTS { family.many } else { family.one }
    }

    /// Returns the subcommand of a kind.
    fn kind(kind: FluxKind) -> Command {
        let name = KindName::of(kind);
        let shown = Self::name(&name);
        V::declare(kind, Command::new(shown))
            .about(name.about)
            .long_about(None)
            .visible_aliases(name.short)
            .aliases(name.aliases(shown))
            .after_help(V::help(&name))
    }

    /// Returns the subcommand of a family, with those of its kinds.
    fn family(family: &Family, kinds: &[FluxKind], first: &KindName) -> Command {
        let shown = Self::family_name(family);
        Command::new(shown)
            .about(family.about)
            .aliases(family.aliases(shown))
            .after_help(V::family_help(family, first))
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommands(V::all(Some(family)))
            .subcommands(kinds.iter().copied().map(Self::kind))
    }

    /// Returns the kind with a name, in a family or outside of all.
    fn find(family: Option<&str>, name: &str) -> Option<FluxKind> {
        let mut kinds = kinds::<V>();
        kinds.find(|kind| {
            let names = KindName::of(*kind);
            let is_there = match family {
                None => names.family.is_none() || V::ACCEPTS_BARE_NAMES,
                family => names.family.map(Self::family_name) == family,
            };
            is_there && Self::name(&names) == name
        })
    }

    /// Returns whether a family has a name.
    fn is_family(name: &str) -> bool {
        let mut families = kinds::<V>().filter_map(|kind| KindName::of(kind).family);
        families.any(|family| Self::family_name(family) == name)
    }
}

impl<V: Verb> Subcommand for KindCommand<V> {
    fn augment_subcommands(command: Command) -> Command {
        let family = |kind: &FluxKind| KindName::of(*kind).family.map(|family| family.one);
        let is_same = |a: &FluxKind, b: &FluxKind| family(a).is_some() && family(a) == family(b);
        let all: Vec<FluxKind> = kinds::<V>().collect();
        let shown = all.chunk_by(is_same).flat_map(|kinds| {
            let first = kinds.first().map(|kind| KindName::of(*kind));
            match first.and_then(|first| Some((first.family?, first))) {
                Some((family, first)) => vec![Self::family(family, kinds, &first)],
                None => kinds.iter().copied().map(Self::kind).collect(),
            }
        });
        let bare = kinds::<V>().filter(|kind| V::ACCEPTS_BARE_NAMES && family(kind).is_some());
        command
            .subcommands(V::all(None))
            .subcommands(shown)
            .subcommands(bare.map(|kind| Self::kind(kind).hide(true)))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        Self::is_family(name) || Self::find(None, name).is_some()
    }
}

impl<V: Verb> FromArgMatches for KindCommand<V> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Self::from_arg_matches_mut(&mut matches.clone())
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        let (first, mut matches) = subcommand(matches)?;
        let (family, name) = match Self::is_family(&first) {
            true => {
                let (name, below) = subcommand(&mut matches)?;
                matches = below;
                (Some(first.as_str()), name)
            }
            false => (None, first.clone()),
        };
        let kind = Self::find(family, &name).ok_or_else(|| {
            let message = format!("the subcommand '{name}' is not a kind\n");
            Error::raw(ErrorKind::InvalidSubcommand, message)
        })?;
        let args = V::read(kind, &mut matches)?;
        Ok(Self { kind, args })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn subcommand(matches: &mut ArgMatches) -> Result<(String, ArgMatches), Error> {
    matches.remove_subcommand().ok_or_else(|| {
        let message = "a subcommand is required\n";
        Error::raw(ErrorKind::MissingSubcommand, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Args)]
    struct Name {
        name: String,
    }

    impl Verb for Name {
        const ACCEPTS_BARE_NAMES: bool = true;

        fn help(name: &KindName) -> String {
            examples(&[format!("show {name}")])
        }
    }

    fn parse(words: &[&str]) -> (FluxKind, String) {
        let command = KindCommand::<Name>::augment_subcommands(Command::new("show"));
        let line = ["show"].iter().chain(words).chain(&["apps"]);
        let mut matches = command.try_get_matches_from(line).unwrap();
        let found = KindCommand::<Name>::from_arg_matches_mut(&mut matches).unwrap();
        (found.kind, found.args.name)
    }

    #[test]
    fn every_name_of_a_kind_selects_it() {
        for kind in FluxKind::ALL {
            let name = KindName::of(kind);
            let names = [Some(name.one), Some(name.many), name.short, name.other];
            for one in names.into_iter().flatten() {
                let expected = (kind, "apps".to_owned());
                assert_eq!(parse(&[one]), expected, "{one}");
                if let Some(family) = name.family {
                    for of in [family.one, family.many, family.other] {
                        assert_eq!(parse(&[of, one]), expected, "{of} {one}");
                    }
                }
            }
        }
    }
}
