//! The executor: templates and data to text.

mod call;
mod field;
mod frame;

use crate::Table;
use crate::context::{Exec, Limits, PRINTED_BYTES_PER_STEP};
use crate::error::{Error, ErrorKind};
use crate::fmt;
use crate::func_error::FuncError;
use crate::function::Execution;
use crate::name_stack::FEW;
use crate::parse::{self, Branch, Command, Node, Number, Pipe, Term, TermKind, Tree};
use crate::set::{MissingKey, Templates, no_template};
use crate::value::Str;
use crate::value::{Complex, Elem, Kind, Value};
use driftless_fuel::{Fuel, Span};
use frame::{CurrentNode, Frame, Slot};
use std::any::Any;
use std::sync::Arc;

/// The steps of executing a template, in addition to its actions.
const STEPS_PER_TEMPLATE: u64 = 32;

/// The steps of declaring one variable more than [`FEW`].
const STEPS_PER_TABLE_ENTRY: usize = 4;

/// The steps of calling a function.
const STEPS_PER_CALL: u64 = 4;

/// The bytes of string arguments of a function that cost one step: it may read all of them.
const READ_BYTES_PER_STEP: u64 = 16;

/// An execution of templates.
pub struct Executor<'h> {
    exec: Exec<'h>,
    templates: Templates,
    depth: usize,
    missing: MissingKey,
    out: Vec<u8>,
    /// The templates that were parsed during the execution, by their text.
    parsed: Table<Str, Arc<Vec<Arc<Tree>>>>,
}

/// The effect of a node on the loop around it.
#[derive(Clone, Copy, PartialEq)]
enum Flow {
    Next,
    Break,
    Continue,
}

type Result<T, E = Error> = std::result::Result<T, E>;

impl<'h> Executor<'h> {
    /// Creates an execution of these templates, with the fuel for all of them, usually that of
    /// [`Limits`]. Functions get `host` from [`Exec::host`].
    pub fn new(templates: Templates, host: &'h dyn Any, fuel: Fuel) -> Self {
        Executor {
            exec: Exec::new(host, fuel),
            missing: templates.missing(),
            templates,
            depth: 0,
            out: Vec::new(),
            parsed: Table::default(),
        }
    }

