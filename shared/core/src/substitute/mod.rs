//! Flux's post-build substitution: `${VAR}` and its like, as fluxcd/pkg envsubst v1.7 and kustomize v1.35 do it for
//! kustomize-controller v1.9.
//!
//! An object is written as YAML, the text is substituted, and the result is read as YAML again. So `replicas: ${N}` becomes
//! a number, a value with `: ` in it may become a map, and quotes in the value are YAML's quotes: Flux's users know this and
//! rely on it.
//!
//! | written | gives |
//! | --- | --- |
//! | `${A}` | the value; empty when unset (an error when strict) |
//! | `${A:-d}` `${A:=d}` `${A=d}` `${A:+d}` `${A:?d}` | the value, `d` when unset or empty; `d` may hold expansions |
//! | `${#A}` | its length in bytes |
//! | `${A:p}` `${A:p:n}` | `n` bytes from byte `p`; from the end when `p` is negative and not taken for a default (`${A: -1}` is no number: the value stays) |
//! | `${A/x/y}` `//` `/#` `/%` | `x` replaced: the first, every, as a prefix, as a suffix |
//! | `${A#p}` `##` `%` `%%` | without the shortest or longest prefix or suffix that matches the pattern |
//! | `${A^}` `^^` `,` `,,` | first letter or all letters in upper or lower case |
//! | `$${A}` | the text `${A}` |
//!
//! `${A-d}`, `${A+d}` and `${A?d}` without a colon are refused, as Flux refuses them.

mod eval;
mod glob;
mod parse;

use driftless_manifest::yaml::{self, Dialect, Limits};
use driftless_manifest::{Fuel, FuelLimits, InvalidObject, Object, OutOfFuel};
use serde_json::{Number, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The label or annotation that keeps an object from being substituted, when its value is `disabled` (in just this case).
pub const SUBSTITUTE: &str = "kustomize.toolkit.fluxcd.io/substitute";

/// How to substitute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubstituteOptions {
    /// A variable without value and without default is an error (Flux's feature gate `StrictPostBuildSubstitutions`).
    pub strict: bool,
    /// Substitute even when no variable is given, so that defaults take effect (`substituteStrategy: Always`).
    pub always: bool,
    /// The most bytes that one text may become.
    pub max_bytes: usize,
}

impl Default for SubstituteOptions {
    /// Strict, `WithVariables`, 16 MiB.
    fn default() -> Self {
        Self {
            strict: true,
            always: false,
            max_bytes: 16 << 20,
        }
    }
}

/// Steps that one text may cost.
const MAX_STEPS: usize = 20_000_000;

/// What the substitution in all objects of a build may cost: see [`object_within`]. A build gives at most 64 MiB of YAML and
/// 1.5 million values, keys not counted; its values may become others.
pub fn fuel() -> Fuel {
    Fuel::new(FuelLimits {
        steps: 2 * MAX_STEPS,
        bytes: 96 << 20,
        nodes: 4_000_000,
        ..FuelLimits::NONE
    })
}

/// Bytes of an object's text that are written or read in a step.
const BYTES_PER_STEP: usize = 32;

/// Names of variables that are checked in a step.
const NAMES_PER_STEP: usize = 16;

/// What is wrong with a `${…}`. The words are Flux's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    /// Something stands where `}` or an operator is expected.
    #[error("bad substitution")]
    BadSubstitution,
    /// The name is followed by no known operator and no `}`.
    #[error("missing closing brace")]
    MissingClosingBrace,
    /// `${` without a name.
    #[error("unable to parse variable name")]
    VariableName,
    /// An operator without its argument, or a text that ends within one.
    #[error("unable to parse substitution within function")]
    Argument,
    /// `${A:-${B:-…}}` too deep.
    #[error("more than {0} expansions within each other")]
    TooDeep(usize),
}

