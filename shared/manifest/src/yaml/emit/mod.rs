//! Writes JSON values as YAML, in the format of `sigs.k8s.io/yaml` v1.6.

mod scalar;

use std::fmt::Write as _;

use serde_json::{Number, Value};

use self::scalar::{Style, is_break, is_multiline, is_printable, style};
use super::{keysort, number};
use driftless_go::float;

/// Formats a value like `sigs.k8s.io/yaml` v1.6 `Marshal`, byte for byte: keys in go-yaml v2's
/// order, lists not indented under their key, strings folded at the first space after column 80, a
/// line break at the end.
///
/// Go refuses strings with DEL or a C1 control character; here they are escaped, which every parser
/// reads.
pub fn to_string(value: &Value) -> String {
    write(value)
}

/// Formats a document in the style of [`to_string`], with its keys in the order of
/// [`Document::view`].
pub fn write<D: Document>(document: &D) -> String {
    let mut emitter = Emitter {
        out: String::with_capacity(256),
        line_start: true,
    };
    emitter.node(document, 0, Position::Root);
    if !emitter.line_start {
        emitter.out.push('\n');
    }
    emitter.out
}

/// A tree that can be written as YAML.
pub trait Document: Sized {
    /// Returns the node itself.
    fn view(&self) -> View<'_, Self>;
}

/// One node of a [`Document`].
pub enum View<'d, D> {
    /// The value `null`.
    Null,
    /// A boolean value.
    Bool(bool),
    /// A JSON number.
    Number(&'d Number),
    /// A string, quoted if it would not be parsed as a string.
    String(&'d str),
    /// A list of nodes.
    List(&'d [D]),
    /// A mapping, in the order of the output.
    Map(Vec<(&'d str, &'d D)>),
}

impl Document for Value {
    fn view(&self) -> View<'_, Self> {
        match self {
            Value::Null => View::Null,
            Value::Bool(b) => View::Bool(*b),
            Value::Number(n) => View::Number(n),
            Value::String(s) => View::String(s),
            Value::Array(items) => View::List(items),
            Value::Object(map) => View::Map(keysort::sort(
                map.iter()
                    .map(|(key, value)| (key.as_str(), value))
                    .collect(),
            )),
        }
    }
}

/// The position of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Root,
    /// The node follows `key:`.
    Value,
    /// The node follows `- `, or the `: ` of a long key.
    Item,
}

struct Emitter {
    out: String,
    /// True if the output ends with a line break that belongs to a block literal.
    line_start: bool,
}

/// A space beyond this column becomes a line break.
const WIDTH: usize = 80;

/// Keys longer than this, in bytes, are written after `? `.
const SIMPLE_KEY: usize = 128;

impl Emitter {
    /// Writes a node whose parent is at `indent`.
    fn node<D: Document>(&mut self, node: &D, indent: usize, position: Position) {
        match node.view() {
            View::Map(entries) if !entries.is_empty() => self.mapping(entries, indent, position),
            View::List(items) if !items.is_empty() => self.sequence(items, indent, position),
            View::Map(_) => self.word("{}", position),
            View::List(_) => self.word("[]", position),
            View::Null => self.word("null", position),
            View::Bool(true) => self.word("true", position),
            View::Bool(false) => self.word("false", position),
            View::Number(n) => {
                self.word("", position);
                self.number(n);
            }
            View::String(s) => {
                self.word("", position);
                self.string(s, style(s, false), Some(indent + 2));
            }
        }
    }

    fn word(&mut self, text: &str, position: Position) {
        if position != Position::Root {
            self.out.push(' ');
        }
        self.out.push_str(text);
        self.line_start = false;
    }

    fn number(&mut self, n: &Number) {
        let whole = if n.is_f64() {
            n.as_f64().and_then(number::json_number)
        } else {
            None
        };
        let n = whole.as_ref().unwrap_or(n);
        // Writing to a String cannot fail.
        let _ = match n.as_f64() {
            Some(f) if n.is_f64() => write!(self.out, "{}", float::format(f, 'g', None)),
            _ => write!(self.out, "{n}"),
        };
    }

    /// Begins a new line and indents it.
    fn line(&mut self, indent: usize) {
        if !self.line_start {
            self.out.push('\n');
        }
        self.pad(indent);
        self.line_start = false;
    }

    fn pad(&mut self, indent: usize) {
        self.out.extend(std::iter::repeat_n(' ', indent));
    }

    /// Writes the start of an entry of a collection: the first one may be on the line of its
    /// parent's `-`.
    fn entry(&mut self, indent: usize, first: bool, position: Position) {
        match position {
            Position::Item if first => self.out.push(' '),
            _ => self.line(indent),
        }
    }

    fn sequence<D: Document>(&mut self, items: &[D], indent: usize, position: Position) {
        let indent = if position == Position::Item {
            indent + 2
        } else {
            indent
        };
        for (i, item) in items.iter().enumerate() {
            self.entry(indent, i == 0, position);
            self.out.push('-');
            self.line_start = false;
            self.node(item, indent, Position::Item);
        }
    }

    fn mapping<D: Document>(
        &mut self,
        entries: Vec<(&str, &D)>,
        indent: usize,
        position: Position,
    ) {
        let indent = if position == Position::Root {
            indent
        } else {
            indent + 2
        };
        for (i, (key, value)) in entries.into_iter().enumerate() {
            self.entry(indent, i == 0, position);
            self.line_start = false;
            if key.len() <= SIMPLE_KEY && !is_multiline(key) {
                self.string(key, style(key, true), None);
                self.out.push(':');
                self.node(value, indent, Position::Value);
            } else {
                self.out.push_str("? ");
                self.string(key, style(key, false), Some(indent + 2));
                self.line(indent);
                self.out.push(':');
                self.node(value, indent, Position::Item);
            }
        }
    }

