use bytes::Bytes;
use driftless_adapters::aws::S3Blobs;
use driftless_adapters::local::DirectoryBlobs;
use driftless_kernel::ports::{BlobEntry, Blobs, ErrorKind, Precondition, PutOutcome, Version};
use driftless_memory::MemoryBlobs;
use driftless_nats::NatsBlobs;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

type Store = Arc<dyn Blobs>;

/// Keys that a file system, a URL or a signature could misinterpret.
const KEYS: [&str; 9] = [
    "plain",
    "A/plain",
    "a/plain",
    "a",
    "a/b+c/d.json",
    "a/with space",
    "a/%2e%2e",
    "a/ü~!'()*&=@:,;$",
    "a/plain.blob",
];

fn done(put: PutOutcome) -> Version {
    match put {
        PutOutcome::Done(version) => version,
        PutOutcome::PreconditionFailed => panic!("refused"),
    }
}

fn keys(listed: Vec<BlobEntry>) -> Vec<String> {
    listed.into_iter().map(|entry| entry.key).collect()
}

async fn write(store: &Store, key: &str, text: &str, when: Precondition) -> PutOutcome {
    let content = Bytes::from(text.to_owned());
    store.put(key, content, when).await.expect("an answer")
}

async fn conditions(store: &Store) {
    let is = |version: &Version| Precondition::Is(version.clone());
    assert_eq!(store.get("x/lease").await.expect("read"), None);
    let other = Version("\"9e107d9d372bb6826bd81d3542a419d6\"".into());
    assert_eq!(
        write(store, "x/lease", "0", is(&other)).await,
        PutOutcome::PreconditionFailed,
        "nothing to replace"
    );
    assert_eq!(store.get("x/lease").await.expect("read"), None);
    let first = done(write(store, "x/lease", "1", Precondition::Absent).await);
    assert_eq!(
        write(store, "x/lease", "2", Precondition::Absent).await,
        PutOutcome::PreconditionFailed
    );
    let current = Some((Bytes::from("1"), first.clone()));
    assert_eq!(store.get("x/lease").await.expect("read"), current);
    let second = done(write(store, "x/lease", "2", is(&first)).await);
    assert_ne!(first, second);
    assert_eq!(
        write(store, "x/lease", "3", is(&first)).await,
        PutOutcome::PreconditionFailed,
        "an old version"
    );
    let listed = store.list("x/lease").await.expect("list");
    assert_eq!((listed[0].key.as_str(), listed[0].size), ("x/lease", 1));
    // A version in a list is the blob's own: a caller that knows it need not read the blob.
    let version = listed[0].version.as_ref();
    assert!(listed.len() == 1 && version.is_none_or(|listed| *listed == second));
    assert_eq!(store.size("x/lease").await.expect("look"), Some(1));
    let current = Some((Bytes::from("2"), second.clone()));
    assert_eq!(store.get("x/lease").await.expect("read"), current);
    store.delete("x/lease").await.expect("delete");
    store.delete("x/lease").await.expect("delete what is gone");
    assert_eq!(store.size("x/lease").await.expect("look"), None);
    assert_eq!(
        write(store, "x/lease", "4", is(&second)).await,
        PutOutcome::PreconditionFailed,
        "the blob is deleted"
    );
    done(write(store, "x/lease", "5", Precondition::Absent).await);
    done(write(store, "x/lease", "6", Precondition::None).await);
}

/// Checks that a blob that was set aside can no longer be read, and that a newer version stays.
async fn set_aside(store: &Store) {
    let damaged = done(write(store, "aside", "{\"a\":", Precondition::Absent).await);
    let newer = done(write(store, "aside", "{}", Precondition::None).await);
    store.set_aside("aside", &damaged).await.expect("an answer");
    assert!(store.get("aside").await.expect("read").is_some());
    store.set_aside("aside", &newer).await.expect("an answer");
    assert_eq!(store.get("aside").await.expect("read"), None);
    store
        .set_aside("aside", &newer)
        .await
        .expect("no error for a deleted blob");
}

