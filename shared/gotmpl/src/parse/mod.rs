//! The parser: tokens to trees.

mod literal;
mod node;

pub(crate) use node::{Branch, Command, Node, Number, Pipe, Term, TermKind, Tree};

use crate::Table;
use crate::error::{Error, ErrorKind};
use crate::function::Functions;
use crate::lex::{Kind, Lexer, Token};
use crate::name_stack::Scope;
use crate::value::Str;
use driftless_fuel::Span;
use driftless_go::quote::unquote;
use std::sync::Arc;

/// The maximal nesting of actions and parentheses. (Go: 10,000 for parentheses, no limit for
/// actions.)
const MAX_DEPTH: usize = 500;

/// The bytes of a token in a tree, at most, on average.
pub(crate) const TOKEN_BYTES: usize = 128;

/// The result of parsing a source.
#[derive(Debug)]
pub(crate) struct Parsed {
    /// The trees: that of the source and those that it defines.
    pub trees: Vec<Arc<Tree>>,
    /// The number of its tokens.
    pub tokens: usize,
    /// True if it defines a template with its name, which may replace the tree of the source.
    defines_itself: bool,
}

impl Parsed {
    /// Returns the result of parsing the same text as the source `name` of at most `left` tokens;
    /// `None` if it could be another one.
    pub(crate) fn of_source(&self, name: &str, left: usize) -> Option<Parsed> {
        let is_defined = self.trees.iter().any(|tree| *tree.name == *name);
        if self.defines_itself || is_defined || self.tokens >= left {
            return None;
        }
        let name: Arc<str> = Arc::from(name);
        let trees = self.trees.iter();
        Some(Parsed {
            trees: trees.map(|tree| Arc::new(tree.of_source(&name))).collect(),
            tokens: self.tokens,
            defines_itself: false,
        })
    }
}

/// Parses a source of at most `left` tokens.
pub(crate) fn parse(
    name: &str,
    text: &str,
    functions: &Functions,
    tokens: usize,
) -> Result<Parsed, Error> {
    let dollar: Arc<str> = Arc::from("$");
    let mut parser = Parser {
        lexer: Lexer::new(text),
        ahead: Vec::new(),
        terms: Vec::new(),
        commands: Vec::new(),
        fields: Vec::new(),
        known: Table::default(),
        last_line: 1,
        last_pos: 0,
        name: Arc::from(name),
        text: Arc::from(text),
        functions,
        vars: Scope::of(dollar.clone(), ()),
        dollar,
        trees: Table::default(),
        order: Vec::new(),
        action_line: 0,
        range_depth: 0,
        depth: 0,
        left: tokens,
    };
    let root = parser.top()?;
    if parser.left == 0 {
        return parser.exhausted();
    }
    let defines_itself = parser.trees.contains_key(name);
    parser.add(Arc::from(name), root)?;
    let Parser {
        mut trees,
        order,
        left,
        ..
    } = parser;
    Ok(Parsed {
        trees: order.iter().filter_map(|n| trees.remove(n)).collect(),
        tokens: tokens - left,
        defines_itself,
    })
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    /// The tokens pushed back, the next one last.
    ahead: Vec<Token<'t>>,
    /// The terms of the commands that are being read, and the commands of the pipelines: a tree's
    /// own lists are allocated when their length is known.
    terms: Vec<Term>,
    commands: Vec<Command>,
    fields: Vec<Str>,
    /// The fields that were read: most templates name few, repeatedly.
    known: Table<&'t str, Str>,
    last_line: usize,
    /// The offset of the last token.
    last_pos: usize,
    name: Arc<str>,
    text: Arc<str>,
    functions: &'t Functions,
    vars: Scope<Arc<str>, ()>,
    /// The name of the variable that every template has.
    dollar: Arc<str>,
    trees: Table<Arc<str>, Arc<Tree>>,
    order: Vec<Arc<str>>,
    action_line: usize,
    range_depth: usize,
    depth: usize,
    /// The tokens that may follow; at zero the parser fails.
    left: usize,
}

/// The token that ended a list of nodes.
#[derive(Clone, Copy, PartialEq)]
enum Stop {
    End,
    Else,
}

enum Item {
    Node(Node),
    Stop(Stop),
}

type Result<T, E = Error> = std::result::Result<T, E>;

