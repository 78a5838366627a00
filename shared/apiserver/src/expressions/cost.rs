//! The cost of an evaluation: a bound that is known before it starts, from the nested loops of the
//! expression and the size of the data.

use ::cel::Value as Cel;
use ::cel::common::ast::{Expr, IdedExpr, LiteralValue};
use serde_json::Value;

use super::tree::{Failure, children};

/// The most steps of nested loops, weighted by the size of the data that each step may copy.
const MAX_WORK: usize = 1 << 28;
/// The longest string that `replace` may make.
const MAX_TEXT: usize = 16 << 20;
/// The most values that an intermediate result may have.
const MAX_VALUES: usize = 4 << 20;

/// The size of the data of an evaluation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    /// The longest list or map.
    longest: usize,
    /// The longest string.
    text: usize,
    /// The size of all values together.
    total: usize,
}

impl Size {
    /// Returns the size of some values.
    pub(crate) fn of<'v>(values: impl IntoIterator<Item = &'v Value>) -> Self {
        let mut size = Self::default();
        values.into_iter().for_each(|value| size.add(value));
        size
    }

    fn add(&mut self, value: &Value) {
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
    /// A result that is too large to work with.
    pub(crate) fn grow(&mut self, value: &Cel) -> Result<(), Failure> {
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
            return Err(Failure::Budget);
        }
        Ok(())
    }

    /// Refuses an expression that could take too long or too much memory over data of this size.
    ///
    /// # Errors
    /// [`Failure::Budget`].
    pub(super) fn check(&self, expression: &IdedExpr, length: usize) -> Result<(), Failure> {
        // `split` and `findAll` make a list from a string.
        let mut longest = self.longest.max(length);
        let mut text = self.text.max(length);
        let mut replaces = false;
        visit(expression, &mut |node| {
            let Expr::Call(call) = &node.expr else {
                return;
            };
            match call.func_name.as_str() {
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
            _ => rounds.saturating_mul(self.total),
        };
        if work > MAX_WORK || (replaces && text > MAX_TEXT) {
            return Err(Failure::Budget);
        }
        Ok(())
    }
}

fn visit<'e>(node: &'e IdedExpr, see: &mut impl FnMut(&'e IdedExpr)) {
    let mut open = vec![node];
    while let Some(node) = open.pop() {
        see(node);
        open.extend(children(node));
    }
}

/// Returns the depth of nested loops: two for `x.all(a, y.all(b, ..))`, and for a loop over a list
/// that another loop made.
fn loop_depth(node: &IdedExpr) -> usize {
    let below = children(node).into_iter().map(loop_depth).max();
    let own = match &node.expr {
        // `cel.bind` is a loop without rounds.
        Expr::Comprehension(inner) => usize::from(inner.iter_var != super::library::UNUSED),
        _ => 0,
    };
    own + below.unwrap_or_default()
}