/// Why a substitution failed. Names variables, never their values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubstituteError {
    /// A variable with a name that no expansion could name.
    #[error(
        "envsubst error: '{0}' var name is invalid, must match '^[_[:alpha:]][_[:alpha:][:digit:]]*$'"
    )]
    Name(String),
    /// An expansion that cannot be read.
    #[error("envsubst error: variable substitution failed: {kind} (line {line} of the text)")]
    Syntax {
        /// What is wrong.
        kind: SyntaxError,
        /// The line of the text, from 1.
        line: usize,
    },
    /// Strict, and no value and no default.
    #[error(
        "envsubst error: variable substitution failed: variable not set (strict mode): {name:?} (line {line} of the text)"
    )]
    NotSet {
        /// The variable.
        name: String,
        /// The line of the text, from 1.
        line: usize,
    },
    /// An expansion whose result cannot be made.
    #[error("envsubst error: variable substitution failed: {message} (line {line} of the text)")]
    Value {
        /// What is wrong.
        message: String,
        /// The line of the text, from 1.
        line: usize,
    },
    /// The objects of a build cost more than their substitution may, all together.
    #[error("the substitution in all objects of this build needs {0}")]
    Fuel(#[from] OutOfFuel),
    /// The substituted text is no YAML; a value with a quote, a colon or a bracket needs quotes around its `${…}`.
    #[error("envsubst error: YAMLToJSON: {0}; check the values for quotes, colons and brackets")]
    Yaml(#[from] yaml::YamlError),
    /// The substituted text is no longer one object with a name and a kind.
    #[error("envsubst error: the substituted text is not a Kubernetes object: {0}")]
    Object(#[from] InvalidObject),
    /// A value brought a second YAML document, or none is left.
    #[error("envsubst error: the substituted text has {0} YAML documents, expected one")]
    Documents(usize),
}

/// Substitutes in one object.
///
/// Line breaks in values are dropped, as Flux drops them. Without variables the object stays as it is, unless
/// `options.always`. An object with [`SUBSTITUTE`] `disabled` as label or annotation stays as it is.
///
/// # Errors
/// As [`text`]; a name that no expansion could name; a text that is no YAML or no object once it is substituted.
pub fn object(
    object: &Object,
    vars: &BTreeMap<String, String>,
    options: SubstituteOptions,
) -> Result<Object, SubstituteError> {
    object_within(object, vars, options, &fuel())
}

/// As [`object`], one of many: a [`fuel`] is there for all of them.
///
/// # Errors
/// As [`object`], and a fuel that has run out.
pub fn object_within(
    object: &Object,
    vars: &BTreeMap<String, String>,
    options: SubstituteOptions,
    fuel: &Fuel,
) -> Result<Object, SubstituteError> {
    if is_disabled(object) || (vars.is_empty() && !options.always) {
        return Ok(object.clone());
    }
    fuel.steps(vars.len() / NAMES_PER_STEP)?;
    check_names(vars.keys())?;
    let written = yaml::to_string(&object.to_value());
    fuel.steps(written.len() / BYTES_PER_STEP)?;
    let scope = eval::Scope {
        vars,
        strict: options.strict,
        one_line: true,
    };
    let substituted = in_text(&written, &scope, options, fuel)?;
    let limits = Limits {
        bytes: options.max_bytes,
        ..Limits::default()
    };
    let name = "the substituted object";
    let read = yaml::documents_within(substituted.as_bytes(), name, Dialect::V2, &limits, fuel);
    let mut documents = read?;
    match (documents.pop(), documents.len()) {
        (Some(mut document), 0) => {
            round_integers(&mut document);
            Ok(Object::new(document)?)
        }
        (last, more) => Err(SubstituteError::Documents(
            more + usize::from(last.is_some()),
        )),
    }
}

/// The variables that an object names and that have neither a value nor a default: what a strict substitution fails for. What
/// cannot be read names none: the substitution says what is wrong.
pub fn unset(object: &Object, vars: &BTreeMap<String, String>) -> BTreeSet<String> {
    let mut unset = BTreeSet::new();
    if !is_disabled(object)
        && let Ok(pieces) = parse::parse(&yaml::to_string(&object.to_value()))
    {
        eval::unset(&pieces, vars, &mut unset);
    }
    unset
}

fn is_disabled(object: &Object) -> bool {
    [object.label(SUBSTITUTE), object.annotation(SUBSTITUTE)].contains(&Some("disabled"))
}

/// Flux reads the result as JSON into Go's `float64`: an integer beyond 2^53 loses its last digits.
fn round_integers(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(round_integers),
        Value::Object(map) => map.values_mut().for_each(round_integers),
        Value::Number(number) => {
            let exact = number.as_i64().is_some_and(|n| n.unsigned_abs() <= 1 << 53);
            if let (false, Some(float)) = (exact || number.is_f64(), number.as_f64()) {
                *value = integral(float)
                    .or_else(|| Number::from_f64(float))
                    .map_or(Value::Null, Value::Number);
            }
        }
        _ => {}
    }
}

/// The number as an integer when 64 bits hold it.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn integral(float: f64) -> Option<Number> {
    const EDGE: f64 = 9_223_372_036_854_775_808.0;
    (float.fract() == 0.0 && (-EDGE..EDGE).contains(&float)).then(|| Number::from(float as i64))
}

