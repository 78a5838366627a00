//! The next step after a command line that is not valid.

use crate::term;
use clap::Command;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use std::ffi::OsString;
use std::process::ExitCode;

/// Commands and flags of other tools: the command before the word, the word, and its equivalent
/// here.
const OTHER_TOOLS_COMMANDS: [(&str, &str, &str); 6] = [
    (
        "",
        "helm",
        "driftless template renders a chart, driftless get helmreleases lists releases",
    ),
    (
        "",
        "install",
        "driftless bootstrap, or driftless serve, installs what a hub lacks",
    ),
    ("kustomize", "build", "driftless build"),
    (
        "kustomize",
        "edit",
        "edit the kustomization.yaml by hand, or write a new one with driftless kustomize create",
    ),
    (
        "",
        "uninstall",
        "see infra/README.md for the removal of an installation",
    ),
    (
        "check",
        "--pre",
        "driftless doctor checks a cluster, before and after driftless serves it",
    ),
];

/// Prints an error of the parser with the next step, or the requested help, and returns the exit
/// code.
pub fn end(error: &Error, mut root: Command, line: &[OsString]) -> ExitCode {
    // If the terminal is closed, the error cannot be reported anywhere.
    let _ = error.print();
    if let Some(next) = next(error, &mut root, line) {
        term::next(&next);
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Returns the next step for an unknown command or flag.
fn next(error: &Error, root: &mut Command, line: &[OsString]) -> Option<String> {
    let kind = match error.kind() {
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        _ => return None,
    };
    let Some(ContextValue::String(word)) = error.get(kind) else {
        return None;
    };
    root.build();
    let (command, names) = place(root, line, word);
    let name = word.split('=').next().unwrap_or_default();
    let known = OTHER_TOOLS_COMMANDS
        .iter()
        .find(|(parent, other, _)| *parent == names && *other == name);
    if let Some((_, _, next)) = known {
        return Some((*next).to_owned());
    }
    let below: Vec<&str> = command
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .map(Command::get_name)
        .filter(|name| *name != "help")
        .collect();
    (kind == ContextKind::InvalidSubcommand).then(|| format!("give one of: {}", below.join(", ")))
}

/// Returns the command that the words before the wrong one name, and its name without `driftless`.
fn place<'c>(root: &'c Command, line: &[OsString], wrong: &str) -> (&'c Command, String) {
    let (mut command, mut names) = (root, Vec::new());
    let words = line.iter().skip(1).filter_map(|word| word.to_str());
    for word in words.take_while(|word| *word != wrong) {
        // The value of an option is also a word: skip words that are not commands.
        if let Some(below) = command.find_subcommand(word) {
            names.push(below.get_name());
            command = below;
        }
    }
    (command, names.join(" "))
}
