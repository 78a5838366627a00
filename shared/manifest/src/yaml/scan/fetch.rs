//! Fetches the next token, and tracks simple keys and indentation.

use super::super::node::ScalarStyle;
use super::{Mark, NO_COLON, Scan, Scanner, SimpleKey, Token};

impl<'t> Scanner<'t> {
    /// Adds at least one more token to the queue.
    pub(super) fn fetch(&mut self) -> Scan<()> {
        self.eat_to_token();
        self.unroll_indent(self.mark.column as isize);
        let byte = self.at(0);
        if byte == 0 {
            return self.fetch_stream_end();
        }
        if self.mark.column == 0 && byte == b'%' {
            return self.fetch_directive();
        }
        if self.is_document_indicator() {
            return self.fetch_document_indicator(byte == b'-');
        }
        let flow = self.in_flow();
        match byte {
            b'[' => self.fetch_flow_start(Token::FlowSequenceStart),
            b'{' => self.fetch_flow_start(Token::FlowMappingStart),
            b']' => self.fetch_flow_end(Token::FlowSequenceEnd),
            b'}' => self.fetch_flow_end(Token::FlowMappingEnd),
            b',' => self.fetch_flow_entry(),
            b'-' if self.is_blankz(1) => self.fetch_block_entry(),
            b'?' if flow || self.is_blankz(1) => self.fetch_key(),
            b':' if flow || self.is_blankz(1) => self.fetch_value(),
            b'*' => {
                let name = self.fetch_anchor()?;
                self.push(Token::Alias(name.0), name.1)
            }
            b'&' => {
                let name = self.fetch_anchor()?;
                self.push(Token::Anchor(name.0), name.1)
            }
            b'!' => self.fetch_tag(),
            b'|' if !flow => self.fetch_block_scalar(ScalarStyle::Literal),
            b'>' if !flow => self.fetch_block_scalar(ScalarStyle::Folded),
            b'\'' => self.fetch_quoted(true),
            b'"' => self.fetch_quoted(false),
            b'#' | b'|' | b'>' | b'%' | b'@' | b'`' | b'\t' => {
                Err(self.mark.syntax("a character that cannot begin anything here (quote the value, or indent with spaces)"))
            }
            _ => self.fetch_plain(),
        }
    }

    fn push(&mut self, token: Token<'t>, mark: Mark) -> Scan<()> {
        self.tokens.push_back((token, mark));
        Ok(())
    }

    /// Inserts a token before the one with the given number.
    fn insert(&mut self, number: usize, token: Token<'t>, mark: Mark) {
        let at = number.saturating_sub(self.taken).min(self.tokens.len());
        self.tokens.insert(at, (token, mark));
    }

    /// Skips blanks, comments and line breaks. A tab is not indentation: it is not allowed where a
    /// key may begin.
    fn eat_to_token(&mut self) {
        loop {
            if self.mark.column == 0 && self.bytes[self.pos..].starts_with(b"\xef\xbb\xbf") {
                self.pos += 3;
                self.mark.column += 1;
            }
            while self.at(0) == b' '
                || (self.at(0) == b'\t' && (self.in_flow() || !self.key_allowed))
            {
                self.skip(1);
            }
            self.comment();
            if self.skip_break().is_none() {
                return;
            }
            if !self.in_flow() {
                self.key_allowed = true;
            }
        }
    }

    fn next_token_number(&self) -> usize {
        self.taken + self.tokens.len()
    }

    fn save_key(&mut self) -> Scan<()> {
        if !self.key_allowed {
            return Ok(());
        }
        let required = !self.in_flow() && self.indent == self.mark.column as isize;
        self.remove_key()?;
        let key = SimpleKey {
            possible: true,
            required,
            token: self.next_token_number(),
            mark: self.mark,
        };
        if let Some(last) = self.keys.last_mut() {
            *last = key;
        }
        Ok(())
    }

