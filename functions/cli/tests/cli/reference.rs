//! The documents of the command: REFERENCE.md is the `--help` of every command, and
//! `DRIFTLESS_WRITE=1 cargo test -p driftless --test cli reference` rewrites it; README.md has
//! every command, output format and environment variable.

use driftless_harness::command::run;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const TITLE: &str = "# Reference of the driftless command

Written by `DRIFTLESS_WRITE=1 cargo test -p driftless --test cli reference` from `--help` of each command. An option that a command
shares with the commands below it is listed once, at the upper one. [README.md](README.md) has the commands by task.
";
const HEADING: &str = "Commands:\n";

/// The parsed `--help` of a command.
struct Help {
    /// The words after `driftless`.
    command: Vec<String>,
    about: String,
    usage: String,
    /// The sections of arguments, options and examples.
    details: Vec<Section>,
    /// The subcommands.
    commands: Vec<String>,
}

/// A part of a help page: a heading with entries, or a paragraph.
#[derive(Clone, PartialEq, Eq)]
struct Section {
    heading: String,
    /// The entries, each with its first line without the description as the key.
    entries: Vec<(String, String)>,
}

fn sections(details: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for line in details.lines() {
        let indent = line.len() - line.trim_start().len();
        match sections.last_mut() {
            _ if indent == 0 && !line.is_empty() => sections.push(Section {
                heading: format!("{line}\n"),
                entries: Vec::new(),
            }),
            // A long option is after the column of short options.
            Some(section) if matches!(indent, 2 | 6) && line.trim_start().starts_with('-') => {
                let words = line.trim_start();
                let known = words.split("  ").next().unwrap_or(words);
                section
                    .entries
                    .push((known.to_owned(), format!("{line}\n")));
            }
            Some(section) => {
                let text = match section.entries.last_mut() {
                    Some((_, text)) => text,
                    None => &mut section.heading,
                };
                text.push_str(line);
                text.push('\n');
            }
            None => {}
        }
    }
    sections
}

impl Section {
    fn has_entries(&self) -> bool {
        !self.entries.is_empty()
    }

    fn text(&self) -> String {
        let entries: String = self.entries.iter().map(|(_, text)| text.as_str()).collect();
        format!("{}{entries}", self.heading)
    }
}

impl Help {
    fn of(command: Vec<String>) -> Self {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let text = run(&[words.as_slice(), &["--help"]].concat()).ok();
        let (about, rest) = text.split_once("Usage: ").expect("a usage");
        let (usage, rest) = rest.split_once("\n\n").expect("options");
        let listed = rest.strip_prefix(HEADING).unwrap_or_default();
        let listed = listed.split("\n\n").next().unwrap_or_default();
        // A name is indented by two columns, the second line of a description by more.
        let names = listed.lines().filter_map(|line| line.strip_prefix("  "));
        let names = names.filter_map(|line| line.split(' ').next());
        let commands = names.filter(|name| !name.is_empty() && *name != "help");
        Self {
            commands: commands.map(str::to_owned).collect(),
            about: about.trim().to_owned(),
            usage: usage.trim().to_owned(),
            details: sections(rest),
            command,
        }
    }

    fn below(&self) -> impl Iterator<Item = Self> {
        let commands = self.commands.iter().cloned();
        commands.map(|name| Self::of([self.command.as_slice(), &[name]].concat()))
    }

    fn name(&self) -> String {
        format!("driftless {}", self.command.join(" "))
    }

    fn options(&self) -> BTreeSet<String> {
        let entries = self.details.iter().flat_map(|section| &section.entries);
        entries.map(|(known, _)| known.clone()).collect()
    }

    /// Removes the options that the page of the parent has.
    fn without(&mut self, known: &BTreeSet<String>) {
        let had = |section: &Section| section.has_entries();
        self.details.retain_mut(|section| {
            let before = had(section);
            let is_apart = section.text().ends_with("\n\n");
            section.entries.retain(|(entry, _)| !known.contains(entry));
            if is_apart && !section.text().ends_with("\n\n") {
                let last = section.entries.last_mut();
                last.map_or(&mut section.heading, |(_, text)| text)
                    .push('\n');
            }
            had(section) || !before
        });
    }

    /// Returns the arguments and options, without the examples.
    fn takes(&self) -> Vec<&Section> {
        let details = self.details.iter();
        details
            .filter(|one| !one.heading.starts_with("Examples:"))
            .collect()
    }

    /// Writes the section of the command and its subcommands. `known` are the options of the
    /// parents' pages.
    fn write(&self, text: &mut String, known: &BTreeSet<String>) {
        let level = "#".repeat(self.command.len() + 1);
        let (name, about, usage) = (self.name(), &self.about, &self.usage);
        let details: String = self.details.iter().map(Section::text).collect();
        let details = details.trim();
        write!(
            text,
            "\n{level} {name}\n\n{about}.\n\n```text\n{usage}\n\n{details}\n```\n"
        )
        .expect("write to a string");
        let known: BTreeSet<String> = known.union(&self.options()).cloned().collect();
        let mut written: Vec<Self> = Vec::new();
        for mut command in self.below() {
            command.without(&known);
            let like = written
                .iter()
                .find(|one| one.commands.is_empty() && one.takes() == command.takes());
            match like {
                // The kinds of objects take the same arguments.
                Some(like) => {
                    let (name, about) = (command.name(), &command.about);
                    let like = like.name();
                    writeln!(text, "\n`{name}`: {about}; as `{like}`.").expect("write to a string");
                }
                None => command.write(text, &known),
            }
            written.push(command);
        }
    }
}

