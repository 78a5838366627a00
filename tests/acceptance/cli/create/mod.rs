//! `driftless create --export`, compared with the real `flux create --export`.

mod ssh;

use driftless_harness::command::{Done, driftless, words};
use driftless_harness::tools;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const COMMANDS: &str = include_str!("commands.txt");

/// The expected result of an argument list.
enum Expected {
    /// Both write the same manifests.
    Same,
    /// Both refuse, with this message.
    Refused(String),
    /// Both write manifests, but only those of driftless contain this string.
    More(String),
    /// Only driftless refuses, with this message.
    Stricter(String),
    /// Only Flux refuses.
    Laxer,
}

/// Returns the argument lists of the file, in which `\n` is a line break.
fn cases() -> Vec<(Vec<String>, Expected)> {
    let lines = COMMANDS.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let case = |line: &str| {
        let line = line.replace("\\n", "\n");
        let (line, message) = line.split_once(" => ").unwrap_or((&line, ""));
        let message = message.to_owned();
        if let Some(line) = line.strip_prefix("! ") {
            (words(line), Expected::Refused(message))
        } else if let Some(line) = line.strip_prefix("+ ") {
            (words(line), Expected::More(message))
        } else if let Some(line) = line.strip_prefix("- ") {
            (words(line), Expected::Stricter(message))
        } else if let Some(line) = line.strip_prefix("> ") {
            (words(line), Expected::Laxer)
        } else {
            (words(line), Expected::Same)
        }
    };
    lines.map(case).collect()
}

/// Creates the files that the argument lists name.
fn files() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, content: &[u8]| {
        std::fs::write(directory.path().join(name), content).expect("write a file");
    };
    let from = tools::tests().join("acceptance/cli/create/files");
    for entry in std::fs::read_dir(from).expect("list the files") {
        let path = entry.expect("a file").path();
        let name = path.file_name().and_then(|name| name.to_str());
        let content = std::fs::read(&path).expect("read a file");
        write(name.expect("a name"), &content);
    }
    let made = rcgen::generate_simple_self_signed(vec!["client.test".to_owned()]);
    let made = made.expect("a certificate");
    let other = rcgen::KeyPair::generate().expect("a key");
    for name in ["tls.crt", "ca.crt"] {
        write(name, made.cert.pem().as_bytes());
    }
    write("tls.key", made.signing_key.serialize_pem().as_bytes());
    for name in ["other.key", "key"] {
        write(name, other.serialize_pem().as_bytes());
    }
    directory
}

fn run(mut command: Command, directory: &Path, args: &[String]) -> Done {
    let command = command.arg("create").args(args).arg("--export");
    Done::of(command.current_dir(directory))
}

/// Runs Flux's command line and driftless in the same directory.
fn both(directory: &Path, args: &[String]) -> (Done, Done) {
    let home = tempfile::tempdir().expect("a home");
    let mut theirs = Command::new(tools::FLUX.path());
    theirs.env_clear().env("HOME", home.path());
    (
        run(theirs, directory, args),
        run(driftless(home.path()), directory, args),
    )
}

/// Returns Flux's output without the line about a deprecated flag.
fn exported(theirs: &Done) -> &str {
    match theirs.out.starts_with("Flag --") {
        true => theirs.out.split_once('\n').map_or("", |(_, rest)| rest),
        false => &theirs.out,
    }
}

/// Returns the output of a case whose result is not the expected one.
fn mismatch((theirs, ours): &(Done, Done), expected: &Expected) -> Option<String> {
    let refused = |done: &Done, words: &str| done.code != 0 && done.err.contains(words);
    let right = match expected {
        Expected::Same => theirs.code == 0 && ours.code == 0 && exported(theirs) == ours.out,
        Expected::More(words) => {
            let has = |done: &Done| done.code == 0 && done.out.contains(words.as_str());
            theirs.code == 0 && !has(theirs) && has(ours)
        }
        Expected::Refused(words) => {
            refused(theirs, words) && refused(ours, words) && ours.out.is_empty()
        }
        Expected::Stricter(words) => {
            theirs.code == 0 && refused(ours, words) && ours.out.is_empty()
        }
        Expected::Laxer => theirs.code != 0 && ours.code == 0 && !ours.out.is_empty(),
    };
    (!right).then(|| {
        format!(
            "flux {}:\n{}{}driftless {}:\n{}{}",
            theirs.code, theirs.out, theirs.err, ours.code, ours.out, ours.err
        )
    })
}

#[test]
fn create_as_flux() {
    let directory = files();
    let cases = cases();
    let (mut same, mut refused, mut failed) = (0, 0, Vec::new());
    for (args, expected) in &cases {
        match mismatch(&both(directory.path(), args), expected) {
            Some(output) => failed.push(format!("create {}\n{output}", args.join(" "))),
            None if matches!(expected, Expected::Same) => same += 1,
            None => refused += 1,
        }
    }
    println!("{same} exports are the same, {refused} argument lists are refused");
    assert!(
        failed.is_empty(),
        "{} of {} argument lists:\n\n{}",
        failed.len(),
        cases.len(),
        failed.join("\n\n")
    );
}

/// Returns the long flags in a command's own part of `--help`.
fn flags(help: &str) -> BTreeSet<&str> {
    let flags = help.lines().filter_map(|line| {
        // A flag follows its short form or begins its line; flags in examples do not.
        let line = line.trim_start();
        let line = line
            .strip_prefix('-')
            .filter(|rest| rest.get(1..3) == Some(", "))
            .map_or(line, |rest| &rest[3..]);
        let flag = line.strip_prefix("--")?;
        let end = flag.find(|one: char| !one.is_ascii_lowercase() && one != '-');
        Some(&flag[..end.unwrap_or(flag.len())])
    });
    flags.collect()
}

#[test]
fn every_flag_of_flux_create() {
    let directory = tempfile::tempdir().expect("a directory");
    let commands: BTreeSet<Vec<String>> = cases()
        .into_iter()
        .map(|(args, _)| {
            let group = ["source", "secret"].contains(&args[0].as_str());
            let name = if args[0] == "ks" {
                "kustomization"
            } else {
                &args[0]
            };
            let name = if name == "hr" { "helmrelease" } else { name };
            let more = args.get(1).filter(|_| group).cloned();
            [name.to_owned()].into_iter().chain(more).collect()
        })
        .collect();
    for command in &commands {
        let help = [command.as_slice(), &["--help".to_owned()]].concat();
        let (theirs, ours) = both(directory.path(), &help);
        let (theirs, ours) = (theirs.ok(), ours.ok());
        let (_, theirs) = theirs.split_once("\nFlags:\n").expect("flags");
        let (theirs, _) = theirs.split_once("\nGlobal Flags:\n").expect("other flags");
        let missing: Vec<_> = flags(theirs).difference(&flags(&ours)).copied().collect();
        assert!(missing.is_empty(), "{command:?} lacks {missing:?}");
    }
    println!("{} commands have all flags", commands.len());
    assert!(commands.len() >= 19, "{commands:?}");
}
