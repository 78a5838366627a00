//! The frame of one template: its variables and its present node.

use crate::error::{Error, ErrorKind};
use crate::name_stack::Scope;
use crate::parse::{Branch, Command, Pipe, Term, Tree};
use crate::value::Value;
use driftless_fuel::Span;
use driftless_go::quote::quote;

/// A value, with the information whether Go holds it as an `interface {}`: messages name its type
/// differently.
#[derive(Clone)]
pub(super) struct Slot {
    pub value: Value,
    pub iface: bool,
}

impl Slot {
    pub fn plain(value: Value) -> Self {
        Slot {
            value,
            iface: false,
        }
    }

    /// Returns the name of the type in messages.
    pub fn type_name(&self) -> String {
        match (&self.value, self.iface) {
            (Value::Nil, _) | (_, true) => "interface {}".to_owned(),
            (value, _) => value.type_name().into_owned(),
        }
    }
}

/// The node that is being evaluated.
#[derive(Clone, Copy)]
pub(super) enum CurrentNode<'t> {
    Start,
    Action(&'t Pipe),
    Pipe(&'t Pipe),
    Range(&'t Branch),
    Command(&'t Command),
    Term(&'t Term),
    Template(usize, &'t str, Option<&'t Pipe>),
}

impl CurrentNode<'_> {
    fn describe(&self) -> Option<(usize, String)> {
        Some(match self {
            CurrentNode::Start => return None,
            CurrentNode::Action(pipe) => (pipe.pos, format!("{{{{{pipe}}}}}")),
            CurrentNode::Pipe(pipe) => (pipe.pos, pipe.to_string()),
            CurrentNode::Range(branch) => (branch.pos, format!("{{{{range {}}}}}", branch.pipe)),
            CurrentNode::Command(command) => (command.args[0].pos, command.to_string()),
            CurrentNode::Term(term) => (term.pos, term.to_string()),
            CurrentNode::Template(pos, name, pipe) => {
                let pipe = pipe.map_or(String::new(), |p| format!(" {p}"));
                (
                    *pos,
                    format!("{{{{template {}{pipe}}}}}", quote(name.as_bytes())),
                )
            }
        })
    }
}

pub(super) struct Frame<'t> {
    pub tree: &'t Tree,
    pub at: CurrentNode<'t>,
    pub vars: Scope<&'t str, Slot>,
}

impl<'t> Frame<'t> {
    pub fn new(tree: &'t Tree, data: Value) -> Self {
        Frame {
            tree,
            at: CurrentNode::Start,
            vars: Scope::of("$", Slot::plain(data)),
        }
    }

    /// Creates an error at the node that is being evaluated.
    pub fn error(&self, message: impl std::fmt::Display) -> Error {
        let name = &self.tree.name;
        let Some((pos, context)) = self.at.describe() else {
            let message = format!("template: {name}: {message}");
            let span = Span::new(&*self.tree.parse_name, 0, 0);
            return Error::new(ErrorKind::Exec, message, span);
        };
        let (line, bytes_before) = self.tree.place(pos);
        let quoted = quote(name.as_bytes());
        let message = format!(
            "template: {}:{line}:{bytes_before}: executing {quoted} at <{context}>: {message}",
            self.tree.parse_name
        );
        Error::new(ErrorKind::Exec, message, self.tree.span(pos))
    }

    pub fn get(&self, name: &str) -> Result<Slot, Error> {
        match self.vars.get(name) {
            Some((_, slot)) => Ok(slot.clone()),
            None => Err(self.error(format!("undefined variable: {name}"))),
        }
    }

    /// Assigns to the innermost variable of this name.
    pub fn set(&mut self, name: &str, slot: Slot) -> Result<(), Error> {
        match self.vars.get_mut(name) {
            Some(old) => {
                *old = slot;
                Ok(())
            }
            None => Err(self.error(format!("undefined variable: {name}"))),
        }
    }

    /// Sets the variable at distance `n` from the top.
    pub fn set_top(&mut self, n: usize, slot: Slot) {
        if let Some(old) = self.vars.nth_from_top(n) {
            *old = slot;
        }
    }
}
