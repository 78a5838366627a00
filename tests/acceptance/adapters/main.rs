//! The adapters against real components: one suite for each port over every implementation of it
//! (what holds in memory holds in a directory, in AWS and on NATS), GitHub with its failures, and
//! API servers: a real one and an embedded one.

mod aws_logins;
mod blobs;
mod buckets;
mod charts;
mod clouds;
mod cluster;
mod github;
mod key_services;
mod keys;
mod nats_connection;
mod pull_requests;
mod queue;
mod target;

use driftless_harness::aws::MiniStack;
use driftless_harness::nats::NatsServer;
use driftless_nats::{Nats, NatsOptions};
use std::sync::OnceLock;

/// Returns the one MiniStack of this binary's tests.
fn ministack() -> &'static MiniStack {
    static AWS: OnceLock<MiniStack> = OnceLock::new();
    AWS.get_or_init(MiniStack::start)
}

async fn settings() -> driftless_adapters::aws::Settings {
    driftless_adapters::aws::settings_at(&ministack().url(), "us-east-1", "test", "test").await
}

/// Returns the one server of NATS of this binary's tests.
fn nats_server() -> &'static NatsServer {
    static SERVER: OnceLock<NatsServer> = OnceLock::new();
    SERVER.get_or_init(NatsServer::start)
}

/// Connects to an installation whose streams have this prefix.
async fn nats(prefix: &str) -> Nats {
    let options = NatsOptions {
        servers: vec![nats_server().url()],
        credentials: None,
        certificate_authority: None,
        prefix: prefix.to_owned(),
        replicas: 1,
    };
    driftless_nats::connect(&options).await.expect("connect")
}
