//! CEL for the rules of definitions and for admission policies: the compiler's checks, the bound on
//! the cost of an evaluation, and the functions that Kubernetes adds to the language.

pub(crate) mod arguments;
pub(crate) mod cost;
pub(crate) mod library;
mod network;
mod quantity;
mod scope;
mod tree;

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use ::cel::objects::{Key, Map};
use ::cel::{Context, Env, ExecutionError, Program, Value as Cel};
use serde_json::{Number, Value};

use cost::Size;
use scope::Scope;
pub(crate) use tree::Failure;

/// The most bytes of an expression.
const MAX_LENGTH: usize = 16 * 1024;
/// The most operators, dots and brackets. This bounds the depth of the recursion: each adds at most
/// one level to the parser and the evaluation.
const MAX_OPERATORS: usize = 800;

/// The real server's message for an evaluation that costs too much.
pub(crate) const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The language without the variables and types of one use.
static BASE: LazyLock<Result<Arc<Env>, String>> =
    LazyLock::new(|| library::environment().map(Arc::new));

/// Returns the environment of expressions that need only the library.
///
/// # Errors
/// A declaration that fails.
pub(crate) fn base() -> Result<Arc<Env>, String> {
    BASE.clone()
}

/// An expression that compiled.
#[derive(Debug)]
pub(crate) struct Expression {
    /// The source of the expression.
    pub text: String,
    program: Program,
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
    pub(crate) fn compile(text: &str, outside: &[&str]) -> Result<Self, String> {
        let failed = |line: isize, column: isize, message: &str| {
            let source = text
                .lines()
                .nth(usize::try_from(line - 1).unwrap_or_default());
            let dots = ".".repeat(usize::try_from(column - 1).unwrap_or_default());
            format!(
                "compilation failed: ERROR: <input>:{line}:{column}: {message}\n | {}\n | {dots}^",
                source.unwrap_or_default()
            )
        };
        if text.len() > MAX_LENGTH {
            let message = format!(
                "the expression has {} bytes, the limit is {MAX_LENGTH}",
                text.len()
            );
            return Err(failed(1, 1, &message));
        }
        let operators = text
            .bytes()
            .filter(|byte| b"+-*/%!<>=&|?:.,([{".contains(byte))
            .count();
        if operators > MAX_OPERATORS {
            let message = format!(
                "the expression has {operators} operators, dots and brackets, the limit is {MAX_OPERATORS}"
            );
            return Err(failed(1, 1, &message));
        }
        let program = base()?.compile(text).map_err(|errors| {
            let first = errors.errors.first();
            first.map_or_else(
                || failed(1, 1, "Syntax error"),
                |error| {
                    let message = format!("Syntax error: {}", error.msg);
                    failed(error.pos.0.max(1), error.pos.1.max(1), &message)
                },
            )
        })?;
        let mut scope = Scope::new(outside);
        if let Err(problem) = scope.read(program.expression()) {
            let (line, column) = place(text, program.source_info().offset_for(problem.id));
            return Err(failed(line, column, &problem.message));
        }
        let Scope {
            names,
            variables,
            types,
            ..
        } = scope;
        Ok(Self {
            text: text.to_owned(),
            program,
            names,
            variables,
            types,
        })
    }

    /// Returns whether the expression reads an outer variable.
    pub(crate) fn reads(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Evaluates the expression over data of a size.
    ///
    /// # Errors
    /// An evaluation that could cost too much, and data that does not fit.
    pub(crate) fn evaluate(&self, context: &Context<'_, '_>, size: &Size) -> Result<Cel, Failure> {
        size.check(self.program.expression(), self.text.len())?;
        self.program
            .execute(context)
            .map_err(|error| Failure::Evaluation(describe(&error)))
    }
}

/// Returns the line and the column of an offset, both counted from one.
fn place(text: &str, offset: Option<(u32, u32)>) -> (isize, isize) {
    let start = offset.map_or(0, |(start, _)| usize::try_from(start).unwrap_or_default());
    let before: Vec<char> = text.chars().take(start).collect();
    let line = before.iter().filter(|c| **c == '\n').count() + 1;
    let column = before.iter().rev().take_while(|c| **c != '\n').count() + 1;
    let number = |n: usize| isize::try_from(n).unwrap_or(isize::MAX);
    (number(line), number(column))
}

/// Returns cel-go's message for an error of an evaluation.
fn describe(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::UndeclaredReference(name) => format!("no such attribute(s): {name}"),
        ExecutionError::NoSuchOverload(_) => "no such overload".to_owned(),
        ExecutionError::IndexOutOfBounds(_) => "index out of bounds".to_owned(),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::FunctionError { message, .. } => message.clone(),
        other => other.to_string(),
    }
}

/// Converts a JSON value to a CEL value.
pub(crate) fn to_cel(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(flag) => Cel::Bool(*flag),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Cel::Int(integer),
            (None, float) => Cel::Float(float.unwrap_or(f64::NAN)),
        },
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(to_cel).collect())),
        Value::Object(map) => {
            let entries = map
                .iter()
                .map(|(key, value)| (Key::String(Arc::new(key.clone())), to_cel(value)));
            Cel::Map(Map {
                map: Arc::new(entries.collect()),
            })
        }
    }
}

/// Converts a CEL value to JSON.
///
/// # Errors
/// The name of a type that JSON does not have.
pub(crate) fn to_json(value: &Cel) -> Result<Value, String> {
    Ok(match value {
        Cel::Null => Value::Null,
        Cel::Bool(flag) => (*flag).into(),
        Cel::Int(number) => (*number).into(),
        Cel::UInt(number) => (*number).into(),
        Cel::Float(number) => Number::from_f64(*number).map_or(Value::Null, Value::Number),
        Cel::String(text) => Value::String(text.as_ref().clone()),
        Cel::List(items) => Value::Array(items.iter().map(to_json).collect::<Result<_, _>>()?),
        Cel::Map(map) => {
            let entries = map.map.iter().map(|(key, value)| match key {
                Key::String(key) => Ok((key.as_ref().clone(), to_json(value)?)),
                other => Err(format!("a map with the key {other}")),
            });
            Value::Object(entries.collect::<Result<_, _>>()?)
        }
        other => return Err(other.type_of().to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn value(text: &str) -> Result<Value, String> {
        let object = json!({
            "metadata": {"name": "web", "namespace": "apps", "labels": {"app": "web"}},
            "spec": {"replicas": 3, "images": ["a:1", "b:2"], "memory": "512Mi"},
        });
        let expression = Expression::compile(text, &["object"])?;
        let mut context = Context::with_env(base()?);
        context.add_variable_from_value("object", to_cel(&object));
        let size = Size::of([&object]);
        let found = expression.evaluate(&context, &size);
        to_json(&found.map_err(|failure| format!("{failure:?}"))?)
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
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn hostile_expressions_end() {
        let deep = format!("{}1{}", "(".repeat(900), ")".repeat(900));
        let long = "1+".repeat(2000) + "1";
        for text in [deep.as_str(), long.as_str()] {
            assert!(value(text).is_err());
        }
        let object = json!({"list": vec![1; 2000]});
        let text = "object.list.all(a, object.list.all(b, object.list.all(c, a == b && b == c)))";
        let expression = Expression::compile(text, &["object"]).expect("a valid expression");
        let mut context = Context::with_env(base().expect("the library"));
        context.add_variable_from_value("object", to_cel(&object));
        let found = expression.evaluate(&context, &Size::of([&object]));
        assert_eq!(found, Err(Failure::Budget));
    }
}
