//! RE2's syntax of Go's `regexp/syntax`, converted to the syntax of the `regex` crate: both match
//! in linear time, but differ in the meaning of backslashes, brackets and braces.

use crate::Error;
use regex::Regex;
use std::collections::{HashMap, HashSet};

/// Go's limit of repetitions, including nested ones.
const MAX_REPEAT: u32 = 1_000;

/// The most bytes of a name of a Unicode class or property; real names are shorter.
const MAX_PROPERTY: usize = 64;

/// The bytes that a Unicode class counts as in [`expansion`]: its ranges become hundreds of states.
const PROPERTY_SIZE: u64 = 13_000;

/// Returns the number of Unicode classes that an expression names.
pub fn classes(pattern: &str) -> usize {
    pattern.matches("\\p").count() + pattern.matches("\\P").count()
}

/// Returns the size of an expression with its counted repetitions expanded, as if all were nested:
/// the cost of compiling grows with it.
pub fn expansion(pattern: &str) -> u64 {
    let classes = PROPERTY_SIZE.saturating_mul(classes(pattern) as u64);
    repeated(pattern, (pattern.len() as u64).saturating_add(classes))
}

/// Returns the same size as [`expansion`], but with a Unicode class as one place: the most places
/// at which a match can be at one time. The cost of each byte of input grows with it.
pub fn places(pattern: &str) -> u64 {
    repeated(pattern, pattern.len() as u64)
}

fn repeated(pattern: &str, size: u64) -> u64 {
    let counts = pattern.split('{').skip(1).filter_map(|rest| {
        let counts = rest.split('}').next()?.split(',');
        counts.filter_map(|n| n.parse::<u64>().ok()).max()
    });
    counts.fold(size, |size, count| size.saturating_mul(count.max(1)))
}

/// Converts an expression to the `regex` crate's syntax.
///
/// # Errors
/// Go's message for an expression that is not valid in Go, without `error parsing regexp: `.
pub fn translate(pattern: &str) -> Result<String, Error> {
    let mut t = Translator {
        pattern,
        at: 0,
        out: String::with_capacity(pattern.len() + 16),
        last_posix: pattern.rfind(":]").unwrap_or(0),
        names: HashSet::new(),
        properties: HashMap::new(),
        open: Vec::new(),
        can_repeat: false,
        repeated_from: None,
        copies: 1,
    };
    t.run()?;
    Ok(t.out)
}

struct Translator<'p> {
    pattern: &'p str,
    at: usize,
    out: String,
    /// The position of the last `:]`.
    last_posix: usize,
    /// The names of groups until now.
    names: HashSet<String>,
    /// The names that were looked up, each with whether a property of that name exists.
    properties: HashMap<String, bool>,
    /// The open groups, each with the number of copies of its most repeated part.
    open: Vec<u32>,
    /// True if a repetition has an operand before it.
    can_repeat: bool,
    /// The start of the repetition that ends here.
    repeated_from: Option<usize>,
    /// The number of copies of the most repeated part of the last operand, with its counted
    /// repetitions expanded.
    copies: u32,
}

type Step<T = ()> = Result<T, Error>;

