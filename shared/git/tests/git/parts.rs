//! Parts of repositories: directories of a large repository, and signed objects without files.

use crate::world::{World, is_git_here, listing, remote};
use driftless_git::{Error, FetchOptions, Limit, Remote};
use driftless_manifest::TreePath;

const URL: &str = "https://git.example/mono";

/// Returns a string of a megabyte that does not shrink much.
pub fn noise(seed: u64) -> String {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        char::from(b'!' + ((state >> 33) % 90) as u8)
    };
    (0..1_000_000).map(|_| next()).collect()
}

/// A repository with files of a megabyte each.
fn mono() -> World {
    let world = World::new();
    world.repository("mono");
    let (one, two, three) = (noise(1), noise(2), noise(3));
    world.commit(
        "mono",
        &[
            (".sourceignore", "*.md\n"),
            ("apps/web/a.yaml", "a\n"),
            ("apps/web/deep/b.yaml", "b\n"),
            ("apps/other/large.bin", &one),
            ("apps/outside.yaml", "no\n"),
            ("data/large.bin", &two),
            ("clusters/hub/c.yaml", "c\n"),
            ("clusters/large.bin", &three),
        ],
    );
    world
}

const FILES: [&str; 4] = [
    ".sourceignore=*.md\n",
    "apps/web/a.yaml=a\n",
    "apps/web/deep/b.yaml=b\n",
    "clusters/hub/c.yaml=c\n",
];

fn options(directories: &[&str]) -> FetchOptions {
    let mut options = FetchOptions::default();
    let paths = directories.iter().map(|path| TreePath::new(path).unwrap());
    options.directories = paths.collect();
    options
}

/// Returns the repository with limits that the whole of it exceeds.
fn limited(world: &World, protocol: &'static str) -> Remote {
    let mut server = world.server();
    server.protocol = Some(protocol);
    let mut mono = remote(server, URL);
    mono.limits.packed = 100_000;
    mono.limits.unpacked = 100_000;
    mono
}

#[tokio::test]
async fn directories_of_a_repository_that_is_over_the_limit() {
    if !is_git_here() {
        return;
    }
    let world = mono();
    let tip = world.id("mono", "main");
    let mono = limited(&world, "version=2");
    let wanted = options(&["apps/web", "./clusters/hub/", "absent/directory"]);
    let fetched = mono.fetch(tip, &wanted).await.unwrap();
    assert_eq!(listing(&fetched), FILES);
    let whole = mono.fetch(tip, &options(&[])).await;
    let error = whole.unwrap_err();
    assert!(matches!(error, Error::Limit(Limit::Packed(_))), "{error}");
    let large = mono.fetch(tip, &options(&["apps"])).await;
    let error = large.unwrap_err();
    assert!(matches!(error, Error::Limit(Limit::Packed(_))), "{error}");
}

#[tokio::test]
async fn a_server_that_sends_no_parts_sends_the_whole_commit() {
    if !is_git_here() {
        return;
    }
    let world = mono();
    let tip = world.id("mono", "main");
    let mut mono = limited(&world, "version=0");
    let wanted = options(&["apps/web", "clusters/hub"]);
    let error = mono.fetch(tip, &wanted).await.unwrap_err();
    assert!(matches!(error, Error::Limit(Limit::Packed(_))), "{error}");
    mono.limits.packed = 10_000_000;
    mono.limits.unpacked = 10_000_000;
    let fetched = mono.fetch(tip, &wanted).await.unwrap();
    assert_eq!(listing(&fetched), FILES);
}

#[tokio::test]
async fn a_commit_and_its_tags_without_files() {
    if !is_git_here() {
        return;
    }
    let world = mono();
    let tip = world.id("mono", "main");
    world.git("mono", &["tag", "-a", "-m", "one", "v1", "main"]);
    world.git("mono", &["tag", "-a", "-m", "two", "v2", "v1"]);
    let mut wanted = FetchOptions::default();
    wanted.references = vec!["refs/tags/v2".to_owned()];
    wanted.tag = Some(world.id("mono", "refs/tags/v2"));
    let raw = |kind: &str, name: &str| world.git("mono", &["cat-file", kind, name]);
    for protocol in ["version=0", "version=2"] {
        let found = limited(&world, protocol).objects(tip, &wanted).await;
        let found = found.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        assert_eq!(text(&found.commit), raw("commit", "main"), "{protocol}");
        let tags: Vec<String> = found.tags.iter().map(|(_, tag)| text(tag)).collect();
        assert_eq!(tags, [raw("tag", "v2"), raw("tag", "v1")], "{protocol}");
    }
    wanted.tag = Some(world.id("mono", "refs/tags/v1"));
    let parent = world.commit("mono", &[("new.yaml", "new\n")]);
    let error = limited(&world, "version=2").objects(parent, &wanted).await;
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Content(_)), "{error}");
}
