use driftless_core::ports::Ports;
use driftless_core::webhook::{self, Answer, Delivery, Refusal};
use lambda_http::{Body, Error, Request, Response};
use serde_json::{Value, json};

/// Turns an HTTP event into a delivery and its answer back into HTTP.
pub async fn handle(ports: &Ports, request: Request) -> Result<Response<Body>, Error> {
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let id = header("x-github-delivery").unwrap_or_default().to_owned();
    let delivery = Delivery {
        event: header("x-github-event").unwrap_or_default(),
        signature: header("x-hub-signature-256"),
        body: request.body(),
    };
    let (status, body) = match webhook::receive(ports, delivery).await {
        Ok(answer) => (if matches!(answer, Answer::Queued(_)) { 202 } else { 200 }, told(&answer)),
        Err(refusal) => (refusal.status(), json!({"error": explain(&refusal)})),
    };
    tracing::info!(delivery = id, event = header("x-github-event"), status, answer = %body, "delivery");
    let response = Response::builder().status(status).header("content-type", "application/json");
    Ok(response.body(Body::from(body.to_string()))?)
}

/// What was queued, for the person who looks at GitHub's list of deliveries.
fn told(answer: &Answer) -> Value {
    match answer {
        Answer::Pong => json!({"pong": true}),
        Answer::Ignored(why) => json!({"queued": [], "ignored": why}),
        Answer::Queued(requests) => {
            let queued = requests.iter().map(|one| format!("{}: {}", one.hub, one.object)).collect::<Vec<_>>();
            json!({"queued": queued})
        }
    }
}

/// A stranger learns nothing of the installation from a failure inside it.
fn explain(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Unavailable(error) => {
            tracing::error!(%error, "not queued");
            "not queued, try again".to_owned()
        }
        other => other.to_string(),
    }
}
