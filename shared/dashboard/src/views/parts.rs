//! Parts that several pages have.

use crate::model::{Place, Row, State, href};
use crate::text;
use driftless_flux::ObjectRef;
use maud::{Markup, html};

/// Renders the mark of a state: a shape that differs without its colour.
pub fn mark(state: State) -> Markup {
    html! {
        svg.mark.(state.as_str()) viewBox="0 0 16 16" aria-hidden="true" {
            @match state {
                State::Ready => {
                    circle cx="8" cy="8" r="7" {}
                    path.inner d="M4.8 8.2 7 10.4 11.2 5.8" {}
                }
                State::Failed => {
                    path d="M5.1 1h5.8L15 5.1v5.8L10.9 15H5.1L1 10.9V5.1z" {}
                    path.inner d="M5.6 5.6l4.8 4.8M10.4 5.6l-4.8 4.8" {}
                }
                State::Progressing => {
                    circle.ring cx="8" cy="8" r="6" {}
                    path.ring.turn d="M8 2a6 6 0 0 1 6 6" {}
                }
                State::Waiting => {
                    circle.ring cx="8" cy="8" r="6" {}
                    path.ring d="M8 4.6V8l2.2 1.6" {}
                }
                State::Suspended => {
                    rect x="1.5" y="1.5" width="13" height="13" rx="3" {}
                    path.inner d="M6 5v6M10 5v6" {}
                }
            }
        }
    }
}

/// Renders a state with its name.
pub fn state(state: State) -> Markup {
    html! { span.state.(state.as_str()) { (mark(state)) (state.as_str()) } }
}

/// Renders a time as an age; the full time is its title.
pub fn age(now: u64, at: u64) -> Markup {
    html! {
        @match at {
            0 => span.muted { "–" },
            at => time datetime=(text::time(at)) title=(text::time(at)) data-at=(at) { (text::age(now, at)) },
        }
    }
}

/// Renders a revision in its short form.
pub fn revision(revision: &str) -> Markup {
    html! {
        @if revision.is_empty() { span.muted { "–" } }
        @else { code.revision title=(revision) { (text::revision(revision)) } }
    }
}

/// Renders the link to an object.
pub fn link(hub: &str, id: &ObjectRef) -> Markup {
    html! { a.reference href=(href(hub, id)) { span.kind { (id.kind.as_str()) } " " (id.namespace) "/" b { (id.name) } } }
}

/// Renders a row of a list of objects.
pub fn row(now: u64, row: &Row) -> Markup {
    html! {
        tr.row.(row.state.as_str()) {
            td.c-state { (mark(row.state)) span.label { (row.state.as_str()) } }
            td.c-name {
                a.rowlink href=(row.href()) { (row.id.name) }
                span.sub { (row.id.kind.as_str()) " · " (row.id.namespace) }
            }
            td.c-cluster { (row.hub) @if row.cluster != row.hub { span.arrow { " → " } (row.cluster) } }
            td.c-revision { (revision(&row.revision)) }
            td.c-message title=(row.message) {
                @if row.state != State::Ready { (text::short_hashes(first_line(&row.message))) }
            }
            td.c-age { (age(now, row.since)) }
        }
    }
}

/// Renders the head of a list of objects.
pub fn row_head() -> Markup {
    html! {
        thead { tr {
            th scope="col" { "State" }
            th scope="col" { "Object" }
            th.c-cluster scope="col" { "Cluster" }
            th.c-revision scope="col" { "Revision" }
            th.c-message scope="col" { "Message" }
            th.c-age scope="col" { "Age" }
        } }
    }
}

/// Returns the first line of a message.
pub fn first_line(message: &str) -> &str {
    message.lines().next().unwrap_or_default()
}

/// Renders the place of a failure.
pub fn place(place: &Place) -> Markup {
    let text = match place.line {
        Some(line) => format!("{}:{line}", place.file),
        None => place.file.clone(),
    };
    html! {
        p.place {
            "Caused by "
            @match &place.link {
                Some(link) => a href=(link) rel="noopener noreferrer" { code { (text) } },
                None => code { (text) },
            }
        }
    }
}

/// Renders a bar with the share of each state.
pub fn bar(counts: &[(State, usize)], label: &str) -> Markup {
    let total: usize = counts.iter().map(|(_, count)| count).sum();
    let mut left = 0.0;
    let parts = counts.iter().filter(|(_, count)| *count > 0);
    let parts: Vec<(State, f64, f64)> = parts
        .map(|(state, count)| {
            let width = share(*count, total);
            let at = left;
            left += width;
            (*state, at, width)
        })
        .collect();
    html! {
        svg.bar viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label=(label) {
            @for (state, at, width) in parts {
                rect.(state.as_str()) x=(format!("{at:.2}")) y="0" width=(format!("{width:.2}")) height="6" {}
            }
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a share of a picture that is 100 units wide"
)]
fn share(count: usize, total: usize) -> f64 {
    100.0 * count as f64 / total.max(1) as f64
}
