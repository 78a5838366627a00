//! The style of a string, by the rules of go-yaml v2.

use crate::yaml::Dialect;
use crate::yaml::resolve::{Resolved, resolve};

/// The style in which a string is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

/// The result of the emitter's analysis of a string.
#[derive(Default)]
struct Traits {
    indicators: bool,
    special: bool,
    breaks: bool,
    leading: bool,
    trailing_space: bool,
    trailing_break: bool,
    break_space: bool,
    space_break: bool,
}

/// Returns whether a string spans lines; such a key is written after `? `.
pub(super) fn is_multiline(text: &str) -> bool {
    text.chars().any(is_break)
}

/// Returns the style of a string; a simple key never spans lines.
pub(super) fn style(text: &str, simple_key: bool) -> Style {
    if text.is_empty() {
        return Style::Double;
    }
    let traits = analyze(text);
    if text.contains('\n') {
        let block = !(traits.trailing_space || traits.space_break || traits.special);
        return if block && !simple_key {
            Style::Literal
        } else {
            Style::Double
        };
    }
    if resolve(text, Dialect::V2) != Resolved::Str || is_base60(text) {
        return Style::Double;
    }
    if !(traits.leading || traits.trailing_space || traits.trailing_break || traits.breaks)
        && !(traits.indicators || traits.special || traits.break_space || traits.space_break)
    {
        return Style::Plain;
    }
    if traits.break_space || traits.space_break || traits.special {
        return Style::Double;
    }
    Style::Single
}

/// Returns whether a character is a line break of YAML 1.1.
pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Returns whether a character needs no escape. Characters beyond the first plane and the tab are
/// escaped.
pub(super) fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

fn analyze(text: &str) -> Traits {
    let mut traits = Traits {
        indicators: text.starts_with("---") || text.starts_with("..."),
        ..Traits::default()
    };
    let bytes = text.as_bytes();
    let mut previous = Previous {
        white: true,
        ..Previous::default()
    };
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte.is_ascii_alphanumeric() {
            previous = Previous::default();
            at += 1;
            continue;
        }
        let c = if byte.is_ascii() {
            byte as char
        } else {
            text[at..].chars().next().unwrap_or('\u{fffd}')
        };
        let end = at + c.len_utf8();
        let blank_follows = matches!(bytes.get(end), None | Some(b' ' | b'\t'));
        traits.indicators |= is_indicator(c, at == 0, previous.white, blank_follows);
        traits.special |= !is_printable(c);
        traits.see(c, at == 0, end == bytes.len(), &previous);
        previous = Previous {
            space: c == ' ',
            line_break: is_break(c),
            white: is_break(c) || matches!(c, ' ' | '\t' | '\0'),
        };
        at = end;
    }
    traits
}

/// The character before the current one.
#[derive(Default)]
struct Previous {
    space: bool,
    line_break: bool,
    white: bool,
}

impl Traits {
    fn see(&mut self, c: char, first: bool, last: bool, previous: &Previous) {
        if c == ' ' {
            self.leading |= first;
            self.trailing_space |= last;
            self.break_space |= previous.line_break;
        } else if is_break(c) {
            self.breaks = true;
            self.leading |= first;
            self.trailing_break |= last;
            self.space_break |= previous.space;
        }
    }
}

fn is_indicator(c: char, first: bool, white_before: bool, blank_follows: bool) -> bool {
    match c {
        ':' => blank_follows,
        '?' | '-' => first && blank_follows,
        '#' => white_before,
        ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
        | '`' => first,
        _ => false,
    }
}

/// Checks for numbers to base 60 of YAML 1.1 (`1:30`), which go-yaml reads as strings but quotes
/// for other parsers: `[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?`.
fn is_base60(text: &str) -> bool {
    let rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !rest.starts_with(|c: char| c.is_ascii_digit()) || !rest.contains(':') {
        return false;
    }
    let (rest, fraction) = rest
        .split_once('.')
        .map_or((rest, None), |(r, f)| (r, Some(f)));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let mut parts = rest.split(':');
    parts.next().is_some_and(digits)
        && rest.contains(':')
        && parts.all(|p| match p.as_bytes() {
            [d] => d.is_ascii_digit(),
            [t, d] => (b'0'..=b'5').contains(t) && d.is_ascii_digit(),
            _ => false,
        })
        && fraction.is_none_or(digits)
}