impl<'t> Parser<'t> {
    fn next(&mut self) -> Token<'t> {
        let token = self.ahead.pop().unwrap_or_else(|| self.fresh());
        self.last_line = token.line;
        self.last_pos = token.pos;
        token
    }

    fn fresh(&mut self) -> Token<'t> {
        let token = self.lexer.next();
        self.left = self.left.saturating_sub(1);
        match self.left {
            0 => Token {
                kind: Kind::Eof,
                text: "EOF",
                ..token
            },
            _ => token,
        }
    }

    fn exhausted<T>(&self) -> Result<T> {
        let mut error = self.failure("the templates' budget of tokens is used up");
        error.kind = ErrorKind::Budget;
        Err(error)
    }

    fn back(&mut self, token: Token<'t>) {
        self.ahead.push(token);
    }

    fn peek(&mut self) -> Kind {
        let token = self.next();
        self.back(token);
        token.kind
    }

    fn next_non_space(&mut self) -> Token<'t> {
        loop {
            let token = self.next();
            if token.kind != Kind::Space {
                return token;
            }
        }
    }

    fn peek_non_space(&mut self) -> Token<'t> {
        let token = self.next_non_space();
        self.back(token);
        token
    }

    fn error<T>(&self, message: impl std::fmt::Display) -> Result<T> {
        match self.left {
            0 => self.exhausted(),
            _ => Err(self.failure(message)),
        }
    }

    fn failure(&self, message: impl std::fmt::Display) -> Error {
        let message = format!("template: {}:{}: {message}", self.name, self.last_line);
        // The line is Go's, which is not always that of the token.
        let found = Span::at_byte(&*self.name, &self.text, self.last_pos);
        let column = match found.line == self.last_line {
            true => found.column,
            false => 0,
        };
        let span = Span::new(found.file, self.last_line, column);
        Error::new(ErrorKind::Parse, message, span)
    }

    fn expect(&mut self, kind: Kind, context: &str) -> Result<Token<'t>> {
        let token = self.next_non_space();
        if token.kind != kind {
            return self.unexpected(&token, context);
        }
        Ok(token)
    }

    fn unexpected<T>(&self, token: &Token<'_>, context: &str) -> Result<T> {
        if token.kind != Kind::Error {
            return self.error(format!("unexpected {token} in {context}"));
        }
        let failure = self.lexer.failure();
        let mut extra = String::new();
        if self.action_line != 0 && self.action_line != token.line {
            extra = format!(" in action started at {}:{}", self.name, self.action_line);
            if failure.ends_with(" action") {
                extra.drain(.." in action".len());
            }
        }
        self.error(format!("{failure}{extra}"))
    }

    /// Runs `f` one level deeper, with a limit.
    fn deeper<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= MAX_DEPTH {
            return self.error("max expression depth exceeded");
        }
        self.depth += 1;
        let result = f(self);
        self.depth -= 1;
        result
    }

    fn add(&mut self, name: Arc<str>, root: Vec<Node>) -> Result<()> {
        let tree = Tree {
            name: name.clone(),
            parse_name: self.name.clone(),
            text: self.text.clone(),
            root: Arc::new(root),
        };
        match self.trees.get(&name) {
            Some(old) if !old.is_empty() => {
                if !tree.is_empty() {
                    let quoted = driftless_go::quote::quote(name.as_bytes());
                    return self.error(format!(
                        "template: multiple definition of template {quoted}"
                    ));
                }
            }
            old => {
                if old.is_none() {
                    self.order.push(name.clone());
                }
                self.trees.insert(name, Arc::new(tree));
            }
        }
        Ok(())
    }

    fn top(&mut self) -> Result<Vec<Node>> {
        let mut root = Vec::new();
        loop {
            match self.peek() {
                Kind::Eof => return Ok(root),
                Kind::LeftDelim => {
                    let delim = self.next();
                    let token = self.next_non_space();
                    if token.kind == Kind::Define {
                        self.definition()?;
                        continue;
                    }
                    self.back(token);
                    self.back(delim);
                }
                _ => {}
            }
            let token = self.next_non_space();
            match self.text_or_action(token)? {
                Item::Node(node) => root.push(node),
                Item::Stop(Stop::End) => return self.error("unexpected {{end}}"),
                Item::Stop(Stop::Else) => return self.error("unexpected {{else}}"),
            }
        }
    }

    fn definition(&mut self) -> Result<()> {
        let token = self.next_non_space();
        let name = self.template_name(&token, "define clause")?;
        self.expect(Kind::RightDelim, "define clause")?;
        let root = self.body("define clause", None)?;
        self.add(name, root)
    }

    /// Parses a list up to its `end`, in a new scope of variables and loops.
    fn body(&mut self, context: &str, header: Option<(usize, usize)>) -> Result<Vec<Node>> {
        let own = Scope::of(self.dollar.clone(), ());
        let vars = std::mem::replace(&mut self.vars, own);
        let range_depth = std::mem::take(&mut self.range_depth);
        let (list, stop) = self.list()?;
        if stop == Stop::Else {
            if let Some(header) = header {
                (self.last_line, self.last_pos) = header;
            }
            return self.error(format!("unexpected {{{{else}}}} in {context}"));
        }
        self.vars = vars;
        self.range_depth = range_depth;
        Ok(list)
    }

    fn list(&mut self) -> Result<(Vec<Node>, Stop)> {
        self.deeper(|p| {
            let mut list = Vec::new();
            loop {
                let token = p.next_non_space();
                if token.kind == Kind::Eof {
                    return p.error("unexpected EOF");
                }
                match p.text_or_action(token)? {
                    Item::Node(node) => list.push(node),
                    Item::Stop(stop) => return Ok((list, stop)),
                }
            }
        })
    }

    fn text_or_action(&mut self, token: Token<'t>) -> Result<Item> {
        match token.kind {
            Kind::Text => Ok(Item::Node(Node::Text(
                token.pos..token.pos + token.text.len(),
            ))),
            Kind::LeftDelim => {
                self.action_line = token.line;
                let item = self.action();
                self.action_line = 0;
                item
            }
            _ => self.unexpected(&token, "input"),
        }
    }

    fn action(&mut self) -> Result<Item> {
        let token = self.next_non_space();
        let node = match token.kind {
            Kind::Block => self.block()?,
            Kind::Break => self.loop_control("break", Node::Break)?,
            Kind::Continue => self.loop_control("continue", Node::Continue)?,
            Kind::Else => {
                if !matches!(self.peek_non_space().kind, Kind::If | Kind::With) {
                    self.expect(Kind::RightDelim, "else")?;
                }
                return Ok(Item::Stop(Stop::Else));
            }
            Kind::End => {
                self.expect(Kind::RightDelim, "end")?;
                return Ok(Item::Stop(Stop::End));
            }
            Kind::If => Node::If(self.control("if")?),
            Kind::Range => Node::Range(self.control("range")?),
            Kind::With => Node::With(self.control("with")?),
            Kind::Template => self.template()?,
            _ => {
                self.back(token);
                Node::Action(self.pipeline("command", Kind::RightDelim)?)
            }
        };
        Ok(Item::Node(node))
    }

    fn loop_control(&mut self, word: &str, node: Node) -> Result<Node> {
        let token = self.next_non_space();
        if token.kind != Kind::RightDelim {
            return self.unexpected(&token, &format!("{{{{{word}}}}}"));
        }
        if self.range_depth == 0 {
            return self.error(format!("{{{{{word}}}}} outside {{{{range}}}}"));
        }
        Ok(node)
    }

    fn control(&mut self, context: &str) -> Result<Branch> {
        let vars = self.vars.len();
        let is_range = context == "range";
        let pipe = self.pipeline(context, Kind::RightDelim)?;
        self.range_depth += usize::from(is_range);
        let (list, stop) = self.list()?;
        self.range_depth -= usize::from(is_range);
        let otherwise = match stop {
            Stop::End => None,
            Stop::Else => Some(self.otherwise(context)?),
        };
        self.vars.truncate(vars);
        Ok(Branch {
            pos: pipe.pos,
            pipe,
            list,
            otherwise,
        })
    }

    fn otherwise(&mut self, context: &str) -> Result<Vec<Node>> {
        let next = self.peek();
        if context == "if" && next == Kind::If {
            self.next();
            return self.deeper(|p| Ok(vec![Node::If(p.control("if")?)]));
        }
        if context == "with" && next == Kind::With {
            self.next();
            return self.deeper(|p| Ok(vec![Node::With(p.control("with")?)]));
        }
        let (list, stop) = self.list()?;
        if stop != Stop::End {
            return self.error("expected end; found {{else}}");
        }
        Ok(list)
    }

    fn block(&mut self) -> Result<Node> {
        let token = self.next_non_space();
        let name = self.template_name(&token, "block clause")?;
        let pipe = self.pipeline("block clause", Kind::RightDelim)?;
        // Go reports an `else` of the block by the tree around it, which has read the header last.
        let header = (self.last_line, self.last_pos);
        let root = self.body("block clause", Some(header))?;
        self.add(name.clone(), root)?;
        Ok(Node::Template {
            pos: token.pos,
            name,
            pipe: Some(pipe),
        })
    }

    fn template(&mut self) -> Result<Node> {
        let token = self.next_non_space();
        let name = self.template_name(&token, "template clause")?;
        let next = self.next_non_space();
        let pipe = if next.kind == Kind::RightDelim {
            None
        } else {
            self.back(next);
            Some(self.pipeline("template clause", Kind::RightDelim)?)
        };
        Ok(Node::Template {
            pos: token.pos,
            name,
            pipe,
        })
    }

    fn template_name(&mut self, token: &Token<'_>, context: &str) -> Result<Arc<str>> {
        if !matches!(token.kind, Kind::String | Kind::RawString) {
            return self.unexpected(token, context);
        }
        match unquote(token.text) {
            Some(name) => Ok(Arc::from(String::from_utf8_lossy(&name).as_ref())),
            None => self.error("invalid syntax"),
        }
    }

    fn pipeline(&mut self, context: &str, end: Kind) -> Result<Pipe> {
        let mut token = self.next_non_space();
        let mut pipe = Pipe {
            pos: token.pos,
            assign: false,
            decl: Vec::new(),
            cmds: Vec::new(),
        };
        if token.kind == Kind::Variable {
            token = self.declarations(&mut pipe, token, context)?;
        }
        let mark = self.commands.len();
        loop {
            match token.kind {
                kind if kind == end => break,
                Kind::Bool
                | Kind::CharConstant
                | Kind::Complex
                | Kind::Dot
                | Kind::Field
                | Kind::Identifier
                | Kind::Number
                | Kind::Nil
                | Kind::RawString
                | Kind::String
                | Kind::Variable
                | Kind::LeftParen => {
                    let command = self.command(token)?;
                    self.commands.push(command);
                }
                _ => return self.unexpected(&token, context),
            }
            token = self.next_non_space();
        }
        pipe.cmds = self.commands.drain(mark..).collect();
        self.check(&pipe, context)?;
        Ok(pipe)
    }

    /// Parses declarations up to the first token of a command, which is returned. The pipeline
    /// begins with `variable`.
    fn declarations(
        &mut self,
        pipe: &mut Pipe,
        mut variable: Token<'t>,
        context: &str,
    ) -> Result<Token<'t>> {
        loop {
            if variable.kind != Kind::Variable {
                return Ok(variable);
            }
            let behind = self.next();
            let next = if behind.kind == Kind::Space {
                self.next_non_space()
            } else {
                behind
            };
            let name: Arc<str> = Arc::from(variable.text);
            match next.kind {
                Kind::Assign | Kind::Declare => {
                    pipe.assign = next.kind == Kind::Assign;
                    pipe.decl.push(name.clone());
                    self.vars.push(name, ());
                    return Ok(self.next_non_space());
                }
                Kind::Char if next.text == "," => {
                    pipe.decl.push(name.clone());
                    self.vars.push(name, ());
                    if context != "range" || pipe.decl.len() >= 2 {
                        return self.error(format!("too many declarations in {context}"));
                    }
                    variable = self.next_non_space();
                    match variable.kind {
                        Kind::Variable | Kind::RightDelim | Kind::RightParen => {}
                        _ => return self.error("range can only initialize variables"),
                    }
                }
                _ => {
                    self.back(next);
                    if behind.kind == Kind::Space {
                        self.back(behind);
                    }
                    self.back(variable);
                    return Ok(self.next());
                }
            }
        }
    }

    fn check(&self, pipe: &Pipe, context: &str) -> Result<()> {
        if pipe.cmds.is_empty() {
            return self.error(format!("missing value for {context}"));
        }
        for (i, command) in pipe.cmds.iter().enumerate().skip(1) {
            if matches!(
                command.args[0].kind,
                TermKind::Bool(_)
                    | TermKind::Dot
                    | TermKind::Nil
                    | TermKind::Number(_)
                    | TermKind::Text { .. }
            ) {
                return self.error(format!(
                    "non executable command in pipeline stage {}",
                    i + 1
                ));
            }
        }
        Ok(())
    }

    /// Parses a command that begins with `token`.
    fn command(&mut self, mut token: Token<'t>) -> Result<Command> {
        let mark = self.terms.len();
        loop {
            if let Some(operand) = self.operand(token)? {
                self.terms.push(operand);
                token = self.next();
            }
            match token.kind {
                Kind::Space => token = self.next_non_space(),
                Kind::RightDelim | Kind::RightParen => {
                    self.back(token);
                    break;
                }
                Kind::Pipe => break,
                _ => return self.unexpected(&token, "operand"),
            }
        }
        let args: Vec<Term> = self.terms.drain(mark..).collect();
        if args.is_empty() {
            return self.error("empty command");
        }
        Ok(Command { args })
    }

    /// Parses an operand that begins with `token`, if one can.
    fn operand(&mut self, token: Token<'t>) -> Result<Option<Term>> {
        let Some(mut term) = self.term(token)? else {
            return Ok(None);
        };
        let first = self.next();
        if first.kind != Kind::Field {
            self.back(first);
            return Ok(Some(term));
        }
        let pos = first.pos;
        if let TermKind::Field(own) | TermKind::Variable(_, own) = &mut term.kind {
            self.fields.append(own);
        }
        let name = self.name_of(&first);
        self.fields.push(name);
        while self.peek() == Kind::Field {
            let token = self.next();
            let name = self.name_of(&token);
            self.fields.push(name);
        }
        let fields = self.fields.drain(..).collect();
        match &mut term.kind {
            TermKind::Field(own) | TermKind::Variable(_, own) => *own = fields,
            TermKind::Bool(_)
            | TermKind::Text { .. }
            | TermKind::Number(_)
            | TermKind::Nil
            | TermKind::Dot => {
                let quoted = driftless_go::quote::quote(term.to_string().as_bytes());
                return self.error(format!("unexpected . after term {quoted}"));
            }
            _ => {
                return Ok(Some(Term {
                    pos,
                    kind: TermKind::Chain(Box::new(term), fields),
                }));
            }
        }
        term.pos = pos;
        Ok(Some(term))
    }

    fn term(&mut self, token: Token<'t>) -> Result<Option<Term>> {
        let pos = token.pos;
        let kind = match token.kind {
            Kind::Identifier => match self.functions.entry(token.text) {
                Some((name, function)) => TermKind::Function { name, function },
                None => {
                    let quoted = driftless_go::quote::quote(token.text.as_bytes());
                    return self.error(format!("function {quoted} not defined"));
                }
            },
            Kind::Dot => TermKind::Dot,
            Kind::Nil => TermKind::Nil,
            Kind::Variable => self.use_variable(&token)?,
            Kind::Field => TermKind::Field(vec![self.name_of(&token)]),
            Kind::Bool => TermKind::Bool(token.text == "true"),
            Kind::CharConstant | Kind::Complex | Kind::Number => {
                match literal::number(token.text, token.kind) {
                    Ok(number) => TermKind::Number(Box::new(number)),
                    Err(message) => return self.error(message),
                }
            }
            Kind::LeftParen => TermKind::Pipe(Box::new(
                self.deeper(|p| p.pipeline("parenthesized pipeline", Kind::RightParen))?,
            )),
            Kind::String | Kind::RawString => match unquote(token.text) {
                Some(text) => {
                    let text = Str::from(text);
                    TermKind::Text {
                        written: written(token.text, &text),
                        text,
                    }
                }
                None => return self.error("invalid syntax"),
            },
            _ => return Ok(None),
        };
        // Go gives a parenthesised pipeline the position of its first token.
        let pos = match &kind {
            TermKind::Pipe(pipe) => pipe.pos,
            _ => pos,
        };
        Ok(Some(Term { pos, kind }))
    }

    /// Returns the name of a field, without its dot.
    fn name_of(&mut self, token: &Token<'t>) -> Str {
        let name = &token.text[1..];
        let known = self.known.entry(name);
        known.or_insert_with(|| Str::from(name)).clone()
    }

    fn use_variable(&mut self, token: &Token<'_>) -> Result<TermKind> {
        match self.vars.get(token.text) {
            Some((name, ())) => Ok(TermKind::Variable(name.clone(), Vec::new())),
            None => {
                let quoted = driftless_go::quote::quote(token.text.as_bytes());
                self.error(format!("undefined variable {quoted}"))
            }
        }
    }
}

/// Returns the spelling of a string, unless Go would quote it in the same way.
fn written(quoted: &str, text: &Str) -> Option<Box<str>> {
    let plain = |b: &u8| *b == b' ' || b.is_ascii_graphic() && !matches!(b, b'\\' | b'"');
    let usual = quoted.starts_with('"') && text.len() + 2 == quoted.len() && text.iter().all(plain);
    (!usual).then(|| Box::from(quoted))
}
