//! Lists that are read page by page.

use super::{Page, Result};
use driftless_manifest::Object;

/// The number of times that a list begins again because its continuation token expired.
const RESTARTS: usize = 3;

/// Reads all pages of a list, and adds the objects of each page to a collection. Returns the
/// collection and the resourceVersion of the last page. The list begins again if the token of a
/// page has expired: pages from different moments are not a consistent list.
///
/// # Errors
/// Those of `read`.
pub async fn all_pages<C: Default, Reading: Future<Output = Result<Page>>>(
    read: impl Fn(String) -> Reading,
    add: impl Fn(&mut C, Vec<Object>),
) -> Result<(C, String)> {
    let (mut all, mut next, mut restarts) = (C::default(), String::new(), 0);
    loop {
        let is_first = next.is_empty();
        let page = match read(next).await {
            Err(error) if !is_first && restarts < RESTARTS && error.is_expired() => {
                restarts += 1;
                (all, next) = (C::default(), String::new());
                continue;
            }
            page => page?,
        };
        add(&mut all, page.objects);
        if page.next.is_empty() {
            return Ok((all, page.version));
        }
        next = page.next;
    }
}
