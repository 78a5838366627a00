//! The floor: a client that applies ready-made objects, 32 requests at a time, and does nothing
//! else. It runs in a separate process, so that its processor time is known.

use super::measure::{Counters, Figures};
use super::worlds::{self, APPS, COLLECTIONS};
use driftless_harness::cluster::Cluster;
use driftless_harness::http::Http;
use driftless_harness::usage;
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The first argument of the child process.
pub const COMMAND: &str = "floor";
/// The requests in flight, each on its own connection.
const IN_FLIGHT: usize = 32;
const APPLY: &str = "application/apply-patch+yaml";

/// Measures the floor of W(N).
pub fn measure(size: usize) -> Vec<Figures> {
    let cluster = Cluster::start_measured("floor");
    cluster.namespace(APPS);
    let all = |version| (0..size).flat_map(move |app| apply(app, version));
    let lists = COLLECTIONS.map(|(api, plural)| {
        let labels = "labelSelector=app";
        json!({"path": format!("{api}/namespaces/{APPS}/{plural}?{labels}")})
    });
    [
        ("cold", all(0).collect()),
        ("push-all", all(1).collect()),
        ("push-one", apply(size / 2, 2).into_iter().take(1).collect()),
        ("sweep", lists.to_vec()),
    ]
    .into_iter()
    .map(|(work, requests)| child_figures(&cluster, size, work, requests))
    .collect()
}

fn apply(app: usize, version: usize) -> [Value; 4] {
    let objects = worlds::objects(app, version);
    let name = worlds::name(app);
    std::array::from_fn(|at| {
        let (api, plural) = COLLECTIONS[at];
        let manager = "fieldManager=floor&force=true";
        let path = format!("{api}/namespaces/{APPS}/{plural}/{name}?{manager}");
        json!({"path": path, "body": objects[at].to_string()})
    })
}

fn child_figures(
    cluster: &Cluster,
    size: usize,
    work: &'static str,
    requests: Vec<Value>,
) -> Figures {
    let plan = json!({"url": cluster.url(), "ca": cluster.ca(), "token": cluster.token(), "requests": requests});
    let file = tempfile::NamedTempFile::new().expect("a file for the plan");
    std::fs::write(file.path(), plan.to_string()).expect("write the plan");
    let before = Counters::read(cluster, Vec::new());
    let program = std::env::current_exe().expect("the own path");
    let output = Command::new(program)
        .arg(COMMAND)
        .arg(file.path())
        .stderr(Stdio::inherit())
        .output()
        .expect("start the floor");
    let done: Value = serde_json::from_slice(&output.stdout).expect("the figures of the floor");
    let number = |field: &str| done[field].as_f64().expect("a number");
    let time = Duration::from_secs_f64(number("seconds"));
    let mut figures = before.figures(COMMAND, ("W", size), work, time);
    figures.cpu = number("cpu");
    figures.peak_mib = number("peak");
    figures
}

/// Sends the requests of a plan, and prints the figures.
pub fn child(plan: &str) {
    let plan = std::fs::read(plan).expect("read the plan");
    let plan: Value = serde_json::from_slice(&plan).expect("a plan");
    let text = |field: &str| plan[field].as_str().expect("a string");
    let requests = plan["requests"].as_array().expect("requests");
    let (next, url) = (AtomicUsize::new(0), text("url"));
    let clients: Vec<Http> = (0..IN_FLIGHT.min(requests.len()))
        .map(|_| {
            let http = Http::trusting(text("ca")).with_header("user-agent", COMMAND);
            http.with_header("authorization", &format!("Bearer {}", text("token")))
        })
        .collect();
    // Connect before the first measured request, as a process that runs all the time.
    std::thread::scope(|scope| {
        for client in &clients {
            scope.spawn(|| send(client, url, &json!({"path": "/version"})));
        }
    });
    let start = Instant::now();
    let before = usage::used();
    std::thread::scope(|scope| {
        for client in &clients {
            scope.spawn(|| {
                while let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
                    send(client, url, request);
                }
            });
        }
    });
    let seconds = start.elapsed().as_secs_f64();
    let cpu = (usage::used() - before) as f64 / 1000.0;
    let peak = usage::peak() as f64 / 1024.0;
    println!("{}", json!({"seconds": seconds, "cpu": cpu, "peak": peak}));
}

fn send(client: &Http, url: &str, request: &Value) {
    let url = format!("{url}{}", request["path"].as_str().expect("a path"));
    let body = request["body"].as_str().map(str::as_bytes);
    let (method, headers) = match body {
        Some(_) => ("PATCH", &[("content-type", APPLY)][..]),
        None => ("GET", &[][..]),
    };
    let answer = client.send(method, &url, headers, body);
    let answer = answer.unwrap_or_else(|error| panic!("{method} {url}: {error}"));
    assert!(answer.status < 300, "{method} {url}: {}", answer.text());
}
