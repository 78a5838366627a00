//! Flux's post-build substitution: `${VAR}` and similar expansions, as fluxcd/pkg envsubst v1.7 and
//! kustomize v1.35 evaluate them for kustomize-controller v1.9.
//!
//! An object is rendered as YAML, the expansions in it are replaced, and the result is parsed as
//! YAML again. So `replicas: ${N}` becomes a number, a value with `: ` in it may become a map, and
//! quotes in the value are YAML's quotes: Flux's users know this and rely on it.
//!
//! | expansion | result |
//! | --- | --- |
//! | `${A}` | the value; empty when unset (an error when strict) |
//! | `${A:-d}` `${A:=d}` `${A=d}` `${A:+d}` `${A:?d}` | the value, `d` when unset or empty; `d` may hold expansions |
//! | `${#A}` | its length in bytes |
//! | `${A:p}` `${A:p:n}` | `n` bytes from byte `p`; from the end if `p` is negative and does not parse as a default (in `${A: -1}`, ` -1` is not a number, so the value stays) |
//! | `${A/x/y}` `//` `/#` `/%` | `x` replaced: the first, every, as a prefix, as a suffix |
//! | `${A#p}` `##` `%` `%%` | without the shortest or longest prefix or suffix that matches the pattern |
//! | `${A^}` `^^` `,` `,,` | first letter or all letters in upper or lower case |
//! | `$${A}` | the literal `${A}` |
//!
//! `${A-d}`, `${A+d}` and `${A?d}` without a colon are refused, as Flux refuses them.

mod budget;
mod eval;
mod glob;
mod parse;

use driftless_fuel::{Fuel, FuelLimits, OutOfFuel, Tank};
use driftless_manifest::yaml::{self, Dialect, Limits};
use driftless_manifest::{InvalidObject, Object};
use serde_json::{Number, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The label or annotation that disables the substitution in an object if its value is `disabled`
/// (case-sensitive).
pub const SUBSTITUTE: &str = "kustomize.toolkit.fluxcd.io/substitute";

/// The options of a substitution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubstituteOptions {
    /// True if a variable without a value and a default is an error (Flux's feature gate
    /// `StrictPostBuildSubstitutions`).
    pub strict: bool,
    /// True to substitute even if no variable is given, so that defaults take effect
    /// (`substituteStrategy: Always`).
    pub always: bool,
    /// The maximum size of one result, in bytes.
    pub max_bytes: usize,
}

impl Default for SubstituteOptions {
    /// Returns the options strict, `WithVariables` and 16 MiB.
    fn default() -> Self {
        Self {
            strict: true,
            always: false,
            max_bytes: 16 << 20,
        }
    }
}

/// Maximum number of steps for one string.
const MAX_STEPS: usize = 20_000_000;

/// Returns the fuel for the substitution in all objects of a build: see [`object_within`]. A build
/// has at most 64 MiB of YAML and 1.5 million values, without keys; a substitution may change their
/// number and size.
pub fn fuel(step: &Tank) -> Fuel {
    step.part(FuelLimits {
        steps: 2 * MAX_STEPS,
        bytes: 96 << 20,
        nodes: 4_000_000,
        ..FuelLimits::NONE
    })
}

/// Bytes of an object's YAML that are rendered or parsed per step.
const BYTES_PER_STEP: usize = 32;

/// Names of variables that are checked per step.
const NAMES_PER_STEP: usize = 16;

/// A syntax error of a `${…}`. The messages are Flux's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    /// `}` or an operator is expected, but another character follows.
    #[error("bad substitution")]
    BadSubstitution,
    /// After the name, a known operator or `}` is missing.
    #[error("missing closing brace")]
    MissingClosingBrace,
    /// `${` without a name.
    #[error("unable to parse variable name")]
    VariableName,
    /// The argument of an operator is missing or incomplete.
    #[error("unable to parse substitution within function")]
    Argument,
    /// `${A:-${B:-…}}` is nested too deeply.
    #[error("more than {0} nested expansions")]
    TooDeep(usize),
}

