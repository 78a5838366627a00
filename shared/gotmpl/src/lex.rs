//! The lexer: text to tokens. It produces one token at a time: the parser decides when it needs the
//! next.

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Error,
    Bool,
    Char,
    CharConstant,
    Complex,
    Assign,
    Declare,
    Eof,
    Field,
    Identifier,
    LeftDelim,
    LeftParen,
    Number,
    Pipe,
    RawString,
    RightDelim,
    RightParen,
    Space,
    String,
    Text,
    Variable,
    Block,
    Break,
    Continue,
    Dot,
    Define,
    Else,
    End,
    If,
    Nil,
    Range,
    Template,
    With,
}

impl Kind {
    fn keyword(word: &str) -> Option<Kind> {
        Some(match word {
            "block" => Kind::Block,
            "break" => Kind::Break,
            "continue" => Kind::Continue,
            "define" => Kind::Define,
            "else" => Kind::Else,
            "end" => Kind::End,
            "if" => Kind::If,
            "nil" => Kind::Nil,
            "range" => Kind::Range,
            "template" => Kind::Template,
            "with" => Kind::With,
            _ => return None,
        })
    }

    pub(crate) fn is_keyword(self) -> bool {
        matches!(
            self,
            Kind::Block
                | Kind::Break
                | Kind::Continue
                | Kind::Dot
                | Kind::Define
                | Kind::Else
                | Kind::End
                | Kind::If
                | Kind::Nil
                | Kind::Range
                | Kind::Template
                | Kind::With
        )
    }
}

/// A token with its position. Its text is part of the input; the message of an error is in
/// [`Lexer::failure`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'t> {
    pub kind: Kind,
    /// The byte offset of its start.
    pub pos: usize,
    pub text: &'t str,
    /// The line of its start, counted from 1.
    pub line: usize,
}

impl std::fmt::Display for Token<'_> {
    /// Formats the token as in Go's messages.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind {
            Kind::Eof => f.write_str("EOF"),
            Kind::Error => f.write_str("an error"),
            k if k.is_keyword() => write!(f, "<{}>", self.text),
            _ if self.text.len() > 10 => {
                let head: String = self.text.chars().take(10).collect();
                write!(f, "{}...", driftless_go::quote::quote(head.as_bytes()))
            }
            _ => f.write_str(&driftless_go::quote::quote(self.text.as_bytes())),
        }
    }
}

pub(crate) struct Lexer<'t> {
    input: &'t str,
    start: usize,
    pos: usize,
    line: usize,
    start_line: usize,
    parens: usize,
    inside: bool,
    failure: Option<String>,
    /// True if `break` and `continue` are keywords.
    keywords: bool,
}

const LEFT: &str = "{{";
const RIGHT: &str = "}}";

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn is_space_byte(b: u8) -> bool {
    is_space(b as char)
}

/// The bytes of ASCII that are part of words.
const WORD: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = (byte as u8).is_ascii_alphanumeric() || byte as u8 == b'_';
        byte += 1;
    }
    table
};

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphabetic() || c.is_numeric()
}

fn left_trim(s: &str) -> bool {
    let b = s.as_bytes();
    b.len() >= 2 && b[0] == b'-' && is_space_byte(b[1])
}

fn right_trim(s: &str) -> bool {
    let b = s.as_bytes();
    b.len() >= 2 && is_space_byte(b[0]) && b[1] == b'-'
}

impl<'t> Lexer<'t> {
    pub(crate) fn new(input: &'t str) -> Self {
        Lexer {
            input,
            start: 0,
            pos: 0,
            line: 1,
            start_line: 1,
            parens: 0,
            inside: false,
            failure: None,
            keywords: true,
        }
    }

    /// Returns the message of the error, after an error token.
    pub(crate) fn failure(&self) -> &str {
        self.failure.as_deref().unwrap_or_default()
    }

    fn rest(&self) -> &'t str {
        &self.input[self.pos..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.pos += c.len_utf8();
        if c == '\n' {
            self.line += 1;
        }
        Some(c)
    }

