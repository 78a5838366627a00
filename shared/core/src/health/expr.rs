//! `healthCheckExprs` and `dependsOn[].readyExpr`.

use super::cel::{CelError, Expression};
use super::{Assessment, Health, is_behind};
use driftless_manifest::{Gvk, Object};
use serde_json::Value;

/// Why an expression was refused or gave no answer. Names the expression, never a value of the object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExprError {
    /// The expression cannot be used, whatever the object. Flux's reason is `InvalidCELExpression`.
    #[error("{0}")]
    Invalid(String),
    /// The expression gives no answer for this object, such as for a field that is not there yet. The health is
    /// [`Health::Unknown`] then, and a dependency is not ready.
    #[error("{0}")]
    NoAnswer(String),
}

impl From<CelError> for ExprError {
    fn from(error: CelError) -> Self {
        match error {
            CelError::Parse { .. } => Self::Invalid(error.to_string()),
            CelError::Evaluate { .. } | CelError::NotBoolean { .. } => {
                Self::NoAnswer(error.to_string())
            }
        }
    }
}

/// One entry of `healthCheckExprs`, as it stands in the spec.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HealthCheck {
    /// The group, with any version.
    pub api_version: String,
    /// The kind; empty for every kind of the group.
    pub kind: String,
    /// True while the object is on the way.
    pub in_progress: Option<String>,
    /// True when it failed.
    pub failed: Option<String>,
    /// True when it is as desired.
    pub current: String,
}

#[derive(Debug)]
struct Evaluator {
    group: String,
    kind: String,
    in_progress: Option<Expression>,
    failed: Option<Expression>,
    current: Expression,
}

/// The parsed `healthCheckExprs` of one Kustomization or HelmRelease.
#[derive(Debug, Default)]
pub struct HealthExprs(Vec<Evaluator>);

impl HealthExprs {
    /// Parses all entries.
    ///
    /// # Errors
    /// [`ExprError::Invalid`]: no `current`, an expression that does not parse, two entries for the same group and kind.
    pub fn parse(checks: &[HealthCheck]) -> Result<Self, ExprError> {
        let mut evaluators: Vec<Evaluator> = Vec::new();
        for (index, check) in checks.iter().enumerate() {
            let group = Gvk::new(&check.api_version, &check.kind).group;
            if evaluators
                .iter()
                .any(|e| e.group == group && e.kind == check.kind)
            {
                let name = if group.is_empty() {
                    check.kind.clone()
                } else {
                    format!("{}.{group}", check.kind)
                };
                return Err(ExprError::Invalid(format!(
                    "duplicate custom health check for GroupKind {name} at healthchecks[{index}]"
                )));
            }
            evaluators.push(evaluator(group, check).map_err(|reason| {
                ExprError::Invalid(format!(
                    "failed to create custom status evaluator for healthchecks[{index}]: {reason}"
                ))
            })?);
        }
        Ok(Self(evaluators))
    }

    /// The health of an object by its expressions; nothing when no entry is about its kind or its group, and for Jobs, which
    /// Flux always judges by itself. An entry for the kind counts before one for the group.
    ///
    /// # Errors
    /// [`ExprError::NoAnswer`]: a field that is not there, an answer that is neither true nor false.
    pub fn assess(&self, object: &Object) -> Option<Result<Assessment, ExprError>> {
        if object.group() == "batch" && object.kind() == "Job" {
            return None;
        }
        let of = |kind: &str| {
            self.0
                .iter()
                .find(|e| e.group == object.group() && e.kind == kind)
        };
        Some(of(object.kind()).or_else(|| of(""))?.assess(object))
    }
}

fn evaluator(group: String, check: &HealthCheck) -> Result<Evaluator, String> {
    let parse = |field: &str, text: &str| {
        Expression::parse(text)
            .map_err(|error| format!("failed to parse the expression {field}: {error}"))
    };
    let optional = |field: &str, text: &Option<String>| {
        text.as_deref()
            .filter(|text| !text.is_empty())
            .map(|text| parse(field, text))
            .transpose()
    };
    if check.current.is_empty() {
        return Err("expression Current not specified".to_owned());
    }
    Ok(Evaluator {
        group,
        kind: check.kind.clone(),
        current: parse("Current", &check.current)?,
        failed: optional("Failed", &check.failed)?,
        in_progress: optional("InProgress", &check.in_progress)?,
    })
}

impl Evaluator {
    /// The first that is true of `inProgress`, `failed`, `current`; else in progress.
    fn assess(&self, object: &Object) -> Result<Assessment, ExprError> {
        if is_behind(object) {
            return Ok(Assessment::new(Health::InProgress, ""));
        }
        let steps = [
            (self.in_progress.as_ref(), Health::InProgress),
            (self.failed.as_ref(), Health::Failed),
            (Some(&self.current), Health::Current),
        ];
        for (expression, health) in steps {
            let Some(expression) = expression else {
                continue;
            };
            if expression.boolean(
                object
                    .as_map()
                    .iter()
                    .map(|(name, value)| (name.as_str(), value)),
            )? {
                return Ok(Assessment::new(health, ""));
            }
        }
        Ok(Assessment::new(Health::InProgress, ""))
    }
}

/// A parsed `dependsOn[].readyExpr`.
#[derive(Debug)]
pub struct ReadyExpr(Expression);

impl ReadyExpr {
    /// Parses the expression.
    ///
    /// Flux also checks types beforehand and refuses an expression like `dep.spec.prune`, because it could be anything; here
    /// what evaluates to true or false is accepted.
    ///
    /// # Errors
    /// [`ExprError::Invalid`]: it does not parse, or names something else than `self` and `dep`.
    pub fn parse(text: &str) -> Result<Self, ExprError> {
        let expression = Expression::parse(text)?;
        match expression.unknown_variable(&["self", "dep"]) {
            Some(name) => Err(expression
                .refuse(format!(
                    "undeclared reference to '{name}'; it has 'self' and 'dep'"
                ))
                .into()),
            None => Ok(Self(expression)),
        }
    }

    /// Whether the dependency is ready. `own` is the object that waits.
    ///
    /// # Errors
    /// [`ExprError::NoAnswer`]: a field that is not there, an answer that is neither true nor false.
    pub fn is_ready(&self, own: &Value, dep: &Value) -> Result<bool, ExprError> {
        Ok(self.0.boolean([("self", own), ("dep", dep)].into_iter())?)
    }
}