    /// Runs `f` with other templates, for a template that is parsed while another one is executed.
    fn with_templates<T>(&mut self, templates: Templates, f: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.templates, templates);
        let result = f(self);
        self.templates = before;
        result
    }

    /// Executes the template `name` on `data` and returns its output.
    ///
    /// # Errors
    /// Like [`Templates::execute`].
    pub fn execute(&mut self, name: &str, data: Value) -> Result<Vec<u8>> {
        let Some(tree) = self.templates.tree(name) else {
            return Err(no_template(name));
        };
        self.execute_tree(&tree, data)
    }

    fn charge_parsed(&mut self, name: &str, bytes: usize) -> Result<()> {
        self.exec.charge_bytes(bytes).map_err(|e| {
            let message = format!("template: {name}: {}", e.message);
            Error::new(ErrorKind::Budget, message, Span::new(name, 0, 0))
        })
    }

    fn execute_tree(&mut self, tree: &Tree, data: Value) -> Result<Vec<u8>> {
        // Nil data has no type in Go: a field of it yields nothing, without an error.
        let data = data.unwrapped();
        let mut frame = Frame::new(tree, data.clone());
        self.exec
            .charge(STEPS_PER_TEMPLATE)
            .map_err(|e| frame.budget(e))?;
        self.enter(&frame)?;
        let before = std::mem::take(&mut self.out);
        let result = self.list(&mut frame, &Slot::plain(data), &tree.root);
        self.leave(&mut frame);
        let out = std::mem::replace(&mut self.out, before);
        result.map(|_| out)
    }

    fn enter(&mut self, frame: &Frame<'_>) -> Result<()> {
        self.exec.fuel.depth(self.depth + 1).map_err(|out| {
            frame.error(format!("exceeded maximum template depth ({})", out.limit))
        })?;
        self.depth += 1;
        Ok(())
    }

    fn leave(&mut self, frame: &mut Frame<'_>) {
        self.depth -= 1;
        self.drop_vars(frame, 1);
    }

    /// Declares a variable.
    fn declare<'t>(&self, frame: &mut Frame<'t>, name: &'t str, slot: Slot) -> Result<()> {
        let fuel = &self.exec.fuel;
        let steps = match frame.vars.len() < FEW {
            true => 0,
            false => STEPS_PER_TABLE_ENTRY,
        };
        fuel.nodes(1)
            .and_then(|()| fuel.steps(steps))
            .map_err(|out| frame.budget(out.into()))?;
        frame.vars.push(name, slot);
        Ok(())
    }

    /// Removes the variables that were declared since there were `mark` of them.
    #[inline]
    fn drop_vars(&self, frame: &mut Frame<'_>, mark: usize) {
        let gone = frame.vars.len().saturating_sub(mark);
        if gone > 0 {
            frame.vars.truncate(mark);
            self.exec.fuel.give_back(gone, 0);
        }
    }

    fn step(&mut self, frame: &Frame<'_>) -> Result<()> {
        self.exec.charge(1).map_err(|e| frame.budget(e))
    }

    fn write(&mut self, frame: &Frame<'_>, bytes: &[u8]) -> Result<()> {
        self.exec
            .charge_bytes(bytes.len())
            .map_err(|e| frame.budget(e))?;
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn list<'t>(&mut self, frame: &mut Frame<'t>, dot: &Slot, nodes: &'t [Node]) -> Result<Flow> {
        for node in nodes {
            let flow = self.node(frame, dot, node)?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn node<'t>(&mut self, frame: &mut Frame<'t>, dot: &Slot, node: &'t Node) -> Result<Flow> {
        self.step(frame)?;
        match node {
            Node::Text(range) => self.write(frame, frame.tree.piece(range))?,
            Node::Action(pipe) => {
                let value = self.pipeline(frame, dot, pipe)?;
                if pipe.decl.is_empty() {
                    frame.at = CurrentNode::Action(pipe);
                    self.print(frame, &value)?;
                }
            }
            Node::If(branch) => return self.branch(frame, dot, branch, false),
            Node::With(branch) => return self.branch(frame, dot, branch, true),
            Node::Range(branch) => return self.range(frame, dot, branch),
            Node::Template { pos, name, pipe } => {
                self.template(frame, dot, *pos, name, pipe.as_ref())?;
            }
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn print(&mut self, frame: &Frame<'_>, value: &Value) -> Result<()> {
        match value {
            Value::Str(s) => self.write(frame, s),
            value => {
                let text = fmt::print_value(self.exec.bytes_left(), value);
                self.exec
                    .charge(text.len() as u64 / PRINTED_BYTES_PER_STEP)
                    .map_err(|e| frame.budget(e))?;
                self.write(frame, &text)
            }
        }
    }

    fn branch<'t>(
        &mut self,
        frame: &mut Frame<'t>,
        dot: &Slot,
        branch: &'t Branch,
        with: bool,
    ) -> Result<Flow> {
        let mark = frame.vars.len();
        let value = self.pipeline(frame, dot, &branch.pipe)?;
        let flow = if value.truth() {
            if with {
                self.list(frame, &Slot::plain(value), &branch.list)?
            } else {
                self.list(frame, dot, &branch.list)?
            }
        } else if let Some(list) = &branch.otherwise {
            self.list(frame, dot, list)?
        } else {
            Flow::Next
        };
        self.drop_vars(frame, mark);
        Ok(flow)
    }

    fn range<'t>(&mut self, frame: &mut Frame<'t>, dot: &Slot, branch: &'t Branch) -> Result<Flow> {
        frame.at = CurrentNode::Range(branch);
        let outer = frame.vars.len();
        let value = self.pipeline(frame, dot, &branch.pipe)?;
        let mark = frame.vars.len();
        let flow = self.iterate(frame, branch, value, mark);
        let flow = match flow? {
            Some(flow) => flow,
            None => {
                self.drop_vars(frame, mark);
                match &branch.otherwise {
                    Some(list) => self.list(frame, dot, list)?,
                    None => Flow::Next,
                }
            }
        };
        self.drop_vars(frame, outer);
        Ok(flow)
    }

    /// Runs the body for every element; returns `None` without elements.
    fn iterate<'t>(
        &mut self,
        frame: &mut Frame<'t>,
        branch: &'t Branch,
        value: Value,
        mark: usize,
    ) -> Result<Option<Flow>> {
        let slot = |value: Value, elem: Elem| Slot {
            value,
            iface: elem == Elem::Any,
        };
        match value {
            Value::NoValue | Value::Nil => Ok(None),
            Value::Int(n, t) => {
                if branch.pipe.decl.len() > 1 {
                    return Err(frame.error(format!(
                        "can't use {n} to iterate over more than one variable"
                    )));
                }
                let mut i = 0;
                while i < n {
                    let element = Slot::plain(Value::Int(i, t));
                    if self.iteration(frame, branch, Value::NoValue, element, mark)? == Flow::Break
                    {
                        break;
                    }
                    i += 1;
                }
                Ok((n > 0).then_some(Flow::Next))
            }
            Value::List(list) => {
                let (any, elem) = (!list.is_empty(), list.info().elem);
                let mut i = 0;
                while let Some(element) = list.get(i) {
                    let index = Value::int(i as i64);
                    if self.iteration(frame, branch, index, slot(element, elem), mark)?
                        == Flow::Break
                    {
                        break;
                    }
                    i += 1;
                }
                Ok(any.then_some(Flow::Next))
            }
            Value::Bytes(bytes) => {
                for (i, b) in bytes.iter().enumerate() {
                    let element =
                        Slot::plain(Value::Int(i64::from(*b), crate::value::IntType::Uint8));
                    let index = Value::int(i as i64);
                    if self.iteration(frame, branch, index, element, mark)? == Flow::Break {
                        break;
                    }
                }
                Ok((!bytes.is_empty()).then_some(Flow::Next))
            }
            Value::Map(map) => {
                let pairs = map.pairs();
                let (any, elem) = (!pairs.is_empty(), map.info().elem);
                for (key, element) in pairs {
                    if self.iteration(frame, branch, Value::Str(key), slot(element, elem), mark)?
                        == Flow::Break
                    {
                        break;
                    }
                }
                Ok(any.then_some(Flow::Next))
            }
            other => {
                let printed = fmt::display(&other);
                Err(frame.error(format!("range can't iterate over {printed}")))
            }
        }
    }

    /// Runs the body for one element.
    fn iteration<'t>(
        &mut self,
        frame: &mut Frame<'t>,
        branch: &'t Branch,
        index: Value,
        element: Slot,
        mark: usize,
    ) -> Result<Flow> {
        self.step(frame)?;
        let decl = &branch.pipe.decl;
        if branch.pipe.assign {
            match decl.as_slice() {
                [only] => frame.set(only, element.clone())?,
                [first, second] => {
                    frame.set(first, Slot::plain(index))?;
                    frame.set(second, element.clone())?;
                }
                _ => {}
            }
        } else {
            match decl.len() {
                1 => frame.set_top(1, element.clone()),
                2 => {
                    frame.set_top(1, element.clone());
                    frame.set_top(2, Slot::plain(index));
                }
                _ => {}
            }
        }
        let flow = self.list(frame, &element, &branch.list)?;
        self.drop_vars(frame, mark);
        Ok(flow)
    }

    fn template<'t>(
        &mut self,
        frame: &mut Frame<'t>,
        dot: &Slot,
        pos: usize,
        name: &'t Arc<str>,
        pipe: Option<&'t Pipe>,
    ) -> Result<()> {
        frame.at = CurrentNode::Template(pos, name, pipe);
        let Some(tree) = self.templates.tree(name) else {
            let quoted = driftless_go::quote::quote(name.as_bytes());
            return Err(frame.error(format!("template {quoted} not defined")));
        };
        let data = match pipe {
            Some(pipe) => self.pipeline(frame, dot, pipe)?,
            None => Value::NoValue,
        };
        self.enter(frame)?;
        let mut inner = Frame::new(&tree, data.clone());
        let result = self.list(&mut inner, &Slot::plain(data), &tree.root);
        self.leave(&mut inner);
        result.map(|_| ())
    }

    fn pipeline<'t>(&mut self, frame: &mut Frame<'t>, dot: &Slot, pipe: &'t Pipe) -> Result<Value> {
        frame.at = CurrentNode::Pipe(pipe);
        let mut value = None;
        for command in &pipe.cmds {
            value = Some(self.command(frame, dot, command, value)?.value.unwrapped());
        }
        let value = value.unwrap_or_default();
        for name in &pipe.decl {
            if pipe.assign {
                frame.set(name, Slot::plain(value.clone()))?;
            } else {
                self.declare(frame, name, Slot::plain(value.clone()))?;
            }
        }
        Ok(value)
    }

    fn command<'t>(
        &mut self,
        frame: &mut Frame<'t>,
        dot: &Slot,
        command: &'t Command,
        last: Option<Value>,
    ) -> Result<Slot> {
        self.step(frame)?;
        let first = &command.args[0];
        let args = &command.args[1..];
        match &first.kind {
            TermKind::Function { name, function } => {
                frame.at = CurrentNode::Term(first);
                let value = self.function(
                    frame,
                    dot,
                    CurrentNode::Command(command),
                    name,
                    function,
                    args,
                    last,
                )?;
                return Ok(Slot::plain(value));
            }
            TermKind::Field(fields) => {
                frame.at = CurrentNode::Term(first);
                return self.chain(frame, dot, dot.clone(), first, fields, args, last);
            }
            TermKind::Chain(..) => return self.chain_term(frame, dot, first, args, last),
            TermKind::Variable(..) => return self.variable(frame, dot, first, args, last),
            _ => {}
        }
        if !matches!(first.kind, TermKind::Pipe(_)) {
            frame.at = CurrentNode::Term(first);
        }
        not_a_function(frame, first, args, last.as_ref())?;
        match &first.kind {
            TermKind::Pipe(pipe) => Ok(Slot::plain(self.pipeline(frame, dot, pipe)?)),
            TermKind::Dot => Ok(dot.clone()),
            TermKind::Bool(b) => Ok(Slot::plain(Value::Bool(*b))),
            TermKind::Number(n) => Ok(Slot::plain(constant(frame, n)?)),
            TermKind::Text { text, .. } => Ok(Slot::plain(Value::Str(text.clone()))),
            _ => Err(frame.error("nil is not a command")),
        }
    }

    fn chain_term<'t>(
        &mut self,
        frame: &mut Frame<'t>,
        dot: &Slot,
        term: &'t Term,
        args: &'t [Term],
        last: Option<Value>,
    ) -> Result<Slot> {
        let TermKind::Chain(inner, fields) = &term.kind else {
            return Err(frame.error("not a chain"));
        };
        frame.at = CurrentNode::Term(term);
        if matches!(inner.kind, TermKind::Nil) {
            return Err(frame.error(format!("indirection through explicit nil in {term}")));
        }
        let receiver = self.operand(frame, dot, inner)?;
        self.chain(frame, dot, receiver, term, fields, args, last)
    }

    fn variable<'t>(
        &mut self,
        frame: &mut Frame<'t>,
        dot: &Slot,
        term: &'t Term,
        args: &'t [Term],
        last: Option<Value>,
    ) -> Result<Slot> {
        let TermKind::Variable(name, fields) = &term.kind else {
            return Err(frame.error("not a variable"));
        };
        frame.at = CurrentNode::Term(term);
        let value = frame.get(name)?;
        if fields.is_empty() {
            not_a_function(frame, term, args, last.as_ref())?;
            return Ok(value);
        }
        self.chain(frame, dot, value, term, fields, args, last)
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one call")]
    fn chain<'t>(
        &mut self,
        frame: &mut Frame<'t>,
        dot: &Slot,
        mut receiver: Slot,
        term: &'t Term,
        fields: &'t [crate::value::Str],
        args: &'t [Term],
        last: Option<Value>,
    ) -> Result<Slot> {
        let Some((final_field, inner)) = fields.split_last() else {
            return Ok(receiver);
        };
        for field in inner {
            receiver = self.field(frame, dot, receiver, term, field, &[], None)?;
        }
        self.field(frame, dot, receiver, term, final_field, args, last)
    }
}

