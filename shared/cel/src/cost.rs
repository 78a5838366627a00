//! The cost of an evaluation: a bound that is known before it starts, from the nested loops of the
//! expression and the size of the data.

use ::cel::common::ast::{Expr, IdedExpr, LiteralValue};
use ::cel::{ExecutionError, Value as Cel};
use serde_json::Value;

use crate::tree::{loop_depth, visit};

/// The most values that the intermediate results of one evaluation may have.
const MAX_VALUES: usize = 4 << 20;

/// The budgets of an expression.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most bytes of an expression.
    pub bytes: usize,
    /// The most operators, dots and brackets, including those in string literals: the parser and
    /// the evaluation go at most one level deeper for each, and a level needs stack. (The parser
    /// itself stops at 96 levels of brackets.)
    pub operators: usize,
    /// The most steps of nested loops, each weighted by the size of the data that it may copy.
    pub work: usize,
    /// The most bytes of a string that `replace` may make.
    pub text: usize,
    /// The most steps that one evaluation spends: about one for each node of the tree that it
    /// visits, and for 64 bytes of a string that it reads.
    pub steps: usize,
}

/// The reason that an evaluation has no result.
#[derive(Debug)]
pub enum Failure {
    /// Nested loops could take more steps than [`Limits::work`], or the evaluation spent
    /// [`Limits::steps`] or the rest of its fuel.
    Work,
    /// `replace` could make a string that is longer than [`Limits::text`].
    Text,
    /// An intermediate result has too many values.
    Values,
    /// The data does not fit.
    Evaluation(ExecutionError),
}

/// The size of the data of an evaluation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Size {
    /// The length of the longest list or map.
    longest: usize,
    /// The length of the longest string, in bytes.
    pub(crate) text: usize,
    /// The number of all values, plus the bytes of all strings and keys.
    pub(crate) total: usize,
}

impl Size {
    pub(crate) fn add(&mut self, value: &Value) {
        self.total += 1;
        match value {
            Value::String(text) => {
                self.text = self.text.max(text.len());
                self.total += text.len();
            }
            Value::Array(items) => {
                self.longest = self.longest.max(items.len());
                items.iter().for_each(|item| self.add(item));
            }
            Value::Object(map) => {
                self.longest = self.longest.max(map.len());
                for (key, item) in map {
                    self.total += key.len();
                    self.add(item);
                }
            }
            _ => {}
        }
    }

    /// Adds an intermediate result.
    ///
    /// # Errors
    /// [`Failure::Values`].
    pub fn grow(&mut self, value: &Cel) -> Result<(), Failure> {
        self.total += 1;
        match value {
            Cel::String(text) => {
                self.text = self.text.max(text.len());
                self.total += text.len();
            }
            Cel::List(items) => {
                self.longest = self.longest.max(items.len());
                for item in items.iter() {
                    self.grow(item)?;
                }
            }
            Cel::Map(map) => {
                self.longest = self.longest.max(map.map.len());
                for item in map.map.values() {
                    self.grow(item)?;
                }
            }
            _ => {}
        }
        if self.total > MAX_VALUES {
            return Err(Failure::Values);
        }
        Ok(())
    }

    /// Refuses an expression of a length in bytes that could take too long or too much memory over
    /// data of this size.
    ///
    /// # Errors
    /// [`Failure::Work`], [`Failure::Text`].
    pub(crate) fn check(
        &self,
        expression: &IdedExpr,
        length: usize,
        limits: Limits,
    ) -> Result<(), Failure> {
        let mut longest = self.longest.max(length);
        let mut text = self.text.max(length);
        let mut replaces = false;
        visit(expression, &mut |node| {
            let Expr::Call(call) = &node.expr else {
                return;
            };
            match call.func_name.as_str() {
                // These make a list from a string.
                "split" | "findAll" => longest = longest.max(self.text),
                "replace" => {
                    replaces = true;
                    let new = match call.args.get(1).map(|arg| &arg.expr) {
                        Some(Expr::Literal(LiteralValue::String(new))) => new.inner().len(),
                        _ => text,
                    };
                    text = text.saturating_add(1).saturating_mul(new.saturating_add(1));
                }
                _ => {}
            }
        });
        let loops = u32::try_from(loop_depth(expression)).unwrap_or(u32::MAX);
        let rounds = longest.max(2).saturating_pow(loops);
        let work = match loops {
            0 | 1 => rounds,
            _ => rounds.saturating_mul(self.total.max(1)),
        };
        if work > limits.work {
            return Err(Failure::Work);
        }
        if replaces && text > limits.text {
            return Err(Failure::Text);
        }
        Ok(())
    }
}
