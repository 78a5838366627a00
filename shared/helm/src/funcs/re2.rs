//! The compilation of regular expressions, charged once per render.

use super::regexp::{Regexp, compiled};
use super::render_context::RenderContext;
use driftless_go::Error as GoError;
use driftless_go::re2;
use driftless_gotmpl::{Exec, FuncError};

/// The maximal steps of compiling: a larger expression is refused.
const MAX_COST: u64 = 400_000;

/// Compiles an expression; the inner error is Go's message without its head.
///
/// # Errors
/// The outer one is a used-up budget.
pub(super) fn compile(
    exec: &mut Exec<'_>,
    pattern: &str,
) -> Result<Result<Regexp, GoError>, FuncError> {
    exec.charge_bytes(pattern.len().saturating_mul(16))?;
    // The cost of a render must not depend on earlier renders.
    let paid = exec.host::<RenderContext>().map(|host| &host.compiled);
    if let Some(known) = paid.and_then(|paid| paid.borrow().get(pattern)) {
        return Ok(known);
    }
    exec.charge_bytes(pattern.len().saturating_mul(1024).saturating_add(4096))?;
    let translated = re2::translate(pattern);
    if translated.is_ok() {
        exec.charge(re2::expansion(pattern).min(MAX_COST))?;
    }
    let compiled = compiled(pattern, translated);
    if let Some(paid) = paid {
        paid.borrow_mut().keep(pattern, &compiled);
    }
    Ok(compiled)
}
