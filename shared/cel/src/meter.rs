//! The steps that an evaluation spends: each loop charges its rounds before they run.
//!
//! The evaluation runs a copy of the tree, in which a call that no source can name is around the
//! range of each loop. The call gets the range and returns it unchanged.

use ::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue};
use ::cel::common::types::{CelInt, DYN_TYPE, INT_TYPE, Type};
use ::cel::common::value::{CowVal, StaticVal, Val};
use ::cel::{DeclarationError, Env, ExecutionError};
use driftless_fuel::{OutOfFuel, Tank};
use std::any::Any;

use crate::arguments::number;
use crate::tree::children;

/// The name of the call around the range of a loop.
const FUNCTION: &str = "@metered";

/// The variable with the meter.
pub(crate) const VARIABLE: &str = "@meter";

/// The bytes of a string that are copied, or that a call reads, in one step.
pub(crate) const BYTES_PER_STEP: usize = 64;

static METER: Type = Type::new_unspecified_type("driftless.Meter");

/// The steps that an evaluation may still spend.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    /// The steps that are left for the evaluation.
    pub steps: Tank,
    /// The bytes of the longest text in the data.
    pub text: usize,
}

impl Meter {
    /// Charges the rounds of a loop, or one for the whole expression.
    ///
    /// # Errors
    /// The evaluation has fewer steps.
    pub fn charge(&self, rounds: usize, weight: Weight) -> Result<(), OutOfFuel> {
        let text = self.text / BYTES_PER_STEP;
        let round = weight.calls.saturating_mul(text);
        let steps = rounds.saturating_mul(weight.nodes.saturating_add(round));
        self.steps.steps(steps)
    }
}

impl Val for Meter {
    fn get_type(&self) -> &Type {
        <Self as Val>::cel_type()
    }

    fn cel_type() -> &'static Type {
        &METER
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for Meter {}

/// Declares the call around the range of a loop.
pub(crate) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    let types = vec![DYN_TYPE, INT_TYPE, INT_TYPE, DYN_TYPE];
    env.add_overload(FUNCTION, "driftless_metered", types, metered_range)
}

fn metered_range<'b, 'v>(mut args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let count = |index| usize::try_from(number(&args, index)?).or(Ok(usize::MAX));
    let weight = Weight {
        nodes: count(1)?,
        calls: count(2)?,
    };
    let sizer = args.first().and_then(|range| range.as_sizer());
    let rounds = sizer.map_or(0, |range| *range.size().inner());
    let meter = args.get(3).and_then(|meter| meter.downcast_ref::<Meter>());
    let meter = meter.ok_or(ExecutionError::MissingArgumentOrTarget)?;
    meter
        .charge(usize::try_from(rounds).unwrap_or_default(), weight)
        .map_err(|out| ExecutionError::function_error(FUNCTION, out))?;
    Ok(args.swap_remove(0))
}

/// The cost of one evaluation of a part of a tree, without the rounds of the loops in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    /// The nodes of the tree.
    pub nodes: usize,
    /// The calls of functions among them, which may read a string; operators are nodes.
    pub calls: usize,
}

impl Weight {
    /// Returns the cost of a tree.
    pub fn of(tree: &IdedExpr) -> Self {
        let (mut weight, mut open) = (Self::default(), vec![tree]);
        while let Some(node) = open.pop() {
            weight.nodes += 1;
            match &node.expr {
                // The loop charges the rest with its rounds.
                Expr::Comprehension(inner) => {
                    open.extend([&inner.iter_range, &inner.accu_init, &inner.result]);
                }
                other => {
                    weight.calls += usize::from(is_function(other));
                    open.extend(children(node));
                }
            }
        }
        weight
    }

    fn and(self, other: Self) -> Self {
        Self {
            nodes: self.nodes + other.nodes,
            calls: self.calls + other.calls,
        }
    }
}

/// Checks for the call of a function: the names of operators do not begin with a letter.
fn is_function(expr: &Expr) -> bool {
    let Expr::Call(call) = expr else {
        return false;
    };
    call.func_name
        .starts_with(|one: char| one.is_ascii_alphabetic())
}

/// Adds the call around the range of each loop.
pub(crate) fn add_to(node: &mut IdedExpr) {
    if let Expr::Comprehension(inner) = &mut node.expr {
        let weight = Weight::of(&inner.loop_cond).and(Weight::of(&inner.loop_step));
        let id = inner.iter_range.id;
        let at = |expr| IdedExpr { id, expr };
        let literal = |count: usize| {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            at(Expr::Literal(LiteralValue::Int(CelInt::from(count))))
        };
        let range = std::mem::take(&mut inner.iter_range);
        let (nodes, calls) = (literal(weight.nodes), literal(weight.calls));
        let meter = at(Expr::Ident(VARIABLE.to_owned()));
        inner.iter_range = at(Expr::Call(CallExpr {
            func_name: FUNCTION.to_owned(),
            target: None,
            args: vec![range, nodes, calls, meter],
        }));
    }
    children_mut(node).into_iter().for_each(add_to);
}

/// Returns what [`children`] does, to change it.
fn children_mut(node: &mut IdedExpr) -> Vec<&mut IdedExpr> {
    fn entry(entry: &mut EntryExpr) -> Vec<&mut IdedExpr> {
        match entry {
            EntryExpr::StructField(field) => vec![&mut field.value],
            EntryExpr::MapEntry(entry) => vec![&mut entry.key, &mut entry.value],
        }
    }
    match &mut node.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
        Expr::Call(call) => call
            .target
            .as_deref_mut()
            .into_iter()
            .chain(&mut call.args)
            .collect(),
        Expr::Comprehension(inner) => vec![
            &mut inner.iter_range,
            &mut inner.accu_init,
            &mut inner.loop_cond,
            &mut inner.loop_step,
            &mut inner.result,
        ],
        Expr::List(list) => list.elements.iter_mut().collect(),
        Expr::Map(map) => {
            let entries = map.entries.iter_mut();
            entries.flat_map(|one| entry(&mut one.expr)).collect()
        }
        Expr::Select(select) => vec![&mut select.operand],
        Expr::Struct(fields) => {
            let entries = fields.entries.iter_mut();
            entries.flat_map(|one| entry(&mut one.expr)).collect()
        }
    }
}
