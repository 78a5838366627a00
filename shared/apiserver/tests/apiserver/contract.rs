//! Compares the embedded server with the recorded answers of the real kube-apiserver 1.36 in
//! tests/corpus/apiserver. The test `apiserver_contract` of the workspace's tests records and
//! checks them; it runs the same cases on the real server.

#[path = "../contract/cases.rs"]
mod cases;
#[path = "../contract/normal.rs"]
mod normal;

use std::collections::BTreeMap;

use driftless_apiserver::{Body, Clock, Request, Server, User};
use serde_json::{Value, json};

use cases::{AUTHORIZATION, Answer, Subject};

/// The cases in which this server differs, on purpose or for now, with the reasons. A listed case
/// that agrees fails the test, so the list can only shrink.
const DIFFERENCES: &str = include_str!("../contract/differences.txt");

struct Embedded {
    server: Server,
    asked: u128,
}

impl Embedded {
    /// Returns a separate server: a clone of one that has started.
    fn new() -> Self {
        static STARTED: std::sync::OnceLock<Server> = std::sync::OnceLock::new();
        Self {
            server: STARTED.get_or_init(|| Server::new(clock(0))).clone(),
            asked: 1,
        }
    }
}

impl Embedded {
    /// Returns the service account of a token, or an administrator.
    fn user(&self, headers: &[(String, String)]) -> User {
        let of_token = headers.iter().find(|(name, _)| name == AUTHORIZATION);
        let Some((_, bearer)) = of_token else {
            return User::admin("driftless-admin");
        };
        let token = bearer.strip_prefix("Bearer ").expect("a bearer token");
        let user = self.server.authenticate(token, clock(0).now);
        user.expect("a token of this server")
    }
}

fn clock(seed: u128) -> Clock {
    Clock {
        now: "2026-01-01T00:00:00Z".parse().expect("a time"),
        seed: seed << 32,
    }
}

impl Subject for Embedded {
    fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(String, String)],
        body: Option<&str>,
    ) -> Answer {
        let mut request = Request::new(method, path, self.user(headers));
        request.headers = headers.to_vec();
        request.body = body.unwrap_or_default().into();
        self.asked += 1;
        let response = self.server.handle(&request, clock(self.asked));
        let warnings = response
            .headers
            .iter()
            .filter(|(name, _)| name == "Warning")
            .map(|(_, value)| value.clone())
            .collect();
        let body = match response.body {
            Body::Json(value, _) => value,
            Body::Text(text) => Value::String(text),
            Body::Watch(mut watch) => Value::Array(self.server.poll(&mut watch)),
        };
        Answer {
            status: response.status,
            warnings,
            body,
        }
    }

    fn works_alone(&self) -> bool {
        false
    }
}

#[test]
fn the_answers_are_those_of_the_real_server() {
    let known: BTreeMap<&str, &str> = DIFFERENCES
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(": "))
        .collect();
    let show = std::env::var("SHOW").unwrap_or_default();
    let mut answers: BTreeMap<String, Value> = BTreeMap::new();
    let (mut same, mut requests, mut failed) = (0, 0, Vec::new());
    let all = cases::read();
    for case in &all {
        let recorded = answers.entry(case.file.clone()).or_insert_with(|| {
            cases::read_json(&cases::corpus().join(format!("answers/{}.json", case.file)))
        });
        let expected = &recorded[&case.name];
        let mut server = Embedded::new();
        let found = Value::Array(cases::run(case, &mut server));
        let mut parts = Vec::new();
        cases::differences("", expected, &found, &mut parts);
        let id = format!("{}/{}", case.file, case.name);
        match (parts.is_empty(), known.get(id.as_str())) {
            (true, None) => {
                same += 1;
                requests += case.steps.len();
            }
            (true, Some(_)) => failed.push(format!("{id}: agrees now: take it off the list")),
            (false, Some(_)) => {}
            (false, None) => failed.push(format!("{id}:\n    {}", parts.join("\n    "))),
        }
        if !show.is_empty() && id.contains(&show) {
            println!("{id}: {}", json!(found));
        }
    }
    println!(
        "{same} behaviours of {} with the real server's answers ({requests} requests), {} listed differences",
        all.len(),
        known.len()
    );
    assert!(
        failed.is_empty(),
        "{} cases:\n{}",
        failed.len(),
        failed.join("\n")
    );
}
