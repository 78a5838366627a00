//! What a piece of work cost: seconds, requests, processor time, memory.

use driftless_harness::cluster::{Cluster, Request};
use driftless_harness::usage;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The client of this program: its requests are not counted, nor are those of discovery.
const OWN: &str = "ureq";

/// The figures of one piece of work.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    pub system: String,
    pub world: String,
    pub size: usize,
    pub work: String,
    pub seconds: f64,
    /// Requests by verb and kind of resource, such as `patch kustomizations/status`.
    pub requests: BTreeMap<String, usize>,
    /// The bytes of answers, for a system at rest.
    pub bytes: Option<u64>,
    #[serde(rename = "cpuSeconds")]
    pub cpu: f64,
    /// The peak of resident memory since the start of the system.
    #[serde(rename = "peakMiB")]
    pub peak_mib: f64,
}

impl Figures {
    /// Returns the requests with one verb.
    pub fn of(&self, verb: &str) -> usize {
        let requests = self.requests.iter();
        let found = requests.filter(|(name, _)| name.split(' ').next() == Some(verb));
        found.map(|(_, count)| count).sum()
    }

    /// Returns all requests.
    pub fn total(&self) -> usize {
        self.requests.values().sum()
    }
}

/// The counters at the start of a piece of work.
pub struct Counters<'a> {
    cluster: &'a Cluster,
    processes: Vec<u32>,
    requests: usize,
    cpu: u64,
    bytes: u64,
}

impl<'a> Counters<'a> {
    pub fn read(cluster: &'a Cluster, processes: Vec<u32>) -> Self {
        Self {
            cluster,
            requests: cluster.requests().len(),
            cpu: used(&processes),
            bytes: bytes(cluster),
            processes,
        }
    }

    /// Returns the figures since the start.
    pub fn figures(
        &self,
        system: &str,
        (world, size): (&str, usize),
        work: &str,
        time: Duration,
    ) -> Figures {
        let cpu = used(&self.processes) - self.cpu;
        let bytes = bytes(self.cluster) - self.bytes;
        let peaks = self.processes.iter();
        let peak: u64 = peaks.map(|one| usage::peak_of(&one.to_string())).sum();
        let requests = self.cluster.requests().split_off(self.requests);
        Figures {
            system: system.to_owned(),
            world: world.to_owned(),
            size,
            work: work.to_owned(),
            seconds: time.as_secs_f64(),
            requests: by_name(&requests),
            bytes: (work == "rest").then_some(bytes),
            cpu: cpu as f64 / 1000.0,
            peak_mib: peak as f64 / 1024.0,
        }
    }
}

fn used(processes: &[u32]) -> u64 {
    let times = processes.iter();
    times.map(|one| usage::used_by(&one.to_string())).sum()
}

fn by_name(requests: &[Request]) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for request in requests {
        if request.agent.starts_with(OWN) || request.resource.is_empty() {
            continue;
        }
        let resource = match request.subresource.as_str() {
            "" => request.resource.clone(),
            sub => format!("{}/{sub}", request.resource),
        };
        *all.entry(format!("{} {resource}", request.verb))
            .or_default() += 1;
    }
    all
}

/// Returns the bytes of the answers and of the events of watches so far.
fn bytes(cluster: &Cluster) -> u64 {
    let metrics = cluster.api().text("/metrics");
    let names = [
        "apiserver_response_sizes_sum{",
        "apiserver_watch_events_sizes_sum{",
    ];
    let lines = metrics
        .lines()
        .filter(|line| names.iter().any(|name| line.starts_with(name)));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum::<f64>() as u64
}
