//! Proxies on loopback that require a login.

use crate::ports;
use crate::process::Server;
use crate::tools::PROXIES;
use std::net::TcpStream;
use tempfile::TempDir;

/// A running proxy; it ends with its owner.
pub struct Proxy {
    _server: Server,
    url: String,
    _directory: TempDir,
}

impl Proxy {
    /// Starts an HTTP proxy with CONNECT for this user.
    pub fn http(user: &str, password: &str) -> Self {
        let login = format!("{user}:{password}");
        Self::start("http", "proxy", |port| {
            let threads = ["--num-workers", "1", "--num-acceptors", "1"];
            let place = ["--hostname", "127.0.0.1", "--port", port];
            let login = ["--basic-auth", &login];
            [&threads[..], &place, &login]
                .concat()
                .iter()
                .map(|one| (*one).to_owned())
                .collect()
        })
    }

    /// Starts a SOCKS 5 proxy for this user.
    pub fn socks(user: &str, password: &str) -> Self {
        Self::start("socks5", "pproxy", |port| {
            let listen = format!("socks5://127.0.0.1:{port}#{user}:{password}");
            // Every connection must log in, not only the first of a client.
            vec!["-l".to_owned(), listen, "--auth".to_owned(), "0".to_owned()]
        })
    }

    fn start(scheme: &str, program: &str, arguments: impl Fn(&str) -> Vec<String>) -> Self {
        let port = ports::free();
        let directory = tempfile::tempdir().expect("a directory");
        let program = PROXIES.path().with_file_name(program);
        let log = directory.path().join("log");
        let home = [("HOME".to_owned(), directory.path().display().to_string())];
        let mut server = Server::start(scheme, &program, arguments(&port.to_string()), &home, &log);
        server.wait_ready(|| TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self {
            _server: server,
            url: format!("{scheme}://127.0.0.1:{port}"),
            _directory: directory,
        }
    }

    /// Returns `http://127.0.0.1:PORT` or `socks5://127.0.0.1:PORT`.
    pub fn url(&self) -> &str {
        &self.url
    }
}
