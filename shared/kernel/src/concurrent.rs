//! Bounded concurrency.

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};

/// Runs all futures, at most `most` at a time, and returns their results in the order of `work`.
///
/// The caller boxes the futures: a closure that borrows would make the whole step not `Send`.
pub async fn run<'a, T: Send + 'a>(most: usize, work: Vec<BoxFuture<'a, T>>) -> Vec<T> {
    let numbered = work
        .into_iter()
        .enumerate()
        .map(|(at, one)| one.map(move |answer| (at, answer)).boxed());
    let numbered: Vec<BoxFuture<'a, (usize, T)>> = numbered.collect();
    let mut answers: Vec<(usize, T)> = futures::stream::iter(numbered)
        .buffer_unordered(most)
        .collect()
        .await;
    answers.sort_by_key(|(at, _)| *at);
    answers.into_iter().map(|(_, answer)| answer).collect()
}