impl<'p> Translator<'p> {
    fn rest(&self) -> &'p str {
        &self.pattern[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn literal(&mut self, c: char) {
        push_literal(&mut self.out, c);
        self.atom();
    }

    /// Records an operand, which can be repeated.
    fn atom(&mut self) {
        self.copied(1);
        self.can_repeat = true;
        self.repeated_from = None;
    }

    fn copied(&mut self, copies: u32) {
        self.copies = copies;
        if let Some(group) = self.open.last_mut() {
            *group = (*group).max(copies);
        }
    }

    fn run(&mut self) -> Step {
        while let Some(c) = self.peek() {
            let from = self.at;
            match c {
                '(' => self.group()?,
                ')' => {
                    let Some(copies) = self.open.pop() else {
                        return Err(format!("unexpected ): `{}`", self.pattern).into());
                    };
                    self.at += 1;
                    self.out.push(')');
                    self.atom();
                    self.copied(copies);
                }
                '|' => {
                    self.at += 1;
                    self.out.push('|');
                    self.can_repeat = false;
                    self.repeated_from = None;
                }
                '[' => {
                    self.class()?;
                    self.atom();
                }
                '\\' => self.escape()?,
                '*' | '+' | '?' => {
                    self.at += 1;
                    self.repeat(from, &c.to_string(), 1)?;
                }
                '{' => match self.counted()? {
                    Some((text, times)) => self.repeat(from, &text, times)?,
                    None => {
                        self.at += 1;
                        self.literal('{');
                    }
                },
                '^' | '$' | '.' => {
                    self.at += 1;
                    self.out.push(c);
                    self.atom();
                }
                c => {
                    self.at += c.len_utf8();
                    self.literal(c);
                }
            }
        }
        if !self.open.is_empty() {
            return Err(format!("missing closing ): `{}`", self.pattern).into());
        }
        Ok(())
    }

    /// Adds a repetition, written as `text`; a counted one has `times` copies.
    fn repeat(&mut self, from: usize, text: &str, times: u32) -> Step {
        let lazy = self.peek() == Some('?');
        if lazy {
            self.at += 1;
        }
        let written = &self.pattern[from..self.at];
        if let Some(before) = self.repeated_from {
            let both = &self.pattern[before..self.at];
            return Err(format!("invalid nested repetition operator: `{both}`").into());
        }
        if !self.can_repeat {
            return Err(format!("missing argument to repetition operator: `{written}`").into());
        }
        let copies = self.copies.saturating_mul(times.max(1));
        if times > 1 && copies > MAX_REPEAT {
            return Err(format!("invalid repeat count: `{written}`").into());
        }
        self.copied(if times == 0 { 1 } else { copies });
        self.out.push_str(text);
        if lazy {
            self.out.push('?');
        }
        self.repeated_from = Some(from);
        Ok(())
    }

    /// Parses `{n}`, `{n,}` or `{n,m}`, and its number of copies; `None` for another form.
    fn counted(&mut self) -> Step<Option<(String, u32)>> {
        let tail = &self.rest()[1..];
        let length = tail
            .bytes()
            .take_while(|b| b.is_ascii_digit() || *b == b',')
            .count();
        if tail.as_bytes().get(length) != Some(&b'}') {
            return Ok(None);
        }
        let (body, end) = (&tail[..length], length + 1);
        let number = |s: &str| -> Option<u32> {
            let fine = !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
            let zero = s.len() > 1 && s.starts_with('0');
            (fine && !zero).then(|| s.parse().unwrap_or(u32::MAX))
        };
        let (low, high) = match body.split_once(',') {
            None => (number(body), number(body).map(Some)),
            Some((low, "")) => (number(low), Some(None)),
            Some((low, high)) => (number(low), number(high).map(Some)),
        };
        let (Some(low), Some(high)) = (low, high) else {
            return Ok(None);
        };
        let written = &self.rest()[..=end];
        if low > MAX_REPEAT || high.is_some_and(|h| h > MAX_REPEAT || h < low) {
            return Err(format!("invalid repeat count: `{written}`").into());
        }
        self.at += end + 1;
        Ok(Some((written.to_owned(), high.unwrap_or(low))))
    }

    fn group(&mut self) -> Step {
        let rest = self.rest();
        if let Some(tail) = rest.strip_prefix("(?") {
            if tail.starts_with("P<") || tail.starts_with('<') {
                return self.named(tail);
            }
            return self.flags(tail);
        }
        self.at += 1;
        self.opened("(");
        Ok(())
    }

    fn opened(&mut self, text: &str) {
        self.out.push_str(text);
        self.open.push(1);
        self.can_repeat = false;
        self.repeated_from = None;
    }

    fn named(&mut self, tail: &str) -> Step {
        let head = if tail.starts_with('P') { 2 } else { 1 };
        let Some(end) = tail.find('>') else {
            return Err(format!("invalid named capture: `{}`", self.rest()).into());
        };
        let name = &tail[head..end];
        let fine = name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric()) && !name.is_empty();
        if !fine {
            return Err(format!("invalid named capture: `(?{}`", &tail[..=end]).into());
        }
        let name = group_name(name);
        let open = format!("(?P<{name}>");
        // Of two groups with the same name, the first one counts.
        let is_new = self.names.insert(name);
        self.at += 2 + end + 1;
        self.opened(if is_new { &open } else { "(" });
        Ok(())
    }

