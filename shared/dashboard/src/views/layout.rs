//! The frame of every page.

use crate::assets;
use crate::live::Live;
use maud::{DOCTYPE, Markup, html};

/// The content of the frame of a page.
pub struct Page<'a> {
    /// The title of the page.
    pub title: &'a str,
    /// The path of the entry of the navigation that is the current one.
    pub current: &'a str,
    /// The name of the user; `None` without logins.
    pub user: Option<&'a str>,
    /// The token of the user's forms.
    pub csrf: &'a str,
    /// The way in which the page follows changes.
    pub live: Live,
    /// The fingerprint of what is shown.
    pub version: &'a str,
}

/// The entries of the navigation, with their keys.
const ENTRIES: [(&str, &str, &str); 5] = [
    ("/", "Overview", "o"),
    ("/objects", "Objects", "b"),
    ("/graph", "Graph", "g"),
    ("/pushes", "Pushes", "p"),
    ("/drift", "Drift", "d"),
];

/// The keys, for the help.
const KEYS: [(&str, &str); 9] = [
    ("/", "filter"),
    ("j k", "next and previous row"),
    ("Enter", "open the row"),
    ("g o", "overview"),
    ("g b", "objects"),
    ("g g", "graph"),
    ("g p", "pushes"),
    ("g d", "drift"),
    ("?", "this help"),
];

/// Renders a page.
pub fn page(page: &Page<'_>, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (page.title) " · driftless" }
                link rel="icon" href=(assets::href("icon.svg")) type="image/svg+xml";
                link rel="stylesheet" href=(assets::href("style.css"));
                script src=(assets::href("script.js")) defer {}
            }
            body data-live=(page.live.as_str()) data-version=(page.version) {
                a.skip href="#main" { "Skip to the content" }
                header.top {
                    a.brand href="/" { (logo()) span { "driftless" } }
                    nav aria-label="Pages" {
                        @for (path, name, key) in ENTRIES {
                            a href=(path) data-key=(key) aria-current=[(page.current == path).then_some("page")] { (name) }
                        }
                    }
                    div.tools {
                        span #live.live role="status" { span.dot aria-hidden="true" {} span.text { "" } }
                        button #help-open type="button" aria-label="Keyboard shortcuts" aria-haspopup="dialog" { kbd { "?" } }
                        @if let Some(user) = page.user {
                            form.user method="post" action="/logout" {
                                input type="hidden" name="csrf" value=(page.csrf);
                                span.muted { (user) }
                                button type="submit" { "Log out" }
                            }
                        }
                    }
                }
                main #main tabindex="-1" { (content) }
                dialog #help aria-labelledby="help-title" {
                    h2 #help-title { "Keyboard" }
                    dl.keys { @for (key, text) in KEYS { dt { kbd { (key) } } dd { (text) } } }
                    form method="dialog" { button type="submit" { "Close" } }
                }
            }
        }
    }
}

fn logo() -> Markup {
    html! {
        svg.logo viewBox="0 0 24 24" aria-hidden="true" {
            path d="M3 8.5c3-4 6-4 9 0s6 4 9 0" {}
            path d="M3 15.5c3-4 6-4 9 0s6 4 9 0" {}
        }
    }
}

/// Renders a page with a message only.
pub fn message(title: &str, text: &str, link: Option<(&str, &str)>) -> Markup {
    html! {
        div.empty {
            h1 { (title) }
            p { (text) }
            @if let Some((href, name)) = link { p { a.button href=(href) { (name) } } }
        }
    }
}

/// Renders a page without a user: of a login.
pub fn bare(title: &str, content: &Markup) -> Markup {
    let frame = Page {
        title,
        current: "",
        user: None,
        csrf: "",
        live: Live::None,
        version: "",
    };
    page(&frame, content)
}
