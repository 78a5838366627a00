//! The expressions of one policy, over one request and one parameter.

use driftless_go::Error as GoError;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use ::cel::common::types::{CelMap, Type};
use ::cel::common::value::{CowVal, Val};
use ::cel::objects::{Key, Map};
use ::cel::{Env, ExecutionError, StructType, Value as Cel};
use driftless_cel::{Data, Size};
use driftless_fuel::Tank;
use serde_json::{Value, json};

use super::authorizer::{self, AccessRequest, Authorizer};
use super::policies::{Matched, Request, namespace, to_version};
use crate::expressions::{Expression, Failure, OUT_OF_BUDGET, check_fuel, library};
use crate::registry::policy::POLICY_VARIABLES;
use crate::store::state::State;
use crate::values::text;

/// The number of compiled expressions that are kept for later requests.
const MAX_COMPILED: usize = 1024;

type Compiled = Arc<Result<Expression, GoError>>;

/// Compiled expressions, which all servers share: the same policies are evaluated for every write.
static COMPILED: LazyLock<Mutex<HashMap<String, Compiled>>> = LazyLock::new(Mutex::default);

static ENVIRONMENT: LazyLock<Result<Arc<Env>, GoError>> =
    LazyLock::new(|| environment(&BTreeSet::new()).map(Arc::new));

fn compiled(text: &str) -> Compiled {
    let mut kept = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = kept.get(text) {
        return Arc::clone(found);
    }
    let made = Arc::new(Expression::compile(text, &POLICY_VARIABLES));
    if kept.len() >= MAX_COMPILED {
        kept.clear();
    }
    kept.insert(text.to_owned(), Arc::clone(&made));
    made
}

/// Returns the language with the authorizer, and the types of the objects that an expression makes.
fn environment(types: &BTreeSet<String>) -> Result<Env, GoError> {
    let mut env = library::environment()?;
    authorizer::declare(&mut env).map_err(|error| error.to_string())?;
    for name in types {
        let made = ObjectType(Type::new_struct(name.clone()));
        env.add_type(made).map_err(|error| error.to_string())?;
    }
    Ok(env)
}

/// A type whose objects are maps of their fields.
struct ObjectType(Type);

impl StructType for ObjectType {
    fn get_type(&self) -> &Type {
        &self.0
    }

    fn new_value<'b, 'v>(
        &self,
        fields: BTreeMap<String, CowVal<'b, 'v>>,
    ) -> Result<Box<dyn Val + 'v>, ExecutionError> {
        let fields = fields
            .into_iter()
            .map(|(name, value)| (name.into(), value.into_owned()));
        Ok(Box::new(CelMap::from(fields.collect::<HashMap<_, _>>())))
    }
}

/// The expressions of one policy, over one request and one parameter.
pub(super) struct Evaluation<'a> {
    state: &'a State,
    request: &'a Request<'a>,
    policy: &'a Value,
    matched: &'a Matched,
    values: BTreeMap<&'static str, Value>,
    variables: OnceCell<Variables>,
    fuel: Tank,
}

/// The values of a policy's variables, and the errors of the others.
#[derive(Default)]
struct Variables {
    values: HashMap<Key, Cel>,
    failed: BTreeMap<String, Failure>,
    size: Size,
}

impl<'a> Evaluation<'a> {
    pub(super) fn new(
        state: &'a State,
        request: &'a Request<'a>,
        matched: &'a Matched,
        param: Option<&Value>,
    ) -> Self {
        let resource = &matched.resource;
        let object = |object: Option<&Value>| {
            object.map_or(Value::Null, |object| to_version(request, resource, object))
        };
        let own = if request.is_namespace() {
            ""
        } else {
            request.namespace
        };
        let values = BTreeMap::from([
            ("object", object(request.object)),
            ("oldObject", object(request.old)),
            ("request", review(request, matched)),
            ("params", param.cloned().unwrap_or(Value::Null)),
            (
                "namespaceObject",
                namespace(state, own).cloned().unwrap_or(Value::Null),
            ),
        ]);
        Self {
            state,
            request,
            policy: &matched.policy,
            matched,
            values,
            variables: OnceCell::new(),
            fuel: check_fuel(),
        }
    }

    /// Returns the value of an expression.
    ///
    /// # Errors
    /// The real server's message.
    pub(super) fn value(&self, text: &str) -> Result<Cel, GoError> {
        let expression = compiled(text);
        let expression = match expression.as_ref() {
            Ok(expression) => expression,
            Err(detail) => return Err(format!("compilation error: {detail}").into()),
        };
        let variables = if expression.variables.is_empty() {
            None
        } else {
            Some(self.variables.get_or_init(|| self.variables()))
        };
        self.run(expression, variables)
            .map_err(|failure| match failure {
                Failure::Budget => OUT_OF_BUDGET.to_owned(),
                Failure::Evaluation(detail) => {
                    format!("expression '{text}' resulted in error: {detail}")
                }
            })
            .map_err(Into::into)
    }

