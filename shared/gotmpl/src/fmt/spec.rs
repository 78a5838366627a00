//! Format strings: flags, widths, argument numbers.

use super::print::{Flags, Printer};
use crate::value::Value;

/// Go's limit of widths, precisions and argument numbers.
const TOO_LARGE: usize = 1_000_000;

pub(super) fn sprintf(format: &[u8], args: &[Value], printer: Printer) -> Vec<u8> {
    let mut state = State {
        format,
        at: 0,
        args,
        next: 0,
        reordered: false,
        good: true,
        after_index: false,
        printer,
    };
    state.run();
    state.printer.out
}

struct State<'a> {
    format: &'a [u8],
    at: usize,
    args: &'a [Value],
    next: usize,
    reordered: bool,
    good: bool,
    after_index: bool,
    printer: Printer,
}

impl State<'_> {
    fn peek(&self) -> Option<u8> {
        self.format.get(self.at).copied()
    }

    fn run(&mut self) {
        while self.at < self.format.len() {
            let rest = &self.format[self.at..];
            let plain = rest.iter().position(|b| *b == b'%').unwrap_or(rest.len());
            self.printer.out.extend_from_slice(&rest[..plain]);
            self.at += plain;
            if self.peek().is_none() {
                break;
            }
            self.at += 1;
            if !self.directive() {
                break;
            }
        }
        if !self.reordered && self.next < self.args.len() {
            self.extra();
        }
    }

    fn extra(&mut self) {
        self.printer.flags = Flags::default();
        self.printer.text("%!(EXTRA ");
        for (i, arg) in self.args[self.next..].iter().enumerate() {
            if i > 0 {
                self.printer.text(", ");
            }
            if arg.is_nil() {
                self.printer.text("<nil>");
            } else {
                self.printer.text(&arg.type_name());
                self.printer.text("=");
                self.printer.arg(arg, 'v');
            }
        }
        self.printer.text(")");
    }

    /// Formats one `%…` directive; returns false at the end of the format.
    fn directive(&mut self) -> bool {
        self.printer.flags = Flags::default();
        self.good = true;
        self.after_index = false;
        self.flags();
        self.index();
        self.width();
        if self.peek() == Some(b'.') && self.at + 1 < self.format.len() {
            self.precision();
        }
        if !self.after_index {
            self.index();
        }
        let rest = &self.format[self.at..];
        let Some(verb) = first_char(rest) else {
            self.printer.text("%!(NOVERB)");
            return false;
        };
        self.at += if verb == '\u{fffd}' && !rest.starts_with("\u{fffd}".as_bytes()) {
            1
        } else {
            verb.len_utf8()
        };
        self.verb(verb);
        true
    }

    fn flags(&mut self) {
        loop {
            let flags = &mut self.printer.flags;
            match self.format.get(self.at) {
                Some(b'#') => flags.sharp = true,
                Some(b'0') => flags.zero = true,
                Some(b'+') => flags.plus = true,
                Some(b'-') => flags.minus = true,
                Some(b' ') => flags.space = true,
                _ => return,
            }
            self.at += 1;
        }
    }

    fn width(&mut self) {
        if self.peek() == Some(b'*') {
            self.at += 1;
            match self.int_arg() {
                Some(w) => {
                    self.printer.flags.width = Some(w.unsigned_abs() as usize);
                    if w < 0 {
                        self.printer.flags.minus = true;
                        self.printer.flags.zero = false;
                    }
                }
                None => self.printer.text("%!(BADWIDTH)"),
            }
            self.after_index = false;
            return;
        }
        self.printer.flags.width = self.number();
        if self.after_index && self.printer.flags.width.is_some() {
            self.good = false;
        }
    }

    fn precision(&mut self) {
        self.at += 1;
        if self.after_index {
            self.good = false;
        }
        self.index();
        if self.peek() == Some(b'*') {
            self.at += 1;
            let precision = self.int_arg().and_then(|p| usize::try_from(p).ok());
            self.printer.flags.precision = precision;
            if precision.is_none() {
                self.printer.text("%!(BADPREC)");
            }
            self.after_index = false;
            return;
        }
        self.printer.flags.precision = Some(self.number().unwrap_or(0));
    }

    fn number(&mut self) -> Option<usize> {
        let mut n: Option<usize> = None;
        while let Some(d @ b'0'..=b'9') = self.peek() {
            let value = n.unwrap_or(0) * 10 + usize::from(d - b'0');
            if value > TOO_LARGE {
                self.at = self.format.len();
                return None;
            }
            n = Some(value);
            self.at += 1;
        }
        n
    }

    fn int_arg(&mut self) -> Option<i64> {
        let arg = self.args.get(self.next)?;
        self.next += 1;
        match arg {
            Value::Int(i, _) if i.unsigned_abs() <= TOO_LARGE as u64 => Some(*i),
            _ => None,
        }
    }

    /// Reads an argument index, `[n]`.
    fn index(&mut self) {
        if self.peek() != Some(b'[') {
            self.after_index = false;
            return;
        }
        self.reordered = true;
        let rest = &self.format[self.at..];
        let Some(end) = rest.iter().position(|b| *b == b']') else {
            self.good = false;
            self.at += 1;
            self.after_index = false;
            return;
        };
        let text = std::str::from_utf8(&rest[1..end]).unwrap_or_default();
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let n = if digits {
            text.parse::<usize>().ok()
        } else {
            None
        };
        self.at += end + 1;
        match n {
            Some(n) if n >= 1 && n <= self.args.len() => {
                self.next = n - 1;
                self.after_index = true;
            }
            n => {
                self.good = false;
                self.after_index = n.is_some();
            }
        }
    }

    fn verb(&mut self, verb: char) {
        if verb == '%' {
            self.printer.out.push(b'%');
        } else if !self.good {
            self.printer.text(&format!("%!{verb}(BADINDEX)"));
        } else if self.next >= self.args.len() {
            self.printer.text(&format!("%!{verb}(MISSING)"));
        } else {
            let flags = &mut self.printer.flags;
            if verb == 'v' || verb == 'w' {
                flags.sharp_v = std::mem::take(&mut flags.sharp);
                flags.plus_v = std::mem::take(&mut flags.plus);
            }
            self.printer.arg(&self.args[self.next], verb);
            self.next += 1;
        }
    }
}

fn first_char(bytes: &[u8]) -> Option<char> {
    let chunk = bytes[..bytes.len().min(4)].utf8_chunks().next()?;
    Some(chunk.valid().chars().next().unwrap_or('\u{fffd}'))
}
