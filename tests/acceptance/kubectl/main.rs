//! kubectl 1.32 prints the same for the embedded API server as for the real kube-apiserver: each
//! line of `commands.txt` is run against both, and the outputs are compared.

mod normal;
mod session;

use std::net::SocketAddr;
use std::sync::Arc;

use driftless_adapters::embedded::Embedded;
use driftless_adapters::local::SystemClock;
use driftless_apiserver::User;
use driftless_harness::cluster::{ADMIN, Cluster};
use session::{Output, Session};

/// Returns the user of both kubeconfigs.
fn administrator() -> User {
    User {
        uid: ADMIN.to_owned(),
        ..User::admin(ADMIN)
    }
}

/// The part of a command's result that must be the same on both servers.
enum Same {
    /// The exit code and the output.
    Output,
    /// The exit code and the lines of the output, in any order.
    Lines,
    /// Only the exit code.
    Code,
}

impl Same {
    fn holds(&self, left: &Output, right: &Output) -> bool {
        left.code == right.code
            && match self {
                Self::Output => left.text == right.text,
                Self::Lines => sorted(&left.text) == sorted(&right.text),
                Self::Code => true,
            }
    }
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// A command, and the part of its result that is compared.
struct Line {
    arguments: Vec<String>,
    same: Same,
}

fn lines() -> Vec<Line> {
    let text = include_str!("commands.txt").lines();
    text.filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (same, command) = match line.split_at(1) {
                ("!", command) => (Same::Code, command),
                ("~", command) => (Same::Lines, command),
                _ => (Same::Output, line),
            };
            Line {
                arguments: words(command),
                same,
            }
        })
        .collect()
}

/// Splits a line into words at spaces; single quotes keep spaces.
fn words(line: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut quoted = false;
    for letter in line.trim().chars() {
        match letter {
            '\'' => quoted = !quoted,
            ' ' if !quoted => out.push(String::new()),
            other => out.last_mut().expect("a word").push(other),
        }
    }
    out
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_sees_no_difference() {
    let real = Cluster::start("kubectl");
    let embedded = Embedded::new(Arc::new(SystemClock));
    let anywhere: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let listener = embedded.serve(anywhere).await.expect("listen on loopback");
    let kubeconfigs = [real.kubeconfig(), listener.kubeconfig(administrator())];
    let compared = tokio::task::spawn_blocking(move || compare(&kubeconfigs));
    let (same, failed) = compared.await.expect("the comparison");
    println!("{same} kubectl commands print the same for both servers");
    let shown = failed.join("\n");
    assert!(
        failed.is_empty(),
        "{} commands differ (real | embedded):\n{shown}",
        failed.len()
    );
}

fn compare(kubeconfigs: &[String; 2]) -> (usize, Vec<String>) {
    let [real, embedded] = kubeconfigs.each_ref().map(|text| Session::new(text));
    let (mut same, mut failed) = (0, Vec::new());
    for line in lines() {
        let run = |session: &Session| session.run(&line.arguments);
        let (left, right) = std::thread::scope(|scope| {
            let left = scope.spawn(|| run(&real));
            let right = run(&embedded);
            (left.join().expect("kubectl"), right)
        });
        let command = line.arguments.join(" ");
        if line.same.holds(&left, &right) {
            same += 1;
        } else {
            failed.push(format!(
                "== kubectl {command}\n{}",
                difference(&left, &right)
            ));
        }
    }
    let [left, right] = [&real, &embedded].map(watched);
    if left == right && left.text.matches("watched").count() == 3 {
        same += 1;
    } else {
        failed.push(format!("== kubectl get -w\n{}", difference(&left, &right)));
    }
    (same, failed)
}

/// Returns the output of `get -w` while an object is created, changed and deleted.
fn watched(session: &Session) -> Output {
    std::thread::scope(|scope| {
        let watch = [
            "get",
            "secrets",
            "-n",
            "default",
            "-w",
            "--output-watch-events",
        ];
        let listening = scope.spawn(move || session.listen(&watch, 9));
        std::thread::sleep(std::time::Duration::from_secs(3));
        for command in [
            "create secret generic watched -n default --from-literal=a=1",
            "label secret watched -n default a=b",
            "delete secret watched -n default",
        ] {
            let done = session.run(&words(command));
            assert_eq!(done.code, 0, "{command}: {}", done.text);
        }
        listening.join().expect("kubectl get -w")
    })
}

/// Returns the lines that only one of the outputs has.
fn difference(left: &Output, right: &Output) -> String {
    let mut out = Vec::new();
    if left.code != right.code {
        out.push(format!("exit codes {} | {}", left.code, right.code));
    }
    for (mark, of, other) in [('-', left, right), ('+', right, left)] {
        let theirs: Vec<&str> = other.text.lines().collect();
        let own = of.text.lines().filter(|line| !theirs.contains(line));
        out.extend(own.map(|line| format!("{mark} {line}")));
    }
    if out.is_empty() {
        out.push(format!("another order:\n{}\n|\n{}", left.text, right.text));
    }
    out.join("\n")
}
