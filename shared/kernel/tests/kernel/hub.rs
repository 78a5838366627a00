//! Registered hubs: their roots, and the repositories that are read with the installation's access.

use driftless_flux::{FLUX_SYSTEM, FluxKind, ObjectRef};
use driftless_kernel::hub::{Hub, Settings, register, settings, with_registered_roots};
use driftless_kernel::kubeconfig::{self, Options};
use driftless_kernel::ports::GitAuth;
use driftless_manifest::Object;
use driftless_memory::{MemoryBlobs, MemoryCluster};
use futures::FutureExt as _;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns the result of a future that never waits, as those of in-memory ports.
fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().unwrap()
}

fn locked_down(name: &str) -> Settings {
    Settings {
        name: name.to_owned(),
        no_cross_namespace_refs: true,
        default_service_account: Some("tenant".to_owned()),
        ..Settings::default()
    }
}

const FLEET: &str = "https://github.com/acme/fleet";

fn git(namespace: &str, name: &str) -> ObjectRef {
    ObjectRef::new(FluxKind::GitRepository, namespace, name)
}

#[test]
fn a_hub_has_several_roots() {
    const OTHER: &str = "https://github.com/acme/environments";
    let blobs = Arc::<MemoryBlobs>::default();
    let ports = driftless_memory::ports(blobs, Arc::default(), Arc::default());
    let with_root = |root: &str, url: &str| {
        let mut settings = locked_down("eu");
        settings.set_root(root, url);
        settings
    };
    for (root, url) in [(FLUX_SYSTEM, FLEET), ("dev-flux-system", OTHER)] {
        let settings = with_root(root, url);
        let settings = now(with_registered_roots(&ports, &settings)).unwrap();
        now(register(&ports, &settings)).unwrap();
    }
    let known = now(settings(&ports, "eu")).unwrap();
    assert_eq!(
        known.roots(),
        BTreeMap::from([(FLUX_SYSTEM, FLEET), ("dev-flux-system", OTHER)])
    );
    for (source, url, auth) in [
        (git(FLUX_SYSTEM, FLUX_SYSTEM), FLEET, GitAuth::Installation),
        (
            git("dev-flux-system", "dev-flux-system"),
            OTHER,
            GitAuth::Installation,
        ),
        (
            git("dev-flux-system", "dev-flux-system"),
            FLEET,
            GitAuth::Anonymous,
        ),
        (git("dev-flux-system", "other"), OTHER, GitAuth::Anonymous),
        (git("team", "dev-flux-system"), OTHER, GitAuth::Anonymous),
        (
            git("qa-flux-system", "qa-flux-system"),
            OTHER,
            GitAuth::Anonymous,
        ),
    ] {
        assert_eq!(known.source_auth(&source, url), auth, "{source} {url}");
    }
    // Without a root, a registration keeps none.
    let none = now(with_registered_roots(&ports, &locked_down("eu"))).unwrap();
    assert!(none.roots().is_empty());
}

#[test]
fn the_root_source_is_named_by_the_operator() {
    let settings = Settings {
        root_repository: Some(FLEET.to_owned()),
        ..Settings::default()
    };
    let root = git(FLUX_SYSTEM, FLUX_SYSTEM);
    for (source, url, auth) in [
        (&root, FLEET, GitAuth::Installation),
        (
            &root,
            "ssh://git@github.com/Acme/fleet.git",
            GitAuth::Installation,
        ),
        (&root, "https://github.com/acme/other", GitAuth::Anonymous),
        (
            &root,
            "https://git.acme.example/acme/fleet",
            GitAuth::Anonymous,
        ),
        (
            &root,
            "https://github.com:8443/acme/fleet",
            GitAuth::Anonymous,
        ),
        (&root, "file:///srv/fleet", GitAuth::Anonymous),
        (&git(FLUX_SYSTEM, "other"), FLEET, GitAuth::Anonymous),
        (&git("team-a", FLUX_SYSTEM), FLEET, GitAuth::Anonymous),
    ] {
        assert_eq!(settings.source_auth(source, url), auth, "{source} {url}");
    }
    // A hub that was registered by an older version names no root.
    let older: Settings = serde_json::from_str(r#"{"name": "hub"}"#).unwrap();
    assert_eq!(older.source_auth(&root, FLEET), GitAuth::Anonymous);
}

#[test]
fn grants_are_for_their_namespace() {
    let grants = ["nonsense", "team-a=acme/*", "*=acme/public-*"];
    let settings = Settings {
        installation_repositories: grants.map(str::to_owned).to_vec(),
        ..Settings::default()
    };
    for (namespace, name, auth) in [
        ("team-a", "fleet", GitAuth::Installation),
        ("team-b", "fleet", GitAuth::Anonymous),
        ("team-b", "public-charts", GitAuth::Installation),
    ] {
        let url = format!("https://github.com/acme/{name}");
        assert_eq!(settings.source_auth(&git(namespace, "x"), &url), auth);
        assert_eq!(settings.repository_auth(namespace, &url), auth);
    }
}

/// The objects that are not wanted are dropped, of each page and of a list that begins again.
#[test]
fn wanted_objects_of_all_pages_are_listed() {
    let cluster = Arc::<MemoryCluster>::default();
    for name in ["a", "b", "c", "d", "e"] {
        let object = serde_json::json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"name": name, "namespace": "apps"},
        });
        cluster.put(Object::new(object).unwrap());
    }
    cluster.switch(|switches| {
        switches.page_size = 2;
        switches.expires_token = true;
    });
    let kubeconfig = r#"{"current-context": "c", "users": [{"name": "c", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://hub.acme.dev"}}]}"#;
    let hub = Hub {
        settings: Settings::default(),
        cluster: cluster.clone(),
        access: kubeconfig::parse(kubeconfig.as_bytes(), &Options::default()).unwrap(),
    };
    let is_wanted = |object: &Object| ["a", "c", "e"].contains(&object.name());
    let listed = now(hub.list_where(FluxKind::Kustomization, is_wanted)).unwrap();
    let names: Vec<&str> = listed.iter().map(Object::name).collect();
    assert_eq!(names, ["a", "c", "e"]);
}
