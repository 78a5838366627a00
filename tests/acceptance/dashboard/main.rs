//! The dashboard in a real browser: live changes, the reason of a failure, accessibility, a large
//! fleet, and the pictures of the README.

mod large;

use driftless_harness::browser::{Browser, Page, Window};
use driftless_harness::command::program;
use driftless_harness::process::Server;
use driftless_harness::tools;
use regex::Regex;
use std::fs;
use std::path::{Path, PathBuf};

const DESKTOP: Window = Window {
    width: 1280,
    height: 800,
    dark: false,
    phone: false,
};
const DARK: Window = Window {
    dark: true,
    ..DESKTOP
};
const PHONE: Window = Window {
    width: 390,
    height: 844,
    dark: false,
    phone: true,
};
/// Set to write the pictures of the README again.
const PICTURES: &str = "DRIFTLESS_PICTURES";

/// A running demo.
struct Demo {
    home: tempfile::TempDir,
    url: String,
    _server: Server,
}

impl Demo {
    fn start() -> Self {
        let home = tempfile::tempdir().expect("a home");
        let directory = home.path().join("demo");
        let log = home.path().join("log");
        let arguments = ["demo", "--dir", directory.to_str().expect("UTF-8")];
        let home_text = home.path().to_str().expect("UTF-8").to_owned();
        let environment = [("HOME".to_owned(), home_text)];
        let program = program();
        let mut server = Server::start("driftless demo", &program, arguments, &environment, &log);
        let url = Regex::new(r"dashboard: (http://[0-9.:]+)/").expect("a pattern");
        let find = || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            url.captures(&text).map(|found| found[1].to_owned())
        };
        server.wait_ready(|| find().is_some());
        Self {
            home,
            url: find().expect("the address"),
            _server: server,
        }
    }

    /// Replaces text in a file of the fleet, which is a push.
    fn push(&self, file: &str, from: &str, to: &str) {
        let path = self.home.path().join("demo/fleet").join(file);
        let text = fs::read_to_string(&path).expect("read the file");
        assert!(text.contains(from), "{file} has no {from}");
        fs::write(&path, text.replace(from, to)).expect("write the file");
    }
}

#[test]
fn dashboard_in_a_browser() {
    let demo = Demo::start();
    let mut browser = Browser::start();
    let objects = format!("{}/objects", demo.url);
    let page = browser.open(&objects, DESKTOP);
    browser.wait(&page, "document.querySelector('#live.on')");
    browser.wait(&page, "document.querySelectorAll('tr.ready').length >= 10");

    a_push_lands_live(&demo, &mut browser);
    a_failure_is_explained_in_two_clicks(&demo, &mut browser);
    keys_and_filters(&demo, &mut browser, &page);
    actions(&demo, &mut browser);
    pages_are_accessible(&demo, &mut browser);
    pictures(&demo, &mut browser);
}

