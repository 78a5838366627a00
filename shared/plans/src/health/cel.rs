//! CEL with the options that Flux sets (fluxcd/pkg runtime v0.110 `cel`): optional values,
//! comparable numbers of different types, and the functions for strings, encodings and sets.

use driftless_cel::functions::TYPES;
use driftless_cel::tree::{children, invalid_pattern, walk};
use driftless_cel::{
    Data, DeclarationError, Env, ExecutionError, Expr, Failure, Limits, ParseError, functions,
};
use driftless_fuel::Tank;
use serde_json::Value;
use std::sync::{Arc, LazyLock};

/// The budgets of an expression.
const LIMITS: Limits = Limits {
    bytes: 8 * 1024,
    operators: 600,
    work: 1 << 30,
    text: 64 << 20,
    steps: 40_000_000,
};

/// The reason that an expression has no result. Never contains values of the object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CelError {
    #[error("failed to parse the CEL expression '{expression}': {message}")]
    Parse { expression: String, message: String },
    #[error("failed to evaluate the CEL expression '{expression}': {message}")]
    Evaluate { expression: String, message: String },
    #[error("failed to evaluate CEL expression as boolean: '{expression}'")]
    NotBoolean { expression: String },
}

/// The environment with the functions; the first expression reports an error of the registration.
static ENV: LazyLock<Result<Arc<Env>, DeclarationError>> =
    LazyLock::new(|| functions::environment().map(Arc::new));

/// A parsed expression.
pub(super) struct Expression {
    env: Arc<Env>,
    parsed: driftless_cel::Expression,
    fuel: Tank,
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Expression")
            .field(&self.parsed.text())
            .finish()
    }
}

impl Expression {
    /// Parses an expression, whose evaluations charge the fuel of a step.
    pub(super) fn parse(text: &str, step: &Tank) -> Result<Self, CelError> {
        let fail = |message: String| CelError::Parse {
            expression: excerpt(text),
            message,
        };
        let env = ENV.as_ref().map_err(|error| fail(error.to_string()))?;
        let parsed = driftless_cel::Expression::parse(text, env, LIMITS);
        let parsed = parsed.map_err(|error| {
            fail(match error {
                ParseError::Bytes(bytes) => {
                    format!("its length is {bytes} bytes, the limit is {}", LIMITS.bytes)
                }
                ParseError::Operators(_) => format!(
                    "more than {} operators, dots and brackets",
                    LIMITS.operators
                ),
                ParseError::Syntax { place, message } => {
                    format!("column {}: {message}", place.1)
                }
            })
        })?;
        let env = Arc::clone(env);
        let fuel = step.clone();
        let expression = Self { env, parsed, fuel };
        expression.check_patterns()?;
        Ok(expression)
    }

    /// Refuses an invalid pattern of `matches`, as Flux does before it runs the expression.
    fn check_patterns(&self) -> Result<(), CelError> {
        walk(
            self.parsed.tree(),
            &mut |node, _| match invalid_pattern(node) {
                Some("matches") => {
                    Err(self.refuse("the argument of matches() is not a valid regular expression"))
                }
                _ => Ok(children(node)),
            },
        )
    }

    /// Returns the first free variable of the expression that is not among the known ones.
    pub(super) fn unknown_variable(&self, known: &[&str]) -> Option<String> {
        let free = walk(self.parsed.tree(), &mut |node, bound| match &node.expr {
            Expr::Ident(name) => {
                let name = name.as_str();
                let is_known = [bound, known, &TYPES, &NAMES]
                    .iter()
                    .any(|all| all.contains(&name));
                if is_known { Ok(Vec::new()) } else { Err(name) }
            }
            _ => Ok(children(node)),
        });
        free.err().map(str::to_owned)
    }

    /// Creates a parse error of this expression.
    pub(super) fn refuse(&self, message: impl Into<String>) -> CelError {
        CelError::Parse {
            expression: excerpt(self.parsed.text()),
            message: message.into(),
        }
    }

    /// Evaluates the expression to a boolean.
    pub(super) fn boolean<'v>(
        &self,
        variables: impl Iterator<Item = (&'v str, &'v Value)>,
    ) -> Result<bool, CelError> {
        match self.evaluate(variables)? {
            driftless_cel::Value::Bool(answer) => Ok(answer),
            _ => Err(CelError::NotBoolean {
                expression: excerpt(self.parsed.text()),
            }),
        }
    }

    /// Evaluates the expression to JSON.
    pub(super) fn json<'v>(
        &self,
        variables: impl Iterator<Item = (&'v str, &'v Value)>,
    ) -> Result<Value, CelError> {
        let value = self.evaluate(variables)?;
        driftless_cel::to_json(&value).map_err(|kind| CelError::Evaluate {
            expression: excerpt(self.parsed.text()),
            message: format!("its result has a value that is not JSON: {kind}"),
        })
    }

    fn evaluate<'v>(
        &self,
        variables: impl Iterator<Item = (&'v str, &'v Value)>,
    ) -> Result<driftless_cel::Value, CelError> {
        let mut data = Data::new(self.env.clone(), &self.fuel);
        for (name, value) in variables {
            data.add(name, value);
        }
        let result = self.parsed.evaluate(&data);
        result.map_err(|failure| CelError::Evaluate {
            expression: excerpt(self.parsed.text()),
            message: describe(&failure),
        })
    }
}

/// Names that CEL itself defines, besides [`TYPES`]: types, and namespaces of functions.
const NAMES: [&str; 8] = [
    "duration",
    "timestamp",
    "google",
    "optional",
    "optional_type",
    "strings",
    "base64",
    "sets",
];

fn excerpt(text: &str) -> String {
    const SHOWN: usize = 200;
    if text.chars().count() <= SHOWN {
        text.to_owned()
    } else {
        text.chars().take(SHOWN).chain(['…']).collect()
    }
}

/// Describes the failure with names of the expression, but without values of the data.
fn describe(failure: &Failure) -> String {
    let error = match failure {
        Failure::Work => return "nested loops are too much work for this object".to_owned(),
        Failure::Text => {
            return "replacements could produce a string that is too long".to_owned();
        }
        Failure::Values => return "its result has too many values".to_owned(),
        Failure::Evaluation(error) => error,
    };
    driftless_cel::describe(error).unwrap_or_else(|| match error {
        ExecutionError::NoSuchOverload(overload) => format!(
            "no such overload: {}({})",
            overload.function(),
            overload.argument_types().join(", ")
        ),
        ExecutionError::UnexpectedType { got, want } => format!("got a {got}, expected a {want}"),
        ExecutionError::RemainderByZero(_) => "division by zero".to_owned(),
        ExecutionError::FunctionError { function, .. } => {
            format!("{function} does not accept its arguments")
        }
        _ => "an operation does not support the types of its values".to_owned(),
    })
}