    fn flags(&mut self, tail: &str) -> Step {
        let (mut negative, mut any) = (false, false);
        for (i, c) in tail.char_indices() {
            match c {
                'i' | 'm' | 's' | 'U' => any = true,
                '-' if !negative => (negative, any) = (true, false),
                ':' | ')' if !negative || any => {
                    let text = &self.rest()[..2 + i + 1];
                    self.at += text.len();
                    if c == ':' {
                        self.opened(text);
                    } else {
                        if i > 0 {
                            self.out.push_str(text);
                        }
                        self.repeated_from = None;
                        self.can_repeat = false;
                    }
                    return Ok(());
                }
                c => {
                    let text = &self.rest()[..2 + i + c.len_utf8()];
                    return Err(format!("invalid or unsupported Perl syntax: `{text}`").into());
                }
            }
        }
        Err(format!("missing closing ): `{}`", self.pattern).into())
    }

    fn escape(&mut self) -> Step {
        let rest = self.rest();
        if let Some(quoted) = rest.strip_prefix("\\Q") {
            let end = quoted.find("\\E").unwrap_or(quoted.len());
            for c in quoted[..end].chars() {
                self.literal(c);
            }
            self.at += (2 + end + 2).min(rest.len());
            return Ok(());
        }
        let second = rest[1..].chars().next();
        let plain = match second {
            Some('A') => "\\A",
            Some('z') => "\\z",
            Some('b') => "(?-u:\\b)",
            Some('B') => "(?-u:\\B)",
            _ => {
                if let Some(set) = self.set()? {
                    self.out.push_str(&set);
                } else {
                    let c = self.escaped()?;
                    push_literal(&mut self.out, c);
                }
                self.atom();
                return Ok(());
            }
        };
        self.out.push_str(plain);
        self.at += 2;
        self.atom();
        Ok(())
    }

    /// Converts `\d`, `\pL` and similar escapes to a class that can be nested in another one.
    fn set(&mut self) -> Step<Option<String>> {
        let rest = self.rest();
        let Some(letter) = rest.strip_prefix('\\').and_then(|r| r.chars().next()) else {
            return Ok(None);
        };
        let perl = match letter {
            'd' => "[0-9]",
            'D' => "[^0-9]",
            's' => r"[\t\n\f\r ]",
            'S' => r"[^\t\n\f\r ]",
            'w' => "[0-9A-Za-z_]",
            'W' => "[^0-9A-Za-z_]",
            'p' | 'P' => return self.property(letter).map(Some),
            _ => return Ok(None),
        };
        self.at += 2;
        Ok(Some(perl.to_owned()))
    }

    fn property(&mut self, letter: char) -> Step<String> {
        let rest = self.rest();
        let body = &rest[2..];
        let (name, length) = match body.strip_prefix('{') {
            Some(inner) => match inner.find('}') {
                Some(end) => (&inner[..end], end + 2),
                None => return Err(format!("invalid character class range: `{rest}`").into()),
            },
            None => match body.chars().next() {
                Some(c) => (&body[..c.len_utf8()], c.len_utf8()),
                None => return Err("invalid character class range: `\\p`".into()),
            },
        };
        let written = &rest[..2 + length];
        let (negated, name) = match name.strip_prefix('^') {
            Some(name) => (true, name),
            None => (false, name),
        };
        let letter = if negated != (letter == 'P') { 'P' } else { 'p' };
        let class = format!("\\{letter}{{{name}}}");
        if !self.is_property(name) {
            return Err(format!("invalid character class range: `{written}`").into());
        }
        self.at += written.len();
        Ok(class)
    }

