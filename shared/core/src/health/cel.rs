//! CEL with the options that Flux sets (fluxcd/pkg runtime v0.110 `cel`): optional values,
//! comparable numbers of different types, and the functions for strings, encodings and sets.
//!
//! Expressions come from tenants, so they are bounded before they run: their length, their
//! operators, the depth of nested loops with the longest list in the data, and the length of the
//! strings that `replace` can produce.

use ::cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue};
use ::cel::common::types::{CelBool, LIST_TYPE};
use ::cel::common::value::{CowVal, Val};
use ::cel::objects::{Key, Map};
use ::cel::{Context, DeclarationError, Env, ExecutionError, Program, Value as Cel, extensions};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// Maximum length of an expression, in bytes.
const MAX_LENGTH: usize = 8 * 1024;
/// Maximum number of operators, dots and brackets, including those in string literals: the parser
/// and the evaluation go at most one level deeper for each, and a level needs stack. (The parser
/// itself stops at 96 levels of brackets.)
const MAX_OPERATORS: usize = 600;
/// Maximum number of steps of nested loops, each weighted by the size of the data that it may copy.
const MAX_WORK: usize = 1 << 30;
/// Maximum length of a string that `replace` may produce, in bytes.
const MAX_TEXT: usize = 64 << 20;

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
static ENV: LazyLock<Result<Arc<Env>, String>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    env.add_extension(extensions::strings)
        .and_then(|()| env.add_extension(extensions::encoders))
        .and_then(|()| env.add_extension(sets))
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(env))
});

/// Registers cel-go's `ext.Sets()`: `sets.contains`, `sets.equivalent`, `sets.intersects`.
fn sets(env: &mut Env) -> Result<(), DeclarationError> {
    let lists = || vec![LIST_TYPE, LIST_TYPE];
    env.add_overload(
        "sets.contains",
        "list_sets_contains_list",
        lists(),
        |args| {
            let [all, some] = two_lists(&args)?;
            Ok(boolean(some.iter().all(|item| contains(&all, *item))))
        },
    )?;
    env.add_overload(
        "sets.equivalent",
        "list_sets_equivalent_list",
        lists(),
        |args| {
            let [a, b] = two_lists(&args)?;
            Ok(boolean(
                a.iter().all(|item| contains(&b, *item))
                    && b.iter().all(|item| contains(&a, *item)),
            ))
        },
    )?;
    env.add_overload(
        "sets.intersects",
        "list_sets_intersects_list",
        lists(),
        |args| {
            let [a, b] = two_lists(&args)?;
            Ok(boolean(a.iter().any(|item| contains(&b, *item))))
        },
    )
}

fn boolean<'b, 'v>(value: bool) -> CowVal<'b, 'v> {
    CowVal::owned(CelBool::from(value))
}

fn contains(list: &[&dyn Val], item: &dyn Val) -> bool {
    list.iter().any(|other| other.equals(item))
}

fn two_lists<'a, 'v>(
    args: &'a [CowVal<'_, 'v>],
) -> Result<[Vec<&'a (dyn Val + 'v)>; 2], ExecutionError> {
    let list = |index: usize| {
        let mut items = Vec::new();
        let found = args
            .get(index)
            .and_then(|arg| arg.as_iterable())
            .ok_or(ExecutionError::MissingArgumentOrTarget)?;
        let mut rest = found.iter();
        while let Some(item) = rest.next() {
            items.push(item);
        }
        Ok(items)
    };
    Ok([list(0)?, list(1)?])
}

/// A parsed expression.
pub(super) struct Expression {
    text: String,
    env: Arc<Env>,
    program: Program,
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Expression").field(&self.text).finish()
    }
}

