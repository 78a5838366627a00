//! Servers that lie, and packs that no git writes.

use crate::world::{answer, clone, remote};
use async_trait::async_trait;
use bytes::Bytes;
use driftless_git::{
    Body, BoxError, Duplex, Error, FetchOptions, Limit, Limits, Network, ObjectId, Remote,
};
use flate2::{Compression, write::ZlibEncoder};
use futures::StreamExt;
use http::{Request, Response, StatusCode};
use sha1::{Digest, Sha1};
use std::io::Write;
use std::time::Duration;

const URL: &str = "https://git.example/fleet";
const COMMIT: u8 = 1;
const TREE: u8 = 2;
const BLOB: u8 = 3;
const OFS_DELTA: u8 = 6;
const REF_DELTA: u8 = 7;

/// A network that answers with prepared responses.
#[derive(Clone, Default)]
struct Liar {
    /// The answer to `ls-refs`, in packets.
    references: Vec<u8>,
    /// The answer to `fetch`, in packets.
    pack: Vec<u8>,
    /// Bytes that follow each answer without end.
    tail: Option<Vec<u8>>,
    /// Never ends an answer.
    hangs: bool,
}

#[async_trait]
impl Network for Liar {
    async fn request(&self, request: Request<Bytes>) -> Result<Response<Body>, BoxError> {
        let is_fetch = request
            .body()
            .windows(13)
            .any(|text| text == b"command=fetch");
        let (kind, body) = match (request.method().as_str(), is_fetch) {
            ("GET", _) => {
                let mut body = packet(b"# service=git-upload-pack\n");
                body.extend_from_slice(b"0000");
                for line in ["version 2\n", "agent=x\n", "ls-refs\n", "fetch=shallow\n"] {
                    body.extend(packet(line.as_bytes()));
                }
                body.extend_from_slice(b"0000");
                ("advertisement", body)
            }
            (_, false) => ("result", self.references.clone()),
            (_, true) => ("result", self.pack.clone()),
        };
        let is_get = kind == "advertisement";
        let kind = format!("application/x-git-upload-pack-{kind}");
        let response = answer(StatusCode::OK, &[("content-type", &kind)], body);
        if is_get {
            return Ok(response);
        }
        let (tail, hangs) = (self.tail.clone(), self.hangs);
        Ok(response.map(|body| match tail {
            Some(tail) => {
                let tail = Bytes::from(tail);
                body.chain(futures::stream::repeat_with(move || Ok(tail.clone())))
                    .boxed()
            }
            None if hangs => body.chain(futures::stream::pending()).boxed(),
            None => body,
        }))
    }

    async fn connect(&self, _: &str, _: u16) -> Result<Box<dyn Duplex>, BoxError> {
        Err("there is no SSH here".into())
    }
}

fn packet(data: &[u8]) -> Vec<u8> {
    [format!("{:04x}", data.len() + 4).as_bytes(), data].concat()
}

/// A pack as an answer to `fetch`.
fn packed(pack: &[u8]) -> Vec<u8> {
    let mut body = packet(b"packfile\n");
    for chunk in pack.chunks(60_000) {
        body.extend(packet(&[&[1], chunk].concat()));
    }
    body.extend_from_slice(b"0000");
    body
}

