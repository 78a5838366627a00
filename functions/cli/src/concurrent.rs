//! Requests at the same time, bounded.

use futures::StreamExt as _;

/// The most requests at a time.
const MOST: usize = 8;

/// Runs all futures, some at a time, and returns their results in the order of `work`.
pub async fn run<F: Future>(work: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    futures::stream::iter(work).buffered(MOST).collect().await
}
