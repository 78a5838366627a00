//! The cold start of functions: from the start of the process to its first poll
//! of the Lambda runtime API, and its resident memory at that moment.
//!
//! `cargo run --release -p driftless-acceptance --bin coldstart -- [--runs N] [--max-ms MS]
//! [--max-mib MIB] BIN...`
//!
//! It measures the process on this machine: no sandbox start, no image fetch,
//! no handshake. If a median is above its limit, the exit code is not 0.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The time limit for the first poll: more than any function needs.
const PATIENCE: Duration = Duration::from_secs(10);

struct Options {
    runs: usize,
    max_ms: f64,
    max_mib: f64,
    binaries: Vec<String>,
}

/// The figures of one start.
struct Sample {
    ms: f64,
    mib: f64,
}

fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\nusage: coldstart [--runs N] [--max-ms MS] [--max-mib MIB] BIN...");
            return ExitCode::from(2);
        }
    };
    println!(
        "{:<28} {:>9} {:>28} {:>24}",
        "binary", "size MiB", "to /next min/median/p90 ms", "resident median/max MiB"
    );
    let mut slow = false;
    for binary in &options.binaries {
        match measure(binary, options.runs) {
            Ok(samples) => slow |= report(binary, &samples, &options),
            Err(error) => {
                eprintln!("{binary}: {error}");
                slow = true;
            }
        }
    }
    if slow {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn options(arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        runs: 40,
        max_ms: f64::INFINITY,
        max_mib: f64::INFINITY,
        binaries: Vec::new(),
    };
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        let mut number = || -> Result<f64, String> {
            let value = arguments
                .next()
                .ok_or(format!("{argument} needs a number"))?;
            value
                .parse()
                .map_err(|_| format!("{argument} {value}: not a number"))
        };
        match argument.as_str() {
            "--runs" => options.runs = number()? as usize,
            "--max-ms" => options.max_ms = number()?,
            "--max-mib" => options.max_mib = number()?,
            flag if flag.starts_with('-') => return Err(format!("unknown option {flag}")),
            binary => options.binaries.push(binary.to_owned()),
        }
    }
    if options.binaries.is_empty() || options.runs == 0 {
        return Err("nothing to measure".to_owned());
    }
    Ok(options)
}

fn measure(binary: &str, runs: usize) -> Result<Vec<Sample>, String> {
    // The first start is not counted: it reads the file into the page cache.
    sample(binary)?;
    (0..runs).map(|_| sample(binary)).collect()
}

fn sample(binary: &str) -> Result<Sample, String> {
    let api = TcpListener::bind("127.0.0.1:0").map_err(|e| e.to_string())?;
    let address = api.local_addr().map_err(|e| e.to_string())?;
    let start = Instant::now();
    let mut child = command(binary)
        .env("AWS_LAMBDA_RUNTIME_API", address.to_string())
        .spawn()
        .map_err(|e| format!("cannot start: {e}"))?;
    let polled = first_poll(api, &mut child);
    let ms = start.elapsed().as_secs_f64() * 1000.0;
    let mib = resident(child.id());
    let _ = child.kill();
    let _ = child.wait();
    let _connection = polled?;
    Ok(Sample { ms, mib: mib? })
}

fn command(binary: &str) -> Command {
    let mut command = Command::new(binary);
    command
        .env_clear()
        .envs([
            ("AWS_LAMBDA_FUNCTION_NAME", "bench"),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128"),
            ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
            ("AWS_LAMBDA_LOG_GROUP_NAME", "bench"),
            ("AWS_LAMBDA_LOG_STREAM_NAME", "bench"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("AWS_ENDPOINT_URL", "http://127.0.0.1:1"),
            ("DRIFTLESS_BUCKET", "bucket"),
            (
                "DRIFTLESS_QUEUE_URL",
                "http://127.0.0.1:1/000000000000/queue",
            ),
            ("DRIFTLESS_SECRETS_PREFIX", "driftless/"),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit());
    command
}

/// Waits for `GET ../next`. The connection is kept open without an answer, so that the process
/// waits as an idle function does.
///
/// Another thread waits in the kernel for the request, so that the bench takes no processor time
/// while the function starts.
fn first_poll(api: TcpListener, child: &mut Child) -> Result<TcpStream, String> {
    let (result, polled) = mpsc::channel();
    let address = api.local_addr().map_err(|e| e.to_string())?;
    let listener = std::thread::spawn(move || result.send(request(&api)));
    let start = Instant::now();
    let found = loop {
        // Only for a process that ends without a request: the request itself ends the wait.
        match polled.recv_timeout(Duration::from_millis(500)) {
            Ok(found) => break found,
            Err(_) if start.elapsed() > PATIENCE => {
                break Err(format!("did not poll within {PATIENCE:?}"));
            }
            Err(_) => match child.try_wait() {
                Ok(Some(status)) => break Err(format!("ended before it polled: {status}")),
                _ => continue,
            },
        }
    };
    // Ends a thread that still waits for a connection.
    drop(TcpStream::connect(address));
    drop(polled);
    let _ = listener.join();
    found
}

/// Accepts a connection and reads the first line of its request.
fn request(api: &TcpListener) -> Result<TcpStream, String> {
    let (connection, _) = api.accept().map_err(|e| e.to_string())?;
    connection
        .set_read_timeout(Some(PATIENCE))
        .map_err(|e| e.to_string())?;
    let mut line = String::new();
    BufReader::new(&connection)
        .read_line(&mut line)
        .map_err(|e| e.to_string())?;
    match line.starts_with("GET ") && line.contains("/runtime/invocation/next") {
        true => Ok(connection),
        false => Err(format!("the first request was {}, not a poll", line.trim())),
    }
}

/// Returns `VmRSS` in MiB.
fn resident(pid: u32) -> Result<f64, String> {
    let status =
        std::fs::read_to_string(format!("/proc/{pid}/status")).map_err(|e| e.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    Ok(kib.ok_or("no VmRSS")? / 1024.0)
}

/// Prints a line. Returns whether a median is above its limit.
fn report(binary: &str, samples: &[Sample], options: &Options) -> bool {
    let size = std::fs::metadata(binary).map_or(0, |file| file.len()) as f64 / f64::from(1 << 20);
    let times = sorted(samples.iter().map(|sample| sample.ms));
    let memory = sorted(samples.iter().map(|sample| sample.mib));
    let name = std::path::Path::new(binary);
    let name = name
        .file_name()
        .map_or(binary.into(), |name| name.to_string_lossy());
    let (ms, mib) = (at(&times, 0.5), at(&memory, 0.5));
    println!(
        "{name:<28} {size:>9.1} {:>28} {:>24}",
        format!("{:.1} / {ms:.1} / {:.1}", times[0], at(&times, 0.9)),
        format!("{mib:.1} / {:.1}", at(&memory, 1.0)),
    );
    for (unit, value, limit) in [("ms", ms, options.max_ms), ("MiB", mib, options.max_mib)] {
        if value > limit {
            eprintln!("{name}: the median of {value:.1} {unit} is above {limit} {unit}");
        }
    }
    ms > options.max_ms || mib > options.max_mib
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Returns the quantile of the sorted values.
fn at(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len() - 1;
    sorted[(last as f64 * share).round() as usize]
}
