//! Connections: how many there may be, and which one has to go when there are too many.
//!
//! Each connection carries one request. Whoever has not sent a whole request yet holds a place and nothing else, so the one
//! that has been at it longest gives its place to the next: a sender that takes its time keeps nobody else waiting.

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tower::ServiceExt as _;

/// How many connections there may be at one time.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// In all.
    pub all: usize,
    /// Of one remote address, which for IPv6 is a network of 64 bits.
    pub of_one: usize,
}

impl Default for Places {
    /// Below the number of files that a process may open nearly everywhere.
    fn default() -> Self {
        Self {
            all: 512,
            of_one: 256,
        }
    }
}

/// How long the head of a request may take.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Bytes that are read ahead for a connection: the most of a request's head, too.
const READ_AHEAD: usize = 64 << 10;
/// How long to wait when the process can open no more files.
const NO_FILES: Duration = Duration::from_millis(100);

/// Whose request it is, for handlers.
#[derive(Clone)]
pub struct Caller {
    /// The remote address.
    pub address: SocketAddr,
    place: Arc<Slot>,
}

impl Caller {
    /// Says that the request is whole: from now on it is our turn, and the connection stays.
    pub fn has_sent(&self) {
        self.place.book.is_served(self.place.number);
    }
}

/// Counts what became of who came when there was no place: `replaced` another one, or `refused`.
pub type Count = Arc<dyn Fn(&'static str) + Send + Sync>;

/// Serves until `stop` ends, then lets requests end that are whole.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    count: Count,
    places: Places,
    stop: impl Future<Output = ()>,
) {
    let book = Arc::new(Book {
        places,
        count,
        connections: Mutex::default(),
    });
    // Ends every connection when it is dropped.
    let mut tasks = JoinSet::new();
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => accepted,
        };
        while tasks.try_join_next().is_some() {}
        match accepted {
            Ok((stream, address)) => {
                if let Some(place) = book.admit(address) {
                    let number = place.number;
                    let caller = Caller {
                        address,
                        place: Arc::new(place),
                    };
                    let task = tasks.spawn(connection(stream, router.clone(), caller));
                    book.runs_as(number, task);
                }
            }
            Err(error) if is_of_the_client(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "connection not accepted");
                tokio::time::sleep(NO_FILES).await;
            }
        }
    }
    drop(listener);
    book.end_unserved();
    while tasks.join_next().await.is_some() {}
}

/// A client that went away between its connection and our look at it.
fn is_of_the_client(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionReset | Interrupted
    )
}

/// One request and its answer.
async fn connection(stream: TcpStream, router: Router, caller: Caller) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (router, caller) = (router.clone(), caller.clone());
        async move {
            let mut request = request.map(Body::new);
            if request.body().is_end_stream() {
                caller.has_sent();
            }
            request.extensions_mut().insert(caller);
            router.oneshot(request).await
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(READ_AHEAD)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "connection ended");
    }
}

/// Who is connected.
struct Book {
    places: Places,
    count: Count,
    /// By number: the oldest first.
    connections: Mutex<Connections>,
}

#[derive(Default)]
struct Connections {
    count: u64,
    known: BTreeMap<u64, Known>,
}

struct Known {
    origin: IpAddr,
    /// Its request is whole.
    served: bool,
    task: Option<AbortHandle>,
}

/// A connection's entry in the book, taken out when it is dropped.
struct Slot {
    number: u64,
    book: Arc<Book>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.book.lock().known.remove(&self.number);
    }
}

impl Book {
    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a new connection a place; none when everybody is being served who could go for it.
    fn admit(self: &Arc<Self>, address: SocketAddr) -> Option<Slot> {
        let origin = origin(address.ip());
        let mut connections = self.lock();
        let crowd = if connections.of(origin) >= self.places.of_one {
            Some(origin)
        } else if connections.known.len() >= self.places.all {
            connections.largest()
        } else {
            None
        };
        if let Some(crowd) = crowd {
            let gone = connections.end_oldest(crowd);
            (self.count)(if gone { "replaced" } else { "refused" });
            if !gone {
                return None;
            }
        }
        connections.count += 1;
        let number = connections.count;
        let known = Known {
            origin,
            served: false,
            task: None,
        };
        connections.known.insert(number, known);
        Some(Slot {
            number,
            book: self.clone(),
        })
    }

