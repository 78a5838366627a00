//! Tests with a registry like ECR: it requires user and password with each request, and its layers
//! are on another host.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use driftless_adapters::charts::HttpCharts;
use driftless_kernel::ports::{Charts, Connection, ErrorKind, Layer, Secret};
use sha2::{Digest, Sha256};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// `AWS:pw`
const LOGIN: &str = "Basic QVdTOnB3";
const LAYER: &[u8] = b"a layer";

type Asked = Arc<Mutex<Vec<String>>>;

async fn serve(app: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let name = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    name
}

fn login(request: &Request) -> String {
    let login = request.headers().get("authorization");
    login.map_or("", |login| login.to_str().unwrap()).to_owned()
}

/// Starts a server that serves layers without a login, and records the login of each request.
async fn store() -> (String, Asked) {
    let asked = Asked::default();
    let noted = asked.clone();
    let app = Router::new().fallback(move |request: Request| {
        noted.lock().unwrap().push(login(&request));
        async { Response::new(Body::from(LAYER)) }
    });
    (serve(app).await, asked)
}

async fn registry(store: String) -> String {
    serve(Router::new().fallback(move |request: Request| {
        let place = format!("http://{store}/layer");
        async move {
            let response = Response::builder();
            let response = match request.uri().path() {
                _ if login(&request) != LOGIN => response
                    .status(401)
                    .header(
                        "www-authenticate",
                        "Basic realm=\"https://ecr.example/\",service=\"ecr.example\"",
                    )
                    .body(Body::empty()),
                "/v2/charts/web/tags/list" => response.body(Body::from(r#"{"tags": ["1.0.0"]}"#)),
                _ => response
                    .status(307)
                    .header("location", place)
                    .body(Body::empty()),
            };
            response.unwrap()
        }
    }))
    .await
}

#[tokio::test]
async fn user_and_password_stay_with_the_registry() {
    let (store, asked) = store().await;
    let repository = format!("{}/charts/web", registry(store).await);
    let connection = |password: &str| Connection {
        login: Some(("AWS".to_owned(), Secret::new(password.to_owned()))),
        insecure: true,
        allow_local: true,
        timeout: Duration::from_secs(20),
        ..Connection::default()
    };
    let charts = HttpCharts::new();
    let tags = charts.tags(&repository, &connection("pw")).await.unwrap();
    assert_eq!(tags, ["1.0.0"]);
    let error = charts
        .tags(&repository, &connection("canary"))
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied, "{error}");
    assert!(!error.message.contains("canary"), "{error}");
    let layer = Layer {
        digest: format!("sha256:{}", hex::encode(Sha256::digest(LAYER))),
        ..Layer::default()
    };
    let bytes = charts
        .layer(&repository, &layer, &connection("pw"), 1 << 20)
        .await;
    assert_eq!(bytes.unwrap(), LAYER);
    assert_eq!(*asked.lock().unwrap(), [""]);
}
