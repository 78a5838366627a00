//! The pages.

mod drift;
mod layout;
mod object;
mod objects;
mod overview;
mod parts;
mod pushes;

pub use drift::drift;
pub use layout::{Page, bare, message, page};
pub use object::{Details, object};
pub use objects::objects;
pub use overview::overview;
pub use pushes::pushes;

use crate::graph::{self, Scope};
use crate::model::Snapshot;
use crate::query::Filter;
use maud::{Markup, html};

/// Renders the page of what waits for what.
pub fn graph(snapshot: &Snapshot, filter: &Filter) -> Markup {
    let (rows, counts) = filter.apply(snapshot);
    html! {
        div.head { h1 { "Graph" } span.muted { "each object waits for those on its left" } }
        (objects::filters("/graph", snapshot, filter, &counts))
        (graph::svg(snapshot, &rows, Scope::Rows))
    }
}
