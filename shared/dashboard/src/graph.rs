//! What waits for what, as a picture: nodes in columns, each to the right of what it needs.

use crate::model::{Row, Snapshot, State};
use driftless_flux::ObjectRef;
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};

/// The most nodes of a picture.
const MOST: usize = 120;
/// The width and the height of a node.
const WIDTH: usize = 196;
const HEIGHT: usize = 40;
/// The distances between columns, and between the nodes of one.
const GAP_X: usize = 56;
const GAP_Y: usize = 12;
/// The most characters of a name in a node.
const NAME: usize = 24;

/// The nodes of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The given rows, and what they need.
    Rows,
    /// The given rows, all that they need, and what needs them directly.
    Neighbours,
}

/// A place in a picture.
type Key = (String, ObjectRef);

/// An edge from a node to what it needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// The hub of both.
    pub hub: String,
    /// The object that needs the other one.
    pub from: ObjectRef,
    /// The object that is needed first.
    pub to: ObjectRef,
}

/// Returns the edges of rows: to their sources and to what they depend on.
pub fn edges<'r>(rows: impl IntoIterator<Item = &'r Row>) -> Vec<Edge> {
    let mut edges = BTreeSet::new();
    for row in rows {
        for to in row.depends_on.iter().chain(&row.source) {
            edges.insert(Edge {
                hub: row.hub.clone(),
                from: row.id.clone(),
                to: to.clone(),
            });
        }
    }
    edges.into_iter().collect()
}

/// Renders the picture.
pub fn svg(snapshot: &Snapshot, rows: &[&Row], scope: Scope) -> Markup {
    let nodes = nodes(snapshot, rows, scope);
    let total = nodes.len();
    if total > MOST {
        return html! {
            div.empty { p { "The picture would have " (total) " nodes: choose a hub, a namespace or a state. At most " (MOST) " are drawn." } }
        };
    }
    if total == 0 {
        return html! { div.empty { p { "No object passes the filter." } } };
    }
    let edges: Vec<(Key, Key)> = nodes
        .values()
        .flat_map(|row| {
            let needs = row.depends_on.iter().chain(&row.source);
            let from = (row.hub.clone(), row.id.clone());
            needs.map(move |to| (from.clone(), (row.hub.clone(), to.clone())))
        })
        .filter(|(_, to)| nodes.contains_key(to))
        .collect();
    let edges = reduced(&edges);
    let places = places(&nodes, &edges);
    let columns = places
        .values()
        .map(|(column, _)| column + 1)
        .max()
        .unwrap_or(1);
    let lines = places.values().map(|(_, line)| line + 1).max().unwrap_or(1);
    let (width, height) = (
        columns * (WIDTH + GAP_X) - GAP_X + 2,
        lines * (HEIGHT + GAP_Y) - GAP_Y + 2,
    );
    let label = format!("{total} objects and what they wait for");
    html! {
        div.graph tabindex="0" role="region" aria-label="Graph" {
            svg width=(width) height=(height) viewBox=(format!("0 0 {width} {height}")) role="group" aria-label=(label) {
                defs {
                    marker #arrow viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto" {
                        path d="M0 0l8 4-8 4z" {}
                    }
                }
                @for (from, to) in &edges {
                    @if let (Some(start), Some(end)) = (places.get(to), places.get(from)) {
                        path.edge.(nodes.get(to).map_or("", |row| row.state.as_str())) d=(curve(*start, *end)) marker-end="url(#arrow)" {}
                    }
                }
                @for (key, row) in &nodes {
                    @if let Some(place) = places.get(key) { (node(row, *place, rows)) }
                }
            }
        }
    }
}

/// Returns the edges without those that follow from others: what an object waits for indirectly
/// needs no separate line.
fn reduced(edges: &[(Key, Key)]) -> Vec<(Key, Key)> {
    let mut needs: BTreeMap<&Key, BTreeSet<&Key>> = BTreeMap::new();
    for (from, to) in edges {
        needs.entry(from).or_default().insert(to);
    }
    let reaches = |start: &Key, end: &Key| {
        let (mut open, mut seen) = (vec![start], BTreeSet::from([start]));
        while let Some(key) = open.pop() {
            if key == end {
                return true;
            }
            let next = needs.get(key).into_iter().flatten();
            open.extend(next.filter(|next| seen.insert(**next)).copied());
        }
        false
    };
    let follows = |(from, to): &&(Key, Key)| {
        let mut others = needs.get(from).into_iter().flatten();
        others.any(|other| *other != to && reaches(other, to) && !reaches(to, other))
    };
    edges
        .iter()
        .filter(|edge| !follows(edge))
        .cloned()
        .collect()
}

