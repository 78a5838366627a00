//! `driftless completion` and `driftless man`: files for shells and for `man`, written by clap from
//! the definitions of the commands.

use crate::error::{EXIT_CODES, Error};
use crate::term;
use clap::{Command, ValueEnum};
use clap_complete::Shell;
use std::path::{Path, PathBuf};

const COMPLETION: &str = "Examples:
  driftless completion bash >/etc/bash_completion.d/driftless
  driftless completion zsh >\"${fpath[1]}/_driftless\"
  driftless completion fish >~/.config/fish/completions/driftless.fish
  driftless completion powershell >>$PROFILE";
const MAN: &str = "Examples:
  driftless man | man -l -
  driftless man --directory /usr/local/share/man/man1";

/// Print the completion of a shell
#[derive(clap::Args)]
#[command(after_help = format!("{COMPLETION}\n\n{EXIT_CODES}"))]
pub struct CompletionArgs {
    /// The shell
    #[arg(value_enum)]
    shell: ShellName,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ShellName {
    Bash,
    Zsh,
    Fish,
    Powershell,
}

/// Print the manual page, or write those of all commands
#[derive(clap::Args)]
#[command(after_help = format!("{MAN}\n\n{EXIT_CODES}"))]
pub struct ManArgs {
    /// Write a page for each command into this directory, which must exist
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl From<ShellName> for Shell {
    fn from(name: ShellName) -> Self {
        match name {
            ShellName::Bash => Self::Bash,
            ShellName::Zsh => Self::Zsh,
            ShellName::Fish => Self::Fish,
            ShellName::Powershell => Self::PowerShell,
        }
    }
}

/// Prints the completion of a shell.
///
/// # Errors
/// stdout cannot be written.
pub fn completion(args: &CompletionArgs, mut root: Command) -> Result<(), Error> {
    let mut text = Vec::new();
    clap_complete::generate(Shell::from(args.shell), &mut root, "driftless", &mut text);
    term::result(&String::from_utf8_lossy(&text))
}

/// Prints the page of `driftless`, or writes the pages of all commands.
///
/// # Errors
/// The directory does not exist, or a page cannot be written.
pub fn man(args: &ManArgs, mut root: Command) -> Result<(), Error> {
    root.build();
    let Some(directory) = &args.directory else {
        return term::result(&String::from_utf8_lossy(&page(&root, "driftless")?));
    };
    if !directory.is_dir() {
        let shown = directory.display();
        return Err(
            Error::usage(format!("--directory: {shown} is not a directory"))
                .next(format!("mkdir -p {shown}")),
        );
    }
    let count = pages(&root, "driftless", directory)?;
    term::success(&format!("{count} pages written to {}", directory.display()));
    Ok(())
}

/// Writes the page of a command and those of the commands below it.
fn pages(command: &Command, name: &str, directory: &Path) -> Result<usize, Error> {
    let file = directory.join(format!("{name}.1"));
    std::fs::write(&file, page(command, name)?)
        .map_err(|error| Error::caused_by(error).context(file.display()))?;
    let below = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set() && below.get_name() != "help");
    below
        .map(|below| pages(below, &format!("{name}-{}", below.get_name()), directory))
        .try_fold(1, |sum, count| Ok(sum + count?))
}

fn page(command: &Command, name: &str) -> Result<Vec<u8>, Error> {
    let mut text = Vec::new();
    let written = clap_mangen::Man::new(command.clone()).render(&mut text);
    written.map_err(|error| Error::caused_by(error).context(format!("{name}.1")))?;
    Ok(text)
}