/// The reason that a substitution failed. Contains the names of variables, but not their values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubstituteError {
    /// The name of a variable is not valid, so that no expansion can use it.
    #[error(
        "envsubst error: '{0}' var name is invalid, must match '^[_[:alpha:]][_[:alpha:][:digit:]]*$'"
    )]
    Name(String),
    /// The syntax of an expansion is not valid.
    #[error("envsubst error: variable substitution failed: {kind} (line {line} of the YAML)")]
    Syntax {
        /// The syntax error.
        kind: SyntaxError,
        /// The line of the YAML, from 1.
        line: usize,
    },
    /// The substitution is strict, and the variable has no value and no default.
    #[error(
        "envsubst error: variable substitution failed: variable not set (strict mode): {name:?} (line {line} of the YAML)"
    )]
    NotSet {
        /// The name of the variable.
        name: String,
        /// The line of the YAML, from 1.
        line: usize,
    },
    /// The evaluation of an expansion failed.
    #[error("envsubst error: variable substitution failed: {message} (line {line} of the YAML)")]
    Value {
        /// The error of the evaluation.
        message: String,
        /// The line of the YAML, from 1.
        line: usize,
    },
    /// The substitution in all objects of a build exceeds its fuel.
    #[error("the substitution in all objects of this build needs {0}")]
    Fuel(#[from] OutOfFuel),
    /// The result is not valid YAML; a value with a quote, a colon or a bracket needs quotes around
    /// its `${…}`.
    #[error("envsubst error: YAMLToJSON: {0}; check the values for quotes, colons and brackets")]
    Yaml(#[source] yaml::YamlError),
    /// The result is no longer one object with a name and a kind.
    #[error("envsubst error: the substituted YAML is not a Kubernetes object: {0}")]
    Object(#[from] InvalidObject),
    /// A value added a second YAML document, or the only document is gone.
    #[error("envsubst error: the substituted YAML has {0} documents, expected one")]
    Documents(usize),
}

impl From<yaml::YamlError> for SubstituteError {
    fn from(error: yaml::YamlError) -> Self {
        match error.kind {
            // The fuel of the build has run out: the YAML may be valid.
            yaml::YamlErrorKind::Fuel(out) => out.into(),
            _ => Self::Yaml(error),
        }
    }
}

/// Substitutes in one object.
///
/// Line breaks in values are removed, as in Flux. Without variables the object stays unchanged,
/// unless `options.always` is set. An object with [`SUBSTITUTE`] `disabled` as label or annotation
/// stays unchanged.
///
/// # Errors
/// Those of [`text`]; the name of a variable is not valid; the result is not valid YAML or not an
/// object.
pub fn object(
    object: &Object,
    vars: &BTreeMap<String, String>,
    options: SubstituteOptions,
) -> Result<Object, SubstituteError> {
    object_within(object, vars, options, &fuel(&Tank::default()))
}

/// Substitutes like [`object`] in one of many objects that share a [`fuel`].
///
/// # Errors
/// Those of [`object`]; the fuel has run out.
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

/// Returns the variables that an object names and that have no value and no default, for which a
/// strict substitution fails. Returns none for invalid syntax: the substitution reports it.
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

/// Converts the number to an integer if 64 bits hold it.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn integral(float: f64) -> Option<Number> {
    const EDGE: f64 = 9_223_372_036_854_775_808.0;
    (float.fract() == 0.0 && (-EDGE..EDGE).contains(&float)).then(|| Number::from(float as i64))
}

/// Substitutes in a string.
///
/// # Errors
/// The syntax of an expansion is not valid, a variable is missing in strict mode, or the result
/// exceeds the budget.
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
    in_text(text, &scope, options, &fuel(&Tank::default()))
}

fn in_text(
    text: &str,
    scope: &eval::Scope<'_>,
    options: SubstituteOptions,
    fuel: &Fuel,
) -> Result<String, SubstituteError> {
    let pieces =
        parse::parse(text).map_err(|(kind, line)| SubstituteError::Syntax { kind, line })?;
    let budget = budget::Budget {
        own: Fuel::new(FuelLimits {
            bytes: options.max_bytes,
            steps: MAX_STEPS,
            ..FuelLimits::NONE
        }),
        all: fuel,
    };
    eval::pieces(&pieces, scope, &budget).map_err(|(error, line)| match error {
        budget::EvalError::NotSet(name) => SubstituteError::NotSet { name, line },
        other => SubstituteError::Value {
            message: other.to_string(),
            line,
        },
    })
}

/// Checks whether variables may have these names.
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
            "envsubst error: variable substitution failed: variable not set (strict mode): \"NONE\" (line 2 of the YAML)"
        );
        let error = text("a: ${TOKEN:1:-9}", &vars, SubstituteOptions::default()).unwrap_err();
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }

    #[test]
    fn variables_without_value_and_default_are_unset() {
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

    /// The objects share one fuel: the limit of one object must not apply to each of many.
    #[test]
    fn the_objects_of_a_build_share_their_fuel() {
        let value = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
            "data": {"a": "${A#*b}".repeat(3)}});
        let object = Object::new(value).unwrap();
        let vars = vars(&[("A", &"a".repeat(1_500))]);
        let fuel = fuel(&Tank::default());
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
            // The value is read for each expansion, and the result is empty.
            ("cuts", "${A%*}".repeat(1_000).as_str(), big.as_str()),
            ("holes", "${A//x/}".repeat(1_000).as_str(), big.as_str()),
        ] {
            let vars = vars(&[("A", value)]);
            assert!(text(input, &vars, options).is_err(), "{name}");
        }
    }
}
