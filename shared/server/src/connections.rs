//! The HTTP server with a limit of connections, and the choice of the connection to close when
//! there are too many.
//!
//! Each connection carries one request. When all places are taken, the connection whose request has
//! been incomplete for the longest time is closed for the next one, so that slow senders cannot
//! block others.

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

/// The limits of simultaneous connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLimits {
    /// The maximum number of all connections.
    pub(crate) all: usize,
    /// The maximum number from one remote address, which for IPv6 is a /64 network.
    pub(crate) of_one: usize,
}

impl Default for ConnectionLimits {
    /// Returns limits below the usual limit of open files of a process.
    fn default() -> Self {
        Self {
            all: 512,
            of_one: 256,
        }
    }
}

/// The timeout of the headers of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// The size of the read buffer of a connection in bytes, which is also the maximum size of the
/// headers.
const READ_AHEAD: usize = 64 << 10;
/// The delay after a failed accept, for example because the process has too many open files.
const ACCEPT_DELAY: Duration = Duration::from_millis(100);

/// The client of a request, for handlers.
#[derive(Clone)]
pub(crate) struct Caller {
    /// The remote address.
    pub(crate) address: SocketAddr,
    place: Arc<Slot>,
}

impl Caller {
    /// Records that the request is complete: from now on the connection is not closed for another
    /// one.
    pub(crate) fn request_complete(&self) {
        self.place.book.set_served(self.place.number);
    }
}

/// Counts connections that came when all places were taken, by result: `replaced` another one, or
/// `refused`.
pub(crate) type Count = Arc<dyn Fn(&'static str) + Send + Sync>;

/// Serves until `stop` ends, and then until the complete requests are answered.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    count: Count,
    places: ConnectionLimits,
    stop: impl Future<Output = ()>,
) {
    let book = Arc::new(ConnectionTable {
        places,
        count,
        connections: Mutex::default(),
    });
    // Dropping the set ends all connections.
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
                    book.set_task(number, task);
                }
            }
            Err(error) if is_client_error(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "connection not accepted");
                tokio::time::sleep(ACCEPT_DELAY).await;
            }
        }
    }
    drop(listener);
    book.end_unserved();
    while tasks.join_next().await.is_some() {}
}

/// Returns whether the client closed the connection before it was accepted.
fn is_client_error(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionReset | Interrupted
    )
}

/// Serves the one request of a connection.
async fn connection(stream: TcpStream, router: Router, caller: Caller) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (router, caller) = (router.clone(), caller.clone());
        async move {
            let mut request = request.map(Body::new);
            if request.body().is_end_stream() {
                caller.request_complete();
            }
            request.extensions_mut().insert(caller);
            router.oneshot(request).await
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(READ_AHEAD)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "connection ended");
    }
}

/// The open connections.
struct ConnectionTable {
    places: ConnectionLimits,
    count: Count,
    /// The connections by number; the lowest is the oldest.
    connections: Mutex<Connections>,
}

#[derive(Default)]
struct Connections {
    count: u64,
    known: BTreeMap<u64, OpenConnection>,
}

struct OpenConnection {
    origin: IpAddr,
    /// True if the request is complete.
    served: bool,
    task: Option<AbortHandle>,
}

/// The entry of a connection in the book, which is removed on drop.
struct Slot {
    number: u64,
    book: Arc<ConnectionTable>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.book.lock().known.remove(&self.number);
    }
}

impl ConnectionTable {
    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a place to a new connection, if needed that of another one; `None` if all candidates
    /// are being served.
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
            let is_replaced = connections.end_oldest(crowd);
            (self.count)(if is_replaced { "replaced" } else { "refused" });
            if !is_replaced {
                return None;
            }
        }
        connections.count += 1;
        let number = connections.count;
        let known = OpenConnection {
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

    fn set_task(&self, number: u64, task: AbortHandle) {
        if let Some(known) = self.lock().known.get_mut(&number) {
            known.task = Some(task);
        }
    }

    fn set_served(&self, number: u64) {
        if let Some(known) = self.lock().known.get_mut(&number) {
            known.served = true;
        }
    }

    /// Closes all connections without a complete request.
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

    /// Returns the origin with the most connections.
    fn largest(&self) -> Option<IpAddr> {
        let mut crowds: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for known in self.known.values() {
            *crowds.entry(known.origin).or_default() += 1;
        }
        let largest = crowds.into_iter().max_by_key(|(_, count)| *count);
        largest.map(|(origin, _)| origin)
    }

    /// Closes the oldest connection of an origin whose request is incomplete; returns whether there
    /// was one.
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

/// Returns the unit of the limit: an IPv4 address, or the /64 network of an IPv6 address, which one
/// customer usually has.
fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_table(all: usize, of_one: usize) -> Arc<ConnectionTable> {
        Arc::new(ConnectionTable {
            places: ConnectionLimits { all, of_one },
            count: Arc::new(|_| ()),
            connections: Mutex::default(),
        })
    }

    fn from(text: &str) -> SocketAddr {
        SocketAddr::new(text.parse().unwrap(), 4000)
    }

    fn numbers(book: &ConnectionTable) -> Vec<u64> {
        book.lock().known.keys().copied().collect()
    }

    #[test]
    fn the_oldest_connection_of_the_largest_origin_is_closed() {
        let book = new_table(4, 3);
        let admit = |address: &str| book.admit(from(address));
        let slots: Vec<_> = ["10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.1"]
            .iter()
            .map(|address| admit(address).unwrap())
            .collect();
        // A fourth connection of one address: its oldest is closed.
        let fifth = admit("10.0.0.1").unwrap();
        assert_eq!(numbers(&book), [2, 3, 4, 5]);
        // A connection of another address: the oldest of the largest origin is closed.
        let sixth = admit("10.0.0.3").unwrap();
        assert_eq!(numbers(&book), [2, 4, 5, 6]);
        drop((slots, fifth));
        assert_eq!(numbers(&book), [6]);
        drop(sixth);
        assert_eq!(numbers(&book), [0; 0]);
    }

    #[test]
    fn a_served_connection_is_not_closed() {
        let book = new_table(4, 2);
        let admit = |address: &str| book.admit(from(address));
        let (first, second) = (admit("::1").unwrap(), admit("::1").unwrap());
        book.set_served(first.number);
        let third = admit("::1").unwrap();
        assert_eq!(numbers(&book), [1, 3]);
        book.set_served(third.number);
        assert!(admit("::1").is_none());
        assert!(admit("127.0.0.1").is_some());
        drop(second);
    }

    #[test]
    fn an_ipv6_network_is_one_origin() {
        let book = new_table(4, 1);
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
