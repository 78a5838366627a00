use crate::world::{World, is_git_here, listing, remote};
use driftless_git::{Auth, Error, FetchOptions, Limit, Secret};
use driftless_manifest::TreePath;

/// `group/fleet` with `deps/lib` in it, and in that `inner`.
fn nested(url: &str) -> World {
    let world = World::new();
    for name in ["group/inner", "group/lib", "group/fleet"] {
        world.repository(name);
    }
    let add = |into: &str, from: &str, path: &str, url: &str| {
        let from = world.path(from).display().to_string();
        world.git(into, &["submodule", "--quiet", "add", &from, path]);
        let key = format!("submodule.{path}.url");
        world.git(into, &["config", "-f", ".gitmodules", &key, url]);
    };
    world.commit("group/inner", &[("i.yaml", "i\n")]);
    world.commit("group/lib", &[("l.yaml", "l\n")]);
    add("group/lib", "group/inner", "inner", "../inner.git/../inner");
    world.commit("group/lib", &[]);
    add("group/fleet", "group/lib", "deps/lib", url);
    world.commit("group/fleet", &[("a.yaml", "a\n"), ("b/b.yaml", "b\n")]);
    world
}

fn with_submodules() -> FetchOptions {
    let mut options = FetchOptions::default();
    options.submodules = true;
    options
}

#[tokio::test]
async fn relative_urls_and_submodules_of_submodules() {
    if !is_git_here() {
        return;
    }
    for url in ["../lib", "./../lib/", "https://git.example/group/lib"] {
        let world = nested(url);
        let mut server = world.server();
        server.login = Some("Bearer canary".to_owned());
        let mut fleet = remote(server, "https://git.example/group/fleet");
        fleet.auth = Auth::Bearer(Secret::new("canary"));
        let commit = world.id("group/fleet", "HEAD");
        let fetched = fleet.fetch(commit, &with_submodules()).await.unwrap();
        let files = listing(&fetched);
        let is_file = |line: &&String| !line.contains(".gitmodules");
        assert_eq!(
            files.iter().filter(is_file).collect::<Vec<_>>(),
            [
                "a.yaml=a\n",
                "b/b.yaml=b\n",
                "deps/lib/inner/i.yaml=i\n",
                "deps/lib/l.yaml=l\n"
            ],
            "{url}"
        );
        // Without the option they are left out.
        let fetched = fleet.fetch(commit, &FetchOptions::default()).await.unwrap();
        assert_eq!(listing(&fetched).len(), 3);
        let mut options = with_submodules();
        options.directories = vec![TreePath::new("b").unwrap()];
        let fetched = fleet.fetch(commit, &options).await.unwrap();
        let listed = listing(&fetched);
        assert!(listed.contains(&"b/b.yaml=b\n".to_owned()), "{listed:?}");
        assert!(
            !listed.iter().any(|file| file.starts_with("deps/")),
            "{listed:?}"
        );
        fleet.limits.submodules = 1;
        let error = fleet.fetch(commit, &with_submodules()).await.unwrap_err();
        assert!(
            matches!(error, Error::Limit(Limit::Submodules(1))),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn another_server_gets_no_login() {
    if !is_git_here() {
        return;
    }
    for url in [
        "https://other.example/group/lib",
        "http://git.example/group/lib",
    ] {
        let world = nested(url);
        let server = std::sync::Arc::new(world.server());
        let mut fleet = remote(world.server(), "https://git.example/group/fleet");
        fleet.network = server.clone();
        fleet.auth = Auth::Bearer(Secret::new("canary"));
        let commit = world.id("group/fleet", "HEAD");
        fleet.fetch(commit, &with_submodules()).await.unwrap();
        for (_, url, login) in server.asked.lock().unwrap().iter() {
            let is_home = url.starts_with("https://git.example/group/fleet");
            assert_eq!(login.is_some(), is_home, "{url}");
        }
    }
}

#[tokio::test]
async fn invalid_urls_are_refused() {
    if !is_git_here() {
        return;
    }
    for url in [
        "../../../lib",
        "/etc/passwd",
        "file:///etc",
        "ext::sh -c x",
        "--upload-pack=x",
    ] {
        let world = nested(url);
        let fleet = remote(world.server(), "https://git.example/group/fleet");
        let commit = world.id("group/fleet", "HEAD");
        let error = fleet.fetch(commit, &with_submodules()).await.unwrap_err();
        assert!(matches!(error, Error::Content(_)), "{url}: {error:?}");
    }
}
