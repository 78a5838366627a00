use crate::world::{World, clone, is_git_here, listing, remote};
use driftless_git::{Auth, Error, FetchOptions, Secret};
use driftless_manifest::git_tree_id;

const URL: &str = "https://git.example/fleet";

/// Two commits, a link and an executable, tags, a branch with a slash, a reference elsewhere.
fn fleet() -> World {
    let world = World::new();
    world.repository("fleet");
    world.commit("fleet", &[("a.yaml", "old\n")]);
    let script = world.path("fleet").join("run.sh");
    std::fs::write(&script, "#!/bin/sh\n").unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("../a.yaml", world.path("fleet").join("link")).unwrap();
    world.commit("fleet", &[("a.yaml", "a\n"), ("deep/er/b.yaml", "b\n")]);
    world.git("fleet", &["tag", "light"]);
    world.git("fleet", &["tag", "-a", "v1.0.0", "-m", "one"]);
    world.git(
        "fleet",
        &["tag", "-a", "v1.0.0-signed", "v1.0.0", "-m", "two"],
    );
    world.git("fleet", &["update-ref", "refs/pull/1/head", "HEAD~1"]);
    world.git("fleet", &["branch", "feature/x"]);
    world
}

const FILES: [&str; 4] = [
    "a.yaml=a\n",
    "deep/er/b.yaml=b\n",
    "link@=../a.yaml",
    "run.sh*=#!/bin/sh\n",
];

#[tokio::test]
async fn each_form_of_a_reference_in_each_protocol() {
    if !is_git_here() {
        return;
    }
    let world = fleet();
    for protocol in [
        None,
        Some("version=0"),
        Some("version=1"),
        Some("version=2"),
    ] {
        let mut server = world.server();
        server.protocol = protocol;
        let fleet = remote(server, URL);
        for reference in [
            "HEAD",
            "refs/heads/main",
            "refs/heads/feature/x",
            "refs/tags/light",
        ] {
            let fetched = clone(&fleet, reference).await.unwrap();
            assert_eq!(listing(&fetched), FILES, "{reference} {protocol:?}");
            assert!(fetched.tags.is_empty());
            let tree = world.git("fleet", &["rev-parse", "HEAD^{tree}"]);
            assert_eq!(git_tree_id(fetched.files.index()), tree);
            let commit = world.git("fleet", &["cat-file", "-p", "HEAD"]);
            assert_eq!(String::from_utf8_lossy(&fetched.commit).trim(), commit);
        }
        for (reference, tags) in [
            ("v1.0.0", vec!["one"]),
            ("v1.0.0-signed", vec!["two", "one"]),
        ] {
            let fetched = clone(&fleet, &format!("refs/tags/{reference}"))
                .await
                .unwrap();
            assert_eq!(listing(&fetched), FILES, "{reference} {protocol:?}");
            let messages = fetched.tags.iter().map(|(_, tag)| {
                let tag = String::from_utf8_lossy(tag);
                tag.lines().last().unwrap_or_default().to_owned()
            });
            assert_eq!(messages.collect::<Vec<_>>(), tags);
        }
        let fetched = clone(&fleet, "refs/pull/1/head").await.unwrap();
        assert_eq!(listing(&fetched), ["a.yaml=old\n"], "{protocol:?}");
        let missing = clone(&fleet, "refs/heads/none").await;
        assert!(matches!(missing, Err(Error::NotFound(_))), "{protocol:?}");
    }
}