    fn emit(&mut self, kind: Kind) -> Token<'t> {
        let token = Token {
            kind,
            pos: self.start,
            text: &self.input[self.start..self.pos],
            line: self.start_line,
        };
        self.start = self.pos;
        self.start_line = self.line;
        token
    }

    /// Skips to `to` without a token.
    fn skip_to(&mut self, to: usize) {
        self.line += count_lines(&self.input[self.pos..to]);
        self.pos = to;
        self.start = to;
        self.start_line = self.line;
    }

    fn fail(&mut self, message: impl Into<String>) -> Token<'t> {
        self.failure = Some(message.into());
        Token {
            kind: Kind::Error,
            pos: self.start,
            text: "",
            line: self.start_line,
        }
    }

    pub(crate) fn next(&mut self) -> Token<'t> {
        if self.failure.is_some() {
            return Token {
                kind: Kind::Eof,
                pos: self.pos,
                text: "EOF",
                line: self.start_line,
            };
        }
        if self.inside {
            self.action()
        } else {
            self.text()
        }
    }

    fn text(&mut self) -> Token<'t> {
        loop {
            let Some(x) = find_left(self.rest()) else {
                self.line += count_lines(self.rest());
                self.pos = self.input.len();
                let kind = if self.pos > self.start {
                    Kind::Text
                } else {
                    Kind::Eof
                };
                return self.emit(kind);
            };
            if x > 0 {
                let delim = self.pos + x;
                let mut end = delim;
                if left_trim(&self.input[delim + LEFT.len()..]) {
                    end = self.start
                        + self.input[self.start..delim]
                            .trim_end_matches(is_space)
                            .len();
                }
                self.line += count_lines(&self.input[self.pos..end]);
                self.pos = end;
                let token = self.emit(Kind::Text);
                self.skip_to(delim);
                if !token.text.is_empty() {
                    return token;
                }
            }
            match self.left_delim() {
                Some(token) => return token,
                None => continue,
            }
        }
    }

    /// Reads the delimiter; returns `None` after a comment.
    fn left_delim(&mut self) -> Option<Token<'t>> {
        self.pos += LEFT.len();
        let marker = if left_trim(self.rest()) { 2 } else { 0 };
        if self.input[self.pos + marker..].starts_with("/*") {
            self.skip_to(self.pos + marker);
            return self.comment();
        }
        let token = self.emit(Kind::LeftDelim);
        self.inside = true;
        self.skip_to(self.pos + marker);
        self.parens = 0;
        Some(token)
    }

    fn comment(&mut self) -> Option<Token<'t>> {
        let Some(end) = self.rest()[2..].find("*/") else {
            return Some(self.fail("unclosed comment"));
        };
        let end = self.pos + 2 + end + 2;
        let after = &self.input[end..];
        let trim = right_trim(after) && after[2..].starts_with(RIGHT);
        if !trim && !after.starts_with(RIGHT) {
            return Some(self.fail("comment ends before closing delimiter"));
        }
        let mut to = end + RIGHT.len();
        if trim {
            to += 2;
            to = self.input.len() - self.input[to..].trim_start_matches(is_space).len();
        }
        self.skip_to(to);
        None
    }

    /// Checks whether a closing delimiter comes next, and returns whether it trims.
    fn at_right(&self) -> Option<bool> {
        let rest = self.rest();
        if right_trim(rest) && rest[2..].starts_with(RIGHT) {
            return Some(true);
        }
        rest.starts_with(RIGHT).then_some(false)
    }

    fn right_delim(&mut self, trim: bool) -> Token<'t> {
        if trim {
            self.skip_to(self.pos + 2);
        }
        self.pos += RIGHT.len();
        let token = self.emit(Kind::RightDelim);
        if trim {
            let to = self.input.len() - self.rest().trim_start_matches(is_space).len();
            self.skip_to(to);
        }
        self.inside = false;
        token
    }

    fn action(&mut self) -> Token<'t> {
        if let Some(trim) = self.at_right() {
            if self.parens == 0 {
                return self.right_delim(trim);
            }
            return self.fail("unclosed left paren");
        }
        let Some(c) = self.peek() else {
            return self.fail("unclosed action");
        };
        if is_space(c) {
            return self.space();
        }
        if is_word(c) && !c.is_ascii_digit() {
            return self.identifier();
        }
        let next = self.rest()[c.len_utf8()..].chars().next();
        if c == '+' || c == '-' || c.is_ascii_digit() {
            return self.number();
        }
        if c == '.' && next.is_some_and(|n| n.is_ascii_digit()) {
            return self.number();
        }
        self.bump();
        if c == '.' && next.is_none() {
            // Go takes a dot at the very end for the start of a number.
            return self.emit(Kind::Number);
        }
        match c {
            '=' => self.emit(Kind::Assign),
            ':' => {
                if self.bump() != Some('=') {
                    return self.fail("expected :=");
                }
                self.emit(Kind::Declare)
            }
            '|' => self.emit(Kind::Pipe),
            '"' => self.quoted(b'"', Kind::String, "unterminated quoted string"),
            '\'' => self.quoted(b'\'', Kind::CharConstant, "unterminated character constant"),
            '`' => self.raw(),
            '$' => self.word(Kind::Variable),
            '.' => self.word(Kind::Field),
            '(' => {
                self.parens += 1;
                self.emit(Kind::LeftParen)
            }
            ')' => match self.parens.checked_sub(1) {
                Some(parens) => {
                    self.parens = parens;
                    self.emit(Kind::RightParen)
                }
                None => self.fail("unexpected right paren"),
            },
            c if c.is_ascii_graphic() => self.emit(Kind::Char),
            c => self.fail(format!(
                "unrecognized character in action: {}",
                driftless_go::quote::unicode(c)
            )),
        }
    }

    fn space(&mut self) -> Token<'t> {
        let mut last = self.pos;
        let mut count = 0;
        while let Some(b) = self.input.as_bytes().get(self.pos)
            && is_space_byte(*b)
        {
            last = self.pos;
            self.line += usize::from(*b == b'\n');
            self.pos += 1;
            count += 1;
        }
        let tail = &self.input[last..];
        if right_trim(tail) && tail[2..].starts_with(RIGHT) {
            if self.input.as_bytes()[last] == b'\n' {
                self.line -= 1;
            }
            self.pos = last;
            if count == 1 {
                return self.right_delim(true);
            }
        }
        self.emit(Kind::Space)
    }

    /// Skips to the end of a word.
    fn skip_word(&mut self) {
        loop {
            let rest = &self.input.as_bytes()[self.pos..];
            self.pos += rest.iter().take_while(|b| WORD[usize::from(**b)]).count();
            match self.peek() {
                Some(c) if !c.is_ascii() && is_word(c) => self.pos += c.len_utf8(),
                _ => return,
            }
        }
    }

    fn at_terminator(&self) -> bool {
        match self.input.as_bytes().get(self.pos) {
            None => true,
            Some(b) if is_space_byte(*b) => true,
            Some(b'.' | b',' | b'|' | b':' | b')' | b'(') => true,
            Some(_) => self.rest().starts_with(RIGHT),
        }
    }

    fn bad_character(&mut self) -> Token<'t> {
        let c = self.peek().unwrap_or('\u{fffd}');
        self.fail(format!("bad character {}", driftless_go::quote::unicode(c)))
    }

    fn identifier(&mut self) -> Token<'t> {
        self.skip_word();
        if !self.at_terminator() {
            return self.bad_character();
        }
        let kind = match &self.input[self.start..self.pos] {
            "true" | "false" => Kind::Bool,
            word => match Kind::keyword(word) {
                Some(Kind::Break | Kind::Continue) if !self.keywords => Kind::Identifier,
                Some(kind) => kind,
                None => Kind::Identifier,
            },
        };
        self.emit(kind)
    }

    /// Reads the rest of a field or variable after its `.` or `$`.
    fn word(&mut self, kind: Kind) -> Token<'t> {
        if self.at_terminator() {
            return self.emit(if kind == Kind::Field { Kind::Dot } else { kind });
        }
        self.skip_word();
        if !self.at_terminator() {
            return self.bad_character();
        }
        self.emit(kind)
    }

    fn quoted(&mut self, end: u8, kind: Kind, open: &str) -> Token<'t> {
        let bytes = self.input.as_bytes();
        loop {
            match bytes[self.pos..] {
                [] | [b'\n', ..] | [b'\\', b'\n', ..] => return self.fail(open),
                [b'\\', _, ..] => self.pos += 2,
                [byte, ..] => {
                    self.pos += 1;
                    if byte == end {
                        return self.emit(kind);
                    }
                }
            }
        }
    }

    fn raw(&mut self) -> Token<'t> {
        let rest = self.rest();
        let Some(end) = rest.find('`') else {
            return self.fail("unterminated raw quoted string");
        };
        self.line += count_lines(&rest[..end]);
        self.pos += end + 1;
        self.emit(Kind::RawString)
    }

    fn number(&mut self) -> Token<'t> {
        let mut ok = self.scan_number();
        let mut kind = Kind::Number;
        if ok && matches!(self.peek(), Some('+' | '-')) {
            ok = self.scan_number() && self.input[..self.pos].ends_with('i');
            kind = Kind::Complex;
        }
        if !ok {
            let text = driftless_go::quote::quote(&self.input.as_bytes()[self.start..self.pos]);
            return self.fail(format!("bad number syntax: {text}"));
        }
        self.emit(kind)
    }

    fn accept(&mut self, valid: &str) -> bool {
        let ok = self.peek().is_some_and(|c| valid.contains(c));
        if ok {
            self.bump();
        }
        ok
    }

    fn accept_run(&mut self, valid: &str) {
        while self.accept(valid) {}
    }

    fn scan_number(&mut self) -> bool {
        self.accept("+-");
        let mut digits = "0123456789_";
        let (mut decimal, mut hex) = (true, false);
        if self.accept("0") {
            if self.accept("xX") {
                digits = "0123456789abcdefABCDEF_";
                (decimal, hex) = (false, true);
            } else if self.accept("oO") {
                digits = "01234567_";
                decimal = false;
            } else if self.accept("bB") {
                digits = "01_";
                decimal = false;
            }
        }
        self.accept_run(digits);
        if self.accept(".") {
            self.accept_run(digits);
        }
        if decimal && self.accept("eE") || hex && self.accept("pP") {
            self.accept("+-");
            self.accept_run("0123456789_");
        }
        self.accept("i");
        if self.peek().is_some_and(is_word) {
            self.bump();
            return false;
        }
        true
    }
}

/// Returns the offset of the next opening delimiter.
fn find_left(text: &str) -> Option<usize> {
    // The search for one byte is much faster than for two.
    memchr::memchr_iter(b'{', text.as_bytes()).find(|at| text[*at..].starts_with(LEFT))
}

fn count_lines(text: &str) -> usize {
    memchr::memchr_iter(b'\n', text.as_bytes()).count()
}
