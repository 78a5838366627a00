//! Splits a YAML file into tokens, with the grammar of go-yaml (libyaml's YAML 1.1 and a little of
//! 1.2).
//!
//! A YAML 1.2 scanner is not suitable: it adds a line break to a block scalar at the end of a file
//! without one, and refuses `key: [` with its `]` in the first column. Both are common, and Go
//! reads them differently.
//!
//! A key without `?` is recognized only at its `:`. So the scanner keeps the positions at which
//! such a simple key may have begun, and inserts the tokens for it into the queue afterwards.

mod fetch;
mod scalar;
mod tag;

use std::borrow::Cow;
use std::collections::VecDeque;

use super::error::{LocatedError, YamlErrorKind};
use super::node::{Comment, ScalarStyle};

/// A position in the file: line from 1, column in characters from 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub line: usize,
    pub column: usize,
}

impl Mark {
    pub(crate) fn fault(self, kind: YamlErrorKind) -> LocatedError {
        LocatedError {
            line: self.line,
            column: self.column + 1,
            kind,
        }
    }

    pub(crate) fn syntax(self, message: &str) -> LocatedError {
        self.fault(YamlErrorKind::Syntax(message.to_owned()))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token<'t> {
    StreamEnd,
    /// The directive `%YAML 1.1`.
    Version(u8, u8),
    /// The directive `%TAG !handle! prefix`.
    TagDirective(&'t str, String),
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(&'t str),
    Anchor(&'t str),
    /// The handle and suffix; the handle is empty for a verbatim tag.
    Tag(&'t str, String),
    Scalar(Cow<'t, str>, ScalarStyle),
}

/// The position at which a key without `?` may have begun.
struct SimpleKey {
    possible: bool,
    /// True if only a key is valid there: it is an error if no `:` follows.
    required: bool,
    /// The number of its first token.
    token: usize,
    mark: Mark,
}

/// A simple key ends within this many characters.
const SIMPLE_KEY: usize = 1024;

pub(crate) struct Scanner<'t> {
    text: &'t str,
    bytes: &'t [u8],
    pos: usize,
    mark: Mark,
    tokens: VecDeque<(Token<'t>, Mark)>,
    /// The number of tokens that were taken out of the queue.
    taken: usize,
    /// True if the head of the queue is known to be the next token.
    ready: bool,
    /// One key for the block context, and one for each open `[` and `{`.
    keys: Vec<SimpleKey>,
    key_allowed: bool,
    /// The column of the current block collection, -1 outside of any.
    indent: isize,
    indents: Vec<isize>,
    ended: bool,
    comments: Option<Vec<Comment>>,
}

type Scan<T> = Result<T, LocatedError>;

impl<'t> Scanner<'t> {
    pub(crate) fn new(text: &'t str, keep_comments: bool) -> Self {
        let mark = Mark { line: 1, column: 0 };
        Scanner {
            text,
            bytes: text.as_bytes(),
            pos: 0,
            mark,
            tokens: VecDeque::new(),
            taken: 0,
            ready: false,
            keys: vec![SimpleKey {
                possible: false,
                required: false,
                token: 0,
                mark,
            }],
            key_allowed: true,
            indent: -1,
            indents: Vec::new(),
            ended: false,
            comments: keep_comments.then(Vec::new),
        }
    }

    /// Returns the comments until now, in the order of the file.
    pub(crate) fn into_comments(self) -> Vec<Comment> {
        self.comments.unwrap_or_default()
    }

    /// Returns the next token; after the end of the stream, always that end.
    pub(crate) fn peek(&mut self) -> Scan<(&Token<'t>, Mark)> {
        if !self.ready {
            self.make_ready()?;
        }
        let mark = self.mark;
        Ok(self
            .tokens
            .front()
            .map_or((&Token::StreamEnd, mark), |(token, mark)| (token, *mark)))
    }

    fn make_ready(&mut self) -> Scan<()> {
        while !self.ended && self.needs_more()? {
            self.fetch()?;
        }
        self.ready = true;
        Ok(())
    }

    /// Takes the token that [`peek`](Self::peek) returned.
    pub(crate) fn take(&mut self) -> Option<(Token<'t>, Mark)> {
        let token = self.tokens.pop_front()?;
        self.taken += 1;
        self.ready = false;
        Some(token)
    }

    /// Returns whether the head of the queue may still become a key.
    fn needs_more(&mut self) -> Scan<bool> {
        if self.tokens.is_empty() {
            return Ok(true);
        }
        let mut at = self.keys.partition_point(|key| key.token < self.taken);
        while self.keys.get(at).is_some_and(|key| key.token == self.taken) {
            if self.is_valid_key(at)? {
                return Ok(true);
            }
            at += 1;
        }
        Ok(false)
    }

    fn is_valid_key(&mut self, at: usize) -> Scan<bool> {
        let mark = self.mark;
        let Some(key) = self.keys.get_mut(at) else {
            return Ok(false);
        };
        if !key.possible {
            return Ok(false);
        }
        if key.mark.line == mark.line && mark.column <= key.mark.column + SIMPLE_KEY {
            return Ok(true);
        }
        if key.required {
            return Err(key.mark.syntax(NO_COLON));
        }
        key.possible = false;
        Ok(false)
    }

    fn in_flow(&self) -> bool {
        self.keys.len() > 1
    }

    /// Returns the byte at a distance, 0 beyond the end: the file cannot contain a NUL.
    fn at(&self, distance: usize) -> u8 {
        self.bytes.get(self.pos + distance).copied().unwrap_or(0)
    }

    /// Returns the length in bytes of the line break at a distance, 0 without one.
    fn line_break_len(&self, distance: usize) -> usize {
        match self.at(distance) {
            b'\n' => 1,
            b'\r' if self.at(distance + 1) == b'\n' => 2,
            b'\r' => 1,
            0xc2 if self.at(distance + 1) == 0x85 => 2,
            0xe2 if self.at(distance + 1) == 0x80
                && matches!(self.at(distance + 2), 0xa8 | 0xa9) =>
            {
                3
            }
            _ => 0,
        }
    }

    fn is_blank(&self, distance: usize) -> bool {
        matches!(self.at(distance), b' ' | b'\t')
    }

    /// Returns whether a blank, a line break or the end is at a distance.
    fn is_blankz(&self, distance: usize) -> bool {
        matches!(self.at(distance), b' ' | b'\t' | 0) || self.line_break_len(distance) > 0
    }

    /// Skips ASCII characters of this line.
    fn skip(&mut self, count: usize) {
        self.pos += count;
        self.mark.column += count;
    }

    /// Skips a line break, and returns the character that represents it in a scalar.
    fn skip_break(&mut self) -> Option<char> {
        let width = self.line_break_len(0);
        let c = match (width, self.at(0), self.at(2)) {
            (0, ..) => return None,
            (3, _, 0xa8) => '\u{2028}',
            (3, ..) => '\u{2029}',
            _ => '\n',
        };
        self.pos += width;
        self.mark = Mark {
            line: self.mark.line + 1,
            column: 0,
        };
        Some(c)
    }

    /// Skips to the end of the line, and returns the skipped part.
    fn rest_of_line(&mut self) -> &'t str {
        let rest = &self.text[self.pos..];
        let mut line =
            &rest[..memchr::memchr2(b'\n', b'\r', rest.as_bytes()).unwrap_or(rest.len())];
        if line.is_ascii() {
            self.mark.column += line.len();
        } else {
            line = line
                .split(['\u{85}', '\u{2028}', '\u{2029}'])
                .next()
                .unwrap_or(line);
            self.mark.column += line.chars().count();
        }
        self.pos += line.len();
        line
    }

    fn skip_blanks(&mut self) {
        while self.is_blank(0) {
            self.skip(1);
        }
    }

    /// Reads a comment, if one begins here.
    fn comment(&mut self) {
        if self.at(0) != b'#' {
            return;
        }
        let (mark, start) = (self.mark, self.pos);
        let line = self.rest_of_line();
        if let Some(comments) = &mut self.comments {
            let before = self.text[..start].rsplit(['\n', '\r']).next().unwrap_or("");
            comments.push(Comment {
                line: mark.line,
                column: mark.column + 1,
                text: line[1..].to_owned(),
                own_line: before.trim_matches([' ', '\t']).is_empty(),
            });
        }
    }

    /// Skips the rest of a line, which may only have a comment.
    fn end_of_line(&mut self, start: Mark) -> Scan<()> {
        self.skip_blanks();
        self.comment();
        if self.at(0) != 0 && self.line_break_len(0) == 0 {
            return Err(start.syntax("expected a comment or the end of the line"));
        }
        self.skip_break();
        Ok(())
    }

    /// Returns whether `---` or `...` is in the first column.
    fn is_document_indicator(&self) -> bool {
        self.mark.column == 0
            && matches!(
                self.bytes.get(self.pos..self.pos + 3),
                Some(b"---" | b"...")
            )
            && self.is_blankz(3)
    }
}

const NO_COLON: &str = "expected ':' after a key";
