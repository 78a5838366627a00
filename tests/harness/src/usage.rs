//! Reads the memory and processor time that a process has used, from Linux's `/proc`.

/// Returns this process' peak of resident memory in KiB; 0 if the system does not report it.
pub fn peak() -> u64 {
    peak_of("self")
}

/// Returns the peak of a process, given by its number or as `self`.
pub fn peak_of(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmHWM:"));
    line.and_then(|l| l.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or_default()
}

/// Returns the processor time that this process has used, in milliseconds.
pub fn used() -> u64 {
    used_by("self")
}

/// Returns the processor time of a process, given by its number or as `self`.
pub fn used_by(process: &str) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let behind = stat.rsplit(')').next().unwrap_or_default();
    let ticks = behind.split_whitespace().skip(11).take(2);
    10 * ticks.filter_map(|t| t.parse::<u64>().ok()).sum::<u64>()
}
