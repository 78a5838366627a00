//! CEL for the rules of definitions and for admission policies: the compiler's checks and messages,
//! and the functions that Kubernetes adds to the language. The budgets are `driftless_cel`'s.

pub(crate) mod library;
mod name_resolution;
mod network;
pub(crate) mod own_type;
mod quantity;

use driftless_go::Error as GoError;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use driftless_fuel::{FuelLimits, Tank};

use driftless_cel::{Data, Env, ExecutionError, Limits, ParseError, Value as Cel, describe};

use name_resolution::Scope;

/// The budgets of an expression.
const LIMITS: Limits = Limits {
    bytes: 16 * 1024,
    operators: 800,
    work: 1 << 28,
    text: 16 << 20,
    steps: 40_000_000,
};

/// The limits of all rules that one object is checked with, and of all expressions of one policy
/// for one request.
const CHECK_FUEL: FuelLimits = FuelLimits {
    steps: 100_000_000,
    ..FuelLimits::NONE
};

/// Returns the fuel of the expressions of one check.
pub(crate) fn check_fuel() -> Tank {
    Tank::new(CHECK_FUEL)
}

/// The real server's message for an evaluation that costs too much.
pub(crate) const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The language without the variables and types of one use.
static BASE: LazyLock<Result<Arc<Env>, GoError>> =
    LazyLock::new(|| library::environment().map(Arc::new));

/// Returns the environment of expressions that need only the library.
///
/// # Errors
/// A declaration that fails.
pub(crate) fn base() -> Result<Arc<Env>, GoError> {
    BASE.clone()
}

/// The reason that an evaluation has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The evaluation could take too long.
    Budget,
    /// The data does not fit.
    Evaluation(String),
}

impl From<driftless_cel::Failure> for Failure {
    fn from(failure: driftless_cel::Failure) -> Self {
        use driftless_cel::Failure as Of;
        match failure {
            Of::Work | Of::Text | Of::Values => Self::Budget,
            Of::Evaluation(error) => Self::Evaluation(message(&error)),
        }
    }
}

/// An expression that compiled.
#[derive(Debug)]
pub(crate) struct Expression {
    parsed: driftless_cel::Expression,
    /// The outer variables that it reads.
    names: BTreeSet<String>,
    /// The fields of `variables` that it reads.
    pub variables: BTreeSet<String>,
    /// The types of the objects that it makes.
    pub types: BTreeSet<String>,
}

impl Expression {
    /// Compiles an expression.
    ///
    /// # Errors
    /// The message of the real server: `compilation failed: ERROR: <input>:1:1: ...`.
    pub(crate) fn compile(text: &str, outside: &[&str]) -> Result<Self, GoError> {
        let failed = |(line, column): (isize, isize), message: &str| {
            let source = text
                .lines()
                .nth(usize::try_from(line - 1).unwrap_or_default());
            let dots = ".".repeat(usize::try_from(column - 1).unwrap_or_default());
            format!(
                "compilation failed: ERROR: <input>:{line}:{column}: {message}\n | {}\n | {dots}^",
                source.unwrap_or_default()
            )
        };
        let language = base()?;
        let parsed = driftless_cel::Expression::parse(text, &language, LIMITS);
        let parsed = parsed.map_err(|error| match error {
            ParseError::Bytes(bytes) => failed(
                (1, 1),
                &format!(
                    "the expression has {bytes} bytes, the limit is {}",
                    LIMITS.bytes
                ),
            ),
            ParseError::Operators(operators) => failed(
                (1, 1),
                &format!(
                    "the expression has {operators} operators, dots and brackets, the limit is {}",
                    LIMITS.operators
                ),
            ),
            ParseError::Syntax { place, message } => failed(
                (place.0.max(1), place.1.max(1)),
                &format!("Syntax error: {message}"),
            ),
        })?;
        let scope = Scope::read(outside, parsed.tree());
        let Scope {
            names,
            variables,
            types,
            ..
        } = scope.map_err(|problem| failed(parsed.place(problem.id), &problem.message))?;
        Ok(Self {
            parsed,
            names,
            variables,
            types,
        })
    }

