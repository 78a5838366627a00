//! Bounded concurrency, in one place.

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};

/// Runs all of the work, at most `most` pieces at once. The answers come in the order of the work.
///
/// The futures are boxed by the caller: a closure that borrows would keep the whole step from being `Send`.
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
