//! `get --watch` and `events --watch`: the table on a terminal, lines elsewhere.

use crate::inspect::Inspected;
use driftless_harness::command::driftless;
use driftless_harness::process::PATIENCE;
use driftless_harness::terminal::Terminal;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use vt100::Color;

/// A running command whose lines are read at once; it is ended on drop.
struct Lines {
    child: Child,
    lines: Receiver<String>,
}

impl Lines {
    fn start(hub: &Inspected, line: &str) -> Self {
        let mut command = driftless(&hub.home());
        command
            .args(line.split(' '))
            .env("KUBECONFIG", hub.kubeconfig());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("start");
        let (send, lines) = channel();
        let out = BufReader::new(child.stdout.take().expect("stdout"));
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, lines }
    }

    /// Waits for a line with all of these words.
    fn until(&self, words: &[&str]) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("no line with {words:?}"));
            if words.iter().all(|word| line.contains(word)) {
                return line;
            }
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        // The process may already have exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn changes_are_followed() {
    let hub = Inspected::start();
    let (all, one) = (
        Lines::start(&hub, "get kustomizations -A --watch"),
        Lines::start(&hub, "get kustomizations apps -n team-a --watch"),
    );
    all.until(&["team-b", "\tFalse    \tTrue "]);
    one.until(&["apps", "\tFalse    \tTrue "]);
    let events = Lines::start(&hub, "events -A --watch");
    events.until(&["Deployment/team-a/web created"]);
    let environment = [("KUBECONFIG", hub.kubeconfig())];
    let environment = environment
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let terminal = Terminal::start(
        &hub.home(),
        (24, 120),
        &["get", "kustomizations", "-A", "-w"],
        &environment,
    );
    let row = |rows: &[String], suspended: &str| {
        let is_row =
            |row: &&String| row.starts_with("team-a") && row.contains(&format!("  {suspended} "));
        rows.iter().filter(is_row).count() == 1
    };
    terminal.until("the object", |rows| row(rows, "False"));
    assert_eq!(terminal.colours("T"), [Color::Idx(2)]);

    let done = hub.run("suspend kustomization apps -n team-a");
    assert_eq!(done.code, 0, "{}", done.err);
    all.until(&["team-a", "\tTrue     \tTrue "]);
    one.until(&["apps", "\tTrue     \tTrue "]);
    // The table is redrawn in place: the object has one row.
    let rows = terminal.until("the suspended object", |rows| row(rows, "True"));
    assert_eq!(
        rows.iter()
            .filter(|row| row.starts_with("NAMESPACE"))
            .count(),
        1
    );
    let ended = terminal.interrupt();
    assert_ne!(ended.code, Some(0));

    let file = hub.home().join("demo/fleet/team-b/apps/api.yaml");
    let text = std::fs::read_to_string(&file).expect("read");
    std::fs::write(
        &file,
        text.replace("replicas: 1", "replicas: 2") + "# changed\n",
    )
    .expect("write");
    events.until(&["NewArtifact", "team-b"]);
}