    /// Writes a string; `indent` is the indentation of its further lines, `None` for a simple key,
    /// which stays on one line.
    fn string(&mut self, text: &str, style: Style, indent: Option<usize>) {
        let foldable = indent.filter(|_| style != Style::Literal && self.may_fold(text));
        match style {
            Style::Plain => match foldable {
                Some(indent) => self.folded(text, indent, false),
                None => self.out.push_str(text),
            },
            Style::Single => {
                self.out.push('\'');
                match indent {
                    Some(indent) => self.folded(text, indent, true),
                    // A simple key has no breaks and is never folded.
                    None => self.out.push_str(&text.replace('\'', "''")),
                }
                self.out.push('\'');
            }
            Style::Double => self.double(text, foldable),
            Style::Literal => self.literal(text, indent.unwrap_or(2)),
        }
    }

    /// Returns whether a string may reach the width. An escape takes up to ten columns for one
    /// byte.
    fn may_fold(&self, text: &str) -> bool {
        text.contains(' ') && self.column() + text.len() * 10 > WIDTH
    }

    /// Returns the column in characters.
    fn column(&self) -> usize {
        let start = self.out.rfind(is_break).map_or(0, |at| {
            at + self.out[at..].chars().next().map_or(1, char::len_utf8)
        });
        self.out[start..].chars().count()
    }

    /// Writes the string of a plain or a single-quoted scalar.
    fn folded(&mut self, text: &str, indent: usize, quoted: bool) {
        let bytes = text.as_bytes();
        let mut column = self.column();
        let (mut spaces, mut after_break) = (false, false);
        for (at, c) in text.char_indices() {
            if c == ' ' {
                let inner = !quoted || (at > 0 && at + 1 < bytes.len());
                if !spaces && column > WIDTH && inner && bytes.get(at + 1) != Some(&b' ') {
                    self.out.push('\n');
                    self.pad(indent);
                    column = indent;
                } else {
                    self.out.push(c);
                    column += 1;
                }
                spaces = true;
                continue;
            }
            if is_break(c) {
                self.out.push(c);
                column = 0;
                after_break = true;
                continue;
            }
            if after_break {
                self.pad(indent);
                column = indent;
            }
            if quoted && c == '\'' {
                self.out.push(c);
                column += 1;
            }
            self.out.push(c);
            column += 1;
            (spaces, after_break) = (false, false);
        }
    }

    fn double(&mut self, text: &str, foldable: Option<usize>) {
        self.out.push('"');
        if text.starts_with('\u{feff}') {
            // go-yaml checks for the byte order mark of the start of the string at every character.
            text.chars().for_each(|c| self.escape(c));
            self.out.push('"');
            return;
        }
        let bytes = text.as_bytes();
        let mut line = foldable.map(|indent| (indent, self.column(), self.out.len()));
        let mut spaces = false;
        for (at, c) in text.char_indices() {
            if c == ' ' {
                let inner = !spaces && at > 0 && at + 1 < bytes.len();
                match line
                    .as_mut()
                    .filter(|line| inner && self.column_of(line) > WIDTH)
                {
                    Some(line) => {
                        self.out.push('\n');
                        self.out.extend(std::iter::repeat_n(' ', line.0));
                        *line = (line.0, line.0, self.out.len());
                        if bytes.get(at + 1) == Some(&b' ') {
                            self.out.push('\\');
                        }
                    }
                    None => self.out.push(c),
                }
                spaces = true;
                continue;
            }
            spaces = false;
            if !matches!(c, '"' | '\\') && is_printable(c) && !is_break(c) {
                self.out.push(c);
            } else {
                self.escape(c);
            }
        }
        self.out.push('"');
    }

    /// Returns the column, computed from an earlier position `(_, column, offset)` on the same
    /// line.
    fn column_of(&self, place: &(usize, usize, usize)) -> usize {
        place.1 + self.out[place.2..].chars().count()
    }

    fn escape(&mut self, c: char) {
        let short = match c {
            '\0' => '0',
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\t' => 't',
            '\n' => 'n',
            '\u{b}' => 'v',
            '\u{c}' => 'f',
            '\r' => 'r',
            '\u{1b}' => 'e',
            '"' => '"',
            '\\' => '\\',
            '\u{85}' => 'N',
            '\u{a0}' => '_',
            '\u{2028}' => 'L',
            '\u{2029}' => 'P',
            _ => '\0',
        };
        self.out.push('\\');
        if short != '\0' {
            self.out.push(short);
            return;
        }
        let code = u32::from(c);
        // Writing to a String cannot fail.
        let _ = match code {
            0..=0xff => write!(self.out, "x{code:02X}"),
            0x100..=0xffff => write!(self.out, "u{code:04X}"),
            _ => write!(self.out, "U{code:08X}"),
        };
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.out.push('|');
        if text.starts_with(|c| c == ' ' || is_break(c)) {
            self.out.push('2');
        }
        let mut last = text.chars().rev();
        match (
            last.next().is_some_and(is_break),
            last.next().is_none_or(is_break),
        ) {
            (false, _) => self.out.push('-'),
            (true, true) => self.out.push('+'),
            (true, false) => {}
        }
        self.out.push('\n');
        let mut after_break = true;
        for line in text.split_inclusive(is_break) {
            if !line.starts_with(is_break) {
                self.pad(indent);
            }
            self.out.push_str(line);
            after_break = line.ends_with(is_break);
        }
        self.line_start = after_break;
    }
}
