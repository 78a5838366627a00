//! Parses a string into literals and expansions.

use super::SyntaxError;

/// Maximum depth of nested expansions such as `${A:-${B:-…}}`.
const MAX_DEPTH: usize = 64;

/// A piece of a string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// A literal, without its escapes.
    Text(String),
    /// An expansion `${…}` with its arguments.
    Expansion(Expansion),
}

/// A parsed expansion, `${…}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expansion {
    /// The name of the variable.
    pub name: String,
    /// The operator, such as `:-` or `##`; empty for `${NAME}`.
    pub operator: String,
    /// The arguments after the operator.
    pub args: Vec<Piece>,
    /// The line of the outermost `${`, from 1.
    pub line: usize,
}

/// The escapes of a literal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Escapes {
    None,
    /// `$$` is `$`.
    Dollar,
    /// `$$` is `$`, `\/` is `/`, `\\` is `\`.
    DollarAndBackslash,
}

/// Parses a string into its pieces. An error has its line, from 1.
pub(super) fn parse(text: &str) -> Result<Vec<Piece>, (SyntaxError, usize)> {
    let mut parser = Parser {
        text,
        at: 0,
        line_at: 0,
        line: 1,
    };
    let mut pieces = Vec::new();
    while parser.peek().is_some() {
        parser.count_lines();
        let piece = if parser.eat("${") {
            parser.expansion(1).map(Piece::Expansion)
        } else {
            parser
                .literal(Escapes::Dollar, true, |_, _| true)
                .map(Piece::Text)
                .ok_or(SyntaxError::BadSubstitution)
        };
        pieces.push(piece.map_err(|kind| (kind, parser.line))?);
    }
    Ok(pieces)
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    line_at: usize,
    line: usize,
}

