//! The parse tree. Nodes print like Go's, because messages quote them.

use crate::function::Function;
use crate::value::Str;
use driftless_fuel::Span;
use std::fmt::{self, Display, Formatter};
use std::ops::Range;
use std::sync::Arc;

/// One template's tree.
#[derive(Debug)]
pub(crate) struct Tree {
    pub name: Arc<str>,
    /// The name of the source that contains it, for messages.
    pub parse_name: Arc<str>,
    pub text: Arc<str>,
    /// The nodes, shared with the trees of other sources that have the same text.
    pub root: Arc<Vec<Node>>,
}

impl Tree {
    /// Returns the tree of another source with the same text.
    pub(crate) fn of_source(&self, source: &Arc<str>) -> Tree {
        let is_whole = self.name == self.parse_name;
        let name = if is_whole { source } else { &self.name };
        Tree {
            name: name.clone(),
            parse_name: source.clone(),
            text: self.text.clone(),
            root: self.root.clone(),
        }
    }

    /// Checks Go's rule for templates that do not replace others: only white space and comments.
    pub(crate) fn is_empty(&self) -> bool {
        self.root.iter().all(|n| match n {
            Node::Text(range) => self.piece(range).trim_ascii().is_empty(),
            _ => false,
        })
    }

    /// Returns a piece of the source.
    pub(crate) fn piece(&self, range: &Range<usize>) -> &[u8] {
        self.text.as_bytes().get(range.clone()).unwrap_or_default()
    }

    /// Returns the line from 1, and the column in bytes from 0, of an offset.
    pub(crate) fn place(&self, pos: usize) -> (usize, usize) {
        let head = &self.text.as_bytes()[..pos.min(self.text.len())];
        let line = 1 + head.iter().filter(|b| **b == b'\n').count();
        let column = match head.iter().rposition(|b| *b == b'\n') {
            Some(at) => head.len() - at - 1,
            None => head.len(),
        };
        (line, column)
    }

    /// Returns the place of an offset.
    pub(crate) fn span(&self, pos: usize) -> Span {
        Span::at_byte(&*self.parse_name, &self.text, pos)
    }
}

#[derive(Debug)]
pub(crate) enum Node {
    /// A piece of the tree's text.
    Text(Range<usize>),
    Action(Pipe),
    If(Branch),
    With(Branch),
    Range(Branch),
    Template {
        pos: usize,
        name: Arc<str>,
        pipe: Option<Pipe>,
    },
    Break,
    Continue,
}

#[derive(Debug)]
pub(crate) struct Branch {
    pub pos: usize,
    pub pipe: Pipe,
    pub list: Vec<Node>,
    pub otherwise: Option<Vec<Node>>,
}

#[derive(Debug)]
pub(crate) struct Pipe {
    pub pos: usize,
    pub assign: bool,
    pub decl: Vec<Arc<str>>,
    pub cmds: Vec<Command>,
}

#[derive(Debug)]
pub(crate) struct Command {
    pub args: Vec<Term>,
}

#[derive(Debug)]
pub(crate) struct Term {
    pub pos: usize,
    pub kind: TermKind,
}

#[derive(Debug)]
pub(crate) enum TermKind {
    Function {
        name: &'static str,
        function: Function,
    },
    Field(Vec<Str>),
    /// The variable with its `$`, and fields.
    Variable(Arc<str>, Vec<Str>),
    Dot,
    Nil,
    Bool(bool),
    Number(Box<Number>),
    Text {
        /// The spelling, if it differs from Go's quoting.
        written: Option<Box<str>>,
        text: Str,
    },
    Pipe(Box<Pipe>),
    Chain(Box<Term>, Vec<Str>),
}

/// A constant, as every type that can represent it.
#[derive(Debug, Clone)]
pub(crate) struct Number {
    pub text: String,
    pub int: Option<i64>,
    pub uint: Option<u64>,
    pub float: Option<f64>,
    /// The value as complex128, if it is written as one.
    pub complex: Option<(f64, f64)>,
}

fn dotted(f: &mut Formatter<'_>, fields: &[Str]) -> fmt::Result {
    fields.iter().try_for_each(|name| write!(f, ".{name}"))
}

impl Display for Term {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            TermKind::Function { name, .. } => f.write_str(name),
            TermKind::Field(fields) => dotted(f, fields),
            TermKind::Variable(name, fields) => {
                f.write_str(name)?;
                dotted(f, fields)
            }
            TermKind::Dot => f.write_str("."),
            TermKind::Nil => f.write_str("nil"),
            TermKind::Bool(b) => write!(f, "{b}"),
            TermKind::Number(n) => f.write_str(&n.text),
            TermKind::Text { written, text } => match written {
                Some(written) => f.write_str(written),
                None => f.write_str(&driftless_go::quote::quote(text)),
            },
            TermKind::Pipe(pipe) => write!(f, "{pipe}"),
            TermKind::Chain(term, fields) => {
                match &term.kind {
                    TermKind::Pipe(pipe) => write!(f, "({pipe})")?,
                    _ => write!(f, "{term}")?,
                }
                dotted(f, fields)
            }
        }
    }
}

impl Display for Command {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, arg) in self.args.iter().enumerate() {
            if i > 0 {
                f.write_str(" ")?;
            }
            match &arg.kind {
                TermKind::Pipe(pipe) => write!(f, "({pipe})")?,
                _ => write!(f, "{arg}")?,
            }
        }
        Ok(())
    }
}

impl Display for Pipe {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.decl.is_empty() {
            let sign = if self.assign { "=" } else { ":=" };
            write!(f, "{} {sign} ", self.decl.join(", "))?;
        }
        for (i, cmd) in self.cmds.iter().enumerate() {
            if i > 0 {
                f.write_str(" | ")?;
            }
            write!(f, "{cmd}")?;
        }
        Ok(())
    }
}
