//! The CEL expressions of `healthCheckExprs`, of `dependsOn[].readyExpr`, of the filters of a
//! Receiver and of the `commitStatusExpr` of a Provider.

use super::cel::{CelError, Expression};
use super::{Assessment, Health, is_behind};
use driftless_flux::{Invalid, OidcProvider, OidcVariable};
use driftless_fuel::Tank;
use driftless_manifest::{Gvk, Object};
use serde_json::{Map, Value};

/// The reason that an expression was refused or has no result. Contains the expression, but no
/// value of the object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExprError {
    /// The expression is invalid for every object. Flux's reason is `InvalidCELExpression`.
    #[error("{0}")]
    Invalid(String),
    /// The expression has no result for this object, for example because a field does not exist
    /// yet. The health is then [`Health::Unknown`], and a dependency is not ready.
    #[error("{0}")]
    NoResult(String),
}

impl From<CelError> for ExprError {
    fn from(error: CelError) -> Self {
        match error {
            CelError::Parse { .. } => Self::Invalid(error.to_string()),
            CelError::Evaluate { .. } | CelError::NotBoolean { .. } => {
                Self::NoResult(error.to_string())
            }
        }
    }
}

/// One entry of `healthCheckExprs` of the spec.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HealthCheck {
    /// The API group with any version.
    pub api_version: String,
    /// The kind of the objects; empty for every kind of the group.
    pub kind: String,
    /// The expression that is true while the object is in progress.
    pub in_progress: Option<String>,
    /// The expression that is true if the object has failed.
    pub failed: Option<String>,
    /// The expression that is true if the object is as desired.
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
    /// Parses all entries. Evaluations charge the fuel of `step`.
    ///
    /// # Errors
    /// [`ExprError::Invalid`]: `current` is missing, an expression does not parse, or two entries
    /// have the same group and kind.
    pub fn parse(checks: &[HealthCheck], step: &Tank) -> Result<Self, ExprError> {
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
            evaluators.push(evaluator(group, check, step).map_err(|reason| {
                ExprError::Invalid(format!(
                    "failed to create custom status evaluator for healthchecks[{index}]: {reason}"
                ))
            })?);
        }
        Ok(Self(evaluators))
    }

    /// Returns the health of an object by its expressions; `None` if no entry is for its kind or
    /// its group, and for Jobs, for which Flux always uses its built-in rules. An entry for the
    /// kind precedes one for the group.
    ///
    /// # Errors
    /// [`ExprError::NoResult`]: a field does not exist, or the result is not a boolean.
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

