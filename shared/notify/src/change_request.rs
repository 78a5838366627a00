//! Comments on pull requests and merge requests: one for each object and Provider, which is edited
//! while the first page has it.

use crate::Failure;
use crate::body::CHANGE_REQUEST;
use crate::notification::Notification;
use crate::rest::Rest;
use http::Method;
use serde_json::{Value, json};

/// The comment that an event becomes.
pub(crate) struct Comment {
    /// The number of the change request.
    pub number: u64,
    /// The line by which the comment is found again.
    pub marker: String,
    pub body: String,
}

impl Notification<'_> {
    /// Returns the comment for the event; `prefix` is that of the marker.
    ///
    /// # Errors
    /// The Provider has no uid, or the event has no number of a change request.
    pub fn comment(&self, prefix: &str) -> Result<Comment, Failure> {
        let uid = self.required(&self.settings.provider_uid, "the uid of the Provider")?;
        let number = self.event.metadata.get(CHANGE_REQUEST).ok_or_else(|| {
            self.refusal(format!(
                "the event has no metadata '{CHANGE_REQUEST}' with the number of the change request"
            ))
        })?;
        let number = number.parse().map_err(|_| {
            self.refusal(format!(
                "the metadata '{CHANGE_REQUEST}' of the event is not a number: '{number}'"
            ))
        })?;
        let object = &self.event.involved_object;
        let (kind, namespace, name) = (&object.kind, &object.namespace, &object.name);
        let marker = format!("<!-- {prefix}:{uid}/{kind}/{namespace}/{name} -->");
        let body = format!("{marker}\n\n{}", self.event.markdown());
        Ok(Comment {
            number,
            marker,
            body,
        })
    }
}

/// The paths of comments in a REST API.
pub(crate) struct Place {
    /// The path for a new comment.
    pub create: String,
    /// The path of comments, to which the id of one is added.
    pub edit: String,
    /// The method by which a comment is edited.
    pub method: Method,
}

impl Comment {
    /// Edits the own comment with this id; creates one without an id.
    pub async fn write(
        &self,
        rest: &Rest<'_>,
        place: Place,
        own: Option<u64>,
    ) -> Result<(), Failure> {
        let body = json!({"body": self.body});
        match own {
            Some(id) => {
                let path = format!("{}/{id}", place.edit);
                let action = "edit the comment";
                rest.write(place.method, &path, &body, action).await
            }
            None => {
                let action = "create the comment";
                rest.write(Method::POST, &place.create, &body, action).await
            }
        }
    }

    /// Returns the id of the first comment of a list that the user wrote for this object. `author`
    /// is the pointer to the author's name.
    pub fn find(&self, comments: &Value, author: &str, user: &str) -> Option<u64> {
        let is_mine = |comment: &&Value| {
            let name = comment.pointer(author).and_then(Value::as_str);
            let body = comment["body"].as_str();
            name == Some(user) && body.is_some_and(|body| body.contains(&self.marker))
        };
        let found = comments.as_array()?.iter().find(is_mine)?;
        found["id"].as_u64()
    }
}
