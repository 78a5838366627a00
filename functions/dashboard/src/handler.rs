//! Converts an HTTP event to a request of the dashboard, and its response back.

use crate::config::Settings;
use crate::web::{ClientError, Service};
use driftless_dashboard::access::Rule;
use driftless_dashboard::auth::{Auth, Key, Login, Provider};
use driftless_dashboard::{Live, Method, PortsData, Site};
use driftless_kernel::ports::Ports;
use lambda_http::request::RequestContext;
use lambda_http::{Body, Error, Request, RequestExt as _, Response};
use std::collections::BTreeMap;
use std::time::Duration;

/// The time for which a reading of the hubs is shown again: pages look for changes in this
/// interval.
const FRESH: Duration = Duration::from_secs(4);

/// The function with what it keeps between events.
pub struct Function {
    ports: Ports,
    data: PortsData,
    web: Service,
    key: Key,
    provider: Provider,
    origin: String,
    rules: Vec<Rule>,
}

impl Function {
    /// Creates the function.
    ///
    /// # Errors
    /// The client of the login cannot be created.
    pub fn new(ports: Ports, settings: Settings) -> Result<Self, ClientError> {
        Ok(Self {
            data: PortsData::new(ports.clone(), FRESH),
            ports,
            web: Service::new()?,
            key: settings.key,
            provider: settings.provider,
            origin: settings.origin,
            rules: settings.rules,
        })
    }

    /// Answers one event.
    ///
    /// # Errors
    /// The response cannot be built.
    pub async fn handle(&self, event: Request) -> Result<Response<Body>, Error> {
        let origin = match self.origin.is_empty() {
            true => own_origin(&event)?,
            false => self.origin.clone(),
        };
        let auth = Auth::Login(Login {
            provider: self.provider.clone(),
            origin,
            rules: self.rules.clone(),
        });
        let mut random = [0; 32];
        let (first, second) = random.split_at_mut(16);
        first.copy_from_slice(&self.ports.clock.nonce());
        second.copy_from_slice(&self.ports.clock.nonce());
        let site = Site {
            auth: &auth,
            key: &self.key,
            web: &self.web,
            live: Live::Poll,
            now: u64::try_from(self.ports.clock.now().as_millis()).unwrap_or(u64::MAX),
            random,
        };
        let answer = driftless_dashboard::handle(&request(&event), &self.data, &site).await;
        let mut response = Response::builder().status(answer.status);
        for (name, value) in answer.headers {
            response = response.header(name, value);
        }
        // The address of a function is only reached by HTTPS.
        response = response.header("strict-transport-security", "max-age=31536000");
        let body = match String::from_utf8(answer.body) {
            Ok(text) => Body::Text(text),
            Err(error) => Body::Binary(error.into_bytes()),
        };
        Ok(response.body(body)?)
    }
}

/// An event has no domain, so no login can return to the function.
#[derive(Debug, thiserror::Error)]
#[error("the event does not name the domain of the function's URL")]
struct NoDomain;

/// Returns the origin of the function's own URL. AWS writes the name, not the sender.
fn own_origin(event: &Request) -> Result<String, NoDomain> {
    let name = match event.request_context_ref() {
        Some(RequestContext::ApiGatewayV2(context)) => context.domain_name.clone(),
        _ => None,
    };
    let name = name.ok_or(NoDomain)?;
    Ok(format!("https://{name}"))
}

fn request(event: &Request) -> driftless_dashboard::Request {
    let mut headers = BTreeMap::new();
    for (name, value) in event.headers() {
        if let Ok(value) = value.to_str() {
            let name = name.as_str().to_owned();
            headers.entry(name).or_insert_with(|| value.to_owned());
        }
    }
    driftless_dashboard::Request {
        method: match event.method().as_str() {
            "GET" | "HEAD" => Some(Method::Get),
            "POST" => Some(Method::Post),
            _ => None,
        },
        path: event.raw_http_path().to_owned(),
        query: event.uri().query().unwrap_or_default().to_owned(),
        headers,
        body: event.body().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_dashboard::auth::Kind;
    use driftless_kernel::ports::Secret;
    use std::sync::Arc;

    const EVENT: &str = include_str!("../../../events/dashboard-get.json");

    fn function() -> Function {
        let ports = driftless_memory::ports(Arc::default(), Arc::default(), Arc::default());
        let settings = Settings {
            provider: Provider {
                kind: Kind::GitHub {
                    web: "https://github.com".to_owned(),
                    api: "https://api.github.com".to_owned(),
                },
                client_id: "client".to_owned(),
                client_secret: Secret::new("secret"),
            },
            origin: String::new(),
            rules: Vec::new(),
            key: Key::new(&[7; 32]).unwrap(),
        };
        Function::new(ports, settings).unwrap()
    }

    async fn answer(event: &str) -> Response<Body> {
        let event = lambda_http::request::from_str(event).unwrap();
        function().handle(event).await.unwrap()
    }

    #[tokio::test]
    async fn a_stranger_is_sent_to_the_login_and_back_to_the_page() {
        let first = answer(EVENT).await;
        assert_eq!(first.status(), 303);
        let location = first.headers()["location"].to_str().unwrap();
        assert_eq!(location, "/login?to=%2Fobjects%3Fq%3Dweb");
        let login = EVENT.replace("\"/objects\"", "\"/login\"");
        let second = answer(&login).await;
        let location = second.headers()["location"].to_str().unwrap();
        assert!(
            location.starts_with("https://github.com/login/oauth/authorize?"),
            "{location}"
        );
        assert!(
            location
                .contains("redirect_uri=https%3A%2F%2Fabc.lambda-url.eu-west-1.on.aws%2Fcallback")
        );
        assert!(
            location.contains("code_challenge_method=S256"),
            "{location}"
        );
        let cookie = second.headers()["set-cookie"].to_str().unwrap();
        assert!(
            cookie.ends_with("; Secure; HttpOnly; SameSite=Lax"),
            "{cookie}"
        );
        assert_eq!(second.headers()["x-frame-options"], "DENY");
    }
}
