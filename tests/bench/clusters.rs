//! A thousand embedded clusters in one process: how large an empty one is, and how long it takes to apply objects to
//! all of them through driftless's own cluster port (kubeconfig, discovery, server-side apply), without a socket.
//!
//! `cargo bench -p driftless-tests --bench clusters -- [--clusters N] [--objects N] [--max-s S] [--max-kib KIB]`
//!
//! With a limit (seconds for all, KiB for an empty cluster), a figure above it ends in an error.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use driftless_adapters::embedded::{Embedded, EmbeddedClusters, kubeconfig};
use driftless_adapters::local::SystemClock;
use driftless_apiserver::User;
use driftless_core::kubeconfig::{Options as Allowed, parse};
use driftless_core::ports::{Access, Apply, Clusters, PortError};
use driftless_manifest::{Gvk, Object};
use futures::stream::{StreamExt, TryStreamExt, iter};
use serde_json::{Value, json};

/// Clusters that are worked on at a time.
const AT_A_TIME: usize = 64;
const MANAGER: &str = "kustomize-controller";

struct Options {
    clusters: usize,
    objects: usize,
    max_s: f64,
    max_kib: f64,
}

fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(why) => {
            eprintln!(
                "{why}\nusage: clusters [--clusters N] [--objects N] [--max-s S] [--max-kib KIB]"
            );
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Runtime::new().expect("start a runtime");
    match runtime.block_on(measure(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn options(arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        clusters: 1000,
        objects: 20,
        max_s: f64::INFINITY,
        max_kib: f64::INFINITY,
    };
    // `cargo bench` adds a word of its own.
    let mut arguments = arguments.filter(|argument| argument != "--bench");
    while let Some(argument) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        let number: f64 = value
            .parse()
            .map_err(|_| format!("{argument} needs a number, not '{value}'"))?;
        match argument.as_str() {
            "--clusters" => options.clusters = number as usize,
            "--objects" => options.objects = number as usize,
            "--max-s" => options.max_s = number,
            "--max-kib" => options.max_kib = number,
            other => return Err(format!("unknown option {other}")),
        }
    }
    Ok(options)
}

async fn measure(options: &Options) -> Result<bool, PortError> {
    // What all servers share is made before the first figure.
    drop(Embedded::new(Arc::new(SystemClock)));
    let before = resident_kib();
    let start = Instant::now();
    let known = EmbeddedClusters::new();
    let all: Vec<Access> = (0..options.clusters).map(|n| cluster(&known, n)).collect();
    let made = start.elapsed();
    let empty = resident_kib() - before;

    let objects = fleet(options.objects);
    let first = sync(&known, &all, &objects).await?;
    let full = resident_kib() - before;
    let again = sync(&known, &all, &objects).await?;

    let each = |kib: f64| kib / options.clusters as f64;
    let count = options.clusters * objects.len();
    println!(
        "{} clusters, {} objects each",
        options.clusters,
        objects.len()
    );
    println!(
        "started in {}, {:.0} KiB resident each when empty",
        seconds(made),
        each(empty)
    );
    println!(
        "{count} objects applied in {} ({:.0}/s)",
        seconds(first),
        count as f64 / first.as_secs_f64()
    );
    println!("the same applied again in {}", seconds(again));
    println!(
        "{:.0} MiB resident in all, {:.0} KiB each",
        full / 1024.0,
        each(full)
    );
    Ok(first.as_secs_f64() <= options.max_s && each(empty) <= options.max_kib)
}

fn cluster(known: &EmbeddedClusters, number: usize) -> Access {
    let server = Embedded::new(Arc::new(SystemClock));
    let address = format!("https://cluster-{number}.bench.internal");
    known.add(&address, &server);
    let text = kubeconfig(&address, None, &server.token(User::admin("bench")));
    parse(text.as_bytes(), &Allowed::default()).expect("a kubeconfig of our own")
}

/// Applies all objects to all clusters.
async fn sync(
    known: &EmbeddedClusters,
    all: &[Access],
    objects: &[Object],
) -> Result<Duration, PortError> {
    let start = Instant::now();
    iter(all)
        .map(Ok)
        .try_for_each_concurrent(AT_A_TIME, |access| apply(known, access, objects))
        .await?;
    Ok(start.elapsed())
}

async fn apply(
    known: &EmbeddedClusters,
    access: &Access,
    objects: &[Object],
) -> Result<(), PortError> {
    let cluster = known.connect(access, None).await?;
    let how = Apply {
        manager: MANAGER,
        force: true,
        dry_run: false,
    };
    for object in objects {
        let gvk = Gvk::new(object.api_version(), object.kind());
        let resource = cluster.resource(&gvk).await?.expect("a built-in kind");
        cluster.apply(&resource, object, how).await?;
    }
    Ok(())
}

/// A namespace, and in it Deployments, Services and ConfigMaps in turn.
fn fleet(count: usize) -> Vec<Object> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apps"}});
    let others = (1..count).map(|number| match number % 3 {
        0 => config_map(number),
        1 => deployment(number),
        _ => service(number),
    });
    let all = std::iter::once(namespace).chain(others);
    all.map(|value| Object::new(value).expect("an object"))
        .collect()
}

fn metadata(number: usize) -> Value {
    let name = format!("app-{number}");
    json!({"name": name, "namespace": "apps", "labels": {"app.kubernetes.io/name": name}})
}

fn config_map(number: usize) -> Value {
    let data = json!({"config.yaml": "level: info\n".repeat(20)});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(number), "data": data})
}

fn service(number: usize) -> Value {
    let ports = json!([{"name": "http", "port": 80, "targetPort": "http"}]);
    let spec = json!({"selector": {"app": format!("app-{number}")}, "ports": ports});
    json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata(number), "spec": spec})
}

fn deployment(number: usize) -> Value {
    let labels = json!({"app": format!("app-{number}")});
    let container = json!({
        "name": "main", "image": "registry.example/app:1.0",
        "ports": [{"name": "http", "containerPort": 8080}],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(number),
        "spec": {
            "replicas": 2, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    })
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

/// This process's resident memory.
fn resident_kib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc/self/status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number
        .and_then(|text| text.parse().ok())
        .expect("VmRSS in KiB")
}
