//! A real browser without a window, driven over the DevTools protocol on pipes: a message is JSON
//! and ends with a zero byte.

use crate::tools::{AXE, CHROMIUM};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// The longest wait for an answer, or for a condition on a page.
const LIMIT: Duration = Duration::from_secs(20);
/// The interval in which a condition on a page is checked.
const CHECK: Duration = Duration::from_millis(20);

/// A browser, which ends when it is dropped.
#[derive(Debug)]
pub struct Browser {
    process: Child,
    commands: ChildStdin,
    answers: Receiver<Value>,
    last: u64,
    _profile: tempfile::TempDir,
}

/// The window of a page.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// The width in pixels.
    pub width: u32,
    /// The height in pixels.
    pub height: u32,
    /// True for a dark colour scheme.
    pub dark: bool,
    /// True for a telephone.
    pub phone: bool,
}

/// An open page.
#[derive(Debug)]
pub struct Page {
    session: String,
    target: Value,
}

impl Browser {
    /// Starts a browser.
    ///
    /// # Panics
    ///
    /// Panics if it cannot be started.
    pub fn start() -> Self {
        let program = CHROMIUM.path();
        let root = program.ancestors().nth(4).expect("the tool's directory");
        let libraries: Vec<PathBuf> = fs::read_dir(root.join("usr/lib"))
            .expect("list the libraries")
            .map(|entry| entry.expect("an entry").path())
            .flat_map(|path| [path.join("pulseaudio"), path])
            .collect();
        let libraries = std::env::join_paths(libraries).expect("a list of paths");
        let profile = tempfile::tempdir().expect("make a directory");
        // The browser reads commands from descriptor 3 and writes answers to 4.
        let mut process = Command::new("sh")
            .args([
                "-c",
                "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1",
                "sh",
            ])
            .arg(&program)
            .args([
                "--remote-debugging-pipe",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--hide-scrollbars",
                "--no-first-run",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .env("LD_LIBRARY_PATH", libraries)
            .env("HOME", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("start {}: {error}", program.display()));
        let commands = process.stdin.take().expect("piped");
        let mut output = BufReader::new(process.stdout.take().expect("piped"));
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            loop {
                let mut message = Vec::new();
                match output.read_until(0, &mut message) {
                    Ok(1..) => message.pop(),
                    _ => break,
                };
                let Ok(message) = serde_json::from_slice::<Value>(&message) else {
                    break;
                };
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        Self {
            process,
            commands,
            answers,
            last: 0,
            _profile: profile,
        }
    }

    /// Sends a command and returns its result.
    fn call(&mut self, session: Option<&str>, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut command = json!({"id": self.last, "method": method, "params": params});
        if let Some(session) = session {
            command["sessionId"] = json!(session);
        }
        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        self.commands
            .write_all(&bytes)
            .expect("write to the browser");
        let end = Instant::now() + LIMIT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let answer = self.answers.recv_timeout(left);
            let answer = answer.unwrap_or_else(|error| panic!("{method}: no answer: {error}"));
            if answer["id"] == self.last {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
        }
    }

    /// Opens a page and waits until it is loaded.
    ///
    /// # Panics
    ///
    /// Panics if it does not load in time.
    pub fn open(&mut self, url: &str, window: Window) -> Page {
        let target = self.call(None, "Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = self.call(None, "Target.attachToTarget", attach);
        let page = Page {
            session: attached["sessionId"]
                .as_str()
                .expect("a session")
                .to_owned(),
            target: target["targetId"].clone(),
        };
        let scheme = if window.dark { "dark" } else { "light" };
        for (method, params) in [
            ("Page.enable", json!({})),
            ("Runtime.enable", json!({})),
            (
                "Emulation.setDeviceMetricsOverride",
                json!({"width": window.width, "height": window.height, "mobile": window.phone,
                       "deviceScaleFactor": if window.phone { 2 } else { 1 }}),
            ),
            (
                "Emulation.setEmulatedMedia",
                json!({"features": [{"name": "prefers-color-scheme", "value": scheme},
                                    {"name": "prefers-reduced-motion", "value": "reduce"}]}),
            ),
        ] {
            self.call(Some(&page.session), method, params);
        }
        self.navigate(&page, url);
        page
    }

    /// Closes a page. A browser has few connections to one host, and a page that follows changes
    /// keeps one.
    pub fn close(&mut self, page: Page) {
        let target = json!({ "targetId": page.target });
        self.call(None, "Target.closeTarget", target);
    }

    /// Loads another address in a page.
    ///
    /// # Panics
    ///
    /// Panics if it does not load in time.
    pub fn navigate(&mut self, page: &Page, url: &str) {
        let result = self.call(Some(&page.session), "Page.navigate", json!({ "url": url }));
        assert!(
            result["errorText"].is_null(),
            "{url}: {}",
            result["errorText"]
        );
        self.wait(
            page,
            &format!(
                "document.readyState === 'complete' && location.href.startsWith({})",
                json!(url.split('#').next())
            ),
        );
    }

    /// Evaluates an expression on a page, and returns its value.
    ///
    /// # Panics
    ///
    /// Panics if it throws.
    pub fn evaluate(&mut self, page: &Page, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let result = self.call(Some(&page.session), "Runtime.evaluate", params);
        let thrown = &result["exceptionDetails"];
        assert!(thrown.is_null(), "{expression}: {thrown}");
        result["result"]["value"].clone()
    }

    /// Waits until an expression on a page is true; returns the time that it took.
    ///
    /// # Panics
    ///
    /// Panics if it is not true in time.
    pub fn wait(&mut self, page: &Page, condition: &str) -> Duration {
        let start = Instant::now();
        while self.evaluate(page, &format!("Boolean({condition})")) != true {
            if start.elapsed() > LIMIT {
                let text = self.evaluate(page, "location.href + '\\n' + document.body.innerText");
                panic!(
                    "not true in time: {condition}\n{}",
                    text.as_str().unwrap_or_default()
                );
            }
            std::thread::sleep(CHECK);
        }
        start.elapsed()
    }

    /// Clicks in the middle of the element that a selector finds.
    ///
    /// # Panics
    ///
    /// Panics if it finds nothing.
    pub fn click(&mut self, page: &Page, selector: &str) {
        let place = self.evaluate(
            page,
            &format!(
                "(() => {{ const found = document.querySelector({}); if (!found) return null; \
             found.scrollIntoView({{block: 'center'}}); const box = found.getBoundingClientRect(); \
             return [box.x + box.width / 2, box.y + box.height / 2]; }})()",
                json!(selector)
            ),
        );
        assert!(place.is_array(), "nothing to click: {selector}");
        for kind in ["mousePressed", "mouseReleased"] {
            let params = json!({"type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1});
            self.call(Some(&page.session), "Input.dispatchMouseEvent", params);
        }
    }

    /// Presses a key that writes a character.
    pub fn press(&mut self, page: &Page, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { key } else { "" };
            let params = json!({"type": kind, "key": key, "text": text});
            self.call(Some(&page.session), "Input.dispatchKeyEvent", params);
        }
    }

    /// Writes a picture of what the window shows.
    ///
    /// # Panics
    ///
    /// Panics if it cannot be written.
    pub fn screenshot(&mut self, page: &Page, file: &Path) {
        let result = self.call(
            Some(&page.session),
            "Page.captureScreenshot",
            json!({"format": "png"}),
        );
        let bytes = STANDARD.decode(result["data"].as_str().expect("a picture"));
        fs::write(file, bytes.expect("Base64")).expect("write the picture");
    }

    /// Returns the violations of accessibility with the impact `serious` or `critical`, one line
    /// each.
    ///
    /// # Panics
    ///
    /// Panics if the check cannot run.
    pub fn accessibility(&mut self, page: &Page) -> Vec<String> {
        self.evaluate(page, &format!("{}; true", axe()));
        let found = self.evaluate(
            page,
            "axe.run(document, {resultTypes: ['violations']}).then(r => r.violations\
             .filter(v => ['serious', 'critical'].includes(v.impact))\
             .map(v => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map(n => n.html + ' ' + n.failureSummary).join(' | ')}`))",
        );
        let found = found.as_array().expect("a list").iter();
        found
            .map(|line| line.as_str().expect("text").to_owned())
            .collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the script that checks accessibility.
fn axe() -> String {
    let python = AXE.python();
    let root = python.ancestors().nth(2).expect("the tool's directory");
    let versions = fs::read_dir(root.join("lib")).expect("list the versions of Python");
    let mut files = versions.map(|entry| {
        let path = entry.expect("an entry").path();
        path.join("site-packages/axe_playwright_python/axe.min.js")
    });
    let file = files.find(|path| path.exists()).expect("axe.min.js");
    fs::read_to_string(file).expect("read axe.min.js")
}
