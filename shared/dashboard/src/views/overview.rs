//! The first page: fleets, hubs and clusters, what fails, and the last pushes.

use super::{parts, pushes};
use crate::model::{Hub, Row, Snapshot, State};
use crate::query::Filter;
use crate::text::{count, counted};
use driftless_kernel::journal::Push;
use maud::{Markup, html};
use std::collections::BTreeMap;

/// The most rows of the list of what needs attention.
const MOST: usize = 12;

/// Renders the first page.
pub fn overview(snapshot: &Snapshot, pushes: &[Push]) -> Markup {
    let (rows, counts) = Filter::default().apply(snapshot);
    let is_urgent = |row: &&&Row| matches!(row.state, State::Failed | State::Waiting);
    let urgent: Vec<&&Row> = rows.iter().filter(is_urgent).collect();
    let all = |state: State| Filter {
        states: vec![state],
        page: 1,
        ..Filter::default()
    };
    html! {
        div.head { h1 { "Overview" } span.muted { (counted(rows.len(), "object")) " on " (counted(snapshot.hubs.len(), "hub")) } }
        ul.tiles {
            @for (state, number) in &counts {
                li { a.tile.(state.as_str()).zero[*number == 0] href=(all(*state).href("/objects")) {
                    (parts::mark(*state)) b { (count(*number)) } span { (state.as_str()) }
                } }
            }
        }
        @if !urgent.is_empty() {
            section aria-labelledby="attention" {
                h2 #attention { "Needs attention" }
                table.objects { (parts::row_head()) tbody { @for row in urgent.iter().take(MOST) { (parts::row(snapshot.taken, row)) } } }
                @if urgent.len() > MOST {
                    p { a href="/objects?state=failed&state=waiting" { "All " (count(urgent.len())) } }
                }
            }
        }
        section aria-labelledby="fleets" {
            h2 #fleets { "Fleets" }
            @if snapshot.hubs.is_empty() { div.empty { p { "No hub is registered." } } }
            @for (fleet, hubs) in fleets(snapshot) {
                div.fleet {
                    h3 { (if fleet.is_empty() { "Hubs" } else { fleet }) }
                    @for hub in hubs { (hub_card(snapshot, hub)) }
                }
            }
        }
        @if !pushes.is_empty() {
            section aria-labelledby="last" {
                h2 #last { "Last pushes" }
                (pushes::list(snapshot.taken, pushes))
                p { a href="/pushes" { "All pushes" } }
            }
        }
    }
}

/// Groups hubs by the repository of their root.
fn fleets(snapshot: &Snapshot) -> BTreeMap<&str, Vec<&Hub>> {
    let mut fleets: BTreeMap<&str, Vec<&Hub>> = BTreeMap::new();
    for hub in &snapshot.hubs {
        fleets.entry(&hub.fleet).or_default().push(hub);
    }
    fleets
}

fn hub_card(snapshot: &Snapshot, hub: &Hub) -> Markup {
    let mut clusters: BTreeMap<&str, [usize; 5]> = BTreeMap::new();
    for row in snapshot.objects.iter().filter(|row| row.hub == hub.name) {
        let counts = clusters.entry(&row.cluster).or_default();
        let at = State::ALL.iter().position(|state| *state == row.state);
        if let Some(count) = at.and_then(|at| counts.get_mut(at)) {
            *count += 1;
        }
    }
    html! {
        div.hub {
            div.hub-name { span.muted { "Hub " } b { (hub.name) } }
            @if let Some(error) = &hub.error { p.error { (parts::mark(State::Failed)) (error) } }
            ul.clusters {
                @for (name, counts) in clusters {
                    @let counts: Vec<(State, usize)> = State::ALL.into_iter().zip(counts).collect();
                    @let text = counts.iter().filter(|(_, count)| *count > 0).map(|(state, count)| format!("{count} {}", state.as_str())).collect::<Vec<_>>().join(", ");
                    @let filter = Filter { hub: hub.name.clone(), cluster: name.to_owned(), page: 1, ..Filter::default() };
                    li { a.cluster href=(filter.href("/objects")) {
                        span.name { (name) @if name == hub.name { span.muted { " (itself)" } } }
                        (parts::bar(&counts, &text))
                        span.counts { (text) }
                    } }
                }
            }
        }
    }
}
