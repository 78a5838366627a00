//! The screens of the demo, of a check and of `driftless serve` on a terminal. They need only Rust.

use crate::embedded::Hub;
use driftless_harness::command::run_in;
use driftless_harness::terminal::Terminal;
use driftless_harness::tools;
use regex::Regex;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use vt100::Color;

/// The number of starts of the demo; the screen must be right each time.
const STARTS: usize = 50;
/// The number of simultaneous starts.
const AT_ONCE: usize = 4;
/// The rows and columns of the terminals.
const SIZES: [(u16, u16); 3] = [(40, 60), (24, 80), (24, 140)];
/// Names the directory that the demo's screens are written to, for readers of the documentation.
const SCREENS: &str = "DRIFTLESS_SCREENS";
const GREEN: Color = Color::Idx(2);
const RED: Color = Color::Idx(1);

/// Replaces commits, times and ports on the screen by placeholders.
fn masked(rows: &[String]) -> String {
    let commit = Regex::new("(main@sha1:)[0-9a-f]{8}").expect("a pattern");
    let time = Regex::new(r"synced in \d+\.\d s").expect("a pattern");
    let directory = Regex::new("KUBECONFIG=/.*/driftless-demo").expect("a pattern");
    let port = Regex::new(r"(dashboard: http://127\.0\.0\.1:)\d+").expect("a pattern");
    let text = rows.join("\n") + "\n";
    let text = port.replace(&text, "${1}####");
    let text = directory.replace(&text, "KUBECONFIG=/.../driftless-demo");
    let text = commit.replace_all(&text, "${1}########");
    time.replace_all(&text, "synced in #.# s").into_owned()
}

/// Returns whether the demo has printed its last line.
fn is_synced(rows: &[String]) -> bool {
    rows.last().is_some_and(|row| row.ends_with("second"))
}

/// Returns the expected screen. `UPDATE_SNAPSHOTS=1` rewrites it.
fn snapshot(columns: u16) -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/snapshots");
    let file = directory.join(format!("demo-{columns}-columns.txt"));
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        let home = tempfile::tempdir().expect("a home");
        let terminal = Terminal::start(home.path(), (40, columns), &["demo"], &[]);
        let rows = terminal.until("the last line", is_synced);
        std::fs::write(&file, masked(&rows)).expect("write the snapshot");
    }
    std::fs::read_to_string(&file).expect("a snapshot")
}

