//! The words of the sources and documents. Each pattern finds a phrase that a reader of Flux,
//! Kubernetes and Rust would stumble over; its ceiling is the number of lines that still have one,
//! and may only fall.

use std::path::Path;

use driftless_harness::tools;
use regex::Regex;

/// Where a pattern is looked for.
#[derive(Clone, Copy, PartialEq)]
enum Scope {
    /// The first line of a doc comment.
    DocOpening,
    /// A doc comment of a single line.
    SingleLineDoc,
    /// A comment that has a line of its own.
    Comment,
    /// Rust code and comments.
    Rust,
    /// String literals of Rust code that is not a test.
    Message,
    /// Rust files and Markdown.
    Everywhere,
}
use Scope::*;

struct Phrase {
    pattern: &'static str,
    /// Matches that are not meant.
    except: &'static str,
    scope: Scope,
    better: &'static str,
    ceiling: usize,
}

const fn phrase(
    scope: Scope,
    ceiling: usize,
    pattern: &'static str,
    better: &'static str,
) -> Phrase {
    Phrase {
        pattern,
        except: "",
        scope,
        better,
        ceiling,
    }
}

const fn except(phrase: Phrase, except: &'static str) -> Phrase {
    Phrase { except, ..phrase }
}

/// The longest line of a comment, in columns.
const COLUMNS: usize = 100;

const VERB: &str = "begin the doc of a function with a verb (Returns, Checks, Reads), of a type or field with a noun";
const NOUN: &str = "name the object, file or field first, then what is wrong and what was expected";
const PLAIN: &str = "say it in plain words: subject, verb, object";

const PHRASES: &[Phrase] = &[
    phrase(
        DocOpening,
        0,
        "^(What|Whom|Whose|Who|Whoever|Whatever) ",
        VERB,
    ),
    phrase(
        DocOpening,
        0,
        "^Whether ",
        "Returns whether, Checks that, True if",
    ),
    phrase(DocOpening, 0, r"^(Where|How|When|Why)\b", VERB),
    phrase(
        DocOpening,
        7,
        "^(As|Of|For|With|Not|From|In|On|By|Until) ",
        VERB,
    ),
    phrase(
        SingleLineDoc,
        9,
        r"^(\S+ )?\S+\.$",
        "say what the item holds, or leave the doc out",
    ),
    phrase(
        Comment,
        0,
        r"\b(says|said)\b",
        "returns, reports, specifies, documents",
    ),
    phrase(
        Everywhere,
        2,
        r"\b(tells?|told|telling)\b",
        "report, return, log, pass",
    ),
    except(
        phrase(
            Everywhere,
            0,
            r"\b(stands?|stood)\b( for|-ins?)?",
            "is, exists, is at",
        ),
        "(for|-ins?)$",
    ),
    phrase(
        Everywhere,
        3,
        r"\b(nobody|somebody|anybody|everybody|whoever|no one)\b",
        "name the actor: a user, another writer, no caller",
    ),
    phrase(Everywhere, 5, r"\b(a|the|no) text\b", "a string"),
    phrase(Everywhere, 3, r"\b[Ff]olders?\b", "directory"),
    except(
        phrase(
            Everywhere,
            6,
            r"\b(is|are|was|were) no [a-z]+",
            "is not a, does not have",
        ),
        "(longer|more)$",
    ),
    phrase(
        Everywhere,
        6,
        r"\b(is|are) none\b",
        "is not one, is not valid",
    ),
    phrase(
        Everywhere,
        1,
        r"\bas (it|they) (is|are|stands?|was|were|comes?|came)\b",
        "unchanged",
    ),
    phrase(
        Everywhere,
        0,
        r"\b(looks? at|a look|looks? again|looked at)\b",
        "reads, checks, reconciles",
    ),
    phrase(
        Everywhere,
        2,
        r"\b(in each other|inside of|beside)\b",
        "nested; in; next to, in addition to",
    ),
    phrase(Everywhere, 0, ", too\\b", "also"),
    phrase(Everywhere, 2, r"\bof (its|their) own\b", "its own"),
    phrase(
        Everywhere,
        4,
        r"\b(twice|once more|again and again)\b",
        "duplicate, again, repeatedly",
    ),
    phrase(
        Everywhere,
        1,
        r"\b(wakes?|woken|woke)\b",
        "requeue, start, notify",
    ),
    phrase(Everywhere, 0, r"\bany more\b", "no longer"),
    phrase(
        Everywhere,
        0,
        r"\bso (many|long|much|large)\b",
        "the number; this many",
    ),
    phrase(Everywhere, 1, r"\bgoes on\b", "continues"),
    phrase(Everywhere, 0, r"\bas [A-Za-z]+ has it\b", "as X does"),
    phrase(Everywhere, 0, r"\bbut for\b", "except"),
    phrase(
        Everywhere,
        0,
        r"\b(comes?|becomes?|came|became) of\b",
        "the result of",
    ),
    phrase(Everywhere, 0, r"\b(is|are) to be\b", "must be"),
    phrase(Everywhere, 0, r"\bof (before|old)\b", "previous, earlier"),
    phrase(
        Everywhere,
        0,
        r"\bat (hand|home|last)\b",
        "available; finally",
    ),
    phrase(Everywhere, 0, r"\b(shall|mend|mends|mended)\b", "must, fix"),
    phrase(
        Message,
        0,
        r"^(it|they) (is|are|has|have|does|do|was|were|cannot|ends|must|names|stands|needs|wants|lacks)\b",
        NOUN,
    ),
    except(
        phrase(
            Message,
            0,
            r"\b(nobody|somebody|whoever|tells?|told|stands( for)?|stood|shall)\b",
            PLAIN,
        ),
        "for$",
    ),
    except(
        phrase(
            Message,
            0,
            r"\b(is|are|was|were) (no [a-z]+|none\b)",
            "is not a, is not valid",
        ),
        "(longer|more)$",
    ),
    phrase(
        Rust,
        0,
        r"\blet (mut )?(what|why|how|lead|told|said)\b",
        "message, reason, prefix, kind",
    ),
    phrase(
        Rust,
        0,
        r"\bfn (told|shown|given|met|made|known|asked|said|kept|wanted|found|taken|held)\b",
        "a verb: report, find, request",
    ),
];

