//! CEL expressions with budgets: parse, bound, evaluate.
//!
//! Expressions come from tenants, so they are bounded before they run: [`Expression::parse`]
//! refuses long strings and deep trees, [`Expression::evaluate`] refuses nested loops and
//! replacements that could take too long or too much memory over the given [`Data`]. While it runs,
//! an evaluation charges its steps to the fuel of the data.
//!
//! | module | content |
//! | --- | --- |
//! | [`functions`] | the functions that every use has, and helpers to declare more |
//! | [`tree`] | the syntax tree: children, variables of loops, invalid patterns |
//!
//! The messages for users are the callers'.
//!
//! ```
//! use driftless_cel::{Data, Expression, Limits, Value, functions};
//! use driftless_fuel::{FuelLimits, Tank};
//! use serde_json::json;
//! use std::sync::Arc;
//!
//! const LIMITS: Limits = Limits {
//!     bytes: 1024,
//!     operators: 100,
//!     work: 1 << 20,
//!     text: 1 << 20,
//!     steps: 1 << 20,
//! };
//!
//! let language = Arc::new(functions::environment()?);
//! let expression = Expression::parse("object.replicas > 2", &language, LIMITS).unwrap();
//! let fuel = Tank::new(FuelLimits { steps: 100, ..FuelLimits::NONE });
//! let mut data = Data::new(language, &fuel);
//! data.add("object", &json!({"replicas": 3}));
//! assert_eq!(expression.evaluate(&data).unwrap(), Value::Bool(true));
//! assert!(fuel.left().steps < 100);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

pub mod arguments;
mod cost;
pub mod functions;
mod meter;
pub mod tree;
mod value;

use std::sync::Arc;

use ::cel::common::value::Val;
use ::cel::{Context, Program};
use driftless_fuel::{FuelLimits, Tank};
use meter::{Meter, Weight};

pub use ::cel::common::ast::{Expr, IdedExpr};
pub use ::cel::{DeclarationError, Env, ExecutionError, Value};
pub use cost::{Failure, Limits, Size};
pub use value::{NotJson, to_cel, to_json};

/// The reason that a string is not an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// The string has this number of bytes, which is above [`Limits::bytes`].
    Bytes(usize),
    /// The string has this number of operators, which is above [`Limits::operators`].
    Operators(usize),
    /// The parser refuses the string.
    Syntax {
        /// The line and the column, both counted from one; below one if the parser does not know
        /// them.
        place: (isize, isize),
        /// The message of the parser.
        message: String,
    },
}

/// A parsed expression with its budgets.
#[derive(Debug)]
pub struct Expression {
    text: String,
    program: Program,
    /// The tree that is evaluated.
    metered: IdedExpr,
    weight: Weight,
    limits: Limits,
}

impl Expression {
    /// Parses a string in a language.
    ///
    /// # Errors
    /// A string that is too long or too deep, or that the parser refuses.
    pub fn parse(text: &str, language: &Env, limits: Limits) -> Result<Self, ParseError> {
        if text.len() > limits.bytes {
            return Err(ParseError::Bytes(text.len()));
        }
        let operators = operators(text);
        if operators > limits.operators {
            return Err(ParseError::Operators(operators));
        }
        let program = language.compile(text).map_err(|errors| {
            let first = errors.errors.first();
            let syntax = |place, message: &str| ParseError::Syntax {
                place,
                message: message.to_owned(),
            };
            first.map_or_else(|| syntax((1, 1), ""), |error| syntax(error.pos, &error.msg))
        })?;
        let mut metered = program.expression().clone();
        meter::add_to(&mut metered);
        Ok(Self {
            text: text.to_owned(),
            weight: Weight::of(program.expression()),
            program,
            metered,
            limits,
        })
    }

    /// Returns the source of the expression.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the syntax tree.
    #[must_use]
    pub fn tree(&self) -> &IdedExpr {
        self.program.expression()
    }

    /// Returns the line and the column of a node of the tree, both counted from one.
    #[must_use]
    pub fn place(&self, node: u64) -> (isize, isize) {
        let offset = self.program.source_info().offset_for(node);
        let start = offset.map_or(0, |(start, _)| usize::try_from(start).unwrap_or_default());
        let before: Vec<char> = self.text.chars().take(start).collect();
        let line = before.iter().filter(|c| **c == '\n').count() + 1;
        let column = before.iter().rev().take_while(|c| **c != '\n').count() + 1;
        let number = |n: usize| isize::try_from(n).unwrap_or(isize::MAX);
        (number(line), number(column))
    }

