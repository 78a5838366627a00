//! Bounded concurrency, in one place.

use futures::StreamExt as _;
use futures::future::BoxFuture;

/// Runs all of the work, at most `most` pieces at once. The answers come in the order in which they were ready.
///
/// The futures are boxed by the caller: a closure that borrows would keep the whole step from being `Send`.
pub async fn run<'a, T: Send + 'a>(most: usize, work: Vec<BoxFuture<'a, T>>) -> Vec<T> {
    futures::stream::iter(work)
        .buffer_unordered(most)
        .collect()
        .await
}