/// A line of a source or document.
struct Line<'t> {
    file: &'t str,
    number: usize,
    text: &'t str,
    /// The text of the comment, if the line is one.
    comment: Option<&'t str>,
    is_doc: bool,
    /// True if the line before is a comment of the same kind.
    continues: bool,
    /// True if the line after is a comment of the same kind.
    is_continued: bool,
    is_rust: bool,
    is_test: bool,
}

fn marker(line: &str) -> Option<&'static str> {
    let line = line.trim_start();
    ["///", "//!", "//"]
        .into_iter()
        .find(|marker| line.starts_with(marker))
}

fn lines<'t>(file: &'t str, text: &'t str) -> Vec<Line<'t>> {
    let all: Vec<&str> = text.lines().collect();
    let is_rust = file.ends_with(".rs");
    let mut is_test = file.starts_with("tests/") || file.contains("/tests");
    let mut lines = Vec::with_capacity(all.len());
    for (index, text) in all.iter().enumerate() {
        is_test |= text.trim_start().starts_with("#[cfg(test)]");
        let marker_here = marker(text).filter(|_| is_rust);
        let is_same = |other: Option<&&str>| {
            marker_here.is_some() && other.and_then(|other| marker(other)) == marker_here
        };
        lines.push(Line {
            file,
            number: index + 1,
            text,
            comment: marker_here.map(|marker| text.trim_start()[marker.len()..].trim_start()),
            is_doc: marker_here == Some("///"),
            continues: is_same(index.checked_sub(1).and_then(|index| all.get(index))),
            is_continued: is_same(all.get(index + 1)),
            is_rust,
            is_test,
        });
    }
    lines
}

/// The string literals of a line, without their quotes. Literals of several lines are not found.
fn literals(line: &str) -> Vec<&str> {
    let mut literals = Vec::new();
    let (mut start, mut is_escaped) = (None, false);
    for (index, character) in line.char_indices() {
        match (character, start) {
            _ if is_escaped => is_escaped = false,
            ('\\', _) => is_escaped = true,
            ('"', None) => start = Some(index + 1),
            ('"', Some(from)) => {
                literals.push(&line[from..index]);
                start = None;
            }
            _ => {}
        }
    }
    literals
}

