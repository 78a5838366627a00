//! Options of many commands, which may also come before the command, as with `flux` and `kubectl`.

use crate::accepted::Flags;
use clap::Arg;
use std::ffi::OsString;

/// The options that may come before the command. Each command defines those that it has. They are
/// declared here for the help of `driftless`, and so that they can be moved.
pub struct Global;

impl Flags for Global {
    fn flags() -> Vec<Arg> {
        let option = |name: &'static str, value: &'static str, help: &'static str| {
            let arg = Arg::new(name).long(name).value_name(value).help(help);
            arg.help_heading("Options before or after the command, if the command has them")
        };
        vec![
            option("namespace", "NAME", "The namespace").short('n'),
            option("kubeconfig", "FILE", "The kubeconfig"),
            option("context", "NAME", "The kubeconfig's context"),
            option("output", "FORMAT", "The output format").short('o'),
            option("timeout", "DURATION", "The time to wait"),
        ]
    }
}

/// Moves the options before the command to the place after it, where the command's own parser
/// accepts or refuses them. A command line with another option before the command, or without a
/// command, is returned unchanged.
pub fn move_after_command(line: Vec<OsString>) -> Vec<OsString> {
    let flags = Global::flags();
    let mut at = 1;
    loop {
        let Some(text) = line.get(at).and_then(|word| word.to_str()) else {
            return line;
        };
        if !text.starts_with('-') {
            break;
        }
        match words(&flags, text) {
            Some(words) => at += words,
            None => return line,
        }
    }
    let mut line = line;
    line[1..=at].rotate_right(1);
    line
}

/// Returns the number of words of an option with its value; `None` if it is not one of `flags`.
fn words(flags: &[Arg], text: &str) -> Option<usize> {
    if let Some(long) = text.strip_prefix("--") {
        let (name, value) = match long.split_once('=') {
            Some((name, _)) => (name, true),
            None => (long, false),
        };
        let known = flags.iter().any(|flag| flag.get_long() == Some(name));
        return known.then_some(if value { 1 } else { 2 });
    }
    let short = text.chars().nth(1)?;
    let known = flags.iter().any(|flag| flag.get_short() == Some(short));
    known.then_some(if text.len() > 2 { 1 } else { 2 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(line: &str) -> String {
        let line = line.split(' ').map(OsString::from).collect();
        let moved = move_after_command(line);
        let words: Vec<&str> = moved.iter().filter_map(|word| word.to_str()).collect();
        words.join(" ")
    }

    #[test]
    fn options_before_the_command_follow_it() {
        for (line, want) in [
            ("d get all", "d get all"),
            ("d -n apps get sources git", "d get -n apps sources git"),
            (
                "d -napps --kubeconfig=f --context c get all -A",
                "d get -napps --kubeconfig=f --context c all -A",
            ),
            (
                "d --timeout 1m -o json resume ks a",
                "d resume --timeout 1m -o json ks a",
            ),
            // Left to clap.
            ("d", "d"),
            ("d -n apps", "d -n apps"),
            ("d -n", "d -n"),
            ("d --help", "d --help"),
            (
                "d -n apps --nonsense get all",
                "d -n apps --nonsense get all",
            ),
            ("d - get", "d - get"),
        ] {
            assert_eq!(moved(line), want, "{line}");
        }
    }
}
