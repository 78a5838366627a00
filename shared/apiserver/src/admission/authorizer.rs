//! The variable `authorizer` of expressions: questions to the server's own RBAC.

use std::sync::Arc;

use ::cel::common::types::{STRING_TYPE, Type};
use ::cel::common::value::CowVal;
use ::cel::{DeclarationError, Env};
use driftless_cel::arguments::text;
use driftless_cel::functions::{string, truth};

use crate::authorization::{Attributes, decide};
use crate::expressions::own_type::{own, own_type};
use crate::store::state::State;
use crate::user::User;

static AUTHORIZER: Type = Type::new_unspecified_type("kubernetes.authorization.Authorizer");
static PATH: Type = Type::new_unspecified_type("kubernetes.authorization.PathCheck");
static GROUP: Type = Type::new_unspecified_type("kubernetes.authorization.GroupCheck");
static RESOURCE: Type = Type::new_unspecified_type("kubernetes.authorization.ResourceCheck");
static DECISION: Type = Type::new_unspecified_type("kubernetes.authorization.Decision");

/// The attributes of a question, as the calls of an expression have set them.
#[derive(Clone, Debug)]
pub(super) struct AccessRequest {
    state: Arc<State>,
    user: User,
    path: Option<String>,
    group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

impl AccessRequest {
    pub(super) fn new(state: Arc<State>, user: &User) -> Self {
        Self {
            state,
            user: user.clone(),
            path: None,
            group: String::new(),
            resource: String::new(),
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
        }
    }

    /// Asks about the object of a request.
    pub(super) fn about(mut self, request: &super::policies::Request<'_>) -> ResourceCheck {
        self.group.clone_from(&request.resource.group);
        self.resource.clone_from(&request.resource.plural);
        self.subresource = request.subresource.to_owned();
        self.namespace = request.namespace().to_owned();
        self.name = request.name.to_owned();
        ResourceCheck(self)
    }

    fn decide(&self, verb: &str) -> Decision {
        let decision = decide(
            &self.state,
            &self.user,
            &Attributes {
                verb,
                group: &self.group,
                resource: &self.resource,
                subresource: &self.subresource,
                namespace: &self.namespace,
                name: &self.name,
                path: self.path.as_deref(),
            },
        );
        Decision {
            allowed: decision.allowed,
            reason: decision.reason,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Authorizer(pub AccessRequest);
#[derive(Clone, Debug)]
struct PathCheck(AccessRequest);
#[derive(Clone, Debug)]
struct GroupCheck(AccessRequest);
#[derive(Clone, Debug)]
pub(super) struct ResourceCheck(AccessRequest);
#[derive(Clone, Debug)]
struct Decision {
    allowed: bool,
    reason: String,
}

own_type!(Authorizer, AUTHORIZER);
own_type!(PathCheck, PATH);
own_type!(GroupCheck, GROUP);
own_type!(ResourceCheck, RESOURCE);
own_type!(Decision, DECISION);

/// Declares the functions of the authorizer.
///
/// # Errors
/// A function that is declared already.
pub(super) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_member_overload(
        "path",
        "authorizer_path",
        AUTHORIZER.to_owned(),
        vec![STRING_TYPE],
        |args| {
            let mut question = own::<Authorizer>(&args, 0)?.0.clone();
            question.path = Some(text(&args, 1)?.to_owned());
            Ok(CowVal::owned(PathCheck(question)))
        },
    )?;
    env.add_member_overload(
        "group",
        "authorizer_group",
        AUTHORIZER.to_owned(),
        vec![STRING_TYPE],
        |args| {
            let mut question = own::<Authorizer>(&args, 0)?.0.clone();
            question.group = text(&args, 1)?.to_owned();
            Ok(CowVal::owned(GroupCheck(question)))
        },
    )?;
    env.add_member_overload(
        "serviceAccount",
        "authorizer_serviceaccount",
        AUTHORIZER.to_owned(),
        vec![STRING_TYPE, STRING_TYPE],
        |args| {
            let mut question = own::<Authorizer>(&args, 0)?.0.clone();
            let (namespace, name) = (text(&args, 1)?, text(&args, 2)?);
            question.user = User {
                name: format!("system:serviceaccount:{namespace}:{name}"),
                groups: vec![
                    "system:serviceaccounts".to_owned(),
                    format!("system:serviceaccounts:{namespace}"),
                    "system:authenticated".to_owned(),
                ],
                ..User::default()
            };
            Ok(CowVal::owned(Authorizer(question)))
        },
    )?;
    env.add_member_overload(
        "resource",
        "groupcheck_resource",
        GROUP.to_owned(),
        vec![STRING_TYPE],
        |args| {
            let mut question = own::<GroupCheck>(&args, 0)?.0.clone();
            question.resource = text(&args, 1)?.to_owned();
            Ok(CowVal::owned(ResourceCheck(question)))
        },
    )?;
    let member = |env: &mut Env, name: &str, op| {
        env.add_member_overload(
            name,
            &format!("resourcecheck_{name}"),
            RESOURCE.to_owned(),
            vec![STRING_TYPE],
            op,
        )
    };
    member(env, "subresource", |args| {
        let mut question = own::<ResourceCheck>(&args, 0)?.0.clone();
        question.subresource = text(&args, 1)?.to_owned();
        Ok(CowVal::owned(ResourceCheck(question)))
    })?;
    member(env, "namespace", |args| {
        let mut question = own::<ResourceCheck>(&args, 0)?.0.clone();
        question.namespace = text(&args, 1)?.to_owned();
        Ok(CowVal::owned(ResourceCheck(question)))
    })?;
    member(env, "name", |args| {
        let mut question = own::<ResourceCheck>(&args, 0)?.0.clone();
        question.name = text(&args, 1)?.to_owned();
        Ok(CowVal::owned(ResourceCheck(question)))
    })?;
    member(env, "check", |args| {
        let verb = text(&args, 1)?;
        Ok(CowVal::owned(
            own::<ResourceCheck>(&args, 0)?.0.decide(verb),
        ))
    })?;
    env.add_member_overload(
        "check",
        "pathcheck_check",
        PATH.to_owned(),
        vec![STRING_TYPE],
        |args| {
            let verb = text(&args, 1)?;
            Ok(CowVal::owned(own::<PathCheck>(&args, 0)?.0.decide(verb)))
        },
    )?;
    let decision = |env: &mut Env, name: &str, op| {
        env.add_member_overload(
            name,
            &format!("decision_{name}"),
            DECISION.to_owned(),
            vec![],
            op,
        )
    };
    decision(env, "allowed", |args| {
        Ok(truth(own::<Decision>(&args, 0)?.allowed))
    })?;
    decision(env, "reason", |args| {
        Ok(string(own::<Decision>(&args, 0)?.reason.clone()))
    })?;
    // RBAC in this server always decides.
    decision(env, "errored", |_| Ok(truth(false)))?;
    decision(env, "error", |_| Ok(string(String::new())))
}
