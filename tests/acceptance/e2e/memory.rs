//! The memory of the reconcile and the drift function: measures the tables of infra/README.md.

use crate::world::World;
use driftless_harness::github::Change;
use driftless_harness::process::kill;
use driftless_tests::site::*;
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};

const FLEET: &str = "acme/memory";
const HUB: HubSpec<'static> = HubSpec {
    name: "hub",
    repository: FLEET,
    branch: "main",
    path: "./cluster",
};
/// The numbers of messages of the measured batches.
const BATCHES: [usize; 3] = [1, 5, 10];
/// The largest batch.
const MAX_BATCH: usize = 10;

/// A row of the table: a kind of object and the prefix of the objects' names.
struct Row {
    name: &'static str,
    kind: &'static str,
    prefix: &'static str,
}

const ROWS: [Row; 4] = [
    Row {
        name: "Kustomization with 50 objects",
        kind: "Kustomization",
        prefix: "small",
    },
    Row {
        name: "Kustomization with 250 objects of 1 KB",
        kind: "Kustomization",
        prefix: "large",
    },
    Row {
        name: "GitRepository of 1 MB",
        kind: "GitRepository",
        prefix: "light",
    },
    Row {
        name: "GitRepository of 32 MB",
        kind: "GitRepository",
        prefix: "heavy",
    },
];

fn objects(count: usize, at: usize) -> String {
    let filler = "x".repeat(1000);
    let object = |number: usize| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: cm-{at}-{number}\n  namespace: default\ndata:\n  text: {filler}\n"
        )
    };
    (0..count).map(object).collect::<Vec<_>>().join("---\n")
}

fn kustomization(name: &str) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {name}, namespace: flux-system}}\nspec:\n  \
         interval: 10h\n  path: ./{name}\n  prune: true\n  sourceRef: {{kind: GitRepository, name: flux-system}}\n"
    )
}

fn source(name: &str, url: &str) -> String {
    format!(
        "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {{name: {name}, namespace: flux-system}}\nspec:\n  \
         interval: 10h\n  url: {url}\n  ref: {{branch: main}}\n"
    )
}

/// Returns incompressible bytes.
fn noise(megabytes: usize, seed: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ (seed as u64 + 1);
    let mut bytes = Vec::with_capacity(megabytes << 20);
    while bytes.len() < megabytes << 20 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes
}

/// Returns the peak memory of a function's processes, in MiB.
fn peak(world: &World, function: &str) -> Option<u64> {
    let peaks = processes(world, function).filter_map(|process| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let peak = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))?;
        peak.split_whitespace().next()?.parse::<u64>().ok()
    });
    peaks.max().map(|kilobytes| kilobytes >> 10)
}

fn processes(world: &World, function: &str) -> impl Iterator<Item = u32> {
    let functions = world.ministack.functions().into_iter();
    functions.filter_map(move |(process, name)| name.contains(function).then_some(process))
}

