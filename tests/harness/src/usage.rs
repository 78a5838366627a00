//! What this process has used of the machine, as Linux's `/proc` says.

/// Returns the process' peak of resident memory in KiB; 0 where the system does not say it.
pub fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmHWM:"));
    line.and_then(|l| l.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or_default()
}

/// Returns the milliseconds of a processor that the process has used.
pub fn used() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind = stat.rsplit(')').next().unwrap_or_default();
    let ticks = behind.split_whitespace().skip(11).take(2);
    10 * ticks.filter_map(|t| t.parse::<u64>().ok()).sum::<u64>()
}
