//! Converts HTTP requests to the server's requests, and its responses to HTTP.

use super::Embedded;
use super::users::UserSource;
use crate::cluster::connect::AGENT;
use bytes::Bytes;
use driftless_apiserver::{Body, Request, Response, User, Watch};
use futures::stream::{self, Stream};
use http::header;
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use serde_json::json;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::watch;

/// The body of an answer: complete, or the lines of a watch as a stream.
pub type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

/// The limit of a request's body in bytes, as in the real server.
const BODY_LIMIT: usize = 3 << 20;
/// The duration of a watch without `timeoutSeconds`.
const WATCH_TIME: Duration = Duration::from_secs(30 * 60);
/// The interval of the bookmarks of a watch that requests them. The first one comes at once, after
/// the changes that have happened: unlike a real server, this one knows that others do not exist.
const BOOKMARK_TIME: Duration = Duration::from_secs(60);

/// A [`tower::Service`] over an embedded server, for `kube::Client::new` and for a listener.
#[derive(Clone)]
pub struct EmbeddedService {
    server: Embedded,
    user_source: UserSource,
}

impl EmbeddedService {
    pub(super) fn new(server: Embedded, user_source: UserSource) -> Self {
        Self {
            server,
            user_source,
        }
    }

    async fn answer<B>(self, request: http::Request<B>) -> http::Response<ResponseBody>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<tower::BoxError>,
    {
        let (parts, body) = request.into_parts();
        let Some(user) = self.user(&parts) else {
            return whole(401, status(401, "Unauthorized", "Unauthorized"));
        };
        let body = match Limited::new(body, BODY_LIMIT).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                let message = format!("Request entity too large: limit is {BODY_LIMIT}");
                return whole(413, status(413, "RequestEntityTooLarge", &message));
            }
            Err(error) => return whole(400, status(400, "BadRequest", &error.to_string())),
        };
        let request = to_request(&parts, &body, user);
        let answer = self.server.handle(&request);
        into_http(self.server, answer)
    }

    fn user(&self, parts: &http::request::Parts) -> Option<User> {
        match &self.user_source {
            UserSource::Known(user) => Some(user.clone()),
            UserSource::FromRequest => {
                let value = parts.headers.get(header::AUTHORIZATION);
                let value = value.map(|value| value.to_str().unwrap_or_default());
                self.server.user(value)
            }
        }
    }
}

impl<B> tower::Service<http::Request<B>> for EmbeddedService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<tower::BoxError>,
{
    type Response = http::Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request).await) })
    }
}

fn to_request(parts: &http::request::Parts, body: &Bytes, user: User) -> Request {
    let headers = parts.headers.iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes());
        (name.as_str().to_owned(), value.into_owned())
    });
    let nameless = !parts.headers.contains_key(header::USER_AGENT);
    let own = nameless.then(|| (header::USER_AGENT.to_string(), AGENT.to_owned()));
    Request {
        method: parts.method.as_str().to_owned(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: headers.chain(own).collect(),
        body: body.to_vec(),
        user,
    }
}

fn into_http(server: Embedded, answer: Response) -> http::Response<ResponseBody> {
    let media = answer.content_type().to_owned();
    let body = match answer.body {
        Body::Json(value, _) => full(to_json(&value)),
        Body::Text(text) => full(text.into_bytes()),
        Body::Watch(watch) => StreamBody::new(events(server, *watch)).boxed_unsync(),
    };
    let mut response = http::Response::new(body);
    *response.status_mut() = code(answer.status);
    let headers = response.headers_mut();
    // A 304 must not carry Content-Type: clients merge its headers into the cached response.
    let media = (answer.status != 304).then(|| ("Content-Type".to_owned(), media));
    let own = answer.headers.into_iter().chain(media);
    for (name, value) in own {
        // Warnings may quote a client's input, which may not be valid in a header.
        if let (Ok(name), Ok(value)) = (
            header::HeaderName::try_from(name),
            header::HeaderValue::try_from(value),
        ) {
            headers.append(name, value);
        }
    }
    response
}

fn whole(status: u16, body: serde_json::Value) -> http::Response<ResponseBody> {
    let mut response = http::Response::new(full(to_json(&body)));
    *response.status_mut() = code(status);
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

fn status(code: u16, reason: &str, message: &str) -> serde_json::Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    })
}

fn code(status: u16) -> http::StatusCode {
    http::StatusCode::from_u16(status).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR)
}

/// Serializes a value to JSON. Serializing a `Value` cannot fail.
fn to_json(value: &serde_json::Value) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

fn full(body: Vec<u8>) -> ResponseBody {
    Full::new(Bytes::from(body)).boxed_unsync()
}

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The state of a watch that is streamed to a client.
struct Running {
    server: Embedded,
    watch: Watch,
    versions: watch::Receiver<u64>,
    end: Sleep,
    bookmark: Sleep,
    /// True if the changes before the watch have been sent.
    is_current: bool,
    over: bool,
}

/// Streams the events of a watch. Each item has the events since the last one, with one JSON
/// document per line.
fn events(
    server: Embedded,
    watch: Watch,
) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send {
    let time = watch
        .timeout_seconds
        .map_or(WATCH_TIME, Duration::from_secs);
    let running = Running {
        versions: server.versions(),
        end: sleep(&server, time),
        bookmark: sleep(&server, BOOKMARK_TIME),
        server,
        watch,
        is_current: false,
        over: false,
    };
    stream::unfold(running, |mut running| async move {
        let lines = running.next().await?;
        Some((Ok(Frame::data(Bytes::from(lines))), running))
    })
}

fn sleep(server: &Embedded, time: Duration) -> Sleep {
    let clock = server.clock();
    Box::pin(async move { clock.sleep(time).await })
}

impl Running {
    async fn next(&mut self) -> Option<String> {
        while !self.over {
            self.versions.mark_unchanged();
            let mut events = self.server.poll(&mut self.watch);
            self.over = self.watch.ended();
            if !self.is_current {
                self.is_current = true;
                events.extend(self.watch.heartbeat());
            }
            if !events.is_empty() {
                return Some(lines(&events));
            }
            tokio::select! {
                changed = self.versions.changed() => self.over |= changed.is_err(),
                () = &mut self.end => self.over = true,
                () = &mut self.bookmark => {
                    self.bookmark = sleep(&self.server, BOOKMARK_TIME);
                    if let Some(event) = self.watch.heartbeat() {
                        return Some(lines(&[event]));
                    }
                }
            }
        }
        None
    }
}

fn lines(events: &[serde_json::Value]) -> String {
    events.iter().map(|event| format!("{event}\n")).collect()
}
