//! The last pushes, how long each took to land, and where.

use super::parts;
use crate::model::{State, landed};
use crate::text;
use driftless_kernel::journal::{Landing, Push};
use maud::{Markup, html};
use std::collections::BTreeSet;

/// The most landings that are shown of one push.
const MOST: usize = 200;

/// Renders the page of pushes.
pub fn pushes(now: u64, pushes: &[Push]) -> Markup {
    html! {
        div.head { h1 { "Pushes" } span.muted { "the newest first" } }
        @if pushes.is_empty() { div.empty { p { "No push was recorded yet." } } }
        (list(now, pushes))
    }
}

/// Renders a list of pushes.
pub fn list(now: u64, pushes: &[Push]) -> Markup {
    html! { ol.pushes { @for (at, push) in pushes.iter().enumerate() { (one(now, push, at == 0)) } } }
}

/// Returns the state of a whole push.
fn state(push: &Push) -> State {
    let states = push.landings.iter().map(landed);
    states.min().unwrap_or(State::Ready)
}

fn one(now: u64, push: &Push, is_open: bool) -> Markup {
    let clusters: BTreeSet<&str> = push.landings.iter().map(|one| one.hub.as_str()).collect();
    let failed = push
        .landings
        .iter()
        .filter(|one| landed(one) == State::Failed);
    let failed = failed.count();
    let took = push.took().unwrap_or_default();
    html! {
        li.push.(state(push).as_str()) {
            details open[is_open] {
                summary {
                    (parts::mark(state(push)))
                    (parts::revision(&push.revision))
                    span.subject { (subject(push)) }
                    span.landed {
                        @if push.landings.is_empty() { "nothing to change" }
                        @else {
                            (text::counted(push.landings.len(), "object")) " on " (text::counted(clusters.len(), "hub")) " in " b { (text::duration(took)) }
                            @if failed > 0 { span.failed { ", " (failed) " failed" } }
                        }
                    }
                    span.push-age { (parts::age(now, push.received)) " ago" }
                }
                @if !push.landings.is_empty() {
                    ol.landings { @for landing in push.landings.iter().take(MOST) { (landing_row(push, landing, took)) } }
                    @if push.landings.len() > MOST { p.muted { "and " (text::count(push.landings.len() - MOST)) " more" } }
                }
            }
        }
    }
}

/// Returns the message of the source, unless it only repeats the revision.
fn subject(push: &Push) -> String {
    match push.message.contains(&push.revision) {
        true => String::new(),
        false => text::short_hashes(&push.message),
    }
}

fn landing_row(push: &Push, landing: &Landing, took: u64) -> Markup {
    let offset = landing.ended.saturating_sub(push.received);
    let width = (100 * offset)
        .checked_div(took)
        .unwrap_or(100)
        .clamp(1, 100);
    let state = landed(landing);
    html! {
        li {
            (parts::mark(state))
            span.object { span.muted { (landing.hub) } " " (parts::link(&landing.hub, &landing.object)) }
            svg.bar viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true" { rect.(state.as_str()) x="0" y="0" width=(width) height="6" {} }
            span.took { (text::duration(offset)) }
            span.muted.changed { (text::count(landing.changed)) " changed" }
        }
    }
}
