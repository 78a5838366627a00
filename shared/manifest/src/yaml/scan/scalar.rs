//! Scans plain, quoted and block scalars.

use std::borrow::Cow;

use super::super::node::ScalarStyle;
use super::tag::hex;
use super::{Mark, Scan, Scanner};

/// Line breaks of a flow scalar that are not yet folded.
#[derive(Default)]
struct Breaks {
    first: Option<char>,
    more: String,
}

impl Breaks {
    fn add(&mut self, c: char) {
        match self.first {
            None => self.first = Some(c),
            Some(_) => self.more.push(c),
        }
    }

    /// Folds breaks: one line feed becomes a space, and `n` of them become `n - 1`; Unicode breaks
    /// are unchanged.
    fn fold_into(&mut self, out: &mut String) {
        match self.first.take() {
            Some('\n') if self.more.is_empty() => out.push(' '),
            Some('\n') | None => {}
            Some(c) => out.push(c),
        }
        out.push_str(&self.more);
        self.more.clear();
    }
}

impl<'t> Scanner<'t> {
    pub(super) fn scan_plain(&mut self) -> Scan<Cow<'t, str>> {
        let (start, indent) = (self.mark, self.indent + 1);
        let mut text = Pieces::new(self.text, self.pos);
        let mut breaks = Breaks::default();
        let mut new_line = false;
        loop {
            if self.is_document_indicator() || self.at(0) == b'#' {
                break;
            }
            let from = self.pos;
            self.plain_run();
            if self.pos > from {
                if new_line {
                    text.fold(&mut breaks, from);
                    new_line = false;
                }
                text.extend_to(self.pos);
            }
            if !self.is_blank(0) && self.line_break_len(0) == 0 {
                break;
            }
            self.plain_space(&mut breaks, &mut new_line, start, indent)?;
            if !self.in_flow() && (self.mark.column as isize) < indent {
                break;
            }
        }
        if new_line {
            self.key_allowed = true;
        }
        Ok(text.finish())
    }

    /// Skips to a character that may end a plain scalar.
    fn plain_run(&mut self) {
        let flow = self.in_flow();
        let (mut pos, mut column) = (self.pos, self.mark.column);
        while let Some(&byte) = self.bytes.get(pos) {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => break,
                b':' if self.is_blankz(pos + 1 - self.pos) => break,
                b',' | b'?' | b'[' | b']' | b'{' | b'}' if flow => break,
                0xc2 | 0xe2 if self.line_break_len(pos - self.pos) > 0 => break,
                _ => column += usize::from(byte & 0xc0 != 0x80),
            }
            pos += 1;
        }
        self.pos = pos;
        self.mark.column = column;
    }

    fn plain_space(
        &mut self,
        breaks: &mut Breaks,
        new_line: &mut bool,
        start: Mark,
        indent: isize,
    ) -> Scan<()> {
        loop {
            if self.is_blank(0) {
                if *new_line && (self.mark.column as isize) < indent && self.at(0) == b'\t' {
                    return Err(start.syntax("a tab where an indentation of spaces is expected"));
                }
                self.skip(1);
            } else if let Some(c) = self.skip_break() {
                breaks.add(c);
                *new_line = true;
            } else {
                return Ok(());
            }
        }
    }

    pub(super) fn scan_quoted(&mut self, single: bool) -> Scan<Cow<'t, str>> {
        let start = self.mark;
        self.skip(1);
        if let Some(text) = self.simple_quoted(single) {
            return Ok(Cow::Borrowed(text));
        }
        let quote = if single { b'\'' } else { b'"' };
        let mut out = String::new();
        let mut breaks = Breaks::default();
        loop {
            if self.is_document_indicator() {
                return Err(start.syntax("a document ends within a quoted string"));
            }
            if self.at(0) == 0 {
                return Err(start.syntax("expected a closing quote"));
            }
            let mut new_line = self.quoted_run(single, &mut out, start)?;
            if self.at(0) == quote {
                self.skip(1);
                return Ok(Cow::Owned(out));
            }
            let from = self.pos;
            let mut blanks = self.pos;
            loop {
                if self.is_blank(0) {
                    self.skip(1);
                    if !new_line {
                        blanks = self.pos;
                    }
                } else if self.line_break_len(0) > 0 {
                    // After an escaped break, the following breaks are kept.
                    match self.skip_break() {
                        Some(c) if new_line && breaks.first.is_none() => breaks.more.push(c),
                        Some(c) => breaks.add(c),
                        None => {}
                    }
                    new_line = true;
                } else {
                    break;
                }
            }
            if new_line {
                breaks.fold_into(&mut out);
            } else {
                out.push_str(&self.text[from..blanks]);
            }
        }
    }

    /// Scans a quoted string on one line without escapes.
    fn simple_quoted(&mut self, single: bool) -> Option<&'t str> {
        let quote = if single { b'\'' } else { b'"' };
        let rest = &self.bytes[self.pos..];
        let special = |b: &u8| {
            *b == quote || matches!(b, b'\n' | b'\r' | 0xc2 | 0xe2) || (*b == b'\\' && !single)
        };
        let length = rest.iter().position(special)?;
        if rest[length] != quote || (single && rest.get(length + 1) == Some(&b'\'')) {
            return None;
        }
        let text = &self.text[self.pos..self.pos + length];
        self.pos += length + 1;
        self.mark.column += text.chars().count() + 1;
        Some(text)
    }

    /// Copies characters up to a blank, a break or the closing quote. Returns whether they end with
    /// an escaped line break.
    fn quoted_run(&mut self, single: bool, out: &mut String, start: Mark) -> Scan<bool> {
        while !self.is_blankz(0) {
            match self.at(0) {
                b'\'' if single && self.at(1) == b'\'' => {
                    out.push('\'');
                    self.skip(2);
                }
                b'\'' if single => break,
                b'"' if !single => break,
                b'\\' if !single && self.line_break_len(1) > 0 => {
                    self.skip(1);
                    self.skip_break();
                    return Ok(true);
                }
                b'\\' if !single => self.escape(out, start)?,
                _ => self.copy_char(out),
            }
        }
        Ok(false)
    }

    fn copy_char(&mut self, out: &mut String) {
        if let Some(c) = self.text[self.pos..].chars().next() {
            out.push(c);
            self.pos += c.len_utf8();
            self.mark.column += 1;
        }
    }

    fn escape(&mut self, out: &mut String, start: Mark) -> Scan<()> {
        let length = match self.at(1) {
            b'x' => 2,
            b'u' => 4,
            b'U' => 8,
            byte => {
                let c = simple_escape(byte)
                    .ok_or_else(|| start.syntax("an unknown escape in a quoted string"))?;
                out.push(c);
                self.skip(2);
                return Ok(());
            }
        };
        let mut digits = (0..length).map(|i| hex(self.at(2 + i)));
        let code = digits.try_fold(0u64, |code, digit| digit.map(|d| code << 4 | u64::from(d)));
        let code = code.ok_or_else(|| start.syntax("expected hexadecimal digits in an escape"))?;
        let c = u32::try_from(code).ok().and_then(char::from_u32);
        out.push(c.ok_or_else(|| start.syntax("an escape that is no Unicode character"))?);
        self.skip(2 + length);
        Ok(())
    }

    pub(super) fn scan_block_scalar(&mut self, style: ScalarStyle) -> Scan<String> {
        let start = self.mark;
        self.skip(1);
        let (chomp, increment) = self.block_header(start)?;
        self.end_of_line(start)?;
        let mut indent = increment.map_or(0, |i| self.indent.max(0) as usize + i);
        let mut out = String::new();
        let mut leading = None;
        let mut trailing = String::new();
        let mut after_blank = false;
        self.block_breaks(&mut indent, &mut trailing, start)?;
        while self.mark.column == indent && self.at(0) != 0 {
            let blank = self.is_blank(0);
            let folds =
                style == ScalarStyle::Folded && !after_blank && !blank && leading == Some('\n');
            match leading.take() {
                Some(_) if folds && trailing.is_empty() => out.push(' '),
                Some(_) if folds => {}
                Some(c) => out.push(c),
                None => {}
            }
            out.push_str(&trailing);
            trailing.clear();
            after_blank = blank;
            out.push_str(self.rest_of_line());
            leading = self.skip_break();
            self.block_breaks(&mut indent, &mut trailing, start)?;
        }
        if chomp != Chomp::Strip {
            out.extend(leading);
        }
        if chomp == Chomp::Keep {
            out.push_str(&trailing);
        }
        Ok(out)
    }

    /// Scans `-` or `+` and a digit, in either order.
    fn block_header(&mut self, start: Mark) -> Scan<(Chomp, Option<usize>)> {
        let mut chomp = self.chomp();
        let mut increment = None;
        if self.at(0).is_ascii_digit() {
            if self.at(0) == b'0' {
                return Err(start.syntax("the indentation of a block scalar must be 1 to 9"));
            }
            increment = Some(usize::from(self.at(0) - b'0'));
            self.skip(1);
            chomp = chomp.or_else(|| self.chomp());
        }
        Ok((chomp.unwrap_or(Chomp::Clip), increment))
    }

    fn chomp(&mut self) -> Option<Chomp> {
        let chomp = match self.at(0) {
            b'+' => Chomp::Keep,
            b'-' => Chomp::Strip,
            _ => return None,
        };
        self.skip(1);
        Some(chomp)
    }

    /// Skips indentation and empty lines; the first line that is not empty sets the indentation (0:
    /// not known yet).
    fn block_breaks(&mut self, indent: &mut usize, breaks: &mut String, start: Mark) -> Scan<()> {
        let mut deepest = 0;
        loop {
            while (*indent == 0 || self.mark.column < *indent) && self.at(0) == b' ' {
                self.skip(1);
            }
            deepest = deepest.max(self.mark.column);
            if (*indent == 0 || self.mark.column < *indent) && self.at(0) == b'\t' {
                return Err(start.syntax("a tab where an indentation of spaces is expected"));
            }
            match self.skip_break() {
                Some(c) => breaks.push(c),
                None => break,
            }
        }
        if *indent == 0 {
            *indent = deepest.max((self.indent + 1).max(1) as usize);
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Chomp {
    Strip,
    Clip,
    Keep,
}

fn simple_escape(byte: u8) -> Option<char> {
    Some(match byte {
        b'0' => '\0',
        b'a' => '\u{7}',
        b'b' => '\u{8}',
        b't' | b'\t' => '\t',
        b'n' => '\n',
        b'v' => '\u{b}',
        b'f' => '\u{c}',
        b'r' => '\r',
        b'e' => '\u{1b}',
        b' ' => ' ',
        b'"' => '"',
        b'\'' => '\'',
        b'\\' => '\\',
        b'N' => '\u{85}',
        b'_' => '\u{a0}',
        b'L' => '\u{2028}',
        b'P' => '\u{2029}',
        _ => return None,
    })
}

/// The string of a plain scalar: a slice of the file while it is on one line.
struct Pieces<'t> {
    source: &'t str,
    owned: String,
    from: usize,
    to: usize,
}

impl<'t> Pieces<'t> {
    fn new(source: &'t str, from: usize) -> Self {
        Pieces {
            source,
            owned: String::new(),
            from,
            to: from,
        }
    }

    fn extend_to(&mut self, to: usize) {
        self.to = to;
    }

    /// Ends the current line with a folded break; the next line begins at `from`.
    fn fold(&mut self, breaks: &mut Breaks, from: usize) {
        self.owned.push_str(&self.source[self.from..self.to]);
        breaks.fold_into(&mut self.owned);
        self.from = from;
    }

    fn finish(mut self) -> Cow<'t, str> {
        let last = &self.source[self.from..self.to];
        if self.owned.is_empty() {
            return Cow::Borrowed(last);
        }
        self.owned.push_str(last);
        Cow::Owned(self.owned)
    }
}
