//! The printer of one value under one verb.

use crate::value::{Complex, Elem, IntType, Kind, List, Map, Object, Value};
use driftless_go::float;
use driftless_go::print::is_print;
use driftless_go::quote::quote_with;

/// The maximal depth of printed values; a value that contains itself ends there.
const MAX_DEPTH: usize = 200;

#[derive(Default, Clone, Copy)]
pub(super) struct Flags {
    pub width: Option<usize>,
    pub precision: Option<usize>,
    pub minus: bool,
    pub plus: bool,
    pub sharp: bool,
    pub space: bool,
    pub zero: bool,
    pub plus_v: bool,
    pub sharp_v: bool,
}

#[derive(Default)]
pub(super) struct Printer {
    pub out: Vec<u8>,
    pub flags: Flags,
    /// True if a pointer at the top is printed as its target, without `&`.
    pub pointed: bool,
    /// The number of bytes after which nothing more is written: a value can be far larger in print
    /// than in memory, because its parts can be shared.
    pub limit: Option<usize>,
}

impl Printer {
    /// Creates a printer that stops after this many bytes.
    pub fn within(limit: usize) -> Self {
        Printer {
            limit: Some(limit),
            ..Printer::default()
        }
    }

    fn full(&self) -> bool {
        self.limit.is_some_and(|limit| self.out.len() > limit)
    }

    pub fn arg(&mut self, value: &Value, verb: char) {
        if self.full() {
            return;
        }
        match (value, verb) {
            (Value::NoValue | Value::Nil, 'T' | 'v') => self.pad(b"<nil>"),
            (Value::NoValue | Value::Nil, _) => self.bad(value, verb),
            (_, 'T') => self.string(value.type_name().as_bytes(), 's'),
            _ => self.value(value, verb, 0),
        }
    }

    fn bad(&mut self, value: &Value, verb: char) {
        self.text(&format!("%!{verb}("));
        if value.is_nil() {
            self.text("<nil>");
        } else {
            self.text(&value.type_name());
            self.text("=");
            self.value(value, 'v', 0);
        }
        self.text(")");
    }

    pub fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn value(&mut self, value: &Value, verb: char, depth: usize) {
        if depth > MAX_DEPTH {
            return self.text("...");
        }
        if self.full() {
            return;
        }
        match value {
            Value::NoValue | Value::Nil if self.flags.sharp_v => self.text("interface {}(nil)"),
            Value::NoValue | Value::Nil => self.text("<nil>"),
            Value::Bool(b) => match verb {
                't' | 'v' => self.pad(if *b { b"true" } else { b"false" }),
                _ => self.bad(value, verb),
            },
            Value::Int(i, t) => self.integer(value, *i, *t, verb),
            Value::Float(f) => self.float(value, *f, verb),
            Value::Str(s) => match verb {
                'v' | 's' | 'x' | 'X' | 'q' => self.string(s, verb),
                _ => self.bad(value, verb),
            },
            Value::Bytes(b) => self.bytes(b, verb, depth),
            Value::List(list) => self.list(list, verb, depth),
            Value::Map(map) => self.map(map, verb, depth),
            Value::Object(object) => self.object(value, &**object, verb, depth),
        }
    }

