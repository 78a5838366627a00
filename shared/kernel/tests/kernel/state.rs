//! Damaged records in the bucket.

use bytes::Bytes;
use driftless_kernel::ports::{Blobs as _, ErrorKind, Precondition, Result};
use driftless_kernel::state::{read, recall};
use driftless_memory::MemoryBlobs;
use futures::FutureExt as _;
use futures::future::BoxFuture;

#[test]
fn a_damaged_record_is_set_aside_and_counts_as_absent() {
    let blobs = MemoryBlobs::default();
    let now = |future: BoxFuture<'_, Result<()>>| future.now_or_never().unwrap().unwrap();
    for damage in ["", "{\"a\": tr", "\u{0}\u{1}garbage"] {
        now(async {
            let bytes = Bytes::from(damage);
            blobs.put("state/a.json", bytes, Precondition::None).await?;
            let strict = read::<Vec<bool>>(&blobs, "state/a.json").await;
            assert_eq!(strict.unwrap_err().kind, ErrorKind::Unreadable, "{damage}");
            let found = recall::<Vec<bool>>(&blobs, "state/a.json").await?;
            assert!(found.is_none(), "{damage}");
            assert!(blobs.get("state/a.json").await?.is_none());
            let kept = blobs.get("damaged/state/a.json").await?;
            assert_eq!(kept.unwrap().0, damage);
            Ok(())
        }
        .boxed());
    }
}
