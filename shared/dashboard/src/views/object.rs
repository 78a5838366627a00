//! The page of one object: its state, the reason of its failure, its neighbours and its history.

use super::parts;
use crate::actions::has_actions;
use crate::graph::{self, Scope};
use crate::model::{Place, Row, Snapshot, State};
use crate::text;
use driftless_flux::ObjectRef;
use driftless_kernel::journal::{Entry, Journal, ObjectChange, StepResult};
use maud::{Markup, html};

/// The details of an object that are not in its row.
pub struct Details<'a> {
    /// The place of its failure.
    pub place: Option<&'a Place>,
    /// Its journal, or why it cannot be read.
    pub journal: Result<&'a Journal, &'a str>,
    /// True if the user may act on it.
    pub may_act: bool,
    /// The token of the user's forms.
    pub csrf: &'a str,
}

/// Renders the page of an object.
pub fn object(snapshot: &Snapshot, row: &Row, details: &Details<'_>) -> Markup {
    html! {
        nav.crumbs aria-label="Place" {
            a href="/" { "Overview" } " / "
            a href=(format!("/objects?hub={}", crate::text::segment(&row.hub))) { (row.hub) } " / "
            a href=(format!("/objects?hub={}&namespace={}", crate::text::segment(&row.hub), crate::text::segment(&row.id.namespace))) { (row.id.namespace) }
        }
        div.head {
            h1 { (row.id.name) } span.muted { (row.id.kind.as_str()) }
            (parts::state(row.state))
            @if details.may_act && has_actions(row.id.kind) { (actions(row, details.csrf)) }
        }
        (reason(snapshot.taken, row, details.place))
        (facts(snapshot.taken, row))
        (neighbours(snapshot, row))
        section aria-labelledby="history" {
            h2 #history { "History" }
            @match details.journal {
                Err(error) => p.error { "The history cannot be read: " (error) },
                Ok(journal) if journal.entries.is_empty() => p.muted { "Nothing has changed since the history began." },
                Ok(journal) => ol.history { @for entry in &journal.entries { (step(snapshot.taken, entry)) } },
            }
        }
    }
}

fn reason(now: u64, row: &Row, place: Option<&Place>) -> Markup {
    html! {
        @if !row.message.is_empty() {
            section.reason.(row.state.as_str()) aria-label="Reason" {
                p.title { (parts::mark(row.state)) b { (row.reason) } span.muted { " since " (parts::age(now, row.since)) } }
                pre { (text::short_hashes(&row.message)) }
                @if row.state == State::Failed { @if let Some(place) = place { (parts::place(place)) } }
            }
        }
        @if let Some(drift) = &row.drift {
            section.reason.waiting aria-label="Drift" {
                p.title { (parts::mark(State::Waiting)) b { "Drift found" } }
                pre { (drift) }
            }
        }
    }
}

fn facts(now: u64, row: &Row) -> Markup {
    html! {
        dl.facts {
            div { dt { "Hub" } dd { (row.hub) } }
            div { dt { "Cluster" } dd { (row.cluster) } }
            div { dt { "Revision" } dd { (parts::revision(&row.revision)) } }
            @if !row.attempted.is_empty() { div { dt { "Attempted" } dd { (parts::revision(&row.attempted)) } } }
            @if let Some(source) = &row.source { div { dt { "Source" } dd { (parts::link(&row.hub, source)) } } }
            @if let Some(owner) = &row.owner { div { dt { "Applied by" } dd { (parts::link(&row.hub, owner)) } } }
            @if !row.path.is_empty() { div { dt { "Path" } dd { code { (row.path) } } } }
            @if !row.url.is_empty() { div { dt { "Address" } dd { code { (row.url) } } } }
            @if row.applied > 0 { div { dt { "Applied" } dd { (text::count(row.applied)) " objects" } } }
            div { dt { "Created" } dd { (parts::age(now, row.created)) " ago" } }
        }
    }
}

fn neighbours(snapshot: &Snapshot, row: &Row) -> Markup {
    let same_hub = |other: &&Row| other.hub == row.hub;
    let needed =
        |other: &&Row| other.depends_on.contains(&row.id) || other.source.as_ref() == Some(&row.id);
    let waiting: Vec<&Row> = snapshot
        .objects
        .iter()
        .filter(same_hub)
        .filter(needed)
        .collect();
    let needs: Vec<&ObjectRef> = row.depends_on.iter().chain(&row.source).collect();
    html! {
        @if !waiting.is_empty() || !needs.is_empty() {
            section aria-labelledby="needs" {
                h2 #needs { "What waits for what" }
                (graph::svg(snapshot, &[row], Scope::Neighbours))
            }
        }
    }
}

/// Renders the forms of the actions.
fn actions(row: &Row, csrf: &str) -> Markup {
    let form = |action: &str, text: &str, revision: &str| {
        html! {
            form method="post" action=(format!("{}/actions", row.href())) {
                input type="hidden" name="csrf" value=(csrf);
                input type="hidden" name="action" value=(action);
                @if !revision.is_empty() { input type="hidden" name="revision" value=(revision); }
                button type="submit" { (text) }
            }
        }
    };
    let attempted = match row.attempted.is_empty() {
        true => &row.revision,
        false => &row.attempted,
    };
    html! {
        div.actions {
            @if row.is_suspended { (form("resume", "Resume", "")) }
            @else { (form("reconcile", "Reconcile", "")) (form("suspend", "Suspend", "")) }
            @if row.is_prune_held() { (form("approve-prune", "Approve the deletion", attempted)) }
        }
    }
}

fn step(now: u64, entry: &Entry) -> Markup {
    let (state, title) = match entry.result {
        StepResult::NewRevision => (State::Ready, "new revision"),
        StepResult::Ready => (State::Ready, "ready"),
        StepResult::Progressing => (State::Progressing, "in progress"),
        StepResult::Failed => (State::Failed, "failed"),
    };
    html! {
        li.step.(state.as_str()) {
            div.line {
                (parts::mark(state)) b { (title) }
                (parts::revision(&entry.revision))
                @if entry.changed() > 0 { span { (text::count(entry.changed())) " changed" } }
                span.muted { "in " (text::duration(entry.ended.saturating_sub(entry.started))) " · " (entry.cause.in_words()) }
                span.push-age { (parts::age(now, entry.ended)) " ago" }
            }
            @if !entry.message.is_empty() { p.message { (text::short_hashes(&entry.message)) } }
            @if !entry.changes.is_empty() {
                details open[entry.changes.len() <= 5] {
                    summary { "Changes" }
                    (changes(&entry.changes))
                    @if entry.omitted > 0 { p.muted { "and " (text::count(entry.omitted)) " more" } }
                }
            }
        }
    }
}

/// Renders changed objects with their fields.
pub fn changes(changes: &[ObjectChange]) -> Markup {
    html! {
        ul.changes {
            @for change in changes {
                li.(change.action) {
                    span.action { (change.action) } " " code { (change.object) }
                    @if !change.fields.is_empty() {
                        ul.fields { @for field in &change.fields {
                            li {
                                code.path { (field.path) }
                                @if let Some(from) = &field.from { " " del { (from) } }
                                @if let Some(to) = &field.to { " " ins { (to) } }
                            }
                        } }
                    }
                }
            }
        }
    }
}
