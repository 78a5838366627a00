//! The list of objects with its filters.

use super::parts;
use crate::model::{Snapshot, State};
use crate::query::{Filter, PAGE, Sort};
use crate::text::count;
use maud::{Markup, html};
use std::collections::BTreeSet;

/// Renders the list of objects.
pub fn objects(snapshot: &Snapshot, filter: &Filter) -> Markup {
    let (rows, counts) = filter.apply(snapshot);
    let pages = rows.len().div_ceil(PAGE).max(1);
    let page = filter.page.min(pages);
    let shown = rows.iter().skip((page - 1) * PAGE).take(PAGE);
    html! {
        div.head {
            h1 { "Objects" }
            span.muted { (count(rows.len())) " of " (count(snapshot.objects.len())) }
        }
        (filters("/objects", snapshot, filter, &counts))
        @if rows.is_empty() {
            div.empty { p { "No object passes the filter." } p { a.button href="/objects" { "Clear the filter" } } }
        } @else {
            table.objects {
                (parts::row_head())
                tbody { @for row in shown { (parts::row(snapshot.taken, row)) } }
            }
            (pager(filter, page, pages))
        }
    }
}

/// Renders the links to the other pages of a list.
fn pager(filter: &Filter, page: usize, pages: usize) -> Markup {
    let link = |page: usize| {
        let filter = Filter {
            page,
            ..filter.clone()
        };
        filter.href("/objects")
    };
    html! {
        @if pages > 1 {
            nav.pager aria-label="Pages of the list" {
                @if page > 1 { a href=(link(page - 1)) rel="prev" { "Previous" } }
                span { "Page " (page) " of " (count(pages)) }
                @if page < pages { a href=(link(page + 1)) rel="next" { "Next" } }
            }
        }
    }
}

/// Renders the filters of a page; `counts` are the numbers of objects by state.
pub fn filters(
    path: &str,
    snapshot: &Snapshot,
    filter: &Filter,
    counts: &[(State, usize)],
) -> Markup {
    let kinds: BTreeSet<&str> = snapshot
        .objects
        .iter()
        .map(|row| row.id.kind.as_str())
        .collect();
    let namespaces: BTreeSet<&str> = snapshot
        .objects
        .iter()
        .map(|row| row.id.namespace.as_str())
        .collect();
    let hubs: Vec<&str> = snapshot.hubs.iter().map(|hub| hub.name.as_str()).collect();
    let choices = [
        ("hub", "All hubs", hubs, &filter.hub),
        (
            "namespace",
            "All namespaces",
            namespaces.into_iter().collect(),
            &filter.namespace,
        ),
        (
            "kind",
            "All kinds",
            kinds.into_iter().collect(),
            &filter.kind,
        ),
    ];
    html! {
        form.filters method="get" action=(path) role="search" {
            input #filter type="search" name="q" value=(filter.text) placeholder="Filter: name, message, revision …" aria-label="Filter" autocomplete="off";
            @for (name, all, values, chosen) in choices {
                @if values.len() > 1 || !chosen.is_empty() {
                    select name=(name) aria-label=(name) {
                        option value="" { (all) }
                        @for value in &values { option value=(value) selected[*value == chosen.as_str()] { (value) } }
                    }
                }
            }
            @if path == "/objects" {
                select name="sort" aria-label="order" {
                    @for sort in Sort::ALL { option value=(sort.as_str()) selected[sort == filter.sort] { "by " (sort.as_str()) } }
                }
            }
            @if !filter.cluster.is_empty() { input type="hidden" name="cluster" value=(filter.cluster); }
            @for state in &filter.states { input type="hidden" name="state" value=(state.as_str()); }
            button.apply type="submit" { "Apply" }
        }
        ul.states aria-label="States" {
            @for (state, number) in counts {
                @let is_chosen = filter.states.contains(state);
                @if *number > 0 || is_chosen {
                    li { a.chip.(state.as_str()) href=(toggled(filter, *state).href(path)) aria-current=[is_chosen.then_some("true")] {
                        (parts::mark(*state)) (state.as_str()) " " b { (count(*number)) }
                    } }
                }
            }
            @if !filter.cluster.is_empty() { li { span.chip { "cluster " b { (filter.cluster) } } } }
            @if filter.is_set() { li { a.clear href=(path) { "Clear" } } }
        }
    }
}

/// Returns a filter with a state added, or removed if it has it.
fn toggled(filter: &Filter, state: State) -> Filter {
    let mut filter = filter.first();
    match filter.states.iter().position(|known| *known == state) {
        Some(at) => {
            filter.states.remove(at);
        }
        None => filter.states.push(state),
    }
    filter
}
