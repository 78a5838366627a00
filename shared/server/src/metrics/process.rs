//! The metrics of the process that all of Prometheus's client libraries have.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use std::fmt;

/// Reads the process's usage when the metrics are written. Nothing is written on a system without
/// `/proc`, such as macOS.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(usage) = Usage::read() else {
            return Ok(());
        };
        let cpu = ConstCounter::new(usage.cpu_seconds);
        cpu.encode(encoder.encode_descriptor(
            "process_cpu",
            "Total user and system CPU time spent in seconds",
            Some(&Unit::Seconds),
            cpu.metric_type(),
        )?)?;
        let memory = ConstGauge::new(usage.resident_bytes);
        memory.encode(encoder.encode_descriptor(
            "process_resident_memory",
            "Resident memory size in bytes",
            Some(&Unit::Bytes),
            memory.metric_type(),
        )?)
    }
}

struct Usage {
    cpu_seconds: f64,
    resident_bytes: i64,
}

impl Usage {
    /// Reads `/proc/self`; `None` if it is absent.
    fn read() -> Option<Self> {
        // The name of the program, in parentheses, may contain spaces. The fields after it begin
        // with the third; the 14th and 15th are the user and system time (proc_pid_stat(5)).
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let (_, fields) = stat.rsplit_once(") ")?;
        let times = fields.split(' ').skip(11).take(2);
        let ticks: u64 = times.filter_map(|time| time.parse::<u64>().ok()).sum();
        let memory = std::fs::read_to_string("/proc/self/statm").ok()?;
        let pages: i64 = memory.split(' ').nth(1)?.parse().ok()?;
        let page = i64::try_from(rustix::param::page_size()).ok()?;
        Some(Self {
            cpu_seconds: ticks as f64 / rustix::param::clock_ticks_per_second() as f64,
            resident_bytes: pages.saturating_mul(page),
        })
    }
}