    /// Evaluates the expression over data.
    ///
    /// # Errors
    /// An evaluation that could cost or costs too much, and data that does not fit.
    pub fn evaluate(&self, data: &Data<'_>) -> Result<Value, Failure> {
        data.size.check(self.tree(), self.text.len(), self.limits)?;
        let part = data.fuel.part(FuelLimits {
            steps: self.limits.steps,
            ..FuelLimits::NONE
        });
        let steps = Tank::new(part.limits());
        let meter = Meter {
            steps: steps.clone(),
            text: data.size.text.max(self.text.len()),
        };
        let begun = steps.steps(data.size.total / meter::BYTES_PER_STEP);
        begun
            .and_then(|()| meter.charge(1, self.weight))
            .map_err(|_| Failure::Work)?;
        let mut context = data.context.new_inner_scope();
        context.add_variable_as_val(meter::VARIABLE, Box::new(meter));
        let result = Value::resolve(&self.metered, &context);
        // An operator may drop the error of a loop that had no steps left.
        let left = steps.left().steps;
        let spent = part.limits().steps.saturating_sub(left);
        match part.steps(spent) {
            Ok(()) if left > 0 => result.map_err(Failure::Evaluation),
            _ => Err(Failure::Work),
        }
    }
}

/// Counts the characters and words that may add a level to the tree. The operator `in` needs no
/// spaces around it: `1in[1]`.
fn operators(text: &str) -> usize {
    let bytes = text.as_bytes();
    let is_letter = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    let is_word = |byte: &u8| is_letter(byte) || byte.is_ascii_digit();
    let symbols = bytes
        .iter()
        .filter(|byte| b"+-*/%!<>=&|?:.,([{".contains(byte));
    let words = text.match_indices("in").filter(|(at, word)| {
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        let after = bytes.get(at + word.len());
        !before.is_some_and(is_letter) && !after.is_some_and(is_word)
    });
    symbols.count() + words.count()
}

/// The variables of an evaluation with their size.
pub struct Data<'v> {
    context: Context<'v, 'v>,
    size: Size,
    fuel: Tank,
}

impl std::fmt::Debug for Data<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Data").field("size", &self.size).finish()
    }
}

impl<'v> Data<'v> {
    /// Creates data without variables for the expressions of a language. Evaluations charge `fuel`.
    #[must_use]
    pub fn new(language: Arc<Env>, fuel: &Tank) -> Self {
        Self {
            context: Context::with_env(language),
            size: Size::default(),
            fuel: fuel.clone(),
        }
    }

    /// Adds a variable.
    pub fn add(&mut self, name: &str, value: &serde_json::Value) {
        self.size.add(value);
        self.context.add_variable_from_value(name, to_cel(value));
    }

    /// Adds a variable that another expression made.
    ///
    /// # Errors
    /// [`Failure::Values`].
    pub fn add_result(&mut self, name: &str, value: Value) -> Result<(), Failure> {
        self.size.grow(&value)?;
        self.context.add_variable_from_value(name, value);
        Ok(())
    }

    /// Adds a variable of the caller's own type, which has no size.
    pub fn add_own(&mut self, name: &str, value: Box<dyn Val + 'v>) {
        self.context.add_variable_as_val(name, value);
    }
}

