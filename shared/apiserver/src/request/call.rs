//! An authorized request with everything that its handler needs.

use std::cell::RefCell;

use serde_json::Value;

use crate::authorization::escalation;
use crate::error::ApiError;
use crate::objects::table::Representation;
use crate::registry::{Admission, Write};
use crate::request::message::{Request, Response};
use crate::request::query::Query;
use crate::request::target::Target;
use crate::resources::Resource;
use crate::store::state::State;
use crate::user::User;
use crate::values::clock::Clock;
use crate::values::text;
use crate::{admission, objects, registry};

/// An authorized request for a resource that exists.
pub(crate) struct Call<'a> {
    pub request: &'a Request,
    pub query: Query,
    pub target: Target,
    pub clock: Clock,
    /// Warnings for the answer.
    pub warnings: Vec<String>,
    /// The user of the request, after impersonation.
    pub user: User,
}

impl Call<'_> {
    /// Returns the form that the client accepts.
    pub(crate) fn form(&self) -> Representation {
        let accept = self.request.header("accept");
        Representation::of(accept, self.query.get("includeObject"), self.clock.now)
    }

    /// Returns an answer with one object.
    ///
    /// # Errors
    /// 406 for a form that this server does not write.
    pub(crate) fn object(
        &self,
        resource: &Resource,
        status: u16,
        object: Value,
    ) -> Result<Response, ApiError> {
        let body = self.form().object(resource, object)?;
        Ok(Response::json(status, body))
    }

    /// Returns an answer with a list.
    ///
    /// # Errors
    /// 406 for a form that this server does not write.
    pub(crate) fn list(
        &self,
        resource: &Resource,
        metadata: Value,
        items: Vec<Value>,
    ) -> Result<Response, ApiError> {
        let body = self.form().list(resource, metadata, items)?;
        Ok(Response::json(200, body))
    }

    /// Returns the object that the request names, in the version of the request.
    ///
    /// # Errors
    /// 404 if the object does not exist.
    pub(crate) fn live(&self, state: &State) -> Result<Value, ApiError> {
        let target = &self.target;
        let live = state
            .store
            .get(&target.resource.key(), &target.key())
            .ok_or_else(|| ApiError::not_found(&target.resource, &target.name))?;
        Ok(objects::in_version(&target.resource, live))
    }

    /// Stores a new object: see [`registry::create`].
    ///
    /// # Errors
    /// A refusal by admission, RBAC or the kind's own rules.
    pub(crate) fn store_new(
        &mut self,
        state: &mut State,
        resource: &Resource,
        object: Value,
        dry_run: bool,
    ) -> Result<Value, ApiError> {
        self.store(resource, dry_run, |write, _| {
            registry::create(state, write, object)
        })
    }

    /// Stores a changed object: see [`registry::change`].
    ///
    /// # Errors
    /// A refusal by RBAC or the kind's own rules, and a conflict.
    pub(crate) fn store_changed(
        &mut self,
        state: &mut State,
        resource: &Resource,
        live: &Value,
        new: Value,
        dry_run: bool,
    ) -> Result<Value, ApiError> {
        self.store(resource, dry_run, |write, name| {
            registry::change(state, write, name, live, new)
        })
    }

    /// Stores what `store` makes, for the user and the name of the request.
    fn store(
        &mut self,
        resource: &Resource,
        dry_run: bool,
        store: impl FnOnce(&mut Write<'_>, &str) -> Result<Value, ApiError>,
    ) -> Result<Value, ApiError> {
        let guards = Guards::new(&self.user);
        let mut write = Write {
            resource,
            namespace: &self.target.namespace,
            subresource: self.target.sub(),
            clock: &mut self.clock,
            dry_run,
            admit: &guards,
        };
        let stored = store(&mut write, &self.target.name);
        self.warnings.append(&mut guards.warnings.into_inner());
        stored
    }
}

/// The admission and the check of privilege escalation, for one user.
struct Guards<'a> {
    user: &'a User,
    /// Warnings of admission for the answer.
    warnings: RefCell<Vec<String>>,
}

impl<'a> Guards<'a> {
    fn new(user: &'a User) -> Self {
        Self {
            user,
            warnings: RefCell::default(),
        }
    }

    /// Returns the request that admission policies see.
    fn request<'r>(
        &'r self,
        write: &'r Write<'_>,
        name: &'r str,
        object: Option<&'r Value>,
        old: Option<&'r Value>,
    ) -> admission::Request<'r> {
        admission::Request {
            user: self.user,
            resource: write.resource,
            subresource: write.subresource,
            namespace: write.namespace,
            name,
            operation: if old.is_some() { "UPDATE" } else { "CREATE" },
            object,
            old,
            dry_run: write.dry_run,
        }
    }
}

impl Admission for Guards<'_> {
    fn create(
        &self,
        state: &State,
        write: &Write<'_>,
        name: &str,
        object: &mut Value,
    ) -> Result<(), ApiError> {
        admission::create(state, write.resource, write.namespace, name, object)?;
        admission::mutate(state, &self.request(write, name, None, None), object)
    }

    fn update(
        &self,
        state: &State,
        write: &Write<'_>,
        live: &Value,
        object: &mut Value,
    ) -> Result<(), ApiError> {
        let name = text(live, "/metadata/name");
        admission::mutate(state, &self.request(write, name, None, Some(live)), object)
    }

    fn validate(
        &self,
        state: &State,
        write: &Write<'_>,
        object: &Value,
        live: Option<&Value>,
    ) -> Result<(), ApiError> {
        let name = text(object, "/metadata/name");
        let request = self.request(write, name, Some(object), live);
        admission::validate(state, &request, &mut self.warnings.borrow_mut())
    }

    fn check_grants(
        &self,
        state: &State,
        resource: &Resource,
        object: &Value,
        live: Option<&Value>,
    ) -> Result<(), ApiError> {
        escalation::check(state, self.user, resource, object, live)
    }
}