    /// Returns whether the expression reads an outer variable.
    pub(crate) fn reads(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Evaluates the expression over data.
    ///
    /// # Errors
    /// An evaluation that could cost too much, and data that does not fit.
    pub(crate) fn evaluate(&self, data: &Data<'_>) -> Result<Cel, Failure> {
        Ok(self.parsed.evaluate(data)?)
    }
}

/// Returns cel-go's message for an error of an evaluation.
fn message(error: &ExecutionError) -> String {
    describe(error).unwrap_or_else(|| match error {
        ExecutionError::NoSuchOverload(_) => "no such overload".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::FunctionError { message, .. } => message.clone(),
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_cel::to_json;
    use serde_json::{Value, json};

    fn value(text: &str) -> Result<Value, GoError> {
        let object = json!({
            "metadata": {"name": "web", "namespace": "apps", "labels": {"app": "web"}},
            "spec": {"replicas": 3, "images": ["a:1", "b:2"], "memory": "512Mi"},
        });
        let expression = Expression::compile(text, &["object"])?;
        let mut data = Data::new(base()?, &check_fuel());
        data.add("object", &object);
        let found = expression.evaluate(&data);
        let found = found.map_err(|failure| format!("{failure:?}"))?;
        Ok(to_json(&found).map_err(|error| error.to_string())?)
    }

    #[test]
    fn expressions_have_the_values_of_the_real_server() {
        for (text, expected) in [
            ("object.metadata.namespace == 'apps'", json!(true)),
            ("object.spec.images.all(i, i.contains(':'))", json!(true)),
            ("has(object.spec.paused)", json!(false)),
            ("object.spec.?paused.orValue(7)", json!(7)),
            (
                "object.spec.images.map(i, i.split(':')[0])",
                json!(["a", "b"]),
            ),
            (
                "quantity(object.spec.memory).isLessThan(quantity('1Gi'))",
                json!(true),
            ),
            (
                "quantity('1').add(quantity('500m')).compareTo(quantity('1500m'))",
                json!(0),
            ),
            ("quantity('1').add(1).asInteger()", json!(2)),
            ("isQuantity('x')", json!(false)),
            ("quantity('50k').asInteger()", json!(50_000)),
            ("'abc 123'.find('[0-9]+')", json!("123")),
            ("'1 2 3'.findAll('[0-9]', 2)", json!(["1", "2"])),
            ("[1, 3, 2].isSorted()", json!(false)),
            ("[1, 3, 2].sum()", json!(6)),
            ("[1, 3, 2].max()", json!(3)),
            ("['a', 'b', 'a'].lastIndexOf('a')", json!(2)),
            ("sets.contains([1, 2], [2])", json!(true)),
            (
                "url('https://a.example:80/p?q=1').getHost()",
                json!("a.example:80"),
            ),
            ("url('https://a.example:80/p?q=1').getPort()", json!("80")),
            ("isURL('../x')", json!(false)),
            ("ip('10.0.0.1').family()", json!(4)),
            ("cidr('10.0.0.0/8').containsIP('10.1.2.3')", json!(true)),
            (
                "cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16'))",
                json!(true),
            ),
            ("string(cidr('10.1.2.3/8').masked())", json!("10.0.0.0/8")),
            ("cel.bind(n, object.spec.replicas, n + n)", json!(6)),
            ("'%s has %d'.format(['x', 2])", json!("x has 2")),
            ("base64.encode(b'hi')", json!("aGk=")),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn invalid_expressions_are_refused_with_their_position() {
        for (text, expected) in [
            (
                "nothing == 1",
                "compilation failed: ERROR: <input>:1:1: undeclared reference to 'nothing' (in container '')\n | nothing == 1\n | ^",
            ),
            (
                "object.a == 1 && semver('1') == 1",
                "undeclared reference to 'semver' (in container '')",
            ),
            (
                "object.a.frobnicate()",
                "undeclared reference to 'frobnicate'",
            ),
            (
                "object.a ==",
                "compilation failed: ERROR: <input>:1:12: Syntax error:",
            ),
            ("object.a.matches('(')", "invalid matches argument"),
        ] {
            let error = value(text).expect_err(text);
            assert!(error.as_str().contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn hostile_expressions_end() {
        let deep = format!("{}1{}", "(".repeat(900), ")".repeat(900));
        let long = "1+".repeat(2000) + "1";
        let members = "'a'".to_owned() + &"in'a'".repeat(3000);
        for text in [&deep, &long, &members] {
            assert!(value(text).is_err());
        }
        let object = json!({"list": vec![1; 2000]});
        let text = "object.list.all(a, object.list.all(b, object.list.all(c, a == b && b == c)))";
        let expression = Expression::compile(text, &["object"]).expect("a valid expression");
        let mut data = Data::new(base().expect("the library"), &check_fuel());
        data.add("object", &object);
        let found = expression.evaluate(&data);
        assert_eq!(found, Err(Failure::Budget));
    }
}
