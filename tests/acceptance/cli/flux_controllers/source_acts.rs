//! The sources of the fourth comparison, and the edits of each, step by step.

use super::act::Edit::{self, Delete, Own};
use super::act::{Act, act, ask, look};
use serde_json::{Value, json};

/// A kind of source, and the act of one of its objects.
pub type Source = (&'static str, Act);

/// Returns the Secrets that exist before any source. Names in capitals are placeholders that a run
/// fills in.
pub fn secrets() -> Vec<Value> {
    let secret = |name: &str, kind: &str, entries: &Value| {
        json!({"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": {"name": name, "namespace": "apps"},
            "stringData": entries})
    };
    let opaque = |name: &str, entries: &Value| secret(name, "Opaque", entries);
    let docker = |name: &str, config: &str| {
        let entries = json!({".dockerconfigjson": config});
        secret(name, "kubernetes.io/dockerconfigjson", &entries)
    };
    vec![
        opaque("login", &json!({"username": "ann", "password": "pw"})),
        opaque("lost", &json!({"username": "ann", "password": "pw"})),
        docker(
            "lost-docker",
            r#"{"auths":{"LOCKED":{"username":"ann","password":"pw"}}}"#,
        ),
        opaque(
            "wrong-login",
            &json!({"username": "ann", "password": "other"}),
        ),
        opaque("no-password", &json!({"username": "ann"})),
        opaque("no-username", &json!({"password": "pw"})),
        opaque("empty", &json!({})),
        docker(
            "docker",
            r#"{"auths":{"LOCKED":{"username":"ann","password":"pw"}}}"#,
        ),
        docker(
            "docker-auth",
            r#"{"auths":{"http://LOCKED/v2/":{"auth":"YW5uOnB3"}}}"#,
        ),
        docker(
            "docker-elsewhere",
            r#"{"auths":{"ghcr.io":{"username":"ann","password":"pw"}}}"#,
        ),
        docker(
            "docker-wrong",
            r#"{"auths":{"LOCKED":{"username":"ann","password":"other"}}}"#,
        ),
        opaque("authority", &json!({"ca.crt": "AUTHORITY"})),
        opaque("old-authority", &json!({"caFile": "AUTHORITY"})),
        opaque("no-authority", &json!({"ca.crt": "nonsense"})),
        opaque("half-pair", &json!({"tls.crt": "AUTHORITY"})),
        opaque(
            "login-and-authority",
            &json!({"username": "ann", "password": "pw", "caFile": "AUTHORITY"}),
        ),
        opaque("keys", &json!({"accesskey": "test", "secretkey": "test"})),
        opaque("half-keys", &json!({"accesskey": "test"})),
        opaque("no-key", &json!({"accesskey": "", "secretkey": ""})),
        opaque(
            "proxy",
            &json!({"address": "PROXY", "username": "ann", "password": "pw"}),
        ),
        opaque(
            "socks",
            &json!({"address": "SOCKS", "username": "ann", "password": "pw"}),
        ),
        opaque("no-address", &json!({"username": "ann"})),
        opaque("no-scheme", &json!({"address": "ftp://proxy.example.com"})),
    ]
}

/// Returns all acts. A step of one source must not depend on one of another source.
pub fn acts() -> Vec<Source> {
    let of = |kind: &'static str, acts: Vec<Act>| acts.into_iter().map(move |act| (kind, act));
    of("HelmRepository", repositories())
        .chain(of("OCIRepository", artifacts()))
        .chain(of("Bucket", buckets()))
        .chain(of("GitRepository", trees()))
        .chain(of("HelmChart", charts()))
        .collect()
}

fn spec(change: Value) -> Vec<Edit> {
    vec![Own(json!({"spec": change}))]
}

/// Adds or replaces fields of a spec.
fn with(mut spec: Value, more: Value) -> Value {
    if let Value::Object(more) = more {
        for (field, value) in more {
            spec[field] = value;
        }
    }
    spec
}

fn still(name: &'static str, spec: Value) -> Act {
    act(name, spec, [])
}

fn repositories() -> Vec<Act> {
    let open = "OPEN/stable";
    let locked = |secret: &str| json!({"url": "HTTP-LOCKED/stable", "secretRef": {"name": secret}});
    let secure = |secret: &str| json!({"url": "SECURE/stable", "certSecretRef": {"name": secret}});
    vec![
        act("asked", json!({"url": open}), [look()]),
        act(
            "moves",
            json!({"url": open}),
            [
                spec(json!({"url": "OPEN/absent"})),
                spec(json!({"url": "OPEN/stable/"})),
            ],
        ),
        act(
            "comes",
            json!({"url": "OPEN/absent"}),
            [spec(json!({"url": open}))],
        ),
        act(
            "rests",
            json!({"url": open}),
            [
                spec(json!({"suspend": true})),
                spec(json!({"suspend": null, "timeout": "30s"})),
            ],
        ),
        act(
            "logs-in",
            locked("login"),
            [
                spec(json!({"secretRef": {"name": "wrong-login"}})),
                spec(json!({"secretRef": {"name": "login"}})),
            ],
        ),
        act(
            "loses",
            locked("lost"),
            [vec![Delete("secrets", "lost"), ask(&[])]],
        ),
        still("no-login", json!({"url": "HTTP-LOCKED/stable"})),
        still("no-secret", locked("absent")),
        still("no-password", locked("no-password")),
        still("no-username", locked("no-username")),
        still("no-entry", locked("empty")),
        still("secure", secure("authority")),
        still("secure-old", secure("old-authority")),
        still(
            "secure-both",
            json!({"url": "SECURE/stable", "secretRef": {"name": "login-and-authority"}}),
        ),
        still("no-authority", secure("no-authority")),
        still("half-pair", secure("half-pair")),
        still("no-pair", secure("empty")),
        still("no-cert-secret", secure("absent")),
        still("no-index", json!({"url": "OPEN/broken"})),
        still("list-index", json!({"url": "OPEN/list"})),
        still("empty-index", json!({"url": "OPEN/empty"})),
        still("no-version-index", json!({"url": "OPEN/no-version"})),
        still("charts", json!({"url": open})),
        still("locked", locked("login")),
        still("no-host", json!({"url": "http://"})),
        still("no-url", json!({"url": "http://a b/"})),
        still("not-oci", json!({"url": "oci://REGISTRY/charts"})),
        act(
            "turns-oci",
            json!({"url": "oci://REGISTRY/charts", "type": "oci", "insecure": true}),
            [
                spec(json!({"type": "default", "url": open})),
                spec(json!({"type": "oci", "url": "oci://REGISTRY/charts"})),
            ],
        ),
        still(
            "oci",
            json!({"url": "oci://REGISTRY/charts", "type": "oci", "insecure": true}),
        ),
        still(
            "oci-locked",
            json!({"url": "oci://LOCKED/charts", "type": "oci", "insecure": true, "secretRef": {"name": "login"}}),
        ),
        still(
            "oci-docker",
            json!({"url": "oci://LOCKED/charts", "type": "oci", "insecure": true, "secretRef": {"name": "docker"}}),
        ),
        still(
            "oci-wrong",
            json!({"url": "oci://LOCKED/charts", "type": "oci", "insecure": true, "secretRef": {"name": "wrong-login"}}),
        ),
        still(
            "oci-elsewhere",
            json!({"url": "oci://LOCKED/charts", "type": "oci", "insecure": true, "secretRef": {"name": "docker-elsewhere"}}),
        ),
        still(
            "oci-no-login",
            json!({"url": "oci://LOCKED/charts", "type": "oci", "insecure": true}),
        ),
        still(
            "oci-no-secret",
            json!({"url": "oci://LOCKED/charts", "type": "oci", "insecure": true, "secretRef": {"name": "absent"}}),
        ),
        still("oci-http", json!({"url": open, "type": "oci"})),
    ]
}

fn artifacts() -> Vec<Act> {
    let web = |more: Value| {
        with(
            json!({"url": "oci://REGISTRY/charts/web", "insecure": true}),
            more,
        )
    };
    let tag = |tag: &str| json!({"ref": {"tag": tag}});
    let locked = |secret: &str| json!({"url": "oci://LOCKED/charts/web", "insecure": true, "ref": {"tag": "1.0.0"}, "secretRef": {"name": secret}});
    let by = |proxy: &str| web(json!({"ref": {"tag": "1.0.0"}, "proxySecretRef": {"name": proxy}}));
    let chart = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
    vec![
        act("asked", web(tag("1.0.0")), [look()]),
        act(
            "moves",
            web(tag("1.0.0")),
            [spec(tag("1.1.0")), spec(tag("absent"))],
        ),
        act("comes", web(tag("absent")), [spec(tag("1.0.0"))]),
        act(
            "rests",
            web(tag("1.0.0")),
            [
                spec(json!({"suspend": true, "ref": {"tag": "1.1.0"}})),
                spec(json!({"suspend": null})),
            ],
        ),
        act(
            "ignores",
            web(tag("1.0.0")),
            [
                spec(json!({"ignore": "*.md\n"})),
                spec(json!({"ignore": null})),
            ],
        ),
        act(
            "copies",
            web(tag("1.0.0")),
            [
                spec(json!({"layerSelector": {"mediaType": chart, "operation": "copy"}})),
                spec(json!({"layerSelector": {"mediaType": chart, "operation": "extract"}})),
            ],
        ),
        act(
            "loses",
            locked("lost-docker"),
            [vec![Delete("secrets", "lost-docker"), ask(&[])]],
        ),
        act(
            "outdated",
            web(tag("1.0.0")),
            [
                spec(json!({"ref": {"tag": "1.1.0"}, "layerSelector": {"mediaType": "a/b"}})),
                spec(json!({"layerSelector": null})),
            ],
        ),
        still("latest", web(json!({}))),
        still("range", web(json!({"ref": {"semver": "1.x"}}))),
        still("range-of-none", web(json!({"ref": {"semver": ">=9"}}))),
        still("no-range", web(json!({"ref": {"semver": "nonsense"}}))),
        still(
            "filter",
            web(json!({"ref": {"semver": "1.x", "semverFilter": "^1\\.0"}})),
        ),
        still(
            "filter-of-none",
            web(json!({"ref": {"semver": "1.x", "semverFilter": "^x"}})),
        ),
        still(
            "no-filter",
            web(json!({"ref": {"semver": "1.x", "semverFilter": "("}})),
        ),
        still("digest", web(json!({"ref": {"digest": "DIGEST"}}))),
        still(
            "digest-and-tag",
            web(json!({"ref": {"digest": "DIGEST", "tag": "1.1.0"}})),
        ),
        still(
            "no-digest",
            web(
                json!({"ref": {"digest": "sha256:0000000000000000000000000000000000000000000000000000000000000000"}}),
            ),
        ),
        still("not-a-digest", web(json!({"ref": {"digest": "nonsense"}}))),
        still(
            "no-repository",
            json!({"url": "oci://REGISTRY/charts/absent", "insecure": true}),
        ),
        still(
            "tag-in-url",
            json!({"url": "oci://REGISTRY/charts/web:1.0.0", "insecure": true}),
        ),
        still(
            "no-path",
            json!({"url": "oci://REGISTRY", "insecure": true}),
        ),
        still(
            "upper-case",
            json!({"url": "oci://REGISTRY/charts/Web", "insecure": true}),
        ),
        still(
            "layer-of-none",
            web(json!({"ref": {"tag": "1.0.0"}, "layerSelector": {"mediaType": "a/b"}})),
        ),
        still("docker", locked("docker")),
        still("docker-auth", locked("docker-auth")),
        still("docker-elsewhere", locked("docker-elsewhere")),
        still("docker-wrong", locked("docker-wrong")),
        still("opaque", locked("login")),
        still("no-entry", locked("empty")),
        still("no-secret", locked("absent")),
        still(
            "no-login",
            json!({"url": "oci://LOCKED/charts/web", "insecure": true, "ref": {"tag": "1.0.0"}}),
        ),
        still(
            "no-authority",
            web(json!({"ref": {"tag": "1.0.0"}, "certSecretRef": {"name": "no-authority"}})),
        ),
        still(
            "no-cert-secret",
            web(json!({"ref": {"tag": "1.0.0"}, "certSecretRef": {"name": "absent"}})),
        ),
        still(
            "timeout",
            web(json!({"ref": {"tag": "1.0.0"}, "timeout": "20s"})),
        ),
        still("proxied", by("proxy")),
        still("socks", by("socks")),
        still("no-proxy", by("absent")),
        still("no-address", by("no-address")),
        still("no-scheme", by("no-scheme")),
    ]
}

fn buckets() -> Vec<Act> {
    let files = |more: Value| {
        with(
            json!({"endpoint": "BUCKETS", "bucketName": "files", "insecure": true, "secretRef": {"name": "keys"}}),
            more,
        )
    };
    vec![
        act("asked", files(json!({})), [look()]),
        act(
            "ignores",
            files(json!({})),
            [
                spec(json!({"ignore": "good/\n"})),
                spec(json!({"ignore": null, "prefix": "web/"})),
            ],
        ),
        act(
            "moves",
            files(json!({})),
            [
                spec(json!({"bucketName": "absent"})),
                spec(json!({"bucketName": "files"})),
            ],
        ),
        act(
            "rests",
            files(json!({})),
            [
                spec(json!({"suspend": true})),
                spec(json!({"suspend": null, "prefix": "good/"})),
            ],
        ),
        still(
            "half-keys",
            files(json!({"secretRef": {"name": "half-keys"}})),
        ),
        still(
            "empty-keys",
            files(json!({"secretRef": {"name": "no-key"}})),
        ),
        still("no-secret", files(json!({"secretRef": {"name": "absent"}}))),
        still(
            "no-cert-secret",
            files(json!({"certSecretRef": {"name": "absent"}})),
        ),
        still(
            "no-authority",
            files(json!({"certSecretRef": {"name": "no-authority"}})),
        ),
        still("prefix-of-none", files(json!({"prefix": "absent/"}))),
        still("region", files(json!({"region": "eu-west-1"}))),
        still("aws", files(json!({"provider": "aws"}))),
        still("charts", files(json!({}))),
        still(
            "proxied",
            files(json!({"proxySecretRef": {"name": "proxy"}})),
        ),
        still(
            "no-proxy",
            files(json!({"proxySecretRef": {"name": "absent"}})),
        ),
        still(
            "url-endpoint",
            files(json!({"endpoint": "http://example.com"})),
        ),
    ]
}

fn trees() -> Vec<Act> {
    let fleet = |more: Value| with(json!({"url": "GITHUB/acme/fleet"}), more);
    vec![
        act("asked", fleet(json!({"ref": {"branch": "main"}})), [look()]),
        act(
            "ignores",
            fleet(json!({"ref": {"branch": "main"}})),
            [
                spec(json!({"ignore": "/good\n"})),
                spec(json!({"ignore": null})),
            ],
        ),
        act(
            "moves",
            fleet(json!({"ref": {"branch": "main"}})),
            [
                spec(json!({"ref": {"branch": "absent"}})),
                spec(json!({"ref": {"branch": "main"}})),
            ],
        ),
        act(
            "rests",
            fleet(json!({"ref": {"branch": "main"}})),
            [
                spec(json!({"suspend": true})),
                spec(json!({"suspend": null})),
            ],
        ),
        still("charts", fleet(json!({"ref": {"branch": "main"}}))),
        still("tag", fleet(json!({"ref": {"tag": "v1.0.0"}}))),
        still("range", fleet(json!({"ref": {"semver": "1.x"}}))),
        still("range-of-none", fleet(json!({"ref": {"semver": ">=9"}}))),
        still("name", fleet(json!({"ref": {"name": "refs/heads/main"}}))),
        still(
            "commit",
            fleet(json!({"ref": {"branch": "main", "commit": "COMMIT"}})),
        ),
        still(
            "no-secret",
            fleet(json!({"ref": {"branch": "main"}, "secretRef": {"name": "absent"}})),
        ),
    ]
}

fn charts() -> Vec<Act> {
    let from = |kind: &str, name: &str, chart: &str, version: &str| json!({"chart": chart, "version": version, "sourceRef": {"kind": kind, "name": name}});
    let web = |version: &str| from("HelmRepository", "charts", "web", version);
    let files = |files: &[&str]| json!({"valuesFiles": files});
    vec![
        act("asked", web("1.0.0"), [look()]),
        act(
            "moves",
            web("1.0.0"),
            [
                spec(json!({"version": "1.1.0"})),
                spec(json!({"version": "9.x"})),
            ],
        ),
        act("comes", web("9.x"), [spec(json!({"version": "1.0.0"}))]),
        act(
            "rests",
            web("1.0.0"),
            [
                spec(json!({"suspend": true, "version": "1.1.0"})),
                spec(json!({"suspend": null})),
            ],
        ),
        act(
            "values",
            with(web("1.0.0"), files(&["values.yaml"])),
            [
                spec(files(&["values.yaml", "values-blue.yaml"])),
                spec(files(&["absent.yaml"])),
            ],
        ),
        act(
            "values-of-none",
            with(
                web("1.0.0"),
                json!({"valuesFiles": ["absent.yaml"], "ignoreMissingValuesFiles": true}),
            ),
            [spec(
                json!({"valuesFiles": ["absent.yaml", "values-blue.yaml"]}),
            )],
        ),
        act(
            "tree-values",
            with(
                from("GitRepository", "charts", "charts/web", "*"),
                files(&["charts/web/values.yaml", "charts/web/values-blue.yaml"]),
            ),
            [
                spec(files(&["charts/web/absent.yaml"])),
                spec(json!({"reconcileStrategy": "Revision", "valuesFiles": null})),
            ],
        ),
        still("newest", web("*")),
        still("range", web("~1.0")),
        still("no-version", web("")),
        still("no-range", web("nonsense")),
        still("no-chart", from("HelmRepository", "charts", "absent", "*")),
        still("no-archive", from("HelmRepository", "charts", "lost", "*")),
        still(
            "broken-archive",
            from("HelmRepository", "charts", "broken", "*"),
        ),
        still("no-source", from("HelmRepository", "absent", "web", "*")),
        still("not-ready", from("HelmRepository", "no-index", "web", "*")),
        still("tree", from("GitRepository", "charts", "charts/web", "*")),
        still(
            "tree-dot",
            from("GitRepository", "charts", "./charts/web/", "*"),
        ),
        still(
            "tree-revision",
            with(
                from("GitRepository", "charts", "charts/web", "*"),
                json!({"reconcileStrategy": "Revision"}),
            ),
        ),
        still(
            "tree-no-chart",
            from("GitRepository", "charts", "charts/absent", "*"),
        ),
        still(
            "tree-not-a-chart",
            from("GitRepository", "charts", "good", "*"),
        ),
        still(
            "tree-above",
            from("GitRepository", "charts", "../charts/web", "*"),
        ),
        still("bucket", from("Bucket", "charts", "web", "*")),
        still("oci", from("HelmRepository", "oci", "web", "1.0.0")),
        still("oci-range", from("HelmRepository", "oci", "web", "1.x")),
        still(
            "oci-no-version",
            from("HelmRepository", "oci", "web", "9.x"),
        ),
        still("oci-no-chart", from("HelmRepository", "oci", "absent", "*")),
        still(
            "oci-no-chart-version",
            from("HelmRepository", "oci", "absent", "1.0.0"),
        ),
        still(
            "oci-locked",
            from("HelmRepository", "oci-locked", "web", "1.0.0"),
        ),
        still(
            "oci-docker",
            from("HelmRepository", "oci-docker", "web", "1.0.0"),
        ),
        still(
            "oci-wrong",
            from("HelmRepository", "oci-wrong", "web", "1.0.0"),
        ),
        still(
            "oci-elsewhere",
            from("HelmRepository", "oci-elsewhere", "web", "1.0.0"),
        ),
        still(
            "oci-no-login",
            from("HelmRepository", "oci-no-login", "web", "1.0.0"),
        ),
        still(
            "oci-no-secret",
            from("HelmRepository", "oci-no-secret", "web", "1.0.0"),
        ),
        still("locked", from("HelmRepository", "locked", "web", "1.0.0")),
        still(
            "verified",
            with(
                web("1.0.0"),
                json!({"verify": {"provider": "cosign", "secretRef": {"name": "keys"}}}),
            ),
        ),
    ]
}
