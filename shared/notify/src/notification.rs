//! One notification: the settings, the event, and requests with the checks of their answers.

use crate::login::Login;
use crate::url::Url;
use crate::{Event, Failure, Settings, Transport};
use driftless_manifest::yaml::{self, Dialect, Limits};
use http::header::{self, ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The longest address that Flux accepts in a Secret, in bytes.
const ADDRESS_LIMIT: usize = 2048;

/// The shortest word of a header that is a login and not an ordinary word, in bytes.
const SHORTEST_LOGIN: usize = 10;

/// The headers that the connection sets. Go's client also ignores those of a caller.
const CONNECTION: [HeaderName; 5] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::HOST,
    header::TRAILER,
    header::TRANSFER_ENCODING,
];

/// A notification that is sent.
pub(crate) struct Notification<'a> {
    pub settings: &'a Settings,
    pub event: &'a Event,
    pub transport: &'a dyn Transport,
    /// Seconds since 1970.
    pub now: i64,
    pub login: Login,
    /// The headers of the Secret.
    pub headers: BTreeMap<String, String>,
}

/// A request before it is sent. A header that is set again replaces the earlier one.
pub(crate) struct Call {
    method: Method,
    url: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Call {
    pub fn new(method: Method, url: impl Into<String>) -> Self {
        Self {
            method,
            url: url.into(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    pub fn get(url: impl Into<String>) -> Self {
        Self::new(Method::GET, url)
    }

    pub fn post(url: impl Into<String>) -> Self {
        Self::new(Method::POST, url)
    }

    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub fn bearer(self, token: &str) -> Self {
        self.header(AUTHORIZATION.as_str(), format!("Bearer {token}"))
    }

    pub fn body(mut self, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self.header(CONTENT_TYPE.as_str(), content_type)
    }
}

impl<'a> Notification<'a> {
    /// Reads the login and the headers of the Secret.
    ///
    /// # Errors
    /// The address of the Secret is too long, or its headers are not a YAML mapping of strings.
    pub fn new(
        settings: &'a Settings,
        event: &'a Event,
        transport: &'a dyn Transport,
        now: i64,
    ) -> Result<Self, Failure> {
        if settings.address.len() > ADDRESS_LIMIT {
            let reason = format!("the address has more than {ADDRESS_LIMIT} bytes");
            return Err(settings.refusal(reason));
        }
        let headers = match settings.secret.get("headers") {
            Some(headers) => read_headers(headers).ok_or_else(|| {
                let problem = "is not a YAML mapping of names to strings";
                settings.refusal(format!("'headers' of the Secret {problem}"))
            })?,
            None => BTreeMap::new(),
        };
        Ok(Self {
            settings,
            event,
            transport,
            now,
            login: Login::of(settings),
            headers,
        })
    }

    /// Returns a value of the Secret as a string.
    pub fn secret_text(&self, key: &str) -> Option<String> {
        let value = self.settings.secret.get(key)?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    pub fn refusal(&self, reason: impl AsRef<str>) -> Failure {
        self.settings.refusal(reason)
    }

    /// Returns the address.
    ///
    /// # Errors
    /// The address is not a URL with a scheme and a host.
    pub fn url(&self) -> Result<Url, Failure> {
        let url = Url::parse(&self.settings.address);
        url.ok_or_else(|| self.refusal("the address is not a URL: set spec.address, or 'address' of the Secret, to an absolute URL"))
    }

    /// Returns the address as a string, after the check of [`Self::url`].
    pub fn address(&self) -> Result<&'a str, Failure> {
        self.url()?;
        Ok(&self.settings.address)
    }

    /// Returns a value that the type needs.
    ///
    /// # Errors
    /// The value is empty.
    pub fn required<'v>(&self, value: &'v str, name: &str) -> Result<&'v str, Failure> {
        match value.is_empty() {
            true => Err(self.refusal(format!("{name} is required and empty"))),
            false => Ok(value),
        }
    }

    /// Returns the time of the event in seconds since 1970.
    ///
    /// # Errors
    /// The time is not in the form of RFC 3339.
    pub fn seconds(&self) -> Result<i64, Failure> {
        let time: Result<jiff::Timestamp, _> = self.event.timestamp.parse();
        let time =
            time.map_err(|_| self.refusal("the event's time is not in the form of RFC 3339"))?;
        Ok(time.as_second())
    }

    /// Formats a value as Go does.
    pub fn json(&self, value: &(impl Serialize + ?Sized)) -> Result<String, Failure> {
        let text = driftless_go::json::to_string(value);
        text.map_err(|error| self.refusal(format!("the message cannot be JSON: {error}")))
    }

    /// Returns the event in Flux's JSON.
    pub fn event_json(&self) -> Result<String, Failure> {
        let text = self.event.json();
        text.map_err(|error| self.refusal(format!("the event cannot be JSON: {error}")))
    }

    /// Sends a JSON body to a URL by POST, and checks that the answer is a success.
    pub async fn post_json(&self, url: &str, body: &Value) -> Result<(), Failure> {
        let call = Call::post(url).body("application/json", self.json(body)?);
        self.deliver(call, "send the message").await
    }

    /// Sends a request whose answer matters only by its status.
    pub async fn deliver(&self, call: Call, action: &str) -> Result<(), Failure> {
        self.succeed(call, action).await.map(drop)
    }

    /// Sends a request and returns the answer, which is a success.
    pub async fn succeed(&self, call: Call, action: &str) -> Result<Response<Vec<u8>>, Failure> {
        let response = self.exchange(call).await?;
        self.accept(response, action)
    }

    /// Sends a request and returns the list of its answer.
    pub async fn list(&self, call: Call, action: &str) -> Result<Value, Failure> {
        let response = self.succeed(call, action).await?;
        self.parse_list(&response, action)
    }

    /// Returns the list of an answer; `null` is an empty one.
    pub fn parse_list(&self, response: &Response<Vec<u8>>, action: &str) -> Result<Value, Failure> {
        let list = self.parse(response, action)?;
        match list.is_array() || list.is_null() {
            true => Ok(list),
            false => Err(self.refusal(format!("{action}: the answer is not a list"))),
        }
    }

    /// Sends a request and returns the answer as JSON.
    pub async fn ask(&self, call: Call, action: &str) -> Result<Value, Failure> {
        let response = self.succeed(call, action).await?;
        self.parse(&response, action)
    }

    /// Returns the JSON of an answer.
    pub fn parse(&self, response: &Response<Vec<u8>>, action: &str) -> Result<Value, Failure> {
        let value = serde_json::from_slice(response.body());
        value.map_err(|_| self.refusal(format!("{action}: the answer is not JSON")))
    }

    /// Returns an answer that is a success.
    pub fn accept(
        &self,
        response: Response<Vec<u8>>,
        action: &str,
    ) -> Result<Response<Vec<u8>>, Failure> {
        match response.status().is_success() {
            true => Ok(response),
            false => Err(self
                .settings
                .answer(action, response.status(), response.body())),
        }
    }

    /// Sends a request and returns the answer.
    pub async fn exchange(&self, call: Call) -> Result<Response<Vec<u8>>, Failure> {
        let url = Url::parse(&call.url);
        let url = url.ok_or_else(|| self.refusal("the address of the request is not a URL"))?;
        let mut request = Request::new(call.body);
        *request.method_mut() = call.method;
        let uri = url.without_login().parse();
        *request.uri_mut() = uri.map_err(|_| self.refusal("the address is not a URL of HTTP"))?;
        let headers = request.headers_mut();
        for (name, value) in call.headers {
            let name = HeaderName::try_from(&name).map_err(|_| {
                self.refusal(
                    "a header has a name that HTTP does not allow: check 'headers' of the Secret",
                )
            })?;
            let mut value = HeaderValue::try_from(value).map_err(|_| {
                self.refusal(
                    "a header has a line break or a control character: check 'headers' and the login of the Secret",
                )
            })?;
            value.set_sensitive(true);
            if !CONNECTION.contains(&name) {
                headers.insert(name, value);
            }
        }
        if let (Some(userinfo), false) = (&url.userinfo, headers.contains_key(AUTHORIZATION)) {
            let basic = Login::of_userinfo(userinfo).basic();
            let value = HeaderValue::try_from(basic);
            let mut value =
                value.map_err(|_| self.refusal("the login of the address is not valid"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let sent = sent_words(headers);
        let answer = self.transport.http(request).await;
        let mut answer = answer.map_err(|error| self.settings.unreachable(&error))?;
        // Messages quote such answers. One that repeats a login is left out.
        let body = String::from_utf8_lossy(answer.body());
        if !answer.status().is_success() && sent.iter().any(|word| body.contains(word)) {
            answer.body_mut().clear();
        }
        Ok(answer)
    }
}

/// Returns the words of the headers that may be a login.
fn sent_words(headers: &HeaderMap) -> Vec<String> {
    let values = headers
        .iter()
        .filter(|(name, _)| ![CONTENT_TYPE, ACCEPT].contains(name));
    let values = values.map(|(_, value)| String::from_utf8_lossy(value.as_bytes()));
    let words = values.flat_map(|value| {
        let words = value.split([' ', ',', ';', '=', '.']).map(str::to_owned);
        words.collect::<Vec<_>>()
    });
    words.filter(|word| word.len() >= SHORTEST_LOGIN).collect()
}

/// Reads a YAML mapping of names to strings; returns `None` for another document.
fn read_headers(yaml: &[u8]) -> Option<BTreeMap<String, String>> {
    let documents = yaml::documents(yaml, "headers", Dialect::V2, &Limits::default());
    let mut headers = BTreeMap::new();
    match documents.ok()?.into_iter().next() {
        None | Some(Value::Null) => {}
        Some(Value::Object(fields)) => {
            for (name, value) in fields {
                let value = match value {
                    Value::String(value) => value,
                    Value::Number(value) => value.to_string(),
                    Value::Bool(value) => value.to_string(),
                    Value::Null => String::new(),
                    _ => return None,
                };
                headers.insert(name, value);
            }
        }
        Some(_) => return None,
    }
    Some(headers)
}
