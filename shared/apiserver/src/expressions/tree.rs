//! The tree of an expression, and the errors of its evaluation.

use ::cel::common::ast::{EntryExpr, Expr, IdedExpr};

/// The error of an evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The evaluation could take too long.
    Budget,
    /// The data does not fit.
    Evaluation(String),
}

/// Returns the expressions that are directly within another one.
pub(super) fn children(node: &IdedExpr) -> Vec<&IdedExpr> {
    fn entry(entry: &EntryExpr) -> Vec<&IdedExpr> {
        match entry {
            EntryExpr::StructField(field) => vec![&field.value],
            EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
        }
    }
    match &node.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
        Expr::Call(call) => call
            .target
            .as_deref()
            .into_iter()
            .chain(&call.args)
            .collect(),
        Expr::Comprehension(inner) => vec![
            &inner.iter_range,
            &inner.accu_init,
            &inner.loop_cond,
            &inner.loop_step,
            &inner.result,
        ],
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map.entries.iter().flat_map(|e| entry(&e.expr)).collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Struct(fields) => fields.entries.iter().flat_map(|e| entry(&e.expr)).collect(),
    }
}
