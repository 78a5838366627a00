//! Letters and words: case, camel and snake, initials.

use super::arg::{bytes, out};
use super::{Entry, Out, S};
use ::regex::Regex;
use driftless_gotmpl::{Exec, Value, lossy};
use std::sync::LazyLock;

pub(super) const TABLE: &[Entry] = &[
    ("upper", S, |e, a| rewrite(e, a, |s| map(s, upper))),
    ("lower", S, |e, a| rewrite(e, a, |s| map(s, lower))),
    ("title", S, |e, a| rewrite(e, a, |s| title(&lossy(s)))),
    ("untitle", S, |e, a| rewrite(e, a, |s| untitle(&lossy(s)))),
    ("swapcase", S, |e, a| {
        rewrite(e, a, |s| swap_case(&lossy(s)))
    }),
    ("initials", S, |e, a| rewrite(e, a, initials)),
    ("nospace", S, |e, a| {
        // goutils checks bytes, and writes each as a character.
        if bytes(a, 0).iter().any(|b| char::from(*b).is_whitespace()) {
            let kept = |s: &[u8]| {
                let chars = s.iter().map(|b| char::from(*b));
                chars.filter(|c| !c.is_whitespace()).collect()
            };
            return rewrite(e, a, kept);
        }
        Ok(a[0].clone())
    }),
    ("camelcase", S, |e, a| {
        rewrite(e, a, |s| pascal_case(&lossy(s)))
    }),
    ("snakecase", S, |e, a| {
        rewrite(e, a, |s| lower_words(&lossy(s), '_'))
    }),
    ("kebabcase", S, |e, a| {
        rewrite(e, a, |s| lower_words(&lossy(s), '-'))
    }),
];

/// Rewrites a string character by character. A byte that is not UTF-8 becomes three: the budget
/// must have room for that.
fn rewrite(exec: &mut Exec<'_>, a: &[Value], change: impl FnOnce(&[u8]) -> String) -> Out {
    let s = bytes(a, 0);
    exec.ensure_capacity(s.len().saturating_mul(3))?;
    // Characters are looked up in tables.
    exec.charge(s.len() as u64 / 8)?;
    out(exec, change(s))
}

