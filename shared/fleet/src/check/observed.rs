//! What a check has observed between two rounds.

use crate::embedded::{Objects, Row, State, World};

/// The world with its objects, and the state of each Flux object.
#[derive(Clone, Copy)]
pub struct Observed<'a> {
    /// The API servers of the hubs and of the remote clusters.
    pub world: &'a World,
    /// The states of the Flux objects.
    pub rows: &'a [Row],
    /// All Flux objects.
    pub objects: &'a Objects,
}

impl<'a> Observed<'a> {
    /// Returns the states of the objects that failed.
    pub fn failed(self) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(|row| row.state == State::Failed)
    }
}