impl<'h> Execution<'h> for Executor<'h> {
    fn exec(&mut self) -> &mut Exec<'h> {
        &mut self.exec
    }

    fn execute(&mut self, name: &str, data: Value) -> Result<Vec<u8>> {
        Executor::execute(self, name, data)
    }

    fn execute_text(&mut self, name: &str, text: &Str, data: Value) -> Result<Vec<u8>> {
        let trees = match self.parsed.get(text) {
            Some(trees) => trees.clone(),
            None => {
                let most = self.exec.bytes_left() / parse::TOKEN_BYTES;
                let functions = self.templates.functions();
                let parsed = parse::parse(name, &text.lossy(), functions, most)?;
                let cost = parsed.tokens * parse::TOKEN_BYTES + text.len();
                let trees = Arc::new(parsed.trees);
                self.charge_parsed(name, cost)?;
                self.parsed.insert(text.clone(), trees.clone());
                trees
            }
        };
        let Some(main) = trees.iter().find(|t| *t.name == *name) else {
            return Err(no_template(name));
        };
        let mut templates = self.templates.clone();
        templates.add(&trees);
        self.with_templates(templates, |this| this.execute_tree(main, data))
    }
}

impl Templates {
    /// Executes the template `name` on `data`. Functions get `host` from [`Exec::host`].
    ///
    /// # Errors
    /// [`ErrorKind::Exec`], [`ErrorKind::Budget`] or [`ErrorKind::NoTemplate`].
    pub fn execute(
        &self,
        name: &str,
        data: Value,
        host: &dyn Any,
        limits: Limits,
    ) -> Result<Vec<u8>> {
        Executor::new(self.clone(), host, Fuel::new(limits.into())).execute(name, data)
    }
}