/// Converts like Go's `unicode.ToUpper`: one character to one.
fn upper(c: char) -> char {
    let mut all = c.to_uppercase();
    match (all.next(), all.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

/// Converts like Go's `unicode.ToLower`.
fn lower(c: char) -> char {
    let mut all = c.to_lowercase();
    match (all.next(), all.next()) {
        (Some(one), None) => one,
        _ if c == '\u{130}' => 'i',
        _ => c,
    }
}

/// Converts like Go's `unicode.ToTitle`: upper case, except for digraphs.
fn title_char(c: char) -> char {
    match c {
        '\u{1c4}'..='\u{1c6}' => '\u{1c5}',
        '\u{1c7}'..='\u{1c9}' => '\u{1c8}',
        '\u{1ca}'..='\u{1cc}' => '\u{1cb}',
        '\u{1f1}'..='\u{1f3}' => '\u{1f2}',
        c => upper(c),
    }
}

/// Maps like Go's `strings.Map`: bytes that are not UTF-8 become U+FFFD.
fn map(s: &[u8], change: fn(char) -> char) -> String {
    lossy(s).chars().map(change).collect()
}

/// Converts like Go's `strings.Title`.
fn title(s: &str) -> String {
    let mut before = ' ';
    s.chars()
        .map(|c| {
            let first = match before {
                b if b.is_ascii() => !b.is_ascii_alphanumeric() && b != '_',
                b => !b.is_alphanumeric() && b.is_whitespace(),
            };
            before = c;
            if first { title_char(c) } else { c }
        })
        .collect()
}

/// Converts like goutils' `Uncapitalize`.
fn untitle(s: &str) -> String {
    let mut first = true;
    s.chars()
        .map(|c| {
            if c.is_whitespace() {
                first = true;
                return c;
            }
            if std::mem::take(&mut first) {
                lower(c)
            } else {
                c
            }
        })
        .collect()
}

/// Converts like goutils' `SwapCase`.
fn swap_case(s: &str) -> String {
    let mut space = true;
    s.chars()
        .map(|c| {
            if c.is_uppercase() || title_char(c) == c && lower(c) != c {
                space = false;
                lower(c)
            } else if c.is_lowercase() {
                if std::mem::take(&mut space) {
                    title_char(c)
                } else {
                    upper(c)
                }
            } else {
                space = c.is_whitespace();
                c
            }
        })
        .collect()
}

/// Converts like goutils' `Initials`, which takes bytes for characters.
fn initials(s: &[u8]) -> String {
    let mut gap = true;
    let mut out = String::new();
    for c in s.iter().map(|b| char::from(*b)) {
        if c.is_whitespace() {
            gap = true;
        } else if std::mem::take(&mut gap) {
            out.push(c);
        }
    }
    out
}

fn is_connector(c: char) -> bool {
    c == '-' || c == '_' || c.is_whitespace()
}

/// Converts like xstrings' `ToPascalCase`.
fn pascal_case(s: &str) -> String {
    let mut out = String::with_capacity(s.len());
    let mut chars = s.chars();
    let mut shouting = false;
    let mut current = None;
    for c in chars.by_ref() {
        if is_connector(c) {
            // Leading connectors stay, except that the very last character is written below.
            if let Some(held) = current.replace(c) {
                out.push(held);
            }
            continue;
        }
        if let Some(held) = current.take() {
            out.push(held);
        }
        shouting = c.is_uppercase();
        current = Some(upper(c));
        break;
    }
    let Some(mut now) = current else {
        return out;
    };
    if is_connector(now) {
        // For connectors only: `xstrings.ToPascalCase` (v1.5.0, convert.go) writes the last one a
        // second time.
        out.push(now);
    }
    for c in chars {
        let before = std::mem::replace(&mut now, c);
        if is_connector(now) && is_connector(before) {
            out.push(before);
            continue;
        }
        if is_connector(before) {
            shouting = now.is_uppercase();
            now = upper(now);
        } else {
            if shouting {
                if now.is_uppercase() {
                    now = lower(now);
                } else {
                    shouting = false;
                }
            }
            out.push(before);
        }
    }
    out.push(now);
    out
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Word {
    Invalid,
    Number,
    Upper,
    Alphabet,
    Connector,
    Punct,
    Other,
}

static PUNCT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{P}$").ok());

fn is_punct(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_punctuation() && !"$+<=>^`|~".contains(c);
    }
    let mut buffer = [0; 4];
    let text: &str = c.encode_utf8(&mut buffer);
    PUNCT.as_ref().is_some_and(|re| re.is_match(text))
}

/// Checks xstrings' definition of a letter: it has a case, or is a letter without one.
fn is_alphabet(c: char) -> bool {
    if !c.is_alphabetic() {
        return false;
    }
    match c {
        // Han, Kana and Hangul have no distinguishable words.
        '\u{1100}'..='\u{11ff}' | '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7af}' => false,
        '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ffdc}' | '\u{20000}'..='\u{3ffff}' => false,
        _ => true,
    }
}

/// Returns the length of the leading characters that `keep` accepts.
fn run(s: &str, keep: impl Fn(char) -> bool) -> usize {
    s.find(|c: char| !keep(c) && c != '\u{fffd}')
        .unwrap_or(s.len())
}

/// Returns the first word of a string with its kind, and the rest.
fn next_word(s: &str) -> (Word, &str, &str) {
    let Some(first) = s.chars().next() else {
        return (Word::Invalid, "", "");
    };
    let size = first.len_utf8();
    let lower_run = |s: &str| run(s, |c| is_alphabet(c) && !c.is_uppercase());
    let (word, length) = match first {
        '\u{fffd}' => (Word::Invalid, size),
        c if is_connector(c) => (Word::Connector, run(s, is_connector)),
        c if is_punct(c) => (Word::Punct, run(s, is_punct)),
        c if c.is_uppercase() => (Word::Upper, upper_word(s, size)),
        c if is_alphabet(c) => (Word::Alphabet, lower_run(s)),
        c if c.is_numeric() => (Word::Number, run(s, char::is_numeric)),
        _ => {
            let other =
                |c: char| !(is_connector(c) || is_alphabet(c) || c.is_numeric() || is_punct(c));
            (Word::Other, size + run(&s[size..], other))
        }
    };
    (word, &s[..length], &s[length..])
}

/// Returns the length of an upper-case word: `HTTPStatus` is `HTTP` and `Status`; `Status` is one
/// word.
fn upper_word(s: &str, size: usize) -> usize {
    let rest = &s[size..];
    let Some(second) = rest.chars().next() else {
        return size;
    };
    if second.is_uppercase() {
        let length = size + run(rest, char::is_uppercase);
        let next = s[length..].chars().next();
        if next.is_some_and(is_alphabet) {
            let last = s[..length].chars().next_back().map_or(0, char::len_utf8);
            return length - last;
        }
        return length;
    }
    if is_alphabet(second) {
        return size + run(rest, |c| is_alphabet(c) && !c.is_uppercase());
    }
    size
}

fn push_word(out: &mut String, kind: Word, word: &str, connector: char) {
    if kind != Word::Upper && kind != Word::Connector {
        out.push_str(word);
        return;
    }
    for c in word.chars() {
        out.push(if is_connector(c) { connector } else { lower(c) });
    }
}

/// Converts like xstrings' `ToSnakeCase` and `ToKebabCase`.
fn lower_words(s: &str, connector: char) -> String {
    let mut out = String::with_capacity(s.len() + s.len() / 4);
    let (mut kind, mut word, mut rest) = next_word(s);
    while !rest.is_empty() {
        if kind != Word::Connector {
            push_word(&mut out, kind, word, connector);
        }
        let (before, last) = (kind, word);
        (kind, word, rest) = next_word(rest);
        match before {
            Word::Number => {
                while matches!(kind, Word::Alphabet | Word::Number) {
                    push_word(&mut out, kind, word, connector);
                    (kind, word, rest) = next_word(rest);
                }
                if !matches!(kind, Word::Invalid | Word::Punct | Word::Connector) {
                    out.push(connector);
                }
            }
            Word::Connector => push_word(&mut out, before, last, connector),
            Word::Punct => {}
            _ if kind != Word::Number => {
                if !matches!(kind, Word::Connector | Word::Punct) {
                    out.push(connector);
                }
            }
            _ if rest.is_empty() => {}
            _ => {
                let number = word;
                (kind, word, rest) = next_word(rest);
                if kind != Word::Alphabet {
                    // The number belongs to the word before it.
                    push_word(&mut out, Word::Number, number, connector);
                    if !matches!(kind, Word::Connector | Word::Punct) {
                        out.push(connector);
                    }
                    continue;
                }
                out.push(connector);
                push_word(&mut out, Word::Number, number, connector);
                while matches!(kind, Word::Alphabet | Word::Number) {
                    push_word(&mut out, kind, word, connector);
                    (kind, word, rest) = next_word(rest);
                }
                if !matches!(kind, Word::Invalid | Word::Punct | Word::Connector) {
                    out.push(connector);
                }
            }
        }
    }
    push_word(&mut out, kind, word, connector);
    out
}
