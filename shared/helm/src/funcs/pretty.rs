//! The YAML writer of go-yaml v3 with two spaces: lists are indented below their key, nothing is
//! folded.

use super::equal::{MAX_DEPTH, too_deep};
use driftless_go::float;
use driftless_gotmpl::{Exec, FuncError, Str, Value};
use serde_json::Value as Json;
use std::cmp::Ordering;

/// Writes a value without the line break at its end.
pub(super) fn write(exec: &mut Exec<'_>, value: &Value) -> Result<String, FuncError> {
    super::write_cost::pay(exec, value, 0)?;
    let mut writer = Writer {
        out: String::new(),
        fresh: true,
    };
    writer.node(value, 0)?;
    if !writer.fresh {
        writer.out.push('\n');
    }
    writer.out.pop();
    Ok(writer.out)
}

struct Writer {
    out: String,
    /// True at the start of a line.
    fresh: bool,
}

/// The length of a key beyond which it is written with a `?`.
const SIMPLE_KEY: usize = 128;

impl Writer {
    fn push(&mut self, text: &str) {
        self.out.push_str(text);
        self.fresh = false;
    }

    fn line(&mut self, depth: usize) {
        if !self.fresh {
            self.out.push('\n');
        }
        self.out.extend(std::iter::repeat_n("  ", depth));
        self.fresh = false;
    }

    /// Writes a node whose further lines are indented by `depth` levels.
    fn node(&mut self, value: &Value, depth: usize) -> Result<(), FuncError> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        match value {
            Value::Map(map) if !map.is_empty() => {
                let mut entries = map.pairs();
                entries.sort_by(|(a, _), (b, _)| natural(a, b));
                for (i, (key, item)) in entries.iter().enumerate() {
                    if i > 0 {
                        self.line(depth);
                    }
                    self.entry(key, item, depth)?;
                }
            }
            Value::List(list) if !list.is_empty() => {
                for (i, item) in list.items().iter().enumerate() {
                    if i > 0 {
                        self.line(depth);
                    }
                    self.push("- ");
                    self.node(item, depth + 1)?;
                }
            }
            other => self.scalar(other, depth.max(1)),
        }
        Ok(())
    }

    fn entry(&mut self, key: &Str, item: &Value, depth: usize) -> Result<(), FuncError> {
        let text = key.lossy();
        let simple = text.len() <= SIMPLE_KEY && !text.contains('\n');
        if !simple {
            self.push("? ");
        }
        self.text(&text, depth + 1, simple);
        if !simple {
            self.line(depth);
        }
        self.push(":");
        let nested = matches!(item, Value::Map(m) if !m.is_empty())
            || matches!(item, Value::List(l) if !l.is_empty());
        if nested && simple {
            self.line(depth + 1);
        } else {
            self.push(" ");
        }
        self.node(item, depth + 1)
    }

    fn scalar(&mut self, value: &Value, depth: usize) {
        match value {
            Value::NoValue | Value::Nil => self.push("null"),
            Value::Bool(b) => self.push(if *b { "true" } else { "false" }),
            Value::Int(i, t) if t.unsigned() => self.push(&(*i as u64).to_string()),
            Value::Int(i, _) => self.push(&i.to_string()),
            Value::Float(f) => self.push(&match *f {
                f if f.is_nan() => ".nan".to_owned(),
                f if f.is_infinite() => if f < 0.0 { "-.inf" } else { ".inf" }.to_owned(),
                f => float::format(f, 'g', None),
            }),
            Value::List(_) => self.push("[]"),
            Value::Map(_) => self.push("{}"),
            Value::Bytes(b) => self.text(&String::from_utf8_lossy(b), depth, false),
            Value::Str(s) => self.text(&s.lossy(), depth, false),
            Value::Object(o) => {
                let text = o.string().unwrap_or_default();
                self.text(&text, depth, false);
            }
        }
    }

    fn text(&mut self, s: &str, depth: usize, key: bool) {
        if s.contains('\n') && !key && block(s) {
            return self.literal(s, depth);
        }
        let written = driftless_manifest::yaml::to_string(&Json::String(s.to_owned()));
        self.push(&unfolded(written.trim_end_matches('\n')));
    }

    /// Writes a literal block: `|`, with an indentation hint if the string begins with a blank, and
    /// the chomping of the breaks at its end.
    fn literal(&mut self, s: &str, depth: usize) {
        self.push("|");
        if s.starts_with([' ', '\n']) {
            self.push("2");
        }
        let keep = s == "\n" || s.ends_with("\n\n");
        match (s.ends_with('\n'), keep) {
            (false, _) => self.push("-"),
            (true, true) => self.push("+"),
            (true, false) => {}
        }
        self.out.push('\n');
        for line in s.split_inclusive('\n') {
            if line != "\n" {
                self.out.extend(std::iter::repeat_n("  ", depth));
            }
            self.out.push_str(line);
        }
        self.fresh = s.ends_with('\n');
    }
}

/// Checks whether a string can be a block: no blank before a break or at the end, nothing that must
/// be escaped.
fn block(s: &str) -> bool {
    let odd = |c: char| c.is_control() && !matches!(c, '\n' | '\t') || c == '\u{feff}';
    !s.contains(" \n") && !s.ends_with(' ') && !s.contains(odd)
}

/// Joins a quoted or plain scalar into one line: it was folded at spaces.
fn unfolded(written: &str) -> String {
    let double = written.starts_with('"');
    let mut lines = written.split('\n');
    let mut out = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        let rest = line.trim_start_matches(' ');
        out.push(' ');
        out.push_str(
            rest.strip_prefix('\\')
                .filter(|r| double && r.starts_with(' '))
                .unwrap_or(rest),
        );
    }
    out
}

/// Compares in go-yaml's order of keys: numbers in strings by their value, letters after everything
/// else.
fn natural(a: &Str, b: &Str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.lossy().chars().collect(), b.lossy().chars().collect());
    let mut digits = false;
    for i in 0..a.len().min(b.len()) {
        let (x, y) = (a[i], b[i]);
        if x == y {
            digits = x.is_numeric();
            continue;
        }
        let order = match (x.is_alphabetic(), y.is_alphabetic()) {
            (true, true) => x.cmp(&y),
            (x_letter, y_letter) if x_letter || y_letter => {
                // In the middle of a number letters come first, otherwise last.
                if digits == x_letter {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
            _ => numbers(&a, &b, i),
        };
        return order;
    }
    a.len().cmp(&b.len())
}

/// Compares two strings that differ at `i`, where neither has a letter.
fn numbers(a: &[char], b: &[char], i: usize) -> Ordering {
    let run = a[..i].iter().rev().take_while(|c| c.is_ascii_digit());
    let counted = (a[i] == '0' || b[i] == '0') && run.clone().any(|c| *c != '0');
    let value = |text: &[char]| {
        let digits = text[i..].iter().map_while(|c| c.to_digit(10));
        digits.fold((0usize, i64::from(counted)), |(length, value), digit| {
            (
                length + 1,
                value.wrapping_mul(10).wrapping_add(i64::from(digit)),
            )
        })
    };
    let ((a_length, a_value), (b_length, b_value)) = (value(a), value(b));
    a_value
        .cmp(&b_value)
        .then(a_length.cmp(&b_length))
        .then(a[i].cmp(&b[i]))
}
