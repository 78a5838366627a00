//! The credentials that a source reads a repository with.

use super::*;

const TEAM_B: &str = "acme/team-b";

fn git(repository: &str, more: Value) -> Value {
    let mut spec = json!({"interval": "1m", "url": format!("https://github.com/{repository}"),
        "ref": {"branch": "main"}});
    let more = more.as_object().cloned().unwrap_or_default();
    spec.as_object_mut().expect("a map").extend(more);
    spec
}

/// Starts a hub with a private fleet and a tenant's private repository, both readable with the
/// installation's own credentials.
fn private() -> Embedded {
    let world = Embedded::start(&HUB, &[]);
    for repository in [FLEET, TEAM_B] {
        let files = [
            Change::write("clusters/hub/a.yaml", config("a")),
            Change::write("base/kustomization.yaml", "resources: [b.yaml]\n"),
            Change::write("base/b.yaml", config("b")),
        ];
        world.commit(repository, &files);
        world.set_private(repository, &["ghp_team_b"]);
        world.let_installation_read(repository);
    }
    for namespace in ["team-a", "team-b", "team-c"] {
        world.cluster("hub").namespace(namespace);
    }
    world.sweep();
    world.settle();
    world
}

#[track_caller]
fn is_refused(world: &Embedded, namespace: &str, name: &str) -> String {
    let (status, reason, message) = condition(world, "GitRepository", namespace, name);
    assert_eq!(status, "False", "{namespace}/{name}: {reason}: {message}");
    message
}

#[test]
fn sources_of_tenants_are_anonymous() {
    let world = private();
    let hub = world.cluster("hub");
    is_true(&world, "GitRepository", "flux-system", "flux-system");
    is_true(&world, "Kustomization", "flux-system", "flux-system");

    // Without a Secret, with a deploy key alone, with the name of the root source, and in its
    // namespace.
    let identity = json!({"identity": "-----BEGIN OPENSSH PRIVATE KEY-----", "known_hosts": "x"});
    hub.secret("team-a", "key", &identity);
    let key = json!({"secretRef": {"name": "key"}});
    create(
        &world,
        "GitRepository",
        "team-a",
        "bare",
        git(TEAM_B, json!({})),
    );
    create(&world, "GitRepository", "team-a", "key", git(TEAM_B, key));
    create(
        &world,
        "GitRepository",
        "team-a",
        "flux-system",
        git(FLEET, json!({})),
    );
    create(
        &world,
        "GitRepository",
        "flux-system",
        "other",
        git(FLEET, json!({})),
    );
    let message = is_refused(&world, "team-a", "bare");
    for part in [
        "spec.secretRef",
        "--allow-installation-repository team-a=acme/team-b",
    ] {
        assert!(message.contains(part), "{message}");
    }
    let message = is_refused(&world, "team-a", "key");
    assert!(message.contains("deploy key"), "{message}");
    is_refused(&world, "team-a", "flux-system");
    is_refused(&world, "flux-system", "other");
    assert_eq!(world.downloads(TEAM_B), 0);

    // The root source may read only the repository that the operator named.
    let root = path("GitRepository", "flux-system", "flux-system");
    let url =
        |repository: &str| json!({"spec": {"url": format!("https://github.com/{repository}")}});
    hub.patch(&root, &url(TEAM_B));
    look(&world, "GitRepository", "flux-system", "flux-system");
    is_refused(&world, "flux-system", "flux-system");
    assert_eq!(world.downloads(TEAM_B), 0);
    hub.patch(&root, &url("Acme/Fleet.git"));
    look(&world, "GitRepository", "flux-system", "flux-system");
    is_true(&world, "GitRepository", "flux-system", "flux-system");

    // A source with its own login, and a source of a public repository.
    let login = json!({"username": "git", "password": "ghp_team_b"});
    hub.secret("team-b", "login", &login);
    let login = json!({"secretRef": {"name": "login"}});
    create(&world, "GitRepository", "team-b", "own", git(TEAM_B, login));
    is_true(&world, "GitRepository", "team-b", "own");
    world.commit("acme/public", &[Change::write("a.yaml", config("a"))]);
    create(
        &world,
        "GitRepository",
        "team-a",
        "public",
        git("acme/public", json!({})),
    );
    is_true(&world, "GitRepository", "team-a", "public");
}

#[test]
fn installation_credentials_read_only_allowed_repositories() {
    let world = private();
    let hub = world.cluster("hub");
    let identity = json!({"identity": "-----BEGIN OPENSSH PRIVATE KEY-----"});
    hub.secret("team-b", "key", &identity);
    let key = json!({"secretRef": {"name": "key"}});
    world.change("hub", |settings| {
        let grants = ["team-a=acme/team-b", "team-b=ACME/team-*"];
        settings.installation_repositories = grants.map(str::to_owned).to_vec();
    });
    for (namespace, name, spec) in [
        ("team-a", "named", git(TEAM_B, json!({}))),
        ("team-a", "other", git(FLEET, json!({}))),
        ("team-b", "key", git(TEAM_B, key)),
        ("team-c", "bare", git(TEAM_B, json!({}))),
    ] {
        create(&world, "GitRepository", namespace, name, spec);
    }
    is_true(&world, "GitRepository", "team-a", "named");
    is_true(&world, "GitRepository", "team-b", "key");
    is_refused(&world, "team-a", "other");
    is_refused(&world, "team-c", "bare");

    // A hub whose registration names no root repository: the source keeps its artifact, and reports
    // the flag to set.
    world.change("hub", |settings| settings.root_repository = None);
    look(&world, "GitRepository", "flux-system", "flux-system");
    let message = is_refused(&world, "flux-system", "flux-system");
    let flag = "--allow-installation-repository flux-system=acme/fleet";
    assert!(message.contains(flag), "{message}");
    let root = hub.get(&path("GitRepository", "flux-system", "flux-system"));
    assert!(root["status"]["artifact"].is_object(), "{root}");
    world.change("hub", |settings| {
        settings.installation_repositories = vec!["flux-system=acme/fleet".to_owned()];
    });
    look(&world, "GitRepository", "flux-system", "flux-system");
    is_true(&world, "GitRepository", "flux-system", "flux-system");
}

