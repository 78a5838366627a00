//! Calls: arguments are evaluated to the types of the function's parameters.

use super::frame::{CurrentNode, Frame, Slot};
use super::{Executor, READ_BYTES_PER_STEP, Result, STEPS_PER_CALL, constant};
use crate::error::{Error, ErrorKind};
use crate::func_error::FuncError;
use crate::function::{Function, Native, Param, Special};
use crate::parse::{Term, TermKind};
use crate::value::{IntType, List, Map, Method, Object, TypeInfo, Value};
use std::any::Any;
use std::borrow::Cow;
use std::rc::Rc;

impl Executor<'_> {
    #[expect(clippy::too_many_arguments, reason = "the parts of one call")]
    pub(super) fn function<'t>(
        &mut self,
        frame: &mut Frame<'t>,
        dot: &Slot,
        node: CurrentNode<'t>,
        name: &str,
        function: &'t Function,
        args: &'t [Term],
        last: Option<Value>,
    ) -> Result<Value> {
        check_count(frame, name, function.params, function.variadic, args, &last)?;
        if matches!(function.special, Special::And | Special::Or) {
            return self.lazy(frame, dot, function.special == Special::Or, args, last);
        }
        let mut values =
            self.arguments(frame, dot, function.params, function.variadic, args, last)?;
        self.charge_call(&values)
            .map_err(|e| call_error(frame, node, name, e))?;
        if function.special == Special::Call {
            values.push(Value::str(callee(args, values.first())));
        }
        let result = match function.call {
            Native::Plain(call) => call(&mut self.exec, &values),
            Native::Nested(call) => call(self, &values),
        };
        result.map_err(|e| call_error(frame, node, name, e))
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one call")]
    pub(super) fn method<'t>(
        &mut self,
        frame: &mut Frame<'t>,
        dot: &Slot,
        term: &'t Term,
        method: &'static Method,
        receiver: Value,
        args: &'t [Term],
        last: Option<Value>,
    ) -> Result<Slot> {
        check_count(
            frame,
            method.name,
            method.params,
            method.variadic,
            args,
            &last,
        )?;
        let values = self.arguments(frame, dot, method.params, method.variadic, args, last)?;
        self.charge_call(&values)
            .map_err(|e| call_error(frame, CurrentNode::Term(term), method.name, e))?;
        match (method.call)(&mut self.exec, &receiver, &values) {
            Ok(value) => Ok(Slot::plain(value)),
            Err(e) => Err(call_error(frame, CurrentNode::Term(term), method.name, e)),
        }
    }

    /// Charges the fixed cost of calling a function.
    fn charge_call(&mut self, values: &[Value]) -> std::result::Result<(), FuncError> {
        let length = |value: &Value| match value {
            Value::Str(s) => s.len() as u64,
            Value::Bytes(b) => b.len() as u64,
            _ => 0,
        };
        let read: u64 = values.iter().map(length).sum();
        self.exec
            .charge(STEPS_PER_CALL + read / READ_BYTES_PER_STEP)
    }

    /// Evaluates `and` and `or`, which stop at the deciding argument.
    fn lazy<'t>(
        &mut self,
        frame: &mut Frame<'t>,
        dot: &Slot,
        until: bool,
        args: &'t [Term],
        last: Option<Value>,
    ) -> Result<Value> {
        let mut value = Value::NoValue;
        for arg in args {
            value = self.argument(frame, dot, Param::Value, arg)?;
            if value.truth() == until {
                return Ok(value);
            }
        }
        Ok(last.unwrap_or(value))
    }

    fn arguments<'t>(
        &mut self,
        frame: &mut Frame<'t>,
        dot: &Slot,
        params: &'static [Param],
        variadic: bool,
        args: &'t [Term],
        last: Option<Value>,
    ) -> Result<Vec<Value>> {
        let param = |i: usize| -> Param {
            if variadic && i + 1 >= params.len() {
                params[params.len() - 1]
            } else {
                params[i]
            }
        };
        let mut values = Vec::with_capacity(args.len() + usize::from(last.is_some()));
        for (i, arg) in args.iter().enumerate() {
            values.push(self.argument(frame, dot, param(i), arg)?);
        }
        if let Some(value) = last {
            let param = param(values.len());
            values.push(validate(frame, Slot::plain(value), param)?);
        }
        Ok(values)
    }

    fn argument<'t>(
        &mut self,
        frame: &mut Frame<'t>,
        dot: &Slot,
        param: Param,
        term: &'t Term,
    ) -> Result<Value> {
        frame.at = CurrentNode::Term(term);
        match &term.kind {
            TermKind::Nil if param.takes_nil() => Ok(zero(param)),
            TermKind::Nil => Err(frame.error(format!("cannot assign nil to {}", param.name()))),
            TermKind::Bool(_) | TermKind::Number(_) | TermKind::Text { .. } => {
                literal(frame, term, param)
            }
            _ => {
                let slot = self.operand(frame, dot, term)?;
                validate(frame, slot, param)
            }
        }
    }

    /// Evaluates a term that is not a constant, or any constant without an expected type.
    pub(super) fn operand<'t>(
        &mut self,
        frame: &mut Frame<'t>,
        dot: &Slot,
        term: &'t Term,
    ) -> Result<Slot> {
        frame.at = CurrentNode::Term(term);
        match &term.kind {
            TermKind::Dot => Ok(dot.clone()),
            TermKind::Field(fields) => self.chain(frame, dot, dot.clone(), term, fields, &[], None),
            TermKind::Variable(..) => self.variable(frame, dot, term, &[], None),
            TermKind::Chain(..) => self.chain_term(frame, dot, term, &[], None),
            TermKind::Pipe(pipe) => Ok(Slot::plain(self.pipeline(frame, dot, pipe)?)),
            TermKind::Function { name, function } => {
                let value = self.function(
                    frame,
                    dot,
                    CurrentNode::Term(term),
                    name,
                    function,
                    &[],
                    None,
                )?;
                Ok(Slot::plain(value))
            }
            TermKind::Nil => Ok(Slot::plain(Value::Nil)),
            _ => Ok(Slot::plain(literal(frame, term, Param::Any)?)),
        }
    }
}

