//! Free loopback ports.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Ports below Linux's ephemeral range (32768 and up), so that no outgoing
/// connection takes the port of a server that is down for a while.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// Returns a loopback port that nothing listens on. A process gets each port once;
/// processes start at different numbers.
pub fn free() -> u16 {
    let start = (std::process::id() % u32::from(COUNT)) as u16;
    let spread = start.wrapping_mul(17) % COUNT;
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        let port = FIRST + (spread + step) % COUNT;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no free loopback port in {FIRST}..{}", FIRST + COUNT);
}
