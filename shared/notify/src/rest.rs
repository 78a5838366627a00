//! A REST API of a Git host: paths below a URL, with the same headers for each request.

use crate::Failure;
use crate::notification::{Call, Notification};
use http::Method;
use serde_json::Value;

/// The API with the login of a Provider.
pub(crate) struct Rest<'n> {
    pub notification: &'n Notification<'n>,
    /// The URL of the API, with a slash at its end.
    pub base: String,
    pub headers: Vec<(&'static str, String)>,
}

impl Rest<'_> {
    /// Returns a request for a path.
    pub fn call(&self, method: Method, path: &str) -> Call {
        let call = Call::new(method, format!("{}{path}", self.base));
        let headers = self.headers.iter();
        headers.fold(call, |call, (name, value)| call.header(*name, value))
    }

    /// Reads an object.
    pub async fn read(&self, path: &str, action: &str) -> Result<Value, Failure> {
        let call = self.call(Method::GET, path);
        self.notification.ask(call, action).await
    }

    /// Reads a list.
    pub async fn list(&self, path: &str, action: &str) -> Result<Value, Failure> {
        let call = self.call(Method::GET, path);
        self.notification.list(call, action).await
    }

    /// Creates or changes an object.
    pub async fn write(
        &self,
        method: Method,
        path: &str,
        body: &Value,
        action: &str,
    ) -> Result<(), Failure> {
        let body = self.notification.json(body)?;
        let call = self.call(method, path).body("application/json", body);
        self.notification.deliver(call, action).await
    }
}