    fn remove_key(&mut self) -> Scan<()> {
        match self.keys.last_mut() {
            Some(key) if key.possible && key.required => Err(key.mark.syntax(NO_COLON)),
            Some(key) => {
                key.possible = false;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Begins a block collection if the column is deeper than the current one. The token is
    /// inserted before the one with the given number, or at the end.
    fn roll_indent(&mut self, mark: Mark, number: Option<usize>, token: Token<'t>) {
        let column = mark.column as isize;
        if self.in_flow() || self.indent >= column {
            return;
        }
        self.indents.push(self.indent);
        self.indent = column;
        self.insert(number.unwrap_or(usize::MAX), token, mark);
    }

    /// Ends the block collections that are deeper than the column.
    fn unroll_indent(&mut self, column: isize) {
        if self.in_flow() {
            return;
        }
        while self.indent > column {
            self.tokens.push_back((Token::BlockEnd, self.mark));
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    fn fetch_stream_end(&mut self) -> Scan<()> {
        if self.mark.column != 0 {
            self.mark = Mark {
                line: self.mark.line + 1,
                column: 0,
            };
        }
        self.unroll_indent(-1);
        self.remove_key()?;
        self.key_allowed = false;
        self.ended = true;
        self.push(Token::StreamEnd, self.mark)
    }

    fn fetch_directive(&mut self) -> Scan<()> {
        self.unroll_indent(-1);
        self.remove_key()?;
        self.key_allowed = false;
        let mark = self.mark;
        let token = self.scan_directive()?;
        self.push(token, mark)
    }

    fn fetch_document_indicator(&mut self, start: bool) -> Scan<()> {
        self.unroll_indent(-1);
        self.remove_key()?;
        self.key_allowed = false;
        let mark = self.mark;
        self.skip(3);
        self.push(
            if start {
                Token::DocumentStart
            } else {
                Token::DocumentEnd
            },
            mark,
        )
    }

    fn indicator(&mut self, token: Token<'t>) -> Scan<()> {
        let mark = self.mark;
        self.skip(1);
        self.push(token, mark)
    }

    fn fetch_flow_start(&mut self, token: Token<'t>) -> Scan<()> {
        self.save_key()?;
        let key = SimpleKey {
            possible: false,
            required: false,
            token: self.next_token_number(),
            mark: self.mark,
        };
        self.keys.push(key);
        self.key_allowed = true;
        self.indicator(token)
    }

    fn fetch_flow_end(&mut self, token: Token<'t>) -> Scan<()> {
        self.remove_key()?;
        if self.in_flow() {
            self.keys.pop();
        }
        self.key_allowed = false;
        self.indicator(token)
    }

    fn fetch_flow_entry(&mut self) -> Scan<()> {
        self.remove_key()?;
        self.key_allowed = true;
        self.indicator(Token::FlowEntry)
    }

    fn fetch_block_entry(&mut self) -> Scan<()> {
        if !self.in_flow() {
            if !self.key_allowed {
                return Err(self.mark.syntax("a list entry (-) cannot begin here"));
            }
            self.roll_indent(self.mark, None, Token::BlockSequenceStart);
        }
        self.remove_key()?;
        self.key_allowed = true;
        self.indicator(Token::BlockEntry)
    }

    fn fetch_key(&mut self) -> Scan<()> {
        if !self.in_flow() {
            if !self.key_allowed {
                return Err(self.mark.syntax("a mapping key cannot begin here"));
            }
            self.roll_indent(self.mark, None, Token::BlockMappingStart);
        }
        self.remove_key()?;
        self.key_allowed = !self.in_flow();
        self.indicator(Token::Key)
    }

    fn fetch_value(&mut self) -> Scan<()> {
        let last = self.keys.len() - 1;
        if self.is_valid_key(last)? {
            let (number, mark) = (self.keys[last].token, self.keys[last].mark);
            self.insert(number, Token::Key, mark);
            self.roll_indent(mark, Some(number), Token::BlockMappingStart);
            self.keys[last].possible = false;
            self.key_allowed = false;
        } else {
            if !self.in_flow() {
                if !self.key_allowed {
                    return Err(self.mark.syntax(
                        "a mapping value (:) is not allowed here (quote a value that contains ': ')",
                    ));
                }
                self.roll_indent(self.mark, None, Token::BlockMappingStart);
            }
            self.key_allowed = !self.in_flow();
        }
        self.indicator(Token::Value)
    }

    fn fetch_anchor(&mut self) -> Scan<(&'t str, Mark)> {
        self.save_key()?;
        self.key_allowed = false;
        let mark = self.mark;
        Ok((self.scan_anchor()?, mark))
    }

    fn fetch_tag(&mut self) -> Scan<()> {
        self.save_key()?;
        self.key_allowed = false;
        let mark = self.mark;
        let token = self.scan_tag()?;
        self.push(token, mark)
    }

    fn fetch_block_scalar(&mut self, style: ScalarStyle) -> Scan<()> {
        self.remove_key()?;
        self.key_allowed = true;
        let mark = self.mark;
        let text = self.scan_block_scalar(style)?;
        self.push(Token::Scalar(text.into(), style), mark)
    }

    fn fetch_quoted(&mut self, single: bool) -> Scan<()> {
        self.save_key()?;
        self.key_allowed = false;
        let mark = self.mark;
        let text = self.scan_quoted(single)?;
        let style = if single {
            ScalarStyle::SingleQuoted
        } else {
            ScalarStyle::DoubleQuoted
        };
        self.push(Token::Scalar(text, style), mark)
    }

    fn fetch_plain(&mut self) -> Scan<()> {
        self.save_key()?;
        self.key_allowed = false;
        let mark = self.mark;
        let text = self.scan_plain()?;
        self.push(Token::Scalar(text, ScalarStyle::Plain), mark)
    }
}