/// Returns the name of the callee in messages.
fn callee(args: &[Term], piped: Option<&Value>) -> String {
    match (args.first(), piped) {
        (Some(term), _) => term.to_string(),
        (None, Some(Value::Str(s))) => s.to_string(),
        (None, Some(value)) => format!("<{} Value>", value.type_name()),
        (None, None) => "<invalid Value>".to_owned(),
    }
}

fn call_error<'t>(
    frame: &mut Frame<'t>,
    node: CurrentNode<'t>,
    name: &str,
    error: FuncError,
) -> Error {
    frame.at = node;
    let mut out = frame.error(format!("error calling {name}: {}", error.message));
    if error.budget {
        out.kind = ErrorKind::Budget;
    }
    out.cause = Some(Box::new(error));
    out
}

fn check_count(
    frame: &Frame<'_>,
    name: &str,
    params: &[Param],
    variadic: bool,
    args: &[Term],
    last: &Option<Value>,
) -> Result<()> {
    let given = args.len() + usize::from(last.is_some());
    let want = params.len();
    if variadic && given + 1 < want {
        return Err(frame.error(format!(
            "wrong number of args for {name}: want at least {} got {}",
            want - 1,
            args.len()
        )));
    }
    if !variadic && given != want {
        return Err(frame.error(format!(
            "wrong number of args for {name}: want {want} got {given}"
        )));
    }
    Ok(())
}

