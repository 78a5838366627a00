//! The drift that was found.

use super::{object, parts};
use crate::model::{Drift, State};
use crate::text;
use maud::{Markup, html};

/// Renders the page of drift.
pub fn drift(now: u64, found: &[Drift]) -> Markup {
    html! {
        div.head { h1 { "Drift" } span.muted { "changes that others made to applied objects" } }
        @if found.is_empty() { div.empty { p { "No drift was found." } } }
        ol.history {
            @for drift in found {
                @let state = if drift.corrected.is_empty() { State::Waiting } else { State::Ready };
                li.step.(state.as_str()) {
                    div.line {
                        (parts::mark(state))
                        b { @if drift.corrected.is_empty() { "found" } @else { "put back" } }
                        span { span.muted { (drift.hub) } " " (parts::link(&drift.hub, &drift.object)) }
                        span.push-age { (parts::age(now, drift.at)) " ago" }
                    }
                    @if drift.corrected.is_empty() { p.message { (text::short_hashes(&drift.message)) } }
                    @else { (object::changes(&drift.corrected)) }
                }
            }
        }
    }
}
