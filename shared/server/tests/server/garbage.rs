//! The deletion of unused artifacts and notes.

use crate::site::{Site, files};
use driftless_adapters::local::DirectoryBlobs;
use driftless_kernel::ports::{Blobs as _, Precondition};
use driftless_server::Garbage;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The time for which unused files are kept.
const UNUSED_FILE_TTL: Duration = Duration::from_secs(3600);
/// The time for which the note of a waiting object is kept.
const WAIT_NOTE_TTL: Duration = Duration::from_secs(24 * 3600);

/// Makes every file older than the longest time for which files are kept.
fn age(state: &Path) {
    let long_ago = SystemTime::now() - 2 * WAIT_NOTE_TTL;
    for file in files(&state.join("blobs")) {
        let file = File::options().write(true).open(file).unwrap();
        file.set_modified(long_ago).unwrap();
    }
}

async fn keys(store: &DirectoryBlobs, prefix: &str) -> BTreeSet<String> {
    let listed = store.list(prefix).await.unwrap();
    listed.into_iter().map(|entry| entry.key).collect()
}

#[tokio::test(start_paused = true)]
async fn unused_files_are_deleted_and_used_files_stay() {
    let site = Site::new("one").await;
    let Ok(serving) = site.serve().await else {
        unreachable!("serve does not start")
    };
    serving.rest().await;
    let store = DirectoryBlobs::open(&site.state()).unwrap();
    let (artifacts, commits) = (
        keys(&store, "artifacts/").await,
        keys(&store, "commits/").await,
    );
    let charts = keys(&store, "charts/").await;
    // The files and their index, the repository's index, a chart.
    assert_eq!((artifacts.len(), commits.len(), charts.len()), (4, 1, 1));
    serving.push("two").await;
    serving.converges("two", "a second version").await;
    let all = keys(&store, "artifacts/").await;
    assert_eq!((all.len(), keys(&store, "commits/").await.len()), (6, 2));

    let ports = serving.ports.clone();
    let mut garbage = Garbage::new(store.clone());
    let mut collect = async || garbage.collect(&ports, "hub").await.unwrap();
    age(&site.state());
    // A record of the audit log expires by its own time, not by that of its file.
    let old = "audit/hub/2020/01/01/000000.000-old.json";
    let put = store.put(old, "{}".into(), Precondition::None);
    put.await.unwrap();
    let audited = keys(&store, "audit/").await;
    collect().await;
    let left = keys(&store, "audit/").await;
    assert_eq!(left.len() + 1, audited.len());
    assert!(!left.is_empty() && !left.contains(old), "{left:?}");
    tokio::time::sleep(UNUSED_FILE_TTL - Duration::from_secs(1)).await;
    collect().await;
    assert_eq!(
        keys(&store, "commits/").await.len(),
        2,
        "a step may still read the note"
    );
    age(&site.state());
    tokio::time::sleep(Duration::from_secs(1)).await;
    collect().await;
    assert_eq!(
        keys(&store, "commits/").await.len(),
        1,
        "the note is deleted first"
    );
    assert_eq!(
        keys(&store, "artifacts/").await,
        all,
        "a step that has read the note may still use the artifact"
    );
    collect().await;
    age(&site.state());
    tokio::time::sleep(UNUSED_FILE_TTL).await;
    collect().await;
    let left = keys(&store, "artifacts/").await;
    assert_eq!(
        all.difference(&left).count(),
        2,
        "the files of the first version and their index"
    );
    assert_eq!(keys(&store, "charts/").await, charts);

    // A hub that cannot be read may refer to everything.
    age(&site.state());
    assert!(garbage.collect(&ports, "another").await.is_err());
    serving.push("one").await;
    serving.converges("one", "the first version again").await;
    assert_eq!(keys(&store, "artifacts/").await.len(), 6);
    serving.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_file_that_was_stored_again_stays() {
    let site = Site::new("one").await;
    let Ok(serving) = site.serve().await else {
        unreachable!("serve does not start")
    };
    serving.rest().await;
    let ports = serving.ports.clone();
    serving.end().await;
    let store = DirectoryBlobs::open(&site.state()).unwrap();
    let mut garbage = Garbage::new(store.clone());
    let artifact = format!("artifacts/{}.tar.gz", "0".repeat(64));
    let put = async || {
        let when = Precondition::None;
        store.put(&artifact, "x".into(), when).await.unwrap()
    };
    put().await;
    age(&site.state());
    garbage.collect(&ports, "hub").await.unwrap();
    tokio::time::sleep(UNUSED_FILE_TTL).await;
    put().await;
    garbage.collect(&ports, "hub").await.unwrap();
    assert!(keys(&store, "artifacts/").await.contains(&artifact));
    age(&site.state());
    garbage.collect(&ports, "hub").await.unwrap();
    assert!(!keys(&store, "artifacts/").await.contains(&artifact));
}