#[test]
fn remote_bases_need_the_same_access() {
    let world = private();
    world.change("hub", |settings| settings.allow_remote_bases = true);
    let base = format!("resources: ['https://github.com/{TEAM_B}//base?ref=main']\n");
    world.commit("acme/public", &[Change::write("kustomization.yaml", base)]);
    let public = git("acme/public", json!({}));
    create(&world, "GitRepository", "team-a", "public", public);
    let mut spec = sync("./");
    spec["sourceRef"] = json!({"kind": "GitRepository", "name": "public"});
    create(&world, "Kustomization", "team-a", "public", spec);
    let (status, reason, message) = condition(&world, "Kustomization", "team-a", "public");
    assert_eq!((&*status, &*reason), ("False", "BuildFailed"), "{message}");
    let flag = "--allow-installation-repository team-a=acme/team-b";
    assert!(message.contains(flag), "{message}");

    world.change("hub", |settings| {
        settings.installation_repositories = vec!["team-a=acme/team-b".to_owned()];
    });
    look(&world, "Kustomization", "team-a", "public");
    is_true(&world, "Kustomization", "team-a", "public");
}

#[test]
fn commits_are_not_shared_between_identities() {
    let world = private();
    let hub = world.cluster("hub");
    for (namespace, name, token) in [
        ("team-b", "own", "ghp_team_b"),
        ("team-c", "copy", "ghp_team_b"),
        ("team-a", "wrong", "ghp_wrong"),
    ] {
        let login = json!({"username": "git", "password": token});
        hub.secret(namespace, name, &login);
    }
    let of = |name: &str| json!({"secretRef": {"name": name}});
    create(
        &world,
        "GitRepository",
        "team-b",
        "own",
        git(TEAM_B, of("own")),
    );
    is_true(&world, "GitRepository", "team-b", "own");
    assert_eq!(world.downloads(TEAM_B), 1);

    // The address and hash alone give no access to artifacts that were downloaded with other
    // credentials.
    let sha = world.head(TEAM_B);
    let commit = |more: Value| {
        let mut spec = git(TEAM_B, more);
        spec["ref"] = json!({"commit": sha});
        spec
    };
    create(&world, "GitRepository", "team-a", "bare", commit(json!({})));
    create(
        &world,
        "GitRepository",
        "team-a",
        "wrong",
        commit(of("wrong")),
    );
    is_refused(&world, "team-a", "bare");
    is_refused(&world, "team-a", "wrong");

    // The same credentials in another namespace are the same identity: nothing is downloaded again.
    create(
        &world,
        "GitRepository",
        "team-c",
        "copy",
        git(TEAM_B, of("copy")),
    );
    is_true(&world, "GitRepository", "team-c", "copy");
    assert_eq!(world.downloads(TEAM_B), 1);
}

/// Another tenant's private repository cannot be read by a forged artifact with its digest.
#[test]
fn tenant_isolation_of_sources() {
    let world = private();
    let hub = world.cluster("hub");
    let login = json!({"username": "git", "password": "ghp_team_b"});
    hub.secret("team-b", "login", &login);
    let own = git(TEAM_B, json!({"secretRef": {"name": "login"}}));
    create(&world, "GitRepository", "team-b", "own", own);
    is_true(&world, "GitRepository", "team-b", "own");
    let stolen = hub.get(&path("GitRepository", "team-b", "own"))["status"]["artifact"].clone();

    // The administrator of a namespace may write the status of a source there.
    world.commit(
        "acme/public",
        &[Change::write("base/p.yaml", config("public"))],
    );
    create(
        &world,
        "GitRepository",
        "team-a",
        "public",
        git("acme/public", json!({})),
    );
    is_true(&world, "GitRepository", "team-a", "public");
    let source = path("GitRepository", "team-a", "public");
    let real = hub.get(&source)["status"]["artifact"].clone();
    let mut forged = stolen.clone();
    forged["revision"] = real["revision"].clone();
    let forge = || {
        let status = json!({"status": {"artifact": forged}});
        hub.patch(&format!("{source}/status"), &status);
    };
    forge();
    let mut spec = sync("./base");
    spec["sourceRef"] = json!({"kind": "GitRepository", "name": "public"});
    create(&world, "Kustomization", "team-a", "thief", spec);
    assert!(hub.find(&path("ConfigMap", "team-b", "b")).is_none());

    // The Kustomization requests a step of the source, which restores its own artifact.
    world.settle();
    let now = hub.get(&source)["status"]["artifact"].clone();
    assert_eq!(now["digest"], real["digest"]);
    forge();
    look(&world, "GitRepository", "team-a", "public");
    let now = hub.get(&source)["status"]["artifact"].clone();
    assert_eq!(now["digest"], real["digest"]);
    look(&world, "Kustomization", "team-a", "thief");
    is_true(&world, "Kustomization", "team-a", "thief");
    assert!(hub.find(&path("ConfigMap", "team-b", "b")).is_none());
}