fn evaluator(group: String, check: &HealthCheck, step: &Tank) -> Result<Evaluator, Invalid> {
    let parse = |field: &str, text: &str| {
        Expression::parse(text, step)
            .map_err(|error| format!("failed to parse the expression {field}: {error}"))
    };
    let optional = |field: &str, text: &Option<String>| {
        text.as_deref()
            .filter(|text| !text.is_empty())
            .map(|text| parse(field, text))
            .transpose()
    };
    if check.current.is_empty() {
        return Err("expression Current not specified".into());
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
    /// Returns the first of `inProgress`, `failed` and `current` that is true, else in progress.
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
    /// Parses the expression. Evaluations charge the fuel of `step`.
    ///
    /// Flux also checks types beforehand and refuses an expression like `dep.spec.prune`, because
    /// it could have any type; here every expression is accepted that evaluates to true or false.
    ///
    /// # Errors
    /// [`ExprError::Invalid`]: the expression does not parse, or uses a variable other than `self`
    /// and `dep`.
    pub fn parse(text: &str, step: &Tank) -> Result<Self, ExprError> {
        let expression = Expression::parse(text, step)?;
        match expression.unknown_variable(&["self", "dep"]) {
            Some(name) => Err(expression
                .refuse(format!(
                    "undeclared reference to '{name}'; only 'self' and 'dep' are declared"
                ))
                .into()),
            None => Ok(Self(expression)),
        }
    }

    /// Checks whether the dependency is ready. `own` is the object that waits.
    ///
    /// # Errors
    /// [`ExprError::NoResult`]: a field does not exist, or the result is not a boolean.
    pub fn is_ready(&self, own: &Value, dep: &Value) -> Result<bool, ExprError> {
        Ok(self.0.boolean([("self", own), ("dep", dep)].into_iter())?)
    }
}

/// A parsed `resourceFilter`, or `filter` of a resource, of a Receiver.
#[derive(Debug)]
pub struct ResourceFilter(Expression);

impl ResourceFilter {
    /// Parses the expression. Evaluations charge the fuel of `step`. `has_claims` is true if
    /// deliveries have a token, whose claims the expression may use.
    ///
    /// # Errors
    /// [`ExprError::Invalid`]: the expression does not parse, or uses a variable other than `res`,
    /// `req` and `claims`.
    pub fn parse(text: &str, has_claims: bool, step: &Tank) -> Result<Self, ExprError> {
        let expression = Expression::parse(text, step)?;
        let (known, listed): (&[&str], &str) = match has_claims {
            true => (
                &["res", "req", "claims"],
                "only 'res', 'req' and 'claims' are declared",
            ),
            false => (&["res", "req"], "only 'res' and 'req' are declared"),
        };
        match expression.unknown_variable(known) {
            Some(name) => Err(expression
                .refuse(format!("undeclared reference to '{name}'; {listed}"))
                .into()),
            None => Ok(Self(expression)),
        }
    }

    /// Checks whether a delivery is for an object: `resource` has its metadata, `request` is the
    /// body of the delivery, `claims` are those of its token.
    ///
    /// # Errors
    /// [`ExprError::NoResult`]: a field does not exist, or the result is not a boolean.
    pub fn accepts(
        &self,
        resource: &Value,
        request: &Value,
        claims: &Value,
    ) -> Result<bool, ExprError> {
        let variables = [("res", resource), ("req", request), ("claims", claims)];
        Ok(self.0.boolean(variables.into_iter())?)
    }
}

/// A parsed `commitStatusExpr` of a Provider.
#[derive(Debug)]
pub struct CommitStatusExpr(Expression);

impl CommitStatusExpr {
    /// Parses the expression. Evaluations charge the fuel of `step`.
    ///
    /// # Errors
    /// [`ExprError::Invalid`]: the expression does not parse, or uses a variable other than
    /// `event`, `alert` and `provider`.
    pub fn parse(text: &str, step: &Tank) -> Result<Self, ExprError> {
        let expression = Expression::parse(text, step)?;
        match expression.unknown_variable(&["event", "alert", "provider"]) {
            Some(name) => Err(expression
                .refuse(format!(
                    "undeclared reference to '{name}'; only 'event', 'alert' and 'provider' are declared"
                ))
                .into()),
            None => Ok(Self(expression)),
        }
    }

    /// Returns the id of the commit status of an event.
    ///
    /// # Errors
    /// [`ExprError::NoResult`]: a field does not exist, or the result is not a string.
    pub fn evaluate(
        &self,
        event: &Value,
        alert: &Value,
        provider: &Value,
    ) -> Result<String, ExprError> {
        let variables = [("event", event), ("alert", alert), ("provider", provider)];
        match self.0.json(variables.into_iter())? {
            Value::String(id) => Ok(id),
            _ => Err(ExprError::NoResult(
                "failed to evaluate CEL expression as string".to_owned(),
            )),
        }
    }
}

/// The parsed variables and validations of an OIDC provider of a Receiver.
#[derive(Debug)]
pub struct ClaimsCheck {
    variables: Vec<(String, Expression)>,
    validations: Vec<(Expression, String)>,
}

/// Maximum bytes of the variables of a [`ClaimsCheck`].
const MAX_VARIABLES: usize = 256 << 10;

impl ClaimsCheck {
    /// Parses the expressions of a provider. Evaluations charge the fuel of `step`.
    ///
    /// # Errors
    /// [`ExprError::Invalid`]: an expression does not parse, or uses a variable other than `claims`
    /// and `vars`.
    pub fn parse(provider: &OidcProvider, step: &Tank) -> Result<Self, ExprError> {
        let parse = |text: &str, place: String| {
            let parsed = Expression::parse(text, step).and_then(|parsed| {
                match parsed.unknown_variable(&["claims", "vars"]) {
                    Some(name) => Err(parsed.refuse(format!(
                        "undeclared reference to '{name}'; only 'claims' and 'vars' are declared"
                    ))),
                    None => Ok(parsed),
                }
            });
            parsed.map_err(|error| ExprError::Invalid(format!("{place}: {error}")))
        };
        let variables = provider.variables.as_deref().unwrap_or_default();
        let variables = variables.iter().map(|OidcVariable { name, expression }| {
            let place = format!("invalid expression for variable {name:?}");
            Ok((name.clone(), parse(expression, place)?))
        });
        let validations = provider.validations.iter().map(|one| {
            let place = format!("invalid expression for validation {:?}", one.message);
            Ok((parse(&one.expression, place)?, one.message.clone()))
        });
        Ok(Self {
            variables: variables.collect::<Result<_, ExprError>>()?,
            validations: validations.collect::<Result<_, ExprError>>()?,
        })
    }

    /// Evaluates the variables in order, then every validation.
    ///
    /// # Errors
    /// The messages of the validations that are false, or the reason why an expression has no
    /// result. Contains no claim.
    pub fn check(&self, claims: &Value) -> Result<(), Invalid> {
        let mut own = Value::Object(Map::new());
        let mut bytes = 0;
        for (name, expression) in &self.variables {
            let failed = |error: &dyn std::fmt::Display| {
                Invalid::from(format!("failed to evaluate variable {name:?}: {error}"))
            };
            let variables = [("claims", claims), ("vars", &own)];
            let value = expression.json(variables.into_iter());
            let value = value.map_err(|error| failed(&error))?;
            bytes += value.to_string().len();
            if bytes > MAX_VARIABLES {
                return Err(failed(&"the variables are too large"));
            }
            own[name.as_str()] = value;
        }
        let mut failures = Vec::new();
        for (expression, message) in &self.validations {
            let variables = [("claims", claims), ("vars", &own)];
            match expression.boolean(variables.into_iter()) {
                Ok(true) => {}
                Ok(false) => failures.push(message.as_str()),
                Err(error) => return Err(format!("failed to evaluate validation: {error}").into()),
            }
        }
        match failures.is_empty() {
            true => Ok(()),
            false => Err(format!("token validation failed: {}", failures.join("; ")).into()),
        }
    }
}