/// Substitutes in a text.
///
/// # Errors
/// An expansion that cannot be read, a missing variable when strict, a result beyond the budget.
pub fn text(
    text: &str,
    vars: &BTreeMap<String, String>,
    options: SubstituteOptions,
) -> Result<String, SubstituteError> {
    let scope = eval::Scope {
        vars,
        strict: options.strict,
        one_line: false,
    };
    in_text(text, &scope, options, &fuel())
}

fn in_text(
    text: &str,
    scope: &eval::Scope<'_>,
    options: SubstituteOptions,
    fuel: &Fuel,
) -> Result<String, SubstituteError> {
    let pieces =
        parse::parse(text).map_err(|(kind, line)| SubstituteError::Syntax { kind, line })?;
    let budget = eval::Budget {
        own: Fuel::new(FuelLimits {
            bytes: options.max_bytes,
            steps: MAX_STEPS,
            ..FuelLimits::NONE
        }),
        all: fuel,
    };
    eval::pieces(&pieces, scope, &budget).map_err(|(error, line)| match error {
        eval::EvalError::NotSet(name) => SubstituteError::NotSet { name, line },
        other => SubstituteError::Value {
            message: other.to_string(),
            line,
        },
    })
}

/// Whether a name may be given a value.
///
/// # Errors
/// The first name, in order, that does not fit `^[_[:alpha:]][_[:alpha:][:digit:]]*$`.
pub fn check_names<'n>(names: impl IntoIterator<Item = &'n String>) -> Result<(), SubstituteError> {
    for name in names {
        let bytes = name.as_bytes();
        let fits = bytes
            .iter()
            .all(|b| *b == b'_' || b.is_ascii_alphanumeric())
            && bytes.first().is_some_and(|b| !b.is_ascii_digit());
        if !fits {
            return Err(SubstituteError::Name(name.clone()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    }

    #[test]
    fn an_error_names_the_line_and_the_variable_but_no_value() {
        let vars = vars(&[("TOKEN", "s3cret")]);
        let error = text(
            "a: ${TOKEN}\nb: ${NONE}\n",
            &vars,
            SubstituteOptions::default(),
        )
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "envsubst error: variable substitution failed: variable not set (strict mode): \"NONE\" (line 2 of the text)"
        );
        let error = text("a: ${TOKEN:1:-9}", &vars, SubstituteOptions::default()).unwrap_err();
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }

    #[test]
    fn what_has_neither_a_value_nor_a_default_is_unset() {
        let object = |disabled: &str| {
            let text = "${KNOWN} ${NONE} ${D:-x} ${E:=${INNER}} ${SHORT^^} $${ESCAPED}";
            let value = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "a", "annotations": {SUBSTITUTE: disabled}}, "data": {"a": text}});
            Object::new(value).unwrap()
        };
        let vars = vars(&[("KNOWN", "x")]);
        let unset = |object: &Object| unset(object, &vars).into_iter().collect::<Vec<_>>();
        assert_eq!(unset(&object("enabled")), ["INNER", "NONE", "SHORT"]);
        assert!(unset(&object("disabled")).is_empty());
    }

    /// Each object could spend all that one may.
    #[test]
    fn the_objects_of_a_build_share_their_fuel() {
        let value = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
            "data": {"a": "${A#*b}".repeat(3)}});
        let object = Object::new(value).unwrap();
        let vars = vars(&[("A", &"a".repeat(1_500))]);
        let fuel = fuel();
        let error = (0..1_000)
            .find_map(|_| object_within(&object, &vars, SubstituteOptions::default(), &fuel).err());
        let error = error.unwrap().to_string();
        assert!(error.contains("more work"), "{error}");
    }

    #[test]
    fn hostile_texts_are_bounded() {
        let deep = "${A:-".repeat(100) + &"}".repeat(100);
        let big = "x".repeat(1 << 20);
        let slow = format!("${{A#{}b}}", "*a".repeat(2000));
        let options = SubstituteOptions::default();
        for (name, input, value) in [
            ("nesting", deep.as_str(), ""),
            ("size", "${A}".repeat(100).as_str(), big.as_str()),
            ("replacing", "${A//x/${A}}", big.as_str()),
            ("patterns", slow.as_str(), "a".repeat(100_000).as_str()),
            // What is read over and over, and leaves nothing.
            ("cuts", "${A%*}".repeat(1_000).as_str(), big.as_str()),
            ("holes", "${A//x/}".repeat(1_000).as_str(), big.as_str()),
        ] {
            let vars = vars(&[("A", value)]);
            assert!(text(input, &vars, options).is_err(), "{name}");
        }
    }
}