impl Line<'_> {
    fn has(&self, phrase: &Phrase, pattern: &Regex, exception: &Regex) -> bool {
        let found = |text: &str| {
            let mut matches = pattern.find_iter(text);
            matches.any(|found| phrase.except.is_empty() || !exception.is_match(found.as_str()))
        };
        let comment = self.comment.unwrap_or_default();
        match phrase.scope {
            DocOpening => self.is_doc && !self.continues && found(comment),
            SingleLineDoc => self.is_doc && !self.continues && !self.is_continued && found(comment),
            Comment => self.comment.is_some() && found(comment),
            Rust => self.is_rust && found(self.text),
            Message => {
                let is_code = self.is_rust && self.comment.is_none() && !self.is_test;
                is_code && literals(self.text).into_iter().any(found)
            }
            Everywhere => found(self.text),
        }
    }

    /// Returns whether the line is a comment that can be wrapped and is not. Rows of tables cannot.
    fn is_too_long(&self) -> bool {
        let is_prose = |comment: &str| comment.contains(' ') && !comment.starts_with('|');
        self.comment.is_some_and(is_prose) && self.text.chars().count() > COLUMNS
    }
}

/// The Rust files and documents of the repository. Left out: what real tools wrote, generated text,
/// history, and this file.
fn sources() -> Vec<(String, String)> {
    let root = tools::workspace();
    let mut sources = Vec::new();
    for top in ["shared", "functions", "tests", "infra", "events"] {
        collect(&root, &root.join(top), &mut sources);
    }
    for name in ["README.md", "CONTRIBUTING.md", "SECURITY.md"] {
        let text = std::fs::read_to_string(root.join(name)).expect("a document");
        sources.push((name.to_owned(), text));
    }
    sources
}

fn collect(root: &Path, directory: &Path, sources: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !["target", "corpus", "snapshots"].contains(&&*name) {
                collect(root, &path, sources);
            }
        } else if (name.ends_with(".rs") || name.ends_with(".md"))
            && !["words.rs", "REFERENCE.md"].contains(&&*name)
        {
            let relative = path.strip_prefix(root).expect("a path below the root");
            let text = std::fs::read_to_string(&path).expect("a text file");
            sources.push((relative.to_string_lossy().into_owned(), text));
        }
    }
}

fn report(line: &Line<'_>) -> String {
    format!("    {}:{}: {}", line.file, line.number, line.text.trim())
}

#[test]
fn odd_phrases_only_become_fewer() {
    let sources = sources();
    let lines: Vec<Line<'_>> = sources
        .iter()
        .flat_map(|(file, text)| lines(file, text))
        .collect();
    let mut wrong = Vec::new();
    for phrase in PHRASES {
        let pattern = Regex::new(phrase.pattern).expect("a regular expression");
        let exception = Regex::new(phrase.except).expect("a regular expression");
        let hits: Vec<String> = lines
            .iter()
            .filter(|line| line.has(phrase, &pattern, &exception))
            .map(report)
            .collect();
        let (count, ceiling) = (hits.len(), phrase.ceiling);
        if count > ceiling {
            wrong.push(format!(
                "`{}`: {count} lines, at most {ceiling} are allowed. Better: {}.\n{}",
                phrase.pattern,
                phrase.better,
                hits.join("\n")
            ));
        } else if count < ceiling {
            wrong.push(format!(
                "`{}`: {count} lines are left: lower its ceiling from {ceiling} to {count}",
                phrase.pattern
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn comments_have_at_most_100_columns() {
    let sources = sources();
    let lines = sources.iter().flat_map(|(file, text)| lines(file, text));
    let long: Vec<String> = lines
        .filter(|line| line.is_too_long())
        .map(|line| report(&line))
        .collect();
    assert!(long.is_empty(), "wrap these comments:\n{}", long.join("\n"));
}

#[test]
fn phrases_are_found_where_they_count() {
    let text =
        "/// Whether it is.\nlet a = \"it is no text\"; // told\n/// Returns x.\n/// Whether y.\n";
    let lines = lines("shared/x/src/lib.rs", text);
    let hits = |scope: Scope, pattern: &str, exception: &'static str| {
        let phrase = except(phrase(scope, 0, "", ""), exception);
        let (pattern, exception) = (Regex::new(pattern), Regex::new(exception));
        let (pattern, exception) = (pattern.expect("a pattern"), exception.expect("a pattern"));
        let has = |line: &&Line<'_>| line.has(&phrase, &pattern, &exception);
        lines
            .iter()
            .filter(has)
            .map(|line| line.number)
            .collect::<Vec<_>>()
    };
    assert_eq!(hits(DocOpening, "^Whether ", ""), [1]);
    assert_eq!(hits(SingleLineDoc, "^Whether ", ""), [1]);
    assert_eq!(hits(Comment, "^Whether ", ""), [1, 4]);
    assert_eq!(hits(Message, "^it is", ""), [2]);
    assert!(hits(Message, "told", "").is_empty());
    assert_eq!(hits(Rust, "told", ""), [2]);
    assert!(hits(Everywhere, "is no [a-z]+", "text$").is_empty());
}
