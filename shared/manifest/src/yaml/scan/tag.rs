//! Scans directives, anchors and tags.

use super::{Mark, Scan, Scanner, Token};

impl<'t> Scanner<'t> {
    pub(super) fn scan_directive(&mut self) -> Scan<Token<'t>> {
        let start = self.mark;
        self.skip(1);
        let token = match self.word() {
            _ if !self.is_blankz(0) => {
                return Err(start.syntax("an unknown directive, expected %YAML or %TAG"));
            }
            "YAML" => self.version(start)?,
            "TAG" => self.tag_directive(start)?,
            _ => return Err(start.syntax("an unknown directive, expected %YAML or %TAG")),
        };
        self.end_of_line(start)?;
        Ok(token)
    }

    fn word(&mut self) -> &'t str {
        let start = self.pos;
        while is_word(self.at(0)) {
            self.skip(1);
        }
        &self.text[start..self.pos]
    }

    fn version(&mut self, start: Mark) -> Scan<Token<'t>> {
        self.skip_blanks();
        let major = self.version_number(start)?;
        if self.at(0) != b'.' {
            return Err(start.syntax("expected %YAML and a version"));
        }
        self.skip(1);
        Ok(Token::Version(major, self.version_number(start)?))
    }

    fn version_number(&mut self, start: Mark) -> Scan<u8> {
        let from = self.pos;
        while self.at(0).is_ascii_digit() {
            self.skip(1);
        }
        match self.text[from..self.pos].parse() {
            Ok(number) if self.pos - from <= 2 => Ok(number),
            _ => Err(start.syntax("expected %YAML and a version")),
        }
    }

    fn tag_directive(&mut self, start: Mark) -> Scan<Token<'t>> {
        self.skip_blanks();
        let handle = self.tag_handle(start)?;
        let complete = handle == "!" || handle.len() > 1 && handle.ends_with('!');
        if !complete || !self.is_blank(0) {
            return Err(start.syntax("expected %TAG, a handle (!name!) and a prefix"));
        }
        self.skip_blanks();
        let mut prefix = String::new();
        self.tag_uri(&mut prefix, start)?;
        if prefix.is_empty() || !self.is_blankz(0) {
            return Err(start.syntax("expected %TAG, a handle (!name!) and a prefix"));
        }
        Ok(Token::TagDirective(handle, prefix))
    }

    /// Scans the name of an anchor or an alias, after its indicator.
    pub(super) fn scan_anchor(&mut self) -> Scan<&'t str> {
        let start = self.mark;
        self.skip(1);
        let name = self.word();
        let ends = self.is_blankz(0)
            || matches!(
                self.at(0),
                b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`'
            );
        if name.is_empty() || !ends {
            return Err(
                start.syntax("expected a name of letters, digits, '_' and '-' after & or *")
            );
        }
        Ok(name)
    }

    pub(super) fn scan_tag(&mut self) -> Scan<Token<'t>> {
        let start = self.mark;
        let mut suffix = String::new();
        let handle = if self.at(1) == b'<' {
            self.skip(2);
            self.tag_uri(&mut suffix, start)?;
            if suffix.is_empty() || self.at(0) != b'>' {
                return Err(start.syntax("expected a tag and '>' after '!<'"));
            }
            self.skip(1);
            ""
        } else {
            let handle = self.tag_handle(start)?;
            if handle.len() > 1 && handle.ends_with('!') {
                self.tag_uri(&mut suffix, start)?;
                if suffix.is_empty() {
                    return Err(start.syntax("expected a tag after its handle"));
                }
                handle
            } else {
                suffix.push_str(&handle[1..]);
                self.tag_uri(&mut suffix, start)?;
                "!"
            }
        };
        if !self.is_blankz(0) {
            return Err(start.syntax("expected a blank or the end of the line after a tag"));
        }
        if handle == "!" && suffix.is_empty() {
            return Ok(Token::Tag("", "!".to_owned()));
        }
        Ok(Token::Tag(handle, suffix))
    }

    /// Scans `!`, `!!`, `!name!`, or `!name`, which is not a handle.
    fn tag_handle(&mut self, start: Mark) -> Scan<&'t str> {
        if self.at(0) != b'!' {
            return Err(start.syntax("expected '!'"));
        }
        let from = self.pos;
        self.skip(1);
        self.word();
        if self.at(0) == b'!' {
            self.skip(1);
        }
        Ok(&self.text[from..self.pos])
    }

    fn tag_uri(&mut self, out: &mut String, start: Mark) -> Scan<()> {
        let mut bytes = Vec::new();
        loop {
            let byte = self.at(0);
            if byte == b'%' {
                let digits = (hex(self.at(1)), hex(self.at(2)));
                let (Some(high), Some(low)) = digits else {
                    return Err(start.syntax("expected two hexadecimal digits after '%' in a tag"));
                };
                bytes.push(high << 4 | low);
                self.skip(3);
            } else if is_word(byte) || b";/?:@&=+$,.!~*'()[]".contains(&byte) {
                bytes.push(byte);
                self.skip(1);
            } else {
                break;
            }
        }
        let decoded = String::from_utf8(bytes)
            .map_err(|_| start.syntax("the escapes of a tag are not UTF-8"))?;
        out.push_str(&decoded);
        Ok(())
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

pub(super) fn hex(byte: u8) -> Option<u8> {
    (byte as char).to_digit(16).map(|digit| digit as u8)
}