    fn integer(&mut self, value: &Value, i: i64, t: IntType, verb: char) {
        let signed = !t.unsigned();
        match verb {
            'v' if self.flags.sharp_v && !signed => {
                let sharp = std::mem::replace(&mut self.flags.sharp, true);
                self.digits(i as u64, 16, false, 'v', false);
                self.flags.sharp = sharp;
            }
            'v' | 'd' => self.digits(i as u64, 10, signed, verb, false),
            'b' => self.digits(i as u64, 2, signed, verb, false),
            'o' | 'O' => self.digits(i as u64, 8, signed, verb, false),
            'x' => self.digits(i as u64, 16, signed, verb, false),
            'X' => self.digits(i as u64, 16, signed, verb, true),
            'c' => {
                let c = rune(i);
                self.pad(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            'q' => {
                let c = rune(i);
                let text = quote_with(c.encode_utf8(&mut [0; 4]).as_bytes(), '\'', self.flags.plus);
                self.pad(text.as_bytes());
            }
            'U' => self.code_point(i as u64),
            _ => self.bad(value, verb),
        }
    }

    /// Prints `U+0041`, with `#` also the character.
    fn code_point(&mut self, u: u64) {
        let digits = self.flags.precision.unwrap_or(4).max(4);
        let hex = format!("{u:X}");
        let zeros = "0".repeat(digits.saturating_sub(hex.len()));
        let mut text = format!("U+{zeros}{hex}");
        if self.flags.sharp
            && let Some(c) = u32::try_from(u).ok().and_then(char::from_u32)
            && is_print(c)
        {
            text.push_str(&format!(" '{c}'"));
        }
        self.pad_spaces(text.as_bytes());
    }

    fn digits(&mut self, u: u64, base: u32, signed: bool, verb: char, upper: bool) {
        let f = self.flags;
        let negative = signed && (u as i64) < 0;
        let u = if negative { u.wrapping_neg() } else { u };
        let mut least = 0;
        if let Some(p) = f.precision {
            least = p;
            if p == 0 && u == 0 {
                self.out
                    .extend(std::iter::repeat_n(b' ', f.width.unwrap_or(0)));
                return;
            }
        } else if f.zero
            && !f.minus
            && let Some(width) = f.width
        {
            least = width;
            if negative || f.plus || f.space {
                least = least.saturating_sub(1);
            }
        }
        let mut text = match base {
            2 => format!("{u:b}"),
            8 => format!("{u:o}"),
            16 if upper => format!("{u:X}"),
            16 => format!("{u:x}"),
            _ => u.to_string(),
        };
        if text.len() < least {
            text.insert_str(0, &"0".repeat(least - text.len()));
        }
        let mut prefix = String::new();
        if negative {
            prefix.push('-');
        } else if f.plus {
            prefix.push('+');
        } else if f.space {
            prefix.push(' ');
        }
        if verb == 'O' {
            prefix.push_str("0o");
        }
        if f.sharp {
            match base {
                2 => prefix.push_str("0b"),
                8 if !text.starts_with('0') => prefix.push('0'),
                16 if upper => prefix.push_str("0X"),
                16 => prefix.push_str("0x"),
                _ => {}
            }
        }
        text.insert_str(0, &prefix);
        self.pad_spaces(text.as_bytes());
    }

    fn float(&mut self, value: &Value, f: f64, verb: char) {
        let (form, default) = match verb {
            'v' => ('g', None),
            'b' | 'g' | 'G' | 'x' | 'X' => (verb, None),
            'f' | 'e' | 'E' => (verb, Some(6)),
            'F' => ('f', Some(6)),
            _ => return self.bad(value, verb),
        };
        let flags = self.flags;
        let precision = flags.precision.or(default);
        let mut text = float::format(f, form, precision);
        if !text.starts_with(['-', '+']) {
            text.insert(0, '+');
        }
        if flags.space && text.starts_with('+') && !flags.plus {
            text.replace_range(..1, " ");
        }
        if !f.is_finite() {
            if f.is_nan() && !flags.space && !flags.plus {
                text.remove(0);
            }
            return self.pad_spaces(text.as_bytes());
        }
        if flags.sharp && form != 'b' {
            text = with_point(&text, form, precision);
        }
        if !flags.plus && text.starts_with('+') {
            return self.pad(&text.as_bytes()[1..]);
        }
        match flags.width {
            Some(width) if flags.zero && !flags.minus && width > text.len() => {
                let zeros = width - text.len();
                self.out.push(text.as_bytes()[0]);
                self.out.extend(std::iter::repeat_n(b'0', zeros));
                self.out.extend_from_slice(&text.as_bytes()[1..]);
            }
            _ => self.pad(text.as_bytes()),
        }
    }

    fn string(&mut self, s: &[u8], verb: char) {
        match verb {
            'q' => self.quoted(s),
            'v' if self.flags.sharp_v => self.quoted(s),
            'x' => self.hex(s, false),
            'X' => self.hex(s, true),
            _ => {
                let s = self.truncated(s);
                self.pad(s);
            }
        }
    }

    fn truncated<'s>(&self, s: &'s [u8]) -> &'s [u8] {
        let Some(limit) = self.flags.precision else {
            return s;
        };
        let mut end = 0;
        for _ in 0..limit {
            if end >= s.len() {
                break;
            }
            end += rune_len(&s[end..]);
        }
        &s[..end]
    }