impl Parser<'_> {
    /// Returns the next character; a NUL ends the string, as in Flux.
    fn peek(&self) -> Option<char> {
        self.rest().chars().next().filter(|c| *c != '\0')
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn count_lines(&mut self) {
        self.line += self.text[self.line_at..self.at].matches('\n').count();
        self.line_at = self.at;
    }

    /// Reads a run of characters that `accept` accepts (its arguments are the character and the
    /// length of the run including it), without escapes. Stops before `${` if `stop_at_expansion`.
    /// `None` if the run is empty.
    fn literal(
        &mut self,
        escapes: Escapes,
        stop_at_expansion: bool,
        accept: impl Fn(char, usize) -> bool,
    ) -> Option<String> {
        let mut run = String::new();
        while let Some(c) = self.peek() {
            if stop_at_expansion && self.rest().starts_with("${") {
                break;
            }
            if let Some(escaped) = self.escaped(c, escapes) {
                self.at += c.len_utf8() + escaped.len_utf8();
                run.push(escaped);
            } else if accept(c, run.len() + c.len_utf8()) {
                self.at += c.len_utf8();
                run.push(c);
            } else {
                break;
            }
        }
        (!run.is_empty()).then_some(run)
    }

    fn escaped(&self, c: char, escapes: Escapes) -> Option<char> {
        let next = self.rest().chars().nth(1)?;
        match (c, escapes) {
            (_, Escapes::None) => None,
            ('$', _) => (next == '$').then_some('$'),
            ('\\', Escapes::DollarAndBackslash) => matches!(next, '/' | '\\').then_some(next),
            _ => None,
        }
    }

    /// Parses an expansion after its `${`.
    fn expansion(&mut self, depth: usize) -> Result<Expansion, SyntaxError> {
        if depth > MAX_DEPTH {
            return Err(SyntaxError::TooDeep(MAX_DEPTH));
        }
        if self.eat("#") {
            let name = self.name().ok_or(SyntaxError::BadSubstitution)?;
            return self.close(name, "#", Vec::new());
        }
        let name = self.name().ok_or(SyntaxError::VariableName)?;
        match self.peek() {
            Some(':') if self.rest()[1..].starts_with(['=', '-', '?', '+']) => {
                let operator = self.rest()[..2].to_owned();
                self.default(name, &operator, depth)
            }
            Some(':') => self.substring(name, depth),
            Some('=') => self.default(name, "=", depth),
            Some(',' | '^') => {
                let operator = self.operator(|c, bytes| matches!(c, ',' | '^') && bytes < 3);
                self.close(name, &operator, Vec::new())
            }
            Some('/') => self.replace(name, depth),
            Some(mark @ ('#' | '%')) => {
                let operator = self.operator(|c, bytes| c == mark && bytes < 3);
                let pattern = self.argument(Escapes::None, depth, |c| c != '}')?;
                self.close(name, &operator, vec![pattern])
            }
            _ if self.eat("}") => Ok(self.expand(name, "", Vec::new())),
            _ => Err(SyntaxError::MissingClosingBrace),
        }
    }

    fn name(&mut self) -> Option<String> {
        self.literal(Escapes::None, false, |c, _| is_name(c))
    }

    fn operator(&mut self, accept: impl Fn(char, usize) -> bool) -> String {
        self.literal(Escapes::None, false, accept)
            .unwrap_or_default()
    }

    /// Parses `${NAME:-word}` and similar expansions; the word is a sequence of literals and
    /// expansions.
    fn default(
        &mut self,
        name: String,
        operator: &str,
        depth: usize,
    ) -> Result<Expansion, SyntaxError> {
        self.eat(operator);
        let mut words = Vec::new();
        while !self.eat("}") {
            words.push(self.argument(Escapes::None, depth, |c| c != '}')?);
        }
        Ok(self.expand(name, operator, words))
    }

    /// Parses `${NAME:position}` and `${NAME:position:length}`.
    fn substring(&mut self, name: String, depth: usize) -> Result<Expansion, SyntaxError> {
        self.eat(":");
        let mut args = vec![self.argument(Escapes::None, depth, |c| c != ':' && c != '}')?];
        if self.eat("}") {
            return Ok(self.expand(name, ":", args));
        }
        self.literal(Escapes::None, false, |c, _| c == ':')
            .ok_or(SyntaxError::BadSubstitution)?;
        args.push(self.argument(Escapes::None, depth, |c| c != '}')?);
        self.close(name, ":", args)
    }

    /// Parses `${NAME/old/new}` and similar expansions. `old` may contain a `}`, `new` may be
    /// absent.
    fn replace(&mut self, name: String, depth: usize) -> Result<Expansion, SyntaxError> {
        let operator = self.operator(|c, bytes| match bytes {
            1 => c == '/',
            2 => matches!(c, '/' | '#' | '%'),
            _ => false,
        });
        let mut args = vec![self.argument(Escapes::DollarAndBackslash, depth, |c| c != '/')?];
        self.literal(Escapes::None, false, |c, _| c == '/')
            .ok_or(SyntaxError::BadSubstitution)?;
        if self.peek() != Some('}') {
            args.push(self.argument(Escapes::DollarAndBackslash, depth, |c| c != '}')?);
        }
        self.close(name, &operator, args)
    }

    /// Parses one argument: an expansion, or a literal that `accept` accepts.
    fn argument(
        &mut self,
        escapes: Escapes,
        depth: usize,
        accept: impl Fn(char) -> bool,
    ) -> Result<Piece, SyntaxError> {
        if self.eat("${") {
            return self.expansion(depth + 1).map(Piece::Expansion);
        }
        self.literal(escapes, true, |c, _| accept(c))
            .map(Piece::Text)
            .ok_or(SyntaxError::Argument)
    }

    fn close(
        &mut self,
        name: String,
        operator: &str,
        args: Vec<Piece>,
    ) -> Result<Expansion, SyntaxError> {
        if self.eat("}") {
            Ok(self.expand(name, operator, args))
        } else {
            Err(SyntaxError::BadSubstitution)
        }
    }

    fn expand(&self, name: String, operator: &str, args: Vec<Piece>) -> Expansion {
        Expansion {
            name,
            operator: operator.to_owned(),
            args,
            line: self.line,
        }
    }
}

/// Checks for letters, decimal digits and `_`, which Flux's parser accepts in a name (the check of
/// variables is stricter).
fn is_name(c: char) -> bool {
    c == '_' || c.is_ascii_alphanumeric() || (!c.is_ascii() && c.is_alphanumeric())
}
