//! Checks nested brackets within limits, and shows where it is refused.

use driftless_fuel::{Fuel, FuelLimits, OutOfFuel, Span, excerpt};
use std::io::Write;

/// Returns the deepest level of brackets, or the place at which the fuel ran out.
fn deepest(text: &str, fuel: &Fuel) -> Result<usize, (Span, OutOfFuel)> {
    let (mut depth, mut deepest) = (0_usize, 0);
    for (offset, c) in text.char_indices() {
        let refused = |out| (Span::at_byte("brackets.txt", text, offset), out);
        fuel.steps(1).map_err(refused)?;
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        fuel.depth(depth).map_err(refused)?;
        deepest = deepest.max(depth);
    }
    Ok(deepest)
}

fn main() -> std::io::Result<()> {
    let limits = FuelLimits {
        depth: 2,
        ..FuelLimits::NONE
    };
    let mut out = std::io::stdout();
    for text in ["(a (b) c)", "(a\n  (b (c)))"] {
        match deepest(text, &Fuel::new(limits)) {
            Ok(levels) => writeln!(out, "{levels} levels")?,
            Err((span, error)) => write!(out, "{error}\n{}", excerpt(text, &span))?,
        }
    }
    Ok(())
}