/// Returns cel-go's message for an error that names only parts of the expression; `None` for an
/// error whose message depends on the use.
#[must_use]
pub fn describe(error: &ExecutionError) -> Option<String> {
    Some(match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::UndeclaredReference(name) => format!("no such attribute(s): {name}"),
        ExecutionError::IndexOutOfBounds(_) => "index out of bounds".to_owned(),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const LIMITS: Limits = Limits {
        bytes: 8 * 1024,
        operators: 600,
        work: 1 << 28,
        text: 16 << 20,
        steps: 100_000,
    };

    fn language() -> Arc<Env> {
        Arc::new(functions::environment().expect("the functions"))
    }

    fn parse(text: &str) -> Result<Expression, ParseError> {
        Expression::parse(text, &language(), LIMITS)
    }

    #[test]
    fn texts_above_a_limit_are_refused() {
        let chains = |link: &str, links: usize| format!("1{}", link.repeat(links));
        assert_eq!(
            parse(&" ".repeat(9000)).err(),
            Some(ParseError::Bytes(9000))
        );
        for link in ["+1", " in [1]", "\tin\n1", " in'a'"] {
            let Err(ParseError::Operators(found)) = parse(&chains(link, 601)) else {
                panic!("{link}");
            };
            assert!(found > 600, "{link}: {found}");
        }
        // No operator: part of a name, or of a longer word.
        assert_eq!(operators("min max inner x_in in_x in2"), 0);
    }

    #[test]
    fn syntax_errors_have_a_place() {
        let Err(ParseError::Syntax { place, .. }) = parse("object.a &&\n &&") else {
            panic!("the expression is invalid");
        };
        assert_eq!(place.0, 2);
    }

    #[test]
    fn expensive_evaluations_are_refused() {
        let list = json!({"list": vec![1; 2000], "text": "x".repeat(5000)});
        let failure = |text: &str| {
            let mut data = Data::new(language(), &Tank::default());
            data.add("o", &list);
            parse(text).expect("an expression").evaluate(&data).err()
        };
        let loops = "o.list.all(a, o.list.all(b, o.list.all(c, a == b && b == c)))";
        assert!(matches!(failure(loops), Some(Failure::Work)));
        let replaces = "size(o.text.replace('x', o.text)) > 0";
        assert!(matches!(failure(replaces), Some(Failure::Text)));
        assert!(failure("o.list.all(a, a == 1)").is_none());
    }

    #[test]
    fn each_evaluation_charges_its_rounds() {
        let spent = |text: &str, items: usize, bytes: usize| {
            let steps = FuelLimits {
                steps: 1_000_000,
                ..FuelLimits::NONE
            };
            let fuel = Tank::new(steps);
            let mut data = Data::new(language(), &fuel);
            data.add(
                "o",
                &json!({"list": vec![1; items], "text": "x".repeat(bytes)}),
            );
            let result = parse(text).expect("an expression").evaluate(&data);
            (result, 1_000_000 - fuel.left().steps)
        };
        let (result, small) = spent("o.list.all(a, a == 1)", 10, 1);
        assert_eq!(result.expect("a result"), Value::Bool(true));
        let (_, large) = spent("o.list.all(a, a == 1)", 1_000, 1);
        assert!(large > 50 * small, "{small} and {large}");
        let (_, nested) = spent("o.list.all(a, o.list.all(b, a == b))", 60, 1);
        assert!(nested > 3 * large, "{nested} and {large}");
        let (_, texts) = spent("o.list.all(a, o.text.contains('y') == false)", 1_000, 640);
        assert!(texts > large + 10_000, "{texts} and {large}");
        // An operator that drops errors does not go on without steps.
        let (result, all) = spent("o.list.exists(a, !o.list.all(b, a == b)) || true", 300, 1);
        assert!(matches!(result, Err(Failure::Work)), "{result:?}");
        assert_eq!(all, LIMITS.steps);
    }

    #[test]
    fn a_metered_loop_returns_what_it_does_without_the_meter() {
        for text in [
            "o.list.map(a, a + 1)",
            "o.list.filter(a, a > 1).size()",
            "o.map.exists(key, key == 'b')",
            "o.list.exists_one(a, a == 2)",
            "o.list.map(a, o.list.filter(b, b > a).size())",
            "'a,b'.split(',').map(a, a + 'x')",
        ] {
            let mut data = Data::new(language(), &Tank::default());
            data.add("o", &json!({"list": [1, 2, 3], "map": {"a": 1, "b": 2}}));
            let expression = parse(text).expect("an expression");
            let plain = expression.program.execute(&data.context);
            let metered = expression.evaluate(&data);
            assert_eq!(metered.expect(text), plain.expect(text), "{text}");
        }
    }

    #[test]
    fn variables_of_loops_are_bound_in_their_loop_only() {
        let expression = parse("a.all(x, b.exists(y, x == y && z)) && x").expect("an expression");
        let mut free = Vec::new();
        let found: Result<(), ()> = tree::walk(expression.tree(), &mut |node, bound| {
            if let Expr::Ident(name) = &node.expr
                && !bound.contains(&name.as_str())
            {
                free.push(name.as_str());
            }
            Ok(tree::children(node))
        });
        assert_eq!((found, free), (Ok(()), vec!["a", "b", "z", "x"]));
    }
}
