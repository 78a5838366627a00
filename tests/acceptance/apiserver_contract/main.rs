//! The recorded answers of tests/corpus/apiserver are still the real
//! kube-apiserver's. With `RECORD_APISERVER=1` they are written anew.

#[path = "../../../shared/apiserver/tests/contract/cases.rs"]
mod cases;
#[path = "../../../shared/apiserver/tests/contract/normal.rs"]
mod normal;

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;

use cases::{AUTHORIZATION, Answer, Case, Subject};
use driftless_harness::cluster::Cluster;
use driftless_harness::http::Http;
use serde_json::{Map, Value, json};

/// The number of cases that run at a time.
const WORKERS: usize = 12;

struct Real {
    /// Sends requests with the administrator's token.
    admin: Http,
    /// Sends requests that have their own Authorization header.
    other: Http,
    url: String,
}

impl Real {
    fn of(cluster: &Cluster) -> Self {
        let bearer = format!("Bearer {}", cluster.token());
        Self {
            admin: Http::trusting(cluster.ca()).with_header(AUTHORIZATION, &bearer),
            other: Http::trusting(cluster.ca()),
            url: cluster.url(),
        }
    }
}

impl Subject for Real {
    fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(String, String)],
        body: Option<&str>,
    ) -> Answer {
        let url = format!("{}{path}", self.url);
        let headers: Vec<(&str, &str)> = headers
            .iter()
            .map(|(n, v)| (n.as_str(), v.as_str()))
            .collect();
        let names_user = headers.iter().any(|(name, _)| *name == AUTHORIZATION);
        let http = if names_user { &self.other } else { &self.admin };
        let answer = http
            .send(method, &url, &headers, body.map(str::as_bytes))
            .unwrap_or_else(|e| panic!("{method} {url}: {e}"));
        let text = answer.text();
        let events = path.contains("watch=") && answer.status == 200;
        let body = if events {
            let lines = text
                .lines()
                .map(|line| serde_json::from_str(line).expect("an event"));
            lines.filter(|event: &Value| !is_heartbeat(event)).collect()
        } else {
            serde_json::from_str(&text).unwrap_or(Value::String(text))
        };
        let warnings = answer.headers.get_all("warning").iter();
        Answer {
            status: answer.status,
            warnings: warnings
                .map(|w| w.to_str().unwrap_or_default().to_owned())
                .collect(),
            body,
        }
    }

    fn works_alone(&self) -> bool {
        true
    }
}

/// Returns whether an event is a bookmark that the server sends periodically.
fn is_heartbeat(event: &Value) -> bool {
    event["type"] == "BOOKMARK" && event["object"]["metadata"].get("annotations").is_none()
}

/// Returns the answers by the index of their case. Most of the time is spent waiting, so several
/// cases run at a time.
fn ask(all: &[Case], cluster: &Cluster) -> BTreeMap<usize, Value> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut real = Real::of(cluster);
        let mut found = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = all.get(at) else {
                return found;
            };
            found.push((at, Value::Array(cases::run(case, &mut real))));
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(worker)).collect();
        let join = |w: ScopedJoinHandle<'_, _>| w.join().unwrap_or_else(|e| resume_unwind(e));
        workers.into_iter().flat_map(join).collect()
    })
}

#[test]
fn the_recorded_answers_are_the_real_servers() {
    let cluster = Cluster::start("contract");
    let _roles = cluster.aggregate_roles();
    let all = cases::read();
    let found = ask(&all, &cluster);
    let mut files: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for (case, answers) in all.iter().zip(found.into_values()) {
        files
            .entry(&case.file)
            .or_default()
            .insert(case.name.clone(), answers);
    }
    let mut failed = Vec::new();
    for (file, answers) in files {
        let path = cases::corpus().join(format!("answers/{file}.json"));
        if std::env::var("RECORD_APISERVER").is_ok() {
            std::fs::write(&path, lines(&answers)).expect("write the answers");
            continue;
        }
        let recorded = cases::read_json(&path);
        for (name, answer) in &answers {
            let mut parts = Vec::new();
            cases::differences("", &recorded[name], answer, &mut parts);
            if !parts.is_empty() {
                failed.push(format!("{file}/{name}:\n    {}", parts.join("\n    ")));
            }
        }
    }
    println!("{} behaviours asked of the real server", all.len());
    assert!(failed.is_empty(), "recorded | now:\n{}", failed.join("\n"));
}

/// Renders the answers as JSON with one case per line.
fn lines(answers: &Map<String, Value>) -> String {
    let each: Vec<String> = answers
        .iter()
        .map(|(name, answer)| format!("{}: {}", json!(name), json!(answer)))
        .collect();
    format!("{{\n{}\n}}\n", each.join(",\n"))
}