impl Expression {
    /// Parses an expression.
    pub(super) fn parse(text: &str) -> Result<Self, CelError> {
        let fail = |message: String| CelError::Parse {
            expression: excerpt(text),
            message,
        };
        if text.len() > MAX_LENGTH {
            return Err(fail(format!(
                "its length is {} bytes, the limit is {MAX_LENGTH}",
                text.len()
            )));
        }
        let operators = text
            .bytes()
            .filter(|b| b"+-*/%!<>=&|?:.,([{".contains(b))
            .count();
        let words = text.split_whitespace().filter(|word| *word == "in").count();
        if operators + words > MAX_OPERATORS {
            return Err(fail(format!(
                "more than {MAX_OPERATORS} operators, dots and brackets"
            )));
        }
        let env = ENV.clone().map_err(fail)?;
        let program = env.compile(text).map_err(|errors| {
            let first = errors.errors.first();
            fail(first.map_or_else(String::new, |e| format!("column {}: {}", e.pos.1, e.msg)))
        })?;
        check_patterns(program.expression()).map_err(fail)?;
        Ok(Self {
            text: text.to_owned(),
            env,
            program,
        })
    }

    /// Returns the first free variable of the expression that is not among the known ones.
    pub(super) fn unknown_variable(&self, known: &[&str]) -> Option<String> {
        let mut bound = known.to_vec();
        bound.extend(NAMES);
        unbound(self.program.expression(), &mut bound).map(str::to_owned)
    }

    /// Creates a parse error of this expression.
    pub(super) fn refuse(&self, message: impl Into<String>) -> CelError {
        CelError::Parse {
            expression: excerpt(&self.text),
            message: message.into(),
        }
    }

    /// Evaluates the expression to a boolean.
    pub(super) fn boolean<'v>(
        &self,
        variables: impl Iterator<Item = (&'v str, &'v Value)> + Clone,
    ) -> Result<bool, CelError> {
        let fail = |message: String| CelError::Evaluate {
            expression: excerpt(&self.text),
            message,
        };
        let mut size = Size::default();
        variables.clone().for_each(|(_, value)| size.add(value));
        size.check(self.program.expression(), self.text.len())
            .map_err(fail)?;

        let mut context = Context::with_env(self.env.clone());
        for (name, value) in variables {
            context.add_variable_from_value(name, to_cel(value));
        }
        match self.program.execute(&context) {
            Ok(Cel::Bool(answer)) => Ok(answer),
            Ok(_) => Err(CelError::NotBoolean {
                expression: excerpt(&self.text),
            }),
            Err(error) => Err(fail(describe(&error))),
        }
    }
}

/// Names that CEL itself defines: types, and namespaces of functions.
const NAMES: [&str; 18] = [
    "int",
    "uint",
    "double",
    "bool",
    "string",
    "bytes",
    "list",
    "map",
    "null_type",
    "type",
    "duration",
    "timestamp",
    "google",
    "optional",
    "optional_type",
    "strings",
    "base64",
    "sets",
];

/// Returns the first name that no loop around it binds and that is not in `bound`.
fn unbound<'e>(node: &'e IdedExpr, bound: &mut Vec<&'e str>) -> Option<&'e str> {
    match &node.expr {
        Expr::Ident(name) => (!bound.contains(&name.as_str())).then_some(name.as_str()),
        Expr::Comprehension(loops) => {
            let outside = [&loops.iter_range, &loops.accu_init]
                .into_iter()
                .find_map(|e| unbound(e, bound));
            let before = bound.len();
            bound.extend([loops.iter_var.as_str(), loops.accu_var.as_str()]);
            bound.extend(loops.iter_var2.as_deref());
            let inside = || {
                [&loops.loop_cond, &loops.loop_step, &loops.result]
                    .into_iter()
                    .find_map(|e| unbound(e, bound))
            };
            let found = outside.or_else(inside);
            bound.truncate(before);
            found
        }
        _ => children(node)
            .into_iter()
            .find_map(|child| unbound(child, bound)),
    }
}

/// Refuses an invalid pattern of `matches`, as Flux does before it runs the expression.
fn check_patterns(expression: &IdedExpr) -> Result<(), String> {
    let mut result = Ok(());
    visit(expression, &mut |node| {
        if let Expr::Call(call) = &node.expr
            && call.func_name == "matches"
            && let Some(Expr::Literal(LiteralValue::String(pattern))) =
                call.args.last().map(|arg| &arg.expr)
            && regex::Regex::new(pattern.inner()).is_err()
        {
            result = Err("the argument of matches() is not a valid regular expression".to_owned());
        }
    });
    result
}