#[tokio::test]
async fn a_commit_by_its_hash() {
    if !is_git_here() {
        return;
    }
    let world = fleet();
    let (tip, old) = (world.id("fleet", "main"), world.id("fleet", "main~1"));
    for protocol in ["version=0", "version=2"] {
        let mut server = world.server();
        server.protocol = Some(protocol);
        let fleet = remote(server, URL);
        let fetched = fleet.fetch(tip, &FetchOptions::default()).await.unwrap();
        assert_eq!(listing(&fetched), FILES);
        // Over HTTP, a server serves the target of any reference by its hash, because it is
        // stateless.
        let fetched = fleet.fetch(old, &FetchOptions::default()).await.unwrap();
        assert_eq!(listing(&fetched), ["a.yaml=old\n"]);
        let mut options = FetchOptions::default();
        options.references = vec!["refs/heads/main".to_owned()];
        let fetched = fleet.fetch(old, &options).await.unwrap();
        assert_eq!(listing(&fetched), ["a.yaml=old\n"]);
        let dangling = world.git("fleet", &["commit-tree", "-m", "x", "HEAD^{tree}"]);
        let dangling = fleet.fetch(crate::world::id(&dangling), &options).await;
        assert_eq!(dangling.is_ok(), protocol == "version=2", "{dangling:?}");
        let absent = crate::world::id(&"12".repeat(20));
        let error = fleet.fetch(absent, &options).await.unwrap_err();
        let message = error.to_string();
        assert!(matches!(error, Error::NotFound(_)), "{error:?}");
        assert!(message.contains("does not serve commit 1212"), "{message}");
    }
}

#[tokio::test]
async fn repositories_that_are_empty_or_not_there() {
    if !is_git_here() {
        return;
    }
    let world = World::new();
    world.repository("empty");
    world.repository("nothing");
    world.commit("nothing", &[]);
    for protocol in ["version=0", "version=2"] {
        let server = |name: &str| {
            let mut server = world.server();
            server.protocol = Some(protocol);
            remote(server, &format!("https://git.example/{name}"))
        };
        assert_eq!(
            server("empty")
                .references(&["refs/", "HEAD"])
                .await
                .unwrap(),
            []
        );
        let fetched = clone(&server("nothing"), "refs/heads/main").await.unwrap();
        assert!(fetched.files.index().is_empty());
        let error = server("absent").references(&["refs/"]).await.unwrap_err();
        assert!(matches!(error, Error::NotFound(_)), "{error:?}");
    }
}

#[tokio::test]
async fn logins_over_http() {
    if !is_git_here() {
        return;
    }
    let world = fleet();
    let basic = |password: &str| Auth::Basic {
        user: "git".to_owned(),
        password: Secret::new(password),
    };
    let bearer = |token: &str| Auth::Bearer(Secret::new(token));
    for (login, good, bad) in [
        ("Basic Z2l0OmNhbmFyeQ==", basic("canary"), basic("canary2")),
        ("Bearer canary", bearer("canary"), bearer("canary2")),
    ] {
        for (auth, works) in [(good, true), (bad, false), (Auth::None, false)] {
            let mut server = world.server();
            server.login = Some(login.to_owned());
            let mut fleet = remote(server, URL);
            fleet.auth = auth;
            let answer = clone(&fleet, "refs/heads/main").await;
            match (answer, works) {
                (Ok(fetched), true) => assert_eq!(listing(&fetched), FILES),
                (Err(Error::Unauthorised(message)), false) => assert!(!message.contains("canary")),
                (answer, _) => panic!("{login}: {answer:?}"),
            }
        }
    }
}

#[tokio::test]
async fn the_first_request_is_redirected_and_takes_no_login_along() {
    if !is_git_here() {
        return;
    }
    let world = fleet();
    for (url, to, works) in [
        (URL, "https://other.example", true),
        ("http://git.example/fleet", "https://other.example", false),
        (URL, "http://other.example", false),
        (URL, "https://git.example", false),
        (URL, "ssh://other.example", false),
        (URL, "https://user@other.example", false),
    ] {
        let mut server = world.server();
        server.redirect = Some(("git.example".to_owned(), to.to_owned()));
        let server = std::sync::Arc::new(server);
        let mut fleet = remote(world.server(), url);
        fleet.network = server.clone();
        fleet.auth = Auth::Bearer(Secret::new("canary"));
        let answer = clone(&fleet, "refs/heads/main").await;
        assert_eq!(answer.is_ok(), works, "{to}: {answer:?}");
        let asked = server.asked.lock().unwrap();
        for (_, url, login) in asked.iter() {
            assert_eq!(login.is_some(), url.contains("git.example"), "{url}");
        }
        assert!(
            asked
                .iter()
                .filter(|(_, url, _)| url.contains("git.example"))
                .count()
                <= 11
        );
    }
}