    fn runs_as(&self, number: u64, task: AbortHandle) {
        if let Some(known) = self.lock().known.get_mut(&number) {
            known.task = Some(task);
        }
    }

    fn is_served(&self, number: u64) {
        if let Some(known) = self.lock().known.get_mut(&number) {
            known.served = true;
        }
    }

    /// Ends whoever has not sent a whole request yet.
    fn end_unserved(&self) {
        let connections = self.lock();
        let waiting = connections.known.values().filter(|known| !known.served);
        waiting
            .filter_map(|known| known.task.as_ref())
            .for_each(AbortHandle::abort);
    }
}

impl Connections {
    fn of(&self, origin: IpAddr) -> usize {
        let same = self.known.values().filter(|known| known.origin == origin);
        same.count()
    }

    /// The origin with the most connections.
    fn largest(&self) -> Option<IpAddr> {
        let mut crowds: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for known in self.known.values() {
            *crowds.entry(known.origin).or_default() += 1;
        }
        let largest = crowds.into_iter().max_by_key(|(_, count)| *count);
        largest.map(|(origin, _)| origin)
    }

    /// Ends the oldest connection of an origin whose request is not whole yet; returns whether there was one.
    fn end_oldest(&mut self, origin: IpAddr) -> bool {
        let mut waiting = self.known.iter();
        let oldest = waiting.find(|(_, known)| known.origin == origin && !known.served);
        let Some(number) = oldest.map(|(number, _)| *number) else {
            return false;
        };
        let task = self.known.remove(&number).and_then(|known| known.task);
        if let Some(task) = task {
            task.abort();
        }
        true
    }
}

/// Who counts as one: an address, and for IPv6 the network that one customer has.
fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(all: usize, of_one: usize) -> Arc<Book> {
        Arc::new(Book {
            places: Places { all, of_one },
            count: Arc::new(|_| ()),
            connections: Mutex::default(),
        })
    }

    fn from(text: &str) -> SocketAddr {
        SocketAddr::new(text.parse().unwrap(), 4000)
    }

    fn numbers(book: &Book) -> Vec<u64> {
        book.lock().known.keys().copied().collect()
    }

    #[test]
    fn the_oldest_of_the_crowd_goes() {
        let book = book(4, 3);
        let admit = |address: &str| book.admit(from(address));
        let held: Vec<_> = ["10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.1"]
            .iter()
            .map(|address| admit(address).unwrap())
            .collect();
        // One more of an address that has three: its oldest goes.
        let fifth = admit("10.0.0.1").unwrap();
        assert_eq!(numbers(&book), [2, 3, 4, 5]);
        // One more of another: the oldest of the largest crowd goes, not that of others.
        let sixth = admit("10.0.0.3").unwrap();
        assert_eq!(numbers(&book), [2, 4, 5, 6]);
        drop((held, fifth));
        assert_eq!(numbers(&book), [6]);
        drop(sixth);
        assert_eq!(numbers(&book), [0; 0]);
    }

    #[test]
    fn who_is_served_stays() {
        let book = book(4, 2);
        let admit = |address: &str| book.admit(from(address));
        let (first, second) = (admit("::1").unwrap(), admit("::1").unwrap());
        book.is_served(first.number);
        let third = admit("::1").unwrap();
        assert_eq!(numbers(&book), [1, 3]);
        book.is_served(third.number);
        assert!(admit("::1").is_none());
        assert!(admit("127.0.0.1").is_some());
        drop(second);
    }

    #[test]
    fn a_network_of_ipv6_is_one() {
        let book = book(4, 1);
        let first = book.admit(from("2001:db8::1")).unwrap();
        let _second = book.admit(from("2001:db8::2")).unwrap();
        assert_eq!(numbers(&book), [2]);
        let _other = book.admit(from("2001:db8:0:1::1")).unwrap();
        assert_eq!(numbers(&book), [2, 3]);
        drop(first);
        let _mapped = book.admit(from("::ffff:10.0.0.1")).unwrap();
        let _plain = book.admit(from("10.0.0.1")).unwrap();
        assert_eq!(numbers(&book), [2, 3, 5]);
    }
}