/// The open page of pushes shows a push without a reload.
fn a_push_lands_live(demo: &Demo, browser: &mut Browser) {
    let page = browser.open(&format!("{}/pushes", demo.url), DESKTOP);
    browser.wait(&page, "document.querySelector('#live.on')");
    browser.evaluate(&page, "window.kept = true");
    let before = browser.evaluate(&page, "document.querySelectorAll('.push').length");
    demo.push("team-b/apps/api.yaml", "api:2.3.0", "api:2.4.0");
    let before = before.as_u64().expect("a number");
    let took = browser.wait(
        &page,
        &format!(
            "document.querySelectorAll('.push').length > {before} && \
             document.querySelector('.push .landings .reference[href$=\"/Kustomization/team-b/apps\"]')"
        ),
    );
    println!("a push is seen landing after {:.1} s", took.as_secs_f64());
    assert_eq!(
        browser.evaluate(&page, "window.kept"),
        true,
        "the page was loaded again"
    );
    // The object's history has the field that the push changed, with its values.
    browser.click(
        &page,
        ".push .landings .reference[href$='/Kustomization/team-b/apps']",
    );
    browser.wait(&page, "document.querySelector('.history ins')");
    let text = browser.evaluate(&page, "document.querySelector('.history').innerText");
    let text = text.as_str().expect("text");
    for part in [
        "Deployment/team-b/api",
        "containers[name=api].image",
        "api:2.3.0",
        "api:2.4.0",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    browser.close(page);
}

/// Two clicks lead from the overview to the file and line that a push broke.
fn a_failure_is_explained_in_two_clicks(demo: &Demo, browser: &mut Browser) {
    let page = browser.open(&demo.url, DESKTOP);
    demo.push(
        "team-b/apps/api.yaml",
        "replicas: ${REPLICAS:=1}",
        "replicas: many",
    );
    browser.wait(&page, "document.querySelector('tr.failed')");
    browser.click(&page, "a.tile.failed");
    browser.wait(
        &page,
        "location.pathname === '/objects' && document.querySelector('tr.failed .rowlink')",
    );
    browser.click(&page, "tr.failed .rowlink");
    browser.wait(&page, "document.querySelector('.reason.failed .place')");
    let text = browser.evaluate(&page, "document.querySelector('.reason.failed').innerText");
    let text = text.as_str().expect("text");
    assert!(text.contains("api.yaml:8"), "{text}");
    println!("two clicks: {}", text.replace('\n', " "));
    browser.close(page);
}

fn keys_and_filters(demo: &Demo, browser: &mut Browser, page: &Page) {
    browser.navigate(page, &format!("{}/objects", demo.url));
    browser.press(page, "j");
    browser.press(page, "j");
    let focused = "[...document.querySelectorAll('.rowlink')].indexOf(document.activeElement)";
    assert_eq!(browser.evaluate(page, focused), 1);
    browser.press(page, "k");
    assert_eq!(browser.evaluate(page, focused), 0);
    browser.press(page, "/");
    for key in ["a", "g", "e", "n", "t"] {
        browser.press(page, key);
    }
    browser.wait(page, "location.search === '?q=agent'");
    browser.evaluate(page, "document.activeElement.blur()");
    browser.press(page, "?");
    browser.wait(page, "document.getElementById('help').open");
}

/// Suspends and resumes an object by its buttons.
fn actions(demo: &Demo, browser: &mut Browser) {
    let address = format!("{}/objects/hub/Kustomization/team-a/apps", demo.url);
    let page = browser.open(&address, DESKTOP);
    browser.click(&page, "form:has(input[value=suspend]) button");
    browser.wait(&page, "document.querySelector('.head .state.suspended')");
    browser.click(&page, "form:has(input[value=resume]) button");
    browser.wait(&page, "document.querySelector('.head .state.ready')");
    browser.close(page);
}

fn pages_are_accessible(demo: &Demo, browser: &mut Browser) {
    for (path, window) in [
        ("/", DESKTOP),
        ("/", DARK),
        ("/objects", DESKTOP),
        ("/objects", PHONE),
        ("/graph", DARK),
        ("/pushes", DESKTOP),
        ("/drift", DESKTOP),
        ("/objects/hub/Kustomization/team-b/apps", DESKTOP),
        ("/objects/hub/Kustomization/team-b/apps", DARK),
    ] {
        let page = browser.open(&format!("{}{path}", demo.url), window);
        let found = browser.accessibility(&page);
        browser.close(page);
        assert!(found.is_empty(), "{path} {window:?}:\n{}", found.join("\n"));
    }
}

fn pictures(demo: &Demo, browser: &mut Browser) {
    if std::env::var_os(PICTURES).is_none() {
        return;
    }
    let directory: PathBuf = tools::workspace().join("functions/cli/docs/dashboard");
    fs::create_dir_all(&directory).expect("make the directory");
    let object = "/objects/hub/Kustomization/team-b/apps";
    for (name, path, window) in [
        ("light", "/", DESKTOP),
        ("dark", "/", DARK),
        ("phone", "/", PHONE),
        ("object", object, DESKTOP),
        ("graph", "/graph", DARK),
    ] {
        let page = browser.open(&format!("{}{path}", demo.url), window);
        browser.wait(&page, "document.querySelector('#live.on')");
        let file: &Path = &directory.join(format!("{name}.png"));
        browser.screenshot(&page, file);
        browser.close(page);
        println!("wrote {}", file.display());
    }
}

#[test]
fn ten_thousand_objects_in_a_browser() {
    let served = large::serve(10_000);
    let mut browser = Browser::start();
    for name in ["first", "second", "third"] {
        let page = browser.open(&format!("{served}/objects"), DESKTOP);
        browser.wait(
            &page,
            "document.querySelectorAll('.rowlink').length === 100",
        );
        browser.wait(
            &page,
            "performance.getEntriesByName('first-contentful-paint').length",
        );
        let paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime";
        let paint = browser.evaluate(&page, paint);
        println!(
            "10,000 objects: {name} visit: first paint after {:.0} ms",
            paint.as_f64().expect("a time")
        );
    }
    let page = browser.open(&format!("{served}/objects?q=app-9999"), DESKTOP);
    browser.wait(&page, "document.querySelectorAll('.rowlink').length === 1");
}
