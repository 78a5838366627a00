//! Calls: arguments are evaluated for the types that the function wants.

use super::frame::{At, Frame, Slot};
use super::{Exec, Result, constant};
use crate::error::{Error, ErrorKind};
use crate::function::{FuncError, Function, Param, Special};
use crate::parse::{Term, TermKind};
use crate::value::{IntType, List, Map, Method, TypeInfo, Value};

impl Exec<'_> {
    #[expect(clippy::too_many_arguments, reason = "the parts of one call")]
    pub(super) fn function<'t>(
        &mut self,
        frame: &mut Frame<'t>,
        dot: &Slot,
        node: At<'t>,
        name: &str,
        function: &'t Function,
        args: &'t [Term],
        last: Option<Value>,
    ) -> Result<Value> {
        check_count(frame, name, function.params, function.variadic, args, &last)?;
        if function.special != Special::No {
            return self.lazy(frame, dot, function.special == Special::Or, args, last);
        }
        let values = self.arguments(frame, dot, function.params, function.variadic, args, last)?;
        let result = (function.call)(self, &values);
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
        match (method.call)(self, &receiver, &values) {
            Ok(value) => Ok(Slot::plain(value)),
            Err(e) => Err(call_error(frame, At::Term(term), method.name, e)),
        }
    }

    /// `and` and `or` stop at the argument that decides.
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
        frame.at = At::Term(term);
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

    /// A term that is no constant, or any constant without a wanted type.
    pub(super) fn operand<'t>(
        &mut self,
        frame: &mut Frame<'t>,
        dot: &Slot,
        term: &'t Term,
    ) -> Result<Slot> {
        frame.at = At::Term(term);
        match &term.kind {
            TermKind::Dot => Ok(dot.clone()),
            TermKind::Field(fields) => self.chain(frame, dot, dot.clone(), term, fields, &[], None),
            TermKind::Variable(..) => self.variable(frame, dot, term, &[], None),
            TermKind::Chain(..) => self.chain_term(frame, dot, term, &[], None),
            TermKind::Pipe(pipe) => Ok(Slot::plain(self.pipeline(frame, dot, pipe)?)),
            TermKind::Function { name, function } => {
                let value = self.function(frame, dot, At::Term(term), name, function, &[], None)?;
                Ok(Slot::plain(value))
            }
            TermKind::Nil => Ok(Slot::plain(Value::Nil)),
            _ => Ok(Slot::plain(literal(frame, term, Param::Any)?)),
        }
    }
}

fn call_error<'t>(frame: &mut Frame<'t>, node: At<'t>, name: &str, error: FuncError) -> Error {
    frame.at = node;
    let mut out = frame.error(format!("error calling {name}: {}", error.message));
    if error.budget {
        out.kind = ErrorKind::Budget;
    }
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

/// Nil as a value of a type.
fn zero(param: Param) -> Value {
    match param {
        Param::List => Value::List(List::nil(&TypeInfo::LIST)),
        Param::Strings => Value::List(List::nil(&TypeInfo::STRINGS)),
        Param::Map => Value::Map(Map::nil(&TypeInfo::MAP)),
        Param::StringMap => Value::Map(Map::nil(&TypeInfo::STRING_MAP)),
        Param::Bytes => Value::Bytes(std::rc::Rc::from(&b""[..])),
        Param::Value => Value::NoValue,
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
    if param.accepts(&slot.value) {
        return Ok(slot.value);
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

/// A constant as a value of the wanted type.
fn literal(frame: &Frame<'_>, term: &Term, param: Param) -> Result<Value> {
    let expected = |what: &str| -> Result<Value> {
        Err(frame.error(format!("expected {what}; found {term}")))
    };
    match (param, &term.kind) {
        (Param::Any | Param::Value | Param::Bool, TermKind::Bool(b)) => Ok(Value::Bool(*b)),
        (Param::Any | Param::Value | Param::Str, TermKind::Text { text, .. }) => {
            Ok(Value::Str(text.clone()))
        }
        (Param::Any | Param::Value, TermKind::Number(n)) => constant(frame, n),
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
        (Param::Float64, TermKind::Number(n)) => match n.float {
            Some(f) => Ok(Value::Float(f)),
            None => expected("float"),
        },
        (Param::Bool, _) => expected("bool"),
        (Param::Str, _) => expected("string"),
        (Param::Int | Param::Int64 | Param::Int32, _) => expected("integer"),
        (Param::Float64, _) => expected("float"),
        _ => Err(frame.error(format!(
            "can't handle {term} for arg of type {}",
            param.name()
        ))),
    }
}