async fn names(store: &Store) {
    for key in KEYS {
        done(write(store, key, key, Precondition::Absent).await);
    }
    for key in KEYS {
        let (content, _) = store.get(key).await.expect("read").expect(key);
        assert_eq!(content, key);
    }
    let mut sorted = KEYS.to_vec();
    sorted.sort_unstable();
    assert_eq!(keys(store.list("").await.expect("list")), sorted);
    for prefix in ["a/", "a/with", "a", "nothing", "a/plain"] {
        let expected: Vec<_> = sorted
            .iter()
            .filter(|key| key.starts_with(prefix))
            .collect();
        assert_eq!(
            keys(store.list(prefix).await.expect("list")),
            expected.iter().map(|k| k.to_string()).collect::<Vec<_>>()
        );
    }
    for key in KEYS {
        store.delete(key).await.expect("delete");
    }
    assert!(store.list("").await.expect("list").is_empty());
}

async fn sizes(store: &Store) {
    for size in [0, 1, 9 << 20] {
        let content = Bytes::from(vec![7; size]);
        done(
            store
                .put("size", content.clone(), Precondition::None)
                .await
                .expect("write"),
        );
        assert_eq!(
            store.get("size").await.expect("read").expect("a blob").0,
            content
        );
    }
    // More than one page of a listing.
    let all: Vec<String> = (0..1005).map(|n| format!("many/{n:04}")).collect();
    for some in all.chunks(16) {
        futures::future::join_all(
            some.iter()
                .map(|key| write(store, key, "", Precondition::None)),
        )
        .await;
    }
    assert_eq!(keys(store.list("many/").await.expect("list")), all);
}

/// Checks that a range has the bytes of the blob, up to its end.
async fn ranges(store: &Store) {
    done(write(store, "part", "0123456789", Precondition::None).await);
    for (range, expected) in [(0..4, "0123"), (4..10, "456789"), (9..100, "9")] {
        let part = store.get_range("part", range.clone()).await.expect("read");
        assert_eq!(part, Some(Bytes::from(expected)), "{range:?}");
    }
    let behind = store.get_range("part", 10..20).await;
    let error = behind.expect_err("a range behind the end");
    assert_eq!(error.kind, ErrorKind::Unreadable);
    assert_eq!(store.get_range("nothing", 0..4).await.expect("read"), None);
    store.delete("part").await.expect("delete");
}

/// Checks that of many writers with one precondition, one wins, and that the blob is the winner's.
async fn races(store: &Store) {
    let mut current = done(write(store, "race", "start", Precondition::Absent).await);
    for round in 0..10 {
        let when = if round % 2 == 0 {
            Precondition::Is(current.clone())
        } else {
            store.delete("race").await.expect("delete");
            Precondition::Absent
        };
        let writers = (0..12).map(|n| {
            let (store, when) = (store.clone(), when.clone());
            tokio::spawn(async move {
                (
                    n,
                    write(&store, "race", &format!("{round}-{n}"), when).await,
                )
            })
        });
        let mut winners = Vec::new();
        for writer in futures::future::join_all(writers).await {
            if let (n, PutOutcome::Done(version)) = writer.expect("a writer") {
                winners.push((n, version));
            }
        }
        assert_eq!(winners.len(), 1, "round {round}: {winners:?}");
        let (content, version) = store.get("race").await.expect("read").expect("a blob");
        assert_eq!(
            (content, &version),
            (format!("{round}-{}", winners[0].0).into(), &winners[0].1)
        );
        current = version;
    }
}

async fn refuses(store: &Store) {
    for key in ["", "/a", "a/", "a//b", &"x".repeat(1025)] {
        let refused = store
            .put(key, Bytes::new(), Precondition::None)
            .await
            .expect_err(key);
        assert_eq!(refused.kind, ErrorKind::Invalid, "{key}");
        assert_eq!(
            store.get(key).await.expect_err(key).kind,
            ErrorKind::Invalid,
            "{key}"
        );
        assert_eq!(
            store.delete(key).await.expect_err(key).kind,
            ErrorKind::Invalid,
            "{key}"
        );
    }
}