fn reference() -> String {
    let mut text = TITLE.to_owned();
    let root = Help::of(Vec::new());
    let help = BTreeSet::from(["-h, --help".to_owned()]);
    for mut command in root.below() {
        command.without(&help);
        command.write(&mut text, &help);
    }
    text
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn document(name: &str) -> String {
    std::fs::read_to_string(directory().join(name)).expect("read the document")
}

#[test]
fn the_reference_is_equal_to_the_help_pages() {
    let wanted = reference();
    for command in ["serve", "build", "get sources git", "resume source chart"] {
        assert!(
            wanted.contains(&format!("driftless {command}")),
            "{command}"
        );
    }
    if std::env::var_os("DRIFTLESS_WRITE").is_some() {
        std::fs::write(directory().join("REFERENCE.md"), &wanted).expect("write REFERENCE.md");
    } else {
        let written = document("REFERENCE.md");
        assert_eq!(written, wanted, "DRIFTLESS_WRITE=1 writes the new text");
    }
    // Options of many commands are listed once for each group.
    let shared = wanted
        .matches("The kubeconfig file [default: KUBECONFIG")
        .count();
    let groups = [
        "audit",
        "bootstrap",
        "create",
        "delete",
        "diff",
        "doctor",
        "events",
        "export",
        "get",
        "history",
        "plan",
        "reconcile",
        "suspend",
        "resume",
        "serve",
        "stats",
        "trace",
        "tree",
        "version",
    ];
    assert_eq!(shared, groups.len());
}

/// Returns the cells of the table below a heading of a document.
fn table(document: &str, heading: &str) -> Vec<Vec<String>> {
    let (_, rest) = document
        .split_once(&format!("\n## {heading}\n"))
        .unwrap_or_else(|| panic!("no heading '{heading}'"));
    let rest = rest.split("\n## ").next().unwrap_or_default();
    let rows = rest.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = rows.map(|row| row.split(" | ").map(str::to_owned).collect());
    cells.collect()
}

#[test]
fn the_readme_has_every_command_and_format() {
    let readme = document("README.md");
    let commands = table(&readme, "Commands by task");
    let formats = table(&readme, "Output formats");
    let mut wrong = Vec::new();
    for command in Help::of(Vec::new()).below() {
        let name = command.command.join(" ");
        let named = format!("`{name}`");
        if !commands
            .iter()
            .any(|row| row.iter().any(|cell| cell.contains(&named)))
        {
            wrong.push(format!("Commands by task: no {named}"));
        }
        let details: String = command.details.iter().map(Section::text).collect();
        let Some((_, output)) = details.split_once("--output <") else {
            continue;
        };
        // The values of this option, before the next one.
        let output = output.split("\n      --").next().unwrap_or_default();
        let output = output.split("\n  -").next().unwrap_or_default();
        let inline = output.split_once("[possible values: ");
        let values: Vec<&str> = match inline {
            Some((_, values)) => {
                let values = values.split(']').next().unwrap_or_default();
                values.split(',').map(str::trim).collect()
            }
            None => {
                let lines = output.lines().map(str::trim);
                let lines = lines.filter_map(|line| line.strip_prefix("- "));
                lines.filter_map(|line| line.split(':').next()).collect()
            }
        };
        let row = formats.iter().find(|row| row[0].contains(&named));
        let Some(row) = row else {
            wrong.push(format!("Output formats: no {named}"));
            continue;
        };
        for value in values {
            if !row[1].contains(&format!("`{value}`")) {
                wrong.push(format!("Output formats: {named} has no `{value}`"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the names of environment variables in a source file: quoted names in capitals.
fn variables(text: &str) -> BTreeSet<String> {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let reads = ["env::var", "env = \"", "get(\"", "needed(\""];
    if !reads.iter().any(|read| text.contains(read)) {
        return BTreeSet::new();
    }
    let quoted = text.split('"').skip(1).step_by(2);
    let is_name = |word: &&str| {
        let capital = |byte: u8| byte.is_ascii_uppercase() || byte == b'_' || byte.is_ascii_digit();
        let is_known = word.contains('_') || matches!(*word, "KUBECONFIG" | "TERM");
        is_known && word.len() > 1 && word.bytes().all(capital) && !word.starts_with("CARGO_")
    };
    quoted.filter(is_name).map(str::to_owned).collect()
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("list a directory") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => sources(&path, found),
            false => found.push(path),
        }
    }
}

#[test]
fn the_readme_has_every_environment_variable() {
    let mut files = Vec::new();
    sources(&directory().join("src"), &mut files);
    sources(&directory().join("../../shared/adapters/src"), &mut files);
    let mut read = BTreeSet::new();
    for file in files
        .iter()
        .filter(|file| file.extension().is_some_and(|one| one == "rs"))
    {
        read.extend(variables(
            &std::fs::read_to_string(file).expect("read a source"),
        ));
    }
    for known in [
        "KUBECONFIG",
        "GITHUB_TOKEN",
        "DRIFTLESS_BUCKET",
        "HELM_NAMESPACE",
    ] {
        assert!(read.contains(known), "{known} is not found in {read:?}");
    }
    let rows = table(&document("README.md"), "Environment");
    let written: String = rows.iter().map(|row| row[0].as_str()).collect();
    let missing: Vec<&String> = read
        .iter()
        .filter(|name| !written.contains(&format!("`{name}`")))
        .collect();
    assert!(missing.is_empty(), "README.md, Environment: no {missing:?}");
}
