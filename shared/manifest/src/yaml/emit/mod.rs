//! JSON values -> the text that `sigs.k8s.io/yaml` v1.6 writes for them.

mod scalar;

use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

use self::scalar::{Style, is_break, is_multiline, is_printable, style};
use super::{float, keysort};

/// Writes a value as `sigs.k8s.io/yaml` v1.6 `Marshal` does, byte for byte: keys in go-yaml v2's order, lists not
/// indented under their key, no line folding, a line break at the end.
///
/// Go refuses strings with DEL or a C1 control character; here they are written escaped, which every reader understands.
pub fn to_string(value: &Value) -> String {
    let mut emitter = Emitter {
        out: String::with_capacity(256),
        line_start: true,
    };
    emitter.node(value, 0, Position::Root);
    if !emitter.line_start {
        emitter.out.push('\n');
    }
    emitter.out
}

/// Where a node stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Root,
    /// After `key:`.
    Value,
    /// After `- `, or after the `: ` of a long key.
    Item,
}

struct Emitter {
    out: String,
    /// Whether the last thing written was a line break that belongs to the output (after a block literal).
    line_start: bool,
}

/// Keys longer than this, in bytes, are written after `? `.
const SIMPLE_KEY: usize = 128;

impl Emitter {
    /// Writes a node whose parent stands at `indent`.
    fn node(&mut self, value: &Value, indent: usize, position: Position) {
        match value {
            Value::Object(map) if !map.is_empty() => self.mapping(map, indent, position),
            Value::Array(items) if !items.is_empty() => self.sequence(items, indent, position),
            Value::Object(_) => self.word("{}", position),
            Value::Array(_) => self.word("[]", position),
            Value::Null => self.word("null", position),
            Value::Bool(true) => self.word("true", position),
            Value::Bool(false) => self.word("false", position),
            Value::Number(n) => {
                self.word("", position);
                self.number(n);
            }
            Value::String(s) => {
                self.word("", position);
                self.string(s, style(s, false), indent + 2);
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
            n.as_f64().and_then(float::json_number)
        } else {
            None
        };
        let n = whole.as_ref().unwrap_or(n);
        // Writing to a String cannot fail.
        let _ = match n.as_f64() {
            Some(f) if n.is_f64() => write!(self.out, "{}", float::general(f)),
            _ => write!(self.out, "{n}"),
        };
    }

    /// Goes to a new line and indents it.
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

    /// The start of an entry of a collection: the first one may stand on the line of its parent's `-`.
    fn entry(&mut self, indent: usize, first: bool, position: Position) {
        match position {
            Position::Item if first => self.out.push(' '),
            _ => self.line(indent),
        }
    }

    fn sequence(&mut self, items: &[Value], indent: usize, position: Position) {
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

    fn mapping(&mut self, map: &Map<String, Value>, indent: usize, position: Position) {
        let indent = if position == Position::Root {
            indent
        } else {
            indent + 2
        };
        let mut entries: Vec<(&String, &Value)> = map.iter().collect();
        entries.sort_by(|(a, _), (b, _)| keysort::compare(a, b));
        for (i, (key, value)) in entries.into_iter().enumerate() {
            self.entry(indent, i == 0, position);
            self.line_start = false;
            if key.len() <= SIMPLE_KEY && !is_multiline(key) {
                self.string(key, style(key, true), indent + 2);
                self.out.push(':');
                self.node(value, indent, Position::Value);
            } else {
                self.out.push_str("? ");
                self.string(key, style(key, false), indent + 2);
                self.line(indent);
                self.out.push(':');
                self.node(value, indent, Position::Item);
            }
        }
    }

    fn string(&mut self, text: &str, style: Style, indent: usize) {
        match style {
            Style::Plain => self.out.push_str(text),
            Style::Single => self.single(text, indent),
            Style::Double => self.double(text),
            Style::Literal => self.literal(text, indent),
        }
    }

    fn single(&mut self, text: &str, indent: usize) {
        self.out.push('\'');
        let mut after_break = false;
        for c in text.chars() {
            if is_break(c) {
                self.out.push(c);
                after_break = true;
                continue;
            }
            if after_break {
                self.pad(indent);
                after_break = false;
            }
            if c == '\'' {
                self.out.push('\'');
            }
            self.out.push(c);
        }
        self.out.push('\'');
    }

    fn double(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            if !matches!(c, '"' | '\\') && is_printable(c) && !is_break(c) {
                self.out.push(c);
            } else {
                self.escape(c);
            }
        }
        self.out.push('"');
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
