//! Execution environments of Lambda: each has its own caches and clock, serves one invocation at a
//! time, and is used again while it is warm.

use crate::rng::Rng;
use driftless_kernel::ports::{BlobCache, Ports, Throttle, WatchCache};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// An environment, with the caches that it keeps between its invocations.
pub struct Environment {
    /// The error of its clock in milliseconds.
    pub skew: i64,
    read: Arc<BlobCache>,
    watches: Arc<WatchCache>,
    files: Arc<driftless_kernel::file_cache::FileCache>,
    throttle: Arc<Throttle>,
}

impl Environment {
    /// Returns the ports of an invocation in this environment.
    pub fn ports(&self, ports: Ports) -> Ports {
        Ports {
            read: self.read.clone(),
            watches: self.watches.clone(),
            files: self.files.clone(),
            throttle: self.throttle.clone(),
            ..ports
        }
    }
}

/// The idle environments of each function.
pub struct Environments {
    idle: Mutex<BTreeMap<&'static str, Vec<Environment>>>,
    rng: Mutex<Rng>,
    /// The largest error of a clock in milliseconds.
    skew: u64,
    /// The number of invocations, of 10,000, after which the service ends the environment.
    recycled: u32,
}

impl Environments {
    /// Returns a service without an environment.
    pub fn new(rng: Rng, skew: u64, recycled: u32) -> Self {
        Self {
            idle: Mutex::default(),
            rng: Mutex::new(rng),
            skew,
            recycled,
        }
    }

    /// Returns the environment of the next invocation of a function: an idle one, or a cold one.
    pub fn begin(&self, function: &'static str) -> Environment {
        let mut idle = self.idle.lock().expect("the environments");
        idle.entry(function)
            .or_default()
            .pop()
            .unwrap_or_else(|| self.cold())
    }

    /// Keeps the environment of an invocation that returned. One whose invocation was cut off is
    /// lost.
    pub fn end(&self, function: &'static str, environment: Environment) {
        if !self
            .rng
            .lock()
            .expect("the generator")
            .chance(self.recycled)
        {
            let mut idle = self.idle.lock().expect("the environments");
            idle.entry(function).or_default().push(environment);
        }
    }

    fn cold(&self) -> Environment {
        let skew = match self.skew {
            0 => 0,
            most => {
                let number = self.rng.lock().expect("the generator").between(0, 2 * most);
                number as i64 - most as i64
            }
        };
        Environment {
            skew,
            read: Arc::default(),
            watches: Arc::default(),
            files: Arc::default(),
            throttle: Arc::default(),
        }
    }
}
