//! A real server of NATS with JetStream.

use crate::ports;
use crate::process::{Server, kill};
use crate::tools::NATS_SERVER;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;

/// A server on a loopback port, with its own store.
pub struct NatsServer {
    port: u16,
    args: Vec<String>,
    directory: TempDir,
    server: Mutex<Option<Server>>,
}

impl NatsServer {
    /// Starts a server, and waits until it answers.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with these additional flags, and waits until it answers.
    pub fn start_with(args: &[&str]) -> Self {
        let server = Self {
            port: ports::free(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            directory: tempfile::tempdir().expect("a directory for the server of NATS"),
            server: Mutex::default(),
        };
        server.resume();
        server
    }

    /// Returns the address, as `nats://HOST:PORT`.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Ends the server as a loss of power of its process does (SIGKILL). Its store stays.
    pub fn kill(&self) {
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut server) = server.take() {
            kill(server.process());
            server.stop();
        }
    }

    /// Starts the server again with its store, if it does not run.
    pub fn resume(&self) {
        let mut running = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_some() {
            return;
        }
        let log = self.directory.path().join("server.log");
        let port = self.port.to_string();
        let store = self.store();
        let mut args = vec!["-js", "-a", "127.0.0.1", "-p", &port, "-sd", &store];
        args.extend(self.args.iter().map(String::as_str));
        let program = NATS_SERVER.path();
        let mut server = Server::start("nats-server", &program, args, &[], &log);
        server.wait_ready(|| TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok());
        *running = Some(server);
    }

    fn store(&self) -> String {
        let store: &Path = self.directory.path();
        store.join("store").display().to_string()
    }
}