#[test]
fn every_start_ends_with_the_state_of_every_object() {
    let screens = SIZES.map(|(_, columns)| snapshot(columns));
    let next = AtomicUsize::new(0);
    let work = || {
        while let start @ 0..STARTS = next.fetch_add(1, Ordering::Relaxed) {
            let which = start % SIZES.len();
            let rows = one_start(SIZES[which], &screens[which]);
            if start < SIZES.len() {
                record(SIZES[which].1, &rows);
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .for_each(|one| one.join().expect("a start"));
    });
}

/// Starts and ends the demo, and returns the rows of the screen.
fn one_start(size: (u16, u16), screen: &str) -> Vec<String> {
    let home = tempfile::tempdir().expect("a home");
    let terminal = Terminal::start(home.path(), size, &["demo"], &[]);
    let rows = terminal.until(screen, |rows| masked(rows) == screen);
    let ended = terminal.interrupt();
    assert_eq!(ended.code, Some(0), "ctrl-c ends it: {:?}", ended.rows);
    let typed = ["^C".to_owned()];
    assert_eq!(
        ended.rows,
        [&rows[..], &typed].concat(),
        "the drawn lines stay"
    );
    rows
}

fn record(columns: u16, rows: &[String]) {
    if let Some(directory) = std::env::var_os(SCREENS) {
        let directory = Path::new(&directory);
        std::fs::create_dir_all(directory).expect("make the directory");
        let file = directory.join(format!("demo-{columns}.txt"));
        std::fs::write(file, rows.join("\n") + "\n").expect("write the screen");
    }
}

#[test]
fn another_size_draws_everything_again() {
    let home = tempfile::tempdir().expect("a home");
    let terminal = Terminal::start(home.path(), (24, 80), &["demo"], &[]);
    terminal.until("the last line", is_synced);
    let shows_the_tree = |rows: u16, columns: u16| {
        let whole = snapshot(columns);
        let (_before, tree) = whole
            .split_once('\n')
            .expect("a line that is not the tree's");
        terminal.resize(rows, columns);
        let expectation = format!("the tree in {columns} columns");
        terminal.until(&expectation, |rows| masked(rows) == tree);
    };
    shows_the_tree(40, 60);
    shows_the_tree(24, 140);
    shows_the_tree(30, 80);
    terminal.resize(10, 80);
    let more = |row: &String| row.starts_with("… and ") && row.ends_with(" more that are ready");
    let rows = terminal.until("a lower tree", |rows| rows.iter().any(more));
    assert!(rows.len() < 10 && is_synced(&rows), "{rows:?}");
    shows_the_tree(24, 80);
}

#[test]
fn an_error_is_shown_completely_and_counted() {
    let home = tempfile::tempdir().expect("a home");
    let dir = home.path().join("driftless-demo");
    let dir = dir.to_str().expect("UTF-8");
    run_in(home.path(), &["demo", "--once", "--dir", dir], &[]).ok();
    let file = home
        .path()
        .join("driftless-demo/fleet/team-b/apps/api.yaml");
    let good = std::fs::read_to_string(&file).expect("read a file");
    let bad = good.replace("replicas: ", "replicas: many # ");
    assert_ne!(good, bad);
    std::fs::write(&file, bad).expect("break a file");

    let terminal = Terminal::start(home.path(), (40, 60), &["demo"], &[]);
    let rows = terminal.until("a failure", is_synced);
    let text: Vec<&str> = rows
        .iter()
        .map(|row| row.trim_start_matches(['│', '└', ' ']))
        .collect();
    let text = text.join(" ");
    for part in [
        "✗ Kustomization/team-b/apps",
        "fleet/team-b/apps/api.yaml:",
        "Deployment/team-b/api dry-run failed: failed to create typed patch object",
        ".spec.replicas: expected numeric (int or float), got string",
        " s; now 1 failed; ctrl-c ends it",
    ] {
        assert!(
            text.contains(part),
            "{part} is not in:\n{}",
            rows.join("\n")
        );
    }
    assert_eq!(terminal.colours("✗"), [RED]);
    assert_eq!(terminal.colours("✔"), [GREEN]);

    std::fs::write(&file, good).expect("repair the file");
    terminal.until("no failure", |rows| {
        let counts = rows.iter().any(|row| row.ends_with(" s; ctrl-c ends it"));
        counts && !rows.iter().any(|row| row.contains('✗'))
    });
}

#[test]
fn colours_are_only_for_terminals_that_allow_them() {
    let home = tempfile::tempdir().expect("a home");
    for (value, colour) in [("", GREEN), ("1", Color::Default)] {
        let environment = [("NO_COLOR", value)];
        let terminal = Terminal::start(home.path(), (24, 80), &["demo"], &environment);
        terminal.until("the last line", is_synced);
        assert_eq!(terminal.colours("✔"), [colour]);
    }
}

#[test]
fn a_log_on_the_same_terminal_is_not_torn() {
    let home = tempfile::tempdir().expect("a home");
    let environment = [("DRIFTLESS_LOG", "info")];
    let terminal = Terminal::start(home.path(), (60, 140), &["demo"], &environment);
    terminal.until("the last line", |_| {
        terminal.bytes().contains("within a second")
    });
    let moves = Regex::new("\u{1b}\\[[0-9]*[A-HJK]").expect("a pattern");
    let bytes = terminal.bytes();
    assert!(!moves.is_match(&bytes), "drawn in place: {bytes}");
}

#[test]
fn a_check_shows_its_progress() {
    let home = tempfile::tempdir().expect("a home");
    let fleet = tools::tests().join("fleet/platform");
    let fleet = fleet.to_str().expect("UTF-8");
    let step = Regex::new(r"checking: (\d+ of \d+ objects ready, )?step [1-9]\d*: [A-Z]\w+/")
        .expect("a pattern");
    for size in SIZES {
        let terminal = Terminal::start(home.path(), size, &["check", fleet], &[]);
        let ended = terminal.end();
        assert_eq!(ended.code, Some(0), "{}", ended.text);
        assert!(step.is_match(&ended.bytes), "no step in: {}", ended.bytes);
        assert!(!ended.bytes.contains("0/0"), "{}", ended.bytes);
        let left = ["checking", "reading"]
            .into_iter()
            .find(|left| ended.text.contains(left));
        assert_eq!(left, None, "the moving line stays:\n{}", ended.text);
        assert!(ended.text.contains("✔ 0 errors and "), "{}", ended.text);
    }
}

#[test]
fn serve_prints_its_addresses_and_logs_lines() {
    for size in SIZES {
        let hub = Hub::start();
        let home = tempfile::tempdir().expect("a home");
        std::fs::write(home.path().join("hub.yaml"), hub.kubeconfig()).expect("write");
        let args = [
            "serve",
            "--kubeconfig",
            "hub.yaml",
            "--listen",
            "127.0.0.1:0",
        ];
        let terminal = Terminal::start(home.path(), (60, size.1), &args, &[]);
        terminal.until("the missing variable", |rows| {
            rows.iter()
                .any(|row| row.contains("✗ DRIFTLESS_WEBHOOK_SECRET is not set"))
        });
        assert_eq!(terminal.colours("✗"), [RED]);
        assert_eq!(terminal.colours("✔"), [GREEN]);
        let ended = terminal.interrupt();
        assert_eq!(ended.code, Some(0), "{}", ended.text);
        for part in [
            "✔ serving hub default at https://127.0.0.1:",
            ": the sources of the hub\n",
            "✔ webhook: http://127.0.0.1:",
            "/webhook (content type application/json, the push event)\n",
            "webhooks are refused, and changes are only found by the sweep every 60 s\n",
            " INFO stopped",
        ] {
            assert!(
                ended.text.contains(part),
                "{part} is not in:\n{}",
                ended.text
            );
        }
        assert!(
            !ended.text.contains("{\""),
            "a log for machines:\n{}",
            ended.text
        );
    }
}