fn excerpt(text: &str) -> String {
    const SHOWN: usize = 200;
    if text.chars().count() <= SHOWN {
        text.to_owned()
    } else {
        text.chars().take(SHOWN).chain(['…']).collect()
    }
}

/// Describes the error with names of the expression, but without values of the data.
fn describe(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::UndeclaredReference(name) => format!("no such attribute(s): {name}"),
        ExecutionError::NoSuchOverload(overload) => format!(
            "no such overload: {}({})",
            overload.function(),
            overload.argument_types().join(", ")
        ),
        ExecutionError::UnexpectedType { got, want } => format!("got a {got}, expected a {want}"),
        ExecutionError::IndexOutOfBounds(_) => "index out of bounds".to_owned(),
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
            "division by zero".to_owned()
        }
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::FunctionError { function, .. } => {
            format!("{function} does not accept its arguments")
        }
        _ => "an operation does not support the types of its values".to_owned(),
    }
}

fn to_cel(value: &Value) -> Cel {
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
                map: Arc::new(entries.collect::<HashMap<_, _>>()),
            })
        }
    }
}

/// The size of the data.
#[derive(Default)]
struct Size {
    /// The length of the longest list or map.
    longest: usize,
    /// The length of the longest string, in bytes.
    text: usize,
    /// The number of all values, plus the bytes of all strings and keys.
    total: usize,
}

impl Size {
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

    /// Refuses an expression that could take too much time or memory.
    fn check(&self, expression: &IdedExpr, length: usize) -> Result<(), String> {
        // `split` converts a string to a list.
        let longest = if uses(expression, "split") {
            self.longest.max(self.text)
        } else {
            self.longest
        }
        .max(length);
        let loops = u32::try_from(loop_depth(expression)).unwrap_or(u32::MAX);
        let rounds = longest.max(2).saturating_pow(loops);
        if loops > 1 && rounds.saturating_mul(self.total) > MAX_WORK || rounds > MAX_WORK {
            return Err("nested loops are too much work for this object".to_owned());
        }
        let mut text = self.text.max(length);
        visit(expression, &mut |node| {
            if let Expr::Call(call) = &node.expr
                && call.func_name == "replace"
            {
                let new = match call.args.get(1).map(|arg| &arg.expr) {
                    Some(Expr::Literal(LiteralValue::String(new))) => new.inner().len(),
                    _ => text,
                };
                text = text.saturating_add(1).saturating_mul(new.saturating_add(1));
            }
        });
        if uses(expression, "replace") && text > MAX_TEXT {
            return Err("replacements could produce a string that is too long".to_owned());
        }
        Ok(())
    }
}

fn children(node: &IdedExpr) -> Vec<&IdedExpr> {
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
            .iter()
            .map(AsRef::as_ref)
            .chain(&call.args)
            .collect(),
        Expr::Comprehension(c) => vec![
            &c.iter_range,
            &c.accu_init,
            &c.loop_cond,
            &c.loop_step,
            &c.result,
        ],
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map.entries.iter().flat_map(|e| entry(&e.expr)).collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Struct(fields) => fields.entries.iter().flat_map(|e| entry(&e.expr)).collect(),
    }
}

fn visit(node: &IdedExpr, see: &mut impl FnMut(&IdedExpr)) {
    let mut open = vec![node];
    while let Some(node) = open.pop() {
        see(node);
        open.extend(children(node));
    }
}

fn uses(expression: &IdedExpr, function: &str) -> bool {
    let mut found = false;
    visit(
        expression,
        &mut |node| found |= matches!(&node.expr, Expr::Call(call) if call.func_name == function),
    );
    found
}

/// Returns the depth of nested loops.
fn loop_depth(expression: &IdedExpr) -> usize {
    let mut open = vec![(expression, 0)];
    let mut deepest = 0;
    while let Some((node, above)) = open.pop() {
        let here = above + usize::from(matches!(node.expr, Expr::Comprehension(_)));
        deepest = deepest.max(here);
        open.extend(children(node).into_iter().map(|child| (child, here)));
    }
    deepest
}