/// `cargo test -p driftless-acceptance --release --test e2e -- --ignored memory_of_batches
/// --nocapture`
#[test]
#[ignore = "measures the table of infra/README.md"]
fn memory_of_batches() {
    let world = World::start(false, &[HUB], &[]);
    let mut cluster = Vec::new();
    let mut changes = Vec::new();
    for at in 0..MAX_BATCH {
        for (prefix, count) in [("small", 50), ("large", 250)] {
            let name = format!("{prefix}-{at}");
            changes.push(Change::write(
                &format!("{name}/all.yaml"),
                objects(count, at),
            ));
            cluster.push(kustomization(&name));
        }
        for (prefix, size) in [("light", 1), ("heavy", 32)] {
            let name = format!("{prefix}-{at}");
            let repository = format!("acme/{name}");
            world.commit(&repository, &[Change::write("blob", noise(size, at))]);
            cluster.push(source(&name, &format!("https://github.com/{repository}")));
        }
    }
    changes.push(Change::write("cluster/all.yaml", cluster.join("---\n")));
    world.commit(FLEET, &changes);
    world.sweep();
    let hub = world.cluster("hub");
    let names = ROWS
        .iter()
        .flat_map(|row| (0..MAX_BATCH).map(move |at| (row.kind, format!("{}-{at}", row.prefix))));
    let names: Vec<_> = names.collect();
    world.within(Duration::from_secs(900), "every object is ready", || {
        for (kind, name) in &names {
            let (status, _, message) = ready(hub, kind, "flux-system", name);
            if status != "True" {
                return Err(format!("{kind}/{name}: {message}"));
            }
        }
        Ok(())
    });
    println!(
        "| object | messages of a batch | peak of the process | time |\n| --- | --- | --- | --- |"
    );
    for row in &ROWS {
        for batch in BATCHES {
            if row.kind == "GitRepository" {
                // A new commit, so that each source is downloaded.
                for at in 0..batch {
                    let size = if row.prefix == "heavy" { 32 } else { 1 };
                    let repository = format!("acme/{}-{at}", row.prefix);
                    world.commit(
                        &repository,
                        &[Change::write("blob", noise(size, at + 100 * batch))],
                    );
                }
            }
            for process in processes(&world, "Reconcile") {
                kill(process);
            }
            let mut start = Instant::now();
            let mut answer = invoke(&world, row, batch);
            // The first invocations after a kill may fail: the runtime finds the dead process only
            // then.
            for _ in 0..5 {
                if answer.is_err() {
                    start = Instant::now();
                    answer = invoke(&world, row, batch);
                }
            }
            let answer = answer.expect("the function answers");
            assert_eq!(answer["batchItemFailures"], json!([]), "{answer}");
            let took = start.elapsed().as_secs_f64();
            let peak = peak(&world, "Reconcile").expect("a process of the function");
            println!("| {} | {batch} | {peak} MiB | {took:.1} s |", row.name);
        }
    }
}

/// Invokes the reconcile function with a batch.
fn invoke(world: &World, row: &Row, batch: usize) -> Result<Value, String> {
    let function = world.stack.output("ReconcileFunction");
    let answer = world.ministack.aws().invoke(function, &event(row, batch));
    answer.map_err(|error| format!("{error:?}"))
}

fn event(row: &Row, batch: usize) -> Value {
    let record = |at: usize| {
        let name = format!("{}-{at}", row.prefix);
        let object = json!({"kind": row.kind, "namespace": "flux-system", "name": name});
        let body = json!({"hub": "hub", "cause": "changed", "object": object}).to_string();
        json!({"messageId": format!("m{at}"), "receiptHandle": "r", "body": body, "attributes": {},
            "messageAttributes": {}, "eventSource": "aws:sqs"})
    };
    json!({"Records": (0..batch).map(record).collect::<Vec<_>>()})
}

/// The numbers of Kustomizations with 50 objects of 1 KB each.
const SWEPT: [usize; 2] = [20, 100];

/// `cargo test -p driftless-acceptance --release --test e2e -- --ignored memory_of_sweeps
/// --nocapture`
#[test]
#[ignore = "measures the table of infra/README.md"]
fn memory_of_sweeps() {
    let world = World::start(false, &[HUB], &[]);
    println!("| objects | peak, first sweep | peak, after five more |\n| --- | --- | --- |");
    for count in SWEPT {
        let names: Vec<String> = (0..count).map(|at| format!("swept-{at}")).collect();
        let files = names
            .iter()
            .enumerate()
            .map(|(at, name)| Change::write(&format!("{name}/all.yaml"), objects(50, at)));
        let cluster: Vec<String> = names.iter().map(|name| kustomization(name)).collect();
        let root = Change::write("cluster/all.yaml", cluster.join("---\n"));
        world.commit(FLEET, &files.chain([root]).collect::<Vec<_>>());
        world.sweep();
        let hub = world.cluster("hub");
        world.within(Duration::from_secs(900), "every object is ready", || {
            for name in &names {
                let (status, _, message) = ready(hub, "Kustomization", "flux-system", name);
                if status != "True" {
                    return Err(format!("{name}: {message}"));
                }
            }
            Ok(())
        });
        for process in processes(&world, "Drift") {
            kill(process);
        }
        let mut peaks = Vec::new();
        for sweeps in [2, 5] {
            (0..sweeps).for_each(|_| world.sweep());
            peaks.push(peak(&world, "Drift").expect("a process of the function"));
        }
        println!(
            "| {count} Kustomizations with 50 objects of 1 KB each | {} MiB | {} MiB |",
            peaks[0], peaks[1]
        );
    }
}
