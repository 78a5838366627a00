//! A client of one server, as an administrator.

use driftless_apiserver::{Clock, Request, Response, Server, User};

pub struct Client {
    pub server: Server,
    asked: u64,
}

/// Returns a clock that does not move; each seed has its own random numbers.
pub fn clock(seed: u64) -> Clock {
    Clock {
        now: "2026-01-01T00:00:00Z".parse().unwrap(),
        seed: u128::from(seed) << 64,
    }
}

impl Client {
    pub fn new() -> Self {
        Self::of(Server::new(clock(0)))
    }

    pub fn of(server: Server) -> Self {
        Self { server, asked: 0 }
    }

    pub fn ask(&mut self, method: &str, target: &str, media: &str, body: &[u8]) -> Response {
        self.asked += 1;
        let request = Request::new(method, target, User::admin("admin")).with_body(media, body);
        self.server.handle(&request, clock(self.asked))
    }
}