fn zlib(data: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// Makes an entry that announces this many bytes.
fn lying(kind: u8, size: u64, base: &[u8], data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = size >> 4;
    let mut byte = (kind << 4) | (size & 15) as u8;
    while rest > 0 {
        out.push(byte | 0x80);
        byte = (rest & 127) as u8;
        rest >>= 7;
    }
    out.push(byte);
    out.extend_from_slice(base);
    out.extend(zlib(data));
    out
}

fn entry(kind: u8, data: &[u8]) -> Vec<u8> {
    lying(kind, data.len() as u64, &[], data)
}

fn offset(mut distance: u64) -> Vec<u8> {
    let mut out = vec![(distance & 127) as u8];
    distance >>= 7;
    while distance > 0 {
        distance -= 1;
        out.insert(0, 0x80 | (distance & 127) as u8);
        distance >>= 7;
    }
    out
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value > 127 {
        out.push(0x80 | (value & 127) as u8);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn pack_of(count: u32, entries: &[Vec<u8>]) -> Vec<u8> {
    let mut pack = b"PACK\0\0\0\x02".to_vec();
    pack.extend_from_slice(&count.to_be_bytes());
    pack.extend(entries.concat());
    let checksum = Sha1::digest(&pack);
    pack.extend_from_slice(&checksum);
    pack
}

fn pack(entries: &[Vec<u8>]) -> Vec<u8> {
    pack_of(entries.len() as u32, entries)
}

fn object(kind: &str, data: &[u8]) -> ObjectId {
    let mut hash = Sha1::new();
    hash.update(format!("{kind} {}\0", data.len()));
    hash.update(data);
    ObjectId::from_bytes_or_panic(&hash.finalize())
}

fn tree(entries: &[(&str, &str, ObjectId)]) -> Vec<u8> {
    let entries = entries
        .iter()
        .map(|(mode, name, id)| [format!("{mode} {name}\0").as_bytes(), id.as_slice()].concat());
    entries.collect::<Vec<_>>().concat()
}

fn commit(tree: &[u8]) -> Vec<u8> {
    let tree = object("tree", tree);
    let who = "a <a@example.com> 0 +0000";
    format!("tree {tree}\nauthor {who}\ncommitter {who}\n\nx\n").into_bytes()
}

/// Returns a server with one commit of this root tree, and these further entries.
fn serving(root: &[u8], mut entries: Vec<Vec<u8>>) -> (Remote, ObjectId) {
    let commit = commit(root);
    entries.push(entry(TREE, root));
    entries.push(entry(COMMIT, &commit));
    let liar = Liar {
        pack: packed(&pack(&entries)),
        ..Liar::default()
    };
    (remote(liar, URL), object("commit", &commit))
}

async fn fetch(remote: &Remote, commit: ObjectId) -> Error {
    let fetched = remote.fetch(commit, &FetchOptions::default()).await;
    fetched.map(|_| ()).unwrap_err()
}

async fn sent(pack: &[u8], limits: Limits) -> Error {
    let liar = Liar {
        pack: packed(pack),
        ..Liar::default()
    };
    let mut remote = remote(liar, URL);
    remote.limits = limits;
    fetch(&remote, crate::world::id(&"12".repeat(20))).await
}

fn small() -> Limits {
    let mut limits = Limits::default();
    limits.packed = 1 << 20;
    limits.unpacked = 4 << 20;
    limits.references = 1 << 20;
    limits.objects = 10_000;
    limits
}

#[tokio::test]
async fn a_pack_that_unpacks_to_too_much() {
    let zeros = vec![0; 8 << 20];
    let base = entry(BLOB, b"base");
    let delta = |size: u64| {
        let instructions = [varint(4), varint(size), vec![0x90, 4]].concat();
        let distance = offset(base.len() as u64);
        lying(
            OFS_DELTA,
            instructions.len() as u64,
            &distance,
            &instructions,
        )
    };
    let over = Limit::Unpacked(4 << 20);
    for (name, entries) in [
        ("large", vec![entry(BLOB, &zeros)]),
        (
            "many",
            (0..9)
                .map(|at| entry(BLOB, &zeros[at..(1 << 19) + at]))
                .collect(),
        ),
        ("announced", vec![lying(BLOB, u64::MAX >> 4, &[], b"x")]),
        ("delta", vec![base.clone(), delta(1 << 40)]),
    ] {
        let error = sent(&pack(&entries), small()).await;
        assert!(
            matches!(error, Error::Limit(limit) if limit == over),
            "{name}: {error:?}"
        );
    }
    let error = sent(&pack_of(u32::MAX, &[]), small()).await;
    assert!(
        matches!(error, Error::Limit(Limit::Objects(10_000))),
        "{error:?}"
    );
    let mut noise = Vec::new();
    let mut hash = Sha1::digest(b"");
    while noise.len() < 2 << 20 {
        hash = Sha1::digest(hash);
        noise.extend_from_slice(&hash);
    }
    let error = sent(&pack(&[entry(BLOB, &noise)]), small()).await;
    assert!(matches!(error, Error::Limit(Limit::Packed(_))), "{error:?}");
}

#[tokio::test]
async fn packs_that_are_damaged() {
    let zeros = vec![0; 8 << 20];
    let id = [7; 20];
    let good = pack(&[entry(BLOB, b"x")]);
    let mut wrong = good.clone();
    wrong[12] ^= 1;
    let delta = |instructions: &[u8]| {
        let base = entry(BLOB, b"base");
        let distance = offset(base.len() as u64);
        let delta = lying(
            OFS_DELTA,
            instructions.len() as u64,
            &distance,
            instructions,
        );
        pack(&[base, delta])
    };
    for (name, pack) in [
        ("nothing", Vec::new()),
        ("no pack", b"hello".to_vec()),
        ("checksum", wrong),
        ("cut", good[..good.len() - 1].to_vec()),
        ("longer than it says", pack(&[lying(BLOB, 1, &[], &zeros)])),
        ("shorter than it says", pack(&[lying(BLOB, 9, &[], b"x")])),
        ("fewer objects", pack_of(2, &[entry(BLOB, b"x")])),
        ("more objects", pack_of(0, &[entry(BLOB, b"x")])),
        ("kind 0", pack(&[entry(0, b"x")])),
        ("kind 5", pack(&[entry(5, b"x")])),
        ("no base", pack(&[lying(REF_DELTA, 1, &id, b"x")])),
        (
            "its own base",
            pack(&[lying(OFS_DELTA, 1, &offset(0), b"x")]),
        ),
        (
            "before the pack",
            pack(&[lying(OFS_DELTA, 1, &offset(9999), b"x")]),
        ),
        ("no instruction", delta(&[4, 4, 0])),
        ("beyond the base", delta(&[4, 4, 0x91, 2, 4])),
        ("another base", delta(&[5, 4, 0x90, 4])),
        ("too few bytes", delta(&[4, 5, 0x90, 4])),
        ("too many bytes", delta(&[4, 3, 0x90, 4])),
        ("no size", delta(&[0x84])),
        ("endless size", delta(&[0xff; 30])),
    ] {
        let error = sent(&pack, small()).await;
        assert!(matches!(error, Error::Protocol(_)), "{name}: {error:?}");
    }
}

/// A blob and a chain of deltas upon it, each with one byte more.
fn chain(length: usize) -> (Vec<Vec<u8>>, ObjectId) {
    let mut entries = vec![entry(BLOB, b"a")];
    for size in 1..=length as u64 {
        let mut copy = vec![0xb0, size as u8, (size >> 8) as u8];
        copy.extend_from_slice(&[1, b'a']);
        let instructions = [varint(size), varint(size + 1), copy].concat();
        let distance = offset(entries.last().unwrap().len() as u64);
        entries.push(lying(
            OFS_DELTA,
            instructions.len() as u64,
            &distance,
            &instructions,
        ));
    }
    (entries, object("blob", &vec![b'a'; length + 1]))
}

#[tokio::test]
async fn chains_of_deltas() {
    for (length, fits) in [(1, true), (500, true), (501, false), (5000, false)] {
        let (entries, top) = chain(length);
        let (remote, commit) = serving(&tree(&[("100644", "a", top)]), entries);
        let fetched = remote.fetch(commit, &FetchOptions::default()).await;
        match (fetched, fits) {
            (Ok(fetched), true) => {
                let (_, file) = fetched.files.index().iter().next().unwrap();
                assert_eq!(file.size, length as u64 + 1);
            }
            (Err(Error::Limit(Limit::Deltas(500))), false) => {}
            (answer, _) => panic!("{length}: {answer:?}"),
        }
    }
}

#[tokio::test]
async fn names_that_no_file_may_have() {
    let blob = object("blob", b"x");
    let empty = object("tree", b"");
    for names in [
        &["..", "a"][..],
        &["."],
        &[".git"],
        &[".GIT"],
        &["a/b"],
        &["/etc"],
        &["../../etc/passwd"],
        &[""],
        &["a", "a"],
    ] {
        for mode in ["100644", "40000", "120000", "160000"] {
            let id = if mode == "40000" { empty } else { blob };
            let entries: Vec<_> = names.iter().map(|name| (mode, *name, id)).collect();
            let (remote, commit) = serving(&tree(&entries), vec![entry(BLOB, b"x")]);
            let error = fetch(&remote, commit).await;
            // An empty name is not a valid entry of a tree.
            assert!(
                matches!(error, Error::Content(_)),
                "{names:?} {mode}: {error:?}"
            );
        }
    }
    let mixed = [("100644", "a", blob), ("40000", "a", empty)];
    let (remote, commit) = serving(&tree(&mixed), vec![entry(BLOB, b"x")]);
    assert!(matches!(fetch(&remote, commit).await, Error::Content(_)));
    for mode in ["100666", "0", "777777"] {
        let (remote, commit) = serving(&tree(&[(mode, "a", blob)]), vec![entry(BLOB, b"x")]);
        let error = fetch(&remote, commit).await;
        assert!(matches!(error, Error::Content(_)), "{mode}: {error:?}");
    }
}

#[tokio::test]
async fn trees_that_are_too_deep_and_too_wide() {
    let blob = object("blob", b"x");
    // Each directory holds the one below ten times: 10^12 files in 13 objects, and as many
    // directories without any file.
    for start in [tree(&[("100644", "x", blob)]), Vec::new()] {
        let mut entries = vec![entry(BLOB, b"x")];
        let mut root = start;
        for _ in 0..12 {
            entries.push(entry(TREE, &root));
            let id = object("tree", &root);
            let names: Vec<String> = (0..10).map(|digit| digit.to_string()).collect();
            let below: Vec<_> = names
                .iter()
                .map(|name| ("40000", name.as_str(), id))
                .collect();
            root = tree(&below);
        }
        let (remote, commit) = serving(&root, entries);
        let error = fetch(&remote, commit).await;
        assert!(
            matches!(error, Error::Limit(Limit::Files(100_000))),
            "{error:?}"
        );
    }
    let mut entries = vec![entry(BLOB, b"x")];
    let mut root = tree(&[("100644", "x", blob)]);
    for _ in 0..300 {
        entries.push(entry(TREE, &root));
        root = tree(&[("40000", "d", object("tree", &root))]);
    }
    let (remote, commit) = serving(&root, entries);
    let error = fetch(&remote, commit).await;
    assert!(
        matches!(error, Error::Limit(Limit::Depth(256))),
        "{error:?}"
    );
}

#[tokio::test]
async fn objects_are_verified_by_their_hashes() {
    let root = tree(&[("100644", "a", object("blob", b"good"))]);
    // Another file than the tree names.
    let (remote, commit) = serving(&root, vec![entry(BLOB, b"evil")]);
    let error = fetch(&remote, commit).await;
    assert!(matches!(error, Error::Protocol(_)), "{error:?}");
    // Another commit than the requested one.
    let (remote, _) = serving(&root, vec![entry(BLOB, b"good")]);
    let error = fetch(&remote, crate::world::id(&"12".repeat(20))).await;
    assert!(matches!(error, Error::NotFound(_)), "{error:?}");
    // A file in place of the commit.
    let error = fetch(&remote, object("blob", b"good")).await;
    assert!(matches!(error, Error::Protocol(_)), "{error:?}");
}

#[tokio::test]
async fn answers_without_an_end() {
    let limits = small();
    let progress = packet(&[&[2][..], &[b'.'; 1000]].concat());
    let line = packet(format!("{} refs/heads/main\n", "12".repeat(20)).as_bytes());
    let id = crate::world::id(&"12".repeat(20));
    let mut endless = remote(
        Liar {
            references: line.clone(),
            pack: packet(b"packfile\n"),
            tail: Some(progress),
            hangs: false,
        },
        URL,
    );
    endless.limits = limits.clone();
    let error = fetch(&endless, id).await;
    assert!(matches!(error, Error::Limit(Limit::Packed(_))), "{error:?}");
    let mut listing = remote(
        Liar {
            tail: Some(line.clone()),
            ..Liar::default()
        },
        URL,
    );
    listing.limits = limits;
    let error = listing.references(&["refs/"]).await.unwrap_err();
    assert!(
        matches!(error, Error::Limit(Limit::References(_))),
        "{error:?}"
    );
    let mut silent = remote(
        Liar {
            references: line,
            pack: packet(b"packfile\n"),
            tail: None,
            hangs: true,
        },
        URL,
    );
    silent.limits.time = Duration::from_millis(50);
    let error = fetch(&silent, id).await;
    assert!(matches!(error, Error::Limit(Limit::Time(_))), "{error:?}");
    let error = silent.references(&["refs/"]).await.unwrap_err();
    assert!(matches!(error, Error::Limit(Limit::Time(_))), "{error:?}");
}

#[tokio::test]
async fn messages_of_a_server_are_shown_without_control_characters() {
    let evil = b"ERR \x1b[31mred\x1b]0;title\x07 \xff\xe2\x80\xae\r\n";
    let banded = packet(&[b"\x03fatal: ", &evil[..]].concat());
    for pack in [packet(evil), [packet(b"packfile\n"), banded].concat()] {
        let liar = Liar {
            references: packet(evil),
            pack,
            ..Liar::default()
        };
        let remote = remote(liar, URL);
        for error in [
            fetch(&remote, crate::world::id(&"12".repeat(20))).await,
            clone(&remote, "refs/heads/main")
                .await
                .map(|_| ())
                .unwrap_err(),
        ] {
            let message = error.to_string();
            assert!(message.contains("red"), "{message}");
            let is_shown = |c: char| !c.is_control() && c != '\u{202e}';
            assert!(message.chars().all(is_shown), "{message:?}");
        }
    }
}

#[tokio::test]
async fn invalid_references_are_refused() {
    let id = "12".repeat(20);
    for line in [
        "hello\n".to_owned(),
        "zz refs/heads/main\n".to_owned(),
        format!("{} refs/heads/main\n", "12".repeat(32)),
        format!("{id} refs/heads/main peeled:zz\n"),
        format!("{id}\n"),
    ] {
        let liar = Liar {
            references: [packet(line.as_bytes()), b"0000".to_vec()].concat(),
            ..Liar::default()
        };
        let error = remote(liar, URL).references(&["refs/"]).await.unwrap_err();
        assert!(matches!(error, Error::Protocol(_)), "{line}: {error:?}");
    }
    for body in ["", "0", "zzzz", "0005", "0003", "fff0"] {
        let liar = Liar {
            references: body.into(),
            ..Liar::default()
        };
        let error = remote(liar, URL).references(&["refs/"]).await.unwrap_err();
        assert!(matches!(error, Error::Protocol(_)), "{body}: {error:?}");
    }
}
