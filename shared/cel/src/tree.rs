//! The syntax tree of an expression.

use ::cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue};

/// The loop variable of a loop without rounds, for macros like `cel.bind`.
pub const UNUSED: &str = "#unused";

/// Returns the nodes that are directly within another one.
#[must_use]
pub fn children(node: &IdedExpr) -> Vec<&IdedExpr> {
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

/// Calls `see` for a node and the ones within it, a loop's parts in the order of their evaluation,
/// with the variables of the loops around the node. `see` is not called for a loop itself, and
/// returns the nodes to go on with, usually the [`children`].
///
/// # Errors
/// The first error of `see`.
pub fn walk<'e, E>(node: &'e IdedExpr, see: &mut Visitor<'_, 'e, E>) -> Result<(), E> {
    within(node, &mut Vec::new(), see)
}

/// The function that [`walk`] calls.
pub type Visitor<'a, 'e, E> =
    dyn FnMut(&'e IdedExpr, &[&'e str]) -> Result<Vec<&'e IdedExpr>, E> + 'a;

fn within<'e, E>(
    node: &'e IdedExpr,
    bound: &mut Vec<&'e str>,
    see: &mut Visitor<'_, 'e, E>,
) -> Result<(), E> {
    let Expr::Comprehension(inner) = &node.expr else {
        let mut below = see(node, bound)?.into_iter();
        return below.try_for_each(|child| within(child, bound, see));
    };
    within(&inner.iter_range, bound, see)?;
    within(&inner.accu_init, bound, see)?;
    let before = bound.len();
    bound.extend([inner.iter_var.as_str(), inner.accu_var.as_str()]);
    bound.extend(inner.iter_var2.as_deref());
    let mut inside = [&inner.loop_cond, &inner.loop_step, &inner.result].into_iter();
    let seen = inside.try_for_each(|child| within(child, bound, see));
    bound.truncate(before);
    seen
}

/// Returns the function of a call whose literal pattern is not a valid regular expression.
#[must_use]
pub fn invalid_pattern(node: &IdedExpr) -> Option<&str> {
    let Expr::Call(call) = &node.expr else {
        return None;
    };
    let pattern = match call.func_name.as_str() {
        "matches" => call.args.last(),
        "find" | "findAll" => call.args.first(),
        _ => None,
    };
    match &pattern?.expr {
        Expr::Literal(LiteralValue::String(text)) => regex::Regex::new(text.inner())
            .is_err()
            .then_some(call.func_name.as_str()),
        _ => None,
    }
}

/// Calls `see` for a node and all nodes within it.
pub(crate) fn visit<'e>(node: &'e IdedExpr, see: &mut impl FnMut(&'e IdedExpr)) {
    let mut open = vec![node];
    while let Some(node) = open.pop() {
        see(node);
        open.extend(children(node));
    }
}

/// Returns the depth of nested loops: two for `x.all(a, y.all(b, ..))`, and for a loop over a list
/// that another loop made.
pub(crate) fn loop_depth(node: &IdedExpr) -> usize {
    let mut open = vec![(node, 0)];
    let mut deepest = 0;
    while let Some((node, above)) = open.pop() {
        let has_rounds =
            matches!(&node.expr, Expr::Comprehension(inner) if inner.iter_var != UNUSED);
        let here = above + usize::from(has_rounds);
        deepest = deepest.max(here);
        open.extend(children(node).into_iter().map(|child| (child, here)));
    }
    deepest
}
