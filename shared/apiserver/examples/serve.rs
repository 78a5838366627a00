//! Serves one embedded API server over plain HTTP on loopback, for a look with kubectl:
//!
//! ```text
//! cargo run -p driftless-apiserver --example serve -- 8001
//! kubectl --server http://127.0.0.1:8001 get namespaces
//! ```
//!
//! Everyone is an administrator, and nothing is kept. The clock and the seed come from here: the crate has neither.

#![expect(clippy::print_stdout, reason = "it says where it listens")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use driftless_apiserver::{Body, Moment, Request, Response, Server, User, Watch};

struct Shared {
    server: Mutex<Server>,
    asked: AtomicU64,
}

impl Shared {
    fn moment(&self) -> Moment {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        Moment {
            now: jiff::Timestamp::now(),
            seed: u128::from(asked) << 32,
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Server) -> T) -> T {
        work(&mut self.server.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn main() -> std::io::Result<()> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "8001".into());
    let listener = TcpListener::bind(format!("127.0.0.1:{port}"))?;
    println!("http://{}", listener.local_addr()?);
    let start = Moment {
        now: jiff::Timestamp::now(),
        seed: 0,
    };
    let shared = Arc::new(Shared {
        server: Mutex::new(Server::new(start)),
        asked: AtomicU64::new(1),
    });
    for stream in listener.incoming() {
        let (stream, shared) = (stream?, Arc::clone(&shared));
        std::thread::spawn(move || serve(&stream, &shared));
    }
    Ok(())
}

fn serve(stream: &TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    while let Some(request) = read(&mut reader)? {
        let response = shared.with(|server| {
            let response = server.handle(&request, shared.moment());
            server.settle(&shared.moment());
            response
        });
        write(stream, response, shared)?;
    }
    Ok(())
}

fn read(reader: &mut BufReader<&TcpStream>) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut parts = line.split_whitespace();
    let method = parts.next().unwrap_or_default().to_owned();
    let target = parts.next().unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut request = Request {
        method,
        path: path.to_owned(),
        query: query.to_owned(),
        user: User::admin("admin"),
        ..Request::default()
    };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        let header = (name.to_owned(), value.trim().to_owned());
        request.headers.push(header);
    }
    let length = request.header("content-length").parse().unwrap_or(0);
    request.body = vec![0; length];
    reader.read_exact(&mut request.body)?;
    Ok(Some(request))
}

fn write(mut stream: &TcpStream, response: Response, shared: &Shared) -> std::io::Result<()> {
    let media = response.content_type().to_owned();
    let mut head = format!(
        "HTTP/1.1 {} -\r\nContent-Type: {media}\r\n",
        response.status
    );
    for (name, value) in &response.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let body = match response.body {
        Body::Watch(watch) => {
            stream.write_all(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes())?;
            return stream_events(stream, *watch, shared);
        }
        Body::Json(value, _) => value.to_string(),
        Body::Text(text) => text,
    };
    stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes())
}

fn stream_events(mut stream: &TcpStream, mut watch: Watch, shared: &Shared) -> std::io::Result<()> {
    let rounds = watch.timeout_seconds.unwrap_or(3600) * 20;
    for _ in 0..rounds {
        for event in shared.with(|server| server.poll(&mut watch)) {
            let line = format!("{event}\n");
            stream.write_all(format!("{:x}\r\n{line}\r\n", line.len()).as_bytes())?;
        }
        if watch.ended() {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(50));
    }
    stream.write_all(b"0\r\n\r\n")
}
