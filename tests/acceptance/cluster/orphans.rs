//! No process outlives the tests, however they end.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use driftless_harness::process::{PATIENCE, Server};

/// Set for the inner run, which is killed.
const INNER: &str = "DRIFTLESS_TEST_STARTS_A_SERVER";

#[test]
fn a_killed_test_takes_its_servers_with_it() {
    if std::env::var_os(INNER).is_some() {
        start_and_wait();
    }
    let mut inner = Command::new(std::env::current_exe().expect("this test"))
        .args([
            "--exact",
            "a_killed_test_takes_its_servers_with_it",
            "--nocapture",
        ])
        .env(INNER, "yes")
        .stdout(Stdio::piped())
        .spawn()
        .expect("run this test again");
    let lines = BufReader::new(inner.stdout.take().expect("a pipe")).lines();
    let pid = lines
        .map_while(Result::ok)
        .find_map(|line| line.split_once("server: ").map(|(_, pid)| pid.to_owned()))
        .expect("the server's process id");
    assert!(runs(&pid));
    inner.kill().expect("kill the inner test");
    assert_eq!(inner.wait().expect("its end").signal(), Some(9));

    let start = Instant::now();
    while runs(&pid) {
        assert!(start.elapsed() < PATIENCE, "the process {pid} still runs");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a server that writes its own process id and ignores SIGTERM, and waits forever.
fn start_and_wait() -> ! {
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("log");
    let script = "trap '' TERM; echo $$; while :; do sleep 0.1; done";
    let shell = std::path::Path::new("/bin/sh");
    let _server = Server::start("stubborn", shell, ["-c", script], &[], &log);
    let pid = loop {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        if let Some(pid) = text.strip_suffix('\n') {
            break pid.to_owned();
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    println!("server: {pid}");
    loop {
        std::thread::park();
    }
}

/// Returns whether the process runs. A zombie does not.
fn runs(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .starts_with(" Z")
    })
}