    /// Evaluates the variables in their order; a later one may read the earlier ones.
    fn variables(&self) -> Variables {
        let mut found = Variables::default();
        let declared = self.policy["spec"]["variables"].as_array();
        for variable in declared.into_iter().flatten() {
            let name = text(variable, "/name").to_owned();
            let value = match compiled(text(variable, "/expression")).as_ref() {
                Ok(expression) => self.run(expression, Some(&found)),
                Err(detail) => Err(Failure::Evaluation(detail.clone().into())),
            };
            let value = value.and_then(|value| {
                found.size.grow(&value)?;
                Ok(value)
            });
            match value {
                Ok(value) => {
                    found.values.insert(Key::String(Arc::new(name)), value);
                }
                Err(failure) => {
                    found.failed.insert(name, failure);
                }
            }
        }
        found
    }

    fn run(&self, expression: &Expression, variables: Option<&Variables>) -> Result<Cel, Failure> {
        let env = if expression.types.is_empty() {
            ENVIRONMENT.clone()
        } else {
            environment(&expression.types).map(Arc::new)
        };
        let mut data = Data::new(
            env.map_err(|error| Failure::Evaluation(error.into()))?,
            &self.fuel,
        );
        let read = self
            .values
            .iter()
            .filter(|(name, _)| expression.reads(name));
        for (name, value) in read {
            data.add(name, value);
        }
        if expression.reads("authorizer") {
            let question = AccessRequest::new(Arc::new(self.state.clone()), self.request.user);
            let own = question.clone().about(self.request);
            data.add_own("authorizer", Box::new(Authorizer(question)));
            data.add_own("authorizer.requestResource", Box::new(own));
        }
        if let Some(variables) = variables {
            let map = Map {
                map: Arc::new(variables.values.clone()),
            };
            data.add_result("variables", Cel::Map(map))?;
        }
        expression.evaluate(&data).map_err(|failure| {
            let failed = variables.and_then(|known| {
                let mut used = expression.variables.iter();
                used.find_map(|name| Some((name, known.failed.get(name)?)))
            });
            match failed {
                Some((_, Failure::Budget)) => Failure::Budget,
                Some((name, Failure::Evaluation(detail))) => Failure::Evaluation(format!(
                    "composited variable {name:?} fails to evaluate: {detail}"
                )),
                None => failure,
            }
        })
    }

    /// Returns whether all match conditions hold. `Ok(false)` if one does not, even if others fail.
    ///
    /// # Errors
    /// The messages of conditions that have no value.
    pub(super) fn conditions(&self) -> Result<bool, GoError> {
        let mut problems = Vec::new();
        for condition in self.policy["spec"]["matchConditions"]
            .as_array()
            .into_iter()
            .flatten()
        {
            match self.value(text(condition, "/expression")) {
                Ok(Cel::Bool(false)) => return Ok(false),
                Ok(_) => {}
                Err(detail) => problems.push(detail),
            }
        }
        match problems.as_slice() {
            [] => Ok(true),
            [one] => Err(one.clone()),
            many => {
                let texts: Vec<&str> = many.iter().map(GoError::as_str).collect();
                Err(format!("[{}]", texts.join(", ")).into())
            }
        }
    }

    /// Returns whether the policy admits a request whose evaluation fails
    /// (`failurePolicy: Ignore`).
    pub(super) fn ignores_failures(&self) -> bool {
        ignores_failures(&self.matched.policy)
    }
}

/// Returns whether a policy admits a request whose evaluation fails (`failurePolicy: Ignore`).
pub(super) fn ignores_failures(policy: &Value) -> bool {
    policy["spec"]["failurePolicy"] == "Ignore"
}

/// Returns the variable `request`: an AdmissionRequest without its objects.
fn review(request: &Request<'_>, matched: &Matched) -> Value {
    let kind = |of: &crate::resources::Resource| json!({"group": of.group, "version": of.version, "kind": of.kind});
    let resource = |of: &crate::resources::Resource| json!({"group": of.group, "version": of.version, "resource": of.plural});
    let user = request.user;
    let extra: serde_json::Map<String, Value> = user
        .extra
        .iter()
        .map(|(key, values)| (key.clone(), json!(values)))
        .collect();
    let options = match request.operation {
        "CREATE" => "CreateOptions",
        "UPDATE" => "UpdateOptions",
        _ => "DeleteOptions",
    };
    json!({
        "kind": kind(&matched.resource),
        "resource": resource(&matched.resource),
        "subResource": request.subresource,
        "requestKind": kind(request.resource),
        "requestResource": resource(request.resource),
        "requestSubResource": request.subresource,
        "name": request.name,
        "namespace": request.namespace(),
        "operation": request.operation,
        "userInfo": {
            "username": user.name, "uid": user.uid, "groups": user.groups, "extra": extra,
        },
        "dryRun": request.dry_run,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": options},
    })
}