fn not_a_function(
    frame: &Frame<'_>,
    first: &Term,
    args: &[Term],
    last: Option<&Value>,
) -> Result<()> {
    if args.is_empty() && last.is_none() {
        return Ok(());
    }
    Err(frame.error(format!("can't give argument to non-function {first}")))
}

/// Returns the value of a constant without an expected type: int, or float64 if it is written as
/// one.
fn constant(frame: &Frame<'_>, n: &Number) -> Result<Value> {
    if let Some((re, im)) = n.complex {
        return Ok(Complex { re, im }.value());
    }
    let b = n.text.as_bytes();
    let hex =
        b.len() > 2 && b[0] == b'0' && matches!(b[1], b'x' | b'X') && !n.text.contains(['p', 'P']);
    if let Some(f) = n.float
        && !hex
        && b.first() != Some(&b'\'')
        && n.text.contains(['.', 'e', 'E', 'p', 'P'])
    {
        return Ok(Value::Float(f));
    }
    match n.int {
        Some(i) => Ok(Value::int(i)),
        None => Err(frame.error(format!("{} overflows int", n.text))),
    }
}

impl Frame<'_> {
    fn budget(&self, error: FuncError) -> Error {
        let mut out = self.error(&error.message);
        out.kind = ErrorKind::Budget;
        out.cause = Some(Box::new(error));
        out
    }
}

/// Checks whether a receiver is a nil whose fields Go would refuse to evaluate.
fn is_nil_interface(slot: &Slot) -> bool {
    matches!(slot.value, Value::Nil) && slot.value.kind() == Kind::Invalid
}
