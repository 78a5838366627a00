//! The dashboard of a large hub: an embedded API server with many objects.

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use driftless_adapters::embedded::{Embedded, EmbeddedClusters, kubeconfig};
use driftless_adapters::local::SystemClock;
use driftless_apiserver::User;
use driftless_core::bootstrap;
use driftless_dashboard::auth::{Auth, Key, Web, WebError};
use driftless_dashboard::{Data as _, Live, PortsData, Request, Site, handle};
use driftless_flux::FluxKind;
use driftless_kernel::hub::{self, Settings};
use driftless_kernel::ports::{Clock, Ports, Secret};
use driftless_manifest::Object;
use driftless_memory::MemorySecrets;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Serves the dashboard of a hub with this many objects until the test ends; returns its address.
pub fn serve(count: usize) -> String {
    let (sender, address) = channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async move {
            let start = Instant::now();
            let site = Arc::new(Large {
                data: PortsData::new(hub_with(count).await, Duration::from_secs(1)),
                key: Key::new(&[7; 32]).expect("a key"),
            });
            println!(
                "{count} objects created in {:.1} s",
                start.elapsed().as_secs_f64()
            );
            // As `driftless serve` does at its start.
            let start = Instant::now();
            site.data.snapshot().await.expect("the state");
            println!("read in {:.1} s", start.elapsed().as_secs_f64());
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
            let listener = listener.expect("listen");
            let address = listener.local_addr().expect("an address");
            sender.send(format!("http://{address}")).expect("send");
            let router = Router::new().fallback(answer).with_state(site);
            axum::serve(listener, router).await.expect("serve");
        });
    });
    address.recv().expect("the address")
}

async fn hub_with(count: usize) -> Ports {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let clusters = Arc::new(EmbeddedClusters::new());
    let server = Embedded::with_workloads(clock.clone());
    let url = "https://large.embedded.internal";
    let access = kubeconfig(url, None, &server.token(User::admin("admin")));
    clusters.add(url, &server);
    let mut ports = driftless_memory::ports(Arc::default(), Arc::default(), Arc::default());
    let secrets = BTreeMap::from([("hubs/large".to_owned(), Secret::new(access))]);
    ports.secrets = Arc::new(MemorySecrets(secrets));
    ports.clusters = clusters;
    ports.clock = clock;
    let settings = Settings {
        name: "large".to_owned(),
        ..Settings::default()
    };
    hub::register(&ports, &settings).await.expect("register");
    let hub = hub::connect(&ports, "large").await.expect("connect");
    let installed = bootstrap::install(hub.cluster.as_ref(), ports.clock.as_ref()).await;
    installed.expect("install the definitions");
    let resource = hub.resource(FluxKind::Kustomization).await.expect("served");
    for at in 0..count {
        let object = json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"namespace": "default", "name": format!("app-{at}")},
            "spec": {"interval": "10m", "path": format!("./apps/{at}"), "prune": true, "suspend": at % 3 == 0,
                     "sourceRef": {"kind": "GitRepository", "name": "fleet"}},
        });
        let object = Object::new(object).expect("an object");
        let created = hub.cluster.create(&resource, &object, "test").await;
        created.unwrap_or_else(|error| panic!("create app-{at}: {error}"));
    }
    ports
}

struct Large {
    data: PortsData,
    key: Key,
}

struct NoLogins;

#[async_trait::async_trait]
impl Web for NoLogins {
    async fn get(&self, url: &str, _: Option<&str>) -> Result<Value, WebError> {
        Err(WebError::new(url))
    }

    async fn post(&self, url: &str, _: &[(&str, &str)]) -> Result<Value, WebError> {
        Err(WebError::new(url))
    }
}

async fn answer(State(site): State<Arc<Large>>, request: axum::extract::Request) -> Response<Body> {
    let target = request
        .uri()
        .path_and_query()
        .map_or("/", |target| target.as_str());
    let dest = request.headers().get("sec-fetch-dest");
    let dest = dest.and_then(|value| value.to_str().ok());
    let ask = Request::get(target).with("sec-fetch-dest", dest.unwrap_or_default());
    let context = Site {
        auth: &Auth::Local,
        key: &site.key,
        web: &NoLogins,
        live: Live::Poll,
        now: 1_770_000_000_000,
        random: [0; 32],
    };
    let answer = handle(&ask, &site.data, &context).await;
    let mut response = Response::builder().status(answer.status);
    for (name, value) in answer.headers {
        response = response.header(name, value);
    }
    response.body(Body::from(answer.body)).expect("a response")
}
