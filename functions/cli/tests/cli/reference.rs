//! The reference in README.md, which is what `--help` of every command says. `DRIFTLESS_WRITE=1 cargo test -p driftless --test cli
//! reference` writes it anew.

use driftless_harness::command::run;
use std::fmt::Write as _;
use std::path::Path;

/// What is written by hand stands above it.
const MARKER: &str =
    "<!-- Below: DRIFTLESS_WRITE=1 cargo test -p driftless --test cli reference -->\n";
const HEADING: &str = "Commands:\n";

/// What `--help` of a command says.
struct Help {
    /// The words behind `driftless`.
    command: Vec<String>,
    about: String,
    usage: String,
    /// Arguments, options, examples.
    details: String,
    /// The commands below it.
    commands: Vec<String>,
}

impl Help {
    fn of(command: Vec<String>) -> Self {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let text = run(&[words.as_slice(), &["--help"]].concat()).ok();
        let (about, rest) = text.split_once("Usage: ").expect("a usage");
        let (usage, rest) = rest.split_once("\n\n").expect("options");
        let listed = rest.strip_prefix(HEADING).unwrap_or_default();
        let listed = listed.split("\n\n").next().unwrap_or_default();
        // A name stands two columns in, the second line of a description further.
        let names = listed.lines().filter_map(|line| line.strip_prefix("  "));
        let names = names.filter_map(|line| line.split(' ').next());
        let commands = names.filter(|name| !name.is_empty() && *name != "help");
        Self {
            commands: commands.map(str::to_owned).collect(),
            about: about.trim().to_owned(),
            usage: usage.trim().to_owned(),
            details: rest.trim_end().to_owned(),
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

    /// Everything about the command and those below it.
    fn write(&self, text: &mut String) {
        let level = "#".repeat(self.command.len() + 2);
        let (name, about) = (self.name(), &self.about);
        let (usage, details) = (&self.usage, &self.details);
        write!(
            text,
            "\n{level} {name}\n\n{about}.\n\n```text\n{usage}\n\n{details}\n```\n"
        )
        .expect("write to a text");
        let mut told: Vec<Self> = Vec::new();
        for command in self.below() {
            let like = told
                .iter()
                .find(|one| one.commands.is_empty() && one.details == command.details);
            match like {
                // The kinds of objects take the same arguments.
                Some(like) => {
                    let (name, about) = (command.name(), &command.about);
                    let like = like.name();
                    writeln!(text, "\n`{name}`: {about}; as `{like}`.").expect("write to a text");
                }
                None => command.write(text),
            }
            told.push(command);
        }
    }
}

fn reference() -> String {
    let mut text = String::new();
    for command in Help::of(Vec::new()).below() {
        command.write(&mut text);
    }
    text
}

#[test]
fn the_reference_is_what_help_says() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let document = std::fs::read_to_string(&file).expect("read README.md");
    let (by_hand, written) = document.split_once(MARKER).expect("the marker");
    let wanted = reference();
    for command in ["serve", "build", "get sources git", "resume source chart"] {
        assert!(
            wanted.contains(&format!("driftless {command}")),
            "{command}"
        );
    }
    if std::env::var_os("DRIFTLESS_WRITE").is_some() {
        let document = [by_hand, MARKER, &wanted].concat();
        std::fs::write(&file, document).expect("write README.md");
    } else {
        assert_eq!(written, wanted, "DRIFTLESS_WRITE=1 writes the new text");
    }
}
