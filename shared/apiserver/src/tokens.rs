//! Tokens of service accounts. They are opaque here; a real cluster signs JSON web tokens.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::body::body_object;
use crate::error::{ApiError, Problem};
use crate::options::Validation;
use crate::registry::{Resource, texts};
use crate::request::{Moment, Response, User};
use crate::server::{Call, Server};
use crate::store::Key;
use crate::virtuals::answered;
use crate::write::text;

const GROUP: &str = "authentication.k8s.io";
/// Whom a token is for when the request does not say.
const AUDIENCE: &str = "https://kubernetes.default.svc";
/// The shortest and the longest life of a token, in seconds.
const LIFE: std::ops::RangeInclusive<i64> = 600..=1 << 32;

/// A token that was given out.
#[derive(Clone, Debug)]
pub(crate) struct Issued {
    namespace: String,
    account: String,
    /// The account's uid: a token does not outlive its account.
    uid: String,
    /// The token's own name.
    id: String,
    audiences: Vec<String>,
    expires: Timestamp,
}

impl Server {
    /// The service account that a token of a TokenRequest stands for; `None` when the token is not known here, has
    /// expired, or its account is gone.
    pub fn authenticate(&self, token: &str, now: Timestamp) -> Option<User> {
        self.issued(token, now).map(|issued| issued.user())
    }

    fn issued(&self, token: &str, now: Timestamp) -> Option<&Issued> {
        let issued = self.tokens.get(token)?;
        let key = (issued.namespace.clone(), issued.account.clone());
        let account = self.store.get(&accounts(), &key)?;
        (issued.expires > now && text(account, "/metadata/uid") == issued.uid).then_some(issued)
    }

    /// `POST serviceaccounts/NAME/token`.
    pub(crate) fn request_token(&mut self, call: &mut Call<'_>) -> Result<Response, ApiError> {
        let live = self.live(call)?;
        let resource = request_resource(&call.target.resource);
        let document = body_object(call, &resource)?.value;
        let mut object =
            self.read_object(&resource, &document, Validation::Warn, &mut call.warnings)?;
        let seconds = object["spec"]["expirationSeconds"].as_i64().unwrap_or(3600);
        check(seconds)?;
        object["spec"]["expirationSeconds"] = seconds.into();
        self.check_bound(&object["spec"]["boundObjectRef"], &call.target.namespace)?;
        let expires = call.moment.now + SignedDuration::from_secs(seconds);
        let metadata = &mut object["metadata"];
        metadata["name"] = call.target.name.clone().into();
        metadata["namespace"] = call.target.namespace.clone().into();
        metadata["uid"] = call.moment.uid().into();
        metadata["creationTimestamp"] = call.moment.stamp().into();
        let mut object = answered(self, call, &resource, object);
        if object["spec"]["audiences"]
            .as_array()
            .is_none_or(Vec::is_empty)
        {
            object["spec"]["audiences"] = json!([AUDIENCE]);
        }
        let issued = Issued {
            namespace: call.target.namespace.clone(),
            account: call.target.name.clone(),
            uid: text(&live, "/metadata/uid").to_owned(),
            id: call.moment.uid(),
            audiences: texts(&object["spec"]["audiences"]),
            expires,
        };
        let token = secret(&mut call.moment);
        object["status"] = json!({
            "token": token, "expirationTimestamp": crate::request::seconds(expires),
        });
        self.tokens
            .retain(|_, known| known.expires > call.moment.now);
        self.tokens.insert(token, issued);
        Ok(Response::json(201, object))
    }

    /// What a token is bound to must be there.
    fn check_bound(&self, bound: &Value, namespace: &str) -> Result<(), ApiError> {
        let kind = match text(bound, "/kind") {
            "" => return Ok(()),
            "Pod" => ("pods", namespace),
            "Secret" => ("secrets", namespace),
            "Node" => ("nodes", ""),
            other => {
                return Err(ApiError::bad_request(format!(
                    "cannot bind token for object of type /v1, Kind={other}"
                )));
            }
        };
        let (plural, namespace) = kind;
        let name = text(bound, "/name");
        let key = (String::new(), plural.to_owned());
        if self
            .store
            .get(&key, &(namespace.to_owned(), name.to_owned()))
            .is_some()
        {
            return Ok(());
        }
        match self.resource("v1", plural) {
            Some(resource) => Err(ApiError::not_found(&resource, name)),
            None => Err(ApiError::no_such_path()),
        }
    }

    /// TokenReview: is it a token of a service account here?
    pub(crate) fn review_token(&self, call: &Call<'_>) -> Result<Response, ApiError> {
        let resource = &call.target.resource;
        let document = body_object(call, resource)?.value;
        let object = self.read_object(resource, &document, Validation::Ignore, &mut Vec::new())?;
        let mut object = answered(self, call, resource, object);
        let token = text(&object, "/spec/token");
        object["status"] = match self.issued(token, call.moment.now) {
            Some(issued) => {
                let user = crate::virtuals::user_info(&issued.user());
                json!({"authenticated": true, "user": user, "audiences": issued.audiences})
            }
            None => json!({"user": {}, "error": "invalid bearer token"}),
        };
        crate::table::Form::of(call).object(resource, 201, object)
    }
}

impl Issued {
    fn user(&self) -> User {
        let credential = "authentication.kubernetes.io/credential-id".to_owned();
        User {
            name: format!("system:serviceaccount:{}:{}", self.namespace, self.account),
            uid: self.uid.clone(),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{}", self.namespace),
                "system:authenticated".to_owned(),
            ],
            extra: vec![(credential, vec![format!("JTI={}", self.id)])],
        }
    }
}

fn accounts() -> Key {
    (String::new(), "serviceaccounts".to_owned())
}

fn check(seconds: i64) -> Result<(), ApiError> {
    if LIFE.contains(&seconds) {
        return Ok(());
    }
    let why = if seconds < *LIFE.start() {
        "may not specify a duration less than 10 minutes"
    } else {
        "may not specify a duration larger than 2^32 seconds"
    };
    let problem = Problem::invalid("spec.expirationSeconds", &seconds.into(), why);
    Err(ApiError::invalid(GROUP, "TokenRequest", "", &[problem]))
}

fn secret(moment: &mut Moment) -> String {
    (0..4).map(|_| format!("{:016x}", moment.next())).collect()
}

/// The type of the subresource's body.
fn request_resource(accounts: &Resource) -> Resource {
    let (version, kind) = ("v1", "TokenRequest");
    let api_version = crate::registry::join(GROUP, version);
    let id = accounts.schema.kinds.get(&format!("{api_version}/{kind}"));
    Resource {
        group: GROUP.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        plural: "tokenrequests".to_owned(),
        id: id.copied().unwrap_or(crate::schema::DEDUCED),
        api_version,
        ..accounts.clone()
    }
}
