//! An embedded API server that records its requests and can become unreachable or fail.

use driftless_adapters::embedded::{Embedded, ResponseBody};
use driftless_apiserver::User;
use http::{HeaderMap, Method, Uri};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Records the requests of a server.
pub trait Recorder: Send + Sync + 'static {
    fn server(&self) -> &Embedded;

    /// Returns whether the server is unreachable: it does not answer.
    fn is_dark(&self) -> bool;

    /// Returns the error's code if this request must fail.
    fn fails(&self, _: &Method, _: &Uri) -> Option<u16> {
        None
    }

    /// Records a request with the status of its answer.
    fn record(&self, method: &Method, uri: &Uri, headers: &HeaderMap, status: u16);
}

/// The service of a server for one user; requests are recorded.
pub struct Recorded<S>(pub Arc<S>, pub User);

type Answered = http::Response<ResponseBody>;
type Failed = Box<dyn std::error::Error + Send + Sync>;

impl<S: Recorder, B> tower::Service<http::Request<B>> for Recorded<S>
where
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<Failed>,
{
    type Response = Answered;
    type Error = Failed;
    type Future = Pin<Box<dyn Future<Output = Result<Answered, Failed>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let (server, user) = (self.0.clone(), self.1.clone());
        Box::pin(async move {
            if server.is_dark() {
                return Err("connection refused".into());
            }
            let (method, uri) = (request.method().clone(), request.uri().clone());
            let headers = request.headers().clone();
            if let Some(code) = server.fails(&method, &uri) {
                server.record(&method, &uri, &headers, code);
                return Ok(refusal(code)?);
            }
            let mut service = server.server().service(user);
            let answer = service.call(request).await?;
            server.record(&method, &uri, &headers, answer.status().as_u16());
            Ok(answer)
        })
    }
}

/// Returns the answer of a failed request.
fn refusal(code: u16) -> Result<Answered, http::Error> {
    let status = format!(
        r#"{{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "refused by the test", "code": {code}}}"#
    );
    http::Response::builder()
        .status(code)
        .header("content-type", "application/json")
        .body(ResponseBody::new(http_body_util::Full::from(status)))
}
