use super::*;
use driftless_kernel::ports::{Blobs as _, ErrorKind, Precondition};
use driftless_manifest::EntryKind;
use driftless_memory::MemoryBlobs;
use futures::FutureExt as _;

/// Returns the result of a future that never waits, as those of in-memory ports.
fn now<T>(future: impl Future<Output = T>) -> T {
    future
        .now_or_never()
        .expect("in-memory ports answer at once")
}

/// Returns the ports of a new process over the same bucket.
fn process(blobs: &Arc<MemoryBlobs>) -> Ports {
    driftless_memory::ports(blobs.clone(), Arc::default(), Arc::default())
}

fn path(text: &str) -> TreePath {
    TreePath::new(text).unwrap()
}

/// Returns a tree that does not fit the first request for its packed files.
fn large() -> FileTree {
    let mut tree = FileTree::new();
    let mut number = 1_u64;
    for directory in 0..60 {
        let content = (0..12_000).map(|_| {
            number = number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            number.to_be_bytes()[0]
        });
        let content: Vec<u8> = content.collect();
        let at = path(&format!("apps/{directory:02}/data.bin"));
        tree.insert(at, EntryKind::File, content).unwrap();
    }
    tree
}

fn stored(ports: &Ports, tree: &FileTree) -> ArtifactStatus {
    now(artifact::store(ports, tree.clone(), "main@sha1:1")).unwrap()
}

fn key(artifact: &ArtifactStatus) -> String {
    artifact::files_key(artifact::hash_of(artifact).unwrap())
}

#[test]
fn only_the_pieces_of_the_wanted_files_are_loaded() {
    let blobs = Arc::new(MemoryBlobs::default());
    let tree = large();
    let artifact = stored(&process(&blobs), &tree);
    // The archive is not needed.
    now(blobs.delete(&artifact.path)).unwrap();

    let ports = process(&blobs);
    let mut files = now(open(&ports, &artifact, &Tank::default())).unwrap();
    assert_eq!(files.index(), tree.index());
    let wanted = [path("apps/50/data.bin"), path("nothing")];
    now(files.load(&ports, &wanted)).unwrap();
    let loaded = |files: &Files| {
        let all = tree.index().iter();
        let loaded = all.filter(|(path, _)| files.tree().content(path).is_some());
        loaded.count()
    };
    let [wanted, _] = wanted;
    assert_eq!(files.tree().content(&wanted), tree.content(&wanted));
    assert!(loaded(&files) < 30, "{} files are loaded", loaded(&files));

    let whole = now(files.load_all(&ports)).unwrap();
    for (path, _) in tree.index().iter() {
        assert_eq!(whole.content(path), tree.content(path), "{path}");
    }
}

#[test]
fn files_are_read_once_by_a_process() {
    let blobs = Arc::new(MemoryBlobs::default());
    let ports = process(&blobs);
    let artifact = stored(&ports, &large());
    now(blobs.delete(&key(&artifact))).unwrap();
    now(blobs.delete(&artifact.path)).unwrap();
    assert!(
        now(load(&ports, &artifact, &Tank::default())).is_ok(),
        "the store keeps them"
    );
    let other = process(&blobs);
    let error = now(load(&other, &artifact, &Tank::default())).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
}

#[test]
fn packed_files_are_made_again_if_they_are_lost_or_damaged() {
    let blobs = Arc::new(MemoryBlobs::default());
    let tree = large();
    let artifact = stored(&process(&blobs), &tree);
    let key = key(&artifact);
    let (good, _) = now(blobs.get(&key)).unwrap().unwrap();
    let mut end = good.to_vec();
    let last = end.len() - 1;
    end[last] ^= 1;
    for damaged in [
        None,
        Some(Vec::new()),
        Some(b"x".to_vec()),
        Some(good[..10_000].to_vec()),
        Some(end),
    ] {
        match damaged {
            None => now(blobs.delete(&key)).unwrap(),
            Some(bytes) => {
                let put = blobs.put(&key, bytes.into(), Precondition::None);
                now(put).unwrap();
            }
        }
        let whole = now(load(&process(&blobs), &artifact, &Tank::default())).unwrap();
        for (path, _) in tree.index().iter() {
            assert_eq!(whole.content(path), tree.content(path), "{path}");
        }
        assert_eq!(now(blobs.get(&key)).unwrap().unwrap().0, good);
    }
}