    /// Checks whether a Unicode class or property of this name exists: each name is compiled once
    /// for each expression.
    fn is_property(&mut self, name: &str) -> bool {
        if let Some(known) = self.properties.get(name) {
            return *known;
        }
        let is_known = name.len() <= MAX_PROPERTY
            && !name.contains(['=', ':', '!'])
            && Regex::new(&format!("\\p{{{name}}}")).is_ok();
        self.properties.insert(name.to_owned(), is_known);
        is_known
    }

    /// Parses a character after a backslash.
    fn escaped(&mut self) -> Step<char> {
        let start = self.at;
        self.at += 1;
        let Some(c) = self.bump() else {
            return Err("trailing backslash at end of expression: ``".into());
        };
        let found = match c {
            '0'..='7' => {
                let more = self.peek().is_some_and(|n| ('0'..='7').contains(&n));
                (c == '0' || more).then(|| self.octal(c)).flatten()
            }
            'x' => self.hex(),
            'a' => Some('\u{7}'),
            'f' => Some('\u{c}'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\u{b}'),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(c),
            _ => None,
        };
        found
            .ok_or_else(|| {
                format!(
                    "invalid escape sequence: `{}`",
                    &self.pattern[start..self.at]
                )
            })
            .map_err(Into::into)
    }

    fn octal(&mut self, first: char) -> Option<char> {
        let mut value = first.to_digit(8)?;
        for _ in 0..2 {
            match self.peek().and_then(|c| c.to_digit(8)) {
                Some(digit) => {
                    value = value * 8 + digit;
                    self.at += 1;
                }
                None => break,
            }
        }
        char::from_u32(value)
    }

    fn hex(&mut self) -> Option<char> {
        let rest = self.rest();
        let (digits, length) = match rest.strip_prefix('{') {
            Some(inner) => {
                let end = inner.find('}')?;
                (&inner[..end], end + 2)
            }
            None => (rest.get(..2)?, 2),
        };
        let fine = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let value = u32::from_str_radix(digits, 16).ok().filter(|_| fine)?;
        self.at += length;
        char::from_u32(value)
    }

    /// Parses a bracketed class, `[…]`.
    fn class(&mut self) -> Step {
        let start = self.at;
        self.at += 1;
        let mut out = String::from("[");
        if self.peek() == Some('^') {
            out.push('^');
            self.at += 1;
        }
        let mut first = true;
        loop {
            let missing = || format!("missing closing ]: `{}`", &self.pattern[start..]);
            let Some(c) = self.peek() else {
                return Err(missing().into());
            };
            if c == ']' && !first {
                self.at += 1;
                break;
            }
            if c == '-' && !first && !self.rest()[1..].starts_with(']') {
                // With Perl's flag, Go allows `-` anywhere in a class; here the class is not
                // closed.
                let next: String = self.rest().chars().take(2).collect();
                if next.chars().count() < 2 {
                    return Err(missing().into());
                }
            }
            first = false;
            if let Some(named) = self.posix()? {
                out.push_str(&named);
                continue;
            }
            if let Some(set) = self.set()? {
                out.push_str(&set);
                continue;
            }
            self.range(start, &mut out)?;
        }
        out.push(']');
        self.out.push_str(&out);
        Ok(())
    }

    fn posix(&mut self) -> Step<Option<String>> {
        let rest = self.rest();
        // Without a later `:]` no search is made: an expression may have many `[:`.
        if !rest.starts_with("[:") || self.last_posix < self.at + 2 {
            return Ok(None);
        }
        let Some(end) = rest[2..].find(":]") else {
            return Ok(None);
        };
        let written = &rest[..end + 4];
        const NAMES: [&str; 14] = [
            "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print",
            "punct", "space", "upper", "word", "xdigit",
        ];
        let name = &rest[2..end + 2];
        if !NAMES.contains(&name.strip_prefix('^').unwrap_or(name)) {
            return Err(format!("invalid character class range: `{written}`").into());
        }
        self.at += written.len();
        Ok(Some(written.to_owned()))
    }

    fn range(&mut self, class: usize, out: &mut String) -> Step {
        let start = self.at;
        let low = self.class_char(class)?;
        let rest = self.rest();
        let mut high = low;
        if rest.starts_with('-') && rest.len() > 1 && !rest.starts_with("-]") {
            self.at += 1;
            high = self.class_char(class)?;
            if high < low {
                let written = &self.pattern[start..self.at];
                return Err(format!("invalid character class range: `{written}`").into());
            }
        }
        push_hex(out, low);
        if high != low {
            out.push('-');
            push_hex(out, high);
        }
        Ok(())
    }

    fn class_char(&mut self, class: usize) -> Step<char> {
        match self.peek() {
            None => Err(format!("missing closing ]: `{}`", &self.pattern[class..]).into()),
            Some('\\') => self.escaped(),
            Some(c) => {
                self.at += c.len_utf8();
                Ok(c)
            }
        }
    }
}

/// Returns a name that the `regex` crate accepts for a group: it must not begin with a digit there.
fn group_name(name: &str) -> String {
    match name.bytes().next() {
        Some(b) if b == b'_' || b.is_ascii_alphabetic() => name.to_owned(),
        _ => format!("_{name}"),
    }
}

fn push_literal(out: &mut String, c: char) {
    let mut buffer = [0; 4];
    let text: &str = c.encode_utf8(&mut buffer);
    out.push_str(&regex::escape(text));
}

fn push_hex(out: &mut String, c: char) {
    out.push_str(&format!("\\x{{{:x}}}", u32::from(c)));
}

#[cfg(test)]
mod tests {
    use super::{expansion, places, translate};