    fn quoted(&mut self, s: &[u8]) {
        let s = self.truncated(s);
        if self.flags.sharp && can_backquote(s) {
            let text = [b"`", s, b"`"].concat();
            return self.pad(&text);
        }
        let text = quote_with(s, '"', self.flags.plus);
        self.pad(text.as_bytes());
    }

    fn hex(&mut self, s: &[u8], upper: bool) {
        let f = self.flags;
        let s = &s[..f.precision.unwrap_or(s.len()).min(s.len())];
        let prefix = match (f.sharp, upper) {
            (false, _) => "",
            (true, false) => "0x",
            (true, true) => "0X",
        };
        let mut text = String::new();
        for (i, byte) in s.iter().enumerate() {
            if f.space && i > 0 {
                text.push(' ');
            }
            if i == 0 || f.space {
                text.push_str(prefix);
            }
            text.push_str(&if upper {
                format!("{byte:02X}")
            } else {
                format!("{byte:02x}")
            });
        }
        self.pad(text.as_bytes());
    }

    fn bytes(&mut self, b: &[u8], verb: char, depth: usize) {
        match verb {
            's' | 'q' | 'x' | 'X' => return self.string(b, verb),
            'v' if self.flags.sharp_v => {
                // Go names the type as written only at the top.
                self.text(if depth == 0 { "[]byte{" } else { "[]uint8{" });
                for (i, byte) in b.iter().enumerate() {
                    if i > 0 {
                        self.text(", ");
                    }
                    let item = Value::Int(i64::from(*byte), IntType::Uint8);
                    self.integer(&item, i64::from(*byte), IntType::Uint8, verb);
                }
                return self.text("}");
            }
            _ => {}
        }
        self.out.push(b'[');
        for (i, byte) in b.iter().enumerate() {
            if i > 0 {
                self.out.push(b' ');
            }
            let item = Value::Int(i64::from(*byte), IntType::Uint8);
            self.integer(&item, i64::from(*byte), IntType::Uint8, verb);
        }
        self.out.push(b']');
    }

    fn list(&mut self, list: &List, verb: char, depth: usize) {
        let sharp = self.flags.sharp_v;
        if sharp {
            self.text(list.info().name);
            if list.is_nil() {
                return self.text("(nil)");
            }
        }
        self.out.push(if sharp { b'{' } else { b'[' });
        for (i, item) in list.items().iter().enumerate() {
            if i > 0 {
                self.text(if sharp { ", " } else { " " });
            }
            self.value(item, verb, depth + 1);
        }
        self.out.push(if sharp { b'}' } else { b']' });
    }

    fn map(&mut self, map: &Map, verb: char, depth: usize) {
        let sharp = self.flags.sharp_v;
        if sharp {
            self.text(map.info().name);
            if map.is_nil() {
                return self.text("(nil)");
            }
            self.text("{");
        } else {
            self.text("map[");
        }
        for (i, (key, item)) in map.entries().iter().enumerate() {
            if i > 0 {
                self.text(if sharp { ", " } else { " " });
            }
            self.value(&Value::Str(key.clone()), verb, depth + 1);
            self.out.push(b':');
            if map.info().elem == Elem::Any && item.is_nil() && !sharp {
                self.text("<nil>");
            } else {
                self.value(item, verb, depth + 1);
            }
        }
        self.out.push(if sharp { b'}' } else { b']' });
    }