/// Converts nil to a value of a type.
fn zero(param: Param) -> Value {
    match param {
        Param::List => Value::List(List::nil(&TypeInfo::LIST)),
        Param::Strings => Value::List(List::nil(&TypeInfo::STRINGS)),
        Param::Map => Value::Map(Map::nil(&TypeInfo::MAP)),
        Param::StringMap => Value::Map(Map::nil(&TypeInfo::STRING_MAP)),
        Param::Bytes => Value::Bytes(Rc::from(&b""[..])),
        Param::Value | Param::Bare => Value::NoValue,
        _ => Value::Nil,
    }
}

fn validate(frame: &Frame<'_>, slot: Slot, param: Param) -> Result<Value> {
    if matches!(slot.value, Value::NoValue) {
        if param.takes_nil() {
            return Ok(zero(param));
        }
        return Err(frame.error(format!("invalid value; expected {}", param.name())));
    }
    if param == Param::Bare && slot.iface {
        return Ok(Value::Object(Rc::new(InInterface)));
    }
    if param.accepts(&slot.value) {
        return Ok(assigned(slot.value, param));
    }
    let have = match &slot.value {
        Value::Nil => "interface {}".into(),
        value => value.type_name(),
    };
    Err(frame.error(format!(
        "wrong type for value; expected {}; got {have}",
        param.name()
    )))
}

/// Converts a value like an assignment in Go: a named map or list takes the parameter's type.
fn assigned(value: Value, param: Param) -> Value {
    match (param, value) {
        (Param::Map, Value::Map(m)) => Value::Map(m.retyped(&TypeInfo::MAP)),
        (Param::StringMap, Value::Map(m)) => Value::Map(m.retyped(&TypeInfo::STRING_MAP)),
        (Param::List, Value::List(l)) => Value::List(l.retyped(&TypeInfo::LIST)),
        (Param::Strings, Value::List(l)) => Value::List(l.retyped(&TypeInfo::STRINGS)),
        (_, value) => value,
    }
}

/// A placeholder for a value that Go has not taken out of its interface, where it refuses that.
struct InInterface;

impl Object for InInterface {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed("interface {}")
    }
    fn fields(&self) -> Vec<(&'static str, Value)> {
        Vec::new()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Converts a constant to a value of the expected type.
fn literal(frame: &Frame<'_>, term: &Term, param: Param) -> Result<Value> {
    let expected = |type_name: &str| -> Result<Value> {
        Err(frame.error(format!("expected {type_name}; found {term}")))
    };
    match (param, &term.kind) {
        (Param::Any | Param::Value | Param::Bare | Param::Bool, TermKind::Bool(b)) => {
            Ok(Value::Bool(*b))
        }
        (Param::Any | Param::Value | Param::Bare | Param::Str, TermKind::Text { text, .. }) => {
            Ok(Value::Str(text.clone()))
        }
        (Param::Any | Param::Value | Param::Bare, TermKind::Number(n)) => constant(frame, n),
        (Param::Int | Param::Int64 | Param::Int32, TermKind::Number(n)) => match n.int {
            Some(i) => Ok(Value::Int(
                i,
                match param {
                    Param::Int64 => IntType::Int64,
                    Param::Int32 => IntType::Int32,
                    _ => IntType::Int,
                },
            )),
            None => expected("integer"),
        },
        (Param::Uint32, TermKind::Number(n)) => match n.int.map(u32::try_from) {
            Some(Ok(i)) => Ok(Value::Int(i64::from(i), IntType::Uint32)),
            _ => expected("unsigned integer"),
        },
        (Param::Float64, TermKind::Number(n)) => match n.float {
            Some(f) => Ok(Value::Float(f)),
            None => expected("float"),
        },
        (Param::Bool, _) => expected("bool"),
        (Param::Str, _) => expected("string"),
        (Param::Int | Param::Int64 | Param::Int32, _) => expected("integer"),
        (Param::Uint32, _) => expected("unsigned integer"),
        (Param::Float64, _) => expected("float"),
        _ => Err(frame.error(format!(
            "can't handle {term} for arg of type {}",
            param.name()
        ))),
    }
}