async fn contract(store: Store) {
    conditions(&store).await;
    store.delete("x/lease").await.expect("delete");
    names(&store).await;
    sizes(&store).await;
    ranges(&store).await;
    races(&store).await;
    // Last: each store keeps a blob that was set aside in its own place.
    set_aside(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_memory() {
    contract(Arc::new(MemoryBlobs::default())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_a_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let store: Store = Arc::new(DirectoryBlobs::open(directory.path()).expect("a store"));
    refuses(&store).await;
    contract(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_s3() {
    let settings = crate::settings().await;
    let aws = crate::ministack().aws();
    aws.must("s3", "create_bucket", json!({"Bucket": "contract"}));
    let store: Store = Arc::new(S3Blobs::new(&settings, "contract", true));
    refuses(&store).await;
    contract(store.clone()).await;
    assert_eq!(store.url("a/b"), "s3://contract/a/b");
    // A missing bucket is not reported as a missing blob, by a read or a write.
    let nowhere: Store = Arc::new(S3Blobs::new(&settings, "nowhere", true));
    assert_eq!(
        nowhere.get("a").await.expect_err("no bucket").kind,
        ErrorKind::NotFound
    );
    assert_eq!(
        nowhere.list("a").await.expect_err("no bucket").kind,
        ErrorKind::NotFound
    );
    for when in [
        Precondition::None,
        Precondition::Absent,
        Precondition::Is(Version("\"x\"".into())),
    ] {
        let error = nowhere
            .put("a", Bytes::new(), when)
            .await
            .expect_err("no bucket");
        assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_nats() {
    let nats = crate::nats("blobs").await;
    let store: Store = Arc::new(NatsBlobs::new(&nats));
    refuses(&store).await;
    contract(store.clone()).await;
    assert_eq!(store.url("a/b"), "nats://blobs-blobs/a/b");
    large_blobs(&store).await;
    set_aside_parts(&store).await;
    listings(&store).await;
}

/// Checks that a large blob that was set aside has its own parts, and that its old ones are gone.
async fn set_aside_parts(store: &Store) {
    let content = Bytes::from(vec![7; 3 << 20]);
    let put = store.put("artifacts/large", content, Precondition::Absent);
    let version = done(put.await.expect("write"));
    let stream = nats_stream("blobs-chunks").await;
    let before = stream.cached_info().state.last_sequence;
    let aside = store.set_aside("artifacts/large", &version).await;
    aside.expect("set aside");
    assert_eq!(store.get("artifacts/large").await.expect("read"), None);
    let stream = nats_stream("blobs-chunks").await;
    let state = &stream.cached_info().state;
    assert_eq!(state.messages, 6);
    assert_eq!(state.first_sequence, before + 1, "the old parts are left");
    let part = stream.get_raw_message(state.last_sequence).await;
    let part = part.expect("a part");
    let ttl = part.headers.get("Nats-TTL").map(|ttl| ttl.as_str());
    assert_eq!(ttl, Some("604800"), "a week");
}

/// Checks that a listing ends while others write and delete, and has each blob that stays once.
async fn listings(store: &Store) {
    const STAYING: usize = 40;
    let end = Arc::new(AtomicBool::new(false));
    let staying = |number: usize| format!("waits/staying-{number:02}");
    for number in 0..STAYING {
        done(write(store, &staying(number), "0", Precondition::None).await);
    }
    let writers = (0..4).map(|writer| {
        let (store, end) = (store.clone(), end.clone());
        tokio::spawn(async move {
            let mut round = 0;
            while !end.load(Ordering::Relaxed) {
                let key = staying((writer * 11 + round) % STAYING);
                let text = round.to_string();
                done(write(&store, &key, &text, Precondition::None).await);
                let note = format!("waits/note-{writer}-{}", round % 7);
                done(write(&store, &note, "", Precondition::None).await);
                store.delete(&note).await.expect("delete");
                round += 1;
            }
            round
        })
    });
    let writers: Vec<_> = writers.collect();
    let (start, mut longest) = (Instant::now(), Duration::ZERO);
    while start.elapsed() < Duration::from_secs(5) {
        let start = Instant::now();
        let listed = keys(store.list("waits/").await.expect("list"));
        longest = longest.max(start.elapsed());
        assert!(listed.is_sorted_by(|one, next| one < next), "{listed:?}");
        for number in 0..STAYING {
            assert!(listed.contains(&staying(number)), "{number}: {listed:?}");
        }
    }
    end.store(true, Ordering::Relaxed);
    for writer in writers {
        let rounds = writer.await.expect("the writer");
        assert!(rounds > STAYING, "{rounds} rounds");
    }
    assert!(longest < Duration::from_secs(8), "{longest:?}");
}

/// Checks blobs that are larger than a message: their parts are replaced and deleted with them, and
/// a reader sees one version or another.
async fn large_blobs(store: &Store) {
    // The contract leaves a large blob.
    store.delete("size").await.expect("delete");
    assert_eq!(parts().await, 0);
    let content = |byte: u8| Bytes::from(vec![byte; 3 << 20]);
    let first = store.put("artifacts/large", content(1), Precondition::Absent);
    let first = done(first.await.expect("write"));
    let refused = store.put("artifacts/large", content(9), Precondition::Absent);
    let refused = refused.await.expect("an answer");
    assert_eq!(refused, PutOutcome::PreconditionFailed);
    for range in [
        0..4,
        (512 << 10) - 2..(512 << 10) + 2,
        (3 << 20) - 3..(4 << 20),
    ] {
        let part = store.get_range("artifacts/large", range.clone()).await;
        let part = part.expect("read").expect("a part");
        let end = range.end.min(3 << 20);
        assert_eq!(part.len() as u64, end - range.start, "{range:?}");
        assert!(part.iter().all(|byte| *byte == 1), "{range:?}");
    }
    let behind = store.get_range("artifacts/large", 3 << 20..4 << 20).await;
    assert_eq!(behind.expect_err("no byte").kind, ErrorKind::Unreadable);
    let listed = store.list("artifacts/").await.expect("list");
    assert_eq!(
        (listed[0].size, &listed[0].version),
        (3 << 20, &Some(first.clone()))
    );
    assert_eq!(parts().await, 6);

    // Readers meet each version while a writer replaces it.
    let writer = {
        let (store, mut version) = (store.clone(), first);
        tokio::spawn(async move {
            for byte in 2..6 {
                let when = Precondition::Is(version);
                let put = store.put("artifacts/large", content(byte), when).await;
                version = done(put.expect("write"));
            }
            version
        })
    };
    while !writer.is_finished() {
        let (read, _) = store
            .get("artifacts/large")
            .await
            .expect("read")
            .expect("a blob");
        assert_eq!(read.len(), 3 << 20);
        assert!(
            read.iter().all(|byte| *byte == read[0]),
            "two versions in one"
        );
    }
    let version = writer.await.expect("the writer");
    assert_eq!(parts().await, 6);
    done(write(store, "artifacts/large", "small", Precondition::Is(version)).await);
    assert_eq!(parts().await, 0);
    done(
        store
            .put("artifacts/large", content(1), Precondition::None)
            .await
            .expect("write"),
    );
    store.delete("artifacts/large").await.expect("delete");
    assert_eq!(parts().await, 0);
}

/// Returns the number of stored parts of large blobs, as another client counts them.
async fn parts() -> u64 {
    let stream = nats_stream("blobs-chunks").await;
    stream.cached_info().state.messages
}

/// Returns a stream, with its state now.
async fn nats_stream(name: &str) -> async_nats::jetstream::stream::Stream {
    let client = async_nats::connect(crate::nats_server().url()).await;
    let context = async_nats::jetstream::new(client.expect("connect"));
    context.get_stream(name).await.expect("the stream")
}