    fn object(&mut self, value: &Value, object: &dyn Object, verb: char, depth: usize) {
        if !self.flags.sharp_v
            && matches!(verb, 'v' | 's' | 'x' | 'X' | 'q')
            && let Some(text) = object.string()
        {
            return self.string(text.as_bytes(), verb);
        }
        if let Some(c) = Complex::of(object) {
            return self.complex(value, c, verb);
        }
        if let (Some(n), Kind::Int(t)) = (object.integer(), object.kind()) {
            return self.integer(&Value::Int(n, t), n, t, verb);
        }
        match object.kind() {
            Kind::Ptr if depth > 0 => return self.text("0xc000000000"),
            Kind::Ptr if !self.pointed => self.text("&"),
            Kind::Func => return self.bad(value, verb),
            _ => {}
        }
        let sharp = self.flags.sharp_v;
        if sharp {
            self.text(object.type_name().trim_start_matches('*'));
        }
        self.out.push(b'{');
        for (i, (name, item)) in object.fields().iter().enumerate() {
            if i > 0 {
                self.text(if sharp { ", " } else { " " });
            }
            if sharp || self.flags.plus_v {
                self.text(name);
                self.out.push(b':');
            }
            self.value(item, verb, depth + 1);
        }
        self.out.push(b'}');
    }

    fn complex(&mut self, value: &Value, c: Complex, verb: char) {
        if !"vbgGxXfFeE".contains(verb) {
            return self.bad(value, verb);
        }
        self.text("(");
        self.float(value, c.re, verb);
        let plus = std::mem::replace(&mut self.flags.plus, true);
        self.float(value, c.im, verb);
        self.flags.plus = plus;
        self.text("i)");
    }

    fn pad(&mut self, text: &[u8]) {
        let fill = if self.flags.zero && !self.flags.minus {
            b'0'
        } else {
            b' '
        };
        self.pad_with(text, fill);
    }

    fn pad_spaces(&mut self, text: &[u8]) {
        self.pad_with(text, b' ');
    }

    fn pad_with(&mut self, text: &[u8], fill: u8) {
        let missing = match self.flags.width {
            Some(width) => width.saturating_sub(rune_count(text)),
            None => 0,
        };
        if !self.flags.minus {
            self.out.extend(std::iter::repeat_n(fill, missing));
        }
        self.out.extend_from_slice(text);
        if self.flags.minus {
            self.out.extend(std::iter::repeat_n(fill, missing));
        }
    }
}

fn rune(i: i64) -> char {
    u32::try_from(i)
        .ok()
        .and_then(char::from_u32)
        .unwrap_or('\u{fffd}')
}

/// Returns the bytes of the first character; a byte that is not UTF-8 counts as one.
fn rune_len(s: &[u8]) -> usize {
    let head = &s[..s.len().min(4)];
    match head.utf8_chunks().next() {
        Some(chunk) => chunk.valid().chars().next().map_or(1, char::len_utf8),
        None => 1,
    }
}

fn rune_count(s: &[u8]) -> usize {
    s.utf8_chunks()
        .map(|c| c.valid().chars().count() + c.invalid().len())
        .sum()
}

fn can_backquote(s: &[u8]) -> bool {
    std::str::from_utf8(s).is_ok_and(|s| {
        s.chars()
            .all(|c| c != '\u{feff}' && c != '`' && c != '\u{7f}' && (c == '\t' || c >= ' '))
    })
}

/// Applies the `#` flag: a decimal point always, and zeros up to the precision for %g.
fn with_point(text: &str, form: char, precision: Option<usize>) -> String {
    let mut wanted = match form {
        'g' | 'G' | 'x' | 'v' => precision.unwrap_or(6) as i64,
        _ => 0,
    };
    let hex = matches!(form, 'x' | 'X');
    let cut = text[1..]
        .find(|c: char| matches!(c, 'p' | 'P') || !hex && matches!(c, 'e' | 'E'))
        .map_or(text.len(), |i| i + 1);
    let (number, tail) = text.split_at(cut);
    let mut number = number.to_owned();
    let mut started = false;
    for c in number[1..].chars().filter(|c| *c != '.') {
        started |= c != '0';
        wanted -= i64::from(started);
    }
    if !number.contains('.') {
        if &number[1..] == "0" {
            wanted -= 1;
        }
        number.push('.');
    }
    for _ in 0..wanted {
        number.push('0');
    }
    number + tail
}