    #[test]
    fn names_of_groups_are_ascii() {
        assert!(translate("(?P<a_1>x)").is_ok());
        for name in ["\u{e9}", "a\u{660}", "a-b", ""] {
            let message = format!("invalid named capture: `(?P<{name}>`");
            assert_eq!(
                translate(&format!("(?P<{name}>x)")),
                Err(message.into()),
                "{name}"
            );
        }
        assert_eq!(translate("(?P<a>x)(?P<a>y)").as_deref(), Ok("(?P<a>x)(y)"));
    }

    /// Each of these took time that grows with the square of its length, or compiled a class for
    /// each occurrence.
    #[test]
    fn a_repeated_piece_is_searched_once() {
        const TIMES: usize = 1 << 20;
        for (piece, fine) in [
            ("{", true),
            ("{1", true),
            ("\\pL", true),
            ("[[:a]", true),
            ("(?P<a>x)", true),
            ("\\p{", false),
        ] {
            assert_eq!(translate(&piece.repeat(TIMES)).is_ok(), fine, "{piece}");
        }
    }

    #[test]
    fn repetitions_and_classes_are_large() {
        assert_eq!(expansion("abc"), 3);
        assert!(expansion("(\\pL{50}){3}N") > 15_000);
        assert_eq!(expansion(&"{9999}".repeat(100)), u64::MAX);
        assert_eq!(places("(\\pL{50}){3}N"), 13 * 150);
    }

    #[test]
    fn repetitions_in_each_other() {
        for fine in [
            "(a{10}){100}",
            "(a{2}|b{500}){2}c{1000}",
            "(a{1000})*",
            "(a{1000}){0}",
        ] {
            assert!(translate(fine).is_ok(), "{fine}");
        }
        for (pattern, written) in [
            ("(a{1000}){1000}", "{1000}"),
            ("((a{10}){10}){11}", "{11}"),
            ("(ab{2,}c{501}){2}?", "{2}?"),
        ] {
            let message = format!("invalid repeat count: `{written}`");
            assert_eq!(translate(pattern), Err(message.into()), "{pattern}");
        }
    }
}