/// Returns the nodes of a picture.
fn nodes<'s>(snapshot: &'s Snapshot, rows: &[&'s Row], scope: Scope) -> BTreeMap<Key, &'s Row> {
    let all: BTreeMap<Key, &Row> = snapshot
        .objects
        .iter()
        .map(|row| ((row.hub.clone(), row.id.clone()), row))
        .collect();
    let mut nodes: BTreeMap<Key, &Row> = BTreeMap::new();
    let mut open: Vec<&Row> = rows.to_vec();
    if scope == Scope::Neighbours {
        let needs = |other: &&&Row| {
            rows.iter().any(|row| {
                row.hub == other.hub
                    && (other.depends_on.contains(&row.id)
                        || other.source.as_ref() == Some(&row.id))
            })
        };
        open.extend(all.values().filter(needs).take(MOST / 2));
    }
    while let Some(row) = open.pop() {
        let key = (row.hub.clone(), row.id.clone());
        if nodes.insert(key, row).is_some() || nodes.len() > MOST * 4 {
            continue;
        }
        let needs = row.depends_on.iter().chain(&row.source);
        open.extend(needs.filter_map(|to| all.get(&(row.hub.clone(), to.clone())).copied()));
    }
    nodes
}

/// Returns the column and the line of each node. A circle of dependencies ends where it began.
fn places(nodes: &BTreeMap<Key, &Row>, edges: &[(Key, Key)]) -> BTreeMap<Key, (usize, usize)> {
    let mut columns: BTreeMap<&Key, usize> = nodes.keys().map(|key| (key, 0)).collect();
    for _ in 0..nodes.len().min(24) {
        let mut is_changed = false;
        for (from, to) in edges {
            let needed = columns.get(to).copied().unwrap_or_default() + 1;
            if let Some(column) = columns.get_mut(from)
                && *column < needed
                && needed < 24
            {
                *column = needed;
                is_changed = true;
            }
        }
        if !is_changed {
            break;
        }
    }
    let mut lines: BTreeMap<usize, usize> = BTreeMap::new();
    let mut order: Vec<(&Key, usize)> = columns.into_iter().collect();
    // Keep the nodes of a column in the order of what they need, so that few edges cross.
    order.sort_by_key(|(key, column)| {
        let first = edges
            .iter()
            .filter(|(from, _)| from == *key)
            .map(|(_, to)| to)
            .min();
        (*column, first, *key)
    });
    let mut places = BTreeMap::new();
    for (key, column) in order {
        let line = lines.entry(column).or_default();
        places.insert(key.clone(), (column, *line));
        *line += 1;
    }
    places
}

fn corner((column, line): (usize, usize)) -> (usize, usize) {
    (column * (WIDTH + GAP_X) + 1, line * (HEIGHT + GAP_Y) + 1)
}

/// Returns the curve from the right side of one node to the left side of another.
fn curve(start: (usize, usize), end: (usize, usize)) -> String {
    let ((x, y), (to_x, to_y)) = (corner(start), corner(end));
    let (x, y, to_y) = (x + WIDTH, y + HEIGHT / 2, to_y + HEIGHT / 2);
    let middle = x.midpoint(to_x);
    format!("M{x} {y} C{middle} {y} {middle} {to_y} {to_x} {to_y}")
}

fn node(row: &Row, place: (usize, usize), chosen: &[&Row]) -> Markup {
    let (x, y) = corner(place);
    let is_chosen = chosen.len() == 1 && chosen.iter().any(|one| one.id == row.id);
    let title = format!(
        "{} {}/{}: {}",
        row.id.kind,
        row.id.namespace,
        row.id.name,
        row.state.as_str()
    );
    html! {
        a.node.(row.state.as_str()).chosen[is_chosen] href=(row.href()) aria-label=(title) {
            title { (title) }
            rect x=(x) y=(y) width=(WIDTH) height=(HEIGHT) rx="7" {}
            (shape(row.state, x + 18, y + HEIGHT / 2))
            text.name x=(x + 34) y=(y + 17) { (short(&row.id.name)) }
            text.kind x=(x + 34) y=(y + 31) { (short(&format!("{} · {}", row.id.kind, row.id.namespace))) }
        }
    }
}

/// Renders the shape of a state around a point.
fn shape(state: State, x: usize, y: usize) -> Markup {
    html! {
        @match state {
            State::Failed => path.shape d=(format!("M{} {y}l6-6 6 6-6 6z", x - 6)) {},
            State::Suspended => rect.shape x=(x - 5) y=(y - 5) width="10" height="10" rx="2" {},
            State::Ready => circle.shape cx=(x) cy=(y) r="5" {},
            State::Waiting | State::Progressing => circle.shape.open cx=(x) cy=(y) r="5" {},
        }
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(NAME) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or(text)),
        None => text.to_owned(),
    }
}
