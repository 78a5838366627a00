//! The versions of the functions of an installation.

use driftless_kernel::functions::{VERSION, only_hub, register, versions};
use driftless_kernel::ports::{Blobs as _, ErrorKind, Precondition};
use driftless_memory::MemoryBlobs;

#[test]
fn the_version_of_the_last_start_is_recorded() {
    futures::executor::block_on(check_versions());
}

async fn check_versions() {
    let blobs = MemoryBlobs::default();
    assert!(versions(&blobs).await.unwrap().is_empty());
    let old = r#"{"version": "0.0.1"}"#.into();
    let put = blobs.put("versions/drift.json", old, Precondition::None);
    put.await.unwrap();
    register(&blobs, "webhook", Some("staging")).await.unwrap();
    let found = versions(&blobs).await.unwrap();
    assert_eq!(found["drift"], "0.0.1");
    assert_eq!(found["webhook"], VERSION);
    assert_eq!(only_hub(&blobs).await.unwrap(), None, "an old record");
    for hub in [Some("staging"), None] {
        register(&blobs, "drift", hub).await.unwrap();
        assert_eq!(only_hub(&blobs).await.unwrap().as_deref(), hub);
    }
    assert_eq!(versions(&blobs).await.unwrap()["drift"], VERSION);
    let newer = r#"{"format": 2, "version": "9.0.0", "hub": "staging"}"#;
    for (record, expected) in [("damaged", Ok(None)), (newer, Err(ErrorKind::Unsupported))] {
        let put = blobs.put("versions/drift.json", record.into(), Precondition::None);
        put.await.unwrap();
        let found = only_hub(&blobs).await;
        assert_eq!(found.map_err(|error| error.kind), expected);
    }
}
