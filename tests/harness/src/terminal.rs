//! Runs a command on a pseudo-terminal, and emulates the screen that a user sees.

use crate::command::driftless;
use crate::process::PATIENCE;
use pty_process::Size;
use pty_process::blocking::{Command, Pty, open};
use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vt100::{Color, Parser};

/// A running command on a terminal, which is ended on drop.
pub struct Terminal {
    pty: Arc<Pty>,
    seen: Arc<Mutex<Seen>>,
    reader: Option<JoinHandle<()>>,
    child: Child,
}

/// The output that the terminal has received.
struct Seen {
    parser: Parser,
    bytes: Vec<u8>,
}

/// The end of a command on a terminal.
pub struct Ended {
    /// The exit code.
    pub code: Option<i32>,
    /// The rows of the screen at the end.
    pub rows: Vec<String>,
    /// The text on the screen, as in [`Terminal::text`].
    pub text: String,
    /// Every byte that was written.
    pub bytes: String,
}

fn cells(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).expect("a terminal has rows and columns")
}

impl Terminal {
    /// Starts the command in a home and working directory, on a screen of this many rows and
    /// columns.
    pub fn start(
        home: &Path,
        (rows, columns): (u16, u16),
        args: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let (pty, pts) = open().expect("a pseudo-terminal");
        pty.resize(Size::new(rows, columns)).expect("a size");
        let mut command = driftless(home);
        command
            .current_dir(home)
            .env("TERM", "xterm-256color")
            .envs(environment.iter().copied())
            .args(args);
        // Without a terminal the command has no standard input; here it is the terminal.
        let child = Command::from(command).spawn(pts).expect("start driftless");
        let pty = Arc::new(pty);
        let seen = Arc::new(Mutex::new(Seen {
            parser: Parser::new(cells(rows), cells(columns), 0),
            bytes: Vec::new(),
        }));
        let (source, sink) = (pty.clone(), seen.clone());
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The read fails when the last process at the other end has exited.
            while let Ok(count @ 1..) = (&*source).read(&mut buffer) {
                let mut seen = sink.lock().expect("the screen");
                seen.parser.process(&buffer[..count]);
                seen.bytes.extend_from_slice(&buffer[..count]);
            }
        });
        Self {
            pty,
            seen,
            reader: Some(reader),
            child,
        }
    }

    /// Returns the rows of the screen, without the empty ones at the end.
    pub fn rows(&self) -> Vec<String> {
        let seen = self.seen.lock().expect("the screen");
        let screen = seen.parser.screen();
        let columns = screen.size().1.get();
        let mut rows: Vec<String> = screen
            .rows(0, columns)
            .map(|row| row.trim_end().to_owned())
            .collect();
        while rows.last().is_some_and(String::is_empty) {
            rows.pop();
        }
        rows
    }

    /// Returns the text on the screen, in which lines that the terminal wrapped are joined.
    pub fn text(&self) -> String {
        let seen = self.seen.lock().expect("the screen");
        seen.parser.screen().contents()
    }

    /// Returns every byte that was written so far.
    pub fn bytes(&self) -> String {
        let seen = self.seen.lock().expect("the screen");
        String::from_utf8_lossy(&seen.bytes).into_owned()
    }

    /// Returns the distinct colours of the cells with this content.
    pub fn colours(&self, sign: &str) -> Vec<Color> {
        let seen = self.seen.lock().expect("the screen");
        let screen = seen.parser.screen();
        let (rows, columns) = screen.size();
        let places = (0..rows.get()).flat_map(|row| (0..columns.get()).map(move |at| (row, at)));
        let cells = places.filter_map(|(row, column)| screen.cell(row, column));
        let found = cells.filter(|cell| cell.contents() == sign);
        let mut colours: Vec<Color> = found.map(|cell| cell.fgcolor()).collect();
        colours.dedup();
        colours
    }

    /// Waits until `done` accepts the screen, and returns its rows. `expectation` describes it in
    /// the failure.
    pub fn until(&self, expectation: &str, done: impl Fn(&[String]) -> bool) -> Vec<String> {
        let start = Instant::now();
        loop {
            let rows = self.rows();
            if done(&rows) {
                return rows;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "{expectation} is not on the screen:\n{}",
                rows.join("\n")
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Changes the size of the terminal.
    pub fn resize(&self, rows: u16, columns: u16) {
        let mut seen = self.seen.lock().expect("the screen");
        seen.parser.set_size(cells(rows), cells(columns));
        self.pty
            .resize(Size::new(rows, columns))
            .expect("another size");
    }

    /// Types a line.
    pub fn enter(&self, line: &str) {
        let line = format!("{line}\r");
        (&*self.pty)
            .write_all(line.as_bytes())
            .expect("type a line");
    }

    /// Types ctrl-c, and waits for the end.
    pub fn interrupt(self) -> Ended {
        (&*self.pty).write_all(b"\x03").expect("type ctrl-c");
        self.end()
    }

    /// Waits for the end of the command.
    pub fn end(mut self) -> Ended {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("wait for the command") {
                break status;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "the command does not end:\n{}",
                self.rows().join("\n")
            );
            std::thread::sleep(Duration::from_millis(20));
        };
        if let Some(reader) = self.reader.take() {
            reader.join().expect("read the rest");
        }
        Ended {
            code: status.code(),
            rows: self.rows(),
            text: self.text(),
            bytes: self.bytes(),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The process may already have exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
